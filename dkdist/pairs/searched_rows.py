"""Rows of features that are searched, whether in memory or made block by block: the nearest, some, or all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dkdist.execution.blocks import is_lazy, local_blocks, row_blocks
from dkdist.execution.map_reduce import collect
from dkdist.execution.run import n_cores
from dkdist.learners.rows import checked
from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.top_k import merged_nearest, nearest_rows

PIECES = 2  # for each core of this machine, that rows in memory are searched in
AT_ONCE = 64  # blocks of lazy rows that are in this process together


class SearchedRows:
    """The rows of X (n, D), ndarray or dask array, in blocks."""

    def __init__(self, X: Any) -> None:
        self.n_columns = int(X.shape[1])
        self.blocks = (
            row_blocks(X) if is_lazy(X) else local_blocks(X, -(-len(X) // (PIECES * n_cores(local=True))))
        )
        self.starts = [int(a) for a in self.blocks.bounds[:-1]]

    def nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        """Squared distances and positions of the k nearest rows to each query, nearest first, exactly."""
        work = partial(_block_nearest, self.n_columns, queries, k)
        return merged_nearest(collect(self.blocks, work, self.starts, label="nearest"), k)

    def at(self, places: I64) -> F32:
        """Some rows, by their sorted places: only these leave their block."""
        work = partial(_block_at, self.n_columns, places)
        return np.concatenate(collect(self.blocks, work, self.starts, label="rows"))

    def __iter__(self) -> Iterator[F32]:
        """All rows, block after block, of which a few are in memory at a time."""
        work = partial(_block, self.n_columns)
        for a in range(0, len(self.blocks), AT_ONCE):
            group = range(a, min(a + AT_ONCE, len(self.blocks)))
            yield from collect(self.blocks, work, self.starts, only=group, label="rows")


def _block(n_columns: int, block: Any, start: int) -> F32:
    rows: F32
    rows, _ = checked(block, np.dtype(np.float32), start, (len(block), n_columns), skip=False)
    return rows


def _block_nearest(n_columns: int, queries: F32, k: int, block: Any, start: int) -> tuple[F64, I64]:
    return nearest_rows(_block(n_columns, block, start), queries, k, start)


def _block_at(n_columns: int, places: I64, block: Any, start: int) -> F32:
    inside = places[np.searchsorted(places, start) : np.searchsorted(places, start + len(block))]
    return _block(n_columns, block, start)[inside - start]
