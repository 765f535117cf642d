"""`align`: recovery of known motions, derivatives compared with differences, Fourier search compared with all pairs."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dkdist as dk
from dkdist._numba.points import cell_means
from dkdist.alignment._slopes_numba import overlap_derivatives, plane_derivatives
from dkdist.alignment.align import MAX_ALIGNED_POINTS
from dkdist.alignment.local_refinement import refine_motions
from dkdist.alignment.motion_search import (
    best_translations,
    density_equalized_weights,
    rotation_from,
    rotation_grid,
)


def closed_curve(rng, d, n=200):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)[:, None]
    return sum(rng.normal(size=d) / k * np.cos(k * t + rng.uniform(0, 6, d)) for k in range(1, 6))


def random_rotation(rng, d):
    return rotation_from(rng.uniform(0, 6, 1), 2) if d == 2 else Rotation.random(rng=rng).as_matrix()


@pytest.mark.parametrize(("d", "trials"), [(2, 4), (3, 1)])
def test_known_motions_are_recovered(d, trials):
    rng = np.random.default_rng(0)
    for _ in range(trials):
        P, R = closed_curve(rng, d), random_rotation(rng, d)
        Q = (P + 0.02 * rng.normal(size=P.shape)) @ R.T + 10 * rng.normal(size=d)
        result = dk.align(Q, P, sigma=0.15, random_state=0)
        np.testing.assert_allclose(result.rotation @ result.rotation.T, np.eye(d), atol=1e-9)
        assert np.linalg.det(result.rotation) == pytest.approx(1)
        assert np.abs(result.rotation @ R - np.eye(d)).max() < 0.05
        moved = Q @ result.rotation.T + result.translation
        assert np.sqrt(((moved - P) ** 2).sum(axis=1)).max() < 0.2
        assert result.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.15, eps=1e-8))
        assert result.distance < 0.1 * result.distance_before


@pytest.mark.parametrize("d", [1, 2, 3])
def test_translations_are_recovered(d):
    rng = np.random.default_rng(1)
    P = rng.normal(size=(150, d))
    result = dk.align(P[:100] + 7, P[:100], sigma=0.5, transform="translation", random_state=0)
    np.testing.assert_array_equal(result.rotation, np.eye(d))
    np.testing.assert_allclose(result.translation, -7, atol=1e-3)
    assert result.distance < 1e-3


@pytest.mark.parametrize("d", [2, 3])
def test_overlap_derivatives_match_differences(d):
    rng = np.random.default_rng(d)
    x, y, t = np.zeros((30, 3)), np.zeros((20, 3)), np.zeros(3)
    x[:, :d], y[:, :d], t[:d] = rng.normal(size=(30, d)), rng.normal(size=(20, d)), 0.3
    p, q = rng.random(30), rng.random(20)

    def f(v):  # float64
        moved = y @ Rotation.from_rotvec(v[3:]).as_matrix().T + t + v[:3]
        return p @ np.exp(-((x[:, None] - moved) ** 2).sum(axis=2) / 2) @ q

    order = np.argsort(x[:, 0])
    x, p = x[order], p[order]
    value, gradient, hessian = overlap_derivatives(x.T.astype("f4").copy(), p.astype("f4"), y, q, t)
    assert value == pytest.approx(f(np.zeros(6)), rel=1e-5)
    E = np.eye(6) * 1e-3
    slopes = [(f(e) - f(-e)) / 2e-3 for e in E]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-3)
    second = [[(f(e + g) - f(e - g) - f(g - e) + f(-e - g)) / 4e-6 for g in E] for e in E]
    np.testing.assert_allclose(hessian, second, rtol=1e-3, atol=1e-2)
    if d == 2:
        flat = plane_derivatives(x.T.astype("f4").copy(), p.astype("f4"), y, q, t)
        assert flat[0] == pytest.approx(value, rel=1e-6)
        free = np.ix_([0, 1, 5], [0, 1, 5])
        np.testing.assert_allclose(flat[1][[0, 1, 5]], gradient[[0, 1, 5]], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(flat[2][free], hessian[free], rtol=1e-5, atol=1e-5)


def test_distant_points_do_not_change_overlap():
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(3, 40)).astype("f4"), rng.normal(size=(3, 40)).astype("f4")
    far[0] += 30
    y, p, q, t = rng.normal(size=(20, 3)), np.ones(80, "f4"), np.ones(20), np.zeros(3)
    near, far = (v[:, np.argsort(v[0])] for v in (near, far))
    near_only = overlap_derivatives(near.copy(), p[:40], y, q, t)
    combined = overlap_derivatives(np.hstack([near, far]), p, y, q, t)
    for a, b in zip(near_only, combined, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)  # float32 sums


@pytest.mark.parametrize("d", [1, 2, 3])
def test_search_finds_the_best_translation(d):
    rng = np.random.default_rng(d)
    x, y = rng.uniform(-1, 1, (40, d)), rng.uniform(-1, 1, (30, d))
    p, q, sigma = rng.random(40), rng.random(30), 0.4
    turns = np.array([np.eye(d), -np.eye(d)])

    def overlap(t, R):
        return p @ np.exp(-((x[:, None] - y @ R.T - t) ** 2).sum(axis=2) / (2 * sigma**2)) @ q

    shifts, values = best_translations(x, p, y, q, turns, sigma, np.sqrt(d))
    for R, t, value in zip(turns, shifts, values, strict=True):
        assert value == pytest.approx(overlap(t, R), rel=0.03)
        best_random = max(overlap(rng.uniform(-2, 2, d), R) for _ in range(300))
        assert value >= 0.9 * best_random
        _, ends, best = refine_motions(x, p, y, q, sigma, (R[None], t[None]), False, 50)
        assert best[0] == pytest.approx(overlap(ends[0], R), rel=1e-4)
        assert best[0] >= max(best_random, overlap(t, R)) * 0.999


def test_refinement_keeps_rotations_and_never_decreases_overlap():
    rng = np.random.default_rng(0)
    x, y, p = rng.normal(size=(50, 3)), rng.normal(size=(40, 3)), np.full(50, 1 / 50)
    starts = Rotation.random(5, rng=rng).as_matrix(), rng.normal(size=(5, 3))
    overlaps = [refine_motions(x, p, y, p[:40], 0.5, starts, True, steps)[2] for steps in (0, 1, 5, 50)]
    assert (np.diff(overlaps, axis=0) >= 0).all()
    R, _, _ = refine_motions(x, p, y, p[:40], 0.5, starts, True, 50)
    np.testing.assert_allclose(R @ R.transpose(0, 2, 1), np.tile(np.eye(3), (5, 1, 1)), atol=1e-10)
    # without overlap the motion is unchanged
    far = refine_motions(x, p, y + 1e3, p[:40], 0.5, starts, True, 50)
    assert far[2].max() < 1e-30
    assert np.isfinite(far[1]).all()


def test_cell_means_approximate_the_points():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(700, 2)), np.ones((50, 2))])  # many of them equal
    means, shares = cell_means(x, 64, np.full(750, 1 / 750))
    assert means.shape == (64, 2)
    assert np.ptp(shares) * len(x) <= 1 + 1e-9
    np.testing.assert_allclose(shares @ means, x.mean(axis=0), atol=1e-12)
    assert dk.kernel_distance(means, x, sigma=1.0, weights=(shares, None)) < 0.02
    np.testing.assert_array_equal(cell_means(x[:3], 64, np.ones(3))[0], x[:3])


def test_rotation_grid_is_evenly_spread():
    turns = [rotation_from(q, 3) for q in rotation_grid(3, 640)]
    angles = [min(np.arccos(np.clip((np.trace(R @ S.T) - 1) / 2, -1, 1)) for S in turns)
              for R in Rotation.random(100, rng=np.random.default_rng(0)).as_matrix()]  # fmt: skip
    assert np.degrees(max(angles)) < 25


def test_invalid_input_raises():
    P = np.random.default_rng(0).normal(size=(10, 2))
    for message, arguments in (
        ("P and Q must have the same number of dimensions; got 2 and 3", (np.ones((4, 3)), P)),
        ("2 to 6", (P[:, :1], P[:, :1])),
        ("Q must be finite; got .* at point 0", ([[np.nan, 0.0]], P)),
    ):
        with pytest.raises(ValueError, match=message):
            dk.align(*arguments, sigma=1.0)
    with pytest.raises(ValueError, match="'rigid', 'translation'"):
        dk.align(P, P, sigma=1.0, transform="affine")
    with pytest.raises(ValueError, match="sigma"):
        dk.align(P, P, sigma=0.0)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_default_sigma_is_a_fortieth_of_the_smaller_diameter(d):
    rng = np.random.default_rng(d)
    P = rng.random((80, d)) * [3, 2, 1][:d]
    with_outlier = np.concatenate([P, P[:1] + 100])
    options = {"transform": "translation"} if d == 1 else {}
    result = dk.align(with_outlier, P, **options)
    diameter = np.linalg.norm(P[:, None] - P, axis=2).max()
    assert diameter / 3**0.5 <= 40 * result.sigma <= diameter * (1 + 1e-12)
    moved = with_outlier @ result.rotation.T + result.translation
    assert result.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=result.sigma, eps=1e-8))
    value = dk.align(with_outlier, P, sigma=result.sigma, **options)
    assert value.distance <= result.distance * (1 + 1e-9)
    assert result.sigma == value.sigma
    assert dk.align(np.ones((3, d)), np.ones((4, d)), **options).distance == 0
    with pytest.raises(ValueError, match="'auto'"):
        dk.align(P, P, sigma="median")


def test_density_equalized_weights_match_the_formula() -> None:
    rng = np.random.default_rng(3)
    x, p = rng.normal(size=(50, 3)) * 2, rng.random(50)
    kappa = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 2) @ p
    np.testing.assert_allclose(
        density_equalized_weights(x, p), p / np.sqrt(kappa) / (p / np.sqrt(kappa)).sum(), rtol=1e-12
    )


def test_default_sigma_is_robust_to_sampling_density() -> None:
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(8):
        u = rng.uniform(0, 2 * np.pi, (2, 2000))
        dense = np.sin(u + rng.uniform(0, 2 * np.pi, (2, 1)))  # on a different side of each set
        selected = rng.random((2, 2000)) < 0.5 + 0.3 * dense
        P, Q = (
            np.stack([2 * np.cos(a), np.sin(a) + 0.3 * np.cos(2 * a)], axis=1)
            + 0.03 * rng.normal(size=(len(a), 2))
            for a in (u[0, selected[0]], u[1, selected[1]])
        )
        auto = dk.align(Q, P)
        value = dk.align(Q, P, sigma=auto.sigma)
        assert value.distance <= auto.distance
        errors.append([abs(np.arcsin(result.rotation[1, 0])) for result in (auto, value)])
    equalized, plain = np.median(errors, axis=0)
    assert equalized < 0.7 * plain


def test_density_equalized_weights_of_repeated_points() -> None:
    rng = np.random.default_rng(1)
    x, counts = rng.random((60, 2)) * 5, rng.integers(1, 4, 60)
    p = counts / counts.sum()
    repeated = density_equalized_weights(
        np.repeat(x, counts, axis=0), np.full(counts.sum(), 1 / counts.sum())
    )
    np.testing.assert_allclose(
        repeated, np.repeat(density_equalized_weights(x, p) / counts, counts), rtol=1e-12
    )


def test_default_sigma_is_robust_to_an_outlier() -> None:
    P = np.random.default_rng(0).random((200, 2)) * [1, 0.3]
    plain = dk.align(P @ [[0, 1], [-1, 0]] + 3, P).sigma
    with_outlier = dk.align(
        np.vstack([P @ [[0, 1], [-1, 0]] + 3, [[0, 1e4]]]), np.vstack([P, [[1e4, 0]]])
    ).sigma
    assert with_outlier == pytest.approx(plain)


def test_many_points_keep_their_weights() -> None:
    P = np.random.default_rng(0).random((MAX_ALIGNED_POINTS + 1, 2)) * [1, 0.3]
    Q = P @ [[0, 1], [-1, 0]] + 3
    auto = dk.align(Q, P)
    np.testing.assert_array_equal(auto.rotation, dk.align(Q, P, sigma=auto.sigma).rotation)
