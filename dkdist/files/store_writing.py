"""Writing the parts of a planned store: one task for each, on all cores or on a cluster, and what they give back."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from dkdist.execution.map_reduce import map_pieces
from dkdist.execution.progress import Progress
from dkdist.execution.run import resources
from dkdist.loops.array_types import I64, Array
from dkdist.store.format.batches import Batch
from dkdist.store.writing.planned_store import Failed, PartWriter, PlannedStore, Written

PARTS_A_THREAD = 8
PART_BYTES = (32 * 2**20, 512 * 2**20)
PARTS_PER_SEGMENT = 128  # parts whose targets and ids this process takes together


def part_bytes(planned: PlannedStore) -> int:
    """How much one task writes: enough parts for every thread to have several, none too small or too large."""
    return int(np.clip(planned.n_bytes // (PARTS_A_THREAD * resources().all_threads), *PART_BYTES))


def _write_part(writer: PartWriter, batches: Callable[[Any], Iterator[Batch]], part: Any) -> Written | Failed:
    return writer.write(part.start, part.stop, part.first_row, batches(part))


def write_parts(
    planned: PlannedStore,
    bounds: I64,
    part: Callable[[int, int], Any],
    batches: Callable[[Any], Iterator[Batch]],
    label: str,
    verbose: bool,
) -> Array | None:
    """Write rows ``bounds[i]`` to ``bounds[i + 1]`` from ``batches(part(...))``, for every i; gives the ids, if any."""
    n_parts = len(bounds) - 1
    if verbose:
        print(
            f"{label}: {planned.n_sets:,} sets, {bounds[-1]:,} points in {n_parts:,} parts", file=sys.stderr
        )
    write, ids = partial(_write_part, planned.writer, batches), []
    with closing(Progress(n_parts, label, show=verbose)) as progress:
        for start in range(0, n_parts, PARTS_PER_SEGMENT):
            edges = bounds[start : start + PARTS_PER_SEGMENT + 1]
            parts = [part(int(a), int(b)) for a, b in itertools.pairwise(edges)]
            done = map_pieces(write, parts, label=label, progress=progress)
            ids += [columns["ids"] for columns in planned.add(edges, done) if "ids" in columns]
    return np.concatenate(ids) if ids else None
