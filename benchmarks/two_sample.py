"""Power, level and time of `two_sample_test` without a bandwidth, compared with other two-sample tests.

    python benchmarks/two_sample.py [alternatives] [power] [level] [cost] [--quick] [--output two_sample.json]

alternatives  fraction of rejections at level 0.05 on 20 alternatives to normal points, 200 pairs of samples each, by
              dkdist, MMDAgg (ten Gaussian and ten Laplace kernels, all pairs of points, in NumPy) and energy distance
power         fraction of rejections on other simulated pairs (1,000 each) and real pairs (5,000 each), also by the
              kernel distance with the median bandwidth, and by the MMD test of hyppo if it is installed
level         fraction of rejections by dkdist for two samples of one distribution
cost          processor seconds by n, with 999 permutations, and with one bandwidth; one run each
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import options, start_report, write
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import dkdist as dk

Samples = tuple[np.ndarray, np.ndarray]
LEVEL, B = 0.05, 199


def shift(rng: np.random.Generator) -> Samples:
    return rng.normal(size=(100, 2)), rng.normal([0.45, 0], 1, (100, 2))


def scale(rng: np.random.Generator) -> Samples:
    return rng.normal(size=(100, 2)), 1.3 * rng.normal(size=(100, 2))


def waves(n: int, d: int, height: float, periods: int) -> Callable[[np.random.Generator], Samples]:
    """Draw uniform points, and points with density 1 + height prod_j sin(2 pi periods x_j)."""

    def draw(rng: np.random.Generator) -> Samples:
        x = rng.random((8 * n, d))
        density = 1 + height * np.sin(2 * np.pi * periods * x).prod(axis=1)
        return rng.random((n, d)), x[2 * rng.random(8 * n) < density][:n]

    return draw


DIGITS = load_digits()


def digits(rng: np.random.Generator) -> Samples:
    """Draw digits, and digits of which each is replaced by an odd one with probability 0.5."""
    images, odd = DIGITS.data, DIGITS.data[DIGITS.target % 2 == 1]
    P, Q = images[rng.choice(len(images), 120)], images[rng.choice(len(images), 120)]
    is_replaced = rng.random(120) < 0.5
    return P, np.where(is_replaced[:, None], odd[rng.choice(len(odd), 120)], Q)


def tails(rng: np.random.Generator) -> Samples:
    """Draw normal and Student-t points with equal variance."""
    return rng.normal(size=(300, 1)), rng.standard_t(3, size=(300, 1)) / np.sqrt(3)


def heavy(rng: np.random.Generator) -> Samples:
    """Draw two samples of Cauchy points that differ by a shift."""
    x, y = rng.standard_cauchy(size=(2, 80, 10))
    return x, y + 0.35


def far_out(rng: np.random.Generator) -> Samples:
    """Draw two samples that differ by a shift; 5 % of the points have 30 times the scale."""
    x, y = rng.normal(size=(2, 80, 10)) * np.where(rng.random((2, 80, 1)) < 0.05, 30, 1)
    return x, y + 0.25


def correlation(rng: np.random.Generator) -> Samples:
    x, y = rng.normal(size=(2, 120, 2))
    y[:, 1] = 0.45 * y[:, 0] + np.sqrt(1 - 0.45**2) * y[:, 1]
    return x, y


def beta(rng: np.random.Generator) -> Samples:
    return rng.random((200, 1)), rng.beta(1.35, 1.35, (200, 1))


def classes(data: np.ndarray, is_first: np.ndarray, n: int, p: float, q: float) -> Callable[..., Samples]:
    """Draw standardised points of two classes; the fractions of the first class are p and q."""
    x = (data - data.mean(axis=0)) / data.std(axis=0)
    first, other = x[is_first], x[~is_first]

    def draw(fraction: float, rng: np.random.Generator) -> np.ndarray:
        is_first = rng.random(n) < fraction
        return np.where(is_first[:, None], first[rng.choice(len(first), n)], other[rng.choice(len(other), n)])

    return lambda rng: (draw(p, rng), draw(q, rng))


CANCER, WINE, DIABETES = load_breast_cancer(), load_wine(), load_diabetes()
CASES: dict[str, Callable[[np.random.Generator], Samples]] = {
    "shift, d = 2": shift,
    "scale, d = 2": scale,
    "perturbed uniform, d = 1": waves(300, 1, 0.55, 4),
    "perturbed uniform, d = 2": waves(400, 2, 0.8, 2),
    "tails, d = 1": tails,
    "Cauchy, shifted, d = 10": heavy,
    "points far out, shifted, d = 10": far_out,
    "digits, d = 64": digits,
    "correlation, d = 2": correlation,
    "Beta(1.35, 1.35), d = 1": beta,
    "breast cancer, d = 30": classes(CANCER.data, CANCER.target == 1, 60, 0.5, 0.74),
    "wine, d = 13": classes(WINE.data, WINE.target == 1, 50, 0.35, 0.6),
    "diabetes, d = 10": classes(DIABETES.data, DIABETES.target > 140, 80, 0.35, 0.65),
}


def correlated(x: np.ndarray, correlation: float) -> np.ndarray:
    return np.c_[x[:, 0], correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1], x[:, 2:]]


def bimodal_axis(x: np.ndarray, separation: float, rng: np.random.Generator) -> np.ndarray:
    signs = rng.choice([-1.0, 1.0], len(x))
    return np.c_[signs * separation + x[:, 0] * np.sqrt(max(1 - separation**2, 0.05)), x[:, 1:]]


def rare_cluster(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    is_member = rng.random(len(x)) < 0.08
    return np.where(is_member[:, None], 0.15 * x + 2.4 / np.sqrt(x.shape[1]), x)


# (points per sample, dimensions, function of normal points and generator that returns the second sample)
ALTERNATIVES: dict[str, tuple[int, int, Callable[[np.ndarray, np.random.Generator], np.ndarray]]] = {
    "shift 0.45, d = 1": (100, 1, lambda x, rng: x + 0.45),
    "shift 0.3 of each axis, d = 2": (100, 2, lambda x, rng: x + 0.3),
    "shift 0.7 of one axis, d = 10": (100, 10, lambda x, rng: x + 0.7 * np.eye(10)[0]),
    "shift 0.12 of each axis, d = 100": (100, 100, lambda x, rng: x + 0.12),
    "scale 1.35, d = 1": (100, 1, lambda x, rng: 1.35 * x),
    "scale 1.3, d = 2": (100, 2, lambda x, rng: 1.3 * x),
    "scale 1.12, d = 10": (100, 10, lambda x, rng: 1.12 * x),
    "scale 1.04, d = 100": (100, 100, lambda x, rng: 1.04 * x),
    "scale 2 of one axis, d = 10": (100, 10, lambda x, rng: x * (1 + np.eye(10)[0])),
    "correlation 0.5, d = 2": (100, 2, lambda x, rng: correlated(x, 0.5)),
    "correlation 0.7 of two axes, d = 10": (100, 10, lambda x, rng: correlated(x, 0.7)),
    "correlation 0.15 of all axes, d = 10": (
        100, 10, lambda x, rng: np.sqrt(0.85) * x + np.sqrt(0.15) * rng.normal(size=(len(x), 1)),
    ),
    "bimodal, d = 1": (100, 1, lambda x, rng: bimodal_axis(x, 0.85, rng)),
    "bimodal axis, d = 2": (100, 2, lambda x, rng: bimodal_axis(x, 0.88, rng)),
    "bimodal axis, d = 4": (200, 4, lambda x, rng: bimodal_axis(x, 0.97, rng)),
    "bimodal axis, d = 10": (100, 10, lambda x, rng: bimodal_axis(x, 0.97, rng)),
    "cluster of 8 %, d = 2": (100, 2, rare_cluster),
    "cluster of 8 %, d = 10": (100, 10, rare_cluster),
    "cluster of 8 %, d = 10, 200 points": (200, 10, rare_cluster),
    "Student t(3), d = 3": (100, 3, lambda x, rng: rng.standard_t(3, x.shape) / np.sqrt(3)),
}  # fmt: skip

# Cases in which tests have similar power: more repetitions reduce the standard errors.
SIMILAR_POWER_CASES = {"digits, d = 64", "breast cancer, d = 30", "wine, d = 13", "diabetes, d = 10"}
N_SIMILAR_POWER_PAIRS = 5000


def partitions(n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    z = np.repeat([1 / n, -1 / m], [n, m])
    return np.stack([z, *(rng.permutation(z) for _ in range(B))])


def squares(K: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.einsum("bi,bi->b", Z @ K, Z)


def run_dkdist(P: np.ndarray, Q: np.ndarray, seed: int) -> float:
    return dk.two_sample_test(P, Q, n_permutations=B, random_state=seed).p_value


def median(P: np.ndarray, Q: np.ndarray, seed: int) -> float:
    return dk.two_sample_test(P, Q, sigma="median", n_permutations=B, random_state=seed).p_value


def mmdagg(P: np.ndarray, Q: np.ndarray, seed: int) -> float:
    """Return the p-value of MMDAgg (Schrab et al. 2023): a permutation test of the minimum p-value over kernels."""
    rng, x = np.random.default_rng(seed), np.concatenate([P, Q])
    Z = partitions(len(P), len(Q), rng)
    kernels = []
    for metric, profile in (
        ("euclidean", lambda t: np.exp(-(t**2) / 2)),
        ("cityblock", lambda t: np.exp(-t)),
    ):
        distances = pdist(x, metric)
        low, high = np.quantile(distances[distances > 0], [0.05, 0.95])
        R = cdist(x, x, metric)
        kernels += [squares(profile(R / width), Z) for width in np.geomspace(low / 2, 2 * high, 10)]
    ranks = np.stack([np.searchsorted(np.sort(T), T) for T in kernels])  # numbers of smaller values
    best = ranks.max(axis=0)
    return float((best >= best[0]).mean())


def energy(P: np.ndarray, Q: np.ndarray, seed: int) -> float:
    x = np.concatenate([P, Q])
    T = squares(-cdist(x, x), partitions(len(P), len(Q), np.random.default_rng(seed)))
    return float((T - T[0] >= -1e-12).mean())


def peers() -> dict[str, Callable[[np.ndarray, np.ndarray, int], float]]:
    """Return the tests of other installed libraries by name."""
    test_by_name: dict[str, Callable[[np.ndarray, np.ndarray, int], float]] = {}
    try:
        from hyppo.ksample import MMD

        test_by_name["hyppo MMD"] = lambda P, Q, seed: float(
            MMD().test(P, Q, reps=B, auto=False, random_state=seed)[1]
        )
    except ImportError:
        print("hyppo is not installed: skipped")
    return test_by_name


TESTS: dict[str, Callable[[np.ndarray, np.ndarray, int], float]] = {
    "ours": run_dkdist, "median bandwidth": median, "MMDAgg": mmdagg, "energy": energy,
}  # fmt: skip


def alternatives(quick: bool) -> dict[str, dict[str, float]]:
    repetitions, fractions = 6 if quick else 200, {}
    tests = {"ours": run_dkdist, "MMDAgg": mmdagg, "energy": energy}
    for name, (n, d, change) in ALTERNATIVES.items():
        hits = dict.fromkeys(tests, 0)
        for i in range(repetitions):
            rng = np.random.default_rng([20261127, i])
            P, Q = rng.normal(size=(n, d)), change(rng.normal(size=(n, d)), rng)
            for test, run in tests.items():
                hits[test] += run(P, Q, i) <= LEVEL
        fractions[name] = {test: count / repetitions for test, count in hits.items()}
        print(name, fractions[name], flush=True)
    fractions["mean"] = {test: float(np.mean([row[test] for row in fractions.values()])) for test in tests}
    print("mean", fractions["mean"], flush=True)
    return fractions


def power(quick: bool) -> list[dict[str, Any]]:
    rows = []
    tests = {**TESTS, **peers()}
    for name, draw in CASES.items():
        repetitions = 6 if quick else N_SIMILAR_POWER_PAIRS if name in SIMILAR_POWER_CASES else 1000
        hits = dict.fromkeys(tests, 0)
        for i in range(repetitions):
            P, Q = draw(np.random.default_rng([5, i]))
            for test, run in tests.items():
                hits[test] += run(P, Q, i) <= LEVEL
        row = {"case": name, "power": {test: count / repetitions for test, count in hits.items()}}
        rows.append(row)
        print(name, row["power"], flush=True)
    return rows


def level(quick: bool) -> dict[str, float]:
    repetitions, level_by_name = (40 if quick else 4000), {}
    nulls: dict[str, Callable[[np.random.Generator], Samples]] = {
        "normal, 60 and 40, d = 2": lambda rng: (rng.normal(size=(60, 2)), rng.normal(size=(40, 2))),
        "digits, 60 and 60": lambda rng: tuple(
            np.split(DIGITS.data[rng.choice(1797, 120, replace=False)], 2)
        ),
        "uniform, 6,000 and 5,000 in bins": lambda rng: (rng.random((6000, 1)), rng.random((5000, 1))),
    }
    for name, draw in nulls.items():
        p = [run_dkdist(*draw(np.random.default_rng([2, i])), i) for i in range(repetitions)]
        level_by_name[name] = float((np.array(p) <= LEVEL).mean())
        print("level", name, level_by_name[name], flush=True)
    return level_by_name


def cost(quick: bool) -> list[dict[str, float]]:
    rng, rows = np.random.default_rng(3), []
    run_dkdist(rng.random((50, 2)), rng.random((50, 2)), 0)
    for n in (10**3, 10**4) if quick else (10**3, 10**4, 10**5, 10**6, 5 * 10**6):
        P, Q = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
        start = time.process_time()
        dk.two_sample_test(P, Q, random_state=0)
        rows.append({"n": n, "m": n, "seconds": time.process_time() - start})
        if n == 10**3 or (n == 10**4 and not quick):
            start = time.process_time()
            dk.two_sample_test(P, Q, sigma=0.5, n_permutations=63, random_state=0)
            rows[-1]["one bandwidth, 63 permutations"] = time.process_time() - start
        print(rows[-1], flush=True)
    return rows


PARTS = {"alternatives": alternatives, "power": power, "level": level, "cost": cost}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help="alternatives, power, level, cost; default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown parts {sorted(unknown)}: choose from {', '.join(PARTS)}")
    report = start_report()
    for part in arguments.parts or PARTS:
        report[part] = PARTS[part](arguments.quick)
    write(arguments.output, report)


if __name__ == "__main__":
    main()
