"""Random objects chosen among the data for a kernel k(x, y) = exp(-gamma d(x, y)), and their features as its landmarks.

Ridge leverage scores l_i = (K (K + penalty)^-1)_ii say how far an object is from what others say of it; landmarks
drawn by them cover rare objects that uniform ones miss (Alaoui and Mahoney 2015; Musco and Musco 2017). Features

    phi(x) = K_LL^(-1/2) k(L, x),    L the landmarks,

have the inner products of the kernel's projection to the landmarks (Nystroem; Williams and Seeger 2001). Not every
distance has a positive definite kernel: negative eigenvalues count as 0, here as there.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F32, F64

MIN_EIGENVALUE_RATIO = 1e-6  # features are float32: their rounding is divided by roots of eigenvalues
HALVINGS = 60  # of the range of penalties


def leverage_scores(K: F64, n_landmarks: int) -> F64:
    """(n,) scores, each in [0, 1], which sum to the number of landmarks if as many eigenvalues are positive.

    K (n, n) is a kernel matrix, symmetric or nearly so.
    """
    values, vectors = _spectrum(K)
    low, high = MIN_EIGENVALUE_RATIO * values[-1], len(K) * values[-1]
    for _ in range(HALVINGS):
        penalty = float(np.sqrt(low * high))
        kept = float((values / (values + penalty)).sum())
        low, high = (penalty, high) if kept > n_landmarks else (low, penalty)
    return np.asarray((vectors**2) @ (values / (values + high)))


def inverse_root(K: F64) -> F32:
    """K^(-1/2) (n, n) float32, without the part that belongs to eigenvalues below 1e-6 of the largest."""
    values, vectors = _spectrum(K)
    inverse = np.where(values > MIN_EIGENVALUE_RATIO * values[-1], values, np.inf) ** -0.5
    return ((vectors * inverse) @ vectors.T).astype(np.float32)


def _spectrum(K: F64) -> tuple[F64, F64]:
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return np.maximum(values, 0.0), vectors
