"""Memory of kernel distances, for all dtypes and memory orders of points, and tiles of points."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist._numba.weighted_points import WeightedPoints, set_bounds, sorted_rows, tile_rows
from dkdist.kernels.kernel_sums import energy

MAX_MEMORY_RATIO = 0.5  # maximum additional memory, relative to P and Q

RANDOM = {"sigma": 3.0, "method": "rff", "random_state": 0, "eps": 1e-2}
CASES = {
    "a mesh in the plane": (1_000_000, 2, {"sigma": 0.05}),
    "a larger mesh, in another order": (1_000_000, 2, {"sigma": 0.005}),
    "frequencies": (1_000_000, 2, {"sigma": 1.0}),
    "the median distance": (2_000_000, 2, {"sigma": "median"}),
    "several bandwidths": (1_000_000, 2, {"sigma": [0.05, 0.5]}),
    "a matrix of scales": (1_000_000, 2, {"sigma": np.array([[0.1, 0.0], [0.05, 0.2]])}),
    "an unbiased estimate": (1_000_000, 2, {"sigma": 0.3, "unbiased": True, "squared": True}),
    "a mesh in space": (600_000, 3, {"sigma": 0.05}),
    "Gaussians for another kernel": (600_000, 3, {"sigma": 1.0, "kernel": "rational-quadratic"}),
    "terms of Taylor": (300_000, 10, {"sigma": 3.0}),
    "random frequencies": (60_000, 50, RANDOM),
    "all pairs by products": (4_000, 400, {"sigma": 8.0, "method": "exact"}),
    "all pairs, by \"auto\"": (4_000, 400, {"sigma": 2.0}),
    "all pairs by differences": (4_000, 400, {"sigma": 8.0, "kernel": "matern32"}),
    "all pairs of 10,000 points": (10_000, 50, {"sigma": 2.0}),
    "all pairs of 2,000 points": (2_000, 50, {"sigma": 2.0}),
    "all pairs of some 100 variables": (2_000, 100, {"sigma": 3.0, "method": "exact"}),
    "all pairs of many variables": (2_000, 400, {"sigma": 8.0, "method": "exact"}),
    "differences of 2,000 points": (2_000, 50, {"sigma": 2.0, "kernel": "matern52"}),
    "terms of Taylor for 2,000 points": (2_000, 50, {"sigma": 140.0}),
    "random frequencies for 10,000 points": (10_000, 50, RANDOM),
    "random frequencies for 2,000 points": (2_000, 50, RANDOM),
    "all pairs of ten variables": (10_000, 10, {"sigma": 1.0, "method": "exact"}),
}  # fmt: skip


def measure_peak(function, max_bytes):
    """Return the result and the peak of allocated bytes, after a first call that compiles.

    Threads of earlier tests may allocate too, so a peak above ``max_bytes`` is measured again.
    """
    function()
    peaks = []
    while len(peaks) < 3 and (not peaks or peaks[-1] > max_bytes):
        tracemalloc.start()
        try:
            result = function()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return result, peaks[-1]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("case", CASES)
def test_memory_is_at_most_half_of_the_points(case, dtype):
    """Points in float32 give the same distance as in float64, bit for bit."""
    n, d, options = CASES[case]
    rng = np.random.default_rng(d)
    P, Q = (rng.random((n, d), np.float32).astype(dtype) ** power for power in (1, 2))
    w = rng.dirichlet(np.ones(n))
    weights = (w, w[::-1] if dtype == "f8" else None)
    max_bytes = MAX_MEMORY_RATIO * (P.nbytes + Q.nbytes)
    result, peak = measure_peak(lambda: dk.kernel_distance(P, Q, weights=weights, **options), max_bytes)
    assert peak <= max_bytes
    if dtype == "f4":
        assert result == dk.kernel_distance(P.astype("f8"), Q.astype("f8"), weights=weights, **options)


@pytest.mark.parametrize("convert", [np.asfortranarray, lambda x: x[::-1][::-1], lambda x: x.astype("f2")])
def test_points_of_other_orders_and_dtypes_are_not_copied(convert):
    rng = np.random.default_rng(0)
    P, Q = (convert(rng.random((400_000, 3)) ** power) for power in (1, 2))
    max_bytes = MAX_MEMORY_RATIO * 4 * (P.size + Q.size)  # relative to float32
    result, peak = measure_peak(lambda: dk.kernel_distance(P, Q, sigma=0.2), max_bytes)
    assert peak <= max_bytes
    assert result == dk.kernel_distance(P.astype("f8", order="C"), Q.astype("f8", order="C"), sigma=0.2)


def random_points(rng, n, m, d, weighted):
    P = rng.normal(3, 2, (n, d)).astype(rng.choice(["f4", "f8"]))
    Q = np.asfortranarray(rng.normal(0, 1, (m, d)))
    weights = (rng.random(n), rng.normal(size=(m,)).astype("f4")) if weighted else (None, None)
    inverse = rng.normal(size=(d, d)) if rng.random() < 0.3 else None
    return WeightedPoints((P, Q), weights, (1.0, -1.0), rng.normal(size=d), inverse, 0.25, set_bounds((P, Q)))


@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
@settings(max_examples=50, deadline=None)
def test_tiles_are_shifted_and_scaled_points(seed, d, weighted):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 30, 2)
    points = random_points(rng, n, m, d, weighted)
    both = np.concatenate(points.sets).astype("f8") - points.middle
    x = 0.25 * (both if points.inverse is None else both @ points.inverse.T)
    p, q = points.weights if weighted else (np.full(n, 1 / n), np.full(m, 1 / m))
    z = np.concatenate([p, -q])[:, None]
    # products of different lengths may round differently
    close = {
        "rtol": 1e-13,
        "atol": 1e-14 * float(np.abs(both).max()) * d,
    }
    for rows in (1, 3, 100):
        tiles = list(points.tiles(rows))
        np.testing.assert_allclose(np.concatenate([tile for tile, _ in tiles]), x, **close)
        assert np.array_equal(np.concatenate([weights for _, weights in tiles]), z)
    positions = rng.integers(0, n + m, 7)
    np.testing.assert_allclose(points.take(positions)[0], x[positions], **close)
    assert np.array_equal(points.take(positions)[1], z[positions])
    np.testing.assert_allclose(points.bounds, (x.min(axis=0), x.max(axis=0)), **close)
    if points.inverse is None:
        assert np.array_equal(points.bounds, (x.min(axis=0), x.max(axis=0)))  # rounding is monotonic
    assert points.mass == pytest.approx(np.abs(z).sum(), rel=1e-12)
    assert points.size == pytest.approx(np.abs(z).sum(), rel=1e-12)
    assert points.total == pytest.approx(z.sum(), rel=1e-12, abs=1e-12)
    assert points.square == pytest.approx((z**2).sum(), rel=1e-12)
    assert points.largest == np.abs(z).max()
    range_of_q = points.select_set(1).weight_range
    assert range_of_q == ((q > 0).sum(), q.min(), q.max())
    assert np.array_equal(points.column(d - 1), np.concatenate([x for x, _ in points.tiles()])[:, d - 1])
    assert np.array_equal(points.scale_by(8.0).x(0, n), 8 * points.x(0, n))


def test_tile_rows():
    assert [tile_rows(d, 10**7) for d in (1, 16, 50, 400, 10_000)] == [4096, 4096, 1280, 256, 256]
    assert [tile_rows(d, 20_000) for d in (1, 16, 50, 400)] == [4096, 1024, 1024, 256]
    assert [sorted_rows(n) for n in (1, 10**7, 10**9)] == [2**13, 10**7 // 256, 2**16]


@pytest.mark.parametrize(
    ("n", "d", "kernel"), [(9000, 3, "gaussian"), (6000, 10, "gaussian"), (9000, 2, "matern12")]
)
def test_energy_in_tiles_is_bit_identical(n, d, kernel, monkeypatch):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(n, d)), rng.normal(size=(n, 1))
    points = WeightedPoints.of(x, z)
    in_tiles = energy(points, 0.23, kernel)
    monkeypatch.setattr("dkdist.kernels._exact_numba.tile_rows", lambda d, n: 256 * n)
    assert in_tiles == energy(points, 0.23, kernel)
