"""Densities of each dimension and of pairs that matter, side by side.

Each dimension and each pair is a divergence on its own scaled square. A pair's squared distances count
(number of dimensions alone) / (number of pairs) times: a divergence is bounded alike in one dimension and in two, so
the pairs together weigh what the dimensions together weigh, and neither side drowns, whatever their numbers.

Pairs of dimensions that depend on each other in ways that differ between sets: what densities of each alone miss.

A set is cut into two halves at random. Within a half, u_ij is the rank of point i in dimension j (so that marginals are
gone), c_i its share of the weight, and

    T_ab(j, k) = sum_i c_i f_a(u_ij) f_b(u_ik),   f_a(u) = cos(pi a u) - its mean,   1 <= a, b <= 3

is what the copula of j and k has of the product of these cosines: 0 on average where the two are independent. Where
all sets have one copula, however far it is from independence, the two halves of a set share nothing more, and the
correlation r of their T over the S sets is 0 (marginals then tell joint densities apart as well). So each r is tested
by t = r ((S - 2) / (1 - r^2))^(1/2), one-sided, and a pair has the least of its nine p-values, times nine (Bonferroni).

The pairs of dimensions that are worth a density: those whose dependence differs between sets, strongest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr
from scipy.stats import false_discovery_control

from dkdist._base.influence import weight_fractions
from dkdist._base.inputs import NONE, Sets, sample_sets
from dkdist._base.params import Domain
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import weight_array
from dkdist._numba.ranks import rank_sets
from dkdist._runtime.process import one_blas_thread
from dkdist.embeddings.structure import (
    Columns,
    Dims,
    FeatureBlock,
    FeatureUnionParams,
    StructureSpec,
    columns_of,
)
from dkdist.sets import SampleSets

DEGREES = 3
LEAST_POINTS, MOST_POINTS = 8, 1024  # of a set that is looked at, and that are looked at of it
LEAST_SETS = 4
NOTHING = 1e-12  # a variance of T that is rounding


@dataclass(frozen=True)
class PairTests:
    """Of every pair j < k of d dimensions, in the order of ``np.triu_indices(d, 1)``: largest t, and p-value."""

    t: F64
    p: F64


def test_dependence(sets: SampleSets) -> PairTests:
    """The tests of all pairs of dimensions. Sets of fewer than 8 points that weigh something say nothing.

    Cost: 18 n d^2 products for n points, and 45 d^2 sums for each set.
    """
    d, halves = sets.n_dims, _halves(sets)
    n_pairs, n_sets = d * (d - 1) // 2, len(halves) // 2
    if n_sets < LEAST_SETS:
        return PairTests(np.zeros(n_pairs), np.ones(n_pairs))
    with one_blas_thread():  # which products of single sets are too small for
        r = _correlations(halves)
    by_pair = r.reshape(d, DEGREES, d, DEGREES).transpose(0, 2, 1, 3)[np.triu_indices(d, 1)]
    r = np.clip(by_pair.reshape(n_pairs, -1).max(axis=1), 0, 1 - 1e-15)
    t = r * np.sqrt((n_sets - 2) / (1 - r**2))
    return PairTests(t, np.minimum(DEGREES**2 * stdtr(n_sets - 2, -t), 1))


def _halves(sets: SampleSets) -> SampleSets:
    """The first and the second half of each set, one set after the other; up to 512 points each, none of weight 0."""
    rng = np.random.default_rng([0, RngStream.HALVES])
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    kept = np.arange(len(owner))
    if sets.weights is not None:
        kept = np.flatnonzero(sets.weights.reshape(-1) > 0)
    kept = kept[np.lexsort((rng.random(len(kept)), owner[kept]))]
    sizes = np.bincount(owner[kept], minlength=len(sets))
    half = np.where(sizes >= LEAST_POINTS, np.minimum(sizes, MOST_POINTS) // 2, 0)
    place = np.arange(len(kept)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = kept[place < 2 * np.repeat(half, sizes)]
    offsets = np.concatenate([[0], np.cumsum(np.repeat(half[half > 0], 2))])
    return sets._of_rows(kept, offsets)


def _correlations(halves: SampleSets) -> F64:
    """(3 d, 3 d) correlations over sets of T of first halves with T of second ones, each set by its size."""
    m = DEGREES * halves.n_dims
    first, second, both, square_1, square_2 = np.zeros((5, m, m))
    total = 0.0
    for s in range(0, len(halves), 2):
        one, other = (_scores(halves[i : i + 1]) for i in (s, s + 1))  # of all sets: 72 d bytes a point
        T1, T2, w = one[0].T @ one[0], other[0].T @ other[0], float(np.sqrt(one[1] * other[1]))
        total += w
        for to, part in ((first, T1), (second, T2), (both, T1 * T2), (square_1, T1**2), (square_2, T2**2)):
            to += w * part
    covariance = both / total - first * second / total**2
    v1, v2 = square_1 / total - (first / total) ** 2, square_2 / total - (second / total) ** 2
    known = (v1 > NOTHING) & (v2 > NOTHING)
    return np.divide(covariance, np.sqrt(np.where(known, v1 * v2, 1)), out=np.zeros_like(v1), where=known)


def _scores(half: SampleSets) -> tuple[F64, float]:
    """(n_points, 3 d) cosines of one half's ranks less their means, times c^(1/2); and 1 / sum c^2."""
    points, offsets = half.relative, half.offsets
    u = np.empty(points.shape)
    rank_sets(points, offsets, points, offsets, *weight_array(half.weights), u)
    c = weight_fractions(half)
    f = np.cos(np.pi * u[:, :, None] * np.arange(1, DEGREES + 1)).reshape(len(u), -1)
    f -= np.add.reduceat(c[:, None] * f, [0])
    f *= np.sqrt(c)[:, None]
    return f, float(1 / (c**2).sum())


