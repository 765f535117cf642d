"""All pairs of two collections: tiles of a matrix, each made in a task of its own, and a plan of what N^2 costs.

Blocks of rows meet blocks of columns. Where a collection meets itself, only tiles on and above the diagonal are
made, and each gives what lies below it too. Tiles come to this process a segment at a time and are put in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from dask.utils import format_bytes, format_time

from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.arrays import block_bounds
from dkdist._runtime.blocks import MAX_BLOCK_BYTES
from dkdist._runtime.map_reduce import map_pieces
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import Plan, active_client, resources

Tile = tuple[F32 | F64, F32 | F64 | None]
"""(rows, columns) of the matrix, and (columns, rows) of what lies opposite to it, if that is wanted."""

SEGMENT_TILES = 128  # tiles that this process puts in place together
MAX_TILE_SETS = (
    32  # a side at most: trees are made again in every tile, a sixteenth as many as there are pairs
)
MIN_TILES_PER_SIDE = 8  # at least, where there are so many sets: several tiles for every thread


def tile_bounds(sizes: I64, point_bytes: int, block_sets: int | None) -> I64:
    """Where the blocks of one side begin and end; ``block_sets`` is the user's own number of sets in one."""
    most = int(np.clip(-(-len(sizes) // MIN_TILES_PER_SIDE), 1, MAX_TILE_SETS))
    return block_bounds(sizes, point_bytes, MAX_BLOCK_BYTES // most, block_sets)


@dataclass(frozen=True)
class PairTiles:
    """The tiles of a matrix with these bounds of blocks; ``columns`` is None where the rows meet themselves."""

    rows: I64
    columns: I64 | None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, M)."""
        return int(self.rows[-1]), int((self.rows if self.columns is None else self.columns)[-1])

    @property
    def n_pairs(self) -> int:
        """Pairs that are compared: N (N - 1) / 2, or N M."""
        n, m = self.shape
        return n * (n - 1) // 2 if self.columns is None else n * m

    @property
    def n_read(self) -> tuple[int, int]:
        """How often sets of both sides are read and made ready: once for each tile that they are in."""
        (n, m), columns = self.shape, self.rows if self.columns is None else self.columns
        return n * (len(columns) - 1), 0 if self.columns is None else m * (len(self.rows) - 1)

    @property
    def n_prepared(self) -> int:
        """How often a set is read and made ready."""
        return sum(self.n_read)

    @property
    def n_tiles(self) -> int:
        """How many tiles there are; a plan counts them before anybody lists them."""
        n = len(self.rows) - 1
        return n * (n + 1) // 2 if self.columns is None else n * (len(self.columns) - 1)

    @property
    def tiles(self) -> list[tuple[slice, slice]]:
        """(rows, columns) of every tile, in order."""
        across = self.rows if self.columns is None else self.columns
        return [
            (slice(int(self.rows[i]), int(self.rows[i + 1])), slice(int(across[j]), int(across[j + 1])))
            for i in range(len(self.rows) - 1)
            for j in range(i if self.columns is None else 0, len(across) - 1)
        ]


@dataclass(frozen=True)
class PairPlan(Plan):
    """What a matrix of all pairs will cost, 8 N M bytes in this process."""

    pairs: PairTiles
    seconds: float | None

    to_fix = "learn from DivergenceEmbedding, in linear time; or take fewer sets"

    def __str__(self) -> str:
        n, m = self.pairs.shape
        read = f", reads {format_bytes(self.read_bytes)}" if self.read_bytes else ""
        time = "" if self.seconds is None else f"; about {format_time(self.seconds)}, from a sample of pairs"
        return (
            f"{self.what}: {self.pairs.n_pairs:,} pairs of sets, a matrix of {n:,} x {m:,} float64 "
            f"({format_bytes(self.work_bytes)}), {self.memory_text}{read}{time}"
        )


def plan_pairs(
    pairs: PairTiles, *, what: str, read_bytes: int, sample: tuple[float, float] | None, local: bool
) -> PairPlan:
    """The plan of a matrix, from the ``sample``: the seconds that a set and a pair have taken in this process."""
    cores = CPU_COUNT if local or active_client() is None else resources().all_threads
    seconds = None
    if sample is not None:
        seconds = (sample[0] * pairs.n_prepared + sample[1] * pairs.n_pairs) / cores
    (n, m), there = pairs.shape, resources(local=True)
    return PairPlan(what, pairs.n_tiles, 1, read_bytes, 8 * n * m, there.base, there.memory, pairs, seconds)


def fill_pairs(
    function: Callable[[Any], Tile],
    piece: Callable[[slice, slice], Any],
    pairs: PairTiles,
    *,
    label: str,
    progress: Progress,
    local: bool,
) -> F64:
    """The (N, M) matrix whose tiles are ``function(piece(rows, columns))``; ``local``: on this machine's threads."""
    matrix, tiles = np.empty(pairs.shape), pairs.tiles
    for start in range(0, len(tiles), SEGMENT_TILES):
        segment = tiles[start : start + SEGMENT_TILES]
        pieces = [piece(rows, columns) for rows, columns in segment]
        made = map_pieces(function, pieces, label=label, progress=progress, local=local)
        for (rows, columns), (here, opposite) in zip(segment, made, strict=True):
            matrix[rows, columns] = here
            if opposite is not None:
                matrix[columns, rows] = opposite
    return matrix
