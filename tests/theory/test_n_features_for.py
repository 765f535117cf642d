"""Numbers of features by theory: bounds hold in random trials and are tight; deterministic numbers are minimal."""

import numpy as np
import pytest
from scipy.stats import poisson

import dkdist as dk
from dkdist.kernels._taylor_numba import n_terms
from dkdist.kernels.fourier_grid import fourier_grid
from dkdist.theory.feature_bounds import series_order

EPS, DELTA = 0.2, 0.2


def failure_rate(max_error, count, trials=100):
    """Return the fraction of random trials whose maximum error is above EPS."""
    return np.mean([max_error(np.random.default_rng(seed), count) > EPS for seed in range(trials)])


def max_error_of_points(rng, F):
    x = np.random.default_rng(7).standard_normal((20, 3)) * 2
    W = rng.standard_normal((F, 3))
    phase = x @ W.T
    result = (np.cos(phase) @ np.cos(phase).T + np.sin(phase) @ np.sin(phase).T) / F
    return np.abs(result - np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 2)).max()


def max_error_in_ball(rng, F):
    t = np.linspace(0, 10, 300)  # x - y in a ball of diameter 10 sigma of the line
    return np.abs(np.cos(np.outer(t, rng.standard_normal(F))).mean(axis=1) - np.exp(-(t**2) / 2)).max()


def max_error_of_objects(rng, R):
    """Objects and random objects are points of the unit interval; the kernel is an integral over omega."""
    x, omega = np.linspace(0, 1, 30), (np.arange(4000) + 0.5) / 4000
    phi, exact = np.exp(-np.abs(x[:, None] - rng.random(R))), np.exp(-np.abs(x[:, None] - omega))
    return np.abs(phi @ phi.T / R - exact @ exact.T / 4000).max()


@pytest.mark.parametrize(
    ("max_error", "arguments", "slack"),
    [
        (max_error_of_points, {"rule": "rff", "n_points": 20}, 8),
        (max_error_in_ball, {"rule": "rff", "n_dims": 1, "diameter": 10.0, "sigma": 1.0}, 12),
        # the terms vary much less than Hoeffding's inequality assumes
        (max_error_of_objects, {"rule": "d2ke", "n_points": 30}, 40),
        (max_error_of_objects, {"rule": "d2ke", "n_dims": 1, "diameter": 1.0, "gamma": 1.0}, 80),
    ],
)
def test_failure_rate_of_random_features_is_at_most_delta(max_error, arguments, slack):
    n = dk.n_features_for(EPS, DELTA, **arguments)
    count = n // 2 if arguments["rule"] == "rff" else n
    assert failure_rate(max_error, count) <= DELTA
    assert failure_rate(max_error, max(1, count // slack)) > DELTA  # fewer features fail more often


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("eps", [0.1, 1e-3])
def test_number_of_grid_features_is_minimal(d, eps):
    n = dk.n_features_for(eps, rule="fourier", n_dims=d, diameter=3.0, sigma=0.7)
    widths = np.full(d, 3.0)
    grid = fourier_grid(widths, 0.7, eps, n)
    assert (grid.n_features, grid.error <= eps) == (n, True)
    assert fourier_grid(widths, 0.7, eps, n - 1).error > eps


@pytest.mark.parametrize("eps", [0.3, 1e-2, 1e-6])
@pytest.mark.parametrize("delta", [0.1, 1.0, 4.0])
def test_order_of_the_taylor_series_is_minimal(eps, delta):
    order = series_order(eps, delta)
    assert order * np.log(order / (np.e * delta**2)) >= np.log(1 / eps)
    if order > 1:
        assert (order - 1) * np.log((order - 1) / (np.e * delta**2)) < np.log(1 / eps)
    assert poisson.sf(order - 1, delta**2) <= eps  # truncation error
    options = {"n_dims": 2, "diameter": 2 * delta, "sigma": 1.0}
    terms = dk.n_features_for(eps, rule="taylor", **options)
    min_order = next(tau for tau in range(1, 1000) if poisson.sf(tau - 1, delta**2) <= eps)
    assert (
        terms == n_terms(2, min_order) <= dk.n_features_for(eps, rule="ifgt", **options) == n_terms(2, order)
    )


def test_number_of_features_increases_with_requirements():
    def points(eps=0.1, delta=0.1, n=100):
        return dk.n_features_for(eps, delta, rule="rff", n_points=n)

    assert points(n=10) < points() < points(n=1000)
    assert points() < points(delta=0.01) < points(eps=0.05)
    assert points() % 2 == 0
    ball = [
        dk.n_features_for(0.1, rule="rff", n_dims=d, diameter=w, sigma=1.0)
        for d, w in ((1, 1), (1, 9), (5, 9))
    ]
    assert ball == sorted(ball)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "jl", "n_points": 3}, "rule must be one of 'rff'.*got 'jl'"),
        ({"rule": "rff"}, "requires n_points or n_dims, diameter, sigma; got no parameters"),
        ({"rule": "rff", "n_points": 3, "sigma": 1.0}, "got n_points, sigma"),
        ({"rule": "taylor", "n_points": 3}, "requires n_dims, diameter, sigma"),
        ({"rule": "rff", "n_points": 0}, "n_points must be an integer"),
        ({"rule": "fourier", "n_dims": 4, "diameter": 1.0, "sigma": 1.0}, "n_dims must be at most 3"),
        ({"rule": "fourier", "n_dims": 3, "diameter": 1.0, "sigma": 1e-3}, "more than 131072"),
        ({"rule": "taylor", "n_dims": 2, "diameter": 1.0, "sigma": 1e-3}, "order above"),
        ({"eps": 1.5, "rule": "rff", "n_points": 3}, "below 1"),
        ({"delta": -1, "rule": "rff", "n_points": 3}, "delta must be a positive number"),
    ],
)
def test_invalid_options_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        dk.n_features_for(**({"eps": 0.1} | arguments))
