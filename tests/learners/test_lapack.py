"""LAPACK routines that release the interpreter lock."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.linear.kernel_ridge import inverse_cholesky_factor


@pytest.mark.parametrize("n", [1, 2, 7, 150])
def test_inverse_cholesky_factor_gives_the_inverse(n: int) -> None:
    X = np.random.default_rng(n).normal(size=(n, n + 3))
    A = X @ X.T + np.eye(n)
    R = inverse_cholesky_factor(A.copy(order="F"))
    np.testing.assert_array_equal(R, np.tril(R))
    # backward error of a Cholesky factor and of a triangular inverse: n eps times the condition number
    np.testing.assert_allclose(R.T @ R @ A, np.eye(n), atol=50 * n * np.linalg.cond(A) * np.finfo(float).eps)


def test_invalid_matrices_raise() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="3 rows is not positive definite"):
        inverse_cholesky_factor(np.asfortranarray(np.diag([1.0, -1.0, 1.0])))
    for A in (np.arange(4.0).reshape(2, 2), np.eye(2, dtype=np.float32, order="F")):
        with pytest.raises(TypeError, match="Fortran order"):
            inverse_cholesky_factor(A)
