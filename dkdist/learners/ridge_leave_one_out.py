"""What ridge regression would say of a row if it had not learned from it, without fitting it again.

    e_i = (y_i - f(x_i)) / (1 - h_i),   h_i = w_i (1/n + (x_i - m)' (C + alpha I)^-1 (x_i - m))

The errors of every row, for every penalty, take a second look at the rows; the values of a sample take only the rows
that were kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.learners.kept_rows import KeptRows
from dkdist.learners.ridge_solutions import Inverse, Spectrum, solution
from dkdist.learners.ridge_statistics import Centred
from dkdist.learners.rows import F, Rows, usable
from dkdist.loops.array_types import F64

TILE = 1024  # rows that are looked at together
LEAST_LEFT = 1e-6  # of 1 - h, which rounding errors can take to 0


@dataclass(frozen=True)
class LeaveOneOut:
    """What a second pass needs to know: V in the features' dtype, means, and for every alpha its weights.

    ``inverse`` (n_features, n_alphas) is 1 / (values + alpha); ``weights`` (n_features, n_alphas k).
    """

    mean_x: F
    mean_y: F64
    floor: float
    V: F
    inverse: F
    weights: F

    @classmethod
    def of(
        cls, equations: Centred, eigen: Spectrum, alphas: F64, dtype: np.dtype[Any], centre: bool
    ) -> LeaveOneOut:
        """What follows from the normal equations; ``floor`` is the intercept's part of a leverage."""
        inverse = 1.0 / (eigen.values[:, None] + alphas)
        weights = np.concatenate([eigen.weights(float(alpha)) for alpha in alphas], axis=1)
        floor = 1.0 / equations.n if centre else 0.0
        return cls(
            equations.mean_x.astype(dtype), equations.mean_y, floor, eigen.V.astype(dtype),
            inverse.astype(dtype), weights.astype(dtype),
        )  # fmt: skip


def leave_one_out(known: LeaveOneOut, codes: F64 | None, blocks: Iterator[Any], rows: Rows) -> F64:
    """Weighted sum over rows and targets of the squared leave-one-out error of every alpha, (n_alphas,).

    ``codes`` as in `ridge_sums.accumulate`.
    """
    total = np.zeros(known.inverse.shape[1])
    for X, of_rows, _ in usable(known.V.dtype, blocks, rows):
        w = np.ones(len(X)) if of_rows.weights is None else of_rows.weights
        for a in range(0, len(X), TILE):
            T, given, weights = (of_all[a : a + TILE] for of_all in (X, of_rows.targets, w))
            u = given if codes is None else codes[given]
            U = (T - known.mean_x) @ known.V
            h = ((U * U) @ known.inverse).astype(np.float64) + known.floor
            fitted = (U @ known.weights).astype(np.float64).reshape(len(T), len(total), -1)
            residual = (u - known.mean_y)[:, None, :] - fitted
            missed = residual / (1.0 - weights[:, None] * h)[:, :, None]
            total += weights @ (missed**2).sum(axis=2)
    return total


def values_without(rows: KeptRows, equations: Centred, inverse: Inverse, centre: bool) -> F64:
    """(n, k): what the model of one alpha would say of each row that it has learned from, had it not.

    2 n D^2 operations.
    """
    w, b = solution(equations, inverse)
    X = rows.X.astype(np.float64)
    Z = X - equations.mean_x
    h = np.einsum("ij,ji->i", Z, inverse.times(Z.T)) + (1.0 / equations.n if centre else 0.0)
    left = np.maximum(1.0 - rows.weights * h, LEAST_LEFT)
    return np.asarray(rows.y - (rows.y - (X @ w + b)) / left[:, None])
