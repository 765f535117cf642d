"""The bandwidth that the data ask for: cross-validation on a sample of the sets, as fine as it has to be.

Candidates are .25 2^(-k/8). Cosines of K degrees tell of bandwidths from 1 / K on, which damp what is left out to less
than a hundredth: K begins with 16 and is doubled while the best candidate is among the finest.
"""

from __future__ import annotations

import numpy as np

from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import Sets, work_on_sample
from dkdist.densities.divergence_spec import ball_of_degrees, finest_bandwidth
from dkdist.densities.resolution.cross_validation import best_bandwidth, coefficient_sums
from dkdist.densities.resolution.distinct_points import distinct_points
from dkdist.execution.processes.process import one_blas_thread
from dkdist.loops.array_types import F32, F64, I64
from dkdist.sets import SampleSets

WIDEST = 0.25  # a wider Gaussian takes from a learner what many sets may tell together
STEPS = 8  # candidates for a factor of two
UNKNOWN = 0.08  # where no set has two places: nothing can be left out
LEAST_DEGREES = 16
MOST_DEGREES = {1: 256, 2: 128, 3: 32}
SEARCH_SETS = 64
SEARCH_NUMBERS = 2**21  # coordinates of points


def cross_validated(sets: Sets, bad: I64, domain: Domain, structure: str, finest: float) -> F64:
    """The bandwidth of each dimension, on the scaled domain, by cross-validation: (1, d), none below ``finest``.

    Cost: at most 64 sets and some two million coordinates of points, twice their coefficients of 16 to 256 degrees:
    for d = 2 and sets of 200 points some 20 ms, less than a second for any.
    """
    points, offsets, weights = work_on_sample(_points, sets, bad, SEARCH_SETS, SEARCH_NUMBERS // sets.n_dims)
    low, scale = domain.low_and_scale
    unit = (points - low) * scale
    columns = [unit]
    if structure == "marginal":
        columns = [np.ascontiguousarray(unit[:, [j]]) for j in range(unit.shape[1])]
    with one_blas_thread():  # more would wait for each other, as products are small
        found = [_of_places(distinct_points(u, offsets, weights), finest, u.shape[1]) for u in columns]
    return np.concatenate(found)[None, :]


def _points(sets: SampleSets, first: int) -> tuple[F32, I64, F32 | None]:
    return sets.relative, sets.offsets, sets.weights


def _of_places(sets: SampleSets | None, finest: float, d: int) -> F64:
    """The best bandwidths (d,) of sets on the unit cube."""
    if sets is None:
        return np.full(d, max(UNKNOWN, finest))
    if d not in MOST_DEGREES:
        return _of_ball(sets, finest)
    K = LEAST_DEGREES
    while True:
        candidates = _candidates(max(1 / K, finest))
        h = best_bandwidth(coefficient_sums(sets, "tensor", (K,) * d), candidates)
        if h.min() > candidates[-2:].min() or candidates[-1] <= finest or MOST_DEGREES[d] <= K:
            return h
        K *= 2


def _of_ball(sets: SampleSets, finest: float) -> F64:
    """From four dimensions on: as many terms as an embedding takes."""
    finest = max(finest, finest_bandwidth(sets.n_dims))
    axes = ball_of_degrees((finest,) * sets.n_dims)[2] / (np.pi * finest)
    return best_bandwidth(coefficient_sums(sets, "ball", (axes,) * sets.n_dims), _candidates(finest))


def _candidates(finest: float) -> F64:
    """From the widest to the finest, which is one of them."""
    n = int(np.ceil(STEPS * np.log2(WIDEST / finest))) if finest < WIDEST else 0
    return np.maximum(WIDEST * 2.0 ** (-np.arange(n + 1) / STEPS), finest)
