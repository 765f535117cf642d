"""Power and level of `group_test`, compared with simple permutation tests on the same sets and permutations.

    python benchmarks/group_test_power.py [quick]

Two groups of 12 sets of 80 points; the centres of sets are random (standard normal). Statistics of the simple tests:
the maximum |t| of means and standard deviations per axis; the maximum |t| of the distance of the farthest point from
the mean per axis; the squared maximum mean discrepancy of mean embeddings (256 random features, median bandwidths).
Printed are fractions of rejections at level 0.05.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import dkdist as dk

F64 = NDArray[np.float64]
N_SETS, N_POINTS, N_PERMUTATIONS, LEVEL = 12, 80, 199, 0.05
Draw = Callable[[np.random.Generator], F64]


def points(rng: np.random.Generator, d: int) -> F64:
    return rng.normal(rng.normal(size=d), 1, (N_POINTS, d))


def shifted(rng: np.random.Generator) -> F64:
    """Draw a set whose mean is shifted on one axis by 0.95 standard deviations of means between sets."""
    return points(rng, 5) + 0.95 * np.eye(5)[0]


def one_odd_point(rng: np.random.Generator) -> F64:
    x = points(rng, 5)
    x[0] = x.mean(axis=0) + 3.4 * np.eye(5)[0]
    return x


def scaled(rng: np.random.Generator) -> F64:
    x = points(rng, 20)
    mean = x.mean(axis=0)
    return mean + (x - mean) * (1 + 0.11 * np.eye(20)[0])


def heavy_tailed(rng: np.random.Generator) -> F64:
    return rng.normal(size=2) + rng.laplace(0, np.sqrt(0.5), (N_POINTS, 2))


def correlated(rng: np.random.Generator) -> F64:
    return rng.normal(size=2) + rng.multivariate_normal([0, 0], [[1, 0.25], [0.25, 1]], N_POINTS)


CASES: dict[str, tuple[int, Draw]] = {
    "mean of one of 5 axes": (5, shifted),
    "one odd point a set": (5, one_odd_point),
    "scale of one of 20 axes": (20, scaled),
    "heavier tails": (2, heavy_tailed),
    "correlation 0.25": (2, correlated),
}
N_TARGET_CASES = 3  # cases whose minimum ratio to the best simple test is printed
TESTS = ("group_test", "means, spreads", "extremes", "mean maps")


def p_values(sets: list[F64], seed: int) -> F64:
    """Return the p-values of `TESTS`, which compare the two halves of the sets."""
    rng, n = np.random.default_rng([seed, 1]), len(sets)
    groups = np.arange(n) >= n // 2
    labels = np.stack([groups, *(rng.permutation(groups) for _ in range(N_PERMUTATIONS))], axis=1)
    mean, deviation = np.array([x.mean(axis=0) for x in sets]), np.array([x.std(axis=0) for x in sets])
    farthest = np.array([np.abs(x - m).max(axis=0) for x, m in zip(sets, mean, strict=True)])
    maps = dk.MeanEmbedding(256, random_state=seed).fit_transform(sets).astype(float)
    result = dk.group_test(sets, groups, N_PERMUTATIONS, random_state=seed).p_value
    simple = (largest_t(np.hstack([mean, deviation]), labels), largest_t(farthest, labels), mmd(maps, labels))
    return np.array([result, *((T[0] - 1e-9 <= T).mean() for T in simple)])


def largest_t(columns: F64, labels: NDArray[np.bool_]) -> F64:
    z = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    # a monotone function of |t|, as groups are equally large
    return np.asarray(np.abs(z.T @ labels).max(axis=0))


def mmd(rows: F64, labels: NDArray[np.bool_]) -> F64:
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    K = np.exp(-((distances / np.median(distances[np.triu_indices(len(rows), 1)])) ** 2) / 2)
    signs = np.where(labels, 1.0, -1.0)
    return np.asarray((signs * (K @ signs)).sum(axis=0))


def rejections(d: int, draw: Draw | None, n_trials: int, seed: Sequence[int]) -> F64:
    """Return the fraction of trials in which each of `TESTS` rejects; with draw=None the groups do not differ."""
    rejected = np.zeros(len(TESTS))
    for trial in range(n_trials):
        rng = np.random.default_rng([*seed, trial])
        second = draw if draw is not None else lambda rng: points(rng, d)
        sets = [points(rng, d) for _ in range(N_SETS)] + [second(rng) for _ in range(N_SETS)]
        rejected += p_values(sets, trial) <= LEVEL
    return rejected / n_trials


def run_group_test(quick: bool, seed: int) -> list[str]:
    """Return lines of a table: rejections of all tests for each case, and without a difference."""
    n_power, n_level = (20, 40) if quick else (1000, 2000)
    lines = [
        f"rejections at level {LEVEL}, {N_SETS} + {N_SETS} sets of {N_POINTS} points, {n_power} trials "
        f"(standard error at most {0.5 / np.sqrt(n_power):.3f})",
        "",
        f"| case | {' | '.join(TESTS)} | ratio to the best simple test |",
        f"|---|{'---|' * (len(TESTS) + 1)}",
    ]
    ratios = []
    for i, (name, (d, draw)) in enumerate(CASES.items()):
        power = rejections(d, draw, n_power, [seed, i])
        ratio = power[0] / max(power[1:].max(), 1 / n_power)
        if i < N_TARGET_CASES:
            ratios.append(ratio)
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in power)} | {ratio:.2f} |")
    level = rejections(5, None, n_level, [seed, len(CASES)])
    lines.append(f"| no difference, {n_level} trials | {' | '.join(f'{value:.3f}' for value in level)} | |")
    lines += [
        "",
        f"smallest ratio of the first {N_TARGET_CASES} cases: {min(ratios):.2f}; level {level[0]:.3f}",
    ]
    return lines


if __name__ == "__main__":
    print("\n".join(run_group_test("quick" in sys.argv[1:], seed=0)))
