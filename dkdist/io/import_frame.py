"""A data frame that may be larger than memory becomes a store, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, Array
from dkdist._runtime.frame_partitions import Partitions, is_dask_frame
from dkdist._utils.concurrency import BufferPool, prefetch_each
from dkdist._utils.validation import check_bool
from dkdist.io import SetStore, SetWriter, open_sets, write_sets
from dkdist.io._zarr.batches import convert_to_origin
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.conversion import concatenate_parts, sets_from_parts
from dkdist.sets.frames import SetParts, assign_roles, columns_of_frame, open_frame, parts_from_frame
from dkdist.sets.origins import infer_origin
from dkdist.sets.streams import ColumnSelection, sets_from_batches


def import_frame(
    store: Any,
    frame: Any,
    set_id: str,
    points: Any = None,
    targets: Any = None,
    weights: str | None = None,
    *,
    overwrite: bool = False,
) -> SetStore:
    """Make a new store of a Dask DataFrame with one row a point, in bounded memory.

    Parameters
    ----------
    store : path, URL or Zarr store object
    frame : Dask DataFrame, or any that `SampleSets.from_frame` takes
        The rows of a set stand in one partition, in any order there, or go on from the end of one to the next ones, as
        in a sorted frame.
    set_id, points, targets, weights
        As for `SampleSets.from_frame`; targets by id are a frame in memory.
    overwrite : bool, default=False
        Whether a store that is there may be replaced.

    Returns
    -------
    SetStore
        With ids, names of dimensions and targets; sets in the order in which they end, partition by partition.

    Raises
    ------
    SampleSetError
        As `SampleSets.from_frame`, rows being counted in their partition; and for a set that comes back after its
        partition: then shuffle the frame first, as the message says. Nothing is committed.
    FileExistsError
        If the place is taken, see `SetWriter`.

    Notes
    -----
    Each partition is computed once, on the active Dask client's cluster or on this
    machine's threads, one for each thread at a time (four at most), and written here, in order. A frame that does no
    more than to read local Parquet files is read by pyarrow itself, where no client is active, one partition for each
    core at a time: twice as fast, and checksums of pages, if the files have them, are verified. Dask has no option for
    that: with a client, or for a frame that does more, import the files by `import_sets` and a `TableReader`.
    Memory: these partitions, the sets of as many more, the set that goes on, and the ids of all sets. A frame whose
    graph holds a shuffle does that again for every partition: write it to Parquet before.

    Examples
    --------
    >>> import dkdist as dk, pandas as pd, tempfile
    >>> cells = pd.DataFrame({"donor": ["b", "a", "a"], "cd3": [1.0, 2.0, 3.0]})
    >>> sets = dk.import_frame(tempfile.mkdtemp() + "/cells.zarr", cells, "donor")
    >>> sets.ids, sets.names, sets.sizes
    (array(['b', 'a'], dtype='<U1'), ('cd3',), array([1, 2]))
    """
    check_bool("overwrite", overwrite)
    if not is_dask_frame(frame):
        whole = SampleSets.from_frame(frame, set_id, points, targets, weights)
        return write_sets(store, whole, overwrite=overwrite)
    first, piece = Partitions(frame, frame.columns, set_id).first_with_rows()
    columns = columns_of_frame(open_frame(piece, "frame"), "frame")
    roles = assign_roles(piece, columns, set_id, points, targets, weights)
    wanted = ColumnSelection(set_id, roles.points, targets, weights, roles.targets)
    partitions = Partitions(frame, roles.needed, set_id)
    made, n = _Making(partitions, wanted, first, piece), partitions.n_concurrent
    del columns, piece
    seen = _Seen(set_id)
    with (
        partitions.thread_pool() as crew,
        SetWriter(store, len(roles.points), overwrite=overwrite, names=roles.points) as writer,
        closing(prefetch_each(made, range(first, frame.npartitions), n, crew or n)) as collections,
    ):
        if crew is not None:
            writer.share(crew)
        for number, sets in _whole_sets(filter(None, collections)):
            with _naming(number):
                seen.note(sets.ids)
            writer.take(sets)
    return open_sets(writer.address)


class Made(NamedTuple):
    """The sets of a partition, whose number is given, and the id of its last row."""

    number: int
    sets: SampleSets
    last: Any


class _Making:
    """What makes the sets of a partition by its number; the first one is there, and all count from its origin."""

    def __init__(self, partitions: Partitions, wanted: ColumnSelection, first: int, piece: Any) -> None:
        self._partitions, self._wanted = partitions, wanted
        with _naming(first):
            parts = parts_from_frame(piece, *wanted[:4])
        self._first: dict[int, SetParts] = {first: parts}
        origin = infer_origin([parts.points])
        self._origin = np.zeros(len(wanted.points)) if origin is None else origin
        self._like_most, self._room = True, BufferPool()

    def __call__(self, number: int) -> Made | None:
        with _naming(number):
            if (parts := self._first.pop(number, None)) is not None:
                return self._made(number, parts, None)
            return self._shortly(number) or self._made_of(number, self._partitions[number])

    def _shortly(self, number: int) -> Made | None:
        """The sets of a partition that is read in batches and like most; where one was not, the next are not tried."""
        given = self._partitions.batches(number) if self._like_most else None
        if given is None or not given[0]:
            return None
        found = sets_from_batches(*given, self._wanted, self._origin, self._room)
        self._like_most = self._like_most and found is not None
        return None if found is None else Made(number, *found)

    def _made_of(self, number: int, piece: Any) -> Made | None:
        if not len(piece):
            return None
        return self._made(number, parts_from_frame(piece, *self._wanted[:4]), self._origin)

    def _made(self, number: int, parts: SetParts, origin: F64 | None) -> Made:
        sets = sets_from_parts([parts.points], parts.offsets, parts.weights, origin)
        sets = convert_to_origin(sets.labelled(parts.ids, parts.names, parts.targets), origin, "the store")
        return Made(number, sets, parts.ids[parts.last])


def _whole_sets(collections: Iterable[Made]) -> Iterator[tuple[int, SampleSets]]:
    """Sets that end in a partition, and its number: the set of a partition's last row may go on in the next."""
    held, going_on, number = (
        list[SampleSets](),
        None,
        0,
    )  # what there is of the set that may go on, and its id
    for number, sets, last in collections:
        if held:
            more, sets = _parted(sets, going_on)
            held += more
            if more and going_on == last:
                if len(sets):
                    yield number, sets
                continue
            yield number, _joined(number, held)
        going_on = last
        held, sets = _parted(sets, last)
        if len(sets):
            yield number, sets
    yield number, _joined(number, held)


