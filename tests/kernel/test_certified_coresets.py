"""Distances of coresets, bounds of merged coresets, and the law and size of random samples.

``pytest -s -m slow`` on this file runs 10,000 trials of each test and prints the maximum ratio.
"""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import dkdist as dk

from .kernel_profiles import kernel_matrix
from .kernel_trials import (
    adversarial_trial,
    exact_energy,
    max_ratio,
    random_trial,
    reraise_unless,
    with_trials,
)

STATED = 1e-8  # error of D^2, relative to W^2
ROOT = 1e-7  # error of D, relative to W: the root of the rounding of D^2
KERNELS = ("gaussian", "laplace", "matern12", "matern32", "matern52", "rational-quadratic")
POINT_LIMITS = tuple(
    f"dkdist.kernels.{name}.MAX_DIRECT_POINTS" for name in ("methods", "kernel_distance", "mmd_problem")
)
METHODS = ("random", "stratified", "halving", "swap")
NARROW = "is too small for points"
# minimum sigma / width for certified distances of streamed points, by dimension
CELLS = {
    1: 1e-5,
    2: 2e-3,
    3: 2e-2,
}


def trial(seed):
    """Return (points, weights or None, sigma, size): some points repeat, some have weight 0, one has a large weight."""
    x, y, sigma, _, _ = random_trial(seed) if seed % 5 == 4 else adversarial_trial(seed)
    rng = np.random.default_rng([seed, 0x4353])
    x = np.concatenate([x, y])
    w = None
    if rng.random() < 0.6:
        w = np.exp(rng.normal(0, rng.choice([0.1, 2]), len(x))) * (rng.random(len(x)) < 0.9)
        w[rng.integers(len(x))] += rng.choice([1e-3, 1, 1e3])
    return x, w, sigma, int(rng.integers(1, len(x) + 1))


def weights_of(x, w):
    return np.full(len(x), 1 / len(x)) if w is None else w


def true_square(x, w, points, weights, sigma, kernel="gaussian"):
    """Return D^2 between weighted points x and other weighted points."""
    both, z = np.concatenate([x, points]), np.concatenate([w, -weights])
    return float(exact_energy(both, z, 1 / np.longdouble(sigma), kernel))


@with_trials(16)
@pytest.mark.parametrize("method", [*METHODS, "optimal"])
def test_distance_of_a_coreset_is_accurate(method, n_trials, request, monkeypatch):
    for name in POINT_LIMITS:  # force the methods for many points
        monkeypatch.setattr(name, 2)

    def ratio(seed):
        x, w, sigma, size = trial(seed)
        kernel = KERNELS[seed % 12] if seed % 12 < 6 else "gaussian"
        options = {"optimal_weights": True} if method == "optimal" else {"method": method}
        try:
            coreset = dk.coreset(x, size, sigma=sigma, kernel=kernel, weights=w, random_state=seed, **options)
        except ValueError as error:
            return reraise_unless(error, NARROW)
        p = weights_of(x, w)
        exact = true_square(x, p, x[coreset.indices], coreset.weights, sigma, kernel)
        return abs(coreset.distance**2 - exact) / (STATED * p.sum() ** 2)

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(6)
@pytest.mark.parametrize("method", METHODS)
def test_distance_of_a_streamed_coreset_is_accurate(method, n_trials, request):
    def ratio(seed):
        x, w, sigma, size = trial(seed)
        p = weights_of(x, w)
        if sigma < CELLS[x.shape[1]] * float(np.ptp(x[p > 0], axis=0).max()):
            return None
        points = da.from_array(x, chunks=(1 + seed % 37, x.shape[1]))
        coreset = dk.coreset(points, size, sigma=sigma, weights=w, method=method, random_state=seed)
        exact = true_square(x, p, x[coreset.indices], coreset.weights, sigma)
        return abs(coreset.distance**2 - exact) / (STATED * p.sum() ** 2)

    assert max_ratio(request.node.name, ratio, n_trials, 0.4) <= 1


