"""Unbiased estimates of the integrated squared error of a predicted density f from a sample of the true density p.

    int (f - p)^2 = int f^2 - 2 int f p + int p^2

The mean of f over the points estimates int f p. With points x_i of weights u_i that sum to one,

    int p^2 ~ (sum_a C_a^2 - sum_i u_i^2 sum_a phi_a(x_i)^2) / (1 - sum_i u_i^2),   C_a = sum_i u_i phi_a(x_i)

is the sum of unbiased estimates of the squared coefficients of p. It omits the degrees outside the basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import diric

from dkdist._base.influence import weight_fractions
from dkdist._base.inputs import load_points
from dkdist._numba.arrays import F64
from dkdist.embeddings.l2 import L2Spec
from dkdist.linear.predicted_density import PredictedDensity
from dkdist.sets import SampleSetError, SampleSets


def squared_errors(
    basis: L2Spec, predictions: list[PredictedDensity], mean: PredictedDensity, view: Any, first: int
) -> F64:
    """Return errors (n_sets, 2) on the scaled domain: those of the predicted densities, and those of ``mean``.

    ``view`` holds the sets from position ``first`` on. Their points outside the domain are clipped.
    """
    sets: SampleSets = load_points(view)
    low, high = mean.domain
    volume, errors = float(np.prod(high - low)), np.empty((len(sets), 2))
    squares = (basis.materialize().embed(sets).astype(np.float64) ** 2).sum(axis=1)
    for i, points in enumerate(sets):
        u = weight_fractions(sets[i : i + 1])
        concentration = float((u**2).sum())
        if concentration > 1 - 1e-12:
            raise SampleSetError(
                f"set {first + i} of y must have at least 2 points of positive weight; got 1. Drop the set."
            )
        x = np.clip(points.astype(np.float64), low, high)
        diagonal = kernel_diagonal((x - low) / (high - low), basis.n_basis)
        square = (squares[i] - u**2 @ diagonal) / (1 - concentration)
        for j, f in enumerate((predictions[first + i], mean)):
            errors[i, j] = (f.grid_values**2).mean() - 2 * volume * (u @ f.pdf(x)) + square
    return errors


def kernel_diagonal(unit: F64, n_basis: int) -> F64:
    """Return sum_a phi_a(x)^2 (n,) = prod_j (K + sum of cos(2 pi a x_j) over 0 < a < K), a Dirichlet kernel."""
    n = 2 * n_basis - 1
    diagonal: F64 = np.prod(n_basis + (n * diric(2 * np.pi * unit, n) - 1) / 2, axis=1)
    return diagonal
