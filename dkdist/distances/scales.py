"""What distance embeddings learn from distances of the data: gamma, landmarks, and the scale of every feature.

Gamma is a share of one over the median distance. Scales of "rows" are those of a sample of at most `MEDIAN_OBJECTS`
objects, whose distances give gamma anyway; those of "columns" are of all objects, in a pass of their own.

Random objects chosen among the data for a kernel k(x, y) = exp(-gamma d(x, y)), and their features as its landmarks.

Ridge leverage scores l_i = (K (K + penalty)^-1)_ii say how far an object is from what others say of it; landmarks
drawn by them cover rare objects that uniform ones miss (Alaoui and Mahoney 2015; Musco and Musco 2017). Features

    phi(x) = K_LL^(-1/2) k(L, x),    L the landmarks,

have the inner products of the kernel's projection to the landmarks (Nystroem; Williams and Seeger 2001). Not every
distance has a positive definite kernel: negative eigenvalues count as 0, here as there.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.inputs import SAMPLE_POINTS, SAMPLE_SETS, Sets, unread_blocks
from dkdist._base.invalid_sets import PartialResult, naming_random, run_skipping_invalid
from dkdist._base.parameter_checks import LEAST, round_to_float32
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.arrays import block_bounds, fill_in_memory
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.process import materialize_params
from dkdist.distances._distance_embedding_numba import column_moments, merged
from dkdist.distances.base import Distance
from dkdist.distances.distance_embedding_params import DistanceParameters, DistanceSpec, Landmarks, Mixing
from dkdist.io import SetStore
from dkdist.sets import SampleSets

MIN_EIGENVALUE_RATIO = 1e-6  # features are float32: their rounding is divided by roots of eigenvalues
HALVINGS = 60  # of the range of penalties


def leverage_scores(K: F64, n_landmarks: int) -> F64:
    """(n,) scores, each in [0, 1], which sum to the number of landmarks if as many eigenvalues are positive.

    K (n, n) is a kernel matrix, symmetric or nearly so.
    """
    values, vectors = _spectrum(K)
    low, high = MIN_EIGENVALUE_RATIO * values[-1], len(K) * values[-1]
    for _ in range(HALVINGS):
        penalty = float(np.sqrt(low * high))
        kept = float((values / (values + penalty)).sum())
        low, high = (penalty, high) if kept > n_landmarks else (low, penalty)
    return np.asarray((vectors**2) @ (values / (values + high)))


def inverse_root(K: F64) -> F32:
    """K^(-1/2) (n, n) float32, without the part that belongs to eigenvalues below 1e-6 of the largest."""
    values, vectors = _spectrum(K)
    inverse = np.where(values > MIN_EIGENVALUE_RATIO * values[-1], values, np.inf) ** -0.5
    return ((vectors * inverse) @ vectors.T).astype(np.float32)


def _spectrum(K: F64) -> tuple[F64, F64]:
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return np.maximum(values, 0.0), vectors


MEDIAN_OBJECTS = 256
STEADY = 1e-6  # deviation of a feature, over its mean, that rounding to float32 might explain


class Looked(NamedTuple):
    """Some objects in memory, and their positions in the user's collection; bad ones are left out with ``skip``."""

    sets: SampleSets
    places: I64
    skip: bool


