"""Deterministic products: a row does not depend on other rows, BLAS threads or the kind of factor."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dkdist._numba.products import TILE_ROWS, IntegerFactor, deterministic_factor, is_blas_deterministic


def product(factor, A, m):
    out = np.full((len(A), m), np.nan, np.float32)
    factor.product(A, out)
    return out


def random_case(k, m, n=2 * TILE_ROWS + 45):
    rng = np.random.default_rng(k)
    return rng.standard_normal((n, k)).astype(np.float32), rng.standard_normal((k, m)).astype(np.float32)


@pytest.mark.parametrize("kind", [deterministic_factor, IntegerFactor])
@pytest.mark.parametrize("k", [1, 7, 255, 256, 257, 600, 2000])
@pytest.mark.parametrize("m", [1, 45, 2500])
def test_row_does_not_depend_on_rows_and_threads(kind, k, m):
    A, B = random_case(k, m)
    with threadpool_limits(1):
        factor = kind(B)
        single_threaded = product(factor, A, m)
    np.testing.assert_allclose(
        single_threaded, A.astype(np.float64) @ B, rtol=0, atol=2e-5 * np.sqrt(k) + 1e-6
    )
    np.testing.assert_array_equal(product(factor, A[::-1].copy(), m)[::-1], single_threaded)
    np.testing.assert_array_equal(product(factor, A[100:101], m), single_threaded[100:101])
    for threads in (2, 3, 4):
        with threadpool_limits(threads):
            np.testing.assert_array_equal(product(factor, A, m), single_threaded)


@pytest.mark.parametrize("k", [3, 600, 3000])
def test_integers_are_exact_and_floats_are_accurate(k):
    rng = np.random.default_rng(k)
    A, B = (
        rng.integers(-200, 200, (50, k)).astype(np.float32),
        rng.integers(-200, 200, (k, 30)).astype(np.float32),
    )
    np.testing.assert_array_equal(
        product(IntegerFactor(B), A, 30), (A.astype(np.int64) @ B.astype(np.int64)).astype("f4")
    )
    A, B = random_case(k, 30)
    exact = A.astype(np.float64) @ B
    max_error = np.abs(product(IntegerFactor(B), A, 30) - exact).max()
    assert max_error <= k**0.5 * 2.0**-20 * np.abs(A).max() * np.abs(B).max()


def test_rows_of_any_scale_and_nonfinite_rows():
    A, B = random_case(20, 30, n=40)
    sizes = np.geomspace(1e-38, 1e34, 40).astype(np.float32)[:, None]
    A *= sizes
    A[3], A[7, 2], A[9, 1] = 0, np.nan, np.inf
    result = product(IntegerFactor(B), A, 30)
    assert np.isnan(result[[7, 9]]).all()
    good = np.setdiff1d(np.arange(40), [7, 9])
    exact = A[good].astype(np.float64) @ B
    np.testing.assert_allclose(result[good] / sizes[good], exact / sizes[good], atol=1e-4)
    assert (result[3] == 0).all()


def test_is_blas_deterministic_is_cached_by_shape():
    is_blas_deterministic.cache_clear()
    first = is_blas_deterministic(100, 50)
    assert is_blas_deterministic(100, 50) == first
    assert is_blas_deterministic.cache_info().hits == 1
