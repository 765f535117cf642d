"""Products of four rows with another and with each other, against float64: of any length, wherever the rows lie."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dkdist._numba.compilation import jit
from dkdist._numba.products import all_products, products


@jit()
def _with_another(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    return products(x0, x1, x2, x3, v)


@jit()
def _all(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    return all_products(x0, x1, x2, x3, v)


def rows_of(n: int, dtype: str, after: int = 0) -> Any:
    """Five rows, the first of which begins some numbers after the start of its memory."""
    flat = np.zeros(5 * n + after, dtype)
    rows = flat[after:].reshape(5, n)
    rows[:] = np.random.default_rng(n).standard_normal((5, n))
    return rows


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000])
def test_each_product_is_there_and_as_exact_as_a_sum_of_that_length(n: int, dtype: str) -> None:
    rows = rows_of(n, dtype)
    *x, v = rows.astype(np.float64)
    pairs = [(one, v) for one in x] + list(combinations(x, 2))
    bound = [(n + 1) * np.finfo(dtype).eps * float(np.abs(a) @ np.abs(b)) for a, b in pairs]
    result = _all(*rows)
    assert (np.abs(np.array(result) - [a @ b for a, b in pairs]) <= bound).all()
    assert result[:4] == _with_another(*rows)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_bits_are_the_same_wherever_rows_lie(dtype: str) -> None:
    n = 77
    result = {_all(*np.ascontiguousarray(rows_of(n, dtype, after))) for after in range(5)}
    assert {_all(*rows_of(n, dtype, after)) for after in range(5)} == result
    assert len(result) == 1


def test_what_is_no_number_stays_so() -> None:
    rows = rows_of(40, "f4")
    rows[1, 3], rows[2, 39] = np.nan, np.inf
    result = np.array(_all(*rows))
    assert np.isnan(result[[1, 4, 7, 8]]).all()  # of the row with NaN
    assert not np.isfinite(result[[2, 5, 9]]).any()  # of that with infinity
    assert np.isfinite(result[[0, 3, 6]]).all()
