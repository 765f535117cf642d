"""`ArraySets`: lazy sets that are rows of arrays, in particular of Dask arrays.

    flat      points (T, d); set i is rows o_i .. o_(i+1) - 1
    padded    points (N, n, d); set i is the first n_i rows of entry i

Tasks get the rows of their block from the chunks of the array. They see the same view as the caller, of rows in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._runtime.blocks import BlockSource
from dkdist._runtime.lazy_rows import LazyRows, MemoryRows, Runs, chunk_aligned_bounds, rows_source
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_map import LazyTransform
from dkdist.sets import SampleSets
from dkdist.sets.indexing import positions
from dkdist.sets.labels import NO_LABELS, Labels, Names
from dkdist.sets.origins import SortedSample
from dkdist.sets.point_checks import CODE_DTYPES, convert_points, require_finite

# The sample that chooses an origin: about so many points of consecutive sets at each of some places; more places read
# more chunks (tests/inputs/test_as_sets.py)
N_SAMPLED_POINTS, N_SAMPLED_PLACES = 128, 8


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Reader of sets that are rows of arrays; ``sizes`` (N,) and labels are in memory."""

    points: LazyRows | MemoryRows
    weights: LazyRows | MemoryRows | None
    sizes: I64
    origin: F64 | None = None
    labels: Labels = NO_LABELS

    @property
    def padded(self) -> bool:
        """Whether points are (N, n, d)."""
        return self.points.array.ndim == 3

    @cached_property
    def edges(self) -> I64:
        """Offsets (N + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.sizes)

    @property
    def n_dims(self) -> int:
        """Dimension of the points."""
        return int(self.points.array.shape[-1])

    @property
    def names(self) -> Names | None:
        """Names of the dimensions."""
        return self.labels.names

    @property
    def points_dtype(self) -> np.dtype[Any]:
        """float32, or uint8/uint16 for codes of strings."""
        dtype = np.dtype(self.points.array.dtype)
        return dtype if self.n_dims == 1 and dtype in CODE_DTYPES else np.dtype(np.float32)

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """Shape of one point's weight; None without weights."""
        return None if self.weights is None else tuple(self.weights.array.shape[2 if self.padded else 1 :])

    @property
    def has_ids(self) -> bool:
        """Whether the sets have ids."""
        return self.labels.ids is not None

    @property
    def target_names(self) -> Sequence[str]:
        """Names of the targets."""
        return sorted(self.labels.targets)

    @property
    def chunk_rows(self) -> int:
        """Points of the largest chunk."""
        return int(np.diff(self.points.edges).max(initial=1)) * (
            self.points.array.shape[1] if self.padded else 1
        )

    def offsets(self, start: int, stop: int) -> I64:
        """Return the offsets o_start .. o_stop, both included."""
        return self.edges[start : stop + 1]

    def extents(self, index: I64) -> tuple[I64, I64]:
        """Return the first rows and end rows of sets."""
        return self.edges[index], self.edges[index + 1]

    def sets(self, start: int, stop: int, first: int = 0) -> SampleSets:
        """Read consecutive sets."""
        return self.scattered(np.arange(start, stop), first)

    def scattered(self, index: I64, first: int = 0) -> SampleSets:
        """Read sets in any order; errors name them by positions from ``first`` on."""
        points = self._values(self.points, index)
        weights = None if self.weights is None else self._values(self.weights, index)
        edges = np.concatenate([[0], np.cumsum(self.sizes[index])])
        # the origin is given, so that a set does not depend on the others of its block
        zero = np.zeros(self.n_dims)
        rows, origin = convert_points(
            [points], zero if self.origin is None else self.origin, copy=False, is_representable=True
        )
        require_finite(rows, edges, first_set=first)
        if weights is not None:
            with np.errstate(over="ignore"):
                weights = np.ascontiguousarray(weights, np.float32)
            require_finite(weights, edges, "weight", first_set=first)
        return SampleSets._trusted(rows, edges, weights, None, origin, Labels(names=self.names))

    def raw_points(self, index: I64) -> Array:
        """Read points of sets as they are, without conversion and checks."""
        return self._values(self.points, index)

    def _values(self, rows: LazyRows | MemoryRows, index: I64) -> Array:
        values = rows.read(self.runs(index))
        return values[np.arange(values.shape[1]) < self.sizes[index][:, None]] if self.padded else values

    def runs(self, index: I64) -> Runs:
        """Return the rows of the arrays that contain some sets."""
        return Runs.of_rows(index) if self.padded else Runs(self.edges[index], self.sizes[index])

    def rows(self, start: int, stop: int) -> tuple[Array, F32 | None]:
        """Read points of consecutive sets, and their weights."""
        first = int(np.searchsorted(self.edges, start, side="right")) - 1
        last = int(np.searchsorted(self.edges, stop))
        sets, rows = self.sets(first, last), slice(start - self.edges[first], stop - self.edges[first])
        return sets.relative[rows], None if sets.weights is None else sets.weights[rows]

    def point_weights(self, start: int, stop: int) -> F32:
        """Read weights of points of consecutive sets."""
        weights = self.rows(start, stop)[1]
        assert weights is not None
        return weights

    def column(self, name: str, start: int, stop: int) -> Array:
        """Return entries of ``ids`` or ``targets/NAME``."""
        values = self.labels.ids if name == "ids" else self.labels.targets[name.removeprefix("targets/")]
        assert values is not None
        return values[start:stop]