@with_trials(12)
@pytest.mark.parametrize("how", ["tree", "stream"])
def test_bound_of_merged_coresets_holds(how, n_trials, monkeypatch, request):
    monkeypatch.setattr("dkdist.coresets.merging.BLOCK_POINTS", 16)

    def ratio(seed):
        x, w, sigma, size = trial(seed)
        rng = np.random.default_rng([seed, 0x4D45])
        kernel, cuts = KERNELS[seed % 6], np.sort(rng.integers(1, len(x), 3))
        p, size_of_merged = weights_of(x, w), -(-size // 4)
        parts = [s for s in np.split(np.arange(len(x)), cuts) if len(s) and p[s].sum() > 0]
        weights_of_parts = [None if w is None else w[s] for s in parts]
        optimal = bool(seed % 2)
        try:
            if how == "stream":
                running = dk.RunningCoreset(size_of_merged, sigma=sigma, kernel=kernel, random_state=seed)
                for s, v in zip(parts, weights_of_parts, strict=True):
                    running.add(x[s], v)
                coreset = running.coreset(optimal_weights=optimal)
            else:
                part_coresets = [
                    dk.coreset(
                        x[s], min(len(s), 2 * size_of_merged), sigma=sigma, kernel=kernel, weights=v, random_state=seed,
                        optimal_weights=bool(seed % 3 == 0),
                    )
                    for s, v in zip(parts, weights_of_parts, strict=True)
                ]  # fmt: skip
                first_merged = dk.merge_coresets(part_coresets[:2], size_of_merged, random_state=seed)
                coreset = dk.merge_coresets(
                    [first_merged, *part_coresets[2:]],
                    size_of_merged,
                    optimal_weights=optimal,
                    random_state=seed,
                )
        except ValueError as error:
            return reraise_unless(error, NARROW)
        rows = np.concatenate(parts)
        q = p[rows] if w is not None else np.full(len(rows), 1 / len(rows))
        W = q.sum()
        true = np.sqrt(max(true_square(x[rows], q, coreset.points, coreset.weights, sigma, kernel), 0.0))
        return max(0.0, true - ROOT * W) / max(coreset.distance, ROOT * W)

    assert max_ratio(request.node.name, ratio, n_trials) <= 1


@with_trials(200)
@pytest.mark.parametrize("method", METHODS)
def test_mean_squared_distance_follows_the_law(method, n_trials, request):
    """E D^2 <= (W^2 - kappa) / size, for repeated draws of each set and for all sets together.

    The mean of n draws is above its bound by 5 standard errors with a chance of 3e-7, and there are up to 100 sets.
    """
    draws = 20 if n_trials < 1000 else 100
    sets, ratios = n_trials // draws, []
    for k in range(sets):
        x, w, sigma, size = trial(k)
        size = 1 + size // 5
        kernel, p = KERNELS[k % 6], weights_of(x, w)
        bound = float(p.sum() ** 2 - exact_energy(x, p, 1 / np.longdouble(sigma), kernel)) / size
        if bound < 1e-9 * p.sum() ** 2:  # effectively one point
            continue
        K = kernel_matrix(x / sigma, x / sigma, kernel)
        for draw in range(draws):
            try:
                coreset = dk.coreset(
                    x, size, sigma=sigma, kernel=kernel, weights=w, method=method, random_state=draw
                )
            except ValueError as error:
                reraise_unless(error, NARROW)
                break
            z = p.copy()
            np.subtract.at(z, coreset.indices, coreset.weights)
            ratios.append((k, max(0.0, float(z @ K @ z)) / bound))
    groups, values = np.array(ratios).T
    means = []
    for k in np.unique(groups):
        ratios_of_set = values[groups == k]
        means.append(ratios_of_set.mean())
        assert ratios_of_set.mean() <= 1 + 5 * ratios_of_set.std(ddof=1) / np.sqrt(len(ratios_of_set)) + 1e-9
    print(
        f"{request.node.name}: mean of D^2 / bound {values.mean():.4f} of {len(values):,} draws, of a set at most "
        f"{max(means):.4f}"
    )
    assert values.mean() <= 1 + 4 * values.std(ddof=1) / np.sqrt(len(values))


@with_trials(100)
@pytest.mark.parametrize("weighted", [False, True])
def test_coreset_size_reaches_eps(weighted, n_trials, request):
    """D > eps W in at most a fraction delta of the trials, plus 4 standard errors."""
    n_beyond = 0
    delta = 0.3
    for seed in range(n_trials):
        rng = np.random.default_rng([seed, 0x535A])
        eps = rng.uniform(0.25, 0.6)
        size = dk.coreset_size(eps, delta)
        x = rng.random((4 * size, int(rng.integers(1, 4))))
        w = np.exp(rng.normal(0, 2, len(x))) if weighted else None
        sigma = float(rng.choice([1e-3, 0.05, 0.3]))
        coreset = dk.coreset(x, size, sigma=sigma, weights=w, method="random", random_state=seed)
        n_beyond += coreset.distance > eps * weights_of(x, w).sum()
    print(f"{request.node.name}: {n_beyond} of {n_trials:,} above eps")
    assert n_beyond <= delta * n_trials + 4 * np.sqrt(delta * (1 - delta) * n_trials)
