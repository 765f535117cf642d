"""Rows in cells around centres, so that a search need not look at all of them: faiss's inverted lists.

    rows ──> cells, of which each has the rows nearest to its centre
    query ──> its nearest cells ──> their rows alone

The more cells are looked at, the more of the true neighbours are found and the longer it takes. How many follows from
the share that is asked for: a sample of the rows is searched exactly too, and the fewest cells are taken that find it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dkdist.loops.array_types import F32, F64, I64

CELLS = (
    2.0  # times the root of the number of rows: as many cells to compare with as rows of the cells looked at
)
TRAINED = 40  # rows of a cell that its centre is the mean of
TURNS = 10  # of k-means
TRIED = 256  # rows whose true neighbours are found: the share is then known to .02 or better
UNIT = 2.0**-24  # of float32


class Recall(NamedTuple):
    """The share of true neighbours that is found, and its standard error over the rows that were tried."""

    share: float
    std_error: float


def library() -> Any:
    """The faiss library, or what to install."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError(
            "engines 'faiss' and 'approximate' need faiss: pip install 'dkdist[neighbors]', or take engine='exact'"
        ) from error


def n_trained(n_rows: int) -> int:
    """How many rows the centres are found from."""
    return min(n_rows, TRAINED * _n_cells(n_rows))


@dataclass(frozen=True)
class RowCells:
    """An index of rows, and how many cells a query looks at."""

    index: Any
    looked_at: int = 1

    def nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        """Squared distances and positions of the k nearest rows that are found, nearest first.

        Queries whose cells have fewer than k rows look at twice as many until they have.
        """
        squares, places = self._search(queries, k, self.looked_at)
        looked_at, short = self.looked_at, np.flatnonzero(places[:, -1] < 0)
        while len(short):
            looked_at = min(2 * looked_at, self.index.nlist)
            squares[short], places[short] = self._search(queries[short], k, looked_at)
            short = short[places[short, -1] < 0]
        return np.maximum(squares.astype(np.float64), 0), places.astype(np.int64)

    def that_find(self, queries: F32, truth: F64, recall: float) -> tuple[RowCells, Recall]:
        """The same with the fewest cells that find a share ``recall`` of the true neighbours, by one standard error.

        ``truth`` are the squared distances (m, k + 1) of the nearest rows to ``queries``, which are rows themselves:
        the first is the query's own, and does not count. A row as near as the k-th is found, whichever it is.
        """
        k = truth.shape[1] - 1
        near = truth[:, -1:] * (
            1 + (queries.shape[1] + 8) * UNIT
        )  # float32 sums the squares of the found ones

        def found(looked_at: int) -> Recall:
            squares, _ = self._search(queries, k + 1, looked_at)
            shares = ((squares <= near).sum(axis=1) - 1.0).clip(0, k) / k
            return Recall(float(shares.mean()), float(shares.std() / np.sqrt(len(shares))))

        def enough(looked_at: int) -> bool:
            share, std_error = found(looked_at)
            return share - std_error >= recall

        fewest = _fewest(enough, self.index.nlist)
        return replace(self, looked_at=fewest), found(fewest)

    def _search(self, queries: F32, k: int, looked_at: int) -> tuple[F32, I64]:
        how = library().SearchParametersIVF(nprobe=looked_at)
        found: tuple[F32, I64] = self.index.search(queries, k, params=how)
        return found


def filled_cells(some: F32, blocks: Iterable[F32], n_rows: int, seed: int) -> RowCells:
    """All rows, that come block by block, around centres of ``some`` of them, n_trained(n_rows)."""
    faiss = library()
    count, D = _n_cells(n_rows), some.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(D), D, count)
    index.cp.seed, index.cp.niter, index.cp.min_points_per_centroid = seed % 2**31, TURNS, 1
    index.train(some)
    for rows in blocks:
        index.add(rows)
    return RowCells(index)


def _n_cells(n_rows: int) -> int:
    return min(n_rows, round(CELLS * math.sqrt(n_rows)))


def _fewest(enough: Callable[[int], bool], most: int) -> int:
    """The least number that is enough, of those that are twice a smaller one or between the last two; else ``most``."""
    high = 1
    while high < most and not enough(high):
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
