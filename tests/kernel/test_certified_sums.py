"""Certified and exact kernel distances: several scales, matrices, unbiased estimates, derivatives, method "auto".

``pytest -s -m slow`` on this file runs 10,000 trials of each test and prints the maximum ratio of error and bound.
"""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.kernels.kernel_distance import MAX_DIRECT_POINTS

from .kernel_trials import (
    ULP,
    adversarial_trial,
    exact_energy,
    for_kernel,
    max_ratio,
    random_trial,
    reraise_unless,
    weights_or_equal,
    with_nonnegative_weights,
    with_trials,
)

MIXED = ("matern12", "matern32", "matern52", "rational-quadratic", "energy")
SORTED = ("laplace", "matern12", "matern32", "matern52", "energy")
PRODUCTS = 1e-10  # error / W^2 of "exact" in more than three dimensions
POINT_LIMITS = {
    f"dkdist.kernels.{name}.MAX_DIRECT_POINTS": 2 for name in ("methods", "kernel_distance", "mmd_problem")
}


@pytest.fixture
def no_direct_sums(monkeypatch):
    """Use the methods for many points with few points."""
    for name, value in POINT_LIMITS.items():
        monkeypatch.setattr(name, value)


def force_mixtures(monkeypatch):
    """Use Gaussian mixtures instead of sums over all pairs."""
    for name in ("GAUSSIAN_PLAN_NS", "WIDE_POINT_NS", "NARROW_POINT_NS"):
        monkeypatch.setattr(f"dkdist.kernels.methods.{name}", 0.0)


def mixed_trial(seed):
    """Return a random trial for every fifth seed, otherwise an adversarial trial."""
    return random_trial(seed) if seed % 5 == 4 else adversarial_trial(seed)


def signed_points(x, y, weights):
    """Return the points of both sets and their signed weights in D^2."""
    p, q = weights_or_equal(weights, x, y)
    return np.concatenate([x, y]), np.concatenate([p, -q])


def rounding_bound(both, z, sigma, kernel):
    """Return a bound of rounding errors of coordinates, of k and of the sum."""
    n, d = both.shape
    width = float(np.ptp(both, axis=0).max()) / sigma
    return ULP * np.abs(z).sum() ** 2 * (2 * n + 8 + 4 * d * width) * (1 + width if kernel == "energy" else 1)


