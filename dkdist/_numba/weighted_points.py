"""Weighted points in float64, one tile at a time, centred and scaled.

    x = scale (point - middle),   or scale S^(-1) (point - middle);   z = sign * weight

Sets may have any dtypes and are not copied. Without weights each point has weight one over their number. Sums over
tiles need no memory beyond a tile. Subtracting and scaling are monotonic, so bounds of x are exactly the subtracted and
scaled bounds of the points.
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

# A tile stays in the second-level cache; small sets use tiles of an eighth of their float32 bytes, so that memory stays
# proportional to the points. Fewer rows cost more Python calls: python benchmarks/kernel.py.
TILE_BYTES, MAX_TILE_ROWS = 2**19, 4096
MIN_TILE_BYTES, TILE_BYTES_DIVISOR = 2**15, 8  # see above: python benchmarks/kernel.py
TILE_ROW_MULTIPLE = 256  # whole tiles of compiled functions: python benchmarks/kernel.py
BOUNDS_ROWS = 2**16  # per minimum and maximum: bounds the temporary memory (python benchmarks/kernel.py)
MAX_SEPARATE_COLUMNS = (
    4  # subtracted one by one; broadcasting over short rows is slow (python benchmarks/kernel.py)
)
WEIGHT_ATTRIBUTES = {
    "firsts",
    "mass",
    "total",
    "largest",
    "size",
    "weight_range",
    "square",
}  # properties that do not depend on the points
# rows of tiles whose points are sorted, which takes some 100 bytes per row (python benchmarks/kernel.py)
SORTED_ROWS_DIVISOR, MIN_SORTED_ROWS, MAX_SORTED_ROWS = 256, 2**13, 2**16


def tile_rows(d: int, n: int) -> int:
    """Return the rows of a tile of n points in d dimensions: 256 to 4,096, and at most 512 KiB in between."""
    size = min(TILE_BYTES, max(MIN_TILE_BYTES, 4 * d * n // TILE_BYTES_DIVISOR))
    return min(MAX_TILE_ROWS, max(1, size // (8 * d * TILE_ROW_MULTIPLE)) * TILE_ROW_MULTIPLE)


def sorted_rows(n: int) -> int:
    """Return the rows of a tile whose points are sorted."""
    return min(max(n // SORTED_ROWS_DIVISOR, MIN_SORTED_ROWS), MAX_SORTED_ROWS)


class WeightRange(NamedTuple):
    """Number of weights above 0, and the smallest and largest weight."""

    positive: int
    least: float
    most: float


@dataclass(frozen=True)
class WeightedPoints:
    """Sets (n_s, d) of real numbers, weights (n_s, C) of each or None, and signs; see the module for the rest.

    ``boxes`` are the lowest and highest values of each set, where they are known.
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
        """Points (n, d) as they are, with weights (n, C)."""
        return cls((x,), (z,), (1.0,))

    def __len__(self) -> int:
        return self.firsts[-1]

    @property
    def d(self) -> int:
        """Dimensions."""
        return int(self.sets[0].shape[1])

    @property
    def channels(self) -> int:
        """Numbers C that make the weight of a point."""
        return 1 if self.weights[0] is None or self.weights[0].ndim == 1 else int(self.weights[0].shape[1])

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first row of each set, and the number of all."""
        return (0, *accumulate(map(len, self.sets)))

    def over(self, scale: float) -> WeightedPoints:
        """The same points in another unit, of which ``scale`` make one of this one."""
        return self if scale == 1 else self.elsewhere(scale=self.scale * scale)

    def elsewhere(self, **how: Any) -> WeightedPoints:
        """The same weights at points that are moved otherwise: what is known of weights stays known."""
        output = replace(self, **how)
        output.__dict__.update(
            (name, known) for name, known in self.__dict__.items() if name in WEIGHT_ATTRIBUTES
        )
        return output

    def column(self, j: int) -> F64:
        """Dimension j of all points: (n,)."""
        return np.concatenate([x[:, j] for x, _ in self.tiles()])

    def only(self, s: int) -> WeightedPoints:
        """Set ``s`` alone, with weights of its sign."""
        own = slice(s, s + 1)
        return replace(
            self, sets=self.sets[own], weights=self.weights[own], signs=self.signs[own],
            boxes=self.boxes and self.boxes[own],
        )  # fmt: skip

    def x(self, first: int, last: int) -> F64:
        """Points ``first`` to before ``last``: (m, d) in C order, perhaps a view, which nobody writes to."""
        pieces = [self.sets[s][a:b] for s, a, b in self._runs(first, last)]
        plain = self.middle is None and self.inverse is None and self.scale == 1
        if plain and len(pieces) == 1 and pieces[0].dtype == np.float64:
            return np.ascontiguousarray(pieces[0])
        out, row = np.empty((last - first, self.d)), 0
        for piece in pieces:
            out[row : row + len(piece)] = piece
            row += len(piece)
        return self._moved(out)

    def times(self, unit: float, first: int, last: int) -> F64:
        """The same in units of which ``unit`` make one: an array of its own."""
        x = self.x(first, last)
        own = x.base is None and all(x is not s for s in self.sets)
        return np.multiply(x, unit, out=x if own else None)

    def z(self, first: int, last: int) -> F64:
        """Their weights with signs: (m, C)."""
        out, row = np.empty((last - first, self.channels)), 0
        for s, a, b in self._runs(first, last):
            self._weigh(s, slice(a, b), out[row : row + b - a])
            row += b - a
        return out

    def at(self, index: I64) -> tuple[F64, F64]:
        """Points and weights of some rows, in this order."""
        result, z = np.empty((len(index), self.d)), np.empty((len(index), self.channels))
        for s, (first, end) in enumerate(zip(self.firsts[:-1], self.firsts[1:], strict=True)):
            own = np.flatnonzero((index >= first) & (index < end))
            rows, some = index[own] - first, np.empty((len(own), self.channels))
            self._weigh(s, rows, some)
            result[own], z[own] = self.sets[s][rows], some
        return self._moved(result), z

    def moved(self, x: F64) -> F64:
        """Other points (m, d), or one (d,), moved and scaled as these are."""
        return self._moved(x.copy())

    def arrays(self) -> tuple[F64, F64]:
        """All points and weights: a copy of them."""
        return self.x(0, len(self)), self.z(0, len(self))

    def tiles(self, rows: int | None = None) -> Iterator[tuple[F64, F64]]:
        """(points, weights) of so many rows after the other, or of `tile_rows`."""
        step = rows or tile_rows(self.d, len(self))
        for first in range(0, len(self), step):
            last = min(first + step, len(self))
            yield self.x(first, last), self.z(first, last)

    @cached_property
    def bounds(self) -> tuple[F64, F64]:
        """The lowest and highest value of each dimension."""
        if self.inverse is not None:
            return merge_bounds([column_bounds(x) for x, _ in self.tiles()])
        low, high = merge_bounds(self.boxes or set_bounds(self.sets))
        return self._moved(low), self._moved(high)

    @property
    def widths(self) -> F64:
        """Sides of the box of the points: infinite where they are too long for a float."""
        low, high = self.bounds
        with np.errstate(over="ignore"):
            return np.asarray(high - low)

    @cached_property
    def mass(self) -> float:
        """W = sum_i |z_i|: energies are at most W^2."""
        if self.channels == 1:
            return self.size
        return float(sum(self._of_weights(lambda z: np.sqrt(np.einsum("ic,ic->i", z, z)).sum())))

    @cached_property
    def total(self) -> F64:
        """sum_i z_i of each channel, (C,)."""
        return np.asarray(sum(self._of_weights(lambda z: z.sum(axis=0))))

    @cached_property
    def largest(self) -> float:
        """The largest |weight| of a channel; not 0."""
        return max(1e-300, *(float(np.abs(z).max()) for z in self._weight_tiles()))

    @cached_property
    def size(self) -> float:
        """sum_i |z_i| of all channels."""
        with np.errstate(over="ignore"):
            return float(sum(self._of_weights(lambda z: np.abs(z).sum())))

    @cached_property
    def weight_range(self) -> WeightRange:
        """Of the weights of one set, without its sign."""
        result = [
            WeightRange(int((w > 0).sum()), float(w.min()), float(w.max()))
            for w in (self.signs[0] * z for z in self._weight_tiles())
        ]
        positive, least, most = zip(*result, strict=True)
        return WeightRange(sum(positive), min(least), max(most))

    @cached_property
    def square(self) -> float:
        """sum_i |z_i|^2."""
        return sum(float((z**2).sum()) for z in self._weight_tiles())

    def _of_weights(self, function: Callable[[F64], Any]) -> Iterator[Any]:
        """A sum over weights, in parts: of a tile of them, or of all equal ones, which sum to one."""
        for s, given in enumerate(self.weights):
            if given is None:
                yield function(np.full((1, 1), self.signs[s]))
            else:
                yield from map(function, self.only(s)._weight_tiles())

    def _weight_tiles(self) -> Iterator[F64]:
        for first in range(0, len(self), MAX_TILE_ROWS):
            yield self.z(first, min(first + MAX_TILE_ROWS, len(self)))

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """(set, its first row, the row after its last one) of what lies between two rows of all."""
        for s, start in enumerate(self.firsts[:-1]):
            a, b = max(first, start), min(last, self.firsts[s + 1])
            if a < b:
                yield s, a - start, b - start

    def _weigh(self, s: int, rows: Any, out: F64) -> None:
        given = self.weights[s]
        if given is None:
            out[:] = self.signs[s] / len(self.sets[s])
        else:
            out[:] = given[rows].reshape(out.shape)
            if self.signs[s] != 1:
                out *= self.signs[s]

    def _moved(self, x: F64) -> F64:
        """The same in place."""
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
    """The lowest and highest values of each set."""
    return tuple(map(_exact_bounds, sets))


def merge_bounds(bounds: Sequence[tuple[F64, F64]]) -> tuple[F64, F64]:
    """Those of all points, from those of some and of others."""
    lows, highs = zip(*bounds, strict=True)
    return reduce(np.minimum, lows), reduce(np.maximum, highs)


def _exact_bounds(points: Array) -> tuple[F64, F64]:
    """In float64, some rows at a time where they cannot be looked at in place."""
    if points.flags.c_contiguous and points.dtype.kind == "f":
        low, high = column_bounds(points)
        return low.astype(np.float64), high.astype(np.float64)
    tiles = (points[a : a + BOUNDS_ROWS] for a in range(0, len(points), BOUNDS_ROWS))
    return merge_bounds([column_bounds(np.ascontiguousarray(tile, np.float64)) for tile in tiles])
