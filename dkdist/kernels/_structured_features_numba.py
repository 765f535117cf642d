"""Random Fourier features of rows with structured frequencies: Hadamard transforms, sines and cosines.

    out <- scale (sin, cos)(pi length H D_3 H D_2 H D_1 x)       for several interleaved rows

Compiled functions fill arrays, or a tile of rows for SGD steps in one loop (`_numba.sgd.tile_steps`). The bits of a row
depend on no other row. Shared code is optimised within each caller, which compiles faster. Buffers are allocated inside
the loops: arrays of a caller might alias its inputs, and that would be checked in every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, borrowed
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.elementary import f32, minimum, sincospi
from dkdist._numba.hadamard import structured_products
from dkdist._numba.points import read_only
from dkdist._numba.sgd import tile_steps
from dkdist._numba.simd import (
    CACHE_LINE_FLOATS,
    ROWS_PER_VECTOR,
    SIMD_WIDTH,
    gather_rows,
    load,
    offset_to_cache_line,
    prefetch_for_write,
    store,
    times,
    transposed,
)

# prefetch distance within a row (python benchmarks/roofline_stages.py)
PREFETCH_NUMBERS = 2 * CACHE_LINE_FLOATS


class StructuredFrequencies(NamedTuple):
    """Signs (n_blocks, 3, L), lengths (n_sigmas, F) of the rows of W over L^(3/2) and over pi, since phases are in
    half turns, and the length of a wave's feature; F <= n_blocks L."""

    signs: F32
    lengths: F32
    scale: float


def scale_structured(signs: F32, lengths: F64, sigmas: Sequence[float]) -> StructuredFrequencies:
    """``lengths`` (F,) are those of the rows of W over L^(3/2) for sigma = 1."""
    scaled = (lengths / (np.pi * np.asarray(sigmas)[:, None])).astype(np.float32)
    return StructuredFrequencies(read_only(signs), read_only(scaled), float(1 / np.sqrt(len(lengths))))


def structured_features(X: F32, places: I64 | None, waves: StructuredFrequencies, outs: F32) -> None:
    """Fill each of ``outs`` (n_sigmas, n, 2F) with the features of the rows ``places`` (n,) of X (., m), or of all.

    X and outs are in C order.
    """
    if not (X.flags.c_contiguous and outs.flags.c_contiguous):
        raise ValueError("rows and features must be in C order")
    places = np.arange(len(X)) if places is None else places
    _structured_rows(read_only(X), read_only(places), waves, outs)


def structured_steps(
    X: F32, places: I64, waves: StructuredFrequencies, tile: int, *sgd_arguments: Any
) -> int:
    """Take SGD steps on the features of rows ``places`` of X, ``tile`` rows at a time; return the terms of the average.

    The ``sgd_arguments`` are those of `LazyRows.descend`.
    """
    return int(_structured_steps(read_only(X), read_only(places), waves, tile, *sgd_arguments))


@inline_jit(early=False)
def _buffers(L):  # type: ignore[no-untyped-def]
    """Allocate aligned buffers: interleaved rows, their products, and partial registers."""
    sides, one = np.zeros(2 * ROWS_PER_VECTOR * L + CACHE_LINE_FLOATS, f32), ROWS_PER_VECTOR * L
    begin = offset_to_cache_line(sides)
    return sides[begin:][:one], sides[begin + one :][:one], np.zeros(3 * ROWS_PER_VECTOR * SIMD_WIDTH, f32)


@inline_jit(early=False)
def _load_rows(X, places, i, last, x, partial):  # type: ignore[no-untyped-def]
    """Write some rows of X, interleaved, to ``x``."""
    m = X.shape[1]
    whole = m // SIMD_WIDTH * SIMD_WIDTH
    for r in range(0, whole, SIMD_WIDTH):
        store(transposed(gather_rows(X, places, i, last, r)), x, r * ROWS_PER_VECTOR, SIMD_WIDTH)
    if whole < m:
        for k in range(ROWS_PER_VECTOR):
            row = X[places[minimum(i + k, last)]]
            for j in range(SIMD_WIDTH):
                partial[k * SIMD_WIDTH + j] = row[whole + j] if whole + j < m else f32(0)
        store(
            transposed(load(partial, 0, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH)),
            x,
            whole * ROWS_PER_VECTOR,
            SIMD_WIDTH,
        )


