"""Conformal quantiles and intervals: exact coverage by counting, and by simulation with scikit-learn's Ridge."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict

from dkdist.auto.conformal import MAX_SCORES, conformal_scores, fit_intervals


@pytest.mark.parametrize("n", [1, 9, 10, 19, 20, 333])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
def test_quantiles_are_the_smallest_that_cover(n, coverage):
    """The rank of the last of n + 1 exchangeable scores is uniform, so rank k covers k / (n + 1)."""
    values = np.random.default_rng(n).permutation(n) + 1.0
    q = conformal_scores(values).quantile(coverage)
    if np.isinf(q):
        assert n / (n + 1) < coverage
    else:
        assert q / (n + 1) >= coverage - 1e-12
        assert (q - 1) / (n + 1) < coverage


def test_thinned_scores_are_conservative():
    n = 12 * MAX_SCORES + 5
    values = np.random.default_rng(0).permutation(n) + 1.0
    thinned = conformal_scores(values)
    assert len(thinned.values) == MAX_SCORES
    for coverage in (0.01, 0.5, 0.9, 0.99999):
        exact = np.ceil((n + 1) * coverage)
        assert exact <= thinned.quantile(coverage) <= exact + n / MAX_SCORES + 1


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 90, True, "0.9", None, np.nan])
def test_invalid_coverage_raises(coverage):
    with pytest.raises(ValueError, match="coverage must be"):
        conformal_scores(np.arange(5.0)).quantile(coverage)


def rows(rng, n):
    """Return means of sets of mixed sizes, whose errors decrease with the size, targets, and sizes."""
    sizes = rng.integers(3, 150, n)
    truth = rng.normal(size=(n, 4))
    X = truth + rng.standard_t(5, size=(n, 4)) / np.sqrt(sizes)[:, None]
    return X, truth @ [1.0, -1.0, 0.5, 2.0] + 0.1 * rng.laplace(size=n), sizes


def test_intervals_cover_sets_of_every_size():
    """Calibrated on 300 held-out predictions, 90 % intervals cover 40,000 new rows, of small and of large sets."""
    covered, small, wide = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        (X, y, sizes), (X1, y1, sizes1) = rows(rng, 300), rows(rng, 2000)
        ridge = Ridge(1.0)
        held_out_values = cross_val_predict(ridge, X, y, cv=50)
        model = fit_intervals(held_out_values, y, sizes)
        low, high = model.interval(ridge.fit(X, y).predict(X1), 0.9, sizes1).T
        covered.append((low <= y1) & (y1 <= high))
        small.append(sizes1 < 15)
        wide.append(high - low)
    covered, small, wide = map(np.concatenate, (covered, small, wide))
    assert 0.88 <= covered.mean() <= 0.92
    assert 0.86 <= covered[small].mean() <= 0.94
    assert 0.86 <= covered[~small].mean() <= 0.94
    assert wide[small].mean() > 2 * wide[~small].mean()


def test_intervals_without_sizes_cover_on_average_only():
    rng = np.random.default_rng(0)
    (X, y, _), (X1, y1, sizes1) = rows(rng, 1000), rows(rng, 4000)
    ridge = Ridge(1.0)
    model = fit_intervals(cross_val_predict(ridge, X, y, cv=20), y)
    low, high = model.interval(ridge.fit(X, y).predict(X1)).T
    covered = (low <= y1) & (y1 <= high)
    assert 0.87 <= covered.mean() <= 0.93
    assert covered[sizes1 < 15].mean() < 0.7  # small sets need their sizes


def test_coverage_of_few_rows_is_exact():
    """With 19 scores, the 90 % interval ends at the 18th and covers 18/20 of all draws."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(4000):
        r = rng.standard_cauchy(20)
        low, high = fit_intervals(np.zeros(19), r[:19]).interval([0.0])[0]
        hits += low <= r[19] <= high
    assert binom.cdf(hits, 4000, 0.9) > 1e-3
    assert binom.sf(hits, 4000, 0.9) > 1e-3


def test_variances_maximise_the_likelihood():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 50, 20_000)
    r = rng.normal(size=20_000) * np.sqrt(0.3 + 2 / sizes)
    model = fit_intervals(np.zeros(20_000), r, sizes)
    assert model.of_model == pytest.approx(0.3, rel=0.05)
    assert model.of_size == pytest.approx(2, rel=0.1)

    def loss(a, b):
        v = a + b / sizes
        return (np.log(v) + r**2 / v).sum()

    best = loss(model.of_model, model.of_size)
    for a, b in ((1.01, 1), (0.99, 1), (1, 1.01), (1, 0.99)):
        assert loss(a * model.of_model, b * model.of_size) > best


def test_variance_by_size_is_not_negative():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 100, 3000)
    model = fit_intervals(np.zeros(3000), rng.normal(size=3000) * np.sqrt(sizes), sizes=sizes)
    assert model.of_size == 0  # larger sets are noisier


def test_intervals_of_perfect_predictions_and_too_few_rows():
    exact = fit_intervals(np.arange(50.0), np.arange(50.0))
    assert (exact.interval([3.0]) == 3).all()
    assert np.isinf(fit_intervals(np.zeros(8), np.arange(8.0)).interval([0.0], 0.9)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_intervals(np.zeros(3), np.zeros(4)), "targets must be 1-D with 3 rows"),
        (lambda: fit_intervals([0.0, np.nan], [0.0, 1]), r"predictions must be finite; got nan \(row 1\)"),
        (lambda: fit_intervals([], []), "at least 1 held-out row; got 0"),
        (
            lambda: fit_intervals([0.0, 1], [0.0, 1], sizes=[1, 0]),
            r"sizes must be positive; got 0.0 \(row 1\)",
        ),
        (lambda: fit_intervals([0.0, 1], [0.0, 1], sizes=[1]), "sizes must be 1-D with 2 rows"),
    ],
)
def test_invalid_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()
