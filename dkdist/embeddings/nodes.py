"""Quadrature nodes on [0, 1]^d, and index sets of cosine products.

Up to three dimensions, nodes are the tensor product of midpoint rules. Densities reflected at the boundary have an
even, periodic continuation; for such functions the midpoint rule is the Gauss rule. q nodes integrate cosines up to
degree 2q - 1 exactly; Gauss-Legendre needs pi/2 times as many nodes. Weighted values at the nodes are a rotation of the
coefficients of q cosines per dimension, so distances are equal. For even functions, a grid of q^d nodes is equivalent
to one of (2q)^d nodes for the even continuation. A rank-1 lattice of 1,024 nodes folded by the tent map (Dick, Nuyens &
Pillichshammer 2014) has errors 3 to 50 times as large as grids of 6^4, 4^5 or 3^6 nodes.

    phi_a(x) = prod_j sqrt(2)^[a_j > 0] cos(pi a_j x_j),    a in V = {a: (sum_j a_j^r)^(1/r) <= n - 1}

are orthonormal. r = 1 is the total degree, r = 2s an ellipsoid of Sobolev order s, r = infinity the tensor product.
For r < 1, V is star-shaped: few functions vary in several dimensions.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist.embeddings._tuning import MAX_NODES


def midpoints(q: int) -> tuple[F64, F64]:
    """Return nodes (k + 1/2) / q and weights 1 / q on [0, 1], exact for cos(pi a x) with a < 2q."""
    return (np.arange(q) + 0.5) / q, np.full(q, 1 / q)


def tensor_weights(rules: list[tuple[F64, F64]]) -> F64:
    """Return weights of the tensor rule, last dimension fastest; raise ValueError for too many nodes."""
    sizes = [len(w) for _, w in rules]
    if math.prod(sizes) > MAX_NODES:
        raise ValueError(
            f"a set must have at most {MAX_NODES} nodes; got {' x '.join(map(str, sizes))}. Reduce n_basis or use "
            "structure='marginal'."
        )
    weights = np.ones(1)
    for _, w in rules:
        weights = np.outer(weights, w).ravel()
    return weights


@lru_cache(maxsize=16)
def folded_lattice(n: int, d: int) -> F64:
    """Return n nodes in [0, 1]^d of weight 1/n: a component-by-component lattice, folded by x -> 1 - |2x - 1|.

    Only embeddings in model files of earlier versions use it.

    Each generator minimises the worst-case error for integrands with square-integrable mixed first derivatives. n is a
    power of two. Cost: O(d n^2 / 2), once.
    """
    k = np.arange(n)
    # The kernel of the worst-case error of periodic functions is 2 pi^2 B_2({x}).
    omega = 2 * np.pi**2 * ((k / n) ** 2 - k / n + 1 / 6)
    candidates = np.arange(1, n // 2 + 1, 2)  # odd numbers are coprime to n
    product, generator = np.ones(n), []
    for _ in range(d):
        errors = [float(np.dot(product, omega[(k * z) % n])) for z in candidates]
        generator.append(int(candidates[int(np.argmin(errors))]))
        product = product * (1 + omega[(k * generator[-1]) % n])
    x = (np.outer(k, generator) % n + 0.5) / n
    return 1 - np.abs(2 * x - 1)


NORM_TOL = 1e-9  # allows for rounding of norms of integer exponents (tests/densities/test_l2_embedding.py)


def index_set(d: int, n: int, order: float) -> I64:
    """Return the exponents a of V, (n_functions, d), last dimension fastest, by enumerating n^d exponents."""
    exponents = np.indices((n,) * d).reshape(d, -1).T
    if order < 1:  # compares powers, because roots may overflow
        inside = ((exponents / max(n - 1, 1)) ** order).sum(axis=1) <= 1 + NORM_TOL * order
    else:
        inside = np.linalg.norm(exponents, order, axis=1) <= n - 1 + NORM_TOL
    return np.ascontiguousarray(exponents[inside], np.int64)


@lru_cache(maxsize=16)
def projection(d: int, n: int, order: float) -> tuple[F32, I64]:
    """Return the projection of values at n^d midpoints on V: a table (n, n) of cosines / sqrt(n), and the indices of V.

    The table is applied along every dimension of sqrt(v_k) f(x_k), which gives sum_k v_k f(x_k) phi_a(x_k), v_k = n^-d.
    For the full tensor product this is a rotation, the discrete cosine transform.
    """
    a, nodes = np.arange(n), midpoints(n)[0]
    cosines = np.cos(np.pi * np.outer(a, nodes)) * np.where(a > 0, np.sqrt(2), 1)[:, None] / np.sqrt(n)
    return cosines.astype(np.float32), np.ravel_multi_index(tuple(index_set(d, n, order).T), (n,) * d)


def axis_tables(tables: list[F32]) -> list[F32]:
    """Return at most three tables that act on a tensor like one table per dimension: products of adjacent tables."""
    n_products = max(0, len(tables) - 3)
    products = [np.kron(tables[2 * i], tables[2 * i + 1]) for i in range(n_products)]
    return [*products, *tables[2 * n_products :]]
