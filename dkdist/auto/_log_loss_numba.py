"""Compiled log loss of decision values with a fitted inverse temperature.

Newton's method uses exponentials in float32, with relative errors of 2e-7: the loss at the minimum depends on beta only
in second order. The loss itself uses float64.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import FINITE_REASSOC, inline_jit, jit
from dkdist._numba.elementary import exp, f32, maximum

# exp(-80) < 2e-35 does not change a float32 sum that is at least 1 (IEEE 754-2019)
MIN_EXPONENT = f32(-80.0)


@jit()
def add_log_losses(  # type: ignore[no-untyped-def]
    differences, smoothing, weights, n_steps, tolerance, max_beta, losses
):
    """Add log sum_k exp(beta differences_k) - beta smoothing of each repeat to losses (n,).

    differences (n_repeats, n, k) are decision values minus that of the row's class; smoothing (n_repeats, n) is the
    probability of each other class times the sum of the differences. beta minimises the weighted sum over all rows;
    it is computed by Newton's method, in which each step changes beta by at most a factor of 4.
    """
    n_repeats, n, n_classes = differences.shape
    beta = 1.0
    for _ in range(n_steps):
        slope, curvature = 0.0, 0.0
        for r in range(n_repeats):
            for i in range(n):
                total, first, second = _exponential_sums(differences[r, i], beta)
                first /= total
                slope += (first - smoothing[r, i]) * weights[i]
                curvature += (second / total - first * first) * weights[i]
        previous = beta
        beta = previous - slope / max(curvature, 1e-12)
        beta = min(max(beta, previous / 4), 4 * previous, max_beta)
        if abs(beta - previous) < tolerance * previous:
            break
    for r in range(n_repeats):
        for i in range(n):
            highest = _largest(differences[r, i])
            total = 0.0
            for k in range(n_classes):
                total += np.exp(beta * (differences[r, i, k] - highest))
            losses[i] += np.log(total) + beta * (highest - smoothing[r, i])


@inline_jit(FINITE_REASSOC)
def _largest(row):  # type: ignore[no-untyped-def]
    highest = row[0]
    for k in range(len(row)):
        highest = maximum(highest, row[k])
    return highest


@inline_jit(FINITE_REASSOC)
def _exponential_sums(row, beta):  # type: ignore[no-untyped-def]
    """Return sums over k of p_k, p_k row_k and p_k row_k^2 with p_k = exp(beta (row_k - largest))."""
    highest = _largest(row)
    total, first, second = f32(0.0), f32(0.0), f32(0.0)
    for k in range(len(row)):
        x = f32(row[k])
        p = exp(maximum(f32(beta * (row[k] - highest)), MIN_EXPONENT))
        total += p
        first += p * x
        second += p * x * x
    return float(total), float(first), float(second)
