"""Reflected Gaussian density estimates at the nodes of a quadrature rule, from cosine coefficients.

    p(x) = sum_a C_a prod_j g_j(a_j) cos(pi a_j x_j),   g_j(0) = 1,  g_j(a) = 2 exp(-(pi a h_j)^2 / 2)

This is the kernel density estimate on [0,1]^d whose Gaussian of standard deviation h_j is reflected at the
walls, so it integrates to one; h is damping alone. Truncated series dip a little below zero: the user of p
floors it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dkdist.numerics.separable import separable, three_axes

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

TAIL = 3e-4  # damping of the first degree that is left out


def degree_for(bandwidth: float) -> int:
    """Number of degrees K so that the Gaussian of this bandwidth damps degree K below 3e-4; a multiple of 4."""
    K = np.sqrt(2 * np.log(1 / TAIL)) / (np.pi * bandwidth)
    return max(4, 4 * int(np.ceil(K / 4)))


def basis_table(nodes: F64, K: int, bandwidth: float) -> F32:
    """g(a) cos(pi a x) for every node x and degree a < K: (n_nodes, K)."""
    a = np.arange(K)
    damping = np.exp(-((np.pi * a * bandwidth) ** 2) / 2) * np.where(a == 0, 1, 2)
    return (damping * np.cos(np.pi * np.outer(nodes, a))).astype(np.float32)


def term_table(nodes: F64, exponents: NDArray[np.int64], bandwidth: F64) -> F32:
    """prod_j g_j(a_j) cos(pi a_j x_j) for every listed term and node: (n_terms, n_nodes)."""
    table = np.ones((len(exponents), len(nodes)), np.float32)
    for j in range(nodes.shape[1]):
        columns = basis_table(nodes[:, j], int(exponents[:, j].max()) + 1, float(bandwidth[j]))
        table *= columns.T[exponents[:, j]]
    return table


def tensor_density(C: F32, tables: list[F32]) -> F32:
    """Densities at the tensor grid of nodes: (n_sets, q_1 * .. * q_d), the last dimension running fastest."""
    out = np.empty((len(C), int(np.prod([len(t) for t in tables]))), np.float32)
    G1, G2, G3 = three_axes(tables)
    _densities(C, G1, G2, np.ascontiguousarray(G3.T), out)
    return out


@njit(nogil=True, cache=True)
def _densities(C, G1, G2, G3t, out):  # type: ignore[no-untyped-def]
    for s in range(len(C)):
        X = C[s].reshape(G1.shape[1], G2.shape[1], G3t.shape[0])
        separable(G1, G2, G3t, X, out[s].reshape(G1.shape[0], G2.shape[0], G3t.shape[1]))
