"""The guaranteed search of `align`: bounds hold for all motions of a cell, and no motion is better than the result."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import dkdist as dk
from dkdist.alignment import branch_and_bound
from dkdist.alignment._motion_cells_numba import bound_cells, cell_rotations, rotation_radius, split_cells
from dkdist.alignment.branch_and_bound import MotionSearch, _estimate_cells, _initial_cells, _thin_sets
from dkdist.alignment.local_refinement import refine_motions
from dkdist.alignment.motion_search import rotation_from


def overlap(x, p, y, q, R, t):
    return p @ np.exp(-((x[:, None] - y @ R.T - t) ** 2).sum(axis=2) / 2) @ q


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1, 0), (2, 0), (2, 1), (3, 0), (3, 3)]), st.floats(-3, 1))
def test_bound_of_a_cell_holds_for_its_motions(seed, dims, exponent):
    (d, turns), rng = dims, np.random.default_rng(seed)
    x, y = 2 * rng.normal(size=(8, d)), 2 * rng.normal(size=(7, d))
    p, q = rng.random(8), rng.random(7)
    middle, half = rng.uniform(-2, 2, (1, turns + d)), 10.0**exponent * rng.random((1, 2)) * [turns > 0, 1]
    motions = cell_rotations(middle[:, :turns], d), middle[:, turns:]
    upper, f = bound_cells(x, p, y, q, *motions, rotation_radius(half[:, 0], turns), half[:, 1])
    assert f[0] == pytest.approx(overlap(x, p, y, q, motions[0][0], motions[1][0]), rel=1e-4, abs=1e-6)
    sides = np.r_[np.full(turns, half[0, 0]), np.full(d, half[0, 1])]
    corners = rng.choice([-1, 1], (20, turns + d))
    for v in middle + sides * np.concatenate([rng.uniform(-1, 1, (20, turns + d)), corners]):
        R = cell_rotations(v[None, :turns], d)[0]
        assert overlap(x, p, y, q, R, v[turns:]) <= upper[0]
    radius, weights = np.sqrt((y**2).sum(axis=1)), p.sum()  # at least as tight as the bound of a plain grid
    delta = rotation_radius(half[:, 0], turns) * radius + np.sqrt(d) * half[:, 1]
    assert upper[0] <= f[0] + weights * (q * delta).sum() * np.exp(-0.5) + 2e-5 * weights * q.sum()


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_split_cells_cover_their_cell(turns):
    d, rng = max(2, turns), np.random.default_rng(turns)
    middles, halves = rng.normal(size=(3, turns + d)), rng.random((3, 2)) + 0.1
    children, smaller, parents = split_cells(middles, halves, turns, 1.0)
    for k in range(3):
        sides = np.repeat(halves[k], [turns, d])
        for v in middles[k] + sides * rng.uniform(-1, 1, (50, turns + d)):
            is_child = parents == k
            inside = (
                np.abs(children[is_child] - v) <= np.repeat(smaller[is_child], [turns, d], axis=1) + 1e-12
            )
            assert inside.all(axis=1).any()
    size = [np.prod(np.repeat(h, [turns, d], axis=1), axis=1).sum() for h in (halves, smaller)]
    cells = np.prod(np.repeat(halves, [turns, d], axis=1), axis=1)
    assert size[1] * 2 ** (turns + d) == pytest.approx((cells * 2 ** (turns + d)).sum())


@pytest.mark.parametrize(("d", "sigma", "eps"), [(2, 0.7, 0.02), (2, 0.35, 0.1), (3, 2.0, 0.2)])
def test_certified_motion_is_optimal_within_the_gap(d, sigma, eps):
    rng = np.random.default_rng(d)
    P, Q = rng.normal(size=(7, d)), rng.normal(size=(6, d)) + 5
    result = dk.align(Q, P, sigma=sigma, guarantee=eps, random_state=0)
    assert result.certified
    assert result.gap == eps
    local = dk.align(Q, P, sigma=sigma)
    assert local.gap == np.inf
    assert not local.certified
    starts = 600  # brute force: local refinement from random starts
    R = Rotation.random(starts, rng=rng).as_matrix() if d == 3 else np.array(
        [rotation_from(a, 2) for a in rng.uniform(0, 7, (starts, 1))]
    )  # fmt: skip
    p, q, y = np.full(7, 1 / 7), np.full(6, 1 / 6), Q - Q.mean(axis=0)
    f = refine_motions(P, p, y, q, sigma, (R, rng.normal(size=(starts, d))), True, 30)[2].max()
    energy = [
        (w @ np.exp(-((a[:, None] - a) ** 2).sum(axis=2) / (2 * sigma**2)) @ w) for a, w in ((P, p), (y, q))
    ]
    best = sum(energy) - 2 * f
    assert result.distance**2 <= best + result.gap + 1e-5
    assert result.distance**2 >= best - 1e-5  # 600 starts find the optimum


def test_guarantee_with_coresets_and_translations():
    rng = np.random.default_rng(0)
    P = np.concatenate([rng.normal(0, 0.3, (300, 2)), rng.normal(2, 0.2, (150, 2))])
    Q = P[::2] + 3
    result = dk.align(Q, P, sigma=1.0, transform="translation", guarantee=0.05, random_state=0)
    assert result.certified
    np.testing.assert_allclose(result.translation, -3, atol=0.1)
    u, v = np.full(450, 1 / 450), np.full(225, 1 / 225)
    (a, p), (b, q), c = _thin_sets(P, u, Q, v, 0.1, 0)
    assert len(p) < len(P)
    assert 0 < c <= 0.1 / 8
    for _ in range(50):  # f of the coresets differs by at most c
        R, t = rotation_from(rng.uniform(0, 6, 1), 2), 3 * rng.normal(size=2)
        whole = overlap(P, u, Q, v, R, t)
        assert abs(overlap(a, p, b, q, R, t) - whole) <= c


def test_too_expensive_guarantee_raises(capfd):
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(30, 3)), rng.normal(size=(30, 3))
    with pytest.raises(ValueError, match=r"got 0.01 for .*about .* cells .* about .* s .*plain grid"):
        dk.align(Q, P, sigma=0.3, guarantee=0.01, max_seconds=0.01, random_state=0)
    dk.align(Q[:, :2], P[:, :2], sigma=1.0, guarantee=0.1, verbose=True, random_state=0)
    assert "alignment certified to 0.1 of D^2: about" in capfd.readouterr().err
    with pytest.raises(ValueError, match="Pass guarantee"):
        dk.align(Q, P, sigma=1.0, max_seconds=3.0)
    with pytest.raises(ValueError, match="guarantee"):
        dk.align(Q, P, sigma=1.0, guarantee=0.0)


def test_estimated_cells_match_the_search():
    rng = np.random.default_rng(1)
    x, y = 2 * rng.normal(size=(12, 2)), 2 * rng.normal(size=(12, 2))
    p = np.full(12, 1 / 12)
    best = max(overlap(x, p, y, p, rotation_from(a, 2), t) for a, t in zip(
        rng.uniform(0, 7, (500, 1)), rng.normal(size=(500, 2)), strict=True))  # fmt: skip
    search = MotionSearch(x, p, y, p, True, best + 0.01)
    first = _initial_cells(search)
    estimates = [_estimate_cells(search, first, np.random.default_rng(k)) for k in range(8)]
    search.n_evaluated, cells = 0, first
    while len(cells.upper):
        children, _, _ = search.split(cells)
        cells = children.select(children.upper > search.threshold)
        assert search.n_evaluated < 10**6
    assert np.mean(estimates) == pytest.approx(search.n_evaluated, rel=0.5)


def test_search_stops_at_max_seconds_with_a_valid_gap(monkeypatch):
    monkeypatch.setattr(branch_and_bound, "_estimate_cells", lambda *_: 0.0)
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(30, 3)), rng.normal(size=(30, 3))
    result = dk.align(Q, P, sigma=0.3, guarantee=0.01, max_seconds=0.2, random_state=0)
    assert not result.certified
    assert 0.01 < result.gap <= 2


def test_guarantee_for_coincident_points():
    result = dk.align(np.ones((4, 3)), np.zeros((5, 3)), sigma=1.0, guarantee=0.1, random_state=0)
    assert result.certified
    assert result.distance < 1e-3
