"""Nodes and weights that integrate over [0, 1]^d.

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

from dkdist.loops.array_types import F64

MAX_NODES = 2**27  # of one set: weights of 1 GiB


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
