"""The bandwidth that the data ask for: least-squares cross-validation on a sample of the sets, as fine as it has to be.

Of a density p with the coefficients c_a = int p phi_a in the orthonormal cosines phi_a of [0, 1]^d, the reflected
Gaussian estimate has b_a C_a: C_a is the mean of phi_a over the points, of weights u_i that sum to one, and
b_a = exp(-sum_j (pi a_j h_j)^2 / 2). Its integrated squared error is, but for a constant,

    sum_a b_a^2 C_a^2 - 2 b_a U_a,    U_a = (C_a^2 - sum_i u_i^2 phi_a(x_i)^2) / (1 - sum_i u_i^2),

where C_a c_a is estimated by U_a = sum_{i != j} u_i u_j phi_a(x_i) phi_a(x_j) / (1 - sum_i u_i^2), whose mean is
c_a^2: for equal weights (n C_a^2 - mean phi_a^2) / (n - 1). This is cross-validation by leaving out each point
(Rudemo 1982; Bowman 1984), summed over sets, which share the bandwidth, each relative to its own int p^2 (estimated
by sum_a b_a U_a at a fine bandwidth, and at least 1): else the few sharpest sets would choose for all. No point is
looked at twice: sums over sets of C_a^2 and U_a serve every bandwidth. The squares are cosines, too: phi_a^2 =
prod_{a_j > 0} (1 + cos(2 pi a_j x_j)), coefficients of the points folded by x -> 1 - |1 - 2x|.

Candidates are .25 2^(-k/8). Cosines of K degrees tell of bandwidths from 1 / K on, which damp what is left out to less
than a hundredth: K begins with 16 and is doubled while the best candidate is among the finest.

Points at one place say nothing of each other's neighbourhood, and a density with atoms has no best bandwidth: points
that tie would draw it to zero. So equal points count as one, of their total weight; points outside the domain, which
would pile up at its wall, are left out, and so is a place that holds more than a tenth of a set twice over: an atom.
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


def cross_validate_bandwidth(sets: Sets, bad: I64, domain: Domain, structure: str, finest: float) -> F64:
    """The bandwidth of each dimension, on the scaled domain, by cross-validation: (1, d), none below ``finest``.

    Cost: at most 64 sets and some two million coordinates of points, twice their coefficients of 16 to 256 degrees:
    for d = 2 and sets of 200 points some 20 ms, less than a second for any.
    """
    sample = sample_sets(
        sets, bad, MAX_BANDWIDTH_SEARCH_SETS, MAX_BANDWIDTH_SEARCH_COORDINATES // sets.n_dims
    )
    low, scale = domain.low_and_scale
    unit = (sample.relative - low) * scale
    columns = [unit]
    if structure == "marginal":
        columns = [np.ascontiguousarray(unit[:, [j]]) for j in range(unit.shape[1])]
    with one_blas_thread():  # more would wait for each other, as products are small
        found = [
            _select_bandwidth(distinct_points(u, sample.offsets, sample.weights), finest, u.shape[1])
            for u in columns
        ]
    return np.concatenate(found)[None, :]


def search_bytes(n_sets: int, n_points: int, d: int) -> int:
    """Memory of `cross_validate_bandwidth` on so many sets and points, at most: the sample, and coefficients of its sets."""
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


def _select_bandwidth(sets: SampleSets | None, finest: float, d: int) -> F64:
    """The best bandwidths (d,) of sets on the unit cube."""
    if sets is None:
        return np.full(d, max(FALLBACK_BANDWIDTH, finest))
    if d not in MAX_DEGREES_BY_DIM:
        return _select_ball_bandwidth(sets, finest)
    K = MIN_SEARCH_DEGREES
    while True:
        candidates = _candidates(max(1 / K, finest))
        h = best_bandwidth(coefficient_sums(sets, "tensor", (K,) * d), candidates)
        if h.min() > candidates[-2:].min() or candidates[-1] <= finest or MAX_DEGREES_BY_DIM[d] <= K:
            return h
        K *= 2


def _select_ball_bandwidth(sets: SampleSets, finest: float) -> F64:
    """From four dimensions on: as many terms as an embedding takes."""
    finest = max(finest, min_ball_bandwidth(sets.n_dims))
    axes = ball_of_degrees((finest,) * sets.n_dims)[2] / (np.pi * finest)
    return best_bandwidth(coefficient_sums(sets, "ball", (axes,) * sets.n_dims), _candidates(finest))


def _candidates(finest: float) -> F64:
    """From the widest to the finest, which is one of them."""
    n = int(np.ceil(CANDIDATES_PER_OCTAVE * np.log2(MAX_BANDWIDTH / finest))) if finest < MAX_BANDWIDTH else 0
    return np.maximum(MAX_BANDWIDTH * 2.0 ** (-np.arange(n + 1) / CANDIDATES_PER_OCTAVE), finest)


def distinct_points(unit: F32, offsets: I64, weights: F32 | None) -> SampleSets | None:
    """The sets of points ``unit`` (n_points, d), the domain scaled to the unit cube, as weighted places.

    Sets of one place, or nearly so, are left out; None if that leaves no set.
    """
    w = np.ones(len(unit)) if weights is None else weights.reshape(-1).astype(np.float64)
    inside = ((unit >= 0) & (unit <= 1)).all(axis=1) & (w > 0)
    points: list[F32] = []
    masses: list[F64] = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        here = inside[start:stop]
        places, mass = _merge_ties(unit[start:stop][here], w[start:stop][here])
        if (mass**2).sum() < MAX_CONCENTRATION * mass.sum() ** 2:
            points.append(places)
            masses.append(mass / mass.sum())
    if not points:
        return None
    ends = np.cumsum([0, *map(len, points)])
    return SampleSets._trusted(np.concatenate(points), ends, np.concatenate(masses).astype(np.float32))


def _merge_ties(x: F32, w: F64) -> tuple[F32, F64]:
    """Different places of the points x, and what each holds; without atoms."""
    first = np.sort(x[:, 0]) if len(x) else np.zeros(0)
    if (first[1:] > first[:-1]).all():  # no two points are equal
        return x, w
    order = np.lexsort(x.T[::-1])
    x, w = x[order], w[order]
    starts = np.flatnonzero(np.concatenate([[True], (x[1:] != x[:-1]).any(axis=1)]))
    mass, count = np.add.reduceat(w, starts), np.diff(np.append(starts, len(x)))
    kept = (count == 1) | (mass <= MAX_TIED_FRACTION * w.sum())
    return x[starts][kept], mass[kept]


@dataclass(frozen=True)
class CoefficientSums:
    """Sums over sets, relative to int p^2 of each: ``squares`` of C_a^2 and ``unbiased`` of U_a.

    ``exponents`` (n_terms, d) are their degrees a.
    """

    exponents: I64
    squares: F64
    unbiased: F64

    def scores(self, candidates: F64) -> F64:
        """The estimated error of each candidate, the same bandwidth in all dimensions: (n_candidates,)."""
        norm = (self.exponents**2).sum(axis=1)
        return np.array([self._score(np.exp(-norm * (np.pi * h) ** 2 / 2)) for h in candidates])

    def scores_along(self, j: int, bandwidth: F64, candidates: F64) -> F64:
        """The same of candidates for dimension j, those of the others being as they are."""
        a = self.exponents
        others = np.where(np.arange(a.shape[1]) == j, 0, np.pi * bandwidth) ** 2
        b = np.exp(-(a**2 @ others) / 2)
        squares = np.bincount(a[:, j], b**2 * self.squares)
        unbiased = np.bincount(a[:, j], b * self.unbiased)
        own = np.exp(-(np.outer(np.pi * candidates, np.arange(len(squares))) ** 2) / 2)
        return np.asarray((own**2 * squares - 2 * own * unbiased).sum(axis=1))

    def _score(self, b: F64) -> float:
        return float((b**2 * self.squares - 2 * b * self.unbiased).sum())


def coefficient_sums(sets: SampleSets, structure: str, degrees: tuple[float, ...]) -> CoefficientSums:
    """The sums of weighted ``sets`` on the unit cube, each of two places or more.

    ``structure`` and ``degrees`` are those of a `CoefficientSpec`, "tensor" or "ball". Cost: twice its coefficients.
    """
    d = sets.n_dims
    spec = CoefficientSpec(Domain((0.0,) * d, (1.0,) * d, fixed=True), structure, degrees)
    a = spec.exponents
    norm = 2.0 ** (a > 0).sum(axis=1)  # of the squares of phi_a
    pilot = np.exp(-((np.pi * a / np.array(degrees)) ** 2).sum(axis=1) / 2)  # of the finest bandwidth, 1 / K
    below = _parent_terms(a)
    squares, unbiased = np.zeros(len(a)), np.zeros(len(a))
    step = max(1, COEFFICIENTS_PER_BATCH // len(a))
    for first in range(0, len(sets), step):
        some = sets[first : first + step]
        C2 = norm * _coefficients(spec, some).astype(np.float64) ** 2
        single, folded = _fold_points(some)
        own = _coefficients(spec, folded).astype(np.float64)
        for places, parents in below:  # sum over the subsets of the dimensions
            own[:, places] += own[:, parents]
        U = (C2 - single * own) / (1 - single)
        share = 1 / np.maximum((U * pilot).sum(axis=1, keepdims=True), 1)
        squares += (share * C2).sum(axis=0)
        unbiased += (share * U).sum(axis=0)
    return CoefficientSums(a, squares, unbiased)


def _coefficients(spec: CoefficientSpec, sets: SampleSets) -> F32:
    return spec.materialize().of(sets, set_spans(sets))


def _fold_points(sets: SampleSets) -> tuple[F64, SampleSets]:
    """sum_i u_i^2 of each set, (n_sets, 1), and the sets of the folded points, weighted by u_i^2."""
    assert sets.weights is not None
    starts = sets.offsets[:-1]
    u = sets.weights.reshape(-1).astype(np.float64)
    u /= np.repeat(np.add.reduceat(u, starts), sets.sizes)
    single = np.add.reduceat(u**2, starts)
    share = (u**2 / np.repeat(single, sets.sizes)).astype(np.float32)
    folded = 1 - np.abs(1 - 2 * sets.relative)
    return single[:, None], SampleSets._trusted(folded, sets.offsets, share)


def _parent_terms(a: I64) -> list[tuple[I64, I64]]:
    """For each dimension, where the terms are that vary in it, and where those are that are the same but for it."""
    base = int(a.max()) + 1
    powers = base ** np.arange(a.shape[1], dtype=np.int64)
    keys = a @ powers
    order = np.argsort(keys)
    found = []
    for j, power in enumerate(powers):
        places = np.flatnonzero(a[:, j])
        parents = order[np.searchsorted(keys[order], keys[places] - a[places, j] * power)]
        found.append((places, parents))
    return found


def best_bandwidth(sums: CoefficientSums, candidates: F64) -> F64:
    """(d,) of the candidates, those of the least estimated error: first one for all dimensions, then one for each."""
    d = sums.exponents.shape[1]
    h = np.full(d, candidates[int(np.argmin(sums.scores(candidates)))])
    for _ in range(MAX_COORDINATE_ROUNDS if d > 1 else 0):
        before = h.copy()
        for j in range(d):
            h[j] = candidates[int(np.argmin(sums.scores_along(j, h, candidates)))]
        if (h == before).all():
            break
    return h
