"""Parts of `align`: rotations in the plane, squared distances and regions compared with brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist._numba.points import cell_means
from dkdist.alignment._neighbour_pairs_numba import squared_distances
from dkdist.alignment.local_refinement import MIN_CURVATURE_RATIO, _solve_cholesky
from dkdist.alignment.motion_search import (
    best_of_angles,
    best_of_rotations,
    best_translations,
    rotation_from,
    rotation_grid,
)


@pytest.mark.parametrize("count", [4, 12, 48])
def test_best_of_angles_matches_best_translations(count: int) -> None:
    rng = np.random.default_rng(count)
    x, y, p, q = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (31, 2)), rng.random(40), rng.random(31)
    turns = np.array([rotation_from(angle, 2) for angle in rotation_grid(2, count)])
    t, f = best_of_angles(x, p, y, q, count, 0.3, np.sqrt(2))
    expected_t, expected_f = best_translations(x, p, y, q, turns, 0.3, np.sqrt(2))
    np.testing.assert_allclose(f, expected_f, rtol=1e-4)
    np.testing.assert_allclose(t, expected_t)
    assert len(np.unique(np.round(f, 3))) > count / 2  # angles differ


def kernel_sum(a: np.ndarray, p: np.ndarray, b: np.ndarray, q: np.ndarray) -> float:
    return float(p @ np.exp(-((a[:, None] - b) ** 2).sum(axis=2) / 2) @ q)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.1, 1.0, 10.0, 300.0]))
def test_squared_distances_match_sums_over_all_pairs(seed: int, d: int, width: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = (width * rng.normal(size=(rng.integers(1, 90), d)) for _ in range(2))
    R = np.linalg.qr(rng.normal(size=(d, d)))[0]
    motions = [(R, width * rng.normal(size=d)), (np.eye(d), np.zeros(d)), (np.eye(d), np.full(d, 1e90))]
    p, q = (rng.random(len(v)) / len(v) for v in (x, y))
    expected = [
        kernel_sum(x, p, x, p)
        + kernel_sum(y, q, y, q)
        - 2 * kernel_sum(x, p, np.minimum(y @ A.T + t, 1e9), q)
        for A, t in motions
    ]
    np.testing.assert_allclose(squared_distances(x, p, y, q, motions), expected, rtol=0, atol=1e-14)


def test_distances_of_many_points_match_kernel_distance() -> None:
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(1200, 2)) * [2, 1], rng.normal(size=(1100, 2)) * [2, 1] + 3
    result = dk.align(Q, P, sigma=0.5, transform="translation")
    for moved, distance in ((Q + result.translation, result.distance), (Q, result.distance_before)):
        assert distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.5, method="exact"), rel=1e-4)


def test_many_points_are_aligned_by_coresets() -> None:
    rng = np.random.default_rng(0)
    P = rng.random((5000, 2)) * [2, 1]
    P = P[(P[:, 0] < 1) | (P[:, 1] < 0.3)]
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    Q = np.concatenate([P, P]) @ turn + 5  # more points than local refinement uses
    result, repeated = (dk.align(Q, P, sigma=0.1) for _ in range(2))
    np.testing.assert_allclose(result.rotation, turn, atol=0.01)
    np.testing.assert_array_equal(result.rotation, repeated.rotation)
    moved = Q @ result.rotation.T + result.translation
    assert result.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.1, eps=1e-8), abs=1e-4)
    assert result.distance < 0.02 < result.distance_before


def halves(x: np.ndarray, d: int, levels: int) -> list[np.ndarray]:
    """Split the points recursively into halves along the widest side; ties keep their order."""
    if levels == 0:
        return [x]
    order = np.argsort(x[:, np.ptp(x[:, :d], axis=0).argmax()], kind="stable")
    middle = len(x) // 2
    return halves(x[np.sort(order[:middle])], d, levels - 1) + halves(
        x[np.sort(order[middle:])], d, levels - 1
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([3, 1000]))
def test_cell_means_split_along_the_widest_side(seed: int, d: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, (rng.integers(33, 150), d)) / 7  # ties, for few values
    w = rng.random(len(x)) + 0.1
    means, sums = cell_means(x, 32, w)
    parts = halves(np.hstack([x, w[:, None]]), d, 5)
    np.testing.assert_allclose(
        means, [part[:, d] @ part[:, :d] / part[:, d].sum() for part in parts], atol=1e-12
    )
    np.testing.assert_allclose(sums, [part[:, d].sum() for part in parts])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0, 4))
def test_cholesky_steps_match_linear_solve(seed: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.normal(size=(n, n)))[0]
    eigenvalues = 10.0 ** rng.uniform(-spread, 0, n) * np.where(rng.random(n) < 0.1, -1, 1)
    H, g = (V * eigenvalues) @ V.T, rng.normal(size=n)
    v, is_definite = _solve_cholesky(H, g)
    if is_definite:
        assert eigenvalues.min() >= MIN_CURVATURE_RATIO * eigenvalues.max()
        np.testing.assert_allclose(v, np.linalg.solve(H, g), rtol=1e-6)
    else:
        assert eigenvalues.min() < 0.3 * eigenvalues.max()


def test_best_of_rotations_uses_mean_shifts() -> None:
    rng = np.random.default_rng(0)
    x, y, p, q = rng.normal(size=(40, 3)), rng.normal(size=(31, 3)) + 0.3, rng.random(40), rng.random(31)
    turns = np.array([rotation_from(turn, 3) for turn in rotation_grid(3, 8)])
    shifts, values = best_of_rotations(x, p, y, q, turns, 0.7)
    for R, result, value in zip(turns, shifts, values, strict=True):
        t = np.zeros(3)
        for _ in range(4):
            e = x[:, None] - y @ R.T - t
            k = p[:, None] * q * np.exp(-(e**2).sum(axis=2) / (2 * 0.7**2))
            total, last = k.sum(), t
            t = t + np.einsum("ij,ija->a", k, e) / total
        np.testing.assert_allclose(result, last, atol=1e-5)
        assert value == pytest.approx(total, rel=1e-5)
    far = best_of_rotations(x, p, y + 1e6, q, turns, 0.7)
    assert np.isfinite(far[0]).all()
    assert np.isfinite(far[1]).all()


@pytest.mark.parametrize("d", [2, 3])
def test_integer_weights_match_repeated_points(d: int) -> None:
    rng = np.random.default_rng(d)
    P = rng.random((60, d)) * np.arange(1, d + 1)
    turn = rotation_from(rng.normal(size=1 if d == 2 else 4), d)
    Q, counts = P @ turn + 0.02 * rng.normal(size=P.shape) + 5, rng.integers(0, 3, 60)  # some are 0
    result = dk.align(Q, P, sigma=0.3, weights=(counts / counts.sum(), None))
    repeated = dk.align(np.repeat(Q, counts, axis=0), P, sigma=0.3)
    np.testing.assert_allclose(result.rotation, repeated.rotation, atol=1e-3)
    np.testing.assert_allclose(result.rotation, turn, atol=0.1)
    for a in ("distance", "distance_before"):
        assert getattr(result, a) == pytest.approx(getattr(repeated, a), rel=1e-5)
    scaled = dk.align(Q, P, sigma=0.3, weights=(3.0 * counts, np.full(60, 2.0)))
    moved = Q @ scaled.rotation.T + scaled.translation
    weights = (3.0 * counts, np.full(60, 2.0))
    assert scaled.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.3, weights=weights))


def test_guarantee_scales_with_weights() -> None:
    P = np.random.default_rng(0).random((12, 2)) * [3, 1]
    whole = dk.align(P + 1, P, sigma=0.6, guarantee=0.05)
    heavy = dk.align(
        P + 1, P, sigma=0.6, guarantee=0.05 * 6, weights=(np.full(12, 3 / 12), np.full(12, 2 / 12))
    )
    assert whole.certified
    assert heavy.certified
    assert heavy.gap == pytest.approx(0.3)


def test_shapes_are_aligned_as_weighted_points() -> None:
    t = 2 * np.pi * np.arange(60) ** 1.3 / 60**1.3  # segments of different lengths
    outline = np.stack([np.cos(t) + 0.3 * np.cos(2 * t), np.sin(t) + 0.2 * np.sin(3 * t)], axis=1)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    P, Q = dk.Curve(outline, closed=True), dk.Curve(outline[::-1] @ turn + 2, closed=True)
    result = dk.align(Q, P, sigma=0.1)
    np.testing.assert_allclose(result.rotation, turn, atol=1e-4)
    points = dk.align(Q.points, P.points, sigma=0.1, weights=(Q.sizes, P.sizes))
    np.testing.assert_array_equal(result.rotation, points.rotation)
    assert result.distance < 1e-3 < result.distance_before


def test_invalid_weights_raise() -> None:
    P = np.random.default_rng(0).random((4, 2))
    curve = dk.Curve(P)
    for message, arguments in (
        ("weights of Q must be at least 0; got -1 at point 2", {"weights": ([1, 1, -1, 1], None)}),
        ("weights of P must not all be zero", {"weights": (None, np.zeros(4))}),
        ("weights of P must be 4 real numbers", {"weights": (None, np.ones(3))}),
        ("pair .w_Q, w_P.; got ndarray", {"weights": np.ones(4)}),
        ("weights of Q must have a sum from .*; got 4e.200", {"weights": (np.full(4, 1e200), None)}),
    ):
        with pytest.raises(ValueError, match=message):
            dk.align(P, P, sigma=1.0, **arguments)
    with pytest.raises(ValueError, match="weights of P must be None, because shapes are weighted"):
        dk.align(P, curve, sigma=1.0, weights=(None, np.ones(3)))
