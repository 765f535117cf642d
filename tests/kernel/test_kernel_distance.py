"""Kernel distances of point sets: every method compared with brute force, within its stated error."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk

RNG = np.random.default_rng(0)
P, Q = RNG.random((60, 2)), RNG.random((40, 2)) + 0.2


def kappa(x, y, p, q, sigma):
    return float(p @ np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=2) / (2 * sigma**2)) @ q)


def brute(x, y, sigma, weights=(None, None)):
    p, q = (np.full(len(s), 1 / len(s)) if w is None else w for s, w in zip((x, y), weights, strict=True))
    return kappa(x, x, p, p, sigma) + kappa(y, y, q, q, sigma) - 2 * kappa(x, y, p, q, sigma)


@st.composite
def problems(draw, most_dims):
    """Return (P, Q, sigma, weights): few points, equal points, offsets, different bandwidths and signed weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d, n, m = draw(st.integers(1, most_dims)), draw(st.integers(1, 90)), draw(st.integers(1, 90))
    x, y = rng.standard_normal((n, d)), rng.standard_normal((m, d)) + draw(st.sampled_from([0, 1, 20]))
    if draw(st.booleans()):  # many equal points, and some in both sets
        x, y = np.round(x), np.round(y)
    if draw(st.booleans()):
        x[:, 0] = y[:, 0] = 0.5
    sigma = draw(st.sampled_from([1e-6, 0.01, 0.3, 2.0, 1e4]))
    weights = draw(st.sampled_from([None, "signed", "one"]))
    w = (
        None
        if weights is None
        else (rng.standard_normal(n), None if weights == "one" else rng.standard_normal(m))
    )
    offset = draw(st.sampled_from([0.0, 1e6]))
    scale = draw(st.sampled_from([1e-9, 1.0, 1e9]))
    # rounding of the offset affects the reference too
    x, y = (
        scale * (x + offset),
        scale * (y + offset),
    )
    return x, y, scale * sigma, w


def total(weights, n, m):
    p, q = weights or (None, None)
    return sum(1.0 if w is None else float(np.abs(w).sum()) for w in (p, q))


@given(problems(most_dims=6))
@settings(max_examples=60, deadline=None)
def test_method_exact_matches_brute_force(problem):
    x, y, sigma, weights = problem
    result = dk.kernel_distance(x, y, sigma=sigma, method="exact", squared=True, weights=weights)
    assert (
        abs(result - brute(x, y, sigma, weights or (None, None)))
        <= 1e-10 * total(weights, len(x), len(y)) ** 2
    )


@pytest.mark.parametrize("method", ["auto", "fourier", "tree", "wspd"])
@given(problem=problems(most_dims=3), eps=st.sampled_from([1e-1, 1e-3, 1e-6]))
@settings(max_examples=40, deadline=None)
def test_methods_are_within_eps(method, problem, eps):
    x, y, sigma, weights = problem
    if method == "fourier":
        # smaller sigmas need too many modes
        sigma = max(sigma, 0.02 * np.ptp(np.concatenate([x, y]), axis=0).max())
    scale = total(weights, len(x), len(y)) ** 2
    result = dk.kernel_distance(
        x, y, sigma=sigma, method=method, squared=True, weights=weights, eps=eps * scale
    )
    assert abs(result - brute(x, y, sigma, weights or (None, None))) <= (eps + 1e-10) * scale


@given(problems(most_dims=6), st.sampled_from([1e-1, 1e-3, 1e-8]))
@settings(max_examples=40, deadline=None)
def test_taylor_keeps_to_eps_or_refuses(problem, eps):
    x, y, sigma, weights = problem
    scale = total(weights, len(x), len(y)) ** 2
    distance = lambda: dk.kernel_distance(  # noqa: E731
        x, y, sigma=sigma, method="taylor", squared=True, weights=weights, eps=eps * scale
    )
    both = np.concatenate([x, y])
    delta = np.sqrt(((both - (both.max(axis=0) + both.min(axis=0)) / 2) ** 2).sum(axis=1).max()) / sigma
    try:
        result = distance()
    except ValueError as error:
        refusals = "method='taylor' needs order", "method='taylor' requires points within"
        if delta < 1.5 or not str(error).startswith(refusals):
            raise
    else:
        assert delta < 100
        assert abs(result - brute(x, y, sigma, weights or (None, None))) <= (eps + 1e-10) * scale


