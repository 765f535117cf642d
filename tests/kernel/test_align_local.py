"""`align` with other kernels and in more than three dimensions: planted motions, grids, derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.distance import cdist
from scipy.stats import special_ortho_group

import dkdist as dk
from dkdist.alignment.local_search import Overlap
from dkdist.kernels.registry import KERNELS, names_with

SMOOTH = sorted(set(names_with("dvalue")) - {"laplace", "laplacian"})
RNG = np.random.default_rng(0)


def closed_curve(rng, d, n=200):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)[:, None]
    return sum(rng.normal(size=d) / k * np.cos(k * t + rng.uniform(0, 6, d)) for k in range(1, 6))


@pytest.mark.parametrize("d", [4, 5, 6])
@pytest.mark.parametrize("case", ["whole", "cut", "matern32"])
def test_planted_motions_are_recovered(d, case):
    rng = np.random.default_rng(d)
    P, R = closed_curve(rng, d), special_ortho_group.rvs(d, random_state=rng)
    Q = P + 0.02 * rng.normal(size=P.shape)
    shift = 10 * rng.normal(size=d)
    Q = (Q[40:] if case == "cut" else Q) @ R.T + shift
    kernel = case if case in KERNELS else "gaussian"
    result = dk.align(Q, P, sigma=0.3, kernel=kernel, random_state=0)
    np.testing.assert_allclose(result.rotation @ result.rotation.T, np.eye(d), atol=1e-12)
    assert np.linalg.det(result.rotation) == pytest.approx(1)
    assert np.abs(result.rotation @ R - np.eye(d)).max() < 0.05
    moved = Q @ result.rotation.T + result.translation
    assert result.distance == pytest.approx(dk.kernel_distance(moved, P, sigma=0.3, kernel=kernel), rel=1e-4)
    planted = dk.kernel_distance((Q - shift) @ R, P, sigma=0.3, kernel=kernel)
    assert result.distance <= planted + 1e-9
    assert (result.gap, result.certified) == (np.inf, False)


@pytest.mark.parametrize("kernel", SMOOTH)
@pytest.mark.parametrize("d", [2, 3])
def test_other_kernels_recover_planted_motions(kernel, d):
    rng = np.random.default_rng(d)
    P, R = closed_curve(rng, d, 120), special_ortho_group.rvs(d, random_state=rng)
    Q = P @ R.T + 5 * rng.normal(size=d)
    result = dk.align(Q, P, sigma=0.3, kernel=kernel)
    # compact kernels are exactly flat or have kinks at the optimum, where BFGS stops early
    assert np.abs(result.rotation @ R - np.eye(d)).max() < 0.02
    assert np.abs(Q @ result.rotation.T + result.translation - P).max() < 0.02
    assert result.distance < 0.1 * result.distance_before


@pytest.mark.parametrize(
    ("d", "kernel"), [(4, "gaussian"), (9, "gaussian"), (5, "laplace"), (1, "laplace"), (6, "energy")]
)
def test_translations_are_recovered_in_any_dimension(d, kernel):
    rng = np.random.default_rng(d)
    P = rng.normal(size=(150, d))
    Q = P[:100] + 7  # a part of the set
    result = dk.align(Q, P, sigma=0.5 * d**0.5, kernel=kernel, transform="translation", random_state=0)
    np.testing.assert_array_equal(result.rotation, np.eye(d))
    whole = dk.align(P + 7, P, sigma=0.5 * d**0.5, kernel=kernel, transform="translation", random_state=0)
    np.testing.assert_allclose(whole.translation, -7, atol=1e-2)
    at_truth = dk.kernel_distance(Q - 7, P, sigma=0.5 * d**0.5, kernel=kernel)
    assert result.distance <= at_truth + 1e-9


@pytest.mark.parametrize("kernel", ["energy", "laplace", "matern12", "rational-quadratic"])
def test_translation_is_better_than_a_grid(kernel):
    rng = np.random.default_rng(2)
    P, Q = rng.normal(size=(40, 2)) * [2, 1], rng.normal(size=(30, 2)) * [1, 2] + 4
    result = dk.align(Q, P, sigma=1.0, kernel=kernel, transform="translation")
    D = lambda t: dk.kernel_distance(Q + t, P, sigma=1.0, kernel=kernel, squared=True)  # noqa: E731
    centre = P.mean(axis=0) - Q.mean(axis=0)
    grid = centre + np.stack(np.meshgrid(*[np.linspace(-3, 3, 25)] * 2), axis=-1).reshape(-1, 2)
    assert result.distance**2 <= min(map(D, grid)) + 1e-9


@pytest.mark.parametrize("kernel", SMOOTH)
def test_gradients_match_differences(kernel):
    d = 4
    x, y, p, q = RNG.normal(size=(30, d)), RNG.normal(size=(20, d)), RNG.random(30), RNG.random(20)
    R, s = special_ortho_group.rvs(d, random_state=0), RNG.normal(size=d)
    overlap = Overlap.of(x, p, y, q, kernel, 1.3)
    f, by_rotation, by_shift = overlap.with_gradient(R, s)
    k = KERNELS[kernel].value(cdist(x, y @ R.T + s / overlap.unit) / 1.3)
    assert f == pytest.approx(p @ k @ q, rel=1e-12)
    W, ds, h = RNG.normal(size=(d, d)), RNG.normal(size=d), 1e-6
    W -= W.T
    ends = [overlap.with_gradient(expm(t * W) @ R, s + t * ds)[0] for t in (h, -h)]
    expected = (by_rotation * (W @ R)).sum() + by_shift @ ds
    assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_refinement_never_decreases_the_overlap():
    x, p = RNG.normal(size=(50, 5)), np.full(50, 0.02)
    overlap = Overlap.of(x, p, x[::2] + 0.3, p[::2], "matern52", 1.0)
    for seed in range(5):
        R, t = special_ortho_group.rvs(5, random_state=seed), RNG.normal(size=5)
        turned, shift, f = overlap.refine(R, t, True, 30)
        assert f >= overlap.value(R, t)
        assert f == pytest.approx(overlap.value(turned, shift), rel=1e-12)
        same, _, moved = overlap.refine(R, t, False, 30)
        np.testing.assert_allclose(same, R, atol=1e-15)
        assert moved >= overlap.value(R, t)


def test_search_is_deterministic_and_handles_equal_points():
    P = RNG.normal(size=(60, 4))
    first, second = (dk.align(P[:40] + 1, P, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.rotation, second.rotation)
    assert dk.align(np.ones((3, 4)), np.ones((5, 4)), random_state=0).distance < 1e-7


@pytest.mark.parametrize(
    ("options", "d", "message"),
    [
        ({"kernel": "laplace"}, 2, "kernel='laplace' requires transform='translation'.*Use 'matern12'"),
        ({"kernel": "ball"}, 2, "got 'ball', which is piecewise constant"),
        ({"kernel": "linear"}, 2, "got 'linear', which only kernel_distance supports"),
        ({}, 7, "2 to 6 dimensions for transform='rigid'; got 7. Pass transform='translation'"),
        ({}, 1, "2 to 6 dimensions for transform='rigid'; got 1"),
        ({"guarantee": 0.1}, 4, "guarantee requires kernel='gaussian' and at most 3 dim.*proves no bound"),
        ({"guarantee": 0.1, "kernel": "matern52"}, 2, "guarantee requires kernel='gaussian'.*got 'matern52'"),
        ({"kernel": "energy", "weights": (np.ones(9), np.ones(8))}, 2, "must have equal sums .*got 9 and 8"),
    ],
)
def test_unsupported_alignments_raise(options, d, message):
    with pytest.raises(ValueError, match=message):
        dk.align(RNG.normal(size=(9, d)), RNG.normal(size=(8, d)), sigma=1.0, **options)
