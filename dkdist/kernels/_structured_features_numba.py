"""Random Fourier features of rows with structured frequencies: Hadamard transforms, sines and cosines.

    out <- scale (sin, cos)(pi length H D_3 H D_2 H D_1 x)       for several interleaved rows

Compiled functions fill arrays, or compute a tile of rows for SGD steps (`_numba.sgd.tile_steps`). Each row is bitwise
independent of the other rows. Shared code is optimised within each caller, which compiles faster. Buffers are allocated
in compiled functions: buffers from a caller could alias the inputs, and LLVM would add alias checks for every row.
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
    """Signs (n_blocks, 3, L), lengths (n_sigmas, F), F <= n_blocks L, and the scale F^(-1/2) of the features.

    Lengths are the norms of the rows of W, divided by L^(3/2) and by pi (phases in half turns).
    """

    signs: F32
    lengths: F32
    scale: float


def scale_structured(signs: F32, lengths: F64, sigmas: Sequence[float]) -> StructuredFrequencies:
    """Combine signs and ``lengths`` (F,), row norms of W / L^(3/2) for sigma = 1, with the bandwidths."""
    scaled = (lengths / (np.pi * np.asarray(sigmas)[:, None])).astype(np.float32)
    return StructuredFrequencies(read_only(signs), read_only(scaled), float(1 / np.sqrt(len(lengths))))


def structured_features(X: F32, indices: I64 | None, waves: StructuredFrequencies, outs: F32) -> None:
    """Fill each of ``outs`` (n_sigmas, n, 2F) with features of the rows ``indices`` (n,) of X (., m); None: all rows.

    X and outs are in C order.
    """
    if not (X.flags.c_contiguous and outs.flags.c_contiguous):
        raise ValueError("rows and features must be in C order")
    indices = np.arange(len(X)) if indices is None else indices
    _structured_rows(read_only(X), read_only(indices), waves, outs)


def structured_steps(
    X: F32, indices: I64, waves: StructuredFrequencies, tile: int, *sgd_arguments: Any
) -> int:
    """Take SGD steps on features of rows ``indices`` of X, ``tile`` rows at a time; return the averaged iterates.

    ``sgd_arguments`` are described in `LazyRows.descend`.
    """
    return int(_structured_steps(read_only(X), read_only(indices), waves, tile, *sgd_arguments))


@inline_jit(early=False)
def _buffers(L):  # type: ignore[no-untyped-def]
    """Allocate aligned buffers: interleaved rows, their products, and partial registers."""
    buffer, size = np.zeros(2 * ROWS_PER_VECTOR * L + CACHE_LINE_FLOATS, f32), ROWS_PER_VECTOR * L
    offset = offset_to_cache_line(buffer)
    return (
        buffer[offset:][:size],
        buffer[offset + size :][:size],
        np.zeros(3 * ROWS_PER_VECTOR * SIMD_WIDTH, f32),
    )


@inline_jit(early=False)
def _load_rows(X, indices, i, last, x, partial):  # type: ignore[no-untyped-def]
    """Copy rows of X to ``x``, interleaved."""
    m = X.shape[1]
    n_whole = m // SIMD_WIDTH * SIMD_WIDTH
    for r in range(0, n_whole, SIMD_WIDTH):
        store(transposed(gather_rows(X, indices, i, last, r)), x, r * ROWS_PER_VECTOR, SIMD_WIDTH)
    if n_whole < m:
        for k in range(ROWS_PER_VECTOR):
            row = X[indices[minimum(i + k, last)]]
            for j in range(SIMD_WIDTH):
                partial[k * SIMD_WIDTH + j] = row[n_whole + j] if n_whole + j < m else f32(0)
        store(
            transposed(load(partial, 0, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH)),
            x,
            n_whole * ROWS_PER_VECTOR,
            SIMD_WIDTH,
        )


@inline_jit(FINITE_FMA, early=False)
def _sines_and_cosines(buffer, scale):  # type: ignore[no-untyped-def]
    """Write sines and cosines of the first third of the buffer, times ``scale``, to the second and third."""
    group_size, scale32 = ROWS_PER_VECTOR * SIMD_WIDTH, f32(scale)
    for j in range(group_size):
        sine, cosine = sincospi(buffer[j])
        buffer[group_size + j] = scale32 * sine
        buffer[2 * group_size + j] = scale32 * cosine


@inline_jit(early=False)
def _fill_structured(X, indices, first, n, waves, buffers, outs):  # type: ignore[no-untyped-def]
    """Fill the features of rows indices[first : first + n] of X, `ROWS_PER_VECTOR` rows at a time.

    The last group is padded with its last row. Sines and cosines of a block are computed while its products are in
    the L1 cache.
    """
    (x, v, partial), (signs, lengths, scale), outs = borrowed(buffers), borrowed(waves), borrowed(outs)
    X, indices, (n_blocks, _, L) = borrowed(X), borrowed(indices), signs.shape
    F, last, group_size = lengths.shape[1], first + n - 1, ROWS_PER_VECTOR * SIMD_WIDTH
    for i in range(0, n, ROWS_PER_VECTOR):
        _load_rows(X, indices, first + i, last, x, partial)
        for block in range(n_blocks):
            structured_products(x, X.shape[1], signs[block], v)
            start = block * L
            stop = minimum(start + L, F)
            end_whole = (
                start + (stop - start) // SIMD_WIDTH * SIMD_WIDTH if i + ROWS_PER_VECTOR <= n else start
            )
            for s in range(len(lengths)):
                row_lengths, first_out = lengths[s], (s * outs.shape[1] + i) * 2 * F
                for r in range(start, end_whole, SIMD_WIDTH):
                    prefetch_for_write(outs, first_out + r + PREFETCH_NUMBERS, 2 * F, ROWS_PER_VECTOR)
                    prefetch_for_write(outs, first_out + F + r + PREFETCH_NUMBERS, 2 * F, ROWS_PER_VECTOR)
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
                    store(
                        load(partial, group_size, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH),
                        outs,
                        first_out + r,
                        2 * F,
                    )
                    store(
                        load(partial, 2 * group_size, SIMD_WIDTH, ROWS_PER_VECTOR, SIMD_WIDTH),
                        outs,
                        first_out + F + r,
                        2 * F,
                    )
                for r in range(end_whole, stop, SIMD_WIDTH):
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
                            outs[s, i + k, r + j] = partial[group_size + k * SIMD_WIDTH + j]
                            outs[s, i + k, F + r + j] = partial[2 * group_size + k * SIMD_WIDTH + j]


@jit(FINITE_FMA)
def _structured_rows(X, indices, waves, outs):  # type: ignore[no-untyped-def]
    buffers = _buffers(waves.signs.shape[2])
    _fill_structured(X, indices, 0, len(indices), waves, buffers, outs)


@jit(FINITE_FMA)
def _structured_steps(X, indices, waves, tile, steps, iterate, monitor, n_averaged):  # type: ignore[no-untyped-def]
    buffers = _buffers(waves.signs.shape[2])
    features = np.empty((1, tile, iterate.W.shape[1]), f32)
    start, stop = 0, (len(indices) - 1) % tile + 1  # the first tile may be shorter
    while start < len(indices):
        _fill_structured(X, indices, start, stop - start, waves, buffers, features)
        n_averaged = tile_steps(features[0], start, stop, steps, iterate, monitor, n_averaged)
        start, stop = stop, stop + tile
    return n_averaged
