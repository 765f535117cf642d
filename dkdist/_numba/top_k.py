"""Exact k nearest rows of a block: candidates from matrix products, ranked by differences.

    |q - x|^2 = |q|^2 + |x|^2 - 2 q x

A float32 product is fast and off by at most D u |q| |x|, u = 2^-24, for any order of summation. So slightly more
than k candidates are kept, and their distances are recomputed from differences in float64. If rounding could have
excluded a nearer row, the query is repeated with float64 products. Rows are processed in tiles that fit into the cache.
Each query has a sorted list of candidates. After the first tiles few rows change the lists, so products dominate the
cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, FMA_REASSOC, jit

# maximum queries and products per tile; nearly square tiles are fastest (python benchmarks/nearest.py)
MAX_TILE_QUERIES, MAX_TILE_PRODUCTS = 1024, 2**20
TILE_ROWS_RANGE = (2048, 4096)  # minimum and maximum rows per tile (python benchmarks/nearest.py)
N_EXTRA_CANDIDATES = 8  # candidates beyond k, for float32 rounding errors (python benchmarks/nearest.py)
N_CENTRE_ROWS = 256  # approximate number of rows whose mean is the centre (python benchmarks/nearest.py)
PRODUCTS_PER_GROUP = 64  # products per comparison with the k-th distance (python benchmarks/nearest.py)
# unit roundoff u; the error of a product is at most (D + 8) u (|q|^2 + |x|^2) (Higham 2002, section 3.1)
FLOAT32_ROUNDOFF = 2.0**-24


def nearest_rows(X: F32, queries: F32, k: int, first: int = 0) -> tuple[F64, I64]:
    """Return (squared distances, positions) of the k nearest rows of X (n, D) to each of ``queries`` (m, D), sorted.

    Positions start at ``first``; ties keep the order of the rows. If X has fewer than k rows, missing neighbours have
    distance inf and position -1.
    """
    distances, positions, is_exact = _search_products(X, queries, k, np.float32)
    if not is_exact.all():
        distances[~is_exact], positions[~is_exact], _ = _search_products(X, queries[~is_exact], k, np.float64)
    return distances, np.where(positions < 0, -1, positions + first)


def _search_products(
    X: F32, queries: F32, k: int, dtype: type[np.floating]
) -> tuple[F64, I64, NDArray[np.bool_]]:
    """Return squared distances, positions, and whether they are exact despite rounding of the products."""
    sample = X[:: max(1, len(X) // N_CENTRE_ROWS)]
    # centred vectors are shorter and have smaller errors
    centre = sample.mean(axis=0, dtype=np.float64).astype(dtype)
    distances, positions = np.full((len(queries), k), np.inf), np.full((len(queries), k), -1, np.int64)
    is_exact, n_candidates, rounding = (
        np.empty(len(queries), bool),
        min(k + N_EXTRA_CANDIDATES, len(X)),
        (X.shape[1] + 8) * FLOAT32_ROUNDOFF,
    )
    # each of up to 2 D products of coordinates and a sum may be below the smallest normal float32, and become 0
    underflow = 4 * (X.shape[1] + 8) * float(np.finfo(np.float32).tiny)
    n_neighbours = min(k, n_candidates)
    rows = min(
        max(MAX_TILE_PRODUCTS // min(MAX_TILE_QUERIES, max(1, len(queries))), TILE_ROWS_RANGE[0]),
        TILE_ROWS_RANGE[1],
        len(X),
    )
    centred, squares = np.empty((rows, X.shape[1]), dtype), np.empty(rows, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # float32 overflow gives is_exact = False
        for start in range(0, len(queries), MAX_TILE_QUERIES):
            batch = slice(start, min(start + MAX_TILE_QUERIES, len(queries)))
            tile, max_square = queries[batch] - centre, 0.0
            best = np.full((len(tile), n_candidates), np.inf, dtype)
            candidates = np.full((len(tile), n_candidates), -1, np.int64)
            for a in range(0, len(X), rows):
                n_tile_rows = min(rows, len(X) - a)
                subtract_centre(X[a : a + n_tile_rows], centre, centred[:n_tile_rows], squares[:n_tile_rows])
                keep_nearest(tile @ centred[:n_tile_rows].T, squares[:n_tile_rows], a, best, candidates)
                max_square = max(max_square, float(squares[:n_tile_rows].max()))
            query_squares = np.einsum("ij,ij->i", tile, tile, dtype=np.float64)
            # lower bound on the distances of excluded rows
            min_excluded = best[:, -1] + query_squares - rounding * (query_squares + max_square) - underflow
            candidates.sort(axis=1)
            sqdist = exact_squares(X, queries[batch], candidates)
            order = np.argsort(sqdist, axis=1, kind="stable")[:, :n_neighbours]
            distances[batch, :n_neighbours] = np.take_along_axis(sqdist, order, 1)
            positions[batch, :n_neighbours] = np.take_along_axis(candidates, order, 1)
            is_exact[batch] = np.isfinite(min_excluded) & (
                (n_candidates == len(X)) | (distances[batch, n_neighbours - 1] < min_excluded)
            )
    return distances, positions, is_exact


@jit(FMA_REASSOC)
def subtract_centre(X, centre, out, squares):  # type: ignore[no-untyped-def]
    """Fill ``out`` with rows minus the centre and ``squares`` with their squared norms, which may overflow."""
    for i in range(len(X)):
        total = 0.0
        for j in range(len(centre)):
            value = X[i, j] - centre[j]
            out[i, j] = value
            total += np.float64(value) * np.float64(value)
        squares[i] = total


@jit(FINITE_REASSOC)
def exact_squares(X, queries, candidates):  # type: ignore[no-untyped-def]
    """Return squared distances of each query to the rows ``candidates``, from differences in float64."""
    out = np.empty(candidates.shape)
    for i in range(len(queries)):
        q = queries[i]
        for c in range(candidates.shape[1]):
            x, total = X[candidates[i, c]], 0.0
            for j in range(len(q)):
                difference = np.float64(x[j]) - np.float64(q[j])
                total += difference * difference
            out[i, c] = total
    return out


@jit()
def keep_nearest(products, squares, first, best, candidates):  # type: ignore[no-untyped-def]
    """Update each query's sorted list of rows with the smallest |x|^2 - 2 q x."""
    n_candidates = best.shape[1]
    for i in range(len(products)):
        row, values, positions = products[i], best[i], candidates[i]
        worst = values[n_candidates - 1]
        for start in range(0, len(row), PRODUCTS_PER_GROUP):
            end, n_near = min(start + PRODUCTS_PER_GROUP, len(row)), np.int32(0)
            group, norms = row[start:end], squares[start:end]
            for j in range(len(group)):
                n_near += np.int32(norms[j] - group[j] - group[j] < worst)
            if n_near == 0:
                continue
            for j in range(len(group)):
                value = norms[j] - group[j] - group[j]
                if value < worst:
                    slot = n_candidates - 1
                    while slot > 0 and values[slot - 1] > value:
                        values[slot], positions[slot] = values[slot - 1], positions[slot - 1]
                        slot -= 1
                    values[slot], positions[slot] = value, first + start + j
                    worst = values[n_candidates - 1]


def merge_nearest(blocks: list[tuple[F64, I64]], k: int) -> tuple[F64, I64]:
    """Return the k nearest of the results of several blocks, in the order of the blocks."""
    distances = np.concatenate([d for d, _ in blocks], axis=1)
    positions = np.concatenate([p for _, p in blocks], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(positions, order, 1)
