"""`SetStore`: sample sets on disk, chosen but not yet read.

A view is an address, the commit it was made from, and the positions it chose; it reads like `SampleSets` and
pickles in some hundred bytes. Whatever is read is a `SampleSets` in memory.

What a notebook shows of a store: what its commit, metadata, offsets and targets say. No point is read.
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


MAX_SUMMARY_SETS = 10**6  # sets whose sizes and targets are read for it: 8 MB of each

Pairs = list[tuple[object, object]]


def format_store_html(sets: SetStore, address: StoreLocation, commit: Commit) -> str:
    """An HTML table of a store, or of the part of it that was chosen; damage that is met is said in its place."""
    of = "" if len(sets) == commit.n_sets else f" of {commit.n_sets:,}"
    names = getattr(sets, "names", None)
    pairs: Pairs = [
        ("place", address.label),
        ("sets", f"{len(sets):,}{of}"),
        ("dimensions", sets.n_dims if names is None else f"{sets.n_dims}: {', '.join(map(str, names))}"),
    ]
    if sets.origin.any():
        pairs.append(("origin", numbers_text(sets.origin)))
    try:
        pairs += _content(sets, open_commit(address, commit))
        health = "good, as far as was read: .verify() reads all"
    except (StoreFormatError, OSError) as error:
        health = f"{type(error).__name__}: {error}"
    pairs += [("commit", f"generation {commit.generation}"), ("health", health)]
    return key_value_table("SetStore", pairs)


def _content(sets: SetStore, committed: CommitReader) -> Pairs:
    """Sizes, ids and targets in a few words, or their dtypes where they are many; and how points are kept."""
    few = len(sets) <= MAX_SUMMARY_SETS
    pairs: Pairs = [("points", f"{sets.n_points:,}"), ("points per set", sizes_text(sets.sizes))] if few else []
    pairs.append(("dtype", sets.points_dtype))
    if committed.weighted:
        pairs.append(("weights", weights_text(sets.weights_shape)))
    if "ids" in committed.arrays:
        ids = sets.ids if few else None
        pairs.append(("ids", dtype_text(committed.arrays["ids"].dtype) if ids is None else column_text(ids)))
    for name in committed.target_names:
        dtype = committed.arrays[f"targets/{name}"].dtype
        pairs.append((f"target {name!r}", column_text(sets.targets[name]) if few else dtype_text(dtype)))
    return [*pairs, ("chunks of points", _chunks(committed))]


def _chunks(committed: CommitReader) -> str:
    points, rows = committed.arrays["points"], committed.chunk_rows
    n_chunks, size = (
        math.ceil(committed.commit.n_points / rows),
        rows * points.shape[1] * points.dtype.itemsize,
    )
    shards = "" if points.shards is None else f", in shards of {int(points.shards[0]):,}"
    sums = "with checksums" if committed.table else "without a table of checksums"
    return f"{n_chunks:,} of {rows:,} points ({size / 2**20:.3g} MiB){shards}, {sums}"


BLOCK_BYTES = 32 * 2**20


class SetStore(NoArrayConversion):
    """A lazy collection of sample sets in a store, or a selection of them; made by `open_sets`.

    ``len``, ``shape``, ``n_dims``, ``n_points``, ``sizes``, ``bounds``, ``s[i]`` and iteration mean what they
    mean for `SampleSets`; a slice, a mask or an integer array makes another view and reads nothing.

    Attributes
    ----------
    block_sets : int or None
        The number of sets the user wants in a block of work, if any.

    Notes
    -----
    Offsets are read chunk by chunk (1 MB for 131,072 sets) and kept per process. A view goes on reading its
    own commit while others append. If the store is replaced, reading raises `StoreFormatError`; to see that,
    a read costs one stat on a local disk and one request for the small root document elsewhere.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> sets = dk.write_sets(tempfile.mkdtemp() + "/sets.zarr", np.zeros((5, 3, 2)), np.arange(5))
    >>> sets[[4, 0]].targets["y"], sets[1:3].load()
    (array([4, 0]), SampleSets(n_sets=2, n_points=6, n_dims=2))
    """

    __slots__ = (
        "__weakref__", "_address", "_base", "_chosen", "_commit", "_maps", "_n_points", "block_sets"
    )  # fmt: skip

    def __init__(
        self,
        address: StoreLocation,
        commit: Commit,
        chosen: range | I64,
        block_sets: int | None,
        base: tuple[float, ...] | None = None,
        maps: tuple[LazyTransform, ...] = (),
    ) -> None:
        self._address = address
        self._commit = commit
        self._chosen = chosen
        self._n_points: int | None = None
        self._maps = maps  # what sets go through when they are read, one after the other
        self._base = base  # another origin than their own that they are counted from in the end
        self.block_sets = block_sets

    @property
    def generation(self) -> int:
        """Names this content among everything the store ever held (below 2**53); an append adds one."""
        return self._commit.generation

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self._maps[-1].n_features if self._maps else self._commit.n_dims

    @property
    def read_dims(self) -> int:
        """The most dimensions that a point has on its way from the store: what is in memory while sets are read."""
        return max(self._commit.n_dims, *(step.n_features for step in self._maps), 1)

    @property
    def origin(self) -> F64:
        """(d,) float64: what the points of sets that are read are counted from, as `SampleSets.origin`."""
        base = self._own_origin if self._base is None else self._base
        return np.zeros(self.n_dims) if base is None else np.array(base)

    @property
    def _own_origin(self) -> tuple[float, ...] | None:
        return None if self._maps else self._commit.origin

    def rebased(self, origin: F64 | None) -> SetStore:
        """The same view, whose sets are counted from another origin (None for 0) when they are read."""
        own = self._own_origin or (0.0,) * self.n_dims
        base = (0.0,) * self.n_dims if origin is None else tuple(map(float, origin))
        return self._view(self._chosen, None if base == own else base, self._maps)

    def mapped(self, step: LazyTransform) -> SetStore:
        """The same view, whose sets go through a map (to others of as many points, from the origin 0) when they are
        read; views of it do so too. Whatever else is read, and the store itself, stay as they are.
        """
        return self._view(self._chosen, None, (*self._maps, step))

    def _view(
        self, chosen: range | I64, base: tuple[float, ...] | None, maps: tuple[LazyTransform, ...]
    ) -> SetStore:
        return SetStore(self._address, self._commit, chosen, self.block_sets, base, maps)

    @property
    def shape(self) -> tuple[int]:
        """(N,): the number of sets chosen."""
        return (len(self),)

    @property
    def n_points(self) -> int:
        """The number of points in the chosen sets; reads the offsets it needs."""
        if self._n_points is None:
            run, opened = self._run(), self._committed
            if run:  # the offsets of its ends are enough
                self._n_points = int(
                    opened.offsets(run.stop, run.stop)[0] - opened.offsets(run.start, run.start)[0]
                )
            else:
                self._n_points = int(self.sizes.sum())
        return self._n_points

    @property
    def sizes(self) -> I64:
        """(N,) int64: the number of points of each set; reads the offsets."""
        run = self._run()
        if run is not None:
            return np.diff(self._committed.offsets(run.start, run.stop))
        starts, stops = self._committed.extents(positions(self._chosen))
        return stops - starts

    @property
    def bounds(self) -> tuple[Array, Array]:
        """(low, high), each (d,): the smallest box that holds every point. Streams the points once."""
        boxes = [block.bounds for block in self.blocks()]
        if not boxes:
            raise SampleSetError("a selection of 0 sets has no bounds: choose at least one set")
        return np.min([low for low, _ in boxes], axis=0), np.max([high for _, high in boxes], axis=0)

    @property
    def points_dtype(self) -> np.dtype[Any]:
        """float32, or uint8/uint16 for codes of strings."""
        return np.dtype(np.float32 if self._maps else self._committed.arrays["points"].dtype)

    @property
    def alphabet(self) -> str | None:
        """What the codes of strings stand for: code k is ``alphabet[k]``; None if the points are no text."""
        return self._commit.alphabet

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """The shape of one point's weight: () or (k,); None if the points have no weights."""
        return self._committed.arrays["weights"].shape[1:] if self._committed.weighted else None

    @property
    def targets(self) -> Targets:
        """The targets by name, each a NumPy array with one entry a chosen set, read when asked for."""
        return Targets(self._committed.target_names, self._column)

    @property
    def ids(self) -> Array | None:
        """The ids of the chosen sets, or None if the store has none."""
        return self._column("ids") if self.has_ids else None

    @property
    def has_ids(self) -> bool:
        """Whether the store has ids; reads nothing."""
        return "ids" in self._committed.arrays

    @property
    def names(self) -> Names | None:
        """The names of the d dimensions, or None if they have none."""
        names = self._commit.names
        for step in self._maps:
            names = step.names_of(names)
        return names

    def read(self, start: int, stop: int) -> SampleSets:
        """Read the sets at positions start .. stop - 1 of this selection, ``0 <= start <= stop <= len``."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(
                f"positions {start} to {stop} are not within the {len(self)} sets of this selection"
            )
        return self[start:stop].load()

    def load(self) -> SampleSets:
        """Read all chosen sets into memory, with their ids, names and targets."""
        return self.points_alone()._with(Labels(self.ids, self.names, dict(self.targets)))

    def points_alone(self) -> SampleSets:
        """Read all chosen sets into memory, with names of dimensions but without ids and targets: a block of work."""
        run = self._run()
        if run is not None:
            return self._counted(self._committed.sets(run.start, run.stop))
        return self._counted(read_scattered(self._committed, positions(self._chosen)))

    def weights_of(self, i: int) -> F32 | None:
        """(n_i,) or (n_i, k): the weights of set i, or None; reads the set."""
        chosen = resolve_key(int(i), len(self))
        return self._one(int(chosen)).weights  # type: ignore[arg-type]

    def verify(self) -> VerifyReport:
        """Read and check every chunk of every array of the whole store.

        Raises
        ------
        StoreFormatError
            Naming the first array, chunk and sets that are damaged.
        """
        from dkdist.io._zarr.verify import verify_commit

        self._require_whole("verify")
        return verify_commit(CommitReader(self._address, self._commit))

    def append(self, sets: Any, targets: Any = None, ids: Any = None) -> SetStore:
        """Add sets at the end of the store, and return the store as it then is; this view stays as it was.

        Targets and ids must be there exactly if the store has them, with the same names and dtypes: those given, or
        those of the sets. Sets whose dimensions have other names, or another order of them, are refused. On a local
        disk an append waits up to 30 s for another one to end.
        """
        from dkdist.io._zarr.lease import after_commit
        from dkdist.io._zarr.set_writer import SetWriter

        self._require_whole("append to")
        with append_lock(self._address.path):
            CommitReader(self._address, self._commit)  # refuses a store that was replaced
            with SetWriter(self._address, self.n_dims, mode="a") as writer:
                writer.append(sets, targets=targets, ids=ids)
        with after_commit(self._address.label):
            return open_sets(self._address, block_sets=self.block_sets)

    def __len__(self) -> int:
        return len(self._chosen)

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
            return self._one(key).points
        if isinstance(key, range) and isinstance(self._chosen, range):
            c = self._chosen
            first = c.start + c.step * key.start
            chosen: range | I64 = range(first, first + c.step * key.step * len(key), c.step * key.step)
        else:
            chosen = positions(self._chosen)[positions(key)]
        return self._view(chosen, self._base, self._maps)

    def __repr__(self) -> str:
        of = "" if len(self) == self._commit.n_sets else f" of {self._commit.n_sets}"
        start = origin_text(normalize_origin(self.origin))
        maps = "".join(f", through {step.label}" for step in self._maps)
        return f"SetStore({self._address.label!r}, n_sets={len(self)}{of}, n_dims={self.n_dims}{start}{maps})"

    def _repr_html_(self) -> str:

        return format_store_html(self, self._address, self._commit)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._address, self._commit, self._chosen, self.block_sets
        if self._maps:
            return SetStore, (*state, self._base, self._maps)
        return SetStore, state if self._base is None else (*state, self._base)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        c, base = self._chosen, () if self._base is None else (self._base,)
        more = *base, *(step.token for step in self._maps)
        if isinstance(c, range):
            return "dkdist.SetStore", self._address.label, self.generation, (c.start, len(c), c.step), *more
        digest = hashlib.blake2b(np.ascontiguousarray(c).tobytes(), digest_size=16).hexdigest()
        return "dkdist.SetStore", self._address.label, self.generation, digest, *more

    @property
    def _committed(self) -> CommitReader:
        return open_commit(self._address, self._commit)

    def _run(self) -> range | None:
        """The chosen positions if they are a run without gaps."""
        return self._chosen if isinstance(self._chosen, range) and self._chosen.step == 1 else None

    def _one(self, i: int) -> SampleSets:
        place = int(self._chosen[i])
        return self._counted(self._committed.sets(place, place + 1))

    def _counted(self, sets: SampleSets) -> SampleSets:
        for step in self._maps:
            sets = step.apply(sets)
        return sets if self._base is None else sets.rebased(self.origin)

    def blocks(self) -> Iterator[SampleSets]:
        """The chosen sets in order, about 32 MiB of points at a time, without ids and targets."""
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
        index = positions(self._chosen)
        low = int(index.min()) if len(index) else 0
        high = int(index.max()) + 1 if len(index) else 0
        return opened.column(name, low, high)[index - low]

    def _require_whole(self, what: str) -> None:
        if self._maps:
            raise ValueError(
                f"the sets of this view go through {self._maps[-1].label} when they are read: to {what} the store "
                f"itself, open it with open_sets({self._address.label!r})"
            )
        if self._run() != range(self._commit.n_sets):
            raise ValueError(
                f"this view holds {len(self)} of the {self._commit.n_sets} sets; "
                f"only a whole store can be used to {what} it. "
                f"Open it with open_sets({self._address.label!r})"
            )


def open_sets(store: Any, *, block_sets: int | None = None) -> SetStore:
    """Open a store of sample sets; nothing but its commit and the last offsets are read.

    Parameters
    ----------
    store : path, URL or Zarr store object
        A directory, a zip file, ``s3://...``, ``https://...`` and so on. A URL finds its credentials in the
        environment of each process; a store object carries its own.
    block_sets : int, optional
        The number of sets you want in a block of work; by default it follows from the size of the sets. Rows of
        embeddings and features do not depend on it; SGD learners shuffle within blocks, so their coefficients do.

    Returns
    -------
    SetStore
        All sets of the store, lazily.

    Raises
    ------
    FileNotFoundError
        If a local path does not exist.
    StoreFormatError
        If there is no committed store, or it is of another format, newer, or damaged.
    OSError
        If a storage refuses (PermissionError), does not answer (ConnectionError), or fails otherwise.

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
        raise ValueError(f"block_sets is {block_sets}: give at least one set a block, or None")
    address = as_location(store)
    opened = cache_reader(CommitReader(address))
    return SetStore(address, opened.commit, range(opened.commit.n_sets), block_sets)
