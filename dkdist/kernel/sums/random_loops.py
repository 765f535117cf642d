"""Sums of random Fourier features over signed points, and kernel energies from them, in any dimension.

    E(x, z) = E_w |sum_i z_i exp(i w . x_i)|^2,   w normal with standard deviation 1 / sigma

All points share the frequencies, so that equal points with opposite weights cancel: the error falls with E itself.
(Rahimi, Recht 2007; Joshi et al. 2011, with the scale (2 / rho)^(1/2) of rho features, not 2 / rho.) Phases, sines and
cosines are float32, 64 frequencies at a time; sums over 256 points are float32, and on in float64.
"""

from __future__ import annotations

import numpy as np

from dkdist.kernel.sums.mean_features_loops import LANES, MOST_TURNS, TILE, add_features, half_turns
from dkdist.loops.array_types import F64
from dkdist.loops.compile import ELEMENTWISE, loop
from dkdist.loops.elementary import f32


def float32_error(widths: F64, sigma: float) -> float:
    """What rounding to float32 may change the kernel of two points in a box with sides ``widths`` by."""
    return float(np.exp(-0.5) * 2.0**-24 * np.sqrt(((widths / sigma) ** 2).sum()))


def random_energies(x: F64, z: F64, frequencies: F64) -> F64:
    """|sum_i z_i exp(i w_f . x_i)|^2, summed over channels, for each frequency (F, d): (F,).

    Points (n, d) are counted from their middle; weights are (n, C).
    """
    V, F = half_turns(frequencies), len(frequencies)
    largest = max(float(np.abs(z).max()), 1e-300)
    reach = MOST_TURNS / max(1e-30, V.shape[1] * float(np.abs(V).max()))
    padded = np.zeros((len(x), V.shape[1]), np.float32)
    padded[:, : x.shape[1]] = np.clip(x, -reach, reach)
    out = np.zeros((len(V), LANES))
    _energies(padded, (z / largest).astype(np.float32), V, out)
    return np.asarray(out.ravel()[:F] * largest**2)


@loop(ELEMENTWISE)
def _energies(x, z, V, out):  # type: ignore[no-untyped-def]
    base, S, C = np.zeros(LANES, f32), np.empty(LANES, f32), np.empty(LANES, f32)
    sines, cosines = np.empty(LANES), np.empty(LANES)
    for q in range(len(V)):
        for c in range(z.shape[1]):
            sines[:] = 0.0
            cosines[:] = 0.0
            for first in range(0, len(x), TILE):
                S[:] = f32(0.0)
                C[:] = f32(0.0)
                for i in range(first, min(first + TILE, len(x))):
                    add_features(x[i], z[i, c], V[q], base, S, C)
                sines += S
                cosines += C
            out[q] += sines**2 + cosines**2
