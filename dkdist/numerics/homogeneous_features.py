"""Features whose squared distances are homogeneous divergences of densities.

    d^2(p, q) = int kappa(p(x), q(x)) dx ~ sum_k v_k sum_j w_j |p(x_k)^(1/2 + i l_j) - q(x_k)^(1/2 + i l_j)|^2

so a set is represented by sqrt(v_k w_j) p(x_k)^(1/2) (cos, sin)(l_j log p(x_k)): columns run over the nodes k
fastest, then cosine and sine, then the frequencies j. A frequency of zero has a cosine part only.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dkdist.numerics.elementary import LOOP, f32, log, sincos

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

FLOOR = 1e-6  # of densities on the unit cube, where the uniform density is 1
LEAST = 1e-30  # what has a logarithm; below it the amplitude is next to nothing


def n_parts(frequencies: F64) -> int:
    """Real features per node: one for a frequency of zero, two for any other."""
    return int(np.sum(np.where(frequencies == 0, 1, 2)))


def homogeneous_features(
    p: F32,
    node_weights: F64,
    frequencies: F64,
    masses: F64,
    out: F32,
    first: int = 0,
    floor: float = FLOOR,
) -> None:
    """Fill n_parts * n_nodes columns of ``out``, from ``first`` on, from densities ``p`` (n_sets, n_nodes).

    Densities below ``floor`` count as that: truncated series dip below zero, histograms (0) do not.
    """
    order = np.argsort(frequencies != 0, kind="stable")  # zero frequencies first
    _features(
        p,
        np.sqrt(node_weights).astype(np.float32),
        frequencies[order].astype(np.float32),
        np.sqrt(masses[order]).astype(np.float32),
        float(floor),
        first,
        out,
    )


@njit(nogil=True, cache=True, fastmath=LOOP)
def _features(p, root_weight, frequency, amplitude, floor, first, out):  # type: ignore[no-untyped-def]
    n = p.shape[1]
    root, logarithm = np.empty(n, f32), np.empty(n, f32)
    for s in range(len(p)):
        for k in range(n):
            value = max(p[s, k], f32(floor))
            root[k] = np.sqrt(value) * root_weight[k]
            logarithm[k] = log(max(value, f32(LEAST)))
        column = first
        for j in range(len(frequency)):
            cosine = out[s, column : column + n]
            if frequency[j] == f32(0.0):
                for k in range(n):
                    cosine[k] = amplitude[j] * root[k]
                column += n
                continue
            sine = out[s, column + n : column + 2 * n]
            for k in range(n):
                si, co = sincos(frequency[j] * logarithm[k])
                cosine[k] = amplitude[j] * root[k] * co
                sine[k] = amplitude[j] * root[k] * si
            column += 2 * n
