"""Matrices of all pairs of two collections: one task per tile, and a plan with the quadratic cost.

Tiles are blocks of rows times blocks of columns. For one collection, only tiles on and above the diagonal are computed;
each also returns its counterpart below. This process copies tiles into the matrix one segment at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from dask.utils import format_bytes, format_time

from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime._tuning import MAX_BLOCK_BYTES, MAX_TILE_SETS, MIN_TILES_PER_SIDE, SEGMENT_TILES
from dkdist._runtime.arrays import block_bounds
from dkdist._runtime.map_reduce import map_pieces
from dkdist._runtime.process import active_client
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import Plan, resources

Tile = tuple[F32 | F64, F32 | F64 | None]
"""Part (rows, columns) of the matrix, and its counterpart (columns, rows) below the diagonal or None."""


def tile_bounds(sizes: I64, point_bytes: int, block_sets: int | None) -> I64:
    """Return the bounds of the blocks of one side; ``block_sets`` of the user replaces the number of sets."""
    max_sets = int(np.clip(-(-len(sizes) // MIN_TILES_PER_SIDE), 1, MAX_TILE_SETS))
    return block_bounds(sizes, point_bytes, MAX_BLOCK_BYTES // max_sets, block_sets)


@dataclass(frozen=True)
class PairTiles:
    """Tiles of a matrix, by bounds of row and column blocks; ``columns`` is None for a symmetric matrix."""

    rows: I64
    columns: I64 | None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (N, M) of the matrix."""
        return int(self.rows[-1]), int((self.rows if self.columns is None else self.columns)[-1])

    @property
    def n_pairs(self) -> int:
        """Number of pairs that are compared: N (N - 1) / 2 if symmetric, else N M."""
        n, m = self.shape
        return n * (n - 1) // 2 if self.columns is None else n * m

    @property
    def n_read(self) -> tuple[int, int]:
        """Numbers of reads of row sets and of column sets, one per set and tile."""
        (n, m), columns = self.shape, self.rows if self.columns is None else self.columns
        return n * (len(columns) - 1), 0 if self.columns is None else m * (len(self.rows) - 1)

    @property
    def n_prepared(self) -> int:
        """Number of reads of all sets."""
        return sum(self.n_read)

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        n = len(self.rows) - 1
        return n * (n + 1) // 2 if self.columns is None else n * (len(self.columns) - 1)

    @property
    def tiles(self) -> list[tuple[slice, slice]]:
        """Slices (rows, columns) of every tile."""
        columns = self.rows if self.columns is None else self.columns
        return [
            (slice(int(self.rows[i]), int(self.rows[i + 1])), slice(int(columns[j]), int(columns[j + 1])))
            for i in range(len(self.rows) - 1)
            for j in range(i if self.columns is None else 0, len(columns) - 1)
        ]


@dataclass(frozen=True)
class PairPlan(Plan):
    """Plan of a matrix of all pairs, which takes 8 N M bytes in this process."""

    pairs: PairTiles
    seconds: float | None

    remedy = "use DivergenceEmbedding, which takes linear time, or fewer sets"

    def __str__(self) -> str:
        n, m = self.pairs.shape
        read = f", reads {format_bytes(self.read_bytes)}" if self.read_bytes else ""
        time = (
            ""
            if self.seconds is None
            else f"; about {format_time(self.seconds)}, estimated from a sample of pairs"
        )
        return (
            f"{self.what}: {self.pairs.n_pairs:,} pairs of sets, a matrix of {n:,} x {m:,} float64 "
            f"({format_bytes(self.work_bytes)}), {self.memory_text}{read}{time}"
        )


def plan_pairs(
    pairs: PairTiles, *, what: str, read_bytes: int, sample: tuple[float, float] | None, local: bool
) -> PairPlan:
    """Return the plan of a matrix; ``sample`` holds the seconds per set and per pair, measured in this process."""
    cores = CPU_COUNT if local or active_client() is None else resources().all_threads
    seconds = None
    if sample is not None:
        seconds = (sample[0] * pairs.n_prepared + sample[1] * pairs.n_pairs) / cores
    (n, m), machine = pairs.shape, resources(local=True)
    return PairPlan(
        what, pairs.n_tiles, 1, read_bytes, 8 * n * m, machine.base, machine.memory, pairs, seconds
    )


def fill_pairs(
    function: Callable[[Any], Tile],
    piece: Callable[[slice, slice], Any],
    pairs: PairTiles,
    *,
    label: str,
    progress: Progress,
    local: bool,
) -> F64:
    """Return the (N, M) matrix with tiles ``function(piece(rows, columns))``.

    With ``local``, they are computed on threads of this machine.
    """
    matrix, tiles = np.empty(pairs.shape), pairs.tiles
    for start in range(0, len(tiles), SEGMENT_TILES):
        segment = tiles[start : start + SEGMENT_TILES]
        pieces = [piece(rows, columns) for rows, columns in segment]
        results = map_pieces(function, pieces, label=label, progress=progress, local=local)
        for (rows, columns), (tile, counterpart) in zip(segment, results, strict=True):
            matrix[rows, columns] = tile
            if counterpart is not None:
                matrix[columns, rows] = counterpart
    return matrix
