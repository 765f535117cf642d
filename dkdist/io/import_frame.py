"""Import of Dask DataFrames larger than memory into a store, partition by partition."""

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
    """Write a new store from a Dask DataFrame with one row per point, in bounded memory.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
    frame : Dask DataFrame, or any data frame that `SampleSets.from_frame` accepts
        The rows of a set are in one partition, in any order, or continue from the end of a partition into the next
        ones, as in a sorted frame.
    set_id, points, targets, weights
        As for `SampleSets.from_frame`; targets by id must be a frame in memory.
    overwrite : bool, default=False
        Replace an existing store.

    Returns
    -------
    SetStore
        With ids, names of dimensions and targets; sets are ordered by the partition of their last row.

    Raises
    ------
    SampleSetError
        As `SampleSets.from_frame`, with row numbers within the partition; also for a set that reappears in a later
        partition (the message shows how to shuffle the frame). Nothing is committed.
    FileExistsError
        If the location is occupied, see `SetWriter`.

    Notes
    -----
    Each partition is computed once, on the cluster of the active Dask client or on local threads (one partition per
    thread, at most four at a time), and written by this process in order. Without a client, a frame that only reads
    local Parquet files is read by pyarrow, one partition per core at a time; page checksums are then verified. Dask
    cannot verify them: with a client, or for other frames, import the files with `import_sets` and a `TableReader`.
    Memory: the partitions in progress, the sets of equally many finished ones, one incomplete set, and all ids. A graph
    with a shuffle repeats the shuffle for every partition; write such a frame to Parquet first.

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
        sets = SampleSets.from_frame(frame, set_id, points, targets, weights)
        return write_sets(store, sets, overwrite=overwrite)
    first, piece = Partitions(frame, frame.columns, set_id).first_with_rows()
    columns = columns_of_frame(open_frame(piece, "frame"), "frame")
    roles = assign_roles(piece, columns, set_id, points, targets, weights)
    selection = ColumnSelection(set_id, roles.points, targets, weights, roles.targets)
    partitions = Partitions(frame, roles.required, set_id)
    convert, n = _PartitionConverter(partitions, selection, first, piece), partitions.n_concurrent
    del columns, piece
    written_ids = _WrittenIds(set_id)
    with (
        partitions.thread_pool() as pool,
        SetWriter(store, len(roles.points), overwrite=overwrite, names=roles.points) as writer,
        closing(prefetch_each(convert, range(first, frame.npartitions), n, pool or n)) as results,
    ):
        if pool is not None:
            writer.share(pool)
        for number, sets in _iter_complete_sets(filter(None, results)):
            with _partition_errors(number):
                written_ids.add(sets.ids)
            writer.take(sets)
    return open_sets(writer.address)


class PartitionSets(NamedTuple):
    """The sets of a numbered partition, and the id of its last row."""

    number: int
    sets: SampleSets
    last_id: Any


class _PartitionConverter:
    """Callable from partition numbers to sets; all are relative to the origin of the first partition."""

    def __init__(self, partitions: Partitions, selection: ColumnSelection, first: int, piece: Any) -> None:
        self._partitions, self._selection = partitions, selection
        with _partition_errors(first):
            parts = parts_from_frame(piece, *selection[:4])
        self._first: dict[int, SetParts] = {first: parts}
        origin = infer_origin([parts.points])
        self._origin = np.zeros(len(selection.points)) if origin is None else origin
        self._use_fast_path, self._buffers = True, BufferPool()

    def __call__(self, number: int) -> PartitionSets | None:
        with _partition_errors(number):
            if (parts := self._first.pop(number, None)) is not None:
                return self._from_parts(number, parts, None)
            return self._from_batches(number) or self._from_frame(number, self._partitions[number])

    def _from_batches(self, number: int) -> PartitionSets | None:
        """Convert a partition batch by batch; None if it, or an earlier one, is not supported."""
        batches = self._partitions.batches(number) if self._use_fast_path else None
        if batches is None or not batches[0]:
            return None
        result = sets_from_batches(*batches, self._selection, self._origin, self._buffers)
        self._use_fast_path = self._use_fast_path and result is not None
        return None if result is None else PartitionSets(number, *result)

    def _from_frame(self, number: int, piece: Any) -> PartitionSets | None:
        if not len(piece):
            return None
        return self._from_parts(number, parts_from_frame(piece, *self._selection[:4]), self._origin)

    def _from_parts(self, number: int, parts: SetParts, origin: F64 | None) -> PartitionSets:
        sets = sets_from_parts([parts.points], parts.offsets, parts.weights, origin)
        sets = convert_to_origin(sets.labelled(parts.ids, parts.names, parts.targets), origin, "the store")
        return PartitionSets(number, sets, parts.ids[parts.last])


def _iter_complete_sets(results: Iterable[PartitionSets]) -> Iterator[tuple[int, SampleSets]]:
    """Iterate over (partition number, complete sets); the last set of a partition may continue in the next."""
    open_parts, open_id, number = list[SampleSets](), None, 0
    for number, sets, last_id in results:
        if open_parts:
            continuation, sets = _split_off(sets, open_id)
            open_parts += continuation
            if continuation and open_id == last_id:
                if len(sets):
                    yield number, sets
                continue
            yield number, _concatenate(number, open_parts)
        open_id = last_id
        open_parts, sets = _split_off(sets, last_id)
        if len(sets):
            yield number, sets
    yield number, _concatenate(number, open_parts)


def _split_off(sets: SampleSets, set_id: Any) -> tuple[list[SampleSets], SampleSets]:
    """Return the set of an id (in a list, empty if absent) and the other sets."""
    indices = np.flatnonzero(sets.ids == set_id).tolist()
    if not indices:
        return [], sets
    k = indices[0]
    other_sets = sets[1:] if k == 0 else sets[:-1] if k == len(sets) - 1 else sets[np.arange(len(sets)) != k]
    return [sets[[k]]], other_sets  # a copy: a view would keep the whole partition in memory


def _concatenate(number: int, parts: list[SampleSets]) -> SampleSets:
    with _partition_errors(number):
        return concatenate_parts(parts)


@contextmanager
def _partition_errors(number: int) -> Iterator[None]:
    """Add the partition number to errors."""
    try:
        yield
    except SampleSetError as error:
        raise SampleSetError(f"partition {number} of the frame cannot be imported: {error}") from error


class _WrittenIds:
    """Ids of written sets. Increasing ids cannot repeat, so they are only compared with the last one."""

    def __init__(self, set_id: str) -> None:
        self._set_id, self._increasing = set_id, list[Array]()
        self._all: set[Any] | None = None

    def add(self, ids: Any) -> None:
        """Add the ids of a batch; raises for a set that was written before."""
        if self._all is None:
            last = [self._increasing[-1][-1:]] if self._increasing else []
            sequence = np.concatenate([*last, ids])
            if (sequence[1:] > sequence[:-1]).all():
                self._increasing.append(ids)
                return
            self._all = {set_id for batch in self._increasing for set_id in batch.tolist()}
            self._increasing = []
        new_ids = ids.tolist()
        if not self._all.isdisjoint(new_ids):
            repeated = next(set_id for set_id in new_ids if set_id in self._all)
            raise SampleSetError(
                f"set {repeated!r} has rows in partitions that are not adjacent. Collect the rows of each set: write "
                f"frame.shuffle({self._set_id!r}).to_parquet(path), then import dask.dataframe.read_parquet(path)."
            )
        self._all.update(new_ids)
