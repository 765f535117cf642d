"""What coresets state of themselves: their distance, the bound of merged ones, the law and the size of random samples.

``pytest -s -m slow`` on this file runs 10,000 trials of each and prints the greatest ratio.
"""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import dkdist as dk

from .kernel_profiles import kernel_matrix
from .kernel_trials import adversarial_trial, exact_energy, greatest, many, random_trial, refused

STATED = 1e-8  # of D^2, in W^2
ROOT = 1e-7  # of D, in W: the root of the rounding of D^2
KERNELS = ("gaussian", "laplace", "matern12", "matern32", "matern52", "rational-quadratic")
FEW = tuple(
    f"dkdist.kernels.{name}.MAX_DIRECT_POINTS" for name in ("methods", "kernel_distance", "mmd_problem")
)
METHODS = ("random", "stratified", "halving", "swap")
NARROW = "is too small for points"
CELLS = {
    1: 1e-5,
    2: 2e-3,
    3: 2e-2,
}  # of the width: a sigma for which distances of streamed points are certified


def trial(seed):
    """(points, weights or None, sigma, size): some points are given again, some weigh nothing and one much."""
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
    """D^2 between points with weights w and others with weights."""
    both, z = np.concatenate([x, points]), np.concatenate([w, -weights])
    return float(exact_energy(both, z, 1 / np.longdouble(sigma), kernel))


@many(16)
@pytest.mark.parametrize("method", [*METHODS, "optimal"])
def test_the_distance_of_a_coreset_is_as_exact_as_stated(method, n_trials, request, monkeypatch):
    for name in FEW:  # sums of many points for few
        monkeypatch.setattr(name, 2)

    def ratio(seed):
        x, w, sigma, size = trial(seed)
        kernel = KERNELS[seed % 12] if seed % 12 < 6 else "gaussian"
        how = {"optimal_weights": True} if method == "optimal" else {"method": method}
        try:
            few = dk.coreset(x, size, sigma=sigma, kernel=kernel, weights=w, random_state=seed, **how)
        except ValueError as error:
            return refused(error, NARROW)
        p = weights_of(x, w)
        exact = true_square(x, p, x[few.indices], few.weights, sigma, kernel)
        return abs(few.distance**2 - exact) / (STATED * p.sum() ** 2)

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(6)
@pytest.mark.parametrize("method", METHODS)
def test_the_distance_of_a_streamed_coreset_is_as_exact_as_stated(method, n_trials, request):
    def ratio(seed):
        x, w, sigma, size = trial(seed)
        p = weights_of(x, w)
        if sigma < CELLS[x.shape[1]] * float(np.ptp(x[p > 0], axis=0).max()):
            return None
        points = da.from_array(x, chunks=(1 + seed % 37, x.shape[1]))
        few = dk.coreset(points, size, sigma=sigma, weights=w, method=method, random_state=seed)
        exact = true_square(x, p, x[few.indices], few.weights, sigma)
        return abs(few.distance**2 - exact) / (STATED * p.sum() ** 2)

    assert greatest(request.node.name, ratio, n_trials, 0.4) <= 1


