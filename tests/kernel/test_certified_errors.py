"""Errors of kernel distances beside the eps that was asked for, over random sets of every awkward kind.

`make chaos` runs 10,000 trials of every method; ``pytest -s -m slow`` on this file prints the greatest ratio.
"""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

from .kernel_profiles import PROFILES

DIAMETERS = 1e6  # that points may lie from the origin
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
FOURIER, RULE = "dkdist.kernel.sums.fourier_energy", "dkdist.kernel.distance.kernel_methods"
FEW = {f"{RULE}.SMALL": 2, "dkdist.kernel.distance.energy_task.SMALL": 2}
WAYS = {  # to make a method take another way than the cheapest for few points; "auto" is tried with far outliers
    "fourier on a mesh": {f"{FOURIER}.CELL_NS": NEVER, f"{FOURIER}.FIND_NS": np.inf},
    "fourier by frequencies": {f"{FOURIER}.FIND_NS": -1.0, f"{FOURIER}.FREQUENCY_NS": ALWAYS},
    "auto by parts": {**FEW, f"{RULE}.LOOK_NS": ALWAYS, f"{RULE}.PAIR_NS": NEVER},
    "auto by blocks": {
        **FEW, f"{RULE}.LOOK_NS": -1.0, f"{RULE}.PAIR_NS": NEVER,
        f"{RULE}.CELL_NS": 0.0, f"{RULE}.BLOCK_NS": 0.0,
    },
}  # fmt: skip
ALL = "dkdist.kernel.distance.mixture_energy.PAIR_NS"
QUICK = {"gaussian": 200, "matern12": 3, "energy": 3}  # trials


def random_trial(seed):
    """(P, Q, sigma, weights, eps): 1 to 40 points, coincident or flat ones, far from the origin, signed weights."""
    rng = np.random.default_rng([seed, 0x4345])
    d, (n, m) = rng.integers(1, 4), rng.integers(1, 41, 2)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((m, d)) * rng.uniform(0.1, 2) + rng.uniform(0, 3)
    if rng.random() < 0.2:
        x, y = np.round(x), np.round(y)  # many coincide
    if rng.random() < 0.1:
        y = np.repeat(x[:1], m, axis=0)
    if rng.random() < 0.1:
        x[:, 0] = y[:, 0] = 0.25
    scale = 10.0 ** rng.uniform(-6, 6)
    both = np.concatenate([x, y])
    diameter = float(np.sqrt(((both.max(axis=0) - both.min(axis=0)) ** 2).sum())) or 1.0
    if rng.random() < 0.25:
        offset = DIAMETERS * diameter * rng.choice([-1, 1], d)
        x, y = x + offset, y + offset
    w = [None, None]
    for k, size in enumerate((n, m)):
        kind = rng.integers(3)
        w[k] = [None, rng.random(size) + 1e-3, rng.standard_normal(size) * 10.0 ** rng.uniform(-3, 3)][kind]
    W = sum(1.0 if v is None else float(np.abs(v).sum()) for v in w)
    sigma = diameter * 0.02 * 150 ** rng.random()  # .02 to 3 diameters
    return scale * x, scale * y, scale * sigma, tuple(w), W**2 * 10.0 ** rng.uniform(-6, -1)


