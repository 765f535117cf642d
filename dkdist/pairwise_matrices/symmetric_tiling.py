"""How a matrix of all pairs is cut where loops take many columns side by side: panels of full lanes, and steps of rows.

        columns
┌────┬────────┬────────┐
│    │        │        │    A panel is as many columns as lanes take, or a multiple; the first takes what is left
└────┤        │        │    over. Of a symmetric matrix it ends at the diagonal, so that some N W / 2 pairs are made
     │        │        │    beside the N^2 / 2 that are needed, or fewer where what is left of a panel is halved
     └────────┤        │    further (`DistanceTile`). Rows are cut where that makes tasks for several threads.
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
from dkdist.pairwise_matrices.tiles import FEW_PRODUCTS

SIDE = 512  # columns and rows of a task at most, unless lanes take more
TASKS = 8  # as many as there is work for: several for every thread
FEW_ROWS = 24  # cost less together than the calls for half of their pairs
REPAID = 8  # times the rows that making columns ready costs: fewer are not worth a task


class SymmetricTile(NamedTuple):
    """Rows and columns of a task: ``first`` to before ``last`` row, ``left`` to before ``right`` column."""

    first: int
    last: int
    left: int
    right: int


@dataclass(frozen=True)
class SymmetricTiling(PairTiles):
    """The tiles of a matrix whose rows and columns are cut apart."""

    steps: tuple[SymmetricTile, ...]

    @property
    def n_read(self) -> tuple[int, int]:
        """How often sets of both sides are read."""
        rows = sum(step.last - step.first for step in self.steps)
        columns = sum(step.right - step.left for step in self.steps)
        return (rows + columns, 0) if self.columns is None else (rows, columns)

    @property
    def n_tiles(self) -> int:
        """How many tiles there are."""
        return len(self.steps)

    @property
    def tiles(self) -> list[tuple[slice, slice]]:
        """(rows, columns) of every tile, in order."""
        return [(slice(step.first, step.last), slice(step.left, step.right)) for step in self.steps]


def cut_pairs(measure: Distance, rows: Sets, columns: Sets | None) -> SymmetricTiling:
    """The tiles: as many as there is work for, if few; a function of a user's may take any time."""
    across = rows if columns is None else columns
    products = rows.n_points * across.n_points * rows.n_dims
    tasks = TASKS if capabilities(measure).by_function else min(TASKS, 1 + products // FEW_PRODUCTS)
    grain = capabilities(measure).grain(across.sizes, across.n_dims)
    m = None if columns is None else len(columns)
    return staircase(len(rows), m, grain, capabilities(measure).symmetric, tasks)


def staircase(n: int, m: int | None, grain: CostModel, symmetric: bool, tasks: int) -> SymmetricTiling:
    """The tiles of (n, m) pairs, or of n sets among themselves, in about so many ``tasks`` unless they are large."""
    triangular, across = m is None and symmetric, n if m is None else m
    width = max(grain.lanes, SIDE // grain.lanes * grain.lanes)
    panels = [0, *range(across % width or width, across + 1, width)] if across else [0]
    tops = [right if triangular else n for right in panels[1:]]
    least = max(1, math.ceil(REPAID * grain.ahead))
    height = min(max(-(-sum(tops) // tasks), least), max(SIDE, least))
    steps = []
    for left, right, top in zip(panels[:-1], panels[1:], tops, strict=True):
        for first, last in _cut(top, height, grain.lanes):
            steps.append(SymmetricTile(first, last, max(left, first) if triangular else left, right))
    steps.sort(key=lambda step: (step.first - step.last) * (step.right - step.left))  # the largest first
    ends = np.array([0, n]), None if m is None else np.array([0, m])
    return SymmetricTiling(*ends, tuple(steps))


def needed(step: SymmetricTile, grain: CostModel) -> list[SymmetricTile]:
    """The parts of a tile on and above the diagonal, and what is beside it in full lanes.

    Halves that the diagonal passes are halved again until what is beside it costs less than making columns ready.
    """
    first, last, left, right = step
    meet = max(first, left)
    n = last - meet
    if n <= max(grain.lanes, 3 * grain.ahead, FEW_ROWS if grain.ahead else 1):
        return [step]
    above = [SymmetricTile(first, meet, left, right)] if meet > first else []
    middle = right - grain.lanes * round((right - (meet + last) / 2) / grain.lanes)
    beside = SymmetricTile(meet, middle, middle, right)
    square, rest = SymmetricTile(meet, middle, meet, middle), SymmetricTile(middle, last, middle, right)
    return [*above, beside, *needed(square, grain), *needed(rest, grain)]


def _cut(top: int, height: int, lanes: int) -> list[tuple[int, int]]:
    """Rows in equal parts of some height, which end where lanes do if they are as high."""
    part = -(-top // max(1, round(top / height)))
    if part >= lanes:
        part = -(-part // lanes) * lanes
    bounds = [0, *range(top % part or part, top + 1, part)]
    return list(itertools.pairwise(bounds))