@with_trials(20)
@pytest.mark.parametrize("kernel", SORTED)
def test_sorted_sums_are_exact_up_to_rounding(kernel, n_trials, no_direct_sums, request):
    """Points on a line, and "laplace" in up to three dimensions."""

    def ratio(seed):
        x, y, sigma, weights, _ = for_kernel(mixed_trial(seed), kernel)
        if kernel != "laplace":
            x, y = x[:, :1], y[:, :1]
        result = dk.kernel_distance(x, y, sigma=sigma, weights=weights, squared=True, kernel=kernel)
        both, z = signed_points(x, y, weights)
        exact = exact_energy(both, z, 1 / np.longdouble(sigma), kernel)
        return float(abs(result - exact)) / rounding_bound(both, z, sigma, kernel)

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(20)
@pytest.mark.parametrize("kernel", ["gaussian", *MIXED, "laplace"])
def test_all_pairs_are_exact_up_to_rounding(kernel, n_trials, request):
    """In more than three dimensions, products of coordinates have larger rounding errors."""

    def ratio(seed):
        x, y, sigma, weights, _ = for_kernel(mixed_trial(seed), kernel)
        if seed % 3 == 0:
            x, y = (np.tile(s, 4)[:, : 4 + seed % 5] for s in (x, y))
        result = dk.kernel_distance(
            x, y, sigma=sigma, weights=weights, squared=True, kernel=kernel, method="exact"
        )
        both, z = signed_points(x, y, weights)
        exact = exact_energy(both, z, 1 / np.longdouble(sigma), kernel)
        bound = rounding_bound(both, z, sigma, kernel)
        if both.shape[1] > 3:
            bound += PRODUCTS * np.abs(z).sum() ** 2
        return float(abs(result - exact)) / bound

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(8)
@pytest.mark.parametrize("kernel", ["gaussian", "rational-quadratic", "laplace"])
def test_auto_of_many_points_is_within_eps(kernel, n_trials, request):
    """Points are repeated with random weights, without changes of thresholds."""

    def ratio(seed):
        x, y, sigma, weights, eps = for_kernel(mixed_trial(seed), kernel)
        rng = np.random.default_rng([seed, 0x434F])
        repeated = []
        for s, w in zip((x, y), weights_or_equal(weights, x, y), strict=True):
            copies = -(-int(MAX_DIRECT_POINTS * rng.choice([0.6, 1, 3])) // len(s))
            parts = w[:, None] * rng.dirichlet(np.ones(copies), len(s))
            order = rng.permutation(parts.size)
            repeated.append((np.repeat(s, copies, axis=0)[order], parts.ravel()[order]))
        (a, p), (b, q) = repeated
        result = dk.kernel_distance(a, b, sigma=sigma, weights=(p, q), squared=True, eps=eps, kernel=kernel)
        exact = exact_energy(*signed_points(x, y, weights), 1 / np.longdouble(sigma), kernel)
        return float(abs(result - exact)) / eps

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(8)
@pytest.mark.parametrize("kernel", ["gaussian", "matern32", "rational-quadratic"])
@pytest.mark.parametrize("scales", ["several", "matrix"])
def test_several_scales_and_matrices_are_within_eps(
    kernel, scales, n_trials, no_direct_sums, monkeypatch, request
):
    force_mixtures(monkeypatch)

    def ratio(seed):
        x, y, sigma, weights, eps = mixed_trial(seed)
        rng = np.random.default_rng([seed, 0x5343])
        d, method = x.shape[1], "fourier" if kernel == "gaussian" and seed % 2 else "auto"
        if scales == "several":
            value = sigma * 4.0 ** np.arange(rng.integers(1, 4))
            inverses = [1 / np.longdouble(s) for s in value]
        else:
            value = sigma * (np.diag(4.0 ** rng.uniform(0, 1, d)) + rng.uniform(-0.2, 0.2, (d, d)))
            inverses = [np.linalg.inv(value)]
        try:
            result = dk.kernel_distance(
                x, y, sigma=value, weights=weights, squared=True, eps=eps, kernel=kernel, method=method
            )
        except ValueError as error:
            return reraise_unless(error, "method='fourier' needs")
        both, z = signed_points(x, y, weights)
        exact = sum(exact_energy(both, z, inverse, kernel) for inverse in inverses)
        return float(abs(result - exact)) / eps

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(20)
@pytest.mark.parametrize("kernel", ["gaussian", "matern52"])
def test_unbiased_estimates_are_within_eps(kernel, n_trials, no_direct_sums, monkeypatch, request):
    force_mixtures(monkeypatch)

    def ratio(seed):
        x, y, sigma, weights, eps = with_nonnegative_weights(mixed_trial(seed), seed)
        p, q = weights_or_equal(weights, x, y)
        if min((p > 0).sum(), (q > 0).sum()) < 2:
            return None
        method = ("auto", "fourier", "tree")[seed % 3] if kernel == "gaussian" else "auto"
        try:
            result = dk.kernel_distance(
                x,
                y,
                sigma=sigma,
                weights=weights,
                squared=True,
                eps=eps,
                unbiased=True,
                kernel=kernel,
                method=method,
            )
        except ValueError as error:
            return reraise_unless(error, "' needs ", "eps is too small for method='fourier'")
        inverse = 1 / np.longdouble(sigma)
        exact = exact_energy(*signed_points(x, y, weights), inverse, kernel)
        for s, w in ((x, p), (y, q)):
            self_energy, r = (
                exact_energy(s, w, inverse, kernel),
                (w.astype(np.longdouble) ** 2).sum() / w.sum() ** 2,
            )
            exact += (self_energy - (w**2).sum()) / (1 - r) - self_energy
        return float(abs(result - exact)) / eps

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(30)
def test_derivatives_on_meshes_are_within_eps(n_trials, request):
    """w_i f(x_i) and sigma w_i grad f(x_i) are each off by at most eps |w_i| / W."""

    def ratio(seed):
        x, y, sigma, weights, eps = mixed_trial(seed)
        try:
            _, slopes = dk.kernel_distance(
                x, y, sigma=sigma, weights=weights, squared=True, eps=eps, gradient=True, method="fourier"
            )
        except ValueError as error:
            return reraise_unless(error, "has no mesh")
        both, z = signed_points(x, y, weights)
        differences = (both[:, None] - both).astype(np.longdouble) / sigma
        k = np.exp(-(differences**2).sum(axis=2) / 2) * z
        f, g = k.sum(axis=1), -(k[:, :, None] * differences).sum(axis=1)
        by_weight = np.concatenate([slopes.weights[0], -slopes.weights[1]])
        by_point = sigma * np.concatenate([slopes.P, slopes.Q])
        error = np.abs(by_weight / 2 - f).max(), np.abs(by_point / 2 - z[:, None] * g) / np.abs(z[:, None])
        return float(max(error[0], error[1].max()) * np.abs(z).sum() / eps)

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(12)
@pytest.mark.filterwarnings(
    "ignore:the kernel error of method='fourier' is up to"
)  # the bound holds even with too few features
@pytest.mark.filterwarnings("ignore:column . of the points")  # the points are float32 already
def test_rows_of_mean_embeddings_are_within_error_bound(n_trials, request):
    """Inner products of rows are mean kernels within `error_bound_`."""

    def ratio(seed):
        x, y, sigma, weights, _ = with_nonnegative_weights(adversarial_trial(seed), seed)
        x, y = x.astype(np.float32), y.astype(np.float32)
        sets = dk.SampleSets.from_arrays([x, y], list(weights_or_equal(weights, x, y)))
        model = dk.MeanEmbedding(512, sigma=sigma, method="fourier").fit(sets)
        rows = model.transform(sets).astype(np.float64)
        p, q = weights_or_equal(weights, x, y)
        both, z = signed_points(x.astype(float), y.astype(float), (p, q))
        exact = float(exact_energy(both, z, 1 / np.longdouble(sigma), "gaussian"))
        return abs(float(((rows[0] - rows[1]) ** 2).sum()) - exact) / (4 * model.error_bound_)

    assert max_ratio(request.node.name, ratio, n_trials, 0.2) <= 1
