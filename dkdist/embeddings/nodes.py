"""Which products of cosines make a basis of functions on [0, 1]^d, and their values.

    phi_a(x) = prod_j sqrt(2)^[a_j > 0] cos(pi a_j x_j),    a in V = {a: (sum_j a_j^r)^(1/r) <= n - 1}

The phi_a are orthonormal. r = 1 is the total degree, 2s an ellipsoid of Sobolev order s, infinity the tensor
product. Below 1, V is a star: few functions vary in several dimensions at once.

Nodes and weights that integrate over [0, 1]^d.

Up to three dimensions: the tensor product of midpoint rules. Densities reflected at the walls continue evenly
and periodically, and for such functions the midpoint rule is the Gauss rule: q nodes integrate cosines up to
degree 2q - 1 exactly, where Gauss-Legendre needs pi/2 times as many. Weighted values at the nodes are the
coefficients in the cosine basis of q functions a dimension, up to a rotation, and a rotation changes no
distance. From four dimensions on: a rank-1 lattice folded by the tent map, which suits the same functions
(Hickernell 2002; Dick, Nuyens & Pillichshammer 2014).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist.embeddings._tuning import MAX_NODES


def midpoints(q: int) -> tuple[F64, F64]:
    """The nodes (k + 1/2) / q and weights 1 / q on [0, 1]; exact for cos(pi a x) with a < 2q."""
    return (np.arange(q) + 0.5) / q, np.full(q, 1 / q)


def tensor_weights(rules: list[tuple[F64, F64]]) -> F64:
    """Weights of the tensor rule, the last dimension running fastest; ValueError if they are too many."""
    sizes = [len(w) for _, w in rules]
    if math.prod(sizes) > MAX_NODES:
        raise ValueError(
            f"{' x '.join(map(str, sizes))} nodes a set are more than {MAX_NODES}: lower n_basis, or use "
            "structure='marginal'"
        )
    weights = np.ones(1)
    for _, w in rules:
        weights = np.outer(weights, w).ravel()
    return weights


@lru_cache(maxsize=16)
def folded_lattice(n: int, d: int) -> F64:
    """n nodes in [0, 1]^d, each of weight 1/n: a component-by-component lattice under x -> 1 - |2x - 1|.

    Each generator minimises the worst-case error for integrands with square-integrable mixed first
    derivatives.
    n is a power of two. Cost: O(d n^2 / 2) once.
    """
    k = np.arange(n)
    # kernel of the worst-case error of periodic functions: 2 pi^2 B_2({x})
    omega = 2 * np.pi**2 * ((k / n) ** 2 - k / n + 1 / 6)
    candidates = np.arange(1, n // 2 + 1, 2)  # odd, so prime to n
    product, generator = np.ones(n), []
    for _ in range(d):
        errors = [float(np.dot(product, omega[(k * z) % n])) for z in candidates]
        generator.append(int(candidates[int(np.argmin(errors))]))
        product = product * (1 + omega[(k * generator[-1]) % n])
    x = (np.outer(k, generator) % n + 0.5) / n
    return 1 - np.abs(2 * x - 1)


NORM_TOL = 1e-9  # what rounding may do to the norm of whole exponents


def index_set(d: int, n: int, order: float) -> I64:
    """The exponents a of V, (n_functions, d), the last dimension running fastest. For few dimensions: n^d are tried."""
    every = np.indices((n,) * d).reshape(d, -1).T
    if order < 1:  # roots of the sums may be no floats
        inside = ((every / max(n - 1, 1)) ** order).sum(axis=1) <= 1 + NORM_TOL * order
    else:
        inside = np.linalg.norm(every, order, axis=1) <= n - 1 + NORM_TOL
    return np.ascontiguousarray(every[inside], np.int64)


@lru_cache(maxsize=16)
def projection(d: int, n: int, order: float) -> tuple[F32, I64]:
    """What projects values at the n^d midpoints on V: the cosines along a dimension, and which products V holds.

    sum_k v_k f(x_k) phi_a(x_k), v_k = n^-d, takes (n, n) cosines / sqrt(n) along every dimension of sqrt(v_k) f(x_k).
    It is a rotation of these values for the whole tensor product: the discrete cosine transform.
    """
    a, nodes = np.arange(n), midpoints(n)[0]
    cosines = np.cos(np.pi * np.outer(a, nodes)) * np.where(a > 0, np.sqrt(2), 1)[:, None] / np.sqrt(n)
    return cosines.astype(np.float32), np.ravel_multi_index(tuple(index_set(d, n, order).T), (n,) * d)
