"""Random and adversarial point sets for tests of error bounds of kernel sums, and reference sums over all pairs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

from .kernel_profiles import PROFILES

DIAMETERS = 1e6  # maximum offset of points from the origin
ULP = 2.0**-53
BIG = np.longdouble  # dtype of reference sums


def with_trials(n_quick):
    """Parametrize a test by this number of trials, and by 10,000 trials that are marked as slow."""
    return pytest.mark.parametrize("n_trials", [n_quick, pytest.param(10_000, marks=pytest.mark.slow)])


def max_ratio(name, ratio: Callable[[int], float | None], n_trials, min_fraction=0.5):
    """Return the maximum of ``ratio(seed)`` over n_trials seeds; None means an unsupported trial, which is skipped."""
    ratios = map(ratio, range(int(n_trials / min_fraction)))
    result = list(islice((r for r in ratios if r is not None), n_trials))
    assert len(result) == n_trials
    print(f"{name}: greatest error / bound {max(result):.4g} in {len(result):,} trials")
    return max(result)


def reraise_unless(error: ValueError, *words) -> None:
    """Return None if the message contains one of these words; otherwise raise the error."""
    if not any(word in str(error) for word in words):
        raise error


def random_trial(seed):
    """Return (P, Q, sigma, weights, eps): 1 to 40 points, coincident, flat or far from the origin, signed weights."""
    rng = np.random.default_rng([seed, 0x4345])
    d, (n, m) = rng.integers(1, 4), rng.integers(1, 41, 2)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((m, d)) * rng.uniform(0.1, 2) + rng.uniform(0, 3)
    if rng.random() < 0.2:
        x, y = np.round(x), np.round(y)  # many coincident points
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
    sigma = diameter * 0.02 * 150 ** rng.random()  # 0.02 to 3 diameters
    return scale * x, scale * y, scale * sigma, tuple(w), W**2 * 10.0 ** rng.uniform(-6, -1)


def adversarial_trial(seed):
    """Return a trial that is difficult for grids and trees: clusters on borders of cells, lines, lattices aligned with
    cells or waves, few distant points, and sigma near the thresholds of "auto".
    """
    rng = np.random.default_rng([seed, 0x4144])
    d, (n, m), kind = rng.integers(1, 4), rng.integers(2, 60, 2), seed % 5
    sigma = float(
        rng.choice([1 / 4000, 1 / 200, 1 / 100, 1 / 50, 0.1, 0.5, 1.0, 3.0]) * rng.choice([0.999, 1, 1.001])
    )
    side = sigma * rng.choice([0.12, 0.639, 0.8, 1.0, np.pi / 2, np.pi, 2 * np.pi])
    x, y = rng.random((n, d)), rng.random((m, d))
    if kind == 0:  # on and near borders of cells
        x, y = (side * np.round(s / side) + rng.choice([-1e-12, 0, 1e-12], s.shape) for s in (x, y))
    elif kind == 1:  # lines, perhaps along an axis
        direction = rng.standard_normal(d) if rng.random() < 0.5 else np.eye(d)[0]
        x, y = x[:, :1] * direction, y[:, :1] * direction + rng.choice([0, 1e-9, side]) * np.ones(d)
    elif kind == 2:  # lattices
        x, y = side * rng.integers(0, 12, (n, d)), side * (rng.integers(0, 12, (m, d)) + rng.choice([0, 0.5]))
    elif kind == 3:  # far points
        x[: n // 4] += 10.0 ** rng.uniform(0, 4)
        y[: m // 4] -= 10.0 ** rng.uniform(0, 4)
    else:  # two tight clusters whose weights nearly cancel
        x, y = (
            np.repeat(s[:1], len(s), axis=0) + 1e-7 * sigma * rng.standard_normal(s.shape) for s in (x, y)
        )
    w = (1.0 - 2.0 * (np.arange(n) % 2), None) if rng.random() < 0.3 else (None, None)
    W = 1.0 + (n if w[0] is not None else 1.0)
    return x, y, sigma, w, W**2 * 10.0 ** rng.uniform(-6, -1)


def weights_or_equal(weights, *sets):
    """Return the weights of P and Q; None becomes equal weights that sum to one."""
    return tuple(np.full(len(s), 1 / len(s)) if w is None else w for s, w in zip(sets, weights, strict=True))


def exact_square(x, y, sigma, weights, kernel="gaussian"):
    """Return D^2 from all pairs, in float64."""
    both, signed = (
        np.concatenate([x, y]),
        np.concatenate([[1, -1][k] * w for k, w in enumerate(weights_or_equal(weights, x, y))]),
    )
    square = ((both[:, None] - both) ** 2).sum(axis=2)
    return float(signed @ PROFILES[kernel](np.sqrt(square) / sigma) @ signed)


def exact_energy(x, z, inverse, kernel):
    """Return sum_ij z_i z_j k(x_i - x_j) in longdouble, for points times a number or a matrix."""
    differences = (x[:, None] - x).astype(BIG)  # nearly exact before scaling
    differences = differences * inverse if np.ndim(inverse) == 0 else differences @ np.asarray(inverse, BIG).T
    r = np.abs(differences).sum(axis=2) if kernel == "laplace" else np.sqrt((differences**2).sum(axis=2))
    return z.astype(BIG) @ PROFILES[kernel](r) @ z.astype(BIG)


def equal_totals(weights, n, m):
    """Return absolute weights that sum to one."""
    p, q = (np.full(k, 1 / k) if w is None else np.abs(w) for w, k in zip(weights, (n, m), strict=True))
    return p / p.sum(), q / q.sum()


def with_outliers(trial, seed):
    """Return the trial with some points of each set moved far away."""
    x, y, sigma, weights, eps = trial
    rng = np.random.default_rng([seed, 0x4F55])
    for s in (x, y):
        moved = rng.random(len(s)) < rng.uniform(0, 0.5)
        s[moved] += sigma * 10.0 ** rng.uniform(0, 6) * rng.choice([-1, 0, 1], (len(s), s.shape[1]))[moved]
    return x, y, sigma, weights, eps


def for_kernel(trial, kernel):
    """Return the trial adapted to the kernel: "energy" requires weights of equal totals."""
    x, y, sigma, weights, eps = trial
    if kernel == "energy":
        eps *= 4 / sum(1.0 if w is None else float(np.abs(w).sum()) for w in weights) ** 2
        weights = equal_totals(weights, len(x), len(y))
    return x, y, sigma, weights, eps


def with_nonnegative_weights(trial, seed):
    """Return the trial with equal weights, or weights >= 0 of which some are 0 and one is large."""
    x, y, sigma, _, eps = trial
    rng, result = np.random.default_rng([seed, 0x5057]), [None, None]
    for k, s in enumerate((x, y)):
        if rng.random() < 0.5:
            w = rng.exponential(1, len(s)) * (rng.random(len(s)) < 0.8)
            w[rng.integers(len(s))] += rng.choice([1e-3, 1, 100])
            result[k] = w / w.sum()
    return x, y, sigma, tuple(result), 4 * eps / _mass(trial) ** 2


def _mass(trial):
    return sum(1.0 if w is None else float(np.abs(w).sum()) for w in trial[3])
