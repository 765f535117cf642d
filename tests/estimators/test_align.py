"""`align`: motions that are known are found again; slopes against differences; the Fourier search against all pairs."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dkdist as dk
from dkdist.numerics.alignment import (
    climb,
    overlap_with_slopes,
    rotation_from,
    rotation_grid,
    translation_search,
)


def closed_curve(rng, d, n=200):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)[:, None]
    return sum(rng.normal(size=d) / k * np.cos(k * t + rng.uniform(0, 6, d)) for k in range(1, 6))


def any_rotation(rng, d):
    return rotation_from(rng.uniform(0, 6, 1), 2) if d == 2 else Rotation.random(rng=rng).as_matrix()


@pytest.mark.parametrize(("d", "trials"), [(2, 4), (3, 1)])
def test_known_motions_are_found_again(d, trials):
    rng = np.random.default_rng(0)
    for _ in range(trials):
        P, R = closed_curve(rng, d), any_rotation(rng, d)
        Q = (P + 0.02 * rng.normal(size=P.shape)) @ R.T + 10 * rng.normal(size=d)
        found = dk.align(Q, P, sigma=0.15, random_state=0)
        np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(d), atol=1e-9)
        assert np.linalg.det(found.rotation) == pytest.approx(1)
        assert np.abs(found.rotation @ R - np.eye(d)).max() < 0.05
        moved = Q @ found.rotation.T + found.translation
        assert np.sqrt(((moved - P) ** 2).sum(axis=1)).max() < 0.2
        assert found.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.15, eps=1e-8))
        assert found.distance < 0.1 * found.distance_before


@pytest.mark.parametrize("d", [1, 2, 3])
def test_translations_alone(d):
    rng = np.random.default_rng(1)
    P = rng.normal(size=(150, d))
    found = dk.align(P[:100] + 7, P[:100], sigma=0.5, transform="translation", random_state=0)
    np.testing.assert_array_equal(found.rotation, np.eye(d))
    np.testing.assert_allclose(found.translation, -7, atol=1e-3)
    assert found.distance < 1e-3


@pytest.mark.parametrize("d", [2, 3])
def test_slopes_are_those_of_differences(d):
    rng = np.random.default_rng(d)
    x, y = np.zeros((3, 30), np.float32), np.zeros((20, 3))
    x[:d], y[:, :d] = rng.normal(size=(d, 30)), rng.normal(size=(20, d))
    p, q, t = rng.random(30).astype("f4"), rng.random(20).astype("f4"), np.zeros(3)
    t[:d] = 0.3

    def f(R, t):
        return overlap_with_slopes(x, p, (y @ R.T + t).astype("f4"), y, q)

    total, by_shift, by_rotation = f(np.eye(3), t)
    square = ((x.T[:, None] - (y + t)) ** 2).sum(axis=2)
    assert total == pytest.approx(p @ np.exp(-square / 2) @ q, rel=1e-5)
    for a in range(d):
        e = np.eye(3)[a] * 1e-2
        assert (f(np.eye(3), t + e)[0] - f(np.eye(3), t - e)[0]) / 2e-2 == pytest.approx(
            by_shift[a], rel=1e-2, abs=0.02
        )
        E = np.zeros((3, 3))
        E[a, 0] = 1e-2
        slope = (f(np.eye(3) + E, t)[0] - f(np.eye(3) - E, t)[0]) / 2e-2
        assert slope == pytest.approx(by_rotation[a, 0], rel=1e-2, abs=0.02)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_search_finds_the_best_translation(d):
    rng = np.random.default_rng(d)
    x, y = rng.uniform(-1, 1, (40, d)), rng.uniform(-1, 1, (30, d))
    p, q, sigma = rng.random(40), rng.random(30), 0.4

    def overlap(t):
        return p @ np.exp(-((x[:, None] - y - t) ** 2).sum(axis=2) / (2 * sigma**2)) @ q

    t, value = translation_search(x, p, sigma, np.sqrt(d))(y, q)
    assert value == pytest.approx(overlap(t), rel=0.02)
    tried = max(overlap(rng.uniform(-2, 2, d)) for _ in range(300))
    assert value >= 0.9 * tried
    _, end, best = climb(x, p, y, q, sigma, (np.zeros(0), t), False)
    assert best == pytest.approx(overlap(end), rel=1e-4)
    assert best >= max(tried, value) * 0.999


def test_rotations_are_spread_evenly():
    turns = [rotation_from(q, 3) for q in rotation_grid(3, 640)]
    angles = [min(np.arccos(np.clip((np.trace(R @ S.T) - 1) / 2, -1, 1)) for S in turns)
              for R in Rotation.random(100, rng=np.random.default_rng(0)).as_matrix()]  # fmt: skip
    assert np.degrees(max(angles)) < 25


def test_what_is_refused():
    P = np.random.default_rng(0).normal(size=(10, 2))
    for message, arguments in (
        ("Q has 3 dimensions and P has 2", (np.ones((4, 3)), P)),
        ("2 or 3", (P[:, :1], P[:, :1])),
        ("point 0 of Q is", ([[np.nan, 0.0]], P)),
    ):
        with pytest.raises(ValueError, match=message):
            dk.align(*arguments, sigma=1.0)
    with pytest.raises(ValueError, match="'rigid', 'translation'"):
        dk.align(P, P, sigma=1.0, transform="affine")
    with pytest.raises(ValueError, match="sigma"):
        dk.align(P, P, sigma=0.0)
