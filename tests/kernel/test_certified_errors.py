"""Errors of kernel distances beside the eps that was asked for, over random sets of every awkward kind.

`make chaos` runs 10,000 trials of every method; ``pytest -s -m slow`` on this file prints the greatest ratio.
"""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

from .kernel_trials import adversarial_trial, exact_square, of_kind, random_trial, with_outliers

REFUSALS = {
    "taylor": 0.6,
    "fourier": 0.02,
}  # share of the trials that a method may refuse: too many terms or modes


METHODS = (
    "fourier", "fourier on a mesh", "fourier by frequencies", "tree", "taylor", "wspd",
    "auto by parts", "auto by blocks",
    *(f"auto of {kernel}" for kernel in ("matern12", "matern32", "matern52", "rational-quadratic", "energy")),
)  # fmt: skip
NEVER, ALWAYS = 1e300, 1e-12
RULE = "dkdist.kernels.methods"
FEW = {f"dkdist.kernels.{name}.MAX_DIRECT_POINTS": 2 for name in ("kernel_distance", "mmd_problem")}
MIXED = {
    f"{RULE}.{name}": 0.0 for name in ("GAUSSIAN_PLAN_NS", "WIDE_POINT_NS", "NARROW_POINT_NS")
}  # by Gaussians, not all pairs
WAYS = {  # to make a method take another way than the cheapest for few points; "auto" is tried with far outliers
    "fourier on a mesh": {f"{RULE}.CELL_NS": NEVER, f"{RULE}.GRID_SEARCH_NS": np.inf},
    "fourier by frequencies": {f"{RULE}.GRID_SEARCH_NS": -1.0, f"{RULE}.FREQUENCY_NS": ALWAYS},
    "auto by parts": {**FEW, f"{RULE}.POINT_SCAN_NS": ALWAYS, f"{RULE}.PAIR_NS": NEVER},
    "auto by blocks": {
        **FEW, f"{RULE}.POINT_SCAN_NS": -1.0, f"{RULE}.PAIR_NS": NEVER,
        f"{RULE}.CELL_NS": 0.0, f"{RULE}.BLOCK_CELL_NS": 0.0,
    },
}  # fmt: skip
QUICK = {"gaussian": 200, "matern12": 3, "energy": 3}  # trials


def ratios(method, n_trials, kernel="gaussian", trial=random_trial):
    """|error of D^2| / eps of each trial that the method does not refuse for its number of terms."""
    result = []
    for seed in range(n_trials):
        x, y, sigma, weights, eps = of_kind(trial(seed), kernel)
        if method == "auto" and kernel == "gaussian" and trial is random_trial:
            x, y, sigma, weights, eps = with_outliers((x, y, sigma, weights, eps), seed)
        try:
            square = dk.kernel_distance(
                x, y, sigma=sigma, weights=weights, squared=True, method=method, eps=eps, kernel=kernel
            )
        except ValueError as error:
            if method not in REFUSALS or not any(
                text in str(error) for text in ("' needs ", "requires points within")
            ):
                raise
        else:
            result.append(abs(square - exact_square(x, y, sigma, weights, kernel)) / eps)
    assert trial is adversarial_trial or len(result) >= n_trials * (1 - REFUSALS.get(method, 0.0))
    return np.array(result)


@pytest.fixture
def method(request, monkeypatch):
    by, _, kernel = request.param.partition(" of ")
    for name, value in (WAYS.get(by, {}) if not kernel else {**FEW, **MIXED}).items():
        monkeypatch.setattr(name, value)
    return by.split()[0], kernel or "gaussian"


@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_error_is_above_eps(method):
    result = ratios(method[0], QUICK.get(method[1], 8), method[1])
    assert result.max() <= 1
    assert result.max() > 1e-3  # the bound is not idle


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_error_of_ten_thousand_is_above_eps(method, request):
    result = ratios(method[0], 10_000, method[1])
    print(f"{request.node.name}: greatest error / eps {result.max():.4f} in {len(result):,} trials")
    assert result.max() <= 1


@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_adversarial_error_is_above_eps(method):
    assert ratios(method[0], min(40, QUICK.get(method[1], 4)), method[1], adversarial_trial).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_adversarial_error_of_ten_thousand_is_above_eps(method, request):
    result = ratios(method[0], 10_000, method[1], adversarial_trial)
    print(f"{request.node.name}: greatest error / eps {result.max():.4f} in {len(result):,} trials")
    assert result.max() <= 1
