"""Parallel verification and compaction of stores, and parallel writing of the parts of a planned store."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist._runtime.map_reduce import map_pieces
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import resources
from dkdist._utils.validation import check_bool, check_verbose
from dkdist.io import SetStore, StoreFormatError, VerifyReport, open_sets
from dkdist.io._zarr.batches import Batch
from dkdist.io._zarr.layout import Commit
from dkdist.io._zarr.location.address import StoreLocation
from dkdist.io._zarr.new_arrays import Shards
from dkdist.io._zarr.planned_store import PartFailure, PartResult, PartWriter, PlannedStore
from dkdist.io._zarr.reading import CommitReader
from dkdist.io._zarr.verify import Span, check_spans, report_of, spans_of, total_bytes
from dkdist.io.compact import Copy, compact_target, view_batches

# Several parts per thread balance the load: threads idle less than 1/8 of the run; tests/store/test_parallel_import.py
PARTS_PER_THREAD = 8
PART_BYTES = (32 * 2**20, 512 * 2**20)  # limits per task; tests/store/test_parallel_import.py
PARTS_PER_SEGMENT = 128  # bounds the columns held by this process; tests/store/test_parallel_import.py


def part_bytes(planned: PlannedStore) -> int:
    """Return the bytes per task: several parts per thread, within limits."""
    return int(np.clip(planned.n_bytes // (PARTS_PER_THREAD * resources().all_threads), *PART_BYTES))


def _write_part(
    writer: PartWriter, batches: Callable[[Any], Iterator[Batch]], part: Any
) -> PartResult | PartFailure:
    return writer.write(part.start, part.stop, part.first_row, batches(part))


def write_parts(
    planned: PlannedStore,
    bounds: I64,
    part: Callable[[int, int], Any],
    batches: Callable[[Any], Iterator[Batch]],
    label: str,
    verbose: bool,
) -> Array | None:
    """Write rows ``bounds[i]`` to ``bounds[i + 1]`` from ``batches(part(...))`` for every i; return the ids, if any."""
    n_parts = len(bounds) - 1
    if verbose:
        print(
            f"{label}: {planned.n_sets:,} sets, {bounds[-1]:,} points in {n_parts:,} parts", file=sys.stderr
        )
    write, ids = partial(_write_part, planned.writer, batches), []
    with Progress(n_parts, label, show=verbose) as progress:
        for start in range(0, n_parts, PARTS_PER_SEGMENT):
            edges = bounds[start : start + PARTS_PER_SEGMENT + 1]
            parts = [part(int(a), int(b)) for a, b in itertools.pairwise(edges)]
            results = map_pieces(write, parts, label=label, progress=progress)
            ids += [columns["ids"] for columns in planned.add(edges, results) if "ids" in columns]
    return np.concatenate(ids) if ids else None


SPANS_PER_TASK = 8  # 64 chunks, which amortize the overhead of a task; tests/store/test_parallel_care.py
TASKS_PER_SEGMENT = 128  # the run ends after the first segment with damage; tests/store/test_parallel_care.py


def verify_sets(store: Any, *, verbose: bool = False) -> VerifyReport:
    """Read and check every chunk of every array of a store, on local threads or the active Dask cluster.

    Parameters
    ----------
    store : path, URL, Zarr store object, icechunk repository, or whole SetStore
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    VerifyReport
        Numbers of sets, points, bytes and chunks; the same as from ``SetStore.verify()``, which uses local threads.

    Raises
    ------
    StoreFormatError
        For the first damaged chunk; the message names array, chunk and sets.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> sets = dk.write_sets(tempfile.mkdtemp() + "/s.zarr", np.zeros((10, 4, 2)))
    >>> verify_sets(sets).n_points
    40
    """
    check_verbose(verbose)
    view = store if isinstance(store, SetStore) else open_sets(store)
    view._require_whole("verify")
    committed = CommitReader(view._address, view._commit)
    spans = spans_of(committed)
    tasks = [spans[i : i + SPANS_PER_TASK] for i in range(0, len(spans), SPANS_PER_TASK)]
    check, n_bytes = partial(_check, view._address, view._commit), 0
    with Progress(len(tasks), "verify", show=verbose) as progress:
        for start in range(0, len(tasks), TASKS_PER_SEGMENT):
            segment = tasks[start : start + TASKS_PER_SEGMENT]
            n_bytes += total_bytes(map_pieces(check, segment, label="verify", progress=progress))
    return report_of(committed, n_bytes)


def _check(address: StoreLocation, commit: Commit, spans: Sequence[Span]) -> int | StoreFormatError:
    return check_spans(CommitReader(address, commit), spans)


def compact(
    store: Any,
    to: Any = None,
    *,
    overwrite: bool = False,
    chunk_rows: int | None = None,
    shards: Shards = "auto",
    verbose: bool = False,
) -> SetStore:
    """Rewrite a store, or a selection of its sets, with full chunks, on local threads or the active Dask cluster.

    Use it for a store with many small appends, with small chunks, or without shards on object storage; or to remove
    sets: ``compact(sets[mask], to=...)``. Points, weights, names, targets, ids, their order and dtypes are unchanged.

    Parameters
    ----------
    store : path, URL, Zarr store object, icechunk repository, or SetStore
    to : path, URL, Zarr store object or icechunk repository, optional
        Location of the new store. Default: replace the old one, which must be whole, and on a local disk, in a zip
        file or in an icechunk repository.
    overwrite : bool, default=False
        Replace an existing store at ``to``.
    chunk_rows, shards : optional
        As for `write_sets`; by default chunks of about 1 MiB.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    SetStore
        The new store, with a new generation.

    Raises
    ------
    ValueError
        Without ``to``: for a selection, or a store in another location.
    FileExistsError
        If ``to`` is occupied, see `SetWriter`.
    StoreFormatError
        If the old store is damaged, or another process appended to it; nothing is changed.

    Notes
    -----
    The old store remains readable until the new one is committed. Earlier views then raise on reading ("was
    replaced"), on every worker, so compact while no job runs, or to another location. The points are read once.
    Memory per thread: 32 MiB of points and eight chunks (or a shard).

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/s.zarr"
    >>> sets = dk.write_sets(path, np.zeros((10, 4, 2)), targets=np.arange(10))
    >>> dk.compact(sets[sets.targets["y"] > 6], path + ".chosen").targets["y"]
    array([7, 8, 9])
    >>> dk.compact(path).generation > sets.generation
    True
    """
    check_bool("overwrite", overwrite)
    check_verbose(verbose)
    view = store if isinstance(store, SetStore) else open_sets(store)
    target = compact_target(view, to)
    in_place = target == view._address
    planned = PlannedStore(
        target, overwrite=overwrite or in_place, replaces=view.generation if in_place else None
    )
    copy = Copy.of(view)
    attributes: dict[str, Any] = {
        "sealed": view._commit.sealed, "alphabet": copy.alphabet, "origin": view.origin, "names": view.names
    }  # fmt: skip
    with planned.create(copy.form, copy.edges, chunk_rows=chunk_rows, shards=shards, **attributes):
        starts = np.arange(0, int(copy.edges[-1]), planned.object_rows)
        bounds = planned.bounds(part_bytes(planned), starts)
        write_parts(planned, bounds, copy.part, view_batches, "compact", verbose)
        planned.add_columns(copy.columns())
    return open_sets(target, block_sets=view.block_sets)
