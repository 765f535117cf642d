"""Parts of an array that nobody counts are those of the array."""

import sys

import numpy as np

from dkdist._numba.arrays import borrowed
from dkdist._numba.compilation import jit


@jit()
def _add_to_rows(x):  # type: ignore[no-untyped-def]
    value = borrowed(x)
    for i in range(len(value)):
        row = value[i, 1:]
        row += i
    return value[0].sum()


def test_parts_of_it_are_parts_of_the_array_and_nobody_loses_it():
    x = np.arange(12.0).reshape(3, 4)
    expected = x + np.arange(3)[:, None] * [0, 1, 1, 1]
    holders = sys.getrefcount(x)
    for _ in range(3):
        y = x.copy()
        assert _add_to_rows(y) == 6
        np.testing.assert_array_equal(y, expected)
    assert sys.getrefcount(x) == holders
    assert sys.getrefcount(y) == 2


@jit()
def _sum_of_both(pair, times):  # type: ignore[no-untyped-def]
    (x, (y, factor)), total = borrowed(pair), 0.0
    for i in range(times):
        total += factor * (x[i % len(x) :].sum() + y[i % len(y) :].sum())
    return total


def test_arrays_of_tuples_are_left_to_their_owners():
    x, y = np.arange(3.0), np.arange(4.0)
    holders = sys.getrefcount(x), sys.getrefcount(y)
    expected = sum(2 * (x[i % 3 :].sum() + y[i % 4 :].sum()) for i in range(12))
    assert _sum_of_both((x, (y, 2.0)), 12) == expected
    assert (sys.getrefcount(x), sys.getrefcount(y)) == holders
