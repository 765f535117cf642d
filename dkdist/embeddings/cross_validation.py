"""Bandwidths by least-squares cross-validation on a sample of the sets.

Let p have coefficients c_a = int p phi_a in the orthonormal cosines phi_a of [0, 1]^d. The reflected Gaussian estimate
has b_a C_a: C_a is the weighted mean of phi_a over the points, with weights u_i that sum to 1, and
b_a = exp(-sum_j (pi a_j h_j)^2 / 2). Its integrated squared error is, up to a constant,

    sum_a b_a^2 C_a^2 - 2 b_a U_a,    U_a = (C_a^2 - sum_i u_i^2 phi_a(x_i)^2) / (1 - sum_i u_i^2),

where U_a is an unbiased estimate of c_a^2. This is leave-one-out cross-validation (Rudemo 1982; Bowman 1984), summed
over sets, which share the bandwidth. Each set is divided by its int p^2 (estimated by sum_a b_a U_a at a small
bandwidth, at least 1), so that the sharpest densities do not dominate. The same sums over sets of C_a^2 and U_a are
used for every bandwidth. The squares are also sums of cosines, phi_a^2 = prod_{a_j > 0} (1 + cos(2 pi a_j x_j)), so
their means are coefficients of the points folded by x -> 1 - |1 - 2x|.

Candidates are 0.25 2^(-k/8). K degrees determine bandwidths down to 1 / K, which damp omitted degrees below 1 %. K
starts at 16 and is doubled while the best candidate is one of the smallest.

Ties would drive the bandwidth to zero, so equal points are merged. Points outside the domain, which would accumulate at
the boundary, are omitted. Atoms, which are ties with more than a tenth of the weight of a set, are also omitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._base.inputs import Sets, sample_sets
from dkdist._base.params import Domain, set_spans
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.process import one_blas_thread
from dkdist.embeddings._tuning import (
    BYTES_PER_COEFFICIENT,
    BYTES_PER_COORDINATE,
    CANDIDATES_PER_OCTAVE,
    COEFFICIENTS_PER_BATCH,
    FALLBACK_BANDWIDTH,
    MAX_BANDWIDTH,
    MAX_BANDWIDTH_SEARCH_COORDINATES,
    MAX_BANDWIDTH_SEARCH_SETS,
    MAX_CONCENTRATION,
    MAX_COORDINATE_ROUNDS,
    MAX_DEGREES_BY_DIM,
    MAX_TIED_FRACTION,
    MIN_SEARCH_DEGREES,
)
from dkdist.embeddings.coefficients import CoefficientSpec
from dkdist.embeddings.divergence_params import ball_of_degrees, min_ball_bandwidth
from dkdist.sets import SampleSets


def cross_validate_bandwidth(sets: Sets, bad: I64, domain: Domain, structure: str, minimum: float) -> F64:
    """Return the cross-validated bandwidth (1, d) on the scaled domain, at least ``minimum``.

    Uses at most 64 sets and about two million coordinates. Cost: two computations of their coefficients of 16 to 256
    degrees; about 20 ms for d = 2 and sets of 200 points, and always less than a second.
    """
    sample = sample_sets(
        sets, bad, MAX_BANDWIDTH_SEARCH_SETS, MAX_BANDWIDTH_SEARCH_COORDINATES // sets.n_dims
    )
    low, scale = domain.low_and_scale
    unit = (sample.relative - low) * scale
    columns = [unit]
    if structure == "marginal":
        columns = [np.ascontiguousarray(unit[:, [j]]) for j in range(unit.shape[1])]
    with one_blas_thread():  # the products are too small for threads
        bandwidths = [
            _select_bandwidth(distinct_points(u, sample.offsets, sample.weights), minimum, u.shape[1])
            for u in columns
        ]
    return np.concatenate(bandwidths)[None, :]


def search_bytes(n_sets: int, n_points: int, d: int) -> int:
    """Return an upper bound on the memory of `cross_validate_bandwidth`: the sample and its coefficients."""
    n_sampled = int(
        np.clip(
            MAX_BANDWIDTH_SEARCH_COORDINATES // d // max(1, n_points // n_sets),
            1,
            min(MAX_BANDWIDTH_SEARCH_SETS, n_sets),
        )
    )
    terms = max(int(n**k) for k, n in MAX_DEGREES_BY_DIM.items() if k <= d)
    coefficients = min(n_sampled * terms, COEFFICIENTS_PER_BATCH)
    return BYTES_PER_COORDINATE * n_sampled * (n_points // n_sets) * d + BYTES_PER_COEFFICIENT * coefficients


def _select_bandwidth(sets: SampleSets | None, minimum: float, d: int) -> F64:
    """Return the best bandwidths (d,) of sets on the unit cube."""
    if sets is None:
        return np.full(d, max(FALLBACK_BANDWIDTH, minimum))
    if d not in MAX_DEGREES_BY_DIM:
        return _select_ball_bandwidth(sets, minimum)
    K = MIN_SEARCH_DEGREES
    while True:
        candidates = _candidates(max(1 / K, minimum))
        h = best_bandwidth(coefficient_sums(sets, "tensor", (K,) * d), candidates)
        if h.min() > candidates[-2:].min() or candidates[-1] <= minimum or MAX_DEGREES_BY_DIM[d] <= K:
            return h
        K *= 2


def _select_ball_bandwidth(sets: SampleSets, minimum: float) -> F64:
    # The same number of terms as an embedding in d >= 4.
    minimum = max(minimum, min_ball_bandwidth(sets.n_dims))
    axes = ball_of_degrees((minimum,) * sets.n_dims)[2] / (np.pi * minimum)
    return best_bandwidth(coefficient_sums(sets, "ball", (axes,) * sets.n_dims), _candidates(minimum))


def _candidates(minimum: float) -> F64:
    """Return candidate bandwidths in descending order; the last is ``minimum``."""
    n = (
        int(np.ceil(CANDIDATES_PER_OCTAVE * np.log2(MAX_BANDWIDTH / minimum)))
        if minimum < MAX_BANDWIDTH
        else 0
    )
    return np.maximum(MAX_BANDWIDTH * 2.0 ** (-np.arange(n + 1) / CANDIDATES_PER_OCTAVE), minimum)


def distinct_points(unit: F32, offsets: I64, weights: F32 | None) -> SampleSets | None:
    """Merge equal points of sets; ``unit`` (n_points, d) are their points on the unit cube.

    Sets that consist of nearly one point are omitted. Return None if no set remains.
    """
    w = np.ones(len(unit)) if weights is None else weights.reshape(-1).astype(np.float64)
    inside = ((unit >= 0) & (unit <= 1)).all(axis=1) & (w > 0)
    points: list[F32] = []
    masses: list[F64] = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        is_inside = inside[start:stop]
        distinct, mass = _merge_ties(unit[start:stop][is_inside], w[start:stop][is_inside])
        if (mass**2).sum() < MAX_CONCENTRATION * mass.sum() ** 2:
            points.append(distinct)
            masses.append(mass / mass.sum())
    if not points:
        return None
    ends = np.cumsum([0, *map(len, points)])
    return SampleSets._trusted(np.concatenate(points), ends, np.concatenate(masses).astype(np.float32))


def _merge_ties(x: F32, w: F64) -> tuple[F32, F64]:
    """Return the distinct points of x and their weights, without atoms."""
    first = np.sort(x[:, 0]) if len(x) else np.zeros(0)
    if (first[1:] > first[:-1]).all():  # no ties
        return x, w
    order = np.lexsort(x.T[::-1])
    x, w = x[order], w[order]
    starts = np.flatnonzero(np.concatenate([[True], (x[1:] != x[:-1]).any(axis=1)]))
    mass, count = np.add.reduceat(w, starts), np.diff(np.append(starts, len(x)))
    is_no_atom = (count == 1) | (mass <= MAX_TIED_FRACTION * w.sum())
    return x[starts][is_no_atom], mass[is_no_atom]


@dataclass(frozen=True)
class CoefficientSums:
    """Sums over sets of C_a^2 (``squares``) and U_a (``unbiased``), each divided by int p^2 of the set.

    ``exponents`` (n_terms, d) are the degrees a.
    """

    exponents: I64
    squares: F64
    unbiased: F64

    def scores(self, candidates: F64) -> F64:
        """Return the estimated error of each candidate as the bandwidth of all dimensions: (n_candidates,)."""
        norm = (self.exponents**2).sum(axis=1)
        return np.array([self._score(np.exp(-norm * (np.pi * h) ** 2 / 2)) for h in candidates])

    def scores_along(self, j: int, bandwidth: F64, candidates: F64) -> F64:
        """Return the estimated error of each candidate for dimension j: (n_candidates,)."""
        a = self.exponents
        others = np.where(np.arange(a.shape[1]) == j, 0, np.pi * bandwidth) ** 2
        b = np.exp(-(a**2 @ others) / 2)
        squares = np.bincount(a[:, j], b**2 * self.squares)
        unbiased = np.bincount(a[:, j], b * self.unbiased)
        damping = np.exp(-(np.outer(np.pi * candidates, np.arange(len(squares))) ** 2) / 2)
        return np.asarray((damping**2 * squares - 2 * damping * unbiased).sum(axis=1))

    def _score(self, b: F64) -> float:
        return float((b**2 * self.squares - 2 * b * self.unbiased).sum())


def coefficient_sums(sets: SampleSets, structure: str, degrees: tuple[float, ...]) -> CoefficientSums:
    """Return the sums of weighted ``sets`` on the unit cube, each with at least two distinct points.

    ``structure`` ("tensor" or "ball") and ``degrees`` are those of a `CoefficientSpec`.
    """
    d = sets.n_dims
    spec = CoefficientSpec(Domain((0.0,) * d, (1.0,) * d, fixed=True), structure, degrees)
    a = spec.exponents
    norm = 2.0 ** (a > 0).sum(axis=1)  # phi_a^2 = norm * prod_j cos(pi a_j x_j)^2
    # damping for the pilot bandwidth 1 / K
    pilot = np.exp(-((np.pi * a / np.array(degrees)) ** 2).sum(axis=1) / 2)
    parent_terms = _parent_terms(a)
    squares, unbiased = np.zeros(len(a)), np.zeros(len(a))
    step = max(1, COEFFICIENTS_PER_BATCH // len(a))
    for first in range(0, len(sets), step):
        batch = sets[first : first + step]
        C2 = norm * _coefficients(spec, batch).astype(np.float64) ** 2
        concentration, folded = _fold_points(batch)
        diagonal = _coefficients(spec, folded).astype(np.float64)
        for terms, parents in parent_terms:  # sums over all subsets of the dimensions
            diagonal[:, terms] += diagonal[:, parents]
        U = (C2 - concentration * diagonal) / (1 - concentration)
        set_weight = 1 / np.maximum((U * pilot).sum(axis=1, keepdims=True), 1)
        squares += (set_weight * C2).sum(axis=0)
        unbiased += (set_weight * U).sum(axis=0)
    return CoefficientSums(a, squares, unbiased)


def _coefficients(spec: CoefficientSpec, sets: SampleSets) -> F32:
    return spec.materialize().of(sets, set_spans(sets))


def _fold_points(sets: SampleSets) -> tuple[F64, SampleSets]:
    """Return sum_i u_i^2 of each set, (n_sets, 1), and the sets of the folded points, weighted by u_i^2."""
    assert sets.weights is not None
    starts = sets.offsets[:-1]
    u = sets.weights.reshape(-1).astype(np.float64)
    u /= np.repeat(np.add.reduceat(u, starts), sets.sizes)
    concentration = np.add.reduceat(u**2, starts)
    folded_weights = (u**2 / np.repeat(concentration, sets.sizes)).astype(np.float32)
    folded = 1 - np.abs(1 - 2 * sets.relative)
    return concentration[:, None], SampleSets._trusted(folded, sets.offsets, folded_weights)


def _parent_terms(a: I64) -> list[tuple[I64, I64]]:
    """Return, for each dimension, the terms with a non-zero degree in it, and the same terms with degree 0 there."""
    base = int(a.max()) + 1
    powers = base ** np.arange(a.shape[1], dtype=np.int64)
    keys = a @ powers
    order = np.argsort(keys)
    result = []
    for j, power in enumerate(powers):
        terms = np.flatnonzero(a[:, j])
        parents = order[np.searchsorted(keys[order], keys[terms] - a[terms, j] * power)]
        result.append((terms, parents))
    return result


def best_bandwidth(sums: CoefficientSums, candidates: F64) -> F64:
    """Return the bandwidths (d,) of smallest estimated error, by coordinate descent from the best common bandwidth."""
    d = sums.exponents.shape[1]
    h = np.full(d, candidates[int(np.argmin(sums.scores(candidates)))])
    for _ in range(MAX_COORDINATE_ROUNDS if d > 1 else 0):
        before = h.copy()
        for j in range(d):
            h[j] = candidates[int(np.argmin(sums.scores_along(j, h, candidates)))]
        if (h == before).all():
            break
    return h
