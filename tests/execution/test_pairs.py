"""Tiles of a matrix of pairs cover every pair once, for any blocks."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist._runtime.pairs import PairTiles, fill_pairs, tile_bounds
from dkdist._runtime.progress import Progress


def bounds(n, step):
    return np.append(np.arange(0, n, step), n)


@pytest.mark.parametrize("step", [1, 3, 10, 50])
def test_tiles_of_a_symmetric_matrix_cover_pairs_once(step):
    pairs = PairTiles(bounds(10, step), None)
    counts = np.zeros((10, 10), int)
    assert pairs.n_tiles == len(pairs.tiles)
    for rows, columns in pairs.tiles:
        counts[rows, columns] += 1
        if rows != columns:
            counts[columns, rows] += 1
    np.testing.assert_array_equal(counts, 1)
    assert pairs.shape == (10, 10)
    assert pairs.n_pairs == 45


@pytest.mark.parametrize("opposite", [True, False])
def test_fill_pairs_puts_tiles_in_place(opposite):
    pairs = PairTiles(bounds(7, 3), None if opposite else bounds(5, 2))
    whole = np.random.default_rng(0).random(pairs.shape)

    def tile(piece):
        rows, columns = piece
        return whole[rows, columns], whole[columns, rows] if opposite and rows != columns else None

    progress = Progress(len(pairs.tiles), "pairs", show=False)
    output = fill_pairs(tile, lambda *piece: piece, pairs, label="pairs", progress=progress, local=True)
    np.testing.assert_array_equal(output, whole)
    assert progress.done == len(pairs.tiles) == (6 if opposite else 9)


def test_tile_bounds_follow_sizes_and_threads():
    small = np.full(50, 100)
    assert np.diff(tile_bounds(small, 8, None)).max() == 7  # several tiles per thread
    assert np.diff(tile_bounds(np.full(5000, 100), 8, None)).max() == 32
    assert np.diff(tile_bounds(np.full(50, 10**6), 8, None)).max() == 4  # 32 MiB of points
    assert np.diff(tile_bounds(small, 8, 7)).tolist() == [7] * 7 + [1]
