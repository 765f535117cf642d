"""Numbers of features by theory: bounds hold in random trials, and are not void; deterministic ones are the least."""

import numpy as np
import pytest
from scipy.stats import poisson

import dkdist as dk
from dkdist.kernels._taylor_numba import n_terms
from dkdist.kernels.fourier_grid import fourier_grid
from dkdist.theory.feature_bounds import series_order

EPS, DELTA = 0.2, 0.2


def failures(worst_error, count, trials=100):
    """Share of random trials in which the worst error is above EPS."""
    return np.mean([worst_error(np.random.default_rng(seed), count) > EPS for seed in range(trials)])


def of_points(rng, F):
    x = np.random.default_rng(7).standard_normal((20, 3)) * 2
    W = rng.standard_normal((F, 3))
    phase = x @ W.T
    result = (np.cos(phase) @ np.cos(phase).T + np.sin(phase) @ np.sin(phase).T) / F
    return np.abs(result - np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 2)).max()


def of_ball(rng, F):
    t = np.linspace(0, 10, 300)  # x - y in a ball of diameter 10 sigma of the line
    return np.abs(np.cos(np.outer(t, rng.standard_normal(F))).mean(axis=1) - np.exp(-(t**2) / 2)).max()


def of_objects(rng, R):
    """Points of the unit interval, random ones too: the kernel is an integral over omega."""
    x, omega = np.linspace(0, 1, 30), (np.arange(4000) + 0.5) / 4000
    phi, exact = np.exp(-np.abs(x[:, None] - rng.random(R))), np.exp(-np.abs(x[:, None] - omega))
    return np.abs(phi @ phi.T / R - exact @ exact.T / 4000).max()


@pytest.mark.parametrize(
    ("worst_error", "arguments", "slack"),
    [
        (of_points, {"rule": "rff", "n_points": 20}, 8),
        (of_ball, {"rule": "rff", "n_dims": 1, "diameter": 10.0, "sigma": 1.0}, 12),
        (
            of_objects,
            {"rule": "d2ke", "n_points": 30},
            40,
        ),  # its terms vary by much less than Hoeffding allows
        (of_objects, {"rule": "d2ke", "n_dims": 1, "diameter": 1.0, "gamma": 1.0}, 80),
    ],
)
def test_random_features_fail_no_more_often_than_delta(worst_error, arguments, slack):
    n = dk.n_features_for(EPS, DELTA, **arguments)
    count = n // 2 if arguments["rule"] == "rff" else n
    assert failures(worst_error, count) <= DELTA
    assert failures(worst_error, max(1, count // slack)) > DELTA  # fewer would not do


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("eps", [0.1, 1e-3])
def test_a_grid_has_the_fewest_features(d, eps):
    n = dk.n_features_for(eps, rule="fourier", n_dims=d, diameter=3.0, sigma=0.7)
    widths = np.full(d, 3.0)
    grid = fourier_grid(widths, 0.7, eps, n)
    assert (grid.n_features, grid.error <= eps) == (n, True)
    assert fourier_grid(widths, 0.7, eps, n - 1).error > eps


@pytest.mark.parametrize("eps", [0.3, 1e-2, 1e-6])
@pytest.mark.parametrize("delta", [0.1, 1.0, 4.0])
def test_orders_of_the_taylor_series(eps, delta):
    order = series_order(eps, delta)
    assert order * np.log(order / (np.e * delta**2)) >= np.log(1 / eps)
    if order > 1:
        assert (order - 1) * np.log((order - 1) / (np.e * delta**2)) < np.log(1 / eps)
    assert poisson.sf(order - 1, delta**2) <= eps  # what is left out
    options = {"n_dims": 2, "diameter": 2 * delta, "sigma": 1.0}
    terms = dk.n_features_for(eps, rule="taylor", **options)
    least = next(tau for tau in range(1, 1000) if poisson.sf(tau - 1, delta**2) <= eps)
    assert terms == n_terms(2, least) <= dk.n_features_for(eps, rule="ifgt", **options) == n_terms(2, order)


def test_more_is_asked_for_more():
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
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        dk.n_features_for(**({"eps": 0.1} | arguments))
