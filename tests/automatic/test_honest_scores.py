"""Scores, p-values, coverage and log loss of automatic models on noise labels, by simulation.

Each bound is the documented one, widened to an error rate of 1 in 10,000 runs of the test: Student's t of the mean
over fits, or the binomial tail. `benchmarks/honesty.py` checks the same bounds with 200 fits of each size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, t
from sklearn.metrics import log_loss

import dkdist as dk

N_FITS, N_SETS, N_FRESH = 16, 30, 100
ERROR_RATE = 1e-4
MAX_REJECTED = 0.07  # promised rate of p_value_ <= 0.05 on noise
Claims = dict[str, np.ndarray]


def noise_sets(rng: np.random.Generator) -> Any:
    """Sets of 5 to 20 points with effects of the sets, N_SETS to train on and N_FRESH to test."""
    n = N_SETS + N_FRESH
    return dk.SampleSets.from_arrays(
        [rng.normal(rng.normal(0, 0.5, 2), 1, (size, 2)) for size in rng.integers(5, 20, n)]
    )


def simulate(fit: Callable[[np.random.Generator, int], dict[str, float]]) -> Claims:
    """Reported and fresh figures of every fit, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = [fit(np.random.default_rng([41, i]), i) for i in range(N_FITS)]
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def reported_figures(model: Any) -> dict[str, float]:
    score = next(entry["score"] for entry in model.leaderboard_ if entry["name"] == "this model")
    return {"score": score, "p_value": model.p_value_}


@pytest.fixture(scope="module")
def coin_flips() -> Claims:
    def fit(rng: np.random.Generator, i: int) -> dict[str, float]:
        sets = noise_sets(rng)
        y, truth = (rng.permutation(np.arange(n) % 2) for n in (N_SETS, N_FRESH))
        model = dk.SetClassifier(random_state=i).fit(sets[:N_SETS], y)
        fresh = sets[N_SETS:]
        covered = model.predict_set(fresh, coverage=0.9)[np.arange(N_FRESH), truth].mean()
        return {
            **reported_figures(model),
            "covered": covered,
            "log_loss": log_loss(truth, model.predict_proba(fresh)),
        }

    return simulate(fit)


@pytest.fixture(scope="module")
def noise_targets() -> Claims:
    def fit(rng: np.random.Generator, i: int) -> dict[str, float]:
        sets = noise_sets(rng)
        y = rng.normal(size=N_SETS + N_FRESH)
        model = dk.SetRegressor(random_state=i).fit(sets[:N_SETS], y[:N_SETS])
        low, high = model.predict_interval(sets[N_SETS:], coverage=0.9).T
        return {**reported_figures(model), "covered": ((low <= y[N_SETS:]) & (y[N_SETS:] <= high)).mean()}

    return simulate(fit)


def margin(values: np.ndarray) -> float:
    """Margin that the mean of independent values exceeds with a probability of 1 in 10,000."""
    return float(t.ppf(1 - ERROR_RATE, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def test_score_of_random_classes_is_chance(coin_flips: Claims) -> None:
    scores = coin_flips["score"]
    assert abs(scores.mean() - 0.5) <= 0.02 + margin(scores)


def test_coverage_of_prediction_sets_for_random_classes(coin_flips: Claims) -> None:
    assert coin_flips["covered"].mean() >= 0.88 - margin(coin_flips["covered"])


def test_log_loss_of_random_classes(coin_flips: Claims) -> None:
    assert coin_flips["log_loss"].mean() <= 0.71 + margin(coin_flips["log_loss"])  # log 2 = 0.693


def test_score_of_random_targets(noise_targets: Claims) -> None:
    assert noise_targets["score"].mean() <= 0.02 + margin(noise_targets["score"])


def test_coverage_of_intervals_for_random_targets(noise_targets: Claims) -> None:
    covered = noise_targets["covered"]
    assert 0.88 - margin(covered) <= covered.mean() <= 0.95 + margin(covered)


@pytest.mark.parametrize("name", ["coin_flips", "noise_targets"])
def test_p_values_of_noise_are_rarely_small(name: str, request: pytest.FixtureRequest) -> None:
    p_values = request.getfixturevalue(name)["p_value"]
    assert ((p_values > 0) & (p_values <= 1)).all()
    assert (p_values <= 0.05).sum() <= binom.ppf(1 - ERROR_RATE, N_FITS, MAX_REJECTED)


def test_p_values_of_separated_classes_are_small() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(N_SETS) % 2
    model = dk.SetClassifier(random_state=0).fit([rng.normal(4 * c, 1, (10, 2)) for c in y], y)
    assert reported_figures(model)["score"] == 1
    assert reported_figures(model)["p_value"] <= 0.01
