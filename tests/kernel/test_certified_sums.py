"""Certified and exact kernel distances beyond one Gaussian: scales, matrices, unbiased, derivatives, as "auto" has it.

``pytest -s -m slow`` on this file runs 10,000 trials of each and prints the greatest ratio of error and bound.
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
    greatest,
    many,
    of_kind,
    random_trial,
    refused,
    shares,
    without_signs,
)

MIXED = ("matern12", "matern32", "matern52", "rational-quadratic", "energy")
SORTED = ("laplace", "matern12", "matern32", "matern52", "energy")
PRODUCTS = 1e-10  # of W^2: "exact" in more than three dimensions
FEW = {
    f"dkdist.kernels.{name}.MAX_DIRECT_POINTS": 2 for name in ("methods", "kernel_distance", "mmd_problem")
}


@pytest.fixture
def few_are_many(monkeypatch):
    """Ways of many points for few."""
    for name, value in FEW.items():
        monkeypatch.setattr(name, value)


def always_by_gaussians(monkeypatch):
    """Mixtures are never summed over all pairs."""
    for name in ("GAUSSIAN_PLAN_NS", "WIDE_POINT_NS", "NARROW_POINT_NS"):
        monkeypatch.setattr(f"dkdist.kernels.methods.{name}", 0.0)


def trial_of(seed):
    """Every fifth is a random one, with its offsets and weights."""
    return random_trial(seed) if seed % 5 == 4 else adversarial_trial(seed)


def together(x, y, weights):
    """Points of both sets, and their weights with the signs that they have in D^2."""
    p, q = shares(weights, x, y)
    return np.concatenate([x, y]), np.concatenate([p, -q])


def rounding_of(both, z, sigma, kernel):
    """What rounding makes of a sum by differences, at most: of coordinates, of k and of the sum."""
    n, d = both.shape
    width = float(np.ptp(both, axis=0).max()) / sigma
    return ULP * np.abs(z).sum() ** 2 * (2 * n + 8 + 4 * d * width) * (1 + width if kernel == "energy" else 1)


@many(20)
@pytest.mark.parametrize("kernel", SORTED)
def test_sorted_sums_are_exact_but_for_rounding(kernel, n_trials, few_are_many, request):
    """On a line, and "laplace" in the plane; in space, all pairs."""

    def ratio(seed):
        x, y, sigma, weights, _ = of_kind(trial_of(seed), kernel)
        if kernel != "laplace":
            x, y = x[:, :1], y[:, :1]
        result = dk.kernel_distance(x, y, sigma=sigma, weights=weights, squared=True, kernel=kernel)
        both, z = together(x, y, weights)
        exact = exact_energy(both, z, 1 / np.longdouble(sigma), kernel)
        return float(abs(result - exact)) / rounding_of(both, z, sigma, kernel)

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(20)
@pytest.mark.parametrize("kernel", ["gaussian", *MIXED, "laplace"])
def test_all_pairs_are_exact_but_for_rounding(kernel, n_trials, request):
    """In up to three dimensions, and in more, where products of coordinates round more."""

    def ratio(seed):
        x, y, sigma, weights, _ = of_kind(trial_of(seed), kernel)
        if seed % 3 == 0:
            x, y = (np.tile(s, 4)[:, : 4 + seed % 5] for s in (x, y))
        result = dk.kernel_distance(
            x, y, sigma=sigma, weights=weights, squared=True, kernel=kernel, method="exact"
        )
        both, z = together(x, y, weights)
        exact = exact_energy(both, z, 1 / np.longdouble(sigma), kernel)
        bound = rounding_of(both, z, sigma, kernel)
        if both.shape[1] > 3:
            bound += PRODUCTS * np.abs(z).sum() ** 2
        return float(abs(result - exact)) / bound

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(8)
@pytest.mark.parametrize("kernel", ["gaussian", "rational-quadratic", "laplace"])
def test_auto_of_more_points_than_are_taken_by_pairs(kernel, n_trials, request):
    """The rule as it is: points that are given many times, by weights of which nothing else knows."""

    def ratio(seed):
        x, y, sigma, weights, eps = of_kind(trial_of(seed), kernel)
        rng = np.random.default_rng([seed, 0x434F])
        value = []
        for s, w in zip((x, y), shares(weights, x, y), strict=True):
            copies = -(-int(MAX_DIRECT_POINTS * rng.choice([0.6, 1, 3])) // len(s))
            parts = w[:, None] * rng.dirichlet(np.ones(copies), len(s))
            order = rng.permutation(parts.size)
            value.append((np.repeat(s, copies, axis=0)[order], parts.ravel()[order]))
        (a, p), (b, q) = value
        result = dk.kernel_distance(a, b, sigma=sigma, weights=(p, q), squared=True, eps=eps, kernel=kernel)
        exact = exact_energy(*together(x, y, weights), 1 / np.longdouble(sigma), kernel)
        return float(abs(result - exact)) / eps

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(8)
@pytest.mark.parametrize("kernel", ["gaussian", "matern32", "rational-quadratic"])
@pytest.mark.parametrize("scales", ["several", "matrix"])
def test_several_scales_and_matrices_keep_to_eps(
    kernel, scales, n_trials, few_are_many, monkeypatch, request
):
    always_by_gaussians(monkeypatch)

    def ratio(seed):
        x, y, sigma, weights, eps = trial_of(seed)
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
            return refused(error, "method='fourier' needs")
        both, z = together(x, y, weights)
        exact = sum(exact_energy(both, z, inverse, kernel) for inverse in inverses)
        return float(abs(result - exact)) / eps

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(20)
@pytest.mark.parametrize("kernel", ["gaussian", "matern52"])
def test_unbiased_estimates_keep_to_eps(kernel, n_trials, few_are_many, monkeypatch, request):
    always_by_gaussians(monkeypatch)

    def ratio(seed):
        x, y, sigma, weights, eps = without_signs(trial_of(seed), seed)
        p, q = shares(weights, x, y)
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
            return refused(error, "' needs ", "eps is too small for method='fourier'")
        inverse = 1 / np.longdouble(sigma)
        exact = exact_energy(*together(x, y, weights), inverse, kernel)
        for s, w in ((x, p), (y, q)):
            own, r = exact_energy(s, w, inverse, kernel), (w.astype(np.longdouble) ** 2).sum() / w.sum() ** 2
            exact += (own - (w**2).sum()) / (1 - r) - own
        return float(abs(result - exact)) / eps

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(30)
def test_derivatives_by_meshes_keep_to_eps(n_trials, request):
    """w_i f(x_i) and sigma w_i grad f(x_i) are each off by at most eps |w_i| / W."""

    def ratio(seed):
        x, y, sigma, weights, eps = trial_of(seed)
        try:
            _, slopes = dk.kernel_distance(
                x, y, sigma=sigma, weights=weights, squared=True, eps=eps, gradient=True, method="fourier"
            )
        except ValueError as error:
            return refused(error, "has no mesh")
        both, z = together(x, y, weights)
        apart = (both[:, None] - both).astype(np.longdouble) / sigma
        k = np.exp(-(apart**2).sum(axis=2) / 2) * z
        f, g = k.sum(axis=1), -(k[:, :, None] * apart).sum(axis=1)
        by_weight = np.concatenate([slopes.weights[0], -slopes.weights[1]])
        by_point = sigma * np.concatenate([slopes.P, slopes.Q])
        error = np.abs(by_weight / 2 - f).max(), np.abs(by_point / 2 - z[:, None] * g) / np.abs(z[:, None])
        return float(max(error[0], error[1].max()) * np.abs(z).sum() / eps)

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(12)
@pytest.mark.filterwarnings(
    "ignore:the kernel error of method='fourier' is up to"
)  # too few features for the kernel: the bound still holds
@pytest.mark.filterwarnings("ignore:column . of the points")  # they are of float32 from the beginning
def test_rows_of_mean_embeddings_keep_to_their_bound(n_trials, request):
    """Inner products of rows are mean kernels within `error_bound_`."""

    def ratio(seed):
        x, y, sigma, weights, _ = without_signs(adversarial_trial(seed), seed)
        x, y = x.astype(np.float32), y.astype(np.float32)
        sets = dk.SampleSets.from_arrays([x, y], list(shares(weights, x, y)))
        model = dk.MeanEmbedding(512, sigma=sigma, method="fourier").fit(sets)
        rows = model.transform(sets).astype(np.float64)
        p, q = shares(weights, x, y)
        both, z = together(x.astype(float), y.astype(float), (p, q))
        exact = float(exact_energy(both, z, 1 / np.longdouble(sigma), "gaussian"))
        return abs(float(((rows[0] - rows[1]) ** 2).sum()) - exact) / (4 * model.error_bound_)

    assert greatest(request.node.name, ratio, n_trials, 0.2) <= 1
