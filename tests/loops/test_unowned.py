"""Borrowed arrays share memory without reference counts."""

import sys

import numpy as np

from dkdist._numba.arrays import borrowed
from dkdist._numba.compilation import jit


@jit()
def _add_to_rows(x):  # type: ignore[no-untyped-def]
    x_view = borrowed(x)
    for i in range(len(x_view)):
        row = x_view[i, 1:]
        row += i
    return x_view[0].sum()


def test_borrowed_array_shares_memory_and_keeps_reference_counts():
    x = np.arange(12.0).reshape(3, 4)
    expected = x + np.arange(3)[:, None] * [0, 1, 1, 1]
    reference_counts = sys.getrefcount(x)
    for _ in range(3):
        y = x.copy()
        assert _add_to_rows(y) == 6
        np.testing.assert_array_equal(y, expected)
    assert sys.getrefcount(x) == reference_counts
    assert sys.getrefcount(y) == 2


@jit()
def _sum_of_pair(pair, n_repeats):  # type: ignore[no-untyped-def]
    (x, (y, factor)), total = borrowed(pair), 0.0
    for i in range(n_repeats):
        total += factor * (x[i % len(x) :].sum() + y[i % len(y) :].sum())
    return total


def test_borrowed_tuples_keep_reference_counts():
    x, y = np.arange(3.0), np.arange(4.0)
    reference_counts = sys.getrefcount(x), sys.getrefcount(y)
    expected = sum(2 * (x[i % 3 :].sum() + y[i % 4 :].sum()) for i in range(12))
    assert _sum_of_pair((x, (y, 2.0)), 12) == expected
    assert (sys.getrefcount(x), sys.getrefcount(y)) == reference_counts
