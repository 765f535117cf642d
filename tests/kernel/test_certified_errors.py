"""Errors of kernel distances compared with eps, over random sets of difficult kinds.

`make chaos` runs 10,000 trials of every method; ``pytest -s -m slow`` on this file prints the maximum ratio.
"""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

from .kernel_trials import adversarial_trial, exact_square, for_kernel, random_trial, with_outliers

# maximum fraction of trials with too many terms or modes for the method
MAX_UNSUPPORTED = {
    "taylor": 0.6,
    "fourier": 0.02,
}


METHODS = (
    "fourier", "fourier on a mesh", "fourier by frequencies", "tree", "taylor", "wspd",
    "auto by parts", "auto by blocks",
    *(f"auto of {kernel}" for kernel in ("matern12", "matern32", "matern52", "rational-quadratic", "energy")),
)  # fmt: skip
HIGH_COST, LOW_COST = 1e300, 1e-12
RULE = "dkdist.kernels.methods"
POINT_LIMITS = {f"dkdist.kernels.{name}.MAX_DIRECT_POINTS": 2 for name in ("kernel_distance", "mmd_problem")}
# always use Gaussian mixtures, not all pairs
MIXTURE_COSTS = {f"{RULE}.{name}": 0.0 for name in ("GAUSSIAN_PLAN_NS", "WIDE_POINT_NS", "NARROW_POINT_NS")}
OVERRIDES = {  # force an algorithm that is not the cheapest for few points; "auto" is tested with distant outliers
    "fourier on a mesh": {f"{RULE}.CELL_NS": HIGH_COST, f"{RULE}.GRID_SEARCH_NS": np.inf},
    "fourier by frequencies": {f"{RULE}.GRID_SEARCH_NS": -1.0, f"{RULE}.FREQUENCY_NS": LOW_COST},
    "auto by parts": {**POINT_LIMITS, f"{RULE}.POINT_SCAN_NS": LOW_COST, f"{RULE}.PAIR_NS": HIGH_COST},
    "auto by blocks": {
        **POINT_LIMITS, f"{RULE}.POINT_SCAN_NS": -1.0, f"{RULE}.PAIR_NS": HIGH_COST,
        f"{RULE}.CELL_NS": 0.0, f"{RULE}.BLOCK_CELL_NS": 0.0,
    },
}  # fmt: skip
N_QUICK_TRIALS = {"gaussian": 200, "matern12": 3, "energy": 3}  # other methods: 8


def ratios(method, n_trials, kernel="gaussian", trial=random_trial):
    """Return |error of D^2| / eps of each trial that the method supports."""
    result = []
    for seed in range(n_trials):
        x, y, sigma, weights, eps = for_kernel(trial(seed), kernel)
        if method == "auto" and kernel == "gaussian" and trial is random_trial:
            x, y, sigma, weights, eps = with_outliers((x, y, sigma, weights, eps), seed)
        try:
            square = dk.kernel_distance(
                x, y, sigma=sigma, weights=weights, squared=True, method=method, eps=eps, kernel=kernel
            )
        except ValueError as error:
            if method not in MAX_UNSUPPORTED or not any(
                text in str(error) for text in ("' needs ", "requires points within")
            ):
                raise
        else:
            result.append(abs(square - exact_square(x, y, sigma, weights, kernel)) / eps)
    assert trial is adversarial_trial or len(result) >= n_trials * (1 - MAX_UNSUPPORTED.get(method, 0.0))
    return np.array(result)


@pytest.fixture
def method(request, monkeypatch):
    algorithm, _, kernel = request.param.partition(" of ")
    for name, value in (
        OVERRIDES.get(algorithm, {}) if not kernel else {**POINT_LIMITS, **MIXTURE_COSTS}
    ).items():
        monkeypatch.setattr(name, value)
    return algorithm.split()[0], kernel or "gaussian"


@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_errors_are_at_most_eps(method):
    result = ratios(method[0], N_QUICK_TRIALS.get(method[1], 8), method[1])
    assert result.max() <= 1
    assert result.max() > 1e-3  # the bound is not trivial


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_errors_of_10_000_trials_are_at_most_eps(method, request):
    result = ratios(method[0], 10_000, method[1])
    print(f"{request.node.name}: greatest error / eps {result.max():.4f} in {len(result):,} trials")
    assert result.max() <= 1


@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_adversarial_errors_are_at_most_eps(method):
    assert (
        ratios(method[0], min(40, N_QUICK_TRIALS.get(method[1], 4)), method[1], adversarial_trial).max() <= 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_adversarial_errors_of_10_000_trials_are_at_most_eps(method, request):
    result = ratios(method[0], 10_000, method[1], adversarial_trial)
    print(f"{request.node.name}: greatest error / eps {result.max():.4f} in {len(result):,} trials")
    assert result.max() <= 1