@many(12)
@pytest.mark.parametrize("how", ["tree", "stream"])
def test_the_bound_of_merged_coresets_holds(how, n_trials, monkeypatch, request):
    monkeypatch.setattr("dkdist.coresets.merging.BLOCK_POINTS", 16)

    def ratio(seed):
        x, w, sigma, size = trial(seed)
        rng = np.random.default_rng([seed, 0x4D45])
        kernel, cuts = KERNELS[seed % 6], np.sort(rng.integers(1, len(x), 3))
        p, kept = weights_of(x, w), -(-size // 4)
        parts = [s for s in np.split(np.arange(len(x)), cuts) if len(s) and p[s].sum() > 0]
        value = [None if w is None else w[s] for s in parts]
        optimal = bool(seed % 2)
        try:
            if how == "stream":
                running = dk.RunningCoreset(kept, sigma=sigma, kernel=kernel, random_state=seed)
                for s, v in zip(parts, value, strict=True):
                    running.add(x[s], v)
                few = running.coreset(optimal_weights=optimal)
            else:
                each = [
                    dk.coreset(
                        x[s], min(len(s), 2 * kept), sigma=sigma, kernel=kernel, weights=v, random_state=seed,
                        optimal_weights=bool(seed % 3 == 0),
                    )
                    for s, v in zip(parts, value, strict=True)
                ]  # fmt: skip
                some = dk.merge_coresets(each[:2], kept, random_state=seed)
                few = dk.merge_coresets([some, *each[2:]], kept, optimal_weights=optimal, random_state=seed)
        except ValueError as error:
            return refused(error, NARROW)
        rows = np.concatenate(parts)
        q = p[rows] if w is not None else np.full(len(rows), 1 / len(rows))
        W = q.sum()
        true = np.sqrt(max(true_square(x[rows], q, few.points, few.weights, sigma, kernel), 0.0))
        return max(0.0, true - ROOT * W) / max(few.distance, ROOT * W)

    assert greatest(request.node.name, ratio, n_trials) <= 1


@many(200)
@pytest.mark.parametrize("method", METHODS)
def test_samples_keep_to_the_law(method, n_trials, request):
    """E D^2 <= (W^2 - kappa) / size: each of some sets many times, and all of them together.

    The mean of n draws is above its bound by 5 standard errors with a chance of 3e-7, and there are up to 100 sets.
    """
    draws = 20 if n_trials < 1000 else 100
    sets, ratios = n_trials // draws, []
    for k in range(sets):
        x, w, sigma, size = trial(k)
        size = 1 + size // 5
        kernel, p = KERNELS[k % 6], weights_of(x, w)
        bound = float(p.sum() ** 2 - exact_energy(x, p, 1 / np.longdouble(sigma), kernel)) / size
        if bound < 1e-9 * p.sum() ** 2:  # all but one point
            continue
        K = kernel_matrix(x / sigma, x / sigma, kernel)
        for draw in range(draws):
            try:
                few = dk.coreset(
                    x, size, sigma=sigma, kernel=kernel, weights=w, method=method, random_state=draw
                )
            except ValueError as error:
                refused(error, NARROW)
                break
            z = p.copy()
            np.subtract.at(z, few.indices, few.weights)
            ratios.append((k, max(0.0, float(z @ K @ z)) / bound))
    groups, values = np.array(ratios).T
    means = []
    for k in np.unique(groups):
        own = values[groups == k]
        means.append(own.mean())
        assert own.mean() <= 1 + 5 * own.std(ddof=1) / np.sqrt(len(own)) + 1e-9
    print(
        f"{request.node.name}: mean of D^2 / bound {values.mean():.4f} of {len(values):,} draws, of a set at most "
        f"{max(means):.4f}"
    )
    assert values.mean() <= 1 + 4 * values.std(ddof=1) / np.sqrt(len(values))


@many(100)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_size_keeps_its_promise(weighted, n_trials, request):
    """D > eps W in at most delta of the trials, and 4 standard errors of such a share."""
    beyond = 0
    delta = 0.3
    for seed in range(n_trials):
        rng = np.random.default_rng([seed, 0x535A])
        eps = rng.uniform(0.25, 0.6)
        size = dk.coreset_size(eps, delta)
        x = rng.random((4 * size, int(rng.integers(1, 4))))
        w = np.exp(rng.normal(0, 2, len(x))) if weighted else None
        sigma = float(rng.choice([1e-3, 0.05, 0.3]))
        few = dk.coreset(x, size, sigma=sigma, weights=w, method="random", random_state=seed)
        beyond += few.distance > eps * weights_of(x, w).sum()
    print(f"{request.node.name}: {beyond} of {n_trials:,} beyond")
    assert beyond <= delta * n_trials + 4 * np.sqrt(delta * (1 - delta) * n_trials)