@dataclass(frozen=True)
class ArrayContents:
    """What is known of sets of arrays without reading."""

    n_sets: int
    n_dims: int
    names: Names | None
    origin: tuple[float, ...] | None
    alphabet: None = None


class ArraySets(LazySets):
    """Lazy view of sets that are rows of Dask arrays; returned by `as_sets`."""

    __slots__ = ("_source",)

    def __init__(
        self,
        source: ArraySource,
        set_positions: range | I64,
        block_sets: int | None = None,
        base: tuple[float, ...] | None = None,
        maps: tuple[LazyTransform, ...] = (),
    ) -> None:
        origin = None if source.origin is None else tuple(map(float, source.origin))
        contents = ArrayContents(source.n_sets, source.n_dims, source.names, origin)
        super().__init__(contents, set_positions, block_sets, base, maps)
        self._source = source

    @classmethod
    def of(cls, points: Any, weights: Any, sizes: I64, labels: Labels) -> ArraySets:
        """Return all sets of Dask arrays; points of other dtypes than float32 are sampled to choose an origin."""
        rows = LazyRows.of(points), None if weights is None else LazyRows.of(weights)
        source = ArraySource(*rows, sizes, None, labels)
        return cls(replace(source, origin=_sampled_origin(source)), range(len(sizes)))

    @property
    def _reader(self) -> ArraySource:
        return self._source

    @property
    def label(self) -> str:
        """Kind and shape of the array."""
        array = self._source.points.array
        return f"array of shape {array.shape}"

    def _view(
        self, set_positions: range | I64, base: tuple[float, ...] | None, maps: tuple[LazyTransform, ...]
    ) -> ArraySets:
        return ArraySets(self._source, set_positions, self.block_sets, base, maps)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArraySets, (self._source, self._positions, self.block_sets, self._base, self._maps)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        source = self._source
        names = [rows.token for rows in (source.points, source.weights) if rows is not None]
        origin = None if source.origin is None else source.origin.tolist()
        return "dkdist.ArraySets", names, source.sizes, origin, *self._selection_token()

    def block_bounds(self, row_bytes: int = 0, max_sets: int | None = None) -> I64:
        """Return the bounds of blocks of sets, which contain whole chunks if possible."""
        if self.block_sets is not None:
            return super().block_bounds(row_bytes, max_sets)
        index, source = positions(self._positions), self._source
        owners = np.searchsorted(
            source.points.edges, index if source.padded else source.edges[index], side="right"
        )
        return chunk_aligned_bounds(owners, self.sizes, 4 * self.read_dims, row_bytes, max_sets)

    def block_source(self, bounds: I64) -> BlockSource:
        """Return blocks whose tasks get rows of the Dask arrays."""
        source, index = self._source, positions(self._positions)
        arrays = [rows for rows in (source.points, source.weights) if isinstance(rows, LazyRows)]
        blocks = []
        for a, b in itertools.pairwise(bounds.tolist()):
            runs = source.runs(index[a:b])
            block = ArrayBlock(source.sizes[index[a:b]], source.origin, source.names, self._base, self._maps)
            blocks.append((block, [runs] * len(arrays)))
        return rows_source(ArrayBlock.view, blocks, arrays, (self.__dask_tokenize__(), bounds.tolist()))


@dataclass(frozen=True, eq=False)
class ArrayBlock:
    """A block of sets without its rows, which a task adds."""

    sizes: I64
    origin: F64 | None
    names: Names | None
    base: tuple[float, ...] | None
    maps: tuple[LazyTransform, ...]

    def view(self, points: Array, weights: Array | None = None) -> ArraySets:
        """Return the view of rows in memory."""
        rows = MemoryRows(points), None if weights is None else MemoryRows(weights)
        source = ArraySource(*rows, self.sizes, self.origin, Labels(names=self.names))
        return ArraySets(source, range(len(self.sizes)), None, self.base, self.maps)


def _sampled_origin(source: ArraySource) -> F64 | None:
    """Return the origin of points from a sample of sets; dtypes that float32 represents are not read.

    Warns if float32 rounds many distinct values of the sample to a few.
    """
    dtype, n = source.points.array.dtype, source.n_sets
    if SortedSample.of([np.empty((0, source.n_dims), dtype)]) is None:
        return None
    n_each = -(-N_SAMPLED_POINTS // max(1, int(np.median(source.sizes))))
    firsts = np.linspace(0, max(0, n - n_each), N_SAMPLED_PLACES).astype(np.int64)
    index = np.unique(np.minimum(firsts[:, None] + np.arange(n_each), n - 1))
    return convert_points([source.raw_points(index)], None)[1]
