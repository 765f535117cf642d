"""The sorting network compared with NumPy's sort: every size up to some blocks, larger sizes, ties and zeros."""

import numpy as np
import pytest

from dkdist._numba.compilation import jit
from dkdist._numba.points import cache_lines
from dkdist._numba.simd import SIMD_WIDTH, store
from dkdist._numba.sorting import padded_rows, row_at_rank, sort_blocks, sort_columns


@jit()
def _sort(x, n, out):  # type: ignore[no-untyped-def]
    sort_columns(x, n)
    for rank in range(n):
        store(row_at_rank(x, rank), out, rank * SIMD_WIDTH, 0)


def sort_by_network(columns):
    """Return sorted columns (n, SIMD_WIDTH); the buffer initially has numbers of other sets."""
    (x,) = cache_lines(padded_rows(len(columns)) * SIMD_WIDTH)
    x[:] = -1e30
    x[: columns.size] = columns.ravel()
    out = np.empty_like(columns)
    _sort(x, len(columns), out.reshape(-1))
    return out


@pytest.mark.parametrize("n", [*range(1, 140), 200, 255, 256, 257, 400, 511, 513, 1000, 1025, 2049, 4097])
def test_columns_are_sorted(n):
    rng = np.random.default_rng(n)
    numbers = rng.normal(size=(n, SIMD_WIDTH))
    zeros_and_ones = rng.random((n, SIMD_WIDTH)) < np.linspace(
        0, 1, SIMD_WIDTH
    )  # the principle of zeros and ones
    for columns in (numbers, zeros_and_ones, np.sort(numbers, axis=0), np.sort(numbers, axis=0)[::-1]):
        columns = np.ascontiguousarray(columns, np.float32)
        np.testing.assert_array_equal(sort_by_network(columns), np.sort(columns, axis=0))


def test_every_arrangement_of_two_sorted_runs_of_zeros_and_ones_is_merged():
    """By the principle of zeros and ones, this proves that runs of 64 merge; each column is one arrangement."""
    zeros = np.stack(np.meshgrid(np.arange(65), np.arange(65)), axis=-1).reshape(-1, 2)
    rows = np.arange(64)[:, None]
    arrangements = np.concatenate([rows >= zeros[:, 0], rows >= zeros[:, 1]]).astype(np.float32)
    for first in range(0, len(zeros), SIMD_WIDTH):
        columns = np.zeros((128, SIMD_WIDTH), np.float32)
        part = arrangements[:, first : first + SIMD_WIDTH]
        columns[:, : part.shape[1]] = part
        np.testing.assert_array_equal(sort_by_network(columns), np.sort(columns, axis=0))


def test_zeros_keep_their_signs():
    columns = np.where(np.random.default_rng(0).random((50, SIMD_WIDTH)) < 0.5, 0.0, -0.0).astype(np.float32)
    result = sort_by_network(columns)
    np.testing.assert_array_equal(np.signbit(result).sum(axis=0), np.signbit(columns).sum(axis=0))


@jit()
def _sort_all(x, n):  # type: ignore[no-untyped-def]
    sort_columns(x, n)
    sort_blocks(x, n)


@pytest.mark.parametrize("n", [1, 5, 16, 17, 32, 33, 200, 257, 1025])
def test_float64_columns_are_sorted(n):
    columns = np.random.default_rng(n).normal(size=(n, SIMD_WIDTH))
    x = np.empty(padded_rows(n) * SIMD_WIDTH)
    x[: columns.size] = columns.ravel()
    _sort_all(x, n)
    np.testing.assert_array_equal(x[: columns.size].reshape(n, -1), np.sort(columns, axis=0))
