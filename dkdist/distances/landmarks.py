"""Samplers of random objects (landmarks, "omegas") of D2KE, from the data or from distributions (P2, section 4).

A sampler takes the lengths of the landmarks, drawn uniformly from a range, and returns a collection of objects of these
lengths. Sampling whole objects is the representative-set method (RSM) of the paper.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64
from dkdist.sets import SampleSets

Sampler = Callable[["LandmarkSource", I64], SampleSets]


class LandmarkSource(NamedTuple):
    """Input of samplers: sampled objects, a random generator, and arguments that only some samplers use.

    ``sigma`` (d,) is the standard deviation of generated coordinates, ``scores`` (n,) are the relative probabilities of
    the objects for "leverage", and ``selected_indices`` (R,) the objects for "supervised".
    """

    sets: SampleSets
    rng: np.random.Generator
    sigma: F64 | None = None
    scores: F64 | None = None
    selected_indices: I64 | None = None

    def pick(self, lengths: I64) -> I64:
        """Return, for each length, the index of a random object of at least that length."""
        order = np.argsort(self.sets.sizes, kind="stable")
        n_shorter = np.searchsorted(self.sets.sizes[order], lengths)
        indices = order[self.rng.integers(n_shorter, len(order))]
        return np.asarray(indices, np.int64)

    def rows(self, parts: list[I64]) -> SampleSets:
        """Return landmarks with the points and weights of the row numbers ``parts``, one array per landmark."""
        indices = np.concatenate(parts)
        weights = None if self.sets.weights is None else self.sets.weights[indices]
        offsets = offsets_of([len(part) for part in parts])
        output = SampleSets(self.sets.relative[indices], offsets, weights, self.sets.alphabet)
        return self._at_origin(output)

    def points(self, values: F64, lengths: I64) -> SampleSets:
        """Return landmarks with ``values`` (T, d), coordinates relative to the origin of the data."""
        return self._at_origin(SampleSets(values, offsets_of(lengths), origin=np.zeros(values.shape[1])))

    def normal(self, steps: F64) -> F64:
        """Return mean + deviation * steps (T, d), where deviation is sigma or the standard deviation of the data."""
        x = self.sets.relative.astype(np.float64)
        return np.asarray(x.mean(axis=0) + (x.std(axis=0) if self.sigma is None else self.sigma) * steps)

    def _at_origin(self, output: SampleSets) -> SampleSets:
        """Return the sets with their points interpreted as relative to the origin of the data."""
        return SampleSets._trusted(
            output.relative, output.offsets, output.weights, output.alphabet, self.sets.origin
        )


def offsets_of(lengths: I64 | list[int]) -> I64:
    """Return the offsets of objects of these lengths."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _subsample(source: LandmarkSource, lengths: I64) -> SampleSets:
    return source.rows(_subsample_rows(source, lengths))


def _subsample_rows(source: LandmarkSource, lengths: I64) -> list[I64]:
    offsets, parts = source.sets.offsets, []
    for i, length in zip(source.pick(lengths), lengths, strict=True):
        n = int(offsets[i + 1] - offsets[i])
        parts.append(offsets[i] + np.sort(source.rng.choice(n, int(length), replace=False)))
    return parts


def _segment(source: LandmarkSource, lengths: I64) -> SampleSets:
    return source.rows(_segment_rows(source, lengths))


def _segment_rows(source: LandmarkSource, lengths: I64) -> list[I64]:
    indices = source.pick(lengths)
    starts = source.sets.offsets[indices] + source.rng.integers(0, source.sets.sizes[indices] - lengths + 1)
    return [np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)]


def _element(source: LandmarkSource, lengths: I64) -> SampleSets:
    return _subsample(source, np.ones_like(lengths))


def _object(source: LandmarkSource, lengths: I64) -> SampleSets:
    indices = source.rng.permutation(len(source.sets))[: len(lengths)]
    landmarks: SampleSets = source.sets[indices]
    return landmarks


def _leverage(source: LandmarkSource, lengths: I64) -> SampleSets:
    assert source.scores is not None
    probabilities = source.scores / source.scores.sum()
    indices = source.rng.choice(len(source.sets), len(lengths), replace=False, p=probabilities)
    landmarks: SampleSets = source.sets[indices]
    return landmarks


def _supervised(source: LandmarkSource, lengths: I64) -> SampleSets:
    assert source.selected_indices is not None
    landmarks: SampleSets = source.sets[source.selected_indices]
    return landmarks


def _mixed(source: LandmarkSource, lengths: I64) -> SampleSets:
    """Return all objects in random order, then pieces of the remaining lengths; pieces of strings are contiguous."""
    order, offsets = source.rng.permutation(len(source.sets)), source.sets.offsets
    objects = [np.arange(offsets[i], offsets[i + 1]) for i in order[: len(lengths)]]
    pieces = _subsample_rows if source.sets.points_dtype == np.float32 else _segment_rows
    return source.rows(objects + pieces(source, lengths[len(objects) :]))


