"""Ridge regression with a kernel, and what it would predict for rows that were left out: no model is fitted again.

For weights w, s = sqrt(w), and K' = s K s, the fit minimises sum w_i (y_i - f_i)^2 + alpha f' K^-1 f, so that
s f = K' (K' + alpha)^-1 s y. With H = (K' + alpha)^-1 the residuals of rows F, had they been left out, are
s_F r_F = (H_FF)^-1 (H s y)_F. The intercept is a constant in the kernel, so large that its penalty does not count.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numba.extending import get_cython_function_address

from dkdist._numba.arrays import F64, I64

# LAPACK of SciPy without the interpreter lock, which `scipy.linalg.lapack` holds
_Int = ctypes.POINTER(ctypes.c_int)
_Letter, _Array = ctypes.c_char_p, ctypes.c_void_p
_dpotrf = ctypes.CFUNCTYPE(None, _Letter, _Int, _Array, _Int, _Int)(
    get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf")
)
_dtrtri = ctypes.CFUNCTYPE(None, _Letter, _Letter, _Int, _Array, _Int, _Int)(
    get_cython_function_address("scipy.linalg.cython_lapack", "dtrtri")
)

CONSTANT = 1e3  # of the kernel, whose diagonal has a mean of one

MAX_STACKED_NUMBERS = (
    2**20
)  # of columns multiplied in one call, 8 MB: a NumPy call per fold costs more than its sums

FoldsByLength = Sequence[tuple[I64, I64]]


def inverse_cholesky_factor(A: F64) -> F64:
    """The lower triangular R with R'R = A^-1, in Fortran order: 2 n^3 / 3 operations, which overwrite ``A``.

    ``A`` (n, n) is symmetric, float64 and in Fortran order. LinAlgError if it is not positive definite.
    """
    if A.dtype != np.float64 or not A.flags.f_contiguous or not A.flags.writeable:
        raise TypeError("A must be a writeable float64 array in Fortran order")
    n, info = ctypes.c_int(len(A)), ctypes.c_int(0)
    _dpotrf(b"L", n, A.ctypes.data, n, info)
    if info.value == 0:
        _dtrtri(b"L", b"N", n, A.ctypes.data, n, info)
    if info.value != 0:
        raise np.linalg.LinAlgError(f"a kernel matrix of {len(A)} rows is not positive definite")
    return np.asarray(np.triu(A.T).T)


def squared_distances(A: F64, B: F64) -> F64:
    """Squared Euclidean distances of rows (n, m) and (k, m): (n, k), from rows about their common middle.

    Of rows to themselves with half of the operations.
    """
    middle, same = B.mean(axis=0), A is B
    B = B - middle
    A = B if same else A - middle
    d2 = A @ B.T
    d2 *= -2.0
    d2 += (A**2).sum(axis=1)[:, None]
    d2 += (B**2).sum(axis=1)
    return np.asarray(np.maximum(d2, 0.0, out=d2))


def duals(K: F64, y: F64, weights: F64, alpha: float) -> F64:
    """Weights a (n, t) of the rows, so that f(x) = (k(x, .) + CONSTANT) a: n^3 / 3 operations.

    K (n, n) has a diagonal with a mean of one, y (n, t) are targets, weights (n,) are positive.
    """
    root = np.sqrt(weights)[:, None]
    factor = scipy.linalg.cho_factor(
        _penalised(K, root, alpha), lower=True, overwrite_a=True, check_finite=False
    )
    return np.asarray(root * scipy.linalg.cho_solve(factor, root * y, check_finite=False))


def left_out(K: F64, y: F64, weights: F64, alpha: float, folds: FoldsByLength) -> tuple[F64, F64]:
    """What each row would be predicted as, had the rows of its fold been left out, (n_repeats, n, t); and `duals`.

    Each repeat has each row in one of its folds. With H = R'R and R the inverse of a Cholesky factor, H_FF is
    a product of a few columns of R: 2 n^3 / 3 operations in all, and n^3 / n_folds for each repeat.
    """
    root = np.sqrt(weights)[:, None]
    R = inverse_cholesky_factor(_penalised(K, root, alpha))
    full = R.T @ (R @ (root * y))
    predicted = np.empty((1 + max(int(r.max()) for r, _ in folds), *y.shape))
    for r, rows in folds:
        n_folds = max(1, MAX_STACKED_NUMBERS // (rows.shape[1] * len(y)))
        columns = (R.T[rows[i : i + n_folds]] for i in range(0, len(rows), n_folds))
        own = np.concatenate([stack @ stack.swapaxes(1, 2) for stack in columns])
        residual = np.linalg.solve(own, full[rows])
        predicted[r[:, None], rows] = y[rows] - residual / root[rows]
    return predicted, root * full


def folds_by_length(repeats: Sequence[Sequence[I64]]) -> FoldsByLength:
    """Group the folds of all repeats by length: for each length, the repeats (k,) and the rows (k, length)."""
    every = [(r, fold) for r, folds in enumerate(repeats) for fold in folds]
    found = []
    for length in sorted({len(fold) for _, fold in every}):
        own = [(r, fold) for r, fold in every if len(fold) == length]
        found.append((np.array([r for r, _ in own]), np.stack([fold for _, fold in own])))
    return found


def _penalised(K: F64, root: F64, alpha: float) -> F64:
    """s (K + CONSTANT) s + alpha, in the order of LAPACK: K is symmetric."""
    penalised = K + CONSTANT
    if (root != 1.0).any():
        penalised *= root
        penalised *= root.T
    penalised[np.diag_indices_from(penalised)] += alpha
    return penalised.T
