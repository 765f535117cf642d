"""The k nearest rows of a block, exactly: products find candidates, differences decide.

    |q - x|^2 = |q|^2 + |x|^2 - 2 q x

A product in float32 is fast and off by at most D u |q| |x|, u = 2^-24 (whatever the order of adding), so a few
candidates more than k are kept by it, and their distances are taken again from differences, in float64. Queries whose
k-th distance is not below those of all rows left out by more than the error have their candidates from products in
float64. Rows come by in tiles that stay in the cache; each query keeps a sorted list, which almost no row gets into
after the first tiles, so that the cost is that of the product.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, FMA_REASSOC, jit

# nearly square tiles are fastest (python benchmarks/nearest.py)
MAX_TILE_QUERIES, MAX_TILE_PRODUCTS = 1024, 2**20
TILE_ROWS_RANGE = (2048, 4096)  # minimum and maximum (python benchmarks/nearest.py)
N_EXTRA_CANDIDATES = 8  # cover rounding of float32 (python benchmarks/nearest.py)
N_CENTRE_ROWS = 256  # about the rows whose mean is the centre (python benchmarks/nearest.py)
PRODUCTS_PER_GROUP = 64  # compared with the k-th distance at once (python benchmarks/nearest.py)
# unit roundoff; D + 8 units bound the error of a product in |q|^2 + |x|^2 (Higham 2002, section 3.1)
FLOAT32_ROUNDOFF = 2.0**-24


def nearest_rows(X: F32, queries: F32, k: int, first: int = 0) -> tuple[F64, I64]:
    """(squared distances, positions) of the k nearest rows of X (n, D) to each of ``queries`` (m, D), nearest first.

    Positions count from ``first``; equal distances keep the order of the rows. With fewer than k rows, the last ones
    are at distance inf and position -1.
    """
    distances, places, sure = _search_products(X, queries, k, np.float32)
    if not sure.all():
        distances[~sure], places[~sure], _ = _search_products(X, queries[~sure], k, np.float64)
    return distances, np.where(places < 0, -1, places + first)


def _search_products(
    X: F32, queries: F32, k: int, dtype: type[np.floating]
) -> tuple[F64, I64, NDArray[np.bool_]]:
    """Squares, positions, and whether no row that rounding may have brought up is left out."""
    some = X[:: max(1, len(X) // N_CENTRE_ROWS)]
    centre = some.mean(axis=0, dtype=np.float64).astype(dtype)  # shorter vectors have smaller errors
    distances, places = np.full((len(queries), k), np.inf), np.full((len(queries), k), -1, np.int64)
    sure, kept, rounding = (
        np.empty(len(queries), bool),
        min(k + N_EXTRA_CANDIDATES, len(X)),
        (X.shape[1] + 8) * FLOAT32_ROUNDOFF,
    )
    n = min(k, kept)
    rows = min(
        max(MAX_TILE_PRODUCTS // min(MAX_TILE_QUERIES, max(1, len(queries))), TILE_ROWS_RANGE[0]),
        TILE_ROWS_RANGE[1],
        len(X),
    )
    centred, squares = np.empty((rows, X.shape[1]), dtype), np.empty(rows, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # float32 may overflow: then nothing is sure
        for start in range(0, len(queries), MAX_TILE_QUERIES):
            part = slice(start, min(start + MAX_TILE_QUERIES, len(queries)))
            tile, longest = queries[part] - centre, 0.0
            best = np.full((len(tile), kept), np.inf, dtype)
            which = np.full((len(tile), kept), -1, np.int64)
            for a in range(0, len(X), rows):
                few = min(rows, len(X) - a)
                subtract_centre(X[a : a + few], centre, centred[:few], squares[:few])
                keep_nearest(tile @ centred[:few].T, squares[:few], a, best, which)
                longest = max(longest, float(squares[:few].max()))
            own = np.einsum("ij,ij->i", tile, tile, dtype=np.float64)
            least = best[:, -1] + own - rounding * (own + longest)  # of the rows that were left out
            which.sort(axis=1)
            apart = exact_squares(X, queries[part], which)
            order = np.argsort(apart, axis=1, kind="stable")[:, :n]
            distances[part, :n] = np.take_along_axis(apart, order, 1)
            places[part, :n] = np.take_along_axis(which, order, 1)
            sure[part] = np.isfinite(least) & ((kept == len(X)) | (distances[part, n - 1] < least))
    return distances, places, sure


@jit(FMA_REASSOC)
def subtract_centre(X, centre, out, squares):  # type: ignore[no-untyped-def]
    """Rows from a centre, and their squared lengths, which may be too large to tell."""
    for i in range(len(X)):
        total = 0.0
        for j in range(len(centre)):
            value = X[i, j] - centre[j]
            out[i, j] = value
            total += np.float64(value) * np.float64(value)
        squares[i] = total


@jit(FINITE_REASSOC)
def exact_squares(X, queries, which):  # type: ignore[no-untyped-def]
    """Squared distances of each query to some rows, by differences in float64."""
    out = np.empty(which.shape)
    for i in range(len(queries)):
        q = queries[i]
        for c in range(which.shape[1]):
            x, total = X[which[i, c]], 0.0
            for j in range(len(q)):
                difference = np.float64(x[j]) - np.float64(q[j])
                total += difference * difference
            out[i, c] = total
    return out


@jit()
def keep_nearest(products, squares, first, best, which):  # type: ignore[no-untyped-def]
    """Put rows whose |x|^2 - 2 q x is among the least of a query so far into its sorted list."""
    kept = best.shape[1]
    for i in range(len(products)):
        row, values, places = products[i], best[i], which[i]
        worst = values[kept - 1]
        for start in range(0, len(row), PRODUCTS_PER_GROUP):
            end, near = min(start + PRODUCTS_PER_GROUP, len(row)), np.int32(0)
            some, lengths = row[start:end], squares[start:end]
            for j in range(len(some)):
                near += np.int32(lengths[j] - some[j] - some[j] < worst)
            if near == 0:
                continue
            for j in range(len(some)):
                value = lengths[j] - some[j] - some[j]
                if value < worst:
                    at = kept - 1
                    while at > 0 and values[at - 1] > value:
                        values[at], places[at] = values[at - 1], places[at - 1]
                        at -= 1
                    values[at], places[at] = value, first + start + j
                    worst = values[kept - 1]


def merge_nearest(parts: list[tuple[F64, I64]], k: int) -> tuple[F64, I64]:
    """The k nearest of several blocks' nearest, given in the order of the blocks."""
    distances = np.concatenate([d for d, _ in parts], axis=1)
    places = np.concatenate([p for _, p in parts], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(places, order, 1)
