"""A two-sample test by many kernels at once, at an exact level, in time linear in the points.

Why the level is exact. Let the N pooled points be exchangeable, as they are if both samples are independent draws of
one distribution, and let g_1 .. g_B be drawn independently and evenly from a group G of permutations of their places.
A statistic of the samples as they are, S_0 = s(x), and those of the permuted ones, S_b = s(g_b x), are then
exchangeable: with g_0 drawn from G too, x and g_0 x have one distribution, and (g_0, g_1 g_0, .., g_B g_0) are
independent even draws from G, in any order. So do (S_0, .., S_B) in R^K, one number for each kernel. A rule c that
treats all B + 1 of them alike, as standardising by their own mean and deviation does, keeps c(S)_0 .. c(S)_B
exchangeable, and #{b : c_b >= c_0} / (B + 1) <= a with probability at most a: for any kernels, any features that stand
for them, any n and m, and any B. (Hemerik, Goeman 2018, theorem 2.) Bandwidths and frequencies may look at the pooled
points, as long as they do not know whose they are.

Points are gathered in bins, each a random group of as many points of one sample, and G exchanges bins: a group of
permutations too, so that the level is as exact, and the cost of permutations does not grow with the points. Up to
4,096 points every point is its own bin. (Domingo-Enrich, Dwivedi, Mackey: Cheap permutation testing, 2025.) What is
left over when points are shared out, or when one sample is much larger than the other, stays where it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist.base.roles import Role
from dkdist.kernel.comparing.kernel_family import Family, kernel_family
from dkdist.kernel.comparing.samples import Look, Sample, in_units
from dkdist.kernel.sums.random_loops import waves_of
from dkdist.loops.array_types import F64, U16

MOST_BINS = 4096  # of both samples
FREQUENCIES = 51  # of each bandwidth, at least
MORE_FOR_FEW = 4  # times as many where points are few: what is narrow shows in few of them
SAMPLE = 1024  # points that bandwidths are taken of
LARGEST = 1e300  # unit of the points
AT_ONCE = 256  # permutations
TIES = 1e-4  # standard deviations: statistics that differ by less are equal, as sums are float32
RESOLVED = 1e-5  # of the mean of a statistic: its standard deviation over permutations, if it is no rounding


class Found(NamedTuple):
    """Statistic of the samples as they are, its p-value, the kernel that it is of, and the most telling bandwidth."""

    statistic: float
    p_value: float
    kernel: str
    sigma: float


def aggregated_test(P: Sample, Q: Sample, n_permutations: int, seed: int) -> Found:
    """The test of two samples by all kernels of a `kernel_family` at once."""
    rng = np.random.default_rng([seed, Role.PERMUTATIONS])
    sample = _pooled_rows(P, Q, rng)
    centre = np.median(sample, axis=0)
    with np.errstate(over="ignore"):
        far = np.abs(sample - centre)
    unit = min(float(np.median(far[far > 0])), LARGEST) if far.any() else 1.0
    family = kernel_family(in_units(sample, centre, unit), n_frequencies(P.n, Q.n), seed)
    if family is None:
        return Found(0.0, 1.0, "gaussian", unit)
    waves = waves_of(family.frequencies, np.zeros(P.d))
    look = Look(centre, unit, waves, len(family.frequencies), family.spread)
    scores = standardised(_statistics(P, Q, look, family, n_permutations, rng))
    largest = scores.max(axis=0)
    p_value = float((largest >= largest[0] - TIES).mean())
    sigma = family.sigmas[int(np.argmax(scores[: len(family.sigmas), 0]))] * unit
    return Found(float(largest[0]), p_value, family.names[int(np.argmax(scores[:, 0]))], float(sigma))


def standardised(T: F64) -> F64:
    """Each row of statistics (K, B + 1) as if it were normal: cube roots, from their mean, over their deviation.

    A squared kernel distance is under permutations nearly a sum of squares of normal numbers, whose cube root is nearly
    normal (Wilson, Hilferty 1931): so that wide and narrow kernels are compared on one scale. Zeros for a row that
    does not vary.
    """
    roots = np.cbrt(np.maximum(T, 0))
    mean, deviation = roots.mean(axis=1, keepdims=True), roots.std(axis=1, keepdims=True)
    return np.where(deviation > RESOLVED * mean, (roots - mean) / np.where(deviation > 0, deviation, 1), 0.0)


def _pooled_rows(P: Sample, Q: Sample, rng: np.random.Generator) -> F64:
    """Up to 1,024 of all points, drawn without a look at whose they are. All of what is not in memory is checked."""
    N = P.n + Q.n
    places = np.sort(rng.choice(N, min(SAMPLE, N), replace=False))
    own = places < P.n
    return np.concatenate([P.rows(places[own]), Q.rows(places[~own] - P.n)])


def bins_of(n: int, m: int) -> tuple[int, int, int]:
    """(points of a bin, bins of n points, bins of m points)."""
    size = -(-min(n, m) // (MOST_BINS // 2))
    few = min(n, m) // size
    many = min(max(n, m) // size, MOST_BINS - few)
    return (size, few, many) if n <= m else (size, many, few)


def n_frequencies(n: int, m: int) -> int:
    """Of each bandwidth: as many as let all permutations cost what those of 4,096 bins do, within limits."""
    _, of_P, of_Q = bins_of(n, m)
    return int(FREQUENCIES * min(MOST_BINS / (of_P + of_Q), MORE_FOR_FEW))


def _bins(n: int, size: int, count: int, rng: np.random.Generator) -> U16:
    """The bin of each of n points, at random; ``count`` for those that are left over."""
    bins = np.full(n, count, np.uint16)
    bins[: size * count] = np.repeat(np.arange(count, dtype=np.uint16), size)
    rng.shuffle(bins)
    return bins


def _statistics(
    P: Sample, Q: Sample, look: Look, family: Family, n_permutations: int, rng: np.random.Generator
) -> F64:
    """Squared distances by each kernel, of the samples as they are and permuted: (K, B + 1)."""
    n, m = P.n, Q.n
    size, of_P, of_Q = bins_of(n, m)
    p = P.bin_sums(look, _bins(n, size, of_P, rng), of_P + 1)
    q = Q.bin_sums(look, _bins(m, size, of_Q, rng), of_Q + 1)
    middle = (p.sum(axis=0, dtype=np.float64) + q.sum(axis=0, dtype=np.float64)) / (
        n + m
    )  # which no difference knows
    bins = (np.concatenate([p[:-1], q[:-1]]) - size * middle).astype(np.float32)
    rest_p, rest_q = p[-1] - (n - size * of_P) * middle, q[-1] - (m - size * of_Q) * middle
    fixed = rest_p / n - (rest_q + bins.sum(axis=0, dtype=np.float64)) / m
    own, found = np.arange(len(bins)) < of_P, list[F64]()
    for start in range(0, n_permutations + 1, AT_ONCE):
        inside = np.tile(own, (min(AT_ONCE, n_permutations + 1 - start), 1))
        later = inside[1:] if start == 0 else inside
        rng.permuted(later, axis=1, out=later)
        found.append(family.statistics(fixed + (1 / n + 1 / m) * (inside.astype(np.float32) @ bins)))
    return np.concatenate(found, axis=1)
