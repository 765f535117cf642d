"""Deterministic matrix products: a row does not depend on other rows or the number of BLAS threads, bit for bit.

Some BLAS libraries use the same order of summation for all rows of a tile if no sum has more than 256 terms; in others
the order depends on the position in the tile (OpenBLAS without AVX-512). `deterministic_factor` tests the BLAS. For the
first kind, products are float32, in tiles of 128 rows (the last one padded):

    A B = sum_c A[:, c] B[c, :]   over slices c of 256 columns, added in order

For the other kind, sums of integers below 2^53 are exact in float64 in any order, with 21 to 26 bits per factor:

    A B ~ 2^-(a_i + b_j) sum_k rint(2^a_i A_ik) rint(2^b_j B_kj)

The rounding error is 2^-(bits + 1) of the largest number of a row or column, similar to float32 products. These
products take two to three times as long. `products` and `all_products` multiply four rows at once in SGD.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.simd import HAS_AVX512, full, fused, lane_sum, load

SIMD_WIDTH = 16 if HAS_AVX512 else 8  # float32 numbers per vector (tests/loops/test_four_rows.py)


@inline_jit(early=False)
def products(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    """Return x0 v, x1 v, x2 v, x3 v."""
    zero, n_whole = v.dtype.type(0.0), len(v) // SIMD_WIDTH * SIMD_WIDTH
    s0 = s1 = s2 = s3 = full(zero, 1, SIMD_WIDTH)
    for j in range(0, n_whole, SIMD_WIDTH):
        w = load(v, j, 0, 1, SIMD_WIDTH)
        s0 = fused(load(x0, j, 0, 1, SIMD_WIDTH), w, s0)
        s1 = fused(load(x1, j, 0, 1, SIMD_WIDTH), w, s1)
        s2 = fused(load(x2, j, 0, 1, SIMD_WIDTH), w, s2)
        s3 = fused(load(x3, j, 0, 1, SIMD_WIDTH), w, s3)
    r0 = r1 = r2 = r3 = zero
    for j in range(n_whole, len(v)):
        r0, r1, r2, r3 = r0 + x0[j] * v[j], r1 + x1[j] * v[j], r2 + x2[j] * v[j], r3 + x3[j] * v[j]
    return lane_sum(s0) + r0, lane_sum(s1) + r1, lane_sum(s2) + r2, lane_sum(s3) + r3


@inline_jit(early=False)
def all_products(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    """Return the four `products` and x0 x1, x0 x2, x0 x3, x1 x2, x1 x3, x2 x3."""
    zero, n_whole = v.dtype.type(0.0), len(v) // SIMD_WIDTH * SIMD_WIDTH
    s0 = s1 = s2 = s3 = s01 = s02 = s03 = s12 = s13 = s23 = full(zero, 1, SIMD_WIDTH)
    for j in range(0, n_whole, SIMD_WIDTH):
        w = load(v, j, 0, 1, SIMD_WIDTH)
        a, b = load(x0, j, 0, 1, SIMD_WIDTH), load(x1, j, 0, 1, SIMD_WIDTH)
        c, d = load(x2, j, 0, 1, SIMD_WIDTH), load(x3, j, 0, 1, SIMD_WIDTH)
        s0, s1, s2, s3 = fused(a, w, s0), fused(b, w, s1), fused(c, w, s2), fused(d, w, s3)
        s01, s02, s03 = fused(a, b, s01), fused(a, c, s02), fused(a, d, s03)
        s12, s13, s23 = fused(b, c, s12), fused(b, d, s13), fused(c, d, s23)
    r0 = r1 = r2 = r3 = r01 = r02 = r03 = r12 = r13 = r23 = zero
    for j in range(n_whole, len(v)):
        r0, r1, r2, r3 = r0 + x0[j] * v[j], r1 + x1[j] * v[j], r2 + x2[j] * v[j], r3 + x3[j] * v[j]
        r01, r02, r03 = r01 + x0[j] * x1[j], r02 + x0[j] * x2[j], r03 + x0[j] * x3[j]
        r12, r13, r23 = r12 + x1[j] * x2[j], r13 + x1[j] * x3[j], r23 + x2[j] * x3[j]
    p0, p1, p2, p3 = lane_sum(s0) + r0, lane_sum(s1) + r1, lane_sum(s2) + r2, lane_sum(s3) + r3
    g01, g02, g03 = lane_sum(s01) + r01, lane_sum(s02) + r02, lane_sum(s03) + r03
    g12, g13, g23 = lane_sum(s12) + r12, lane_sum(s13) + r13, lane_sum(s23) + r23
    return p0, p1, p2, p3, g01, g02, g03, g12, g13, g23


# deterministic BLAS libraries use one order of summation up to 256 terms (tests/loops/test_products.py)
TILE_ROWS, SLICE_COLUMNS = 128, 256
# tile heights for the test of the BLAS, whose threads split them differently (tests/loops/test_products.py)
TRIAL_ROWS = (128, 64, 40)
# maximum terms of an exact integer sum; columns per slice, which stays in the cache (tests/loops/test_products.py)
EXACT_SLICE_TERMS, EXACT_COLUMNS = 1024, 512


class Factor(Protocol):
    """Right factor B (k, m) of matrix products; immutable."""

    def product(self, A: F32, out: F32) -> None:
        """Set out = A B, (n, k) and (n, m) float32; each row of ``out`` depends only on that row of A."""


def deterministic_factor(B: F32) -> Factor:
    """Return a factor B (k, m) float32 that uses the BLAS, or exact sums if the BLAS is not deterministic."""
    return FloatFactor(B) if is_blas_deterministic(*B.shape) else IntegerFactor(B)


@lru_cache(maxsize=64)
def is_blas_deterministic(k: int, m: int) -> bool:
    """Return whether equal rows have bitwise identical products in tiles of several heights and widths."""
    rng = np.random.default_rng(0)
    row, B = rng.standard_normal(k).astype(np.float32), rng.standard_normal((k, m)).astype(np.float32)
    products = [np.empty((n, m), np.float32) for n in TRIAL_ROWS]
    for out in products:
        _multiply_slices(np.ascontiguousarray(np.broadcast_to(row, (len(out), k))), B, out)
    half = np.empty((TILE_ROWS, m // 2), np.float32)
    _multiply_slices(
        np.ascontiguousarray(np.broadcast_to(row, (TILE_ROWS, k))), np.ascontiguousarray(B[:, : m // 2]), half
    )
    first = products[0][0]
    return all(bool((out == first).all()) for out in products) and bool((half == first[: m // 2]).all())


class FloatFactor:
    """Factor of float32 products, for a deterministic BLAS."""

    def __init__(self, B: F32) -> None:
        self._B = np.ascontiguousarray(B, np.float32)

    def product(self, A: F32, out: F32) -> None:
        """Set out = A B, for (n, k) and (n, m) float32."""
        n_whole = len(A) - len(A) % TILE_ROWS
        for start in range(0, n_whole, TILE_ROWS):
            _multiply_slices(A[start : start + TILE_ROWS], self._B, out[start : start + TILE_ROWS])
        if n_whole < len(A):
            padded, product_rows = (
                np.zeros((TILE_ROWS, A.shape[1]), np.float32),
                np.empty((TILE_ROWS, out.shape[1]), np.float32),
            )
            padded[: len(A) - n_whole] = A[n_whole:]
            _multiply_slices(padded, self._B, product_rows)
            out[n_whole:] = product_rows[: len(A) - n_whole]


def _multiply_slices(A: F32, B: F32, out: F32) -> None:
    np.matmul(A[:, :SLICE_COLUMNS], B[:SLICE_COLUMNS], out=out)
    for start in range(SLICE_COLUMNS, A.shape[1], SLICE_COLUMNS):
        out += A[:, start : start + SLICE_COLUMNS] @ B[start : start + SLICE_COLUMNS]


class IntegerFactor:
    """Factor of exact sums of integers; results are bitwise identical on all machines."""

    def __init__(self, B: F32) -> None:
        self._bits = (53 - int(np.ceil(np.log2(min(len(B), EXACT_SLICE_TERMS))))) // 2
        rounded, self._inverse_scales = _scale_to_integers(np.ascontiguousarray(B.T, np.float32), self._bits)
        self._B = np.ascontiguousarray(rounded.T)

    def product(self, A: F32, out: F32) -> None:
        """Set out = A B, for (n, k) and (n, m) float32; rows that are not finite give rows of NaN."""
        for start in range(0, len(A), TILE_ROWS):
            Q, inverse_scales = _scale_to_integers(A[start : start + TILE_ROWS], self._bits)
            for first in range(0, out.shape[1], EXACT_COLUMNS):
                columns = slice(first, first + EXACT_COLUMNS)
                _scale(self._sums(Q, columns), inverse_scales, self._inverse_scales, out, start, first)

    def _sums(self, Q: F64, columns: slice) -> F64:
        total: F64 = Q[:, :EXACT_SLICE_TERMS] @ self._B[:EXACT_SLICE_TERMS, columns]
        for start in range(EXACT_SLICE_TERMS, Q.shape[1], EXACT_SLICE_TERMS):
            total += (
                Q[:, start : start + EXACT_SLICE_TERMS] @ self._B[start : start + EXACT_SLICE_TERMS, columns]
            )
        return total


def _scale_to_integers(rows: F32, bits: int) -> tuple[F64, F64]:
    """Return rows scaled to integers of at most ``bits`` bits, and the inverse scale (a power of two) of each row."""
    with np.errstate(invalid="ignore"):
        largest = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
        scales = np.where(np.isfinite(largest), np.ldexp(1.0, bits - np.frexp(largest)[1]), np.nan)
        return np.rint(rows * scales[:, None]), 1 / scales


@jit()
def _scale(sums, row_scales, column_scales, out, first_row, first_column):  # type: ignore[no-untyped-def]
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            out[first_row + i, first_column + j] = (
                sums[i, j] * row_scales[i] * column_scales[first_column + j]
            )


def pad_to_three(matrices: list[F32]) -> list[F32]:
    """Return three matrices, with (1, 1) ones for missing ones."""
    return matrices + [np.ones((1, 1), np.float32)] * (3 - len(matrices))


@inline_jit()
def separable(D1, D2, D3t, X, Y):  # type: ignore[no-untyped-def]
    """Set Y[a, b, c] = sum D1[a, i] D2[b, j] D3t[k, c] X[i, j, k], for contiguous float32 arrays."""
    (A, _), (B, J), (K, C) = D1.shape, D2.shape, D3t.shape
    first = np.dot(D1, X.reshape(D1.shape[1], J * K)).reshape(A, J, K)
    second = np.empty((A, B, K), X.dtype)
    for a in range(A):
        np.dot(D2, first[a], second[a])
    np.dot(second.reshape(A * B, K), D3t, Y.reshape(A * B, C))