LEVEL = 0.01  # of false pairs among those that are found, at most, on average (Benjamini, Hochberg 1995)
MOST_DIMS = 512  # among which pairs are looked for
SEARCH_SETS, SEARCH_NUMBERS, SEARCH_SUMS = 1024, 2**22, 2**27  # sets, coordinates, numbers that are summed

Pair = tuple[int, int]


def looked_at(sets: Sets, bad: I64) -> SampleSets:
    """Up to 1,024 sets of about four million coordinates, in memory: what is chosen by, fewer of many dimensions."""
    d = sets.n_dims
    n_sets = int(np.clip(SEARCH_SUMS // (DEGREES * d) ** 2, 1, SEARCH_SETS))
    return sample_sets(sets, bad, n_sets, SEARCH_NUMBERS // d)


def found_pairs(sets: SampleSets) -> list[Pair]:
    """All pairs that are found, strongest first; the same for the same sets."""
    tests = test_dependence(sets)
    if len(tests.p) == 0:
        return []
    first, second = np.triu_indices(sets.n_dims, 1)
    order = np.argsort(-tests.t, kind="stable")
    kept = order[false_discovery_control(tests.p)[order] <= LEVEL]
    return [(int(first[i]), int(second[i])) for i in kept]


MOST_PAIRED_NODES = 2**13  # of all pairs of a set together: 81 pairs at 10 nodes a dimension
LEAST_PAIRED, MOST_PAIRED = 10, {2: 36, 3: 11}  # nodes of a dimension, of a pair and of three


class Paired(NamedTuple):
    """A specification, the ``pairs`` (or threes) that it has beside single dimensions, and how many were found."""

    spec: Any
    pairs: tuple[Dims, ...]
    n_found: int


def paired(
    asked: StructureSpec, looked: Columns, make: Callable[[Columns], Any], nodes: int | None
) -> Paired:
    """What is asked of the columns ``looked`` at; ``make`` gives the specification of some of them.

    ``nodes`` are those of a pair, where their number is given.
    """
    sample = looked_at(looked.sets, looked.bad)
    pairs, n_found = asked.together, len(asked.together or ())
    if pairs is None:
        found = found_pairs(sample)
        pairs, n_found = tuple(found[: _most_pairs(nodes)]), len(found)
    all_alone = asked.alone == looked.dims
    if all_alone and not pairs:
        return Paired(make(looked), pairs, n_found)
    singles = looked if all_alone else _some(sample, looked.domain, asked.alone, "marginal")
    parts = [
        FeatureBlock(singles.dims, make(singles)),
        *_groups(pairs, sample, looked.domain, make, len(asked.alone)),
    ]
    return Paired(FeatureUnionParams(looked.domain, tuple(parts)), pairs, n_found)


def _groups(
    pairs: tuple[Dims, ...],
    sample: SampleSets,
    domain: Domain,
    make: Callable[[Columns], Any],
    n_alone: int,
) -> Iterator[FeatureBlock]:
    """What stands beside the dimensions that are taken alone."""
    for dims in pairs:
        most = _most_nodes(len(pairs), len(dims))
        yield FeatureBlock(dims, make(_some(sample, domain, dims, "tensor", most)), n_alone / len(pairs))


def _some(sets: SampleSets, domain: Domain, dims: Dims, kind: str, most: int | None = None) -> Columns:
    """Some of the dimensions of good sets."""
    return Columns(columns_of(sets, dims), NONE, domain.of(dims), dims, kind, most)


def _most_pairs(nodes: int | None) -> int:
    """Of pairs that are found, how many are taken."""
    return max(1, MOST_PAIRED_NODES // (nodes or LEAST_PAIRED**2))


def _most_nodes(n_groups: int, d: int) -> int:
    """Nodes of a dimension that each of so many groups of d dimensions may have."""
    return int(np.clip((MOST_PAIRED_NODES / n_groups) ** (1 / d) + 1e-9, LEAST_PAIRED, MOST_PAIRED[d]))
