"""Gamma, leverage scores and feature scales of distance embeddings, from distances of the data.

Gamma is a multiple of 1 over the median distance. Unit rows are scaled on a sample of at most `MAX_SCALE_OBJECTS`
objects, whose distances also determine gamma. Standardizing columns needs another pass over all objects.

Landmarks drawn by ridge leverage scores l_i = (K (K + penalty)^-1)_ii of a kernel k(x, y) = exp(-gamma d(x, y)) cover
rare objects better than uniform ones (Alaoui and Mahoney 2015; Musco and Musco 2017). Features

    phi(x) = K_LL^(-1/2) k(L, x),    L the landmarks,

have the inner products of the kernel projected on the landmarks (Nyström; Williams and Seeger 2001). If the kernel
is not positive definite, negative eigenvalues are set to 0.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from dkdist._base._tuning import MAX_SAMPLE_POINTS, MAX_SAMPLE_SETS
from dkdist._base.inputs import Sets, lazy_blocks
from dkdist._base.invalid_sets import PartialResult, name_set_errors, run_skipping_invalid
from dkdist._base.parameter_checks import MIN_SCALE, round_to_float32
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.arrays import block_bounds, fill_in_memory
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.process import materialize_params
from dkdist.distances._distance_embedding_numba import column_moments, merge_moments
from dkdist.distances._tuning import MIN_EIGENVALUE_RATIO, MIN_RELATIVE_DEVIATION, N_BISECTIONS
from dkdist.distances.base import Distance
from dkdist.distances.distance_embedding_params import (
    DistanceParameters,
    DistanceSpec,
    Landmarks,
    MixingMatrix,
)
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSets


def leverage_scores(K: F64, n_landmarks: int) -> F64:
    """Return scores (n,) in [0, 1] of a symmetric kernel matrix K (n, n).

    Their sum is the number of landmarks, if at least that many eigenvalues are positive.
    """
    values, vectors = _spectrum(K)
    low, high = MIN_EIGENVALUE_RATIO * values[-1], len(K) * values[-1]
    for _ in range(N_BISECTIONS):
        penalty = float(np.sqrt(low * high))
        effective_dims = float((values / (values + penalty)).sum())
        low, high = (penalty, high) if effective_dims > n_landmarks else (low, penalty)
    return np.asarray((vectors**2) @ (values / (values + high)))


def inverse_root(K: F64) -> F32:
    """Return K^(-1/2) (n, n) float32, without eigenvalues below 1e-6 of the largest."""
    values, vectors = _spectrum(K)
    inverse = np.where(values > MIN_EIGENVALUE_RATIO * values[-1], values, np.inf) ** -0.5
    return ((vectors * inverse) @ vectors.T).astype(np.float32)


def _spectrum(K: F64) -> tuple[F64, F64]:
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return np.maximum(values, 0.0), vectors


class ObjectSample(NamedTuple):
    """Sampled objects in memory, with their positions in the user's collection; ``skip`` omits invalid objects."""

    sets: SampleSets
    positions: I64
    skip: bool