@pytest.mark.parametrize("d", [1, 2, 20])
def test_rff_has_the_stated_standard_error(d):
    rng = np.random.default_rng(d)
    x, y = rng.standard_normal((80, d)), rng.standard_normal((70, d)) + 0.3
    weights, sigma = (rng.standard_normal(80) / 80, None), np.sqrt(d)
    exact = brute(x, y, sigma, weights)
    result = [
        dk.kernel_distance(
            x, y, sigma=sigma, method="rff", squared=True, weights=weights, eps=1e-2, random_state=seed
        )
        for seed in range(30)
    ]
    errors = np.array(result) - exact
    assert np.sqrt((errors**2).mean()) < 1.3e-2
    assert len(set(result)) == 30
    repeated = dk.kernel_distance(
        x, y, sigma=sigma, method="rff", squared=True, weights=weights, eps=1e-2, random_state=3
    )
    assert repeated == result[3]


@pytest.mark.parametrize("method", ["exact", "fourier", "rff", "taylor", "tree", "wspd"])
def test_two_points_match_closed_form(method):
    d2 = 2 - 2 * np.exp(-0.5)
    for form in ({"sigma": 5.0}, {"h": 50.0}, {"gamma": 0.02}):
        options = {"method": method, "eps": 0.02, "random_state": 0, **form}
        assert dk.kernel_distance([[0.0, 0.0]], [[3, 4]], **options) == pytest.approx(d2**0.5, abs=0.02)
        assert dk.kernel_distance([[0.0, 0.0]], [[3, 4]], squared=True, **options) == pytest.approx(
            d2, abs=0.05
        )


@pytest.mark.parametrize("method", ["exact", "fourier", "tree", "taylor"])
def test_normal_distributions_match_closed_form(method):
    """By Gauss-Hermite nodes; E k = prod_j sigma / v_j exp(-mu_j^2 / (2 v_j^2)), v^2 = sigma^2 + s^2 + t^2."""
    nodes, w = np.polynomial.hermite_e.hermegauss(40)
    square = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    mu, s, t, sigma = np.array([0.7, -0.4]), np.array([1.0, 0.5]), np.array([0.6, 0.8]), 1.5

    def mean(mu, s, t):
        v2 = sigma**2 + s**2 + t**2
        return np.prod(sigma / np.sqrt(v2) * np.exp(-(mu**2) / (2 * v2)))

    expected = mean(0, s, s) + mean(0, t, t) - 2 * mean(mu, s, t)
    result = dk.kernel_distance(
        square * s,
        square * t + mu,
        sigma=sigma,
        method=method,
        squared=True,
        eps=1e-8,
        weights=(weights, weights),
    )
    assert result == pytest.approx(expected, abs=2e-8)


