"""`SetStore`: lazy view of sample sets in a store, and its HTML summary.

A view is a location, the commit it was opened at, and the selected positions. It has the interface of `SampleSets`,
pickles to a few hundred bytes, and returns `SampleSets` in memory. The summary reads offsets, ids and targets only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._utils.text import column_text, dtype_text, key_value_table, numbers_text, sizes_text
from dkdist.io._zarr.layout import Commit
from dkdist.io._zarr.location.address import StoreLocation, as_location
from dkdist.io._zarr.location.exchange import append_lock
from dkdist.io._zarr.reading import CommitReader, Targets, cache_reader, open_commit, read_scattered
from dkdist.io.errors import StoreFormatError
from dkdist.io.set_map import LazyTransform
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.indexing import NoArrayConversion, align_mask, positions, resolve_key
from dkdist.sets.labels import Labels, Names
from dkdist.sets.origins import normalize_origin, origin_text
from dkdist.sets.sample_sets import weights_text

if TYPE_CHECKING:
    from dkdist.io._zarr.verify import VerifyReport


# reads at most 8 MB of sizes and of each target; tests/files/test_notebook_tables.py
MAX_SUMMARY_SETS = 10**6

Pairs = list[tuple[object, object]]


def format_store_html(sets: SetStore, address: StoreLocation, commit: Commit) -> str:
    """Return an HTML table of a view; errors of reading appear in the row "health"."""
    total = "" if len(sets) == commit.n_sets else f" of {commit.n_sets:,}"
    names = getattr(sets, "names", None)
    pairs: Pairs = [
        ("location", address.label),
        ("sets", f"{len(sets):,}{total}"),
        ("dimensions", sets.n_dims if names is None else f"{sets.n_dims}: {', '.join(map(str, names))}"),
    ]
    if sets.origin.any():
        pairs.append(("origin", numbers_text(sets.origin)))
    try:
        pairs += _content(sets, open_commit(address, commit))
        health = "no error in the data read; .verify() checks all chunks"
    except (StoreFormatError, OSError) as error:
        health = f"{type(error).__name__}: {error}"
    pairs += [("commit", f"generation {commit.generation}"), ("health", health)]
    return key_value_table("SetStore", pairs)


def _content(sets: SetStore, committed: CommitReader) -> Pairs:
    """Summarize sizes, ids and targets (only dtypes of large views), and the chunks of points."""
    is_small = len(sets) <= MAX_SUMMARY_SETS
    pairs: Pairs = (
        [("points", f"{sets.n_points:,}"), ("points per set", sizes_text(sets.sizes))] if is_small else []
    )
    pairs.append(("dtype", sets.points_dtype))
    if committed.weighted:
        pairs.append(("weights", weights_text(sets.weights_shape)))
    if "ids" in committed.arrays:
        ids = sets.ids if is_small else None
        pairs.append(("ids", dtype_text(committed.arrays["ids"].dtype) if ids is None else column_text(ids)))
    for name in committed.target_names:
        dtype = committed.arrays[f"targets/{name}"].dtype
        pairs.append((f"target {name!r}", column_text(sets.targets[name]) if is_small else dtype_text(dtype)))
    return [*pairs, ("chunks of points", _chunks(committed))]


def _chunks(committed: CommitReader) -> str:
    points, rows = committed.arrays["points"], committed.chunk_rows
    n_chunks = math.ceil(committed.commit.n_points / rows)
    size = rows * points.shape[1] * points.dtype.itemsize
    shards = "" if points.shards is None else f", in shards of {int(points.shards[0]):,}"
    checksums = "with checksums" if committed.table else "without a table of checksums"
    return f"{n_chunks:,} of {rows:,} points ({size / 2**20:.3g} MiB){shards}, {checksums}"


# points per step of `SetStore.blocks`: 32 chunks of 1 MiB; tests/store/test_round_trip.py
BLOCK_BYTES = 32 * 2**20


class SetStore(NoArrayConversion):
    """Lazy view of the sample sets in a store, or of a selection; returned by `open_sets`.

    ``len``, ``shape``, ``n_dims``, ``n_points``, ``sizes``, ``bounds``, ``s[i]`` and iteration work as for
    `SampleSets`. Indexing with a slice, a mask or an integer array returns another view and reads nothing.

    Attributes
    ----------
    block_sets : int or None
        Number of sets per block of work; None for the default.

    Notes
    -----
    Offsets are read chunk by chunk (1 MB for 131,072 sets) and cached per process. A view reads its commit while
    other processes append. If the store is replaced, reading raises `StoreFormatError`. This check costs one stat per
    read on a local disk, and one request for the small root document elsewhere.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> sets = dk.write_sets(tempfile.mkdtemp() + "/sets.zarr", np.zeros((5, 3, 2)), np.arange(5))
    >>> sets[[4, 0]].targets["y"], sets[1:3].load()
    (array([4, 0]), SampleSets(n_sets=2, n_points=6, n_dims=2))
    """

    __slots__ = (
        "__weakref__", "_address", "_base", "_commit", "_maps", "_n_points", "_positions", "block_sets"
    )  # fmt: skip

    def __init__(
        self,
        address: StoreLocation,
        commit: Commit,
        set_positions: range | I64,
        block_sets: int | None,
        base: tuple[float, ...] | None = None,
        maps: tuple[LazyTransform, ...] = (),
    ) -> None:
        self._address = address
        self._commit = commit
        self._positions = set_positions
        self._n_points: int | None = None
        self._maps = maps  # applied in order to sets that are read
        self._base = base  # origin of the sets returned, if not that of the store
        self.block_sets = block_sets

    @property
    def generation(self) -> int:
        """Number of the commit (below 2**53), unique in the history of the store."""
        return self._commit.generation

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self._maps[-1].n_features if self._maps else self._commit.n_dims

    @property
    def read_dims(self) -> int:
        """Maximum dimension of points during reading, for memory estimates."""
        return max(self._commit.n_dims, *(step.n_features for step in self._maps), 1)

    @property
    def origin(self) -> F64:
        """(d,) float64 origin of the sets that are read, as `SampleSets.origin`."""
        base = self._default_origin if self._base is None else self._base
        return np.zeros(self.n_dims) if base is None else np.array(base)

    @property
    def _default_origin(self) -> tuple[float, ...] | None:
        return None if self._maps else self._commit.origin

    def rebased(self, origin: F64 | None) -> SetStore:
        """Return the view with another origin (None for 0) of the sets that are read."""
        default = self._default_origin or (0.0,) * self.n_dims
        base = (0.0,) * self.n_dims if origin is None else tuple(map(float, origin))
        return self._view(self._positions, None if base == default else base, self._maps)

    def mapped(self, step: LazyTransform) -> SetStore:
        """Return the view with a transform of the sets that are read; it keeps the numbers of points.

        Selections inherit the transform. Transformed sets have origin 0; ids, targets and the store are unchanged.
        """
        return self._view(self._positions, None, (*self._maps, step))

    def _view(
        self, set_positions: range | I64, base: tuple[float, ...] | None, maps: tuple[LazyTransform, ...]
    ) -> SetStore:
        return SetStore(self._address, self._commit, set_positions, self.block_sets, base, maps)

    @property
    def shape(self) -> tuple[int]:
        """(N,)."""
        return (len(self),)

    @property
    def n_points(self) -> int:
        """Number of points in the view; reads the required offsets."""
        if self._n_points is None:
            run, opened = self._run(), self._committed
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
            return np.diff(self._committed.offsets(run.start, run.stop))
        starts, stops = self._committed.extents(positions(self._positions))
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
        return np.dtype(np.float32 if self._maps else self._committed.arrays["points"].dtype)

    @property
    def alphabet(self) -> str | None:
        """Characters of string codes: code k is ``alphabet[k]``; None unless the sets are text."""
        return self._commit.alphabet

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """Shape of one point's weight, () or (k,); None without weights."""
        return self._committed.arrays["weights"].shape[1:] if self._committed.weighted else None

    @property
    def targets(self) -> Targets:
        """Targets by name, each a NumPy array with one entry per set; read at each access."""
        return Targets(self._committed.target_names, self._column)

    @property
    def ids(self) -> Array | None:
        """Ids of the sets in the view; None without ids."""
        return self._column("ids") if self.has_ids else None

    @property
    def has_ids(self) -> bool:
        """Whether the store has ids; reads nothing."""
        return "ids" in self._committed.arrays

    @property
    def names(self) -> Names | None:
        """Names of the d dimensions; None without names."""
        names = self._commit.names
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

    def points_alone(self) -> SampleSets:
        """Read all sets of the view into memory, without ids and targets."""
        run = self._run()
        if run is not None:
            return self._transform(self._committed.sets(run.start, run.stop))
        return self._transform(read_scattered(self._committed, positions(self._positions)))

    def weights_of(self, i: int) -> F32 | None:
        """Return the weights of set i, (n_i,) or (n_i, k), or None; reads the set."""
        position = resolve_key(int(i), len(self))
        return self._read_one(int(position)).weights  # type: ignore[arg-type]

    def verify(self) -> VerifyReport:
        """Read and check every chunk of every array of the store.

        Raises
        ------
        StoreFormatError
            For the first damaged array; the message names its chunk and sets.
        """
        from dkdist.io._zarr.verify import verify_commit

        self._require_whole("verify")
        return verify_commit(CommitReader(self._address, self._commit))

    def append(self, sets: Any, targets: Any = None, ids: Any = None) -> SetStore:
        """Append sets to the store and return the new store; this view is unchanged.

        Targets and ids, from the arguments or from the sets, must have the names and dtypes of the store. Names of
        dimensions must agree in order. On a local disk an append waits up to 30 s for a concurrent append.
        """
        from dkdist.io._zarr.lease import after_commit
        from dkdist.io._zarr.set_writer import SetWriter

        self._require_whole("append to")
        with append_lock(self._address.path):
            CommitReader(self._address, self._commit)  # raises if the store was replaced
            with SetWriter(self._address, self.n_dims, mode="a") as writer:
                writer.append(sets, targets=targets, ids=ids)
        with after_commit(self._address.label):
            return open_sets(self._address, block_sets=self.block_sets)

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Array]:
        for block in self.blocks():
            yield from block

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Array: ...
    @overload
    def __getitem__(self, key: Any) -> SetStore: ...
    def __getitem__(self, key: Any) -> Array | SetStore:
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
        total = "" if len(self) == self._commit.n_sets else f" of {self._commit.n_sets}"
        origin = origin_text(normalize_origin(self.origin))
        maps = "".join(f", through {step.label}" for step in self._maps)
        return f"SetStore({self._address.label!r}, n_sets={len(self)}{total}, n_dims={self.n_dims}{origin}{maps})"

    def _repr_html_(self) -> str:
        return format_store_html(self, self._address, self._commit)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._address, self._commit, self._positions, self.block_sets
        if self._maps:
            return SetStore, (*state, self._base, self._maps)
        return SetStore, state if self._base is None else (*state, self._base)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        c, base = self._positions, () if self._base is None else (self._base,)
        more = *base, *(step.token for step in self._maps)
        if isinstance(c, range):
            return "dkdist.SetStore", self._address.label, self.generation, (c.start, len(c), c.step), *more
        digest = hashlib.blake2b(np.ascontiguousarray(c).tobytes(), digest_size=16).hexdigest()
        return "dkdist.SetStore", self._address.label, self.generation, digest, *more

    @property
    def _committed(self) -> CommitReader:
        return open_commit(self._address, self._commit)

    def _run(self) -> range | None:
        """Return the positions if they are contiguous and increasing; else None."""
        return self._positions if isinstance(self._positions, range) and self._positions.step == 1 else None

    def _read_one(self, i: int) -> SampleSets:
        position = int(self._positions[i])
        return self._transform(self._committed.sets(position, position + 1))

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
        run, opened = self._run(), self._committed
        if run is not None:
            return opened.column(name, run.start, run.stop)
        index = positions(self._positions)
        low = int(index.min()) if len(index) else 0
        high = int(index.max()) + 1 if len(index) else 0
        return opened.column(name, low, high)[index - low]

    def _require_whole(self, what: str) -> None:
        if self._maps:
            raise ValueError(
                f"cannot {what} a view with the transform {self._maps[-1].label}. Open the store with "
                f"open_sets({self._address.label!r})."
            )
        if self._run() != range(self._commit.n_sets):
            raise ValueError(
                f"cannot {what} a view of {len(self)} of {self._commit.n_sets} sets. Open the whole store with "
                f"open_sets({self._address.label!r})."
            )


