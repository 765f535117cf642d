"""`LazySets`: lazy view of sample sets outside memory, the base of `SetStore`.

A view is a source and the selected positions. It has the interface of `SampleSets` and returns `SampleSets` in memory.
A `SetReader` reads the source: a commit of a store (`_zarr/reading.py`) or arrays (`array_sets.py`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, overload

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._runtime.arrays import block_bounds
from dkdist._runtime.blocks import BlockSource
from dkdist._utils.text import key_value_table, numbers_text
from dkdist.io.set_map import LazyTransform
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.indexing import NoArrayConversion, align_mask, positions, resolve_key
from dkdist.sets.labels import Labels, Names
from dkdist.sets.origins import normalize_origin, origin_text


class Contents(Protocol):
    """What is known of a source without reading: numbers of sets and dimensions, and labels of dimensions."""

    @property
    def n_sets(self) -> int:
        """Number of sets N."""

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""

    @property
    def alphabet(self) -> str | None:
        """Characters of string codes."""

    @property
    def origin(self) -> tuple[float, ...] | None:
        """Origin of the sets that are read; None for 0."""

    @property
    def names(self) -> Names | None:
        """Names of the dimensions."""


class SetReader(Protocol):
    """Reader of a source: points are T rows, and set i is rows o_i .. o_(i+1) - 1."""

    @property
    def points_dtype(self) -> np.dtype[Any]:
        """dtype of the points that are read."""

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """Shape of one point's weight; None without weights."""

    @property
    def has_ids(self) -> bool:
        """Whether there are ids."""

    @property
    def target_names(self) -> Sequence[str]:
        """Names of the targets."""

    @property
    def chunk_rows(self) -> int:
        """Rows that are read at once."""

    @property
    def origin(self) -> F64 | None:
        """Origin of the points that are read; None for 0."""

    def offsets(self, start: int, stop: int) -> I64:
        """Return the offsets o_start .. o_stop, both included."""

    def extents(self, index: I64) -> tuple[I64, I64]:
        """Return the first rows and end rows of the sets at some positions, in any order."""

    def sets(self, start: int, stop: int, first: int = 0) -> SampleSets:
        """Read the sets start .. stop - 1; errors name them by positions from ``first`` on."""

    def scattered(self, index: I64, first: int = 0) -> SampleSets:
        """Read the sets at positions in any order, with repeats."""

    def rows(self, start: int, stop: int) -> tuple[Array, F32 | None]:
        """Read the points start .. stop - 1 and their weights."""

    def point_weights(self, start: int, stop: int) -> F32:
        """Read the weights of the points start .. stop - 1 of a weighted source."""

    def column(self, name: str, start: int, stop: int) -> Array:
        """Read the entries start .. stop - 1 of ``ids`` or ``targets/NAME``."""


class Targets(Mapping[str, Array]):
    """Mapping of target names to arrays, which are read at each access."""

    def __init__(self, names: Sequence[str], read: Any) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(f"no targets {name!r}; the sets have {list(self._names)}.")
        values: Array = self._read(f"targets/{name}")
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Targets({', '.join(self._names)})"


# points per step of `SetStore.blocks`: 32 chunks of 1 MiB; tests/store/test_round_trip.py
BLOCK_BYTES = 32 * 2**20


