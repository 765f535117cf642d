"""Lazy pieces of one set, for sets too large to be read at once.

A piece is a range of rows of a set in a `LazySets`, or of a plain Zarr array (n, d). It loads as (m, d) points, with
weights (if any) in an additional column, and pickles to a few hundred bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from dkdist._numba.arrays import F32, I64, Array
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_map import LazyTransform
from dkdist.sets import SampleSets

PIECE_BYTES = 4 * 2**20  # target size; a piece has at least one chunk; tests/scaling/test_set_scaler.py
MAX_WHOLE_SET_BYTES = 32 * 2**20  # larger sets are read in pieces; tests/scaling/test_set_scaler.py


@dataclass(frozen=True)
class SetRows:
    """Rows ``start`` to ``stop`` - 1 of all points of a store, within the one set of a view."""

    view: LazySets
    start: int
    stop: int

    def load(self) -> Array:
        """Read (m, d) points in true coordinates, or (m, d + 1) with weights."""
        points, weights = self.arrays()
        points = points + self.view.origin if self.view.origin.any() else points
        return points if weights is None else np.concatenate([points, weights.reshape(-1, 1)], axis=1)

    def arrays(self) -> tuple[Array, F32 | None]:
        """Read (m, d) points relative to the origin of the view, and weights (m,) or None."""
        piece = self.view._transform(self.committed())
        return piece.relative, None if piece.weights is None else piece.weights.reshape(-1)

    def committed(self) -> SampleSets:
        """Read the stored rows as one set, without the transforms of the view."""
        opened = self.view._reader
        points, weights = opened.rows(self.start, self.stop)
        return SampleSets._trusted(points, np.array([0, len(points)]), weights, None, opened.origin)

    def weights(self) -> F32:
        """Read the weights (m,) of a weighted store."""
        return self.view._reader.point_weights(self.start, self.stop).reshape(-1)

    def __dask_tokenize__(self) -> Any:
        return self.view.__dask_tokenize__(), self.start, self.stop


@dataclass(frozen=True)
class ArrayRows:
    """Rows ``start`` to ``stop`` - 1 of a Zarr array."""

    array: zarr.Array[Any]
    start: int
    stop: int

    def load(self) -> Array:
        """Read (m, d) points."""
        return np.asarray(self.array[self.start : self.stop])

    def __dask_tokenize__(self) -> Any:
        return str(self.array.store_path), self.start, self.stop


def in_pieces(sets: LazySets) -> bool:
    """Whether this is one set too large to be read at once, with scalar weights or none."""
    if len(sets) != 1 or int(np.prod(sets.weights_shape or ())) != 1 or sets.points_dtype != np.float32:
        return False
    return 4 * sets.read_dims * sets.n_points > MAX_WHOLE_SET_BYTES


def read_pieces(view: LazySets) -> Iterator[tuple[Array, F32 | None]]:
    """Iterate over points and weights of the only set of a view, piece by piece."""
    for piece in set_pieces(view)[0]:
        yield piece.arrays()


def read_weights(view: LazySets) -> Iterator[F32]:
    """Iterate over the weights of the only set of a view, piece by piece; empty without weights."""
    if view.weights_shape is not None:
        for piece in set_pieces(view._view(view._positions, None, ()))[0]:
            yield piece.weights()


def set_pieces(view: LazySets) -> tuple[list[SetRows], I64]:
    """Return the pieces of the only set of a view, and their bounds within it (n_pieces + 1,)."""
    starts, stops = view._reader.extents(np.asarray([view._positions[0]], np.int64))
    first, last = int(starts[0]), int(stops[0])
    edges = _edges(first, last, view._reader.chunk_rows, 4 * view.read_dims)
    view = _with_chunk_transforms(view, edges)
    pieces = [SetRows(view, a, b) for a, b in itertools.pairwise(edges)]
    return pieces, np.array(edges, np.int64) - first


def _with_chunk_transforms(view: LazySets, edges: list[int]) -> LazySets:
    """Return the view of one set with transforms that apply to each piece separately."""
    maps: tuple[LazyTransform, ...] = ()
    for step in view._maps:
        partial_view = view._view(view._positions, None, maps)
        pieces = [SetRows(partial_view, a, b) for a, b in itertools.pairwise(edges)]
        chunks = (partial_view._transform(p.committed()) for p in pieces)
        maps += (step.for_chunks(chunks, edges[-1] - edges[0]),)
    return view._view(view._positions, view._base, maps) if maps else view


def array_pieces(array: Any) -> tuple[list[ArrayRows], I64]:
    """Return the pieces of a Zarr array (n, d), and their bounds."""
    edges = _edges(0, array.shape[0], array.chunks[0], array.dtype.itemsize * array.shape[1])
    return [ArrayRows(array, a, b) for a, b in itertools.pairwise(edges)], np.array(edges, np.int64)


def is_zarr_array(value: object) -> bool:
    """Whether this is an array in a Zarr store."""
    return isinstance(value, zarr.Array)


def _edges(first: int, last: int, chunk_rows: int, row_bytes: int) -> list[int]:
    """Return bounds from ``first`` to ``last`` at multiples of whole chunks."""
    rows = max(1, PIECE_BYTES // row_bytes // chunk_rows) * chunk_rows
    return [first, *range((first // rows + 1) * rows, last, rows), last]
