"""What views read through: opened commits that are kept, scattered sets, and targets by name.

Opened commits are kept per process: a view that comes back from a pickle costs a dictionary look-up. Scattered sets are
sorted, neighbours are joined into reads of whole chunks, and put back in the order asked for: a chunk is decoded once
for all of its sets. Two sets share a read if their chunks touch; a read spans at most READ_CHUNKS chunks (unless one
set is longer), so that memory is the answer plus one read.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dkdist.loops.array_types import I64, Array
from dkdist.sets import SampleSets
from dkdist.store.format.layout import Commit
from dkdist.store.places.address import Address
from dkdist.store.reading.committed import Committed

STORES_KEPT = 8

_kept: OrderedDict[tuple[str, Commit], Committed] = OrderedDict()
_lock = threading.Lock()


def open_committed(address: Address, commit: Commit) -> Committed:
    """The opened commit, from this process's cache if it is there."""
    key = (address.label, commit)
    with _lock:
        found = _kept.get(key)
        if found is not None and found.address == address:  # labels show no options, and may be shared
            _kept.move_to_end(key)
            return found
    return keep(Committed(address, commit))


def keep(opened: Committed) -> Committed:
    """Remember an opened commit, and forget the one that was used longest ago."""
    with _lock:
        _kept[opened.address.label, opened.commit] = opened
        while len(_kept) > STORES_KEPT:
            _kept.popitem(last=False)
    return opened


def _after_fork() -> None:
    """Forget what the parent opened: it shares a zip file's position, and has a remote client's threads."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


READ_CHUNKS = 16


def read_scattered(committed: Committed, index: I64) -> SampleSets:
    """Read the sets at some positions, in the order of the positions (repeats allowed)."""
    starts, stops = committed.extents(index)
    edges = np.concatenate([[0], np.cumsum(stops - starts)])
    order = np.argsort(index, kind="stable")
    starts, stops, places = starts[order], stops[order], edges[:-1][order]
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


class Targets(Mapping[str, Array]):
    """Targets by name; an array is read each time it is asked for, for the chosen sets only."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Array]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(f"there are no targets {name!r}; the store has {list(self._names)}")
        return self._read(f"targets/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Targets({', '.join(self._names)})"
