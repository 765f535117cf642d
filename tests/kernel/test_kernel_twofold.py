"""Double-double energies compared with sums with 60 decimal digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels._double_double_numba import double_double_energy
from dkdist.kernels._exact_numba import energy_in_tiles
from dkdist.kernels._profiles_numba import GAUSSIAN
from dkdist.kernels.registry import KERNELS, get_kernel


def decimal_energy(x, z, kernel):
    points = [[Decimal(float(v)) for v in row] for row in x]
    weights = [[Decimal(float(v)) for v in row] for row in z]
    ln2, total = Decimal(2).ln(), Decimal(0)
    for a, w in zip(points, weights, strict=True):
        for b, v in zip(points, weights, strict=True):
            s = sum((p - q) ** 2 for p, q in zip(a, b, strict=True))
            t = ln2 * (s if kernel == "gaussian" else s.sqrt())
            if kernel == "laplace":
                t = ln2 * sum(abs(p - q) for p, q in zip(a, b, strict=True))
            k = {
                "epanechnikov": max(Decimal(0), 1 - s),
                "triangle": max(Decimal(0), 1 - s.sqrt()),
                "ball": Decimal(s <= 1),
                "rational-quadratic": 1 / (1 + s),
                "energy": -s.sqrt(),
                "matern32": (1 + t) * (-t).exp(),
                "matern52": (1 + t + t * t / 3) * (-t).exp(),
            }.get(kernel, (-t).exp())
            total += k * sum(p * q for p, q in zip(w, v, strict=True))
    return total


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "d", "C"), [(1, 1, 1), (3, 2, 2), (32, 1, 1), (40, 5, 1)])
def test_double_double_energy_is_accurate(kernel, n, d, C):
    rng = np.random.default_rng(n)
    x = rng.uniform(-3, 3, (2 * n, d)) / np.sqrt(d)
    x[n:] = x[:n] + 1e-9 * rng.standard_normal((n, d))
    w = rng.standard_normal((n, C))
    z = np.concatenate([w, -w])
    with localcontext() as context:
        context.prec = 60
        expected = decimal_energy(x, z, kernel)
        W = Decimal(float(np.sqrt((z**2).sum(axis=1)).sum()))
        error = abs(Decimal(double_double_energy(x, z, get_kernel(kernel).profile)) - expected)
        assert error <= Decimal("1e-28") * W**2 + Decimal(2) ** -52 * abs(expected)


@pytest.mark.parametrize("spread", [1e-3, 30.0, 1e6])
def test_double_double_energy_matches_float64_without_cancellation(spread):
    rng = np.random.default_rng(1)
    x, z = spread * rng.standard_normal((150, 2)), rng.random((150, 1))
    expected = energy_in_tiles(WeightedPoints.of(x, z), 1.0, GAUSSIAN)
    assert double_double_energy(x, z, GAUSSIAN) == pytest.approx(expected, rel=1e-13)
