"""Tiles of a pairwise matrix, for distances that are computed for groups of columns at once.

        columns
┌────┬────────┬────────┐
│    │        │        │    Columns are cut into panels whose width W is a multiple of the group size; the first panel
└────┤        │        │    takes the remainder. In a symmetric matrix of N sets a panel ends at the diagonal, which
     │        │        │    adds about N W / 2 pairs to the required N^2 / 2, or fewer after `split_at_diagonal`.
     └────────┤        │    Rows are cut where that gives enough tasks for all threads.
              │        │
              └────────┘
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dkdist._base.inputs import Sets
from dkdist._runtime.pairs import PairTiles
from dkdist.distances.base import CostModel, Distance, capabilities
from dkdist.pairwise_matrices._tuning import (
    MAX_TILE_SIDE,
    MIN_ROWS_PER_PREPARE_COST,
    MIN_SPLIT_ROWS,
    MIN_THREADED_PRODUCTS,
    TARGET_TASKS,
)


class TileRange(NamedTuple):
    """Rows ``row_start`` to ``row_stop`` - 1 and columns ``col_start`` to ``col_stop`` - 1 of a tile."""

    row_start: int
    row_stop: int
    col_start: int
    col_stop: int


@dataclass(frozen=True)
class SymmetricTiling(PairTiles):
    """Tiles of a matrix with different divisions of rows and columns."""

    ranges: tuple[TileRange, ...]

    @property
    def n_read(self) -> tuple[int, int]:
        """Total numbers of sets that tiles read from the first and the second collection."""
        rows = sum(tile.row_stop - tile.row_start for tile in self.ranges)
        columns = sum(tile.col_stop - tile.col_start for tile in self.ranges)
        return (rows + columns, 0) if self.columns is None else (rows, columns)

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return len(self.ranges)

    @property
    def tiles(self) -> list[tuple[slice, slice]]:
        """Slices (rows, columns) of every tile, in order."""
        return [
            (slice(tile.row_start, tile.row_stop), slice(tile.col_start, tile.col_stop))
            for tile in self.ranges
        ]


def tile_pairs(distance: Distance, rows: Sets, columns: Sets | None) -> SymmetricTiling:
    """Divide a matrix into up to `TARGET_TASKS` tiles, fewer for little work (except user-defined functions)."""
    across = rows if columns is None else columns
    products = rows.n_points * across.n_points * rows.n_dims
    traits = capabilities(distance)
    n_tasks = (
        TARGET_TASKS if traits.is_user_function else min(TARGET_TASKS, 1 + products // MIN_THREADED_PRODUCTS)
    )
    cost_model = traits.cost_model(across.sizes, across.n_dims)
    m = None if columns is None else len(columns)
    return tile_matrix(len(rows), m, cost_model, traits.symmetric, n_tasks)


def tile_matrix(
    n: int, m: int | None, cost_model: CostModel, symmetric: bool, n_tasks: int
) -> SymmetricTiling:
    """Divide (n, m) pairs, or all pairs of n sets, into about ``n_tasks`` tiles, or more if tiles are large."""
    is_triangular, n_columns = m is None and symmetric, n if m is None else m
    width = max(cost_model.group_size, MAX_TILE_SIDE // cost_model.group_size * cost_model.group_size)
    panels = [0, *range(n_columns % width or width, n_columns + 1, width)] if n_columns else [0]
    panel_rows = [col_stop if is_triangular else n for col_stop in panels[1:]]
    min_height = max(1, math.ceil(MIN_ROWS_PER_PREPARE_COST * cost_model.prepare_cost))
    height = min(max(-(-sum(panel_rows) // n_tasks), min_height), max(MAX_TILE_SIDE, min_height))
    ranges = []
    for left, right, n_rows in zip(panels[:-1], panels[1:], panel_rows, strict=True):
        for first, last in _row_ranges(n_rows, height, cost_model.group_size):
            ranges.append(TileRange(first, last, max(left, first) if is_triangular else left, right))
    # largest tiles first, to balance threads
    ranges.sort(key=lambda tile: (tile.row_start - tile.row_stop) * (tile.col_stop - tile.col_start))
    ends = np.array([0, n]), None if m is None else np.array([0, m])
    return SymmetricTiling(*ends, tuple(ranges))


def split_at_diagonal(tile: TileRange, cost_model: CostModel) -> list[TileRange]:
    """Split a tile of a symmetric matrix into parts on and above the diagonal, in whole groups of columns.

    Parts on the diagonal are halved until the pairs below it cost less than preparing columns again.
    """
    first, last, left, right = tile
    start = max(first, left)
    n = last - start
    if n <= max(
        cost_model.group_size, 3 * cost_model.prepare_cost, MIN_SPLIT_ROWS if cost_model.prepare_cost else 1
    ):
        return [tile]
    above = [TileRange(first, start, left, right)] if start > first else []
    middle = right - cost_model.group_size * round((right - (start + last) / 2) / cost_model.group_size)
    upper_right = TileRange(start, middle, middle, right)
    halves = TileRange(start, middle, start, middle), TileRange(middle, last, middle, right)
    return [*above, upper_right, *(part for half in halves for part in split_at_diagonal(half, cost_model))]


def _row_ranges(n_rows: int, height: int, group_size: int) -> list[tuple[int, int]]:
    """Divide rows into equal parts of about ``height``; multiples of ``group_size`` if not smaller."""
    part = -(-n_rows // max(1, round(n_rows / height)))
    if part >= group_size:
        part = -(-part // group_size) * group_size
    bounds = [0, *range(n_rows % part or part, n_rows + 1, part)]
    return list(itertools.pairwise(bounds))
