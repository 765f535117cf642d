"""Bounds with constants for each step of the kernel k(p, q) = exp(-d^2(p, q) / (2 sigma^2)) of densities.

    d^2(p, q) = int kappa(p, q) = |A p - A q|^2,   A p = p^(1/2 + i l) in L2([0, 1]^d x mu),   |A p|^2 = Z = mu(all l)

so d is the norm of a difference of vectors, at most 2 Z^(1/2). The change of k is at most e^(-1/2) / sigma times the
change of d, and at most 1 / (2 sigma^2) times the change of d^2. Each function returns a bound on the change of d or
d^2 in one step; for random steps it holds with probability 1 - delta.
"""

from __future__ import annotations

from math import gamma

import numpy as np

from dkdist.theory._tuning import N_SERIES_TERMS

# maximum slope of exp(-u^2 / 2), at u = 1: tests/theory/test_hdd_bound.py
MAX_KERNEL_SLOPE = float(np.exp(-0.5))


def reflected_energy(h: float, d: int) -> float:
    """Return sup_y int k_h(x, y)^2 dx = (1 + 2 sum_a exp(-(pi a h)^2))^d of a reflected Gaussian (cosine series)."""
    return float((1 + 2 * np.exp(-((np.pi * h * np.arange(1, N_SERIES_TERMS)) ** 2)).sum()) ** d)


def smoothing_bias(h: float, d: int, lipschitz: float, holder: float) -> float:
    """Return the bound L h^b E|z|^b on sup |E p^ - p|, for z normal in R^d and |p(x) - p(y)| <= L |x - y|^b.

    E p^(x) is the mean of p at x + h z, reflected at the boundary; reflection does not increase distances.
    """
    return float(lipschitz * h**holder * 2 ** (holder / 2) * gamma((d + holder) / 2) / gamma(d / 2))


def deviation_l1(n: int, energy: float, delta: float) -> float:
    """Return a bound on int |p^ - E p^|.

    The mean is below (energy / n)^(1/2) (Jensen), and one point changes the integral by at most 2 / n (McDiarmid).
    """
    return float(np.sqrt(energy / n) + np.sqrt(2 * np.log(1 / delta) / n))


def deviation_l2(n: int, energy: float, delta: float) -> float:
    """Return a bound on (int |p^ - E p^|^2)^(1/2).

    The proof is that of `deviation_l1`, except that one point changes the norm by at most (2 energy)^(1/2) / n.
    """
    return float(np.sqrt(energy / n) + np.sqrt(energy * np.log(1 / delta) / n))


def change_of_distance(Z: float, l1: float, l2: float, lowest: float) -> float:
    """Return a bound on d(p, p^): (Z l1)^(1/2), or for densities above ``lowest`` also (Z / lowest)^(1/2) l2.

    The first follows from kappa(x, y) <= Z |x - y|, the second from kappa(x, y) <= Z (x - y)^2 / (x + y), which does
    not hold for total variation: pass lowest = 0.
    """
    first = np.sqrt(Z * l1)
    return float(min(first, np.sqrt(Z / lowest) * l2) if lowest > 0 else first)


def sampled_frequencies(Z: float, M: int, delta: float) -> float:
    """Return a bound for d^2 as a mean of M terms Z |p^(1/2 + i l) - q^(1/2 + i l)|^2 in [0, 4 Z] (Hoeffding)."""
    return float(4 * Z * np.sqrt(np.log(2 / delta) / (2 * M)))


def truncation_error(Z: float, radius: float, order: float, n_basis: int) -> float:
    """Return a bound for d without the terms of f = p^(1/2 + i l) of degrees >= n_basis, for p and for q.

    |f|^2 of these terms is at most radius^2 / n_basis^(2 order) if sum_a |f_a|^2 max(a)^(2 order) <= radius^2.
    """
    return float(2 * np.sqrt(Z) * radius / n_basis**order)


def sampled_integrals(Z: float, d: int, n_basis: int, n_nodes: int, delta: float) -> float:
    """Return a bound for d with Monte Carlo coefficients of A p - A q from uniform nodes.

    The mean square of the change is at most
    sum_a phi_a(u)^2 |A p - A q|^2 / n_nodes <= (2 n_basis - 1)^d 4 Z / n_nodes (Markov).
    """
    return float(np.sqrt(4 * Z * (2 * n_basis - 1) ** d / (n_nodes * delta)))


def random_features(F: int, delta: float) -> float:
    """Return a bound on the error of an inner product of F random sines and cosines.

    It is a mean of F independent cosines in [-1, 1], so P(error >= t) <= 2 exp(-F t^2 / 2) = 2 exp(-D t^2 / 4) for
    D = 2 F features (Hoeffding). Sutherland et al. (2016) print 2 exp(-D t^2), which is too small
    (tests/theory/test_hdd_bound.py).
    """
    return float(np.sqrt(2 * np.log(2 / delta) / F))
