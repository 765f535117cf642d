"""Divergences of two densities by numerical integration: sums of v_k kappa(p_k, q_k) over nodes k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dkdist._numba.arrays import F64

Integrand = Callable[[F64, F64], F64]


def kullback_leibler(p: F64, q: F64) -> F64:
    """Return the integrand p log(p / q) - p + q >= 0 of KL(p || q), for p and q with integral 1."""
    return np.asarray(p * np.log(p / q) - p + q)


def integral(kappa: Integrand, p: F64, q: F64, weights: F64) -> float:
    """Return sum_k v_k kappa(p_k, q_k)."""
    return float(np.sum(weights * kappa(p, q)))


def renyi(p: F64, q: F64, weights: F64, alpha: float) -> float:
    """Return log(int p^alpha q^(1 - alpha)) / (alpha - 1) in nats, for p and q normalized to integral 1."""
    exponent = alpha * np.log(p) + (1 - alpha) * np.log(q)
    largest = exponent.max()
    log_integral = largest + np.log(np.sum(weights * np.exp(exponent - largest)))
    masses = alpha * np.log(np.sum(weights * p)) + (1 - alpha) * np.log(np.sum(weights * q))
    return float((log_integral - masses) / (alpha - 1))
