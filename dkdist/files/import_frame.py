"""A data frame that may be larger than memory becomes a store, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dkdist.execution.frame_partitions import first_partition, is_dask_frame, partitions
from dkdist.plain.ahead import ahead
from dkdist.plain.flags import as_flag
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.frame_columns import columns_of_frame, opened_frame
from dkdist.sets.frames import Roles, roles_of
from dkdist.store import SetStore, SetWriter, open_sets, write_sets


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
    Each partition is computed once (the first twice), on the active Dask client's cluster or on this machine's threads,
    and written here.
    Memory: a partition and the set that goes on, twice, and the ids of all sets. A frame whose graph holds a shuffle
    does that again for every partition: write it to Parquet before.

    Examples
    --------
    >>> import dkdist as dk, pandas as pd, tempfile
    >>> cells = pd.DataFrame({"donor": ["b", "a", "a"], "cd3": [1.0, 2.0, 3.0]})
    >>> sets = dk.import_frame(tempfile.mkdtemp() + "/cells.zarr", cells, "donor")
    >>> sets.ids, sets.names, sets.sizes
    (array(['b', 'a'], dtype='<U1'), ('cd3',), array([1, 2]))
    """
    as_flag("overwrite", overwrite)
    if not is_dask_frame(frame):
        made = SampleSets.from_frame(frame, set_id, points, targets, weights)
        return write_sets(store, made, overwrite=overwrite)
    roles = _roles(first_partition(frame), set_id, points, targets, weights)
    seen = set[Any]()
    with SetWriter(store, len(roles.points), overwrite=overwrite, names=roles.points) as writer:
        for number, sets in ahead(_collections(frame, roles, set_id, targets, weights)):
            with _naming(number):
                _note(sets.ids, seen, set_id)
            writer.append(sets)
    return open_sets(writer.address)


def _roles(first: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> Roles:
    columns = columns_of_frame(opened_frame(first, "frame"), "frame")
    return roles_of(first, columns, set_id, points, targets, weights)


def _collections(
    frame: Any, roles: Roles, set_id: str, targets: Any, weights: str | None
) -> Iterator[tuple[int, SampleSets]]:
    """The sets that end in each partition, and its number."""
    for number, piece in _whole_sets(partitions(frame, roles.needed), set_id):
        with _naming(number):
            sets = SampleSets.from_frame(piece, set_id, roles.points, targets, weights)
        yield number, sets


def _whole_sets(pieces: Iterable[Any], set_id: str) -> Iterator[tuple[int, Any]]:
    """Rows of whole sets, and the number of the partition: the set of a partition's last row may go on in the next."""
    held, number = list[Any](), 0  # what there is of the set that may go on
    for number, piece in enumerate(pieces):
        if not len(piece):
            continue
        last, rest = piece[set_id].iloc[-1], piece
        if held:
            more, rest = _parted(rest, set_id, held[0][set_id].iloc[0])
            held.append(more)
            if len(more) and held[0][set_id].iloc[0] == last:
                if len(rest):
                    yield number, rest
                continue
            yield number, _joined(held)
        going_on, rest = _parted(rest, set_id, last)
        held = [going_on.copy()]  # not a view of all of the partition
        if len(rest):
            yield number, rest
    if held:
        yield number, _joined(held)


def _parted(rows: Any, set_id: str, one: Any) -> tuple[Any, Any]:
    """The rows of one set, and the others; views, if those of the set are the first or the last."""
    of_it = (rows[set_id] == one).to_numpy(bool, na_value=False)
    n = int(of_it.sum())
    if of_it[:n].all():
        return rows.iloc[:n], rows.iloc[n:]
    if of_it[len(rows) - n :].all():
        return rows.iloc[len(rows) - n :], rows.iloc[: len(rows) - n]
    return rows[of_it], rows[~of_it]


def _joined(parts: list[Any]) -> Any:
    import pandas as pd

    parts = [part for part in parts if len(part)]
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Say of an error in which partition it is."""
    try:
        yield
    except SampleSetError as error:
        raise SampleSetError(f"partition {number} of the frame cannot be imported: {error}") from error


def _note(ids: Any, seen: set[Any], set_id: str) -> None:
    """Refuse a set that was written before."""
    for one in ids.tolist():
        if one in seen:
            raise SampleSetError(
                f"set {one!r} comes back after its rows in other partitions: bring the rows of each set together, by "
                f"frame.shuffle({set_id!r}).to_parquet(path), and import dask.dataframe.read_parquet(path)"
            )
        seen.add(one)
