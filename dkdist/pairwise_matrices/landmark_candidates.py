"""Candidates for landmark sets: a bounded sample of sets, their squared distances, and the choice among them.

    k-means++   each with probability proportional to the squared distance to the nearest landmark chosen before it
    leverage    each with probability proportional to its ridge leverage score (K (K + penalty)^-1)_ii
    random      uniformly

Arthur and Vassilvitskii 2007; Musco and Musco 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from dkdist._base._tuning import MAX_SAMPLE_SETS
from dkdist._base.array_record import Matrix
from dkdist._base.embedding import transform_sets
from dkdist._base.inputs import DataSummary, Sets
from dkdist._base.parameter_checks import round_to_float32
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import random_subset
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.process import materialize_params, one_blas_thread
from dkdist.distances._tuning import N_VALIDATED_OBJECTS
from dkdist.distances.base import Distance, capabilities
from dkdist.distances.distance_embedding_params import DistanceSpec, Landmarks
from dkdist.distances.registry import warn_unequal_columns
from dkdist.distances.scales import leverage_scores, pairwise_distances, sample_objects
from dkdist.pairwise_matrices.divergence_params import DivergenceEstimator
from dkdist.pairwise_matrices.nystroem_params import ComparedLandmarks, EmbeddedLandmarks
from dkdist.sets import SampleSets

# With scores of 0, fewer candidates than landmarks could remain (tests/pairs/test_nystroem_sets.py).
MIN_SCORE = 1e-12


class Candidates(NamedTuple):
    """Sampled sets: ``positions`` (C,), ``squares`` (C, C), and a function from indices to parameters of landmarks."""

    positions: I64
    squares: F64
    landmarks_at: Callable[[I64], Any]


def embedded_candidates(spec: Any, sets: Sets, summary: DataSummary, n: int, seed: int) -> Candidates:
    """Return candidates for distances of rows; only rows are loaded, so that sets may have any size."""
    valid = np.setdiff1d(np.arange(len(sets)), summary.bad)
    rng = np.random.default_rng([seed, RngStream.OBJECTS, 1])
    positions = np.sort(rng.permutation(valid)[: max(n, MAX_SAMPLE_SETS)])
    rows = np.asarray(transform_sets(spec, sets[positions], "candidate_rows", skip=False))
    with one_blas_thread():  # more threads would change the last bits
        squares = euclidean_distances(rows - rows.mean(axis=0, dtype=np.float64), squared=True)
    return Candidates(positions, squares, lambda chosen: EmbeddedLandmarks(spec, Matrix(rows[chosen])))


def object_candidates(distance: Distance, sets: Sets, summary: DataSummary, n: int, seed: int) -> Candidates:
    """Return candidates for a distance of objects."""
    sample = sample_objects(sets, summary.bad, n, seed, False)
    capabilities(distance).validate_on(sample.sets[:N_VALIDATED_OBJECTS], sample.positions)
    warn_unequal_columns(distance, sample.sets)
    D = pairwise_distances(distance, sample).astype(np.float64)

    def landmarks_at(indices: I64) -> DistanceSpec:
        objects = sample.sets[indices]
        return DistanceSpec(distance, Landmarks.of(objects, distance), (0.0,), sets.n_dims, objects.alphabet)

    return Candidates(sample.positions, (D**2 + D.T**2) / 2, landmarks_at)


def compared_candidates(
    estimator: DivergenceEstimator, sets: Sets, summary: DataSummary, n: int, seed: int
) -> Candidates:
    """Return candidates for a divergence estimator of pairs of sets."""
    sample = sample_objects(sets, summary.bad, n, seed, False)
    rows = random_subset(len(sample.positions), n, seed)  # the sample may be larger
    positions, sampled_sets = sample.positions[rows], sample.sets[rows]

    def landmarks_at(indices: I64) -> ComparedLandmarks:
        objects: SampleSets = sampled_sets[indices]
        weights = None if objects.weights is None else objects.weights.reshape(-1)
        return ComparedLandmarks(estimator, Landmarks(objects.relative, objects.offsets, weights))

    squares = materialize_params(landmarks_at(np.arange(len(rows)))).between_landmarks()
    return Candidates(positions, squares, landmarks_at)


def median_gamma(squares: F64) -> float:
    """Return 1 / (2 sigma^2) for the median positive distance sigma; 1 if all distances are 0."""
    positive = squares[np.triu_indices(len(squares), 1)]
    positive = positive[positive > 0]
    return round_to_float32(0.5 / float(np.median(positive))) if len(positive) else 1.0


def select_landmarks(rule: str, squares: F64, gamma: float, n: int, rng: np.random.Generator) -> I64:
    """Return the sorted indices of n landmarks among candidates with these squared distances."""
    C = len(squares)
    if rule == "random":
        return np.sort(rng.permutation(C)[:n])
    if rule == "leverage":
        scores = np.maximum(leverage_scores(np.exp(-gamma * squares), n), MIN_SCORE)
        return np.sort(rng.choice(C, n, replace=False, p=scores / scores.sum()))
    return np.sort(k_means_plus_plus(squares, n, rng))


def k_means_plus_plus(squares: F64, n: int, rng: np.random.Generator) -> I64:
    """Return indices of n distinct candidates in the order of the draws; copies of chosen candidates come last."""
    indices, nearest_squares = np.empty(n, np.int64), np.ones(len(squares))  # the first is uniform
    is_chosen = np.zeros(len(squares), bool)
    for j in range(n):
        nearest_squares[is_chosen] = 0  # also if rounding gives a set a distance to itself
        if not nearest_squares.any():  # all other candidates are copies of chosen ones
            nearest_squares[~is_chosen] = 1
        cumulative = np.cumsum(nearest_squares)
        # the first candidate whose cumulative sum is at least this number in (0, sum]
        i = int(np.searchsorted(cumulative, (1 - rng.random()) * cumulative[-1]))
        indices[j], is_chosen[i] = i, True
        nearest_squares = squares[i].copy() if j == 0 else np.minimum(nearest_squares, squares[i])
    return indices
