"""Coordinates from a matrix of distances, in a space whose squared lengths may be negative (Goldfarb 1985).

    B = -J S J / 2 = V Lambda V^T,   S_ij = d_ij^2,   J = I - 1 1^T / N
    x_ik = V_ik sqrt|lambda_k|,      d_ij^2 = sum_k sign(lambda_k) (x_ik - x_jk)^2

exact if all eigenvalues are kept. B holds the inner products about the centroid, so an object that is known by its
squared distances s to the N has

    b = -(s - mean_j s_j - mean_i S_i. + mean S) / 2,   x_k = sign(lambda_k) |lambda_k|^(-1/2) b V_k

(Pekalska, Paclik, Duin 2001), which is its row of V sqrt|Lambda| if it is one of the N.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from dkdist.loops.array_types import F64


def spectrum(D: F64) -> tuple[F64, F64, F64]:
    """Means of the columns of S, and all eigenvalues and vectors of B, by falling modulus."""
    S = D**2
    means = S.mean(axis=0)
    B = -(S - means - means[:, None] + means.mean()) / 2
    values, vectors = eigh(B)
    order = np.argsort(-np.abs(values), kind="stable")
    return means, values[order], vectors[:, order]


def towards(values: F64, vectors: F64) -> F64:
    """The map b -> x (N, m) of the eigenvalues that are kept; the largest entry of every eigenvector is positive."""
    largest = np.argmax(np.abs(vectors), axis=0)
    upright = vectors * np.sign(vectors[largest, np.arange(len(values))])
    return np.ascontiguousarray(upright * (np.sign(values) / np.sqrt(np.abs(values))))


def placed(D: F64, means: F64, components: F64) -> F64:
    """(n, m) coordinates of objects with distances D (n, N), from the means of the columns of S and the map b -> x."""
    out = np.empty((len(D), components.shape[1]))
    for row, made in zip(D, out, strict=True):  # one product a row: its bits do not depend on other rows
        s = row**2
        np.matmul(-(s - s.mean() - means + means.mean()) / 2, components, out=made)
    return out