def sample_of(sets: Sets, bad: I64, R: int, seed: int, skip: bool) -> Looked:
    """Random objects, not bad ones, in their order, and their places: enough for R different ones, if memory allows."""
    good = np.setdiff1d(np.arange(len(sets)), bad)
    mean_size = max(1, sets.n_points // len(sets))
    count = int(np.clip(SAMPLE_POINTS // mean_size, 1, min(max(SAMPLE_SETS, R), len(good))))
    chosen = np.sort(np.random.default_rng([seed, RngStream.OBJECTS, 1]).permutation(good)[:count])
    return Looked(loaded(sets[chosen], chosen), chosen, skip)


def loaded(sets: Sets, positions: I64) -> SampleSets:
    """The sets in memory; an error names one that cannot be read by its position."""
    if isinstance(sets, SampleSets):
        return sets
    made: PartialResult[SampleSets | None] = run_skipping_invalid(
        lambda read, first: read, sets, positions, None, skip=False
    )
    found = made.results[0]
    assert found is not None
    return found


def sampled_distances(spec: DistanceSpec, looked: Looked) -> F32:
    """Distances of some objects to the random ones: (n, n_distances) float32."""
    parameters: DistanceParameters = materialize_params(spec)

    def distances(sets: SampleSets, first: int) -> F32:
        with naming_random(range(first, first + len(sets))):
            return parameters.distances(sets)

    lost = np.empty((0, spec.n_distances), np.float32)
    made = run_skipping_invalid(
        distances, looked.sets, looked.places[: len(looked.sets)], lost, skip=looked.skip
    )
    return np.concatenate(made.results)


def median_gamma(D: F32, share: float) -> float:
    """So much of one over the median distance; of 1 if all distances are 0."""
    positive = D[D > 0]
    return round_to_float32(share / float(np.median(positive))) if len(positive) else share


def _gamma_among(D: F32, gammas: Any) -> float:
    """The gamma that is asked for alone, or as `median_gamma` has it."""
    one = isinstance(gammas, tuple) and len(gammas) == 1
    return gammas[0] if one else median_gamma(D, gammas if isinstance(gammas, float) else 1.0)


def _distances_among(distance: Distance, looked: Looked) -> F32:
    objects = looked.sets
    raw = DistanceSpec(distance, Landmarks.of(objects, distance), (0.0,), objects.n_dims, objects.alphabet)
    return sampled_distances(raw, looked._replace(skip=False))


def features_among(distance: Distance, looked: Looked, gammas: Any) -> F64:
    """Features (n, n) of objects, each of which is a random object too: exp(-gamma d), or d itself for gamma = 0."""
    D = _distances_among(distance, looked)
    gamma = _gamma_among(D, gammas)
    return np.exp(-gamma * D.astype(np.float64)) if gamma else D.astype(np.float64)


def kernel_scores(distance: Distance, looked: Looked, gammas: Any, n_landmarks: int) -> F64:
    """Leverage scores (n,) of objects for the kernel exp(-gamma d); of gammas as `median_gamma` has it if not one."""
    D = _distances_among(distance, looked)
    gamma = _gamma_among(D, gammas) or median_gamma(D, 1.0)
    return leverage_scores(np.exp(-gamma * D.astype(np.float64)), n_landmarks)


def with_kernel_rows(spec: DistanceSpec, objects: SampleSets) -> DistanceSpec:
    """Features whose inner products are those of the kernel exp(-gamma d), projected to the random objects."""
    root = np.sqrt(spec.n_features)  # which features are divided by
    K = root * materialize_params(spec).embed(objects).astype(np.float64)
    return replace(spec, mixing=Mixing((root * inverse_root(K)).astype(np.float32)))


def with_unit_rows(spec: DistanceSpec, D: F32) -> DistanceSpec:
    """Features of mean 0, and rows whose squared length is 1 in the mean, over objects of these distances.

    A feature that does not vary has its mean subtracted, and keeps its scale.
    """
    _, mean, spread = column_moments(materialize_params(spec).features(D))
    deviation = np.sqrt(spread / len(D))
    varies = deviation > np.maximum(STEADY * np.abs(mean), LEAST)
    return _scaled(spec, mean, np.where(varies, deviation * np.sqrt(spec.n_features), 1.0))


def with_unit_columns(spec: DistanceSpec, sets: Sets, bad: I64, skip: bool) -> DistanceSpec:
    """Features of mean 0 and standard deviation 1 over all good sets, to seven digits; one pass over them."""
    good = np.setdiff1d(np.arange(len(sets)), bad)
    kept = sets if len(bad) == 0 else sets[good]
    moments = partial(_moments, skip, materialize_params(spec))
    n, mean, spread = reduce(merged, itertools.chain.from_iterable(_of_parts(kept, good, spec, moments)))
    return _scaled(spec, mean, np.sqrt(spread / n))


def _scaled(spec: DistanceSpec, centre: F64, scale: F64) -> DistanceSpec:
    return replace(
        spec,
        centre=tuple(map(round_to_float32, centre.tolist())),
        scale=tuple(map(round_to_float32, scale.tolist())),
    )


def _of_parts(kept: Sets, good: I64, spec: DistanceSpec, moments: Any) -> list[Any]:
    """Moments of every block, in the order of the blocks."""
    if isinstance(kept, SetStore):
        blocks = unread_blocks(kept, 4 * spec.n_features)
        places = [good[a:b] for a, b in itertools.pairwise(blocks.bounds.tolist())]
        return list(map_blocks(blocks, moments, places, label="feature_moments"))
    parts = dict[int, Any]()

    def fill(rows: slice) -> None:
        parts[rows.start] = moments(kept[rows], good[rows])

    fill_in_memory(fill, block_bounds(kept.sizes, 4 * kept.n_dims, 4 * spec.n_features))
    return [parts[start] for start in sorted(parts)]


def _moments(
    skip: bool, parameters: DistanceParameters, sets: Sets, places: I64
) -> list[tuple[int, Any, Any]]:
    def work(some: SampleSets, first: int) -> tuple[int, Any, Any] | None:
        with naming_random(range(first, first + len(some))):
            return column_moments(parameters.embed(some))

    return [
        part for part in run_skipping_invalid(work, sets, places, None, skip=skip).results if part is not None
    ]
