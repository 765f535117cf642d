"""Ridge regression with random intercepts of donors, compared with ridge regression of all visits.

    python benchmarks/studies_visits.py --seed 4907 --output studies_visits.json

Donors have 2 to 8 visits; y = x w + 1 + b_donor + e, where x w and b + e have variance 1. Random intercepts give visits
of a donor correlated errors: generalised least squares with the ratio t of the variances of b and e, which is estimated
from held-out residuals (one-way analysis of variance). Alpha has the least error for held-out donors in both cases.

Printed are the mean squared errors for new donors, of all visits, of weights 1 / visits, of one mean row per donor, and
of random intercepts; and for a later visit of a training donor: without an intercept, with the intercept
t m / (1 + t m) times the mean of the m residuals of the donor, and the same after generalised least squares.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from common import options, start_report, write

ALPHAS = 10.0 ** np.arange(-1, 4.1, 0.5)
N_FOLDS, N_NEW_DONORS = 5, 3000
SIZES = ((60, 20), (60, 100), (200, 30), (200, 100), (60, 400))  # donors, features
METHODS = ("all visits", "weights", "mean rows", "random intercepts")


def donor_means(values: np.ndarray, donor: np.ndarray) -> np.ndarray:
    order = np.flatnonzero(np.diff(donor, prepend=-1))  # donors are sorted
    sums = np.add.reduceat(values, order, axis=0)
    return sums / np.bincount(donor).reshape(-1, *[1] * (values.ndim - 1))


def rows_of(method: str, columns: np.ndarray, donor: np.ndarray, ratio: float) -> np.ndarray:
    """Return rows whose least squares are those of the method; columns are X, y and ones."""
    if method == "mean rows":
        return donor_means(columns, donor)
    m = np.bincount(donor)
    if method == "weights":
        return columns / np.sqrt(m)[donor, None]
    theta = 1 - 1 / np.sqrt(1 + ratio * m) if method == "random intercepts" else np.zeros(len(m))
    return columns - (theta[:, None] * donor_means(columns, donor))[donor]


def ridge(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (p, k) and intercepts (k,) of all alphas, from rows of X, y and ones."""
    X, y, one = columns[:, :-2], columns[:, -2], columns[:, -1]
    mean_x, mean_y = one @ X / (one @ one), one @ y / (one @ one)
    U, s, Vt = np.linalg.svd(X - np.outer(one, mean_x), full_matrices=False)
    filtered = s[:, None] / (s[:, None] ** 2 + ALPHAS) * (U.T @ (y - one * mean_y))[:, None]
    coef = Vt.T @ filtered
    return coef, mean_y - mean_x @ coef