def test_samples_approach_distance_of_normal_distributions():
    """E k(x - y) of normal differences: sigma^d / (sigma^2 + 2 s^2)^(d/2) exp(-mu^2 / 2 (sigma^2 + 2 s^2))."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(0, 1, (8000, 2)), rng.normal(0.8, 1, (8000, 2))
    self_kernel = 1 / 3  # sigma = 1, d = 2
    expected = 2 * self_kernel * (1 - np.exp(-2 * 0.8**2 / 6))
    biased = dk.kernel_distance(x, y, sigma=1.0, squared=True)
    unbiased = dk.kernel_distance(x, y, sigma=1.0, squared=True, unbiased=True)
    assert biased == pytest.approx(expected, abs=0.01)
    assert biased - unbiased == pytest.approx(2 * (1 - self_kernel) / 8000, abs=2e-5)


@pytest.mark.parametrize("method", ["exact", "fourier", "tree"])
def test_unbiased_omits_the_diagonal(method):
    def mean(x, y, self_kernel):
        K = np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=2) / (2 * 0.3**2))
        return (K.sum() - len(x)) / (len(x) * (len(x) - 1)) if self_kernel else K.mean()

    result = dk.kernel_distance(P, Q, sigma=0.3, squared=True, unbiased=True, method=method, eps=1e-5)
    assert result == pytest.approx(mean(P, P, True) + mean(Q, Q, True) - 2 * mean(P, Q, False), abs=1e-5)


@pytest.mark.parametrize("method", ["auto", "exact", "fourier", "tree", "taylor", "wspd", "rff"])
def test_unbiased_with_weights_matches_all_pairs(method):
    rng = np.random.default_rng(0)
    p, q = rng.random(60), 3 * rng.random(40)
    p[:5] = 0

    def self_kernel(x, w):
        K = np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=2) / (2 * 0.5**2))
        np.fill_diagonal(K, 0)
        return w @ K @ w / (1 - (w**2).sum() / w.sum() ** 2)

    expected = self_kernel(P, p) + self_kernel(Q, q) - 2 * kappa(P, Q, p, q, 0.5)
    W = p.sum() + q.sum()
    eps = {"rff": 3e-4, "wspd": 1e-4}.get(method, 1e-7) * W**2
    options = {"sigma": 0.5, "squared": True, "unbiased": True, "weights": (p, q), "random_state": 0}
    result = dk.kernel_distance(P, Q, method=method, eps=eps, **options)
    assert abs(result - expected) <= (4 if method == "rff" else 1) * eps


def test_unbiased_has_mean_zero_and_negative_values():
    """For 600 pairs of weighted samples of one distribution, the mean is 0 within 4.5 standard errors."""
    rng = np.random.default_rng(1)
    w, v = rng.random(15) + 0.1, rng.random(25) + 0.1
    options = {"sigma": 1.0, "squared": True, "unbiased": True, "weights": (w / w.sum(), v / v.sum())}
    result = np.array(
        [
            dk.kernel_distance(rng.normal(size=(15, 2)), rng.normal(size=(25, 2)), **options)
            for _ in range(600)
        ]
    )
    assert abs(result.mean()) < 4.5 * result.std() / np.sqrt(600)
    assert result.min() < 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"squared": False}, "got squared=False and point sets with 60 and 40"),
        ({"squared": True, "weights": (np.eye(60)[0], None)}, "with 1 and 40 weights above 0"),
        ({"squared": True, "weights": (np.linspace(-1, 1, 60), None)}, "minimum -1"),
    ],
)
def test_unbiased_with_invalid_options_raises(options, message):
    with pytest.raises(
        ValueError, match=f"requires squared=True and point sets with weights >= 0.*{message}"
    ):
        dk.kernel_distance(P, Q, sigma=1.0, unbiased=True, **options)


def test_median_bandwidth_uses_points_of_both_sets():
    both = np.concatenate([P, Q])
    distances = np.sqrt(((both[:, None] - both) ** 2).sum(axis=2))
    sigma = float(np.median(distances[np.triu_indices(100, 1)]))
    assert dk.kernel_distance(P, Q, sigma="median") == pytest.approx(dk.kernel_distance(P, Q, sigma=sigma))


def test_other_kernels_match_formulas():
    r = {
        (a, b): np.sqrt(((x[:, None] - y) ** 2).sum(axis=2)) / 0.4
        for a, x in (("P", P), ("Q", Q))
        for b, y in (("P", P), ("Q", Q))
    }
    for kernel, k in (
        ("laplacian", lambda r: np.exp(-r)),
        ("epanechnikov", lambda r: np.maximum(0, 1 - r**2)),
    ):
        expected = k(r["P", "P"]).mean() + k(r["Q", "Q"]).mean() - 2 * k(r["P", "Q"]).mean()
        assert dk.kernel_distance(P, Q, sigma=0.4, kernel=kernel, squared=True) == pytest.approx(expected)
        assert dk.kernel_distance(P, Q, sigma=0.4, kernel=kernel) == pytest.approx(expected**0.5)


def test_negative_square_raises_without_squared():
    grid = np.arange(60)[:, None] * 0.7
    # only neighbours have a nonzero kernel value, 0.51
    signs = np.cos(np.pi * np.arange(60)) * np.hanning(60)
    options = {"sigma": 1.0, "kernel": "epanechnikov", "weights": (signs, [1e-200])}
    square = float((signs**2).sum() + 2 * 0.51 * (signs[1:] * signs[:-1]).sum())
    assert square < -0.3
    assert dk.kernel_distance(grid, [[0.0]], squared=True, **options) == pytest.approx(square)
    with pytest.raises(ValueError, match="not positive definite"):
        dk.kernel_distance(grid, [[0.0]], **options)


def test_distance_is_a_pseudometric():
    R = RNG.random((30, 2)) * 3
    d = lambda x, y: dk.kernel_distance(x, y, sigma=0.3)  # noqa: E731
    assert d(P, P) < 1e-7
    assert d(P, Q) == pytest.approx(d(Q, P))
    assert d(P, Q) <= d(P, R) + d(R, Q)
    assert d(P[::-1], Q) == pytest.approx(d(P, Q))


def test_default_bandwidth_is_the_median_distance():
    assert dk.kernel_distance(P, Q, random_state=0) == dk.kernel_distance(
        P, Q, sigma="median", random_state=0
    )
    np.testing.assert_array_equal(dk.witness(P, Q, P[:3]), dk.witness(P, Q, P[:3], sigma="median"))
    default, explicit = (dk.coreset(P, 5, random_state=0, **options) for options in ({}, {"sigma": "median"}))
    np.testing.assert_array_equal(default.points, explicit.points)
    assert dk.kernel_distance(P, Q, kernel="energy") == dk.kernel_distance(P, Q, sigma=1.0, kernel="energy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 1, "h": 1}, "got sigma and h"),
        ({"sigma": 0}, "sigma must be a positive number; got 0"),
        ({"sigma": "mean"}, "sigma must be one of 'median'; got 'mean'"),
        ({"gamma": "median"}, "gamma must be"),
        ({"sigma": 1e-200}, "Check the units"),
        ({"sigma": 1, "method": "fft"}, "'exact', 'fourier'.*got 'fft'"),
        ({"sigma": 1, "kernel": "cosine"}, "kernel must be one of"),
        ({"sigma": 1, "kernel": "laplacian", "method": "tree"}, "got 'tree', which requires 'gaussian'"),
        ({"h": 1, "kernel": "laplacian"}, "h requires kernel='gaussian'; got 'laplacian'. Pass sigma"),
        ({"sigma": 1, "eps": -1}, "eps must be a positive number"),
        ({"sigma": 1, "weights": [1, 2, 3]}, "a pair"),
        ({"sigma": 1, "weights": (None, np.zeros(40))}, "weights of Q must not all be zero"),
        ({"sigma": 1, "weights": (np.ones(3), None)}, "weights of P must be 60 real numbers"),
        ({"sigma": 1, "weights": (None, np.full(40, np.nan))}, "weights of Q must be finite; got nan at point 0"),
        ({"sigma": 1, "weights": (None, np.full(40, 1e200))}, "a sum from .* to 1e\\+150; got 4e\\+201"),
        ({"sigma": 1, "weights": (np.full(60, 1e-200), np.full(40, -1e-200))}, "a sum from 1e-140 to .*; got 1e-198"),
        ({"sigma": 1, "weights": (None, np.full(40, 1e308))}, "to 1e\\+150; got inf"),
        ({"sigma": 1, "weights": (None, [[1], [1, 2]])}, "weights of Q cannot be converted to an array"),
        ({"sigma": 1e-310}, "sigma=1e-310 is too small for float64"),
        ({"h": 5e-324}, "h=5e-324 is too small for float64"),
        ({"gamma": 1e-320}, "gamma=1e-320 is too large for float64"),
        ({"h": "median"}, "Only sigma accepts 'median'"),
        ({"sigma": 1, "unbiased": True}, "requires squared=True"),
        ({"sigma": 1, "method": "fourier", "eps": 1e-20}, "eps is too small for method='fourier'; got 1e-20"),
        ({"sigma": 1e-6, "method": "fourier"}, "method='fourier' needs .* modes"),
        ({"sigma": 0.01, "method": "taylor"}, "method='taylor' needs order"),
        ({"sigma": 0.3, "method": "rff", "eps": 1e-9}, "standard error of"),
        ({"sigma": 1e-6, "method": "rff"}, "has float32 phases, which change"),
        ({"sigma": 1, "method": "rff", "random_state": -1}, "random_state"),
    ],
)  # fmt: skip
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        dk.kernel_distance(P, Q, **options)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (P, np.zeros((0, 2)), "Q must be points.*shape (0, 2)"),
        (P[None], Q, "P must be points"),
        (P, np.zeros((3, 5)), "P and Q must have the same number of dimensions; got 2 and 5"),
        (P, [[0, 0], [np.nan, 1]], "Q must be finite; got [nan, 1.0] at point 1"),
        (P, [["a", "b"]], "real numbers"),
        ([[-1e308]], [[1.5e308]], "bandwidths wide; got width inf"),
        ([[0, 0], [1]], Q, "P cannot be converted to an array"),
        (np.ma.masked_greater(P, 0.5), Q, "P must not contain masked values"),
        (P, dk.Curve(Q), "must both be point sets, curves or surfaces; got ndarray and Curve"),
    ],
)  # fmt: skip
def test_invalid_points_raise(x, y, message):
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\.\*", ".*")):
        dk.kernel_distance(x, y, sigma=1.0)


def test_fourier_in_many_dimensions_and_median_of_equal_points_raise():
    with pytest.raises(ValueError, match="at most 3 dimensions; got 4"):
        dk.kernel_distance(np.zeros((5, 4)), np.ones((5, 4)), sigma=1.0, method="fourier")
    with pytest.raises(ValueError, match="requires distinct points"):
        dk.kernel_distance(np.zeros((5, 4)), np.zeros((5, 4)), sigma="median")


@pytest.mark.parametrize(("d", "sigma"), [(1, 0.3), (2, 0.05), (3, 1e-4), (5, 30.0), (5, 0.5)])
def test_auto_of_many_points_is_within_eps(d, sigma):
    """The cases use frequencies, cells, a tree, Taylor terms and all pairs."""
    rng = np.random.default_rng(d)
    x, y = rng.random((2500, d)), rng.random((2000, d)) ** 1.2
    result = dk.kernel_distance(x, y, sigma=sigma, squared=True)
    assert abs(result - dk.kernel_distance(x, y, sigma=sigma, squared=True, method="exact")) <= 1e-4


@pytest.mark.parametrize("method", ["auto", "exact", "fourier", "rff", "taylor", "tree", "wspd"])
@pytest.mark.parametrize("unit", [1e-250, 1e-120, 1e-20, 1e20, 1e120, 1e250])
def test_distance_scales_with_units_and_weights(method, unit):
    """D(uP, uQ; u sigma) = D(P, Q; sigma), and a D for weights times a, even if squares overflow or underflow."""
    heavy = min(max(unit, 1e-130), 1e130)
    options = {"method": method, "random_state": 0}
    expected = dk.kernel_distance(P, Q, sigma=0.4, eps=1e-3, **options)
    result = dk.kernel_distance(unit * P, unit * Q, sigma=0.4 * unit, eps=1e-3, **options)
    assert result == pytest.approx(expected, rel=1e-6)
    weights = np.full(60, heavy / 60), np.full(40, heavy / 40)
    result = dk.kernel_distance(P, Q, sigma=0.4, weights=weights, eps=1e-3 * heavy**2, **options)
    assert result == pytest.approx(heavy * expected, rel=1e-6)


@pytest.mark.parametrize("sigma", [0.0275, 0.0265, 0.02])
def test_taylor_terms_do_not_overflow_or_underflow(sigma):
    """In one dimension, orders of thousands are allowed: u^t / t!^(1/2) exp(-u^2 / 2) must stay representable."""
    x, y = np.linspace(-1, 1, 50)[:, None], np.linspace(-1, 1, 33)[:, None] ** 3
    if sigma < 1 / 37:
        with pytest.raises(ValueError, match="within 37 bandwidths of their centre"):
            dk.kernel_distance(x, y, sigma=sigma, method="taylor", eps=1e-6)
    else:
        result = dk.kernel_distance(x, y, sigma=sigma, squared=True, method="taylor", eps=1e-6)
        assert abs(result - brute(x, y, sigma)) <= 1e-6


def test_inputs_are_not_modified():
    rng = np.random.default_rng(0)
    P, Q = rng.normal(3, 1, (50, 5)), rng.normal(0, 1, (60, 5))
    copies = P.copy(), Q.copy()
    for extra_options in ({}, {"unbiased": True}, {"gradient": True}):
        dk.kernel_distance(P, Q, sigma=2.5, squared=True, **extra_options)
    np.testing.assert_array_equal(P, copies[0])
    np.testing.assert_array_equal(Q, copies[1])