@inline_jit(FINITE_FMA, early=False)
def _sines_and_cosines(buffer, scale):  # type: ignore[no-untyped-def]
    """Sines and cosines times ``scale`` of the first third of the room, to the second and the third."""
    cells, length = ROWS_PER_VECTOR * SIMD_WIDTH, f32(scale)
    for j in range(cells):
        sine, cosine = sincospi(buffer[j])
        buffer[cells + j] = length * sine
        buffer[2 * cells + j] = length * cosine


@inline_jit(early=False)
def _fill_structured(X, places, first, n, waves, buffers, outs):  # type: ignore[no-untyped-def]
    """The features of the rows places[first : first + n] of X, `ROWS_PER_VECTOR` of them at once.

    Where fewer are left, the last one stands for those that are not there. Waves of a block come right after its
    products, which are still in the first level of the cache.
    """
    (x, v, partial), (signs, lengths, scale), outs = borrowed(buffers), borrowed(waves), borrowed(outs)
    X, places, (n_blocks, _, L) = borrowed(X), borrowed(places), signs.shape
    F, last, cells = lengths.shape[1], first + n - 1, ROWS_PER_VECTOR * SIMD_WIDTH
    for i in range(0, n, ROWS_PER_VECTOR):
        _load_rows(X, places, first + i, last, x, partial)
        for block in range(n_blocks):
            structured_products(x, X.shape[1], signs[block], v)
            start = block * L
            stop = minimum(start + L, F)
            whole = start + (stop - start) // SIMD_WIDTH * SIMD_WIDTH if i + ROWS_PER_VECTOR <= n else start
            for s in range(len(lengths)):
                row_lengths, out = lengths[s], (s * outs.shape[1] + i) * 2 * F
                for r in range(start, whole, SIMD_WIDTH):
                    prefetch_for_write(outs, out + r + PREFETCH_NUMBERS, 2 * F, ROWS_PER_VECTOR)
                    prefetch_for_write(outs, out + F + r + PREFETCH_NUMBERS, 2 * F, ROWS_PER_VECTOR)
                    phases = transposed(
                        load(v, (r - start) * ROWS_PER_VECTOR, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH)
                    )
                    store(
                        times(phases, load(row_lengths, r, 0, ROWS_PER_VECTOR, SIMD_WIDTH)),
                        partial,
                        0,
                        SIMD_WIDTH,
                    )
                    _sines_and_cosines(partial, scale)
                    store(load(partial, cells, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH), outs, out + r, 2 * F)
                    store(
                        load(partial, 2 * cells, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH),
                        outs,
                        out + F + r,
                        2 * F,
                    )
                for r in range(whole, stop, SIMD_WIDTH):
                    width = minimum(SIMD_WIDTH, stop - r)
                    for j in range(width):
                        partial[j] = row_lengths[r + j]
                    phases = transposed(
                        load(v, (r - start) * ROWS_PER_VECTOR, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH)
                    )
                    store(
                        times(phases, load(partial, 0, 0, ROWS_PER_VECTOR, SIMD_WIDTH)),
                        partial,
                        0,
                        SIMD_WIDTH,
                    )
                    _sines_and_cosines(partial, scale)
                    for k in range(minimum(ROWS_PER_VECTOR, n - i)):
                        for j in range(width):
                            outs[s, i + k, r + j] = partial[cells + k * SIMD_WIDTH + j]
                            outs[s, i + k, F + r + j] = partial[2 * cells + k * SIMD_WIDTH + j]


@jit(FINITE_FMA)
def _structured_rows(X, places, waves, outs):  # type: ignore[no-untyped-def]
    buffers = _buffers(waves.signs.shape[2])
    _fill_structured(X, places, 0, len(places), waves, buffers, outs)


@jit(FINITE_FMA)
def _structured_steps(X, places, waves, tile, steps, iterate, monitor, n_averaged):  # type: ignore[no-untyped-def]
    buffers = _buffers(waves.signs.shape[2])
    features = np.empty((1, tile, iterate.W.shape[1]), f32)
    start, stop = 0, (len(places) - 1) % tile + 1  # the first tile is the short one
    while start < len(places):
        _fill_structured(X, places, start, stop - start, waves, buffers, features)
        n_averaged = tile_steps(features[0], start, stop, steps, iterate, monitor, n_averaged)
        start, stop = stop, stop + tile
    return n_averaged
