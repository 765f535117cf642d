"""How many rows are best made at once, so that they are still in a cache when they are used."""

from __future__ import annotations

TILE_BYTES, TILE_ROWS = 2**20, (32, 512)  # of rows that stay in the second level until they are used
PIECE_TILES = (
    2  # of rows that are made ahead by another thread: of several pieces, which stay in the last level
)


def tile_rows(row_bytes: int) -> int:
    """Rows that are best made at once by who uses them: few, and in fours."""
    least, most = TILE_ROWS
    return min(max(TILE_BYTES // row_bytes, least), most) // 4 * 4


def piece_rows(row_bytes: int) -> int:
    """Rows that are best made at once by another thread, ahead of their use."""
    return PIECE_TILES * tile_rows(row_bytes)
