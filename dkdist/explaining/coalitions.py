"""Which dimensions are kept together, and how values of such coalitions make a Shapley value for each dimension.

    phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! (v(S and j) - v(S)),    sum_j phi_j = v(all) - v(none)

Up to six dimensions every coalition is looked at. Beyond, dimensions join one by one in a random order and in its
reverse: the mean over orders is phi, and the sum is exact for every single order. (Shapley 1953; Strumbelj, Kononenko:
Explaining prediction models and individual predictions with feature contributions (2014); Mitchell et al.: Sampling
permutations for Shapley value estimation (2022), for orders and their reverses.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import F64

MOST_EXACT = 6  # dimensions, of which all 2^d coalitions are looked at


@dataclass(frozen=True)
class Coalitions:
    """``kept`` (q, d): which dimensions each coalition keeps; the dimensions' values are ``weights`` (d, q) @ v."""

    kept: NDArray[np.bool_]
    weights: F64


def coalitions(n_dims: int, rng: np.random.Generator) -> Coalitions:
    """All of them for few dimensions, else those of a random order and its reverse."""
    return _every(n_dims) if n_dims <= MOST_EXACT else _of_order(rng.permutation(n_dims))


def _every(d: int) -> Coalitions:
    kept = np.array([[bool(code >> j & 1) for j in range(d)] for code in range(2**d)])
    size = kept.sum(axis=1)
    share = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    joins, lacks = share[np.maximum(size - 1, 0)], share[np.minimum(size, d - 1)]
    return Coalitions(kept, np.where(kept, joins[:, None], -lacks[:, None]).T)


def _of_order(order: NDArray[np.integer]) -> Coalitions:
    d = len(order)
    walks = [np.arange(d) < k for k in range(d + 1)]
    kept = np.zeros((2 * (d + 1), d), np.bool_)
    weights = np.zeros((d, len(kept)))
    for walk, path in enumerate((order, order[::-1])):
        start = walk * (d + 1)
        kept[start : start + d + 1, path] = walks
        weights[path, start + np.arange(1, d + 1)] = 0.5
        weights[path, start + np.arange(d)] = -0.5
    return Coalitions(kept, weights)
