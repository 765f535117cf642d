"""Products of four rows with another row and with each other, compared with float64, for any alignment."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dkdist._numba.compilation import jit
from dkdist._numba.products import all_products, products


@jit()
def _products(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    return products(x0, x1, x2, x3, v)


@jit()
def _all_products(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    return all_products(x0, x1, x2, x3, v)


def random_rows(n: int, dtype: str, after: int = 0) -> Any:
    """Return five rows, which begin ``after`` items after the start of their memory."""
    flat = np.zeros(5 * n + after, dtype)
    rows = flat[after:].reshape(5, n)
    rows[:] = np.random.default_rng(n).standard_normal((5, n))
    return rows


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000])
def test_products_are_accurate(n: int, dtype: str) -> None:
    rows = random_rows(n, dtype)
    *x, v = rows.astype(np.float64)
    pairs = [(row, v) for row in x] + list(combinations(x, 2))
    bound = [(n + 1) * np.finfo(dtype).eps * float(np.abs(a) @ np.abs(b)) for a, b in pairs]
    result = _all_products(*rows)
    assert (np.abs(np.array(result) - [a @ b for a, b in pairs]) <= bound).all()
    assert result[:4] == _products(*rows)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_do_not_depend_on_alignment(dtype: str) -> None:
    n = 77
    result = {_all_products(*np.ascontiguousarray(random_rows(n, dtype, after))) for after in range(5)}
    assert {_all_products(*random_rows(n, dtype, after)) for after in range(5)} == result
    assert len(result) == 1


def test_products_propagate_nan_and_infinity() -> None:
    rows = random_rows(40, "f4")
    rows[1, 3], rows[2, 39] = np.nan, np.inf
    result = np.array(_all_products(*rows))
    assert np.isnan(result[[1, 4, 7, 8]]).all()  # products of the row with NaN
    assert not np.isfinite(result[[2, 5, 9]]).any()  # products of the row with infinity
    assert np.isfinite(result[[0, 3, 6]]).all()