class LazySets(NoArrayConversion):
    """Lazy view of sample sets outside memory, or of a selection; see `as_sets` and `SetStore`.

    ``len``, ``shape``, ``n_dims``, ``n_points``, ``sizes``, ``bounds``, ``s[i]`` and iteration work as for
    `SampleSets`. Indexing with a slice, a mask or an integer array returns another view and reads nothing.

    Attributes
    ----------
    block_sets : int or None
        Number of sets per block of work; None for the default.

    Examples
    --------
    >>> import dask.array as da, dkdist as dk
    >>> sets = dk.as_sets(da.ones((40, 5, 2), chunks=(10, 5, 2), dtype="float32"))
    >>> isinstance(sets, dk.LazySets), len(sets[::2]), sets[3].shape, sets[:2].load()
    (True, 20, (5, 2), SampleSets(n_sets=2, n_points=10, n_dims=2))
    """

    __slots__ = ("__weakref__", "_base", "_contents", "_maps", "_n_points", "_positions", "block_sets")

    def __init__(
        self,
        contents: Contents,
        set_positions: range | I64,
        block_sets: int | None,
        base: tuple[float, ...] | None = None,
        maps: tuple[LazyTransform, ...] = (),
    ) -> None:
        self._contents = contents
        self._positions = set_positions
        self._n_points: int | None = None
        self._maps = maps  # applied in order to sets that are read
        self._base = base  # origin of the sets returned, if not that of the source
        self.block_sets = block_sets

    @property
    def _reader(self) -> SetReader:
        """Reader of the source, open in this process."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Name of the source in messages."""
        raise NotImplementedError

    def _view(
        self, set_positions: range | I64, base: tuple[float, ...] | None, maps: tuple[LazyTransform, ...]
    ) -> Self:
        """Return another view of the source."""
        raise NotImplementedError

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def require_current(self) -> None:
        """Raise if the source has changed since it was opened."""

    @property
    def read_ahead_bytes(self) -> int:
        """Bytes of this and other views that may be requested before they are read; 0 if requests do not wait."""
        return 0

    def prefetch(self) -> int:
        """Request the points of the view without waiting for them; return their bytes."""
        return 0

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self._maps[-1].n_features if self._maps else self._contents.n_dims

    @property
    def read_dims(self) -> int:
        """Maximum dimension of points during reading, for memory estimates."""
        return max(self._contents.n_dims, *(step.n_features for step in self._maps), 1)

    @property
    def origin(self) -> F64:
        """(d,) float64 origin of the sets that are read, as `SampleSets.origin`."""
        base = self._default_origin if self._base is None else self._base
        return np.zeros(self.n_dims) if base is None else np.array(base)

    @property
    def _default_origin(self) -> tuple[float, ...] | None:
        return None if self._maps else self._contents.origin

    def rebased(self, origin: F64 | None) -> Self:
        """Return the view with another origin (None for 0) of the sets that are read."""
        default = self._default_origin or (0.0,) * self.n_dims
        base = (0.0,) * self.n_dims if origin is None else tuple(map(float, origin))
        return self._view(self._positions, None if base == default else base, self._maps)

    def mapped(self, step: LazyTransform) -> Self:
        """Return the view with a transform of the sets that are read; it keeps the numbers of points.

        Selections inherit the transform. Transformed sets have origin 0; ids, targets and the source are unchanged.
        """
        return self._view(self._positions, None, (*self._maps, step))

    @property
    def shape(self) -> tuple[int]:
        """(N,)."""
        return (len(self),)

    @property
    def n_points(self) -> int:
        """Number of points in the view; reads the required offsets."""
        if self._n_points is None:
            run, opened = self._run(), self._reader
            if run:  # needs only the first and last offset
                self._n_points = int(
                    opened.offsets(run.stop, run.stop)[0] - opened.offsets(run.start, run.start)[0]
                )
            else:
                self._n_points = int(self.sizes.sum())
        return self._n_points

    @property
    def sizes(self) -> I64:
        """(N,) int64 number of points per set; reads the offsets."""
        run = self._run()
        if run is not None:
            return np.diff(self._reader.offsets(run.start, run.stop))
        starts, stops = self._reader.extents(positions(self._positions))
        return stops - starts

    @property
    def bounds(self) -> tuple[Array, Array]:
        """(low, high), each (d,): minima and maxima of the columns; streams the points once."""
        boxes = [block.bounds for block in self.blocks()]
        if not boxes:
            raise SampleSetError("bounds need at least one set; got 0 sets.")
        return np.min([low for low, _ in boxes], axis=0), np.max([high for _, high in boxes], axis=0)

    @property
    def points_dtype(self) -> np.dtype[Any]:
        """float32, or uint8/uint16 for codes of strings."""
        return np.dtype(np.float32 if self._maps else self._reader.points_dtype)

    @property
    def alphabet(self) -> str | None:
        """Characters of string codes: code k is ``alphabet[k]``; None unless the sets are text."""
        return self._contents.alphabet

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """Shape of one point's weight, () or (k,); None without weights."""
        return self._reader.weights_shape

    @property
    def targets(self) -> Targets:
        """Targets by name, each a NumPy array with one entry per set; read at each access."""
        return Targets(self._reader.target_names, self._column)

    @property
    def ids(self) -> Array | None:
        """Ids of the sets in the view; None without ids."""
        return self._column("ids") if self.has_ids else None

    @property
    def has_ids(self) -> bool:
        """Whether the sets have ids; reads nothing."""
        return self._reader.has_ids

    @property
    def names(self) -> Names | None:
        """Names of the d dimensions; None without names."""
        names = self._contents.names
        for step in self._maps:
            names = step.names_of(names)
        return names

    def read(self, start: int, stop: int) -> SampleSets:
        """Read the sets at positions start .. stop - 1 of this view, ``0 <= start <= stop <= len``."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(
                f"start and stop must satisfy 0 <= start <= stop <= {len(self)}; got {start} and {stop}."
            )
        return self[start:stop].load()

    def load(self) -> SampleSets:
        """Read all sets of the view into memory, with ids, names and targets."""
        return self.points_alone()._with(Labels(self.ids, self.names, dict(self.targets)))

    def points_alone(self, first: int = 0) -> SampleSets:
        """Read all sets of the view into memory, without ids and targets.

        Errors about invalid points name sets by position; ``first`` is the position of the first set.
        """
        run = self._run()
        if run is not None:
            return self._transform(self._reader.sets(run.start, run.stop, first))
        return self._transform(self._reader.scattered(positions(self._positions), first))

    def weights_of(self, i: int) -> F32 | None:
        """Return the weights of set i, (n_i,) or (n_i, k), or None; reads the set."""
        position = resolve_key(int(i), len(self))
        return self._read_one(int(position)).weights  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Array]:
        for block in self.blocks():
            yield from block

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Array: ...
    @overload
    def __getitem__(self, key: Any) -> Self: ...
    def __getitem__(self, key: Any) -> Array | Self:
        key = resolve_key(align_mask(key, lambda: self.ids), len(self))
        if isinstance(key, int):
            return self._read_one(key).points
        if isinstance(key, range) and isinstance(self._positions, range):
            c = self._positions
            first = c.start + c.step * key.start
            new_positions: range | I64 = range(first, first + c.step * key.step * len(key), c.step * key.step)
        else:
            new_positions = positions(self._positions)[positions(key)]
        return self._view(new_positions, self._base, self._maps)

    def __repr__(self) -> str:
        total = "" if len(self) == self._contents.n_sets else f" of {self._contents.n_sets}"
        origin = origin_text(normalize_origin(self.origin))
        maps = "".join(f", through {step.label}" for step in self._maps)
        kind = type(self).__name__
        return f"{kind}({self.label!r}, n_sets={len(self)}{total}, n_dims={self.n_dims}{origin}{maps})"

    def _repr_html_(self) -> str:
        names = self.names
        pairs: list[tuple[object, object]] = [
            ("source", self.label),
            ("sets", f"{len(self):,}"),
            ("points", f"{self.n_points:,}"),
            ("dimensions", self.n_dims if names is None else f"{self.n_dims}: {', '.join(names)}"),
        ]
        if self.origin.any():
            pairs.append(("origin", numbers_text(self.origin)))
        return key_value_table(type(self).__name__, pairs)

    def _selection_token(self) -> tuple[Any, ...]:
        """Return a token of the positions and transforms of the view."""
        c, base = self._positions, () if self._base is None else (self._base,)
        more = *base, *(step.token for step in self._maps)
        if isinstance(c, range):
            return (c.start, len(c), c.step), *more
        return hashlib.blake2b(np.ascontiguousarray(c).tobytes(), digest_size=16).hexdigest(), *more

    def block_bounds(self, row_bytes: int = 0, max_sets: int | None = None) -> I64:
        """Return the bounds (n_blocks + 1,) of blocks of sets whose results have ``row_bytes`` per set."""
        block_sets = self.block_sets
        if block_sets is not None and max_sets is not None:
            block_sets = min(block_sets, max_sets)
        return block_bounds(self.sizes, 4 * self.read_dims, row_bytes, block_sets)

    def block_source(self, bounds: I64) -> BlockSource:
        """Return what tasks need of the blocks between some bounds."""
        return BlockSource.of_views([self[a:b] for a, b in itertools.pairwise(bounds.tolist())])

    def _run(self) -> range | None:
        """Return the positions if they are contiguous and increasing; else None."""
        return self._positions if isinstance(self._positions, range) and self._positions.step == 1 else None

    def _read_one(self, i: int) -> SampleSets:
        position = int(self._positions[i])
        return self._transform(self._reader.sets(position, position + 1))

    def _transform(self, sets: SampleSets) -> SampleSets:
        for step in self._maps:
            sets = step.apply(sets)
        return sets if self._base is None else sets.rebased(self.origin)

    def blocks(self) -> Iterator[SampleSets]:
        """Iterate over the sets, about 32 MiB of points at a time, without ids and targets."""
        row_bytes = self.read_dims * self.points_dtype.itemsize
        edges = np.concatenate([[0], np.cumsum(self.sizes)]) * row_bytes
        start = 0
        while start < len(self):
            stop = max(start + 1, int(np.searchsorted(edges, edges[start] + BLOCK_BYTES, side="right")) - 1)
            yield self[start:stop].points_alone()
            start = stop

    def _column(self, name: str) -> Array:
        run, opened = self._run(), self._reader
        if run is not None:
            return opened.column(name, run.start, run.stop)
        index = positions(self._positions)
        low = int(index.min()) if len(index) else 0
        high = int(index.max()) + 1 if len(index) else 0
        return opened.column(name, low, high)[index - low]
