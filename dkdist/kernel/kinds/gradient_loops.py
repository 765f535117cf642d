"""Exact sums of a kernel and of its gradient over all pairs: the witness function, and where it rises.

    f(y) = sum_i z_i k(x_i, y),   D^2 = sum_i z_i f(x_i):   dD^2/dz_i = 2 f(x_i),   dD^2/dx_i = 2 z_i grad f(x_i)

for points of P and Q together, those of Q with negative weights. Where k has a kink (equal points under "matern12",
"laplace" and "energy") its gradient counts as 0. Cost of a pair: that of `exact_loops.sums` and 2 d flops.
"""

from __future__ import annotations

import numpy as np

from dkdist.kernel.sums.exact_loops import load, padded
from dkdist.kernel.sums.profiles_loops import KERNELS, LANES, LAPLACE, apart, profile, slope
from dkdist.loops.array_types import F64
from dkdist.loops.compile import ELEMENTWISE, loop


def sums_and_gradients(y: F64, x: F64, z: F64, kernel: str) -> tuple[F64, F64]:
    """(f (m,), its gradients (m, d)) at scaled points y (m, d), of scaled points x (n, d) with weights z (n,)."""
    d = y.shape[1]
    out = np.zeros((len(y), d + d % 2 + 1))
    _gradients(padded(y), padded(x), z, KERNELS[kernel], out)
    return out[:, -1].copy(), out[:, :d].copy()


@loop(ELEMENTWISE)
def _gradients(y, x, z, kernel, out):  # type: ignore[no-untyped-def]
    d, s, k, g = x.shape[1], np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    tile, acc = np.empty((d, LANES)), np.empty((d + 1, LANES))
    for first in range(0, len(y), LANES):
        last = min(first + LANES, len(y))
        load(y, first, last, tile)
        acc[:] = 0.0
        for i in range(len(x)):
            w, values = z[i], acc[d]
            apart(x, i, tile, kernel, s)
            profile(s, kernel, k)
            for n in range(LANES):
                values[n] += w * k[n]
            if kernel != LAPLACE:
                slope(s, kernel, k, g)
            for j in range(d):
                a, ya, row = x[i, j], tile[j], acc[j]
                if kernel == LAPLACE:  # k is 2^-sum
                    for n in range(LANES):
                        row[n] += w * np.log(2.0) * k[n] * np.sign(a - ya[n])
                else:
                    for n in range(LANES):
                        row[n] += w * g[n] * (ya[n] - a)
        for n in range(last - first):
            for j in range(d + 1):
                out[first + n, j] = acc[j, n]
