"""`SetStore`: lazy view of sample sets in a store, and its HTML summary.

A view is a location, the commit it was opened at, and the selected positions. It has the interface of `SampleSets`,
pickles to a few hundred bytes, and returns `SampleSets` in memory. The summary reads offsets, ids and targets only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dkdist._numba.arrays import I64
from dkdist._utils.text import column_text, dtype_text, key_value_table, numbers_text, sizes_text
from dkdist.io._zarr.layout import Commit
from dkdist.io._zarr.location.address import StoreLocation, as_location
from dkdist.io._zarr.location.exchange import append_lock
from dkdist.io._zarr.reading import CommitReader, cache_reader, open_commit
from dkdist.io.errors import StoreFormatError
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_map import LazyTransform
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


class SetStore(LazySets):
    """Lazy view of the sample sets in a store, or of a selection; returned by `open_sets`.

    It has the interface and the attribute ``block_sets`` of `LazySets`, and `append` and `verify`.

    Notes
    -----
    Offsets are read chunk by chunk (1 MB for 131,072 sets) and cached per process. A view reads its commit while
    other processes append. If the store is replaced, reading raises `StoreFormatError`. This check costs one stat per
    read on a local disk, and one request for the small root document elsewhere; a run checks every five seconds.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> sets = dk.write_sets(tempfile.mkdtemp() + "/sets.zarr", np.zeros((5, 3, 2)), np.arange(5))
    >>> sets[[4, 0]].targets["y"], sets[1:3].load()
    (array([4, 0]), SampleSets(n_sets=2, n_points=6, n_dims=2))
    """

    __slots__ = ("_address",)
    _contents: Commit

    def __init__(
        self,
        address: StoreLocation,
        commit: Commit,
        set_positions: range | I64,
        block_sets: int | None,
        base: tuple[float, ...] | None = None,
        maps: tuple[LazyTransform, ...] = (),
    ) -> None:
        super().__init__(commit, set_positions, block_sets, base, maps)
        self._address = address

    @property
    def _commit(self) -> Commit:
        return self._contents

    @property
    def _reader(self) -> CommitReader:
        return open_commit(self._address, self._commit)

    @property
    def label(self) -> str:
        """Location of the store, without secrets."""
        return self._address.label

    @property
    def generation(self) -> int:
        """Number of the commit (below 2**53), unique in the history of the store."""
        return self._commit.generation

    def _view(
        self, set_positions: range | I64, base: tuple[float, ...] | None, maps: tuple[LazyTransform, ...]
    ) -> SetStore:
        return SetStore(self._address, self._commit, set_positions, self.block_sets, base, maps)

    def require_current(self) -> None:
        """Raise unless the store exists and still has the commit of this view."""
        CommitReader(self._address, self._commit)

    @property
    def read_ahead_bytes(self) -> int:
        """Bytes that may be requested before they are read; 0 for stores that are not remote."""
        return 0 if self._address.path is not None else self._reader.read_ahead_bytes

    def prefetch(self) -> int:
        """Request the chunks of consecutive sets without waiting for them; return their bytes."""
        run = self._run()
        if not run:
            return 0
        reader = self._reader
        first, last = (int(reader.offsets(i, i)[0]) for i in (run.start, run.stop))
        return reader.prefetch(first, last)

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
            CommitReader(self._address.latest(), self._commit)  # raises if the store was replaced
            with SetWriter(self._address, self.n_dims, mode="a") as writer:
                writer.append(sets, targets=targets, ids=ids)
        with after_commit(self._address.label):
            return open_sets(self._address, block_sets=self.block_sets)

    def _repr_html_(self) -> str:
        return format_store_html(self, self._address, self._commit)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._address, self._commit, self._positions, self.block_sets
        if self._maps:
            return SetStore, (*state, self._base, self._maps)
        return SetStore, state if self._base is None else (*state, self._base)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "dkdist.SetStore", self._address.label, self.generation, *self._selection_token()

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


def open_sets(store: Any, *, block_sets: int | None = None, snapshot: str | None = None) -> SetStore:
    """Open a store of sample sets; reads the commit and the last offsets only.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
        A directory, a zip file, ``s3://...``, ``https://...`` and so on. Credentials of a URL come from the
        environment of each process; a store object contains its own. A repository is read at its branch "main".
    block_sets : int, optional
        Number of sets per block of work; the default depends on the size of the sets. Rows of embeddings and features
        do not depend on it. SGD learners shuffle within blocks, so their coefficients do.
    snapshot : str, optional
        Id of a snapshot of an icechunk repository, for the sets of an earlier commit.

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
    address = address.pinned() if snapshot is None else address.at_snapshot(snapshot)
    opened = cache_reader(CommitReader(address))
    return SetStore(address, opened.commit, range(opened.commit.n_sets), block_sets)
