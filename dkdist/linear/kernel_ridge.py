"""Kernel ridge regression and its cross-validated predictions without refitting.

For weights w, s = sqrt(w), and K' = s K s, the fit minimises sum w_i (y_i - f_i)^2 + alpha f' K^-1 f, so that
s f = K' (K' + alpha)^-1 s y. With H = (K' + alpha)^-1 the residuals of a held-out fold F are
s_F r_F = (H_FF)^-1 (H s y)_F. A large constant in the kernel represents the intercept; its penalty is negligible.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numba.extending import get_cython_function_address

from dkdist._numba.arrays import F64, I64
from dkdist.linear._tuning import MAX_STACKED_NUMBERS

# LAPACK functions of SciPy that release the GIL, unlike `scipy.linalg.lapack`
_Int = ctypes.POINTER(ctypes.c_int)
_Letter, _Array = ctypes.c_char_p, ctypes.c_void_p
_dpotrf = ctypes.CFUNCTYPE(None, _Letter, _Int, _Array, _Int, _Int)(
    get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf")
)
_dtrtri = ctypes.CFUNCTYPE(None, _Letter, _Letter, _Int, _Array, _Int, _Int)(
    get_cython_function_address("scipy.linalg.cython_lapack", "dtrtri")
)

# Constant added to a kernel with mean diagonal 1: a larger constant penalises the intercept less but loses digits
# (tests/automatic/test_kernel_ridge.py). Saved models depend on its value.
INTERCEPT_KERNEL = 1e3

FoldsByLength = Sequence[tuple[I64, I64]]


def inverse_cholesky_factor(A: F64) -> F64:
    """Return the lower triangular R with R'R = A^-1, in Fortran order: 2 n^3 / 3 operations; overwrites ``A``.

    ``A`` (n, n) is symmetric, float64 and in Fortran order. Raises LinAlgError if it is not positive definite.
    """
    if A.dtype != np.float64 or not A.flags.f_contiguous or not A.flags.writeable:
        raise TypeError("A must be a writeable float64 array in Fortran order.")
    n, info = ctypes.c_int(len(A)), ctypes.c_int(0)
    _dpotrf(b"L", n, A.ctypes.data, n, info)
    if info.value == 0:
        _dtrtri(b"L", b"N", n, A.ctypes.data, n, info)
    if info.value != 0:
        raise np.linalg.LinAlgError(f"The kernel matrix of {len(A)} rows is not positive definite.")
    return np.asarray(np.triu(A.T).T)


def squared_distances(A: F64, B: F64) -> F64:
    """Return squared Euclidean distances (n, k) of rows (n, m) and (k, m), after subtracting the mean of ``B``."""
    mean, is_same = B.mean(axis=0), A is B
    B = B - mean
    A = B if is_same else A - mean
    d2 = A @ B.T
    d2 *= -2.0
    d2 += (A**2).sum(axis=1)[:, None]
    d2 += (B**2).sum(axis=1)
    return np.asarray(np.maximum(d2, 0.0, out=d2))


def duals(K: F64, y: F64, weights: F64, alpha: float) -> F64:
    """Return dual coefficients a (n, t) with f(x) = (k(x, .) + INTERCEPT_KERNEL) a: n^3 / 3 operations.

    K (n, n) has a diagonal with mean 1, y (n, t) are targets, weights (n,) are positive.
    """
    root = np.sqrt(weights)[:, None]
    factor = scipy.linalg.cho_factor(
        _penalised_kernel(K, root, alpha), lower=True, overwrite_a=True, check_finite=False
    )
    return np.asarray(root * scipy.linalg.cho_solve(factor, root * y, check_finite=False))


def cross_validated_values(
    K: F64, y: F64, weights: F64, alpha: float, folds: FoldsByLength
) -> tuple[F64, F64]:
    """Return cross-validated predictions (n_repeats, n, t), and the `duals` of the fit on all rows.

    In each repeat, every row is in one fold. With H = R'R and R the inverse of a Cholesky factor, H_FF is a product of
    a few columns of R: 2 n^3 / 3 operations in total, and n^3 / n_folds per repeat.
    """
    root = np.sqrt(weights)[:, None]
    R = inverse_cholesky_factor(_penalised_kernel(K, root, alpha))
    weighted_duals = R.T @ (R @ (root * y))
    predicted = np.empty((1 + max(int(r.max()) for r, _ in folds), *y.shape))
    for r, rows in folds:
        n_folds = max(1, MAX_STACKED_NUMBERS // (rows.shape[1] * len(y)))
        columns = (R.T[rows[i : i + n_folds]] for i in range(0, len(rows), n_folds))
        blocks = np.concatenate([stack @ stack.swapaxes(1, 2) for stack in columns])
        residual = np.linalg.solve(blocks, weighted_duals[rows])
        predicted[r[:, None], rows] = y[rows] - residual / root[rows]
    return predicted, root * weighted_duals


def folds_by_length(repeats: Sequence[Sequence[I64]]) -> FoldsByLength:
    """Group the folds of all repeats by length: for each length, the repeats (k,) and the rows (k, length)."""
    numbered_folds = [(r, fold) for r, folds in enumerate(repeats) for fold in folds]
    groups = []
    for length in sorted({len(fold) for _, fold in numbered_folds}):
        same_length = [(r, fold) for r, fold in numbered_folds if len(fold) == length]
        groups.append((np.array([r for r, _ in same_length]), np.stack([fold for _, fold in same_length])))
    return groups


def _penalised_kernel(K: F64, root: F64, alpha: float) -> F64:
    """Return s (K + INTERCEPT_KERNEL) s + alpha, in Fortran order; K is symmetric."""
    penalised = K + INTERCEPT_KERNEL
    if (root != 1.0).any():
        penalised *= root
        penalised *= root.T
    penalised[np.diag_indices_from(penalised)] += alpha
    return penalised.T
