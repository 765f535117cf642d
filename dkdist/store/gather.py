"""Reading scattered sets: sort them, join neighbours into reads of whole chunks, put them back in the order
asked for.

A chunk is decoded once for all of its sets. Two sets share a read if their chunks touch; a read spans at most
READ_CHUNKS chunks (unless one set is longer), so that memory is the answer plus one read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dkdist.sets import SampleSets
from dkdist.store.committed import Committed

I64 = NDArray[np.int64]
READ_CHUNKS = 16


def read_scattered(committed: Committed, index: I64) -> SampleSets:
    """Read the sets at some positions, in the order of the positions (repeats allowed)."""
    order = np.argsort(index, kind="stable")
    starts, stops = committed.extents(index[order])
    sizes = np.empty_like(index)
    sizes[order] = stops - starts
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = edges[:-1][order]
    points = np.empty((edges[-1], committed.commit.n_dims), committed.arrays["points"].dtype)
    weights = (
        np.empty((edges[-1], *committed.arrays["weights"].shape[1:]), np.float32)
        if committed.weighted
        else None
    )
    for first, last in _reads(starts, stops, committed.chunk_rows):
        low = int(starts[first])
        block, block_weights = committed.rows(low, int(stops[last - 1]))
        source, target = _moves(starts[first:last] - low, stops[first:last] - low, places[first:last])
        points[target] = block[source]
        if weights is not None and block_weights is not None:
            weights[target] = block_weights[source]
    return committed.sets_of(points, edges, weights)


def _reads(starts: I64, stops: I64, chunk_rows: int) -> Iterator[tuple[int, int]]:
    """Cut the sorted sets into runs (first, last) that are read at once."""
    if len(starts) == 0:
        return
    chunk, last_chunk = starts // chunk_rows, (stops - 1) // chunk_rows
    apart = np.concatenate([[True], chunk[1:] > last_chunk[:-1] + 1])
    origin = chunk[apart][np.cumsum(apart) - 1]
    part = (chunk - origin) // READ_CHUNKS
    cut = apart | np.concatenate([[False], part[1:] != part[:-1]])
    firsts = np.flatnonzero(cut).tolist()
    yield from zip(firsts, [*firsts[1:], len(starts)], strict=True)


def _moves(starts: I64, stops: I64, places: I64) -> tuple[I64, I64]:
    """The rows of a block that belong to the sets, and where each goes."""
    sizes = stops - starts
    before = np.cumsum(sizes) - sizes
    steps = np.arange(int(sizes.sum()))
    return np.repeat(starts - before, sizes) + steps, np.repeat(places - before, sizes) + steps
