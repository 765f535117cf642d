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

Up to 1,024 points all pairs are compared. More are gathered in bins, each a random group of as many points of one
sample, and G exchanges bins: a group of permutations too, so that the level is as exact, and the cost of permutations
does not grow with the points. Up to 4,096 points every point is its own bin. (Domingo-Enrich, Dwivedi, Mackey: Cheap
permutation testing, 2025.) What is left over when points are shared out, or when one sample is much larger than the
other, stays where it is.

Which kernel is best nobody knows, and each that is tried takes power from the others. So each kernel has a share of the
level (`dkdist.kernel.comparing.shares_of_level`). Most of it goes to the energy distance and the means, which see
shifts; a difference of shape would be seen in both samples together, and what looks for shapes has as much of the level
as is seen there (`dkdist.kernel.comparing.traces_of_shape`). In many dimensions both together say how wide kernels
ought to be (`dkdist.kernel.comparing.parts_of_points`). Of the pooled points, too, nobody asks whose they are. The
shares were chosen by what the test loses to the best of its peers, on other draws, and mostly on other cases, than
those that `benchmarks/two_sample.py` shows the power for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist.base.roles import Role
from dkdist.kernel.comparing.kernel_family import Family, Frequencies, kernel_family, shared_frequencies
from dkdist.kernel.comparing.samples import Look, Sample, in_units
from dkdist.kernel.comparing.shares_of_level import combined, evidence, standardised
from dkdist.kernel.sums.random_loops import waves_of
from dkdist.loops.array_types import F64, U16

MOST_BINS = 4096  # of both samples
FREQUENCIES = 51  # of each bandwidth, at least; more, at the same cost, where bins are fewer than most
SAMPLE = 1024  # points that bandwidths are taken of; so many at most are compared by all pairs
LARGEST = 1e300  # unit of the points
AT_ONCE = 256  # permutations
TIES = 1e-4  # standard deviations: statistics that differ by less are equal, as sums are float32
EQUAL = 1e-12  # features of points that differ by less do not differ: what is added in another order is no evidence
EQUAL_BINS = 1e-5  # the same of their means in bins, in float32


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
    with np.errstate(over="ignore"):
        centre = 4 * np.median(sample / 4, axis=0)  # no sum of two of them is infinite
        far = np.abs(sample - centre)
        unit = min(float(np.median(far[far > 0])), LARGEST) if far.any() else 1.0
    u = in_units(sample, centre, unit)
    family = kernel_family(u, sample)
    if family is None:
        return Found(0.0, 1.0, "gaussian", unit)
    if len(u) == P.n + Q.n:
        T = _from_all_pairs(u, sample, P.n, family, n_permutations, rng)
    else:
        shared = shared_frequencies(family.sigmas, P.d, n_frequencies(P.n, Q.n), seed)
        look = Look(centre, unit, waves_of(shared.W, np.zeros(P.d)), len(shared.W), family)
        T = _from_frequencies(P, Q, look, shared, n_permutations, rng)
    t = standardised(T)
    found = evidence(t, family.shares)
    S = combined(found)
    p_value = float((S[0] - TIES <= S).mean())
    with np.errstate(over="ignore"):
        sigma = family.sigmas[int(np.argmax(t[: len(family.sigmas), 0]))] * unit
    sigma = np.clip(sigma, np.nextafter(0, 1), np.finfo(float).max)
    return Found(float(S[0]), p_value, family.names[int(np.argmax(found[:, 0]))], float(sigma))


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
    """Of each bandwidth: as many as let all permutations cost what those of 4,096 bins do."""
    _, of_P, of_Q = bins_of(n, m)
    return int(FREQUENCIES * MOST_BINS / (of_P + of_Q))


def _bins(n: int, size: int, count: int, rng: np.random.Generator) -> U16:
    """The bin of each of n points, at random; ``count`` for those that are left over."""
    bins = np.full(n, count, np.uint16)
    bins[: size * count] = np.repeat(np.arange(count, dtype=np.uint16), size)
    rng.shuffle(bins)
    return bins


def _partitions(
    own: NDArray[np.bool_], n_permutations: int, rng: np.random.Generator
) -> Iterator[NDArray[np.bool_]]:
    """Which of the places are of P, some partitions at a time: as they are first, then permuted."""
    for start in range(0, n_permutations + 1, AT_ONCE):
        inside = np.tile(own, (min(AT_ONCE, n_permutations + 1 - start), 1))
        later = inside[1:] if start == 0 else inside
        rng.permuted(later, axis=1, out=later)
        yield inside


def _from_all_pairs(
    u: F64, x: F64, n: int, family: Family, n_permutations: int, rng: np.random.Generator
) -> F64:
    """Squared distances by each kernel (kernels, B + 1), of points (N, d), in units and as they are given, of which the
    first n are of P, and permuted.

    Weights z of points add up to 0. So D^2 = z' k z = z' (k - 1) z, where no wide kernel is rounded to 1, and moments
    may be seen from the first point's: what does not vary is 0.
    """
    m = len(u) - n
    features = family.features(x)
    features -= features[0]
    features[np.abs(features) < EQUAL] = 0
    kernels = [np.expm1(-squares / 2).astype(np.float32) for squares in family.squares(u, x)]
    found = list[F64]()
    for inside in _partitions(np.arange(n + m) < n, n_permutations, rng):
        z = np.where(inside, 1 / n, -1 / m)
        few = z.astype(np.float32)
        gaussian = np.stack([np.einsum("bi,bi->b", few @ k, few, dtype=np.float64) for k in kernels])
        found.append(family.distances(gaussian, z @ features))
    return np.concatenate(found, axis=1)


def _from_frequencies(
    P: Sample, Q: Sample, look: Look, shared: Frequencies, n_permutations: int, rng: np.random.Generator
) -> F64:
    """Squared distances by each kernel, of the samples as they are and permuted: (kernels, B + 1)."""
    n, m, F2 = P.n, Q.n, 2 * look.n_frequencies
    size, of_P, of_Q = bins_of(n, m)
    p = P.bin_sums(look, _bins(n, size, of_P, rng), of_P + 1)
    q = Q.bin_sums(look, _bins(m, size, of_Q, rng), of_Q + 1)
    middle = (p.sum(axis=0, dtype=np.float64) + q.sum(axis=0, dtype=np.float64)) / (
        n + m
    )  # which no difference knows
    bins = (np.concatenate([p[:-1], q[:-1]]) - size * middle).astype(np.float32)
    equal = np.ptp(bins, axis=0) <= EQUAL_BINS * size
    rest_p, rest_q = p[-1] - (n - size * of_P) * middle, q[-1] - (m - size * of_Q) * middle
    for sums in (bins, rest_p, rest_q):
        sums[..., equal] = 0
    fixed = rest_p / n - (rest_q + bins.sum(axis=0, dtype=np.float64)) / m
    found = list[F64]()
    for inside in _partitions(np.arange(len(bins)) < of_P, n_permutations, rng):
        apart = fixed + (1 / n + 1 / m) * (inside.astype(np.float32) @ bins)
        found.append(look.family.by_frequencies(shared.of_waves(apart[:, :F2]), apart[:, F2:]))
    return np.concatenate(found, axis=1)
