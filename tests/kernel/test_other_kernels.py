"""Kernel distances for all kernels, several bandwidths and matrices of scales: formulas over all pairs, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import dkdist as dk
from dkdist.kernels.kernel_distance import MAX_DIRECT_POINTS

from .kernel_profiles import PROFILES, kernel_matrix

KERNELS = sorted(set(PROFILES) - {"laplacian"})
POSITIVE = sorted(set(KERNELS) - {"energy"})
RNG = np.random.default_rng(0)
P, Q = RNG.random((60, 3)), RNG.random((40, 3)) + 0.2


def matrix(x, y, sigma, kernel):
    """Return k of all pairs; sigma is a number or a matrix of scales."""
    S = np.eye(x.shape[1]) * sigma if np.ndim(sigma) == 0 else np.asarray(sigma)
    u, v = (np.linalg.solve(S, s.T).T for s in (x, y))
    return kernel_matrix(u, v, kernel)


def brute(x, y, p, q, sigma, kernel):
    k = lambda a, b, v, w: v @ matrix(a, b, sigma, kernel) @ w  # noqa: E731
    return k(x, x, p, p) + k(y, y, q, q) - 2 * k(x, y, p, q)


@st.composite
def problems(draw):
    """Return (kernel, P, Q, weights with equal sums, sigma): equal points, offsets, signed weights, matrices."""
    kernel, rng = draw(st.sampled_from(KERNELS)), np.random.default_rng(draw(st.integers(0, 2**32)))
    d, n, m = draw(st.integers(1, 5)), draw(st.integers(1, 70)), draw(st.integers(1, 70))
    x, y = rng.standard_normal((n, d)), rng.standard_normal((m, d)) + draw(st.sampled_from([0, 1, 20]))
    if draw(st.booleans()):  # many equal points, and some in both sets
        x, y = np.round(x), np.round(y)
    p, q = rng.random(n) - draw(st.sampled_from([0, 0.3])), rng.random(m)
    p += (q.sum() - p.sum()) / n
    sigma = draw(st.sampled_from([0.03, 1.0, 50.0, "matrix"]))
    if sigma == "matrix":
        sigma = np.eye(d) + 0.3 * rng.random((d, d))
    return kernel, x, y, (p, q), sigma


@given(problems())
@settings(max_examples=80, deadline=None)
def test_distance_matches_all_pairs_and_laws(problem):
    kernel, x, y, (p, q), sigma = problem
    options = {"kernel": kernel, "squared": True}
    result = dk.kernel_distance(x, y, sigma=sigma, weights=(p, q), **options)
    S = np.atleast_2d(sigma)
    scale = np.ptp(np.concatenate([x, y])) / np.abs(S).max() + 1 if kernel == "energy" else 1
    rounding = 1e-12 * scale * (np.abs(p).sum() + np.abs(q).sum()) ** 2
    assert abs(result - brute(x, y, p, q, sigma, kernel)) <= 50 * rounding
    assert result >= -rounding  # positive definite, or conditionally so
    swapped = dk.kernel_distance(y, x, sigma=sigma, weights=(q, p), **options)
    moved = dk.kernel_distance(x + 3, y + 3, sigma=sigma, weights=(p, q), **options)
    larger = dk.kernel_distance(4 * x, 4 * y, sigma=4 * np.asarray(sigma)[()], weights=(p, q), **options)
    assert abs(swapped - result) <= rounding
    assert abs(moved - result) <= 100 * rounding  # coordinates are rounded again
    assert abs(larger - result) <= rounding
    assert dk.kernel_distance(x, x[::-1], sigma=sigma, weights=(p, p[::-1]), kernel=kernel) <= 1e-12 * scale


@pytest.mark.parametrize("kernel", POSITIVE)
def test_gram_matrices_are_positive_definite(kernel):
    x = np.concatenate([P, P[:20] + 1e-3])
    assert np.linalg.eigvalsh(matrix(x, x, 0.5, kernel)).min() > -1e-13


@pytest.mark.parametrize("kernel", KERNELS)
def test_several_bandwidths_are_summed(kernel):
    options = {"kernel": kernel, "squared": True}
    single = [dk.kernel_distance(P, Q, sigma=s, **options) for s in (0.1, 0.5, 2.0)]
    assert dk.kernel_distance(P, Q, sigma=[0.1, 0.5, 2.0], **options) == pytest.approx(sum(single), rel=1e-12)
    single_witnesses = [dk.witness(P, Q, P[:5], sigma=s, kernel=kernel) for s in (0.1, 0.5)]
    np.testing.assert_allclose(
        dk.witness(P, Q, P[:5], sigma=(0.1, 0.5), kernel=kernel), sum(single_witnesses), atol=1e-14
    )


def test_energy_distance_matches_formula_and_scales():
    D2 = 2 * cdist(P, Q).mean() - cdist(P, P).mean() - cdist(Q, Q).mean()
    energy = lambda x, y, **options: dk.kernel_distance(x, y, kernel="energy", squared=True, **options)  # noqa: E731
    assert energy(P, Q) == pytest.approx(D2, rel=1e-12)
    assert energy(5 * P, 5 * Q) == pytest.approx(5 * D2, rel=1e-12)
    assert energy(P, Q, sigma=0.2) == pytest.approx(5 * D2, rel=1e-12)
    within = cdist(P, P).sum() / (60 * 59) + cdist(Q, Q).sum() / (40 * 39)
    assert energy(P, Q, unbiased=True) == pytest.approx(2 * cdist(P, Q).mean() - within, rel=1e-12)


def test_witness_with_a_matrix_of_scales():
    S, u = np.diag([0.2, 0.5, 1.0]), P[:7] + 0.1
    expected = matrix(u, P, S, "matern32").mean(axis=1) - matrix(u, Q, S, "matern32").mean(axis=1)
    np.testing.assert_allclose(dk.witness(P, Q, u, sigma=S, kernel="matern32"), expected, atol=1e-14)


@pytest.mark.parametrize("kernel", ["laplace", "matern12", "matern32", "matern52", "energy"])
def test_sorted_sums_on_a_line_match_all_pairs(kernel):
    """More points than for direct sums, many of them equal, with signed weights."""
    n = MAX_DIRECT_POINTS
    x, y = np.round(30 * RNG.random((n, 1)), 2), np.round(30 * RNG.random((200, 1)), 2)
    p, q = RNG.standard_normal(n) / n, RNG.random(200)
    p += (q.sum() - p.sum()) / n
    options = {"kernel": kernel, "squared": True, "sigma": 0.7, "weights": (p, q)}
    W = (np.abs(p).sum() + np.abs(q).sum()) ** 2
    result, slopes = dk.kernel_distance(x, y, gradient=True, **options)
    scale = 50 if kernel == "energy" else 1
    assert result == pytest.approx(brute(x, y, p, q, 0.7, kernel), abs=1e-12 * scale * W)
    assert dk.kernel_distance(x, y, **options) == pytest.approx(result, abs=1e-15 * scale * W)
    f = 2 * dk.witness(x, y, x, sigma=0.7, kernel=kernel, weights=(p, q))
    np.testing.assert_allclose(slopes.weights[0], f, atol=1e-12 * scale * W)
    K, differences, z = matrix(x, x, 0.7, kernel), x - x.T, p
    cross = matrix(x, y, 0.7, kernel)
    c = {"laplace": 1, "matern12": 1, "matern32": 3**0.5, "matern52": 5**0.5, "energy": 0}[kernel] / 0.7

    def derivative(t, k):
        u = c * np.abs(t)
        forms = {"energy": -np.ones_like(u) / 0.7, "matern32": -c * u * np.exp(-u)}
        forms |= {"matern52": -c * u * (1 + u) / 3 * np.exp(-u)}
        return np.sign(t) * forms.get(kernel, -c * k)

    expected = 2 * p * (derivative(differences, K) @ z - derivative(x - y.T, cross) @ q)
    np.testing.assert_allclose(slopes.P[:, 0], expected, atol=1e-12 * scale * W)


def test_sorted_laplace_sums_in_the_plane_match_all_pairs():
    """The same points with a third coordinate of 0 are summed over all pairs."""
    n = MAX_DIRECT_POINTS + 13
    x, y = np.round(9 * RNG.random((n, 2)), 1), RNG.standard_normal((70, 2))
    p, q = RNG.standard_normal(n) / n, RNG.random(70)
    options = {"kernel": "laplace", "squared": True, "sigma": 0.7, "weights": (p, q)}
    result = dk.kernel_distance(x, y, **options)
    flat = [np.insert(s, 1, 0.0, axis=1) for s in (x, y)]
    W = np.abs(p).sum() + q.sum()
    assert result == pytest.approx(dk.kernel_distance(*flat, **options), abs=1e-13 * W**2)
    stretched = [s * [1e80, 1e-80] for s in (x, y)]
    assert dk.kernel_distance(*stretched, **options) == pytest.approx(
        brute(*stretched, p, q, 0.7, "laplace"), abs=1e-13 * W**2
    )


@pytest.mark.parametrize("kernel", ["matern32", "matern52", "rational-quadratic", "energy", "laplace"])
@pytest.mark.parametrize("d", [2, 5])
def test_permuted_set_has_distance_zero(kernel, d):
    x = np.random.default_rng(1).normal(size=(300, d))
    D = dk.kernel_distance(x, x[np.random.default_rng(2).permutation(300)], sigma=0.3, kernel=kernel)
    assert D <= 1e-14


@given(problems(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_gradients_match_finite_differences(problem, root):
    """Central differences along a random direction of all arguments; noise avoids equal points."""
    kernel, x, y, (p, q), sigma = problem
    rng = np.random.default_rng(len(x))
    x, y = x + 0.1 * rng.standard_normal(x.shape), y + 0.1 * rng.standard_normal(y.shape)
    sigma = 1.0 if np.ndim(sigma) == 0 and sigma < 1 else sigma

    def moved(t):
        return dk.kernel_distance(
            x + t * dx, y + t * dy, sigma=np.asarray(sigma + t * ds)[()], weights=(p + t * dp, q + t * dq),
            kernel=kernel, squared=not root, gradient=True,
        )  # fmt: skip

    dx, dy, dp, dq = (rng.standard_normal(a.shape) for a in (x, y, p, q))
    dq += (dp.sum() - dq.sum()) / len(q)
    ds = rng.standard_normal(np.shape(sigma))
    nearest = cdist(x, x)[np.triu_indices(len(x), 1)].min(initial=1), cdist(x, y).min()
    h = 1e-4 * min(1e-2, *nearest)
    D, slopes = moved(0.0)
    if root and D < 1e-2:
        return
    expected = (moved(h)[0] - moved(-h)[0]) / (2 * h)
    parts = (
        (slopes.P, dx),
        (slopes.Q, dy),
        (slopes.weights[0], dp),
        (slopes.weights[1], dq),
        (slopes.sigma, ds),
    )
    result = sum(float((a * b).sum()) for a, b in parts)
    W = np.abs(p).sum() + np.abs(q).sum()
    scale = (W + 1) ** 2 * (1 + np.ptp(np.concatenate([x, y]))) / (D if root else 1)
    assert abs(result - expected) <= 1e-15 / h * scale * 10 + 1e-5 * scale


def test_gradients_of_several_bandwidths_and_parameters():
    total, slopes = dk.kernel_distance(P, Q, sigma=[0.2, 0.7], squared=True, gradient=True)
    single = [dk.kernel_distance(P, Q, sigma=s, squared=True, gradient=True) for s in (0.2, 0.7)]
    assert total == pytest.approx(single[0][0] + single[1][0])
    np.testing.assert_allclose(slopes.P, single[0][1].P + single[1][1].P, atol=1e-16)
    np.testing.assert_allclose(slopes.sigma, [single[0][1].sigma, single[1][1].sigma])
    assert dk.kernel_distance(P, Q, h=2 * 0.7**2, squared=True, gradient=True)[1].sigma == pytest.approx(
        single[1][1].sigma
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": []}, "sigma must be a positive number, a sequence .* or a matrix"),
        ({"sigma": [1.0, -1.0]}, "sigma must be a positive number; got -1.0"),
        ({"sigma": np.eye(2)}, r"must be a finite \(3, 3\) matrix .*got shape \(2, 2\)"),
        ({"sigma": np.zeros((3, 3))}, "matrix with a condition number"),
        ({"sigma": [1.0, 2.0], "h": 1.0}, "got sigma and h"),
        ({"kernel": "energy", "weights": (None, np.ones(40))}, "must have equal sums .*differ by 39"),
        ({"kernel": "energy", "method": "fourier"}, "got 'fourier', which requires 'gaussian'"),
        ({"sigma": 1, "gradient": True, "method": "tree"}, "and method 'auto' or .*got method='tree'"),
        ({"sigma": 1, "gradient": True, "unbiased": True, "squared": True}, "Pass unbiased=False"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        dk.kernel_distance(P, Q, **options)


def test_derivatives_of_equal_sets_and_shapes_raise():
    with pytest.raises(ValueError, match="must be positive for derivatives of D"):
        dk.kernel_distance(P[:1], P[:1], sigma=1.0, gradient=True)
    c = dk.Curve(P)
    with pytest.raises(ValueError, match=r"requires point sets.*got shapes"):
        dk.kernel_distance(c, c, sigma=1.0, gradient=True)
    closed = dk.Curve(np.concatenate([P, P[:1]]))
    assert dk.kernel_distance(closed, closed, kernel="energy") == pytest.approx(0, abs=1e-7)
