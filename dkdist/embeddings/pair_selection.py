"""Selection of pairs of dimensions whose dependence differs between sets, and parameters for singles and pairs.

A set is cut into two random halves. Within a half, u_ij is the rank of point i in dimension j (ranks do not
depend on marginals), c_i its fraction of the weight, and

    T_ab(j, k) = sum_i c_i f_a(u_ij) f_b(u_ik),   f_a(u) = cos(pi a u) - its mean,   1 <= a, b <= 3

estimates a cosine coefficient of the copula of j and k: 0 on average if they are independent. If all sets have the same
copula, the T of the two halves are uncorrelated over the S sets. Each correlation r is tested one-sided by
t = r ((S - 2) / (1 - r^2))^(1/2); the p-value of a pair is the smallest of its nine, times nine (Bonferroni).

In the concatenated rows, squared distances of a pair have the weight (number of single dimensions) / (number of pairs).
Divergences have the same bound in one and two dimensions, so all pairs and all singles have equal total weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr
from scipy.stats import false_discovery_control

from dkdist._base.influence import weight_fractions
from dkdist._base.inputs import NO_POSITIONS, Sets, sample_sets
from dkdist._base.params import Domain
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import weight_array
from dkdist._numba.ranks import rank_sets
from dkdist._runtime.process import one_blas_thread
from dkdist.embeddings._tuning import (
    MAX_GROUP_NODES_PER_DIM,
    MAX_PAIR_SEARCH_COORDINATES,
    MAX_PAIR_SEARCH_SETS,
    MAX_PAIR_SEARCH_SUMS,
    MAX_SET_POINTS,
    MAX_TOTAL_PAIR_NODES,
    MIN_GROUP_NODES_PER_DIM,
    MIN_SET_POINTS,
    MIN_TESTED_SETS,
    MIN_VARIANCE,
    N_COSINES,
)
from dkdist.embeddings.structure import (
    ColumnSubset,
    Dims,
    FeatureBlock,
    FeatureUnionParams,
    StructureSpec,
    select_dims,
)
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class PairTests:
    """Largest t and p-value of each pair j < k of d dimensions, in the order of ``np.triu_indices(d, 1)``."""

    t: F64
    p: F64


def compute_pair_tests(sets: SampleSets) -> PairTests:
    """Test all pairs of dimensions. Sets of fewer than 8 points of positive weight are ignored.

    Cost: 18 n d^2 products for n points, and 45 d^2 sums for each set.
    """
    d, halves = sets.n_dims, _halves(sets)
    n_pairs, n_sets = d * (d - 1) // 2, len(halves) // 2
    if n_sets < MIN_TESTED_SETS:
        return PairTests(np.zeros(n_pairs), np.ones(n_pairs))
    with one_blas_thread():  # the products of single sets are too small for threads
        r = _correlations(halves)
    by_pair = r.reshape(d, N_COSINES, d, N_COSINES).transpose(0, 2, 1, 3)[np.triu_indices(d, 1)]
    r = np.clip(by_pair.reshape(n_pairs, -1).max(axis=1), 0, 1 - 1e-15)
    t = r * np.sqrt((n_sets - 2) / (1 - r**2))
    return PairTests(t, np.minimum(N_COSINES**2 * stdtr(n_sets - 2, -t), 1))


def _halves(sets: SampleSets) -> SampleSets:
    """Return both halves of each set as consecutive sets, with up to 512 points of positive weight each."""
    rng = np.random.default_rng([0, RngStream.HALVES])
    set_index = np.repeat(np.arange(len(sets)), sets.sizes)
    rows = np.arange(len(set_index))
    if sets.weights is not None:
        rows = np.flatnonzero(sets.weights.reshape(-1) > 0)
    rows = rows[np.lexsort((rng.random(len(rows)), set_index[rows]))]
    sizes = np.bincount(set_index[rows], minlength=len(sets))
    half = np.where(sizes >= MIN_SET_POINTS, np.minimum(sizes, MAX_SET_POINTS) // 2, 0)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = rows[rank < 2 * np.repeat(half, sizes)]
    offsets = np.concatenate([[0], np.cumsum(np.repeat(half[half > 0], 2))])
    return sets._of_rows(rows, offsets)


def _correlations(halves: SampleSets) -> F64:
    """Return correlations (3 d, 3 d) over sets between T of first and second halves, weighted by effective size."""
    m = N_COSINES * halves.n_dims
    first, second, both, square_1, square_2 = np.zeros((5, m, m))
    total = 0.0
    for s in range(0, len(halves), 2):
        # one set at a time, because scores take 72 d bytes per point
        one, other = (_scores(halves[i : i + 1]) for i in (s, s + 1))
        T1, T2, w = one[0].T @ one[0], other[0].T @ other[0], float(np.sqrt(one[1] * other[1]))
        total += w
        for to, part in ((first, T1), (second, T2), (both, T1 * T2), (square_1, T1**2), (square_2, T2**2)):
            to += w * part
    covariance = both / total - first * second / total**2
    v1, v2 = square_1 / total - (first / total) ** 2, square_2 / total - (second / total) ** 2
    is_defined = (v1 > MIN_VARIANCE) & (v2 > MIN_VARIANCE)
    return np.divide(
        covariance, np.sqrt(np.where(is_defined, v1 * v2, 1)), out=np.zeros_like(v1), where=is_defined
    )


def _scores(half: SampleSets) -> tuple[F64, float]:
    """Return the centred cosines (n_points, 3 d) of the ranks of a half, times c^(1/2), and its effective size."""
    points, offsets = half.relative, half.offsets
    u = np.empty(points.shape)
    rank_sets(points, offsets, points, offsets, *weight_array(half.weights), u)
    c = weight_fractions(half)
    f = np.cos(np.pi * u[:, :, None] * np.arange(1, N_COSINES + 1)).reshape(len(u), -1)
    f -= np.add.reduceat(c[:, None] * f, [0])
    f *= np.sqrt(c)[:, None]
    return f, float(1 / (c**2).sum())


FALSE_DISCOVERY_RATE = 0.01  # Benjamini, Hochberg (1995); tests/densities/test_structure.py

Pair = tuple[int, int]


def pair_search_sample(sets: Sets, bad: I64) -> SampleSets:
    """Load up to 1,024 sets with about four million coordinates; fewer sets in high dimensions."""
    d = sets.n_dims
    n_sets = int(np.clip(MAX_PAIR_SEARCH_SUMS // (N_COSINES * d) ** 2, 1, MAX_PAIR_SEARCH_SETS))
    return sample_sets(sets, bad, n_sets, MAX_PAIR_SEARCH_COORDINATES // d)


def select_pairs(sets: SampleSets) -> list[Pair]:
    """Return the significant pairs, largest t first."""
    tests = compute_pair_tests(sets)
    if len(tests.p) == 0:
        return []
    first, second = np.triu_indices(sets.n_dims, 1)
    order = np.argsort(-tests.t, kind="stable")
    significant = order[false_discovery_control(tests.p)[order] <= FALSE_DISCOVERY_RATE]
    return [(int(first[i]), int(second[i])) for i in significant]


class PairedParams(NamedTuple):
    """Parameters, the ``pairs`` (or groups of three) that they contain, and the number of significant pairs."""

    spec: Any
    pairs: tuple[Dims, ...]
    n_found: int


def build_paired_params(
    structure: StructureSpec,
    columns: ColumnSubset,
    make: Callable[[ColumnSubset], Any],
    n_nodes: int | None,
) -> PairedParams:
    """Build parameters of the single dimensions and groups of ``structure``.

    ``make`` builds the parameters for some columns. ``n_nodes`` is the number of nodes of a pair, or None.
    """
    sample = pair_search_sample(columns.sets, columns.bad)
    pairs, n_found = structure.groups, len(structure.groups or ())
    if pairs is None:
        significant = select_pairs(sample)
        max_pairs = max(1, MAX_TOTAL_PAIR_NODES // (n_nodes or MIN_GROUP_NODES_PER_DIM**2))
        pairs, n_found = tuple(significant[:max_pairs]), len(significant)
    has_all_singles = structure.singles == columns.dims
    if has_all_singles and not pairs:
        return PairedParams(make(columns), pairs, n_found)
    singles = columns
    if not has_all_singles:
        singles = _select_columns(sample, columns.domain, structure.singles, "marginal")
    parts = [
        FeatureBlock(singles.dims, make(singles)),
        *_group_blocks(pairs, sample, columns.domain, make, len(structure.singles)),
    ]
    return PairedParams(FeatureUnionParams(columns.domain, tuple(parts)), pairs, n_found)


def _group_blocks(
    pairs: tuple[Dims, ...],
    sample: SampleSets,
    domain: Domain,
    make: Callable[[ColumnSubset], Any],
    n_singles: int,
) -> Iterator[FeatureBlock]:
    for dims in pairs:
        columns = _select_columns(sample, domain, dims, "tensor", _max_group_nodes(len(pairs), len(dims)))
        yield FeatureBlock(dims, make(columns), n_singles / len(pairs))


def _select_columns(
    sets: SampleSets, domain: Domain, dims: Dims, kind: str, max_nodes: int | None = None
) -> ColumnSubset:
    return ColumnSubset(select_dims(sets, dims), NO_POSITIONS, domain.select(dims), dims, kind, max_nodes)


def _max_group_nodes(n_groups: int, d: int) -> int:
    """Return the largest number of nodes per dimension of each group of d dimensions."""
    nodes_per_dim = (MAX_TOTAL_PAIR_NODES / n_groups) ** (1 / d) + 1e-9  # allows for rounding of the root
    return int(np.clip(nodes_per_dim, MIN_GROUP_NODES_PER_DIM, MAX_GROUP_NODES_PER_DIM[d]))
