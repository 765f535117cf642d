"""Weighted points in float64, one tile at a time, centred and scaled.

    x = scale (point - middle),   or scale S^(-1) (point - middle);   z = sign * weight

Sets may have any dtype and are not copied. Without weights, each of n points has weight 1 / n. Sums over tiles need
memory for one tile. Subtraction and scaling are monotonic, so the bounds of x are exactly the transformed bounds of the
points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64, Array
from dkdist._numba.points import column_bounds

# A tile stays in the L2 cache. Tiles of small sets have an eighth of the float32 bytes of the set, so that memory is
# proportional to the points. Smaller tiles need more Python calls: python benchmarks/kernel.py.
TILE_BYTES, MAX_TILE_ROWS = 2**19, 4096
MIN_TILE_BYTES, TILE_BYTES_DIVISOR = 2**15, 8  # see above: python benchmarks/kernel.py
TILE_ROW_MULTIPLE = 256  # multiple of the tiles of compiled functions: python benchmarks/kernel.py
BOUNDS_ROWS = 2**16  # rows per minimum and maximum; limits temporary memory (python benchmarks/kernel.py)
# up to here, columns are subtracted one by one; broadcasting over short rows is slow (python benchmarks/kernel.py)
MAX_SEPARATE_COLUMNS = 4
# cached properties that do not depend on the points
WEIGHT_ATTRIBUTES = {"firsts", "mass", "total", "largest", "size", "weight_range", "square"}
# limits of rows per sorted tile; sorting takes about 100 bytes per row (python benchmarks/kernel.py)
SORTED_ROWS_DIVISOR, MIN_SORTED_ROWS, MAX_SORTED_ROWS = 256, 2**13, 2**16


def tile_rows(d: int, n: int) -> int:
    """Return the rows of a tile of n points in d dimensions: 256 to 4,096, and at most 512 KiB if possible."""
    size = min(TILE_BYTES, max(MIN_TILE_BYTES, 4 * d * n // TILE_BYTES_DIVISOR))
    return min(MAX_TILE_ROWS, max(1, size // (8 * d * TILE_ROW_MULTIPLE)) * TILE_ROW_MULTIPLE)


def sorted_rows(n: int) -> int:
    """Return the rows of a tile whose points are sorted."""
    return min(max(n // SORTED_ROWS_DIVISOR, MIN_SORTED_ROWS), MAX_SORTED_ROWS)


class WeightRange(NamedTuple):
    """Number of weights above 0, and the smallest and largest weight."""

    n_positive: int
    minimum: float
    maximum: float


@dataclass(frozen=True)
class WeightedPoints:
    """Sets (n_s, d) of real numbers with weights (n_s, C) or None, signs, and the transformation of coordinates.

    ``boxes`` are the lower and upper bounds of each set, or None if unknown.
    """

    sets: tuple[Array, ...]
    weights: tuple[Array | None, ...]
    signs: tuple[float, ...]
    middle: F64 | None = None
    inverse: F64 | None = None
    scale: float = 1.0
    boxes: tuple[tuple[F64, F64], ...] | None = None

    @classmethod
    def of(cls, x: F64, z: F64) -> WeightedPoints:
        """Return untransformed points (n, d) with weights (n, C)."""
        return cls((x,), (z,), (1.0,))

    def __len__(self) -> int:
        return self.firsts[-1]

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return int(self.sets[0].shape[1])

    @property
    def channels(self) -> int:
        """Number C of components of a weight."""
        return 1 if self.weights[0] is None or self.weights[0].ndim == 1 else int(self.weights[0].shape[1])

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """First row of each set, and the total number of rows."""
        return (0, *accumulate(map(len, self.sets)))

    def scale_by(self, scale: float) -> WeightedPoints:
        """Return the points with coordinates multiplied by ``scale``."""
        return self if scale == 1 else self.with_transform(scale=self.scale * scale)

    def with_transform(self, **fields: Any) -> WeightedPoints:
        """Return the points with other fields of the transformation, and keep cached properties of weights."""
        output = replace(self, **fields)
        output.__dict__.update(
            (name, value) for name, value in self.__dict__.items() if name in WEIGHT_ATTRIBUTES
        )
        return output

    def column(self, j: int) -> F64:
        """Return coordinate j of all points: (n,)."""
        return np.concatenate([x[:, j] for x, _ in self.tiles()])

    def select_set(self, s: int) -> WeightedPoints:
        """Return set ``s`` only, with its sign."""
        one_set = slice(s, s + 1)
        return replace(
            self, sets=self.sets[one_set], weights=self.weights[one_set], signs=self.signs[one_set],
            boxes=self.boxes and self.boxes[one_set],
        )  # fmt: skip

    def x(self, first: int, last: int) -> F64:
        """Return points ``first`` to ``last`` - 1: (m, d) in C order, possibly a view; do not modify it."""
        pieces = [self.sets[s][a:b] for s, a, b in self._runs(first, last)]
        is_identity = self.middle is None and self.inverse is None and self.scale == 1
        if is_identity and len(pieces) == 1 and pieces[0].dtype == np.float64:
            return np.ascontiguousarray(pieces[0])
        out, row = np.empty((last - first, self.d)), 0
        for piece in pieces:
            out[row : row + len(piece)] = piece
            row += len(piece)
        return self._transform_in_place(out)

    def scaled_x(self, scale: float, first: int, last: int) -> F64:
        """Return `x` multiplied by ``scale``, as a new array."""
        x = self.x(first, last)
        is_copy = x.base is None and all(x is not s for s in self.sets)
        return np.multiply(x, scale, out=x if is_copy else None)

    def z(self, first: int, last: int) -> F64:
        """Return signed weights of points ``first`` to ``last`` - 1: (m, C)."""
        out, row = np.empty((last - first, self.channels)), 0
        for s, a, b in self._runs(first, last):
            self._fill_weights(s, slice(a, b), out[row : row + b - a])
            row += b - a
        return out

    def take(self, index: I64) -> tuple[F64, F64]:
        """Return points and signed weights of the rows ``index``, in this order."""
        x, z = np.empty((len(index), self.d)), np.empty((len(index), self.channels))
        for s, (first, end) in enumerate(zip(self.firsts[:-1], self.firsts[1:], strict=True)):
            positions = np.flatnonzero((index >= first) & (index < end))
            rows, set_weights = index[positions] - first, np.empty((len(positions), self.channels))
            self._fill_weights(s, rows, set_weights)
            x[positions], z[positions] = self.sets[s][rows], set_weights
        return self._transform_in_place(x), z

    def transform(self, x: F64) -> F64:
        """Apply the transformation of these points to other points (m, d), or to one point (d,)."""
        return self._transform_in_place(x.copy())

    def arrays(self) -> tuple[F64, F64]:
        """Return all points (n, d) and signed weights (n, C)."""
        return self.x(0, len(self)), self.z(0, len(self))

    def tiles(self, rows: int | None = None) -> Iterator[tuple[F64, F64]]:
        """Yield (points, signed weights) of consecutive tiles of ``rows`` rows, by default `tile_rows`."""
        step = rows or tile_rows(self.d, len(self))
        for first in range(0, len(self), step):
            last = min(first + step, len(self))
            yield self.x(first, last), self.z(first, last)

    @cached_property
    def bounds(self) -> tuple[F64, F64]:
        """Lower and upper bound of each dimension."""
        if self.inverse is not None:
            return merge_bounds([column_bounds(x) for x, _ in self.tiles()])
        low, high = merge_bounds(self.boxes or set_bounds(self.sets))
        return self._transform_in_place(low), self._transform_in_place(high)

    @property
    def widths(self) -> F64:
        """Sides of the bounding box; infinite on overflow."""
        low, high = self.bounds
        with np.errstate(over="ignore"):
            return np.asarray(high - low)

    @cached_property
    def mass(self) -> float:
        """W = sum_i |z_i|; energies are at most W^2."""
        if self.channels == 1:
            return self.size
        return float(sum(self._map_weights(lambda z: np.sqrt(np.einsum("ic,ic->i", z, z)).sum())))

    @cached_property
    def total(self) -> F64:
        """Sum of z_i over points, (C,)."""
        return np.asarray(sum(self._map_weights(lambda z: z.sum(axis=0))))

    @cached_property
    def largest(self) -> float:
        """Largest |weight| of all channels; at least 1e-300."""
        return max(1e-300, *(float(np.abs(z).max()) for z in self._weight_tiles()))

    @cached_property
    def size(self) -> float:
        """Sum of |z_i| over points and channels."""
        with np.errstate(over="ignore"):
            return float(sum(self._map_weights(lambda z: np.abs(z).sum())))

    @cached_property
    def weight_range(self) -> WeightRange:
        """Range of the weights of a single set, without its sign."""
        ranges = [
            WeightRange(int((w > 0).sum()), float(w.min()), float(w.max()))
            for w in (self.signs[0] * z for z in self._weight_tiles())
        ]
        n_positive, minima, maxima = zip(*ranges, strict=True)
        return WeightRange(sum(n_positive), min(minima), max(maxima))

    @cached_property
    def square(self) -> float:
        """Sum of |z_i|^2 over points."""
        return sum(float((z**2).sum()) for z in self._weight_tiles())

    def _map_weights(self, function: Callable[[F64], Any]) -> Iterator[Any]:
        """Yield ``function`` of tiles of signed weights; equal weights of a set are passed as one point of weight 1."""
        for s, weights in enumerate(self.weights):
            if weights is None:
                yield function(np.full((1, 1), self.signs[s]))
            else:
                yield from map(function, self.select_set(s)._weight_tiles())

    def _weight_tiles(self) -> Iterator[F64]:
        for first in range(0, len(self), MAX_TILE_ROWS):
            yield self.z(first, min(first + MAX_TILE_ROWS, len(self)))

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield (set, first row, end) of the parts of sets between two rows of all points."""
        for s, start in enumerate(self.firsts[:-1]):
            a, b = max(first, start), min(last, self.firsts[s + 1])
            if a < b:
                yield s, a - start, b - start

    def _fill_weights(self, s: int, rows: Any, out: F64) -> None:
        weights = self.weights[s]
        if weights is None:
            out[:] = self.signs[s] / len(self.sets[s])
        else:
            out[:] = weights[rows].reshape(out.shape)
            if self.signs[s] != 1:
                out *= self.signs[s]

    def _transform_in_place(self, x: F64) -> F64:
        if self.middle is not None and x.ndim == 2 and x.shape[1] <= MAX_SEPARATE_COLUMNS:
            for j, m in enumerate(self.middle):
                x[:, j] -= m
        elif self.middle is not None:
            x -= self.middle
        if self.inverse is not None:
            x = x @ self.inverse.T
        if self.scale != 1:
            x *= self.scale
        return x


def set_bounds(sets: Sequence[Array]) -> tuple[tuple[F64, F64], ...]:
    """Return the lower and upper bounds of each set."""
    return tuple(map(_exact_bounds, sets))


def merge_bounds(bounds: Sequence[tuple[F64, F64]]) -> tuple[F64, F64]:
    """Return the bounds of all points from the bounds of their parts."""
    lows, highs = zip(*bounds, strict=True)
    return reduce(np.minimum, lows), reduce(np.maximum, highs)


def _exact_bounds(points: Array) -> tuple[F64, F64]:
    if points.flags.c_contiguous and points.dtype.kind == "f":
        low, high = column_bounds(points)
        return low.astype(np.float64), high.astype(np.float64)
    tiles = (points[a : a + BOUNDS_ROWS] for a in range(0, len(points), BOUNDS_ROWS))
    return merge_bounds([column_bounds(np.ascontiguousarray(tile, np.float64)) for tile in tiles])