def adversarial_trial(seed):
    """The same, of what grids and trees are worst at: clusters on the borders of cells, lines, lattices in step with a
    cell or with a wave, few far points, and sigma at the widths where "auto" changes its ways.
    """
    rng = np.random.default_rng([seed, 0x4144])
    d, (n, m), kind = rng.integers(1, 4), rng.integers(2, 60, 2), seed % 5
    sigma = float(
        rng.choice([1 / 4000, 1 / 200, 1 / 100, 1 / 50, 0.1, 0.5, 1.0, 3.0]) * rng.choice([0.999, 1, 1.001])
    )
    side = sigma * rng.choice([0.12, 0.639, 0.8, 1.0, np.pi / 2, np.pi, 2 * np.pi])
    x, y = rng.random((n, d)), rng.random((m, d))
    if kind == 0:  # on borders of cells, and next to them
        x, y = (side * np.round(s / side) + rng.choice([-1e-12, 0, 1e-12], s.shape) for s in (x, y))
    elif kind == 1:  # lines, perhaps along an axis
        way = rng.standard_normal(d) if rng.random() < 0.5 else np.eye(d)[0]
        x, y = x[:, :1] * way, y[:, :1] * way + rng.choice([0, 1e-9, side]) * np.ones(d)
    elif kind == 2:  # lattices
        x, y = side * rng.integers(0, 12, (n, d)), side * (rng.integers(0, 12, (m, d)) + rng.choice([0, 0.5]))
    elif kind == 3:  # far points
        x[: n // 4] += 10.0 ** rng.uniform(0, 4)
        y[: m // 4] -= 10.0 ** rng.uniform(0, 4)
    else:  # two tight clusters whose weights all but cancel
        x, y = (
            np.repeat(s[:1], len(s), axis=0) + 1e-7 * sigma * rng.standard_normal(s.shape) for s in (x, y)
        )
    w = (1.0 - 2.0 * (np.arange(n) % 2), None) if rng.random() < 0.3 else (None, None)
    W = 1.0 + (n if w[0] is not None else 1.0)
    return x, y, sigma, w, W**2 * 10.0 ** rng.uniform(-6, -1)


def exact_square(x, y, sigma, weights, kernel="gaussian"):
    """D^2 by all pairs, in float64."""
    p, q = (np.full(len(s), 1 / len(s)) if w is None else w for s, w in zip((x, y), weights, strict=True))
    both, signed = np.concatenate([x, y]), np.concatenate([p, -q])
    square = ((both[:, None] - both) ** 2).sum(axis=2)
    return float(signed @ PROFILES[kernel](np.sqrt(square) / sigma) @ signed)


def of_equal_totals(weights, n, m):
    """Weights without their signs that sum to one."""
    p, q = (np.full(k, 1 / k) if w is None else np.abs(w) for w, k in zip(weights, (n, m), strict=True))
    return p / p.sum(), q / q.sum()


def with_outliers(trial, seed):
    """The same trial with some points of either set moved far away, near each other or not."""
    x, y, sigma, weights, eps = trial
    rng = np.random.default_rng([seed, 0x4F55])
    for s in (x, y):
        moved = rng.random(len(s)) < rng.uniform(0, 0.5)
        s[moved] += sigma * 10.0 ** rng.uniform(0, 6) * rng.choice([-1, 0, 1], (len(s), s.shape[1]))[moved]
    return x, y, sigma, weights, eps


def ratios(method, n_trials, kernel="gaussian", trial=random_trial):
    """|error of D^2| / eps of each trial that the method does not refuse for its number of terms."""
    found = []
    for seed in range(n_trials):
        x, y, sigma, weights, eps = trial(seed)
        if kernel == "energy":
            eps *= 4 / sum(1.0 if w is None else float(np.abs(w).sum()) for w in weights) ** 2
            weights = of_equal_totals(weights, len(x), len(y))
        if method == "auto" and kernel == "gaussian" and trial is random_trial:
            x, y, sigma, weights, eps = with_outliers((x, y, sigma, weights, eps), seed)
        try:
            square = dk.kernel_distance(
                x, y, sigma=sigma, weights=weights, squared=True, method=method, eps=eps, kernel=kernel
            )
        except ValueError as error:
            if method not in REFUSALS or not any(
                said in str(error) for said in ("would need", "have no floats")
            ):
                raise
        else:
            found.append(abs(square - exact_square(x, y, sigma, weights, kernel)) / eps)
    assert trial is adversarial_trial or len(found) >= n_trials * (1 - REFUSALS.get(method, 0.0))
    return np.array(found)


@pytest.fixture
def method(request, monkeypatch):
    by, _, kernel = request.param.partition(" of ")
    for name, value in (WAYS.get(by, {}) if not kernel else {**FEW, ALL: NEVER}).items():
        monkeypatch.setattr(name, value)
    return by.split()[0], kernel or "gaussian"


@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_error_is_above_eps(method):
    found = ratios(method[0], QUICK.get(method[1], 8), method[1])
    assert found.max() <= 1
    assert found.max() > 1e-3  # the bound is not idle


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_error_of_ten_thousand_is_above_eps(method, request):
    found = ratios(method[0], 10_000, method[1])
    print(f"{request.node.name}: greatest error / eps {found.max():.4f} in {len(found):,} trials")
    assert found.max() <= 1


@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_adversarial_error_is_above_eps(method):
    assert ratios(method[0], min(40, QUICK.get(method[1], 4)), method[1], adversarial_trial).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, indirect=True)
def test_no_adversarial_error_of_ten_thousand_is_above_eps(method, request):
    found = ratios(method[0], 10_000, method[1], adversarial_trial)
    print(f"{request.node.name}: greatest error / eps {found.max():.4f} in {len(found):,} trials")
    assert found.max() <= 1
