"""Compiled log loss of decision values with a fitted inverse temperature."""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import jit


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
                highest = -np.inf
                for k in range(n_classes):
                    highest = max(highest, differences[r, i, k])
                total, first, second = 0.0, 0.0, 0.0
                for k in range(n_classes):
                    p = np.exp(beta * (differences[r, i, k] - highest))
                    total += p
                    first += p * differences[r, i, k]
                    second += p * differences[r, i, k] * differences[r, i, k]
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
            highest = -np.inf
            for k in range(n_classes):
                highest = max(highest, differences[r, i, k])
            total = 0.0
            for k in range(n_classes):
                total += np.exp(beta * (differences[r, i, k] - highest))
            losses[i] += np.log(total) + beta * (highest - smoothing[r, i])
