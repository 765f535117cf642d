"""What `align` is made of: quarter turns against single rotations, distances and regions against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist.kernel.alignment.climbing import LEAST_CURVATURE, _solved
from dkdist.kernel.alignment.motions import best_translations, rotation_from, rotation_grid
from dkdist.kernel.alignment.near_pairs_loops import squared_distances
from dkdist.kernel.alignment.plane_search import best_of_angles
from dkdist.loops.cell_means import cell_means


@pytest.mark.parametrize("count", [4, 12, 48])
def test_quarter_turns_are_rotations_like_others(count: int) -> None:
    rng = np.random.default_rng(count)
    x, y, p, q = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (31, 2)), rng.random(40), rng.random(31)
    turns = np.array([rotation_from(angle, 2) for angle in rotation_grid(2, count)])
    t, f = best_of_angles(x, p, y, q, count, 0.3, np.sqrt(2))
    expected_t, expected_f = best_translations(x, p, y, q, turns, 0.3, np.sqrt(2))
    np.testing.assert_allclose(f, expected_f, rtol=1e-4)
    np.testing.assert_allclose(t, expected_t)
    assert len(np.unique(np.round(f, 3))) > count / 2  # angles differ


def kernel_sum(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.exp(-((a[:, None] - b) ** 2).sum(axis=2) / 2).mean())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.1, 1.0, 10.0, 300.0]))
def test_squared_distances_are_sums_over_all_pairs(seed: int, d: int, width: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = (width * rng.normal(size=(rng.integers(1, 90), d)) for _ in range(2))
    R = np.linalg.qr(rng.normal(size=(d, d)))[0]
    motions = [(R, width * rng.normal(size=d)), (np.eye(d), np.zeros(d)), (np.eye(d), np.full(d, 1e90))]
    expected = [
        kernel_sum(x, x) + kernel_sum(y, y) - 2 * kernel_sum(x, np.minimum(y @ A.T + t, 1e9))
        for A, t in motions
    ]
    np.testing.assert_allclose(squared_distances(x, y, motions), expected, rtol=0, atol=1e-14)


def test_distances_of_many_points_are_kernel_distances() -> None:
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(1200, 2)) * [2, 1], rng.normal(size=(1100, 2)) * [2, 1] + 3
    found = dk.align(Q, P, sigma=0.5, transform="translation")
    for moved, distance in ((Q + found.translation, found.distance), (Q, found.distance_before)):
        assert distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.5, method="exact"), rel=1e-4)


def test_many_points_are_moved_by_coresets() -> None:
    rng = np.random.default_rng(0)
    P = rng.random((5000, 2)) * [2, 1]
    P = P[(P[:, 0] < 1) | (P[:, 1] < 0.3)]
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    Q = np.concatenate([P, P]) @ turn + 5  # more than are climbed
    found, again = (dk.align(Q, P, sigma=0.1) for _ in range(2))
    np.testing.assert_allclose(found.rotation, turn, atol=0.01)
    np.testing.assert_array_equal(found.rotation, again.rotation)
    moved = Q @ found.rotation.T + found.translation
    assert found.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.1, eps=1e-8), abs=1e-4)
    assert found.distance < 0.02 < found.distance_before


def halves(x: np.ndarray, levels: int) -> list[np.ndarray]:
    """The points in the order of the widest side, in halves; those that are equal there in their order."""
    if levels == 0:
        return [x]
    order = np.argsort(x[:, np.ptp(x, axis=0).argmax()], kind="stable")
    middle = len(x) // 2
    return halves(x[np.sort(order[:middle])], levels - 1) + halves(x[np.sort(order[middle:])], levels - 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([3, 1000]))
def test_regions_are_halves_across_the_widest_side(seed: int, d: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, (rng.integers(33, 150), d)) / 7  # ties, for few values
    means, shares = cell_means(x, 32)
    parts = halves(x, 5)
    np.testing.assert_allclose(means, [part.mean(axis=0) for part in parts], atol=1e-12)
    np.testing.assert_allclose(shares * len(x), [len(part) for part in parts])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0, 4))
def test_steps_that_need_no_eigenvalues(seed: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.normal(size=(n, n)))[0]
    eigenvalues = 10.0 ** rng.uniform(-spread, 0, n) * np.where(rng.random(n) < 0.1, -1, 1)
    H, g = (V * eigenvalues) @ V.T, rng.normal(size=n)
    v, plain = _solved(H, g)
    if plain:
        assert eigenvalues.min() >= LEAST_CURVATURE * eigenvalues.max()
        np.testing.assert_allclose(v, np.linalg.solve(H, g), rtol=1e-6)
    else:
        assert eigenvalues.min() < 0.3 * eigenvalues.max()