def fit(
    method: str, X: np.ndarray, y: np.ndarray, donor: np.ndarray, fold: np.ndarray, ratio: float = 0.0
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the coefficients, the intercept and held-out residuals (n,) of the best alpha."""
    columns, residual = np.column_stack([X, y, np.ones(len(y))]), np.zeros((len(y), len(ALPHAS)))
    for f in range(N_FOLDS):
        test = fold[donor] == f
        known = np.unique(donor[~test], return_inverse=True)[1]
        coef, intercept = ridge(rows_of(method, columns[~test], known, ratio))
        residual[test] = y[test, None] - X[test] @ coef - intercept
    best = int((residual**2).sum(axis=0).argmin())
    coef, intercept = ridge(rows_of(method, columns, donor, ratio))
    return coef[:, best], float(intercept[best]), residual[:, best]


def variance_ratio(residual: np.ndarray, donor: np.ndarray) -> float:
    """Return the variance between donors divided by that within, by one-way analysis of variance."""
    m, means, n = np.bincount(donor), donor_means(residual, donor), len(donor)
    within = ((residual - means[donor]) ** 2).sum() / (n - len(m))
    between = (m * (means - residual.mean()) ** 2).sum() / (len(m) - 1)
    return float(max(between - within, 0.0) * (len(m) - 1) / (n - (m**2).sum() / n) / within)


def simulate(
    rng: np.random.Generator, n: int, p: int, of_donor: float, between: float
) -> tuple[list[float], list[float]]:
    """Return errors for new donors by method, and for later visits without and with intercepts.

    ``of_donor`` is the fraction of the features' variance, and ``between`` that of the noise, that donors explain.
    """
    w = rng.normal(size=p)
    w /= np.linalg.norm(w)

    def draw(visits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        donor = np.repeat(np.arange(len(visits)), visits)
        X = np.sqrt(of_donor) * rng.normal(size=(len(visits), p))[donor]
        X += np.sqrt(1 - of_donor) * rng.normal(size=(len(donor), p))
        b, e = rng.normal(size=len(visits)), rng.normal(size=len(donor))
        return X, X @ w + 1 + np.sqrt(between) * b[donor] + np.sqrt(1 - between) * e, donor

    X, y, donor = draw(rng.integers(3, 10, n))
    later = np.append(np.diff(donor) > 0, True)
    X_later, y_later = X[later], y[later]
    X, y, donor = X[~later], y[~later], donor[~later]
    X_new = draw(np.ones(N_NEW_DONORS, int))[0]
    fold, m = rng.permutation(np.arange(n) % N_FOLDS), np.bincount(donor)
    ratio = variance_ratio(fit("all visits", X, y, donor, fold)[2], donor)
    of_new, of_later = [], []
    for method in METHODS:
        coef, intercept, _ = fit(method, X, y, donor, fold, ratio)
        of_new.append(1 + float(((X_new @ (coef - w) + intercept - 1) ** 2).mean()))
        if method in ("all visits", "random intercepts"):
            b = ratio * m / (1 + ratio * m) * donor_means(y - X @ coef - intercept, donor)
            error = y_later - X_later @ coef - intercept
            of_later += [float((error**2).mean()), float(((error - b) ** 2).mean())]
    return of_new, [*of_later[:2], of_later[3]]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulations", type=int, default=8)
    arguments = parser.parse_args()
    n_simulations, sizes = (1, SIZES[:1]) if arguments.quick else (arguments.simulations, SIZES)
    report, errors = start_report(), {}
    print(f"| between | donors | features | of donor | {' | '.join(METHODS)} | later | with b | GLS, b |")
    for between, (n, p), of_donor in product((0.3, 0.5, 0.7), sizes, (0.0, 0.5, 0.9)):
        key = [arguments.seed, n, p, round(10 * of_donor), round(10 * between)]
        runs = [
            simulate(np.random.default_rng([*key, i]), n, p, of_donor, between) for i in range(n_simulations)
        ]
        mean = [float(v) for part in zip(*runs, strict=True) for v in np.mean(part, axis=0)]
        errors[f"{between}, {n}, {p}, {of_donor}"] = mean
        print(f"| {between} | {n} | {p} | {of_donor} | {' | '.join(f'{v:.3f}' for v in mean)} |", flush=True)
    for between in (0.3, 0.5, 0.7):
        E = np.array([mean for name, mean in errors.items() if name.startswith(f"{between},")])
        new, later = 1 - E[:, 1:4] / E[:, :1], 1 - E[:, 5:] / E[:, 4:5]
        report[str(between)] = {"new": new.mean(axis=0).tolist(), "later": later.mean(axis=0).tolist()}
        gains = ", ".join(
            f"{name} {value:.1%}" for name, value in zip(METHODS[1:], new.mean(axis=0), strict=True)
        )
        print(f"between {between}: reduction for new donors: {gains}; least and largest of random intercepts")
        print(
            f"  {new[:, 2].min():.1%}, {new[:, 2].max():.1%}; later visits: {later.mean(axis=0).round(3).tolist()}"
        )
    report["errors"] = errors
    write(arguments.output, report)


if __name__ == "__main__":
    main()
