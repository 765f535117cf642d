"""Kernels as functions of r = |x - y| / sigma, the reference for sums and mixtures."""

import numpy as np
from scipy.spatial.distance import cdist

PROFILES = {
    "gaussian": lambda r: np.exp(-(r**2) / 2),
    "matern12": lambda r: np.exp(-r),
    "laplacian": lambda r: np.exp(-r),  # former name of matern12
    "matern32": lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
    "matern52": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
    "rational-quadratic": lambda r: 1 / (1 + r**2 / 2),
    "energy": lambda r: -r,
    "laplace": lambda r: np.exp(-r),  # r is the city-block distance
}


def kernel_matrix(x, y, kernel):
    """Return k of all pairs of points, in units of sigma."""
    return PROFILES[kernel](cdist(x, y, "cityblock" if kernel == "laplace" else "euclidean"))
