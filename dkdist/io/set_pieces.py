"""Runs of points of one set, each read when it is asked for: sets too large to be read at once.

A piece is rows of a set in a `SetStore`, or of a plain Zarr array (n, d). It loads as (m, d) points, with their weights
in one more column where there are any, and pickles in some hundred bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from dkdist._numba.arrays import F32, I64, Array
from dkdist.io.set_map import LazyTransform
from dkdist.io.set_store import SetStore
from dkdist.sets import SampleSets

PIECE_BYTES = 4 * 2**20  # points per piece, at least one chunk; tests/scaling/test_set_scaler.py
MAX_WHOLE_SET_BYTES = 32 * 2**20  # larger sets are read in pieces; tests/scaling/test_set_scaler.py


@dataclass(frozen=True)
class SetRows:
    """Rows ``start`` to ``stop`` - 1 of all points of a store, within the one set of a view."""

    view: SetStore
    start: int
    stop: int

    def load(self) -> Array:
        """(m, d) points, true coordinates, or (m, d + 1) with their weights."""
        points, weights = self.arrays()
        points = points + self.view.origin if self.view.origin.any() else points
        return points if weights is None else np.concatenate([points, weights.reshape(-1, 1)], axis=1)

    def arrays(self) -> tuple[Array, F32 | None]:
        """(m, d) points, counted from the origin of the view, and their weights (m,) if they have any."""
        piece = self.view._transform(self.committed())
        return piece.relative, None if piece.weights is None else piece.weights.reshape(-1)

    def committed(self) -> SampleSets:
        """The rows as they are in the store: a set of their own."""
        opened = self.view._committed
        points, weights = opened.rows(self.start, self.stop)
        return SampleSets._trusted(points, np.array([0, len(points)]), weights, None, opened.origin)

    def weights(self) -> F32:
        """(m,) weights alone, of points that have them."""
        return self.view._committed.entries("weights", self.start, self.stop).reshape(-1)

    def __dask_tokenize__(self) -> Any:
        return self.view.__dask_tokenize__(), self.start, self.stop


@dataclass(frozen=True)
class ArrayRows:
    """Rows ``start`` to ``stop`` - 1 of a Zarr array."""

    array: zarr.Array[Any]
    start: int
    stop: int

    def load(self) -> Array:
        """(m, d) points."""
        return np.asarray(self.array[self.start : self.stop])

    def __dask_tokenize__(self) -> Any:
        return str(self.array.store_path), self.start, self.stop


def in_pieces(sets: SetStore) -> bool:
    """Whether this is one set too large to be read at once, of points with one weight each or none."""
    if len(sets) != 1 or int(np.prod(sets.weights_shape or ())) != 1 or sets.points_dtype != np.float32:
        return False
    return 4 * sets.read_dims * sets.n_points > MAX_WHOLE_SET_BYTES


def read_pieces(view: SetStore) -> Iterator[tuple[Array, F32 | None]]:
    """The points of the one set of a view, and their weights, piece by piece."""
    for piece in set_pieces(view)[0]:
        yield piece.arrays()


def read_weights(view: SetStore) -> Iterator[F32]:
    """The weights of the one set of a view, piece by piece; nothing if it has none."""
    if view.weights_shape is not None:
        for piece in set_pieces(view._view(view._chosen, None, ()))[0]:
            yield piece.weights()


def set_pieces(view: SetStore) -> tuple[list[SetRows], I64]:
    """The pieces of the one set of a view, and their bounds within it (n_pieces + 1,)."""
    starts, stops = view._committed.extents(np.asarray([view._chosen[0]], np.int64))
    first, last = int(starts[0]), int(stops[0])
    edges = _edges(first, last, view._committed.chunk_rows, 4 * view.read_dims)
    view = _settled(view, edges)
    pieces = [SetRows(view, a, b) for a, b in itertools.pairwise(edges)]
    return pieces, np.array(edges, np.int64) - first


def _settled(view: SetStore, edges: list[int]) -> SetStore:
    """The view of one set with maps that can be used on each of its pieces by itself."""
    maps: tuple[LazyTransform, ...] = ()
    for step in view._maps:
        so_far = view._view(view._chosen, None, maps)
        pieces = [SetRows(so_far, a, b) for a, b in itertools.pairwise(edges)]
        maps += (step.for_chunks((so_far._transform(p.committed()) for p in pieces), edges[-1] - edges[0]),)
    return view._view(view._chosen, view._base, maps) if maps else view


def array_pieces(array: Any) -> tuple[list[ArrayRows], I64]:
    """The pieces of a Zarr array (n, d), and their bounds."""
    edges = _edges(0, array.shape[0], array.chunks[0], array.dtype.itemsize * array.shape[1])
    return [ArrayRows(array, a, b) for a, b in itertools.pairwise(edges)], np.array(edges, np.int64)


def is_zarr_array(value: object) -> bool:
    """Whether this is an array in a Zarr store."""
    return isinstance(value, zarr.Array)


def _edges(first: int, last: int, chunk_rows: int, row_bytes: int) -> list[int]:
    """From ``first`` to ``last`` by whole chunks."""
    rows = max(1, PIECE_BYTES // row_bytes // chunk_rows) * chunk_rows
    return [first, *range((first // rows + 1) * rows, last, rows), last]
