"""LAPACK routines of SciPy called without the interpreter lock, which `scipy.linalg.lapack` holds."""

from __future__ import annotations

import ctypes

import numpy as np
from numba.extending import get_cython_function_address

from dkdist.loops.array_types import F64

_Int = ctypes.POINTER(ctypes.c_int)
_Letter, _Array = ctypes.c_char_p, ctypes.c_void_p
_dpotrf = ctypes.CFUNCTYPE(None, _Letter, _Int, _Array, _Int, _Int)(
    get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf")
)
_dtrtri = ctypes.CFUNCTYPE(None, _Letter, _Letter, _Int, _Array, _Int, _Int)(
    get_cython_function_address("scipy.linalg.cython_lapack", "dtrtri")
)


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
