"""Detection of rows that are not finite, and the maximum absolute value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dkdist._numba.points import max_abs_value, nonfinite_rows


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("D", [1, 7, 64, 1000])
def test_nonfinite_rows(dtype, D):
    rng = np.random.default_rng(D)
    X = rng.standard_normal((50, D)).astype(dtype)
    assert nonfinite_rows(X).tolist() == []
    expected = [3, 17, 20, 49]
    for row, value in zip(expected, (np.nan, np.inf, -np.inf, np.nan), strict=True):
        X[row, rng.integers(D)] = value
    X[17, rng.integers(D)] = np.inf
    X[30] = np.finfo(dtype).max  # only the sum of the row overflows
    if D > 1:
        X[31, :2] = np.inf, -np.inf
        expected = sorted([*expected, 31])
    assert nonfinite_rows(X).tolist() == expected


def test_nonfinite_rows_of_empty_arrays():
    assert nonfinite_rows(np.empty((0, 3), np.float32)).tolist() == []
    assert nonfinite_rows(np.empty((3, 0), np.float32)).tolist() == []


@given(arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(0, 70)), elements=st.floats(width=32)))
def test_max_abs_value_matches_numpy(X):
    with np.errstate(invalid="ignore"):
        np.testing.assert_equal(max_abs_value(X), float(np.abs(X).max(initial=0)))