def open_sets(store: Any, *, block_sets: int | None = None) -> SetStore:
    """Open a store of sample sets; reads the commit and the last offsets only.

    Parameters
    ----------
    store : path, URL or Zarr store object
        A directory, a zip file, ``s3://...``, ``https://...`` and so on. Credentials of a URL come from the
        environment of each process; a store object contains its own.
    block_sets : int, optional
        Number of sets per block of work; the default depends on the size of the sets. Rows of embeddings and features
        do not depend on it. SGD learners shuffle within blocks, so their coefficients do.

    Returns
    -------
    SetStore
        All sets of the store, lazily.

    Raises
    ------
    FileNotFoundError
        If a local path does not exist.
    StoreFormatError
        If there is no committed store, or it has another format or a newer version, or is damaged.
    OSError
        If the storage denies access (PermissionError), does not answer (ConnectionError), or fails otherwise.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> from dkdist.io import open_sets, write_sets
    >>> memory = zarr.storage.MemoryStore()
    >>> _ = write_sets(memory, [np.zeros((3, 2)), np.ones((5, 2))], targets=[0, 1])
    >>> sets = open_sets(memory)
    >>> len(sets), sets.n_points, sets[1].shape, sets[1:].targets["y"]
    (2, 8, (5, 2), array([1]))
    """
    if block_sets is not None and block_sets < 1:
        raise ValueError(f"block_sets must be at least 1 or None; got {block_sets}.")
    address = as_location(store)
    opened = cache_reader(CommitReader(address))
    return SetStore(address, opened.commit, range(opened.commit.n_sets), block_sets)