def _parted(sets: SampleSets, one: Any) -> tuple[list[SampleSets], SampleSets]:
    """The set of an id, if it is there, and the others."""
    found = np.flatnonzero(sets.ids == one).tolist()
    if not found:
        return [], sets
    k = found[0]
    others = sets[1:] if k == 0 else sets[:-1] if k == len(sets) - 1 else sets[np.arange(len(sets)) != k]
    return [sets[[k]]], others  # a copy, no view of all of the partition


def _joined(number: int, parts: list[SampleSets]) -> SampleSets:
    with _naming(number):
        return concatenate_parts(parts)


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Say of an error in which partition it is."""
    try:
        yield
    except SampleSetError as error:
        raise SampleSetError(f"partition {number} of the frame cannot be imported: {error}") from error


class _Seen:
    """The ids of the sets that were written. Ids that only ascend cannot come back, and are compared with the last."""

    def __init__(self, set_id: str) -> None:
        self._set_id, self._ascending = set_id, list[Array]()
        self._all: set[Any] | None = None

    def note(self, ids: Any) -> None:
        """Refuse a set that was written before."""
        if self._all is None:
            last = [self._ascending[-1][-1:]] if self._ascending else []
            given = np.concatenate([*last, ids])
            if (given[1:] > given[:-1]).all():
                self._ascending.append(ids)
                return
            self._all = {one for some in self._ascending for one in some.tolist()}
            self._ascending = []
        found = ids.tolist()
        if not self._all.isdisjoint(found):
            one = next(one for one in found if one in self._all)
            raise SampleSetError(
                f"set {one!r} comes back after its rows in other partitions: bring the rows of each set together, by "
                f"frame.shuffle({self._set_id!r}).to_parquet(path), and import dask.dataframe.read_parquet(path)"
            )
        self._all.update(found)
