"""The derivative of homogeneous features by the density that they are made of.

    row = (v w)^(1/2) p^(1/2) (cos, sin)(l log p)
    d row / dp = (v w)^(1/2) p^(-1/2) (cos / 2 - l sin, sin / 2 + l cos)

A density below the floor counts as the floor, so that its derivative is zero.
"""

from __future__ import annotations

import numpy as np

from dkdist.densities.density_loops import FLOOR
from dkdist.loops.array_types import F32, F64


def amplitude_slopes(
    p: F32, node_weights: F64, frequencies: F64, masses: F64, gradient: F64, floor: float = FLOOR
) -> F64:
    """(n_nodes, k) derivatives by the densities ``p`` (n_nodes,) of k functions of a row.

    ``gradient`` (n_parts n_nodes, k) are their derivatives by the columns of `homogeneous_features`, in its order.
    """
    density = p.astype(np.float64)
    above = density > floor
    safe = np.where(above, density, 1.0)
    common = np.where(above, np.sqrt(node_weights / safe), 0.0)
    slopes, first, n = np.zeros((len(p), gradient.shape[1])), 0, len(p)
    for j in np.argsort(frequencies != 0, kind="stable"):
        lam, amplitude = frequencies[j], np.sqrt(masses[j]) * common
        cosine, sine = np.cos(lam * np.log(safe)), np.sin(lam * np.log(safe))
        slopes += (amplitude * (cosine / 2 - lam * sine))[:, None] * gradient[first : first + n]
        first += n
        if lam != 0:
            slopes += (amplitude * (sine / 2 + lam * cosine))[:, None] * gradient[first : first + n]
            first += n
    return slopes
