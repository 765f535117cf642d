"""How many components has a Gaussian mixture? Regression over sample sets (P1, section 4.2 and Figure 4).

    python benchmarks/papers/mixture.py [--quick] [--points 200 800] [--seeds 3] [--first-seed 0]
                                        [--only NAME ...] [--pairwise 1000] [--output results.json]

Mixtures of 1 to 10 components in the plane; a set is 200 or 800 points of one, its target the number of components.
4,000, 8,000 and 16,000 sets to train on and 4,000 to test, three seeds of the data; D = 5,000 random features, ridge.
For every seed, parameter, sigma and penalty of each rival are chosen on a quarter of the first 4,000 training
sets with 1,000 features: 144 candidates each. Test sets are looked at once. The number of components does not change
when the plane is turned or reflected about the mixtures' own centre: "invariant" rows average features over the eight
symmetries of the square, which is why the domain is [-10, 10]^2 and not the bounds of the data, whose centre is
elsewhere.

Beside them, on less data, because each costs more: AIC and BIC of scikit-learn's GaussianMixture (ten fits a set; the
first 100 test sets), and kernel ridge on all pairs of 1,000 training and 500 test sets by nearest neighbours
(Kullback-Leibler, and Jensen-Shannon by entropies; 16,000 sets would be 256 times as many pairs).

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel embeddings
(2016).
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.mixture import GaussianMixture
from study import ALPHAS, Rival, chosen, options, rmse, show, spread, tune, write

import dkdist as dk
from dkdist.datasets.mixtures import DOMAIN_BOUND

BANDWIDTHS = (0.03, 0.045, 0.06, 0.08)  # of the plane scaled to the unit square
DOMAIN = (
    [-DOMAIN_BOUND, -DOMAIN_BOUND],
    [DOMAIN_BOUND, DOMAIN_BOUND],
)  # its centre is the mixtures' own, so reflections there are symmetries
TUNED_ON = 4000
SCORING = "neg_root_mean_squared_error"
MANY = tuple(2.0 ** (k / 3 - 2) for k in range(16))  # sigmas of a rival that has no parameter
SIGMAS = (0.25, 0.5, 1.0, 2.0)  # times the median distance between rows
LEADERS = ("Jensen-Shannon", "Hellinger")


def divergence(name: str) -> partial[Any]:
    return partial(dk.DivergenceEmbedding, name, domain=DOMAIN)


RIVALS = (
    Rival("Jensen-Shannon", divergence("jensen-shannon"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("Hellinger", divergence("hellinger"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("total variation", divergence("total-variation"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("L2", partial(dk.L2Embedding, 14, domain=DOMAIN), "bandwidth", (0.015, 0.03, 0.045, 0.06), SIGMAS),
    Rival("MMD", partial(dk.MeanEmbedding, 1000, random_state=0), "sigma", (0.6, 1.2, 2.4, 4.8), SIGMAS),
    Rival("histogram, Jensen-Shannon", partial(dk.HistogramEmbedding, domain=DOMAIN), "n_bins",
          (6, 8, 11, 16), SIGMAS),
    Rival("mean", partial(dk.MomentEmbedding, 1), sigmas=MANY),
    Rival("mean and covariance", partial(dk.MomentEmbedding, 2), sigmas=MANY),
    Rival("Jensen-Shannon, invariant", divergence("jensen-shannon"), "bandwidth", BANDWIDTHS, SIGMAS, "all"),
    Rival("Hellinger, invariant", divergence("hellinger"), "bandwidth", BANDWIDTHS, SIGMAS, "all"),
)  # fmt: skip


def mixtures(seed: int, n_sets: int, n_points: int) -> tuple[dk.SampleSets, np.ndarray]:
    """Sets, and their numbers of components as targets of a regression."""
    sets, y = dk.datasets.make_mixtures(n_sets, n_points, random_state=seed)
    return sets, y.astype(float)


def one_seed(
    seed: int, n_points: int, train: tuple[int, ...], n_test: int, rivals: list[Rival], D: int, tuning_D: int,
    few: int,
) -> dict[str, Any]:  # fmt: skip
    """Errors and times of all rivals at every number of training sets, for one seed of the data.

    "few" are the errors on the first ``few`` test sets, after training on the most.
    """
    sets, y = mixtures(seed, n_test + max(train), n_points)
    test, truth, sets, y = sets[:n_test], y[:n_test], sets[n_test:], y[n_test:]
    some, record = min(TUNED_ON, min(train)), {"constant": {"rmse": [float(np.std(truth))] * len(train)}}
    for rival in rivals:
        learner, start = dk.IncrementalRidge(random_state=seed), time.perf_counter()
        choice = tune(rival, sets[:some], y[:some], learner, tuning_D, seed, scoring=SCORING)
        row = record[rival.name] = {"rmse": [], "tuning_seconds": time.perf_counter() - start, "seconds": []}
        model, row["chosen"] = chosen(rival, choice, learner, D, seed), choice.record
        for n in train:
            start = time.perf_counter()
            result = model.fit(sets[:n], y[:n]).predict(test)
            row["rmse"].append(rmse(truth, result))
            row["seconds"].append(time.perf_counter() - start)
        row["few"] = rmse(truth[:few], result[:few]) if few else None
        errors = " ".join(f"{e:.4f}" for e in row["rmse"])
        print(f"  n={n_points} seed={seed} {rival.name:<28} {errors} {choice.record}", flush=True)
    if few and seed == 0:
        record["criteria"] = criteria(test[:few], truth[:few], seed)
    return record


def criteria(sets: dk.SampleSets, y: np.ndarray, seed: int) -> dict[str, float]:
    """AIC and BIC: the number of components whose fit by maximum likelihood has the least."""
    values = np.empty((2, len(sets), 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i, x in enumerate(sets):
            for k in range(10):
                model = GaussianMixture(k + 1, random_state=seed).fit(x.astype(float))
                values[:, i, k] = model.aic(x), model.bic(x)
    return {name: rmse(y, 1 + v.argmin(1)) for name, v in zip(("AIC", "BIC"), values, strict=True)}


def pairwise(seed: int, n_points: int, n_train: int, n_test: int) -> dict[str, Any]:
    """Kernel ridge on divergences between all pairs, and on the rows of the embedding, on equal data."""
    sets, y = mixtures(seed, n_train + n_test, n_points)
    test, train = sets[:n_test], sets[n_test:]
    A = dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.08, domain=DOMAIN).fit(train)
    a, b = A.transform(train).astype(float), A.transform(test).astype(float)
    euclid = [np.maximum((u**2).sum(1)[:, None] + (a**2).sum(1) - 2 * u @ a.T, 0) for u in (a, b)]
    result = {"Jensen-Shannon embedding": {"rmse": kernel_ridge(*euclid, y[n_test:], y[:n_test])}}
    for name, choices in (
        ("Kullback-Leibler, nearest neighbours",
         {"divergence": "kullback-leibler", "estimator": "knn", "symmetric": True}),
        ("Jensen-Shannon, entropies", {"divergence": "jensen-shannon", "estimator": "entropy"}),
    ):  # fmt: skip
        start = time.perf_counter()
        D = [
            np.maximum(dk.divergence_matrix(s, other=o, **choices), 0)
            for s, o in ((train, None), (test, train))
        ]
        seconds = time.perf_counter() - start
        result[name] = {"rmse": kernel_ridge(*D, y[n_test:], y[:n_test]), "seconds": seconds}
    return result


def kernel_ridge(D: np.ndarray, cross: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float:
    """The error of kernel ridge on exp(-D / (2 sigma^2)), sigma and penalty chosen on a quarter of the rows."""
    n = len(y) * 3 // 4
    median = float(np.sqrt(np.median(D[np.triu_indices(len(D), 1)])))
    best = (np.inf, 0.0, 0.0)
    for sigma in (m * median for m in MANY):
        K = dk.project_psd(np.exp(-D / (2 * sigma**2)))
        for alpha in ALPHAS:
            model = KernelRidge(alpha=alpha, kernel="precomputed").fit(K[:n, :n], y[:n] - y[:n].mean())
            best = min(best, (rmse(y[n:] - y[:n].mean(), model.predict(K[n:, :n])), sigma, alpha))
    _, sigma, alpha = best
    K = dk.project_psd(np.exp(-D / (2 * sigma**2)))
    model = KernelRidge(alpha=alpha, kernel="precomputed").fit(K, y - y.mean())
    return rmse(truth - y.mean(), model.predict(np.exp(-cross / (2 * sigma**2))))


def summary(runs: list[dict[str, Any]], train: tuple[int, ...]) -> dict[str, Any]:
    """Means and spreads over seeds, and how far each is behind the worse of the leaders (paired by seed)."""
    table: dict[str, Any] = {}
    leaders = [name for name in LEADERS if name in runs[0]]
    for name in runs[0]:
        table[name] = []
        for j in range(len(train)):
            values = np.array([run[name]["rmse"][j] for run in runs])
            lead = np.array([max((run[k]["rmse"][j] for k in leaders), default=np.nan) for run in runs])
            table[name].append(spread(values.tolist()) | {"behind": spread((values - lead).tolist())})
    return table


def show_seconds(runs: list[dict[str, Any]], train: tuple[int, ...]) -> dict[str, float]:
    """Seconds of all rivals together, mean over seeds: fit and prediction at each size, and the choice of settings."""
    rows = [[row for row in run.values() if "seconds" in row] for run in runs]
    total = {
        f"fit and predict, N = {n:,}": sum(row["seconds"][j] for run in rows for row in run) / len(rows)
        for j, n in enumerate(train)
    }
    total["choice of settings"] = sum(row["tuning_seconds"] for run in rows for row in run) / len(rows)
    show(f"seconds of all {len(rows[0])} embeddings together", ["s"], {k: [v] for k, v in total.items()})
    return total


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="300 sets of 100 points, D = 200, one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--points", type=int, nargs="+", default=[200, 800])
    parser.add_argument("--only", nargs="+", choices=[r.name for r in RIVALS], help="these rivals alone")
    parser.add_argument(
        "--pairwise", type=int, default=1000, help="training sets of all-pairs kernels; 0: none"
    )
    parser.add_argument("--criteria", type=int, default=100, help="test sets for AIC and BIC; 0: none")
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer")  # on purpose
    train, n_test, seeds, D, tuning_D = (4000, 8000, 16000), 4000, args.seeds, 5000, 1000
    if args.quick:
        train, n_test, seeds, D, tuning_D = (300,), 300, 1, 200, 200
        args.points, args.pairwise, args.criteria = [100], 60, 5
    rivals = [r for r in RIVALS if not args.only or r.name in args.only]
    report: dict[str, Any] = {"experiment": "mixture", "train": train, "test": n_test, "D": D, "points": {}}
    for n in args.points:
        runs = [
            one_seed(s, n, train, n_test, rivals, D, tuning_D, args.criteria)
            for s in (args.first_seed + k for k in range(seeds))
        ]
        limited = runs[0].pop("criteria", {})
        table = summary(runs, train)
        show(
            f"RMSE of the number of components, {n} points a set, {seeds} seed(s)",
            [f"N = {N:,}" for N in train],
            table,
        )
        behind = {k: [f"{c['behind']['mean']:+.4f} +- {c['behind']['sem']:.4f}" for c in v]
                  for k, v in table.items()}  # fmt: skip
        show(f"behind the worse of {LEADERS}: mean difference, standard error", [""] * len(train), behind)
        report["points"][n] = {"table": table, "runs": runs, "seconds": show_seconds(runs, train)}
        if args.criteria:
            limited |= {name: row["few"] for name, row in runs[0].items() if "few" in row}
            report["points"][n]["criteria"] = limited
            show(f"first {args.criteria} test sets of seed 0", ["RMSE"], {k: [v] for k, v in limited.items()})
        write(args.output, report)
    if args.pairwise:
        report["pairwise"] = pairwise(0, args.points[0], args.pairwise, args.pairwise // 2)
        print(f"  kernel ridge on all pairs of {args.pairwise} training sets:", report["pairwise"])
    write(args.output, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
