"""Random Fourier features of rows with dense frequencies: products, sines and cosines.

    out <- scale (sin, cos)(pi factor W x)       with W (F, m), four rows at a time

Compiled functions fill arrays, or compute a tile of rows for SGD steps (`_numba.sgd.tile_steps`). Each row is bitwise
independent of the other rows. Shared code is optimised within each caller, which compiles faster. Buffers are allocated
in compiled functions: buffers from a caller could alias the inputs, and LLVM would add alias checks for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, I64, borrowed
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.elementary import f32, minimum, sincospi
from dkdist._numba.points import read_only
from dkdist._numba.sgd import tile_steps
from dkdist._numba.simd import add_outer, load, spread, store, zeros

# 32 KiB of phases per tile stay in the L1 cache (python benchmarks/roofline_stages.py).
TILE_ROWS, TILE_FREQUENCIES = 32, 256
# frequencies per panel: float32 numbers in a 512-bit register (python benchmarks/roofline.py)
SIMD_WIDTH = 16


class DenseFrequencies(NamedTuple):
    """Output of `as_panels` for sigma = 1, 1 / (pi sigma) for each sigma, and the scale F^(-1/2) of the features."""

    panels: F32
    factors: F32
    scale: Any


def scale_dense(frequencies: F32, n_features: int, sigmas: Sequence[float]) -> DenseFrequencies:
    """Combine panels from `as_panels` with the bandwidths."""
    factors = (1 / (np.pi * np.asarray(sigmas))).astype(np.float32)
    return DenseFrequencies(read_only(frequencies), read_only(factors), f32(1 / np.sqrt(n_features // 2)))


def as_panels(Wt: F32) -> F32:
    """Rearrange frequencies Wt (m, F) to panels (ceil(F / 16), m, 16), padded with zeros."""
    m, F = Wt.shape
    padded = np.zeros((m, -(-F // SIMD_WIDTH) * SIMD_WIDTH), np.float32)
    padded[:, :F] = Wt
    return np.ascontiguousarray(padded.reshape(m, -1, SIMD_WIDTH).transpose(1, 0, 2))


def dense_features(X: F32, waves: DenseFrequencies, outs: F32) -> None:
    """Fill each of ``outs`` (n_sigmas, n, 2F) with the features of rows ``X`` (n, m) for its sigma."""
    _dense_rows(read_only(X), waves, outs)


def dense_steps(X: F32, indices: I64, waves: DenseFrequencies, tile: int, *sgd_arguments: Any) -> int:
    """Take SGD steps on features of rows ``indices`` of X, ``tile`` rows at a time; return the averaged iterates.

    ``sgd_arguments`` are described in `LazyRows.descend`.
    """
    return int(_dense_steps(read_only(X), read_only(indices), waves, tile, *sgd_arguments))


@inline_jit(FINITE_FMA, early=False)
def _sine_cosine(phases, factor, scale, sines, cosines):  # type: ignore[no-untyped-def]
    for r in range(len(sines)):
        sine, cosine = sincospi(phases[r] * factor)
        sines[r] = scale * sine
        cosines[r] = scale * cosine


@inline_jit(FINITE_FMA, early=False)
def _fill_dense(X, n, waves, phases, outs):  # type: ignore[no-untyped-def]
    """Fill the features of the first n rows of X (., m), contiguous."""
    X, waves, phases, outs = borrowed(X), borrowed(waves), borrowed(phases), borrowed(outs)
    m, F = X.shape[1], outs.shape[2] // 2
    for first in range(0, n, TILE_ROWS):
        rows = minimum(TILE_ROWS, n - first)
        for start in range(0, F, TILE_FREQUENCIES):
            width = minimum(TILE_FREQUENCIES, F - start)
            for column in range(0, width, SIMD_WIDTH):
                panel = (start + column) * m
                for i in range(0, rows - 3, 4):
                    sums = zeros(4, SIMD_WIDTH)
                    for a in range(m):
                        w = load(waves.panels, panel + a * SIMD_WIDTH, 0, 1, SIMD_WIDTH)
                        sums = add_outer(spread(X, (first + i) * m + a, m, 4, SIMD_WIDTH), w, sums)
                    store(sums, phases, i * TILE_FREQUENCIES + column, TILE_FREQUENCIES)
                for i in range(rows // 4 * 4, rows):
                    row_sums = zeros(1, SIMD_WIDTH)
                    for a in range(m):
                        w = load(waves.panels, panel + a * SIMD_WIDTH, 0, 1, SIMD_WIDTH)
                        row_sums = add_outer(spread(X, (first + i) * m + a, m, 1, SIMD_WIDTH), w, row_sums)
                    store(row_sums, phases, i * TILE_FREQUENCIES + column, TILE_FREQUENCIES)
            for s in range(len(waves.factors)):
                for i in range(rows):
                    out = outs[s, first + i]
                    sines, cosines = out[start : start + width], out[F + start : F + start + width]
                    _sine_cosine(phases[i], waves.factors[s], waves.scale, sines, cosines)


@jit(FINITE_FMA)
def _dense_rows(X, waves, outs):  # type: ignore[no-untyped-def]
    _fill_dense(X, len(X), waves, np.empty((TILE_ROWS, TILE_FREQUENCIES), f32), outs)


@jit(FINITE_FMA)
def _dense_steps(X, indices, waves, tile, steps, iterate, monitor, n_averaged):  # type: ignore[no-untyped-def]
    features = np.empty((1, tile, iterate.W.shape[1]), f32)
    phases, rows = np.empty((TILE_ROWS, TILE_FREQUENCIES), f32), np.empty((tile, X.shape[1]), f32)
    start, stop = 0, (len(indices) - 1) % tile + 1  # the first tile may be shorter
    while start < len(indices):
        for i in range(stop - start):
            x = X[indices[start + i]]
            for a in range(len(x)):
                rows[i, a] = x[a]
        _fill_dense(rows, stop - start, waves, phases, features)
        n_averaged = tile_steps(features[0], start, stop, steps, iterate, monitor, n_averaged)
        start, stop = stop, stop + tile
    return n_averaged