def sample_objects(sets: Sets, bad: I64, R: int, seed: int, skip: bool) -> ObjectSample:
    """Load random valid objects in collection order: at least R, if available and within the memory limit."""
    valid = np.setdiff1d(np.arange(len(sets)), bad)
    mean_size = max(1, sets.n_points // len(sets))
    size = int(np.clip(MAX_SAMPLE_POINTS // mean_size, 1, min(max(MAX_SAMPLE_SETS, R), len(valid))))
    positions = np.sort(np.random.default_rng([seed, RngStream.OBJECTS, 1]).permutation(valid)[:size])
    return ObjectSample(load_sets(sets[positions], positions), positions, skip)


def load_sets(sets: Sets, positions: I64) -> SampleSets:
    """Return the sets in memory; an error names an unreadable set by its position."""
    if isinstance(sets, SampleSets):
        return sets
    read: PartialResult[SampleSets | None] = run_skipping_invalid(
        lambda loaded, first: loaded, sets, positions, None, skip=False
    )
    result = read.results[0]
    assert result is not None
    return result


def landmark_distances(spec: DistanceSpec, sample: ObjectSample) -> F32:
    """Compute the distances (n, n_distances) float32 of sampled objects to the landmarks."""
    parameters: DistanceParameters = materialize_params(spec)

    def distances(sets: SampleSets, first: int) -> F32:
        with name_set_errors(range(first, first + len(sets))):
            return parameters.distances(sets)

    fill = np.empty((0, spec.n_distances), np.float32)
    positions = sample.positions[: len(sample.sets)]
    return np.concatenate(
        run_skipping_invalid(distances, sample.sets, positions, fill, skip=sample.skip).results
    )


def median_gamma(D: F32, ratio: float) -> float:
    """Return ``ratio`` over the median positive distance, or ``ratio`` if all distances are 0."""
    positive = D[D > 0]
    return round_to_float32(ratio / float(np.median(positive))) if len(positive) else ratio


def _single_gamma(D: F32, gammas: Any) -> float:
    """Return the single value of gamma, or the result of `median_gamma`."""
    is_single = isinstance(gammas, tuple) and len(gammas) == 1
    return gammas[0] if is_single else median_gamma(D, gammas if isinstance(gammas, float) else 1.0)


def pairwise_distances(distance: Distance, sample: ObjectSample) -> F32:
    """Compute the distances (n, n) of all pairs of objects."""
    objects = sample.sets
    raw = DistanceSpec(distance, Landmarks.of(objects, distance), (0.0,), objects.n_dims, objects.alphabet)
    return landmark_distances(raw, sample._replace(skip=False))


def pairwise_features(distance: Distance, sample: ObjectSample, gammas: Any) -> F64:
    """Compute features (n, n) of all pairs of objects: exp(-gamma d), or d for gamma = 0."""
    D = pairwise_distances(distance, sample)
    gamma = _single_gamma(D, gammas)
    return np.exp(-gamma * D.astype(np.float64)) if gamma else D.astype(np.float64)


def kernel_leverage_scores(distance: Distance, sample: ObjectSample, gammas: Any, n_landmarks: int) -> F64:
    """Compute leverage scores (n,) of objects for the kernel exp(-gamma d), with one positive gamma."""
    D = pairwise_distances(distance, sample)
    gamma = _single_gamma(D, gammas) or median_gamma(D, 1.0)
    return leverage_scores(np.exp(-gamma * D.astype(np.float64)), n_landmarks)


def with_nystroem_rows(spec: DistanceSpec, objects: SampleSets) -> DistanceSpec:
    """Return parameters of Nyström features: inner products are those of the kernel projected on the landmarks."""
    root = np.sqrt(spec.n_features)  # undoes the division of features by it
    K = root * materialize_params(spec).embed(objects).astype(np.float64)
    return replace(spec, mixing=MixingMatrix((root * inverse_root(K)).astype(np.float32)))


def with_unit_rows(spec: DistanceSpec, D: F32) -> DistanceSpec:
    """Return parameters that give features mean 0 and rows mean squared length 1, for objects with distances D.

    Constant features are centred and not scaled.
    """
    _, mean, spread = column_moments(materialize_params(spec).features(D))
    deviation = np.sqrt(spread / len(D))
    varies = deviation > np.maximum(MIN_RELATIVE_DEVIATION * np.abs(mean), MIN_SCALE)
    return _with_scale(spec, mean, np.where(varies, deviation * np.sqrt(spec.n_features), 1.0))


def with_standardized_columns(spec: DistanceSpec, sets: Sets, bad: I64, skip: bool) -> DistanceSpec:
    """Return parameters that give features mean 0 and standard deviation 1, in one pass over all valid sets."""
    positions = np.setdiff1d(np.arange(len(sets)), bad)
    valid_sets = sets if len(bad) == 0 else sets[positions]
    moments = partial(_moments_of_block, skip, materialize_params(spec))
    n, mean, spread = reduce(
        merge_moments, itertools.chain.from_iterable(_block_moments(valid_sets, positions, spec, moments))
    )
    return _with_scale(spec, mean, np.sqrt(spread / n))


def _with_scale(spec: DistanceSpec, centre: F64, scale: F64) -> DistanceSpec:
    return replace(
        spec,
        centre=tuple(map(round_to_float32, centre.tolist())),
        scale=tuple(map(round_to_float32, scale.tolist())),
    )


def _block_moments(sets: Sets, positions: I64, spec: DistanceSpec, moments: Any) -> list[Any]:
    if isinstance(sets, LazySets):
        blocks = lazy_blocks(sets, 4 * spec.n_features)
        block_positions = [positions[a:b] for a, b in itertools.pairwise(blocks.bounds.tolist())]
        return list(map_blocks(blocks, moments, block_positions, label="feature_moments"))
    parts = dict[int, Any]()

    def fill(rows: slice) -> None:
        parts[rows.start] = moments(sets[rows], positions[rows])

    fill_in_memory(fill, block_bounds(sets.sizes, 4 * sets.n_dims, 4 * spec.n_features))
    return [parts[start] for start in sorted(parts)]  # a fixed order of blocks makes sums reproducible


def _moments_of_block(
    skip: bool, parameters: DistanceParameters, sets: Sets, positions: I64
) -> list[tuple[int, Any, Any]]:
    def work(piece: SampleSets, first: int) -> tuple[int, Any, Any] | None:
        with name_set_errors(range(first, first + len(piece))):
            return column_moments(parameters.embed(piece))

    return [
        part
        for part in run_skipping_invalid(work, sets, positions, None, skip=skip).results
        if part is not None
    ]