def _gaussian(source: LandmarkSource, lengths: I64) -> SampleSets:
    steps = source.rng.standard_normal((int(lengths.sum()), source.sets.n_dims))
    return source.points(source.normal(steps), lengths)


def _walk(source: LandmarkSource, lengths: I64) -> SampleSets:
    walks = [
        np.cumsum(source.rng.standard_normal((n, source.sets.n_dims)), axis=0) / np.sqrt(n)
        for n in lengths.tolist()
    ]
    return source.points(source.normal(np.concatenate(walks)), lengths)


def _unit_vectors(source: LandmarkSource, lengths: I64) -> F64:
    normal = source.rng.standard_normal((int(lengths.sum()), source.sets.n_dims))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


def _norms(source: LandmarkSource) -> F64:
    return np.asarray(np.linalg.norm(source.sets.points.astype(np.float64), axis=1))


def _sphere(source: LandmarkSource, lengths: I64) -> SampleSets:
    radius = np.sqrt((_norms(source) ** 2).mean())
    return source.points(radius * _unit_vectors(source, lengths) - source.sets.origin, lengths)


def _ball(source: LandmarkSource, lengths: I64) -> SampleSets:
    u = source.rng.random((int(lengths.sum()), 1)) ** (1 / source.sets.n_dims)
    ball = _norms(source).max() * u * _unit_vectors(source, lengths)
    return source.points(ball - source.sets.origin, lengths)


def _uniform(source: LandmarkSource, lengths: I64) -> SampleSets:
    symbols = np.unique(source.sets.points)
    return _text(source, source.rng.choice(symbols, int(lengths.sum())), lengths)


def _markov(source: LandmarkSource, lengths: I64) -> SampleSets:
    symbols, codes = np.unique(source.sets.points, return_inverse=True)
    codes, k = codes.reshape(-1), len(symbols)
    has_previous = np.ones(len(codes), bool)
    has_previous[source.sets.offsets[:-1]] = False
    targets = np.flatnonzero(has_previous)
    transitions = (
        np.bincount(codes[targets - 1] * k + codes[targets], minlength=k * k).reshape(k, k).astype(np.float64)
    )
    frequencies = np.bincount(codes, minlength=k) / len(codes)
    # for symbols without a successor
    transitions = np.where(transitions.sum(axis=1, keepdims=True) > 0, transitions, frequencies)
    cumulative = np.cumsum(transitions / transitions.sum(axis=1, keepdims=True), axis=1)
    text, u = np.empty(int(lengths.sum()), np.int64), source.rng.random(int(lengths.sum()))
    for a, b in itertools.pairwise(offsets_of(lengths).tolist()):
        text[a] = min(int(np.searchsorted(np.cumsum(frequencies), u[a], side="right")), k - 1)
        for t in range(a + 1, b):
            text[t] = min(int(np.searchsorted(cumulative[text[t - 1]], u[t], side="right")), k - 1)
    return _text(source, symbols[text], lengths)


def _text(source: LandmarkSource, codes: NDArray[np.integer], lengths: I64) -> SampleSets:
    points = codes.astype(source.sets.points_dtype)[:, None]
    return SampleSets(points, offsets_of(lengths), None, source.sets.alphabet)


DATA_SAMPLERS: dict[str, Sampler] = {
    "subsample": _subsample,
    "segment": _segment,
    "element": _element,
    "object": _object,
    "leverage": _leverage,
    "supervised": _supervised,
    "mixed": _mixed,
}
POINT_SAMPLERS: dict[str, Sampler] = {"gaussian": _gaussian, "walk": _walk, "sphere": _sphere, "ball": _ball}
STRING_SAMPLERS: dict[str, Sampler] = {"uniform": _uniform, "markov": _markov}
SAMPLERS = DATA_SAMPLERS | POINT_SAMPLERS | STRING_SAMPLERS
DISTINCT_OBJECT_SAMPLERS = "object", "leverage", "supervised"
FIXED_LENGTH_SAMPLERS = ("element", *DISTINCT_OBJECT_SAMPLERS)
SIGMA_SAMPLERS = "gaussian", "walk"


def draw_landmarks(
    sampler: str, source: LandmarkSource, n_omegas: int, lengths: tuple[int, int]
) -> SampleSets:
    """Draw ``n_omegas`` random objects, with lengths uniform in ``lengths``, both ends included."""
    return SAMPLERS[sampler](source, source.rng.integers(lengths[0], lengths[1] + 1, n_omegas))
