"""Products with the same bits on any number of BLAS threads."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dkdist.numerics.products import steady_product


def product(A, B):
    out = np.full((A.shape[0], B.shape[1]), np.nan, np.float32)
    steady_product(A, B, out)
    return out


@pytest.mark.parametrize("k", [1, 7, 255, 256, 257, 600, 2000])
@pytest.mark.parametrize("m", [1, 45, 2500])
def test_bits_do_not_depend_on_the_number_of_threads(k, m):
    rng = np.random.default_rng(k)
    A, B = rng.standard_normal((128, k)).astype(np.float32), rng.standard_normal((k, m)).astype(np.float32)
    with threadpool_limits(1):
        one = product(A, B)
    np.testing.assert_allclose(one, A.astype(np.float64) @ B, rtol=0, atol=2e-5 * np.sqrt(k) + 1e-6)
    for threads in (2, 3, 4):
        with threadpool_limits(threads):
            np.testing.assert_array_equal(product(A, B), one)
