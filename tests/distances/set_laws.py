"""Small collections of sets, distance matrices, and checks that hold for every distance between sets."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)


def collection(rng, n_sets, d, weighted=False, largest=40):
    """(points, offsets, weights): sets of 1 to ``largest`` normal points, each set around its own random mean."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, largest + 1, n_sets))]).astype(np.int64)
    place = np.repeat(rng.standard_normal((n_sets, d)), np.diff(offsets), axis=0)
    points = (place + rng.standard_normal((offsets[-1], d))).astype(np.float32)
    weights = rng.uniform(0.1, 3, offsets[-1]).astype(np.float32) if weighted else None
    return points, offsets, weights


def stack(sets, weights=None):
    """Return a collection of the given arrays (n_i, d), with weights (n_i,) or None."""
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in sets])]).astype(np.int64)
    w = None if weights is None else np.concatenate(weights).astype(np.float32)
    return np.concatenate(sets).astype(np.float32), offsets, w


def iter_sets(points, offsets, weights):
    """Yield (float64 points, normalised weights) of each set."""
    w = np.ones(len(points)) if weights is None else weights.astype(np.float64)
    for a, b in itertools.pairwise(offsets):
        yield points[a:b].astype(np.float64), w[a:b] / w[a:b].sum()


def subset(chosen, points, offsets, weights):
    """Return the chosen sets, in that order."""
    rows = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in chosen])
    sizes = np.diff(offsets)[chosen]
    w = None if weights is None else weights[rows]
    return points[rows], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), w


def shuffle_points(rng, points, offsets, weights):
    """Return the same sets with the points of each in another order."""
    rows = np.concatenate([a + rng.permutation(b - a) for a, b in itertools.pairwise(offsets)])
    return points[rows], offsets, None if weights is None else weights[rows]


def weighted_and_repeated(rng, points, offsets):
    """Return sets with small integer weights (some zero), and the same sets with points repeated instead."""
    times = rng.integers(0, 4, len(points))
    times[offsets[:-1]] += 1  # each set keeps a point
    before = np.concatenate([[0], np.cumsum(times)])
    return (points, offsets, times.astype(np.float32)), (
        np.repeat(points, times, axis=0),
        before[offsets],
        None,
    )


def matrix(distance, omegas, objects):
    """Return the distances (n, R n_parts) of all objects to all omegas."""
    packed = distance.prepare(*omegas)
    assert packed.n_omegas == len(omegas[1]) - 1
    out = np.full((len(objects[1]) - 1, packed.n_omegas * distance.n_parts), np.nan, np.float32)
    distance.fill(packed, *objects, out)
    return out


def assert_same_bits(distance, rng, omegas, objects):
    """Check that any subset or order of objects and omegas, and unpickled inputs, give bit-identical entries."""
    whole = matrix(distance, omegas, objects)
    R = len(omegas[1]) - 1
    rows = rng.permutation(len(whole))[: 1 + len(whole) // 2]
    columns = rng.permutation(R)[: 1 + R // 2]
    part = matrix(distance, subset(columns, *omegas), subset(rows, *objects))
    places = np.concatenate([columns + R * k for k in range(distance.n_parts)])
    np.testing.assert_array_equal(part, whole[np.ix_(rows, places)])
    unpickled, packed = pickle.loads(pickle.dumps((distance, distance.prepare(*omegas))))
    again = np.empty_like(whole)
    unpickled.fill(packed, *objects, again)
    np.testing.assert_array_equal(again, whole)


def expected(pair, omegas, objects):
    """Return the matrix (n, R) of pair(x, a, y, b) for points x, y with normalised weights a, b."""
    return np.array([[pair(x, a, y, b) for y, b in iter_sets(*omegas)] for x, a in iter_sets(*objects)])
