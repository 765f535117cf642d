"""Which products of cosines make a basis of functions on [0, 1]^d, and their values.

    phi_a(x) = prod_j sqrt(2)^[a_j > 0] cos(pi a_j x_j),    a in V = {a: (sum_j a_j^r)^(1/r) <= n - 1}

The phi_a are orthonormal. r = 1 is the total degree, 2s an ellipsoid of Sobolev order s, infinity the tensor
product. Below 1, V is a star: few functions vary in several dimensions at once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dkdist.densities.cosine.nodes import midpoints
from dkdist.loops.array_types import F32, I64

EPSILON = 1e-9  # what rounding may do to the norm of whole exponents


def index_set(d: int, n: int, order: float) -> I64:
    """The exponents a of V, (n_functions, d), the last dimension running fastest. For few dimensions: n^d are tried."""
    every = np.indices((n,) * d).reshape(d, -1).T
    if order < 1:  # roots of the sums may be no floats
        inside = ((every / max(n - 1, 1)) ** order).sum(axis=1) <= 1 + EPSILON * order
    else:
        inside = np.linalg.norm(every, order, axis=1) <= n - 1 + EPSILON
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
