"""Kernel distances of nearly equal sets, compared with 50 decimal digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

import dkdist as dk


def decimal_distance(x, y, p, q, sigma, kernel="gaussian"):
    """Return D from all pairs, with 50 digits."""
    with localcontext() as context:
        context.prec = 50
        points = [[Decimal(float(v)) for v in row] for row in (*x, *y)]
        z = [Decimal(float(w)) for w in (*p, *(-np.asarray(q)))]
        total, s = Decimal(0), Decimal(float(sigma))
        for i, a in enumerate(points):
            for b, w in zip(points[:i], z, strict=False):
                square = sum((u - v) ** 2 for u, v in zip(a, b, strict=True)) / s**2
                k = (-square / 2).exp() if kernel == "gaussian" else (-square.sqrt()).exp()
                total += 2 * z[i] * w * k
            total += z[i] ** 2
        return float(max(total, Decimal(0)).sqrt())


def tolerance(x, sigma):
    """Return the error of two roundings per coordinate for W = 2; the feature map has the slope e^(-1/2) / sigma."""
    return 2 * 2 * np.finfo(float).eps * np.ptp(x, axis=0).max() * np.sqrt(x.shape[1]) / sigma


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("method", ["exact", "auto"])
def test_distance_of_a_set_to_itself_with_noise(d, noise, method):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(40, d))
    y = (x + noise * rng.normal(size=x.shape))[rng.permutation(40)]
    p = np.full(40, 1 / 40)
    expected = decimal_distance(x, y, p, p, 0.7)
    result = dk.kernel_distance(x, y, sigma=0.7, method=method)
    assert result > 0
    assert abs(result - expected) <= tolerance(x, 0.7) + 1e-4 * expected


def test_nearly_equal_sets_with_signed_weights_and_other_kernels():
    rng = np.random.default_rng(0)
    x, w = rng.random((30, 2)), rng.standard_normal(30)
    y = x + 1e-9 * rng.normal(size=x.shape)
    options = {"sigma": 0.5, "method": "exact", "weights": (w, w)}
    expected = decimal_distance(x, y, w, w, 0.5)
    W = 2 * np.abs(w).sum()
    assert abs(dk.kernel_distance(x, y, **options) - expected) <= W * tolerance(x, 0.5) + 1e-4 * expected
    expected = decimal_distance(x, y, w, w, 0.5, "laplacian")
    result = dk.kernel_distance(x, y, **options, kernel="laplacian")
    assert result == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "epanechnikov"])
@pytest.mark.parametrize("d", [2, 5])
def test_permuted_set_has_distance_zero(d, kernel):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(700, d))
    D = dk.kernel_distance(x, x[rng.permutation(700)], sigma=0.3, method="exact", kernel=kernel)
    assert D <= 1e-15


def test_doubled_set_has_distance_zero():
    x = np.random.default_rng(2).normal(size=(200, 3))
    assert dk.kernel_distance(x, np.concatenate([x, x]), sigma=1.0) <= 1e-15


def test_different_sets_do_not_use_double_double(monkeypatch):
    """Double-double arithmetic is used only after cancellation."""
    monkeypatch.setattr("dkdist.kernels._double_double_numba.double_double_energy", None)
    rng = np.random.default_rng(3)
    assert dk.kernel_distance(rng.random((50, 2)), rng.random((50, 2)), sigma=0.1) > 0.01
