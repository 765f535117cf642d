"""Lines 1, 4, 7 of `honesty.py`: labels that are independent of the sets, calibration, small numbers of groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from honesty_verdicts import Verdicts, clopper_pearson, describe_fit, mean_and_error
from sklearn.metrics import log_loss, r2_score

import dkdist as dk

KINDS = "classes", "numbers"
SIZES = 20, 30, 60, 120, 250, 600
COVERAGE, MIN_COVERAGE, MAX_COVERAGE = 0.9, 0.88, 0.95
LEVEL, MAX_REJECTED, MAX_REJECTED_AT_N = 0.05, 0.07, 0.10
N_ERRORS_AT_N = 2.0  # bounds at a single n are wider by this many standard errors
MAX_SCORE_ERROR, MAX_R2, MAX_LOG_LOSS = 0.02, 0.02, 0.71
MAX_CALIBRATION_ERROR, MIN_CONFIDENCE = 0.05, 0.8
N_FRESH, N_FRESH_GROUPS = 200, 60
WEAK_SIGNAL = 0.3  # with stronger signals, prediction sets of one class cover more than 95 %
N_BINS = 15  # of the confidence, equal widths
SETS_PER_CLASS = {2: 100, 5: 60, 30: 20, 100: 10}  # for overlapping classes
CENTRE_SPREADS = {2: 0.7, 5: 1.0, 30: 2.0, 100: 3.0}
SEPARATED_SPREAD, SEPARATED_SETS, MIN_SETS = 20.0, 8, 40

Run = dict[str, Any]


@dataclass(frozen=True)
class SetDistribution:
    """Random distribution of sets: dimension, sizes, scales and tails of points, and random effects of sets."""

    scales: np.ndarray
    min_size: int
    max_size: int
    effect: float
    heavy_tails: bool

    @classmethod
    def draw(cls, rng: np.random.Generator) -> SetDistribution:
        min_size, max_size = np.sort(rng.integers(5, 61, 2))
        return cls(
            np.exp(rng.normal(0, 1, rng.integers(1, 6))), int(min_size), int(max_size),
            float(rng.choice([0.0, 0.3, 1.0])), bool(rng.random() < 0.3),
        )  # fmt: skip

    def sample(self, rng: np.random.Generator, shifts: np.ndarray) -> Any:
        """Draw one set per row of shifts (n, d), which are in units of the scales."""
        sizes = rng.integers(self.min_size, self.max_size + 1, len(shifts))
        shape = int(sizes.sum()), len(self.scales)
        points = rng.standard_t(3, shape) if self.heavy_tails else rng.standard_normal(shape)
        effects = shifts + self.effect * rng.standard_normal((len(shifts), len(self.scales)))
        points += np.repeat(effects, sizes, axis=0)
        return dk.SampleSets(points * self.scales, np.concatenate([[0], np.cumsum(sizes)]))


def run_noise(kind: str, n: int, index: int, seed: int) -> Run:
    """Fit labels that are independent of the sets, and evaluate on fresh sets with such labels."""
    rng = np.random.default_rng([seed, KINDS.index(kind), n, index])
    distribution = SetDistribution.draw(rng)
    sets = distribution.sample(rng, np.zeros((n + N_FRESH, len(distribution.scales))))
    if kind == "classes":
        y = np.concatenate([rng.permutation(np.arange(m) % 2) for m in (n, N_FRESH)])
    else:
        y = rng.gamma(2, size=n + N_FRESH) if index % 4 == 0 else rng.standard_normal(n + N_FRESH)
    return _fit_and_evaluate(kind, sets[:n], y[:n], None, sets[n:], y[n:], int(rng.integers(2**31)))


def run_groups(kind: str, n_groups: int, signal: float, index: int, seed: int) -> Run:
    """Fit sets of groups that share effects and targets, and evaluate on sets of fresh groups."""
    rng = np.random.default_rng([seed, 2 + KINDS.index(kind), n_groups, int(100 * signal), index])
    distribution = SetDistribution.draw(rng)
    groups = np.repeat(np.arange(n_groups + N_FRESH_GROUPS), rng.integers(2, 7, n_groups + N_FRESH_GROUPS))
    d = len(distribution.scales)
    group_effects = rng.choice([0.3, 1.0]) * rng.standard_normal((groups[-1] + 1, d))
    if kind == "classes":
        parts = [rng.permutation(np.arange(m) % 2) for m in (n_groups, N_FRESH_GROUPS)]
        y = np.concatenate(parts)[groups]
    else:
        y = (rng.standard_normal(groups[-1] + 1))[groups] + 0.3 * rng.standard_normal(len(groups))
    shifts = group_effects[groups] + signal * (y - y.mean())[:, None]
    sets, train = distribution.sample(rng, shifts), groups < n_groups
    a, b = np.flatnonzero(train), np.flatnonzero(~train)
    return _fit_and_evaluate(kind, sets[a], y[a], groups[a], sets[b], y[b], int(rng.integers(2**31)))


def _fit_and_evaluate(kind: str, sets: Any, y: Any, groups: Any, fresh: Any, y_fresh: Any, state: int) -> Run:
    model = (dk.SetClassifier if kind == "classes" else dk.SetRegressor)(random_state=state)
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        model.fit(sets, y, groups=groups)
        fit, rows = describe_fit(model), np.arange(len(y_fresh))
        if kind == "classes":
            members, p = model.predict_set(fresh, coverage=COVERAGE), model.predict_proba(fresh)
            fit |= {
                "fresh": float((model.predict(fresh) == y_fresh).mean()),
                "covered": float(members[rows, y_fresh].mean()), "width": float(members.sum(axis=1).mean()),
                "unbounded": bool(members.all()), "log_loss": float(log_loss(y_fresh, p, labels=[0, 1])),
            }  # fmt: skip
        else:
            low, high = np.asarray(model.predict_interval(fresh, coverage=COVERAGE)).T
            fit |= {
                "fresh": float(r2_score(y_fresh, model.predict(fresh))),
                "covered": float(((low <= y_fresh) & (y_fresh <= high)).mean()),
                "width": float((high - low).mean()), "unbounded": bool(np.isinf(high - low).all()),
            }  # fmt: skip
    return {**fit, "labelled": any("attainable" in str(m.message) for m in messages)}


def report_noise(sizes: Sequence[int], n_fits: int, seed: int, runner: Any) -> Verdicts:
    """Line 1: random classes and numbers as targets.

    Bounds of scores, coverage and log loss hold for the mean over all fits, and at every n within two standard errors.
    """
    verdicts = Verdicts()
    for kind in KINDS:
        all_runs = []
        for n in sizes:
            arguments = [{"kind": kind, "n": n, "index": i, "seed": seed} for i in range(n_fits)]
            runs = runner.run(run_noise, arguments)
            print_runs(f"{kind}, n = {n}", runs)
            check_noise(f"{kind}, n = {n}", runs, MAX_REJECTED_AT_N, N_ERRORS_AT_N, verdicts)
            all_runs += runs
        print_runs(f"{kind}, all n", all_runs)
        check_noise(f"{kind}, all n", all_runs, MAX_REJECTED, 0.0, verdicts)
    return verdicts


def check_noise(
    title: str, runs: Sequence[Run], max_rejected: float, n_errors: float, verdicts: Verdicts
) -> None:
    """Check fits of one kind, with bounds that are ``n_errors`` standard errors wider."""

    def estimate(key: str) -> tuple[float, float, float]:
        mean, error = mean_and_error([run[key] for run in runs])
        return mean, error, n_errors * error

    p_values = np.array([run["p_value"] for run in runs])
    rejected = np.where(np.isfinite(p_values), p_values <= LEVEL, np.nan)
    rate, error = mean_and_error(rejected)
    verdicts.at_most(f"{title}: p <= {LEVEL}", rate, max_rejected, error)
    score, error, slack = estimate("score")
    covered, covered_error, covered_slack = estimate("covered")
    if runs[0]["arguments"]["kind"] == "numbers":
        verdicts.at_most(f"{title}: leaderboard R^2", score, MAX_R2 + slack, error)
        low, high = MIN_COVERAGE - covered_slack, MAX_COVERAGE + covered_slack
        verdicts.within(f"{title}: coverage", covered, low, high, covered_error)
        return
    low, high = 0.5 - MAX_SCORE_ERROR - slack, 0.5 + MAX_SCORE_ERROR + slack
    verdicts.within(f"{title}: leaderboard", score, low, high, error)
    verdicts.at_least(f"{title}: coverage", covered, MIN_COVERAGE - covered_slack, covered_error)
    model_coverage = mean_and_error([run["covered"] for run in runs if run["fallback"] is None])
    if np.isfinite(model_coverage[0]):  # otherwise every fit fell back
        bound = MAX_COVERAGE + n_errors * model_coverage[1]
        verdicts.at_most(f"{title}: coverage without fallbacks", model_coverage[0], bound, model_coverage[1])
    loss, error, slack = estimate("log_loss")
    verdicts.at_most(f"{title}: log loss on fresh sets", loss, MAX_LOG_LOSS + slack, error)


def print_runs(title: str, runs: Sequence[Run]) -> None:
    """Print one line of means over fits with standard errors."""

    def text(key: str) -> str:
        return "{:.3f} ± {:.3f}".format(*mean_and_error([run[key] for run in runs]))

    rejected = sum(run["p_value"] <= LEVEL for run in runs)
    low, high = clopper_pearson(rejected, len(runs))
    fallbacks = sum(run["fallback"] is not None for run in runs)
    model_coverage = [run["covered"] for run in runs if run["fallback"] is None]
    print(
        f"  {title:<34} leaderboard {text('score')}, fresh {text('fresh')}; p <= {LEVEL} in {rejected} of {len(runs)} "
        f"(95 % {low:.3f} to {high:.3f}); covered {text('covered')}, {len(runs) - fallbacks} without fallback "
        f"{mean_and_error(model_coverage)[0]:.3f}; width {text('width')}"
        + (f"; log loss {text('log_loss')}" if "log_loss" in runs[0] else "")
        + f"; {np.mean([run['seconds'] for run in runs]):.2f} s",
        flush=True,
    )


def report_groups(n_fits: int, seed: int, runner: Any) -> Verdicts:
    """Line 7: coverage with 30 groups, and the attainable level with six."""
    verdicts = Verdicts()
    for n_groups in (30, 6):
        for kind in KINDS:
            for signal in (0.0, WEAK_SIGNAL):
                arguments = [
                    {"kind": kind, "n_groups": n_groups, "signal": signal, "index": i, "seed": seed}
                    for i in range(n_fits)
                ]
                runs = runner.run(run_groups, arguments)
                title = f"{kind}, {n_groups} groups, {'signal' if signal else 'noise'}"
                print_runs(title, runs)
                if n_groups == 30:
                    covered, error = mean_and_error([run["covered"] for run in runs])
                    verdicts.at_least(f"{title}: coverage", covered, MIN_COVERAGE, error)
                    # prediction sets of the constant model contain all classes
                    model_coverage, error = mean_and_error(
                        [run["covered"] for run in runs if run["fallback"] is None]
                    )
                    if np.isfinite(model_coverage):  # otherwise every fit fell back
                        verdicts.at_most(
                            f"{title}: coverage without fallbacks", model_coverage, MAX_COVERAGE, error
                        )
                else:
                    fraction = np.mean([run["unbounded"] or run["labelled"] for run in runs])
                    verdicts.at_least(f"{title}: unbounded or labelled", float(fraction), 1.0)
    return verdicts


def run_calibration(n_classes: int, separated: bool, index: int, seed: int, n_fresh: int) -> Run:
    """Fit classes of sets around random centres; return accuracy, confidence, calibration error on fresh sets."""
    rng = np.random.default_rng([seed, 4, n_classes, int(separated), index])
    spread = SEPARATED_SPREAD if separated else CENTRE_SPREADS[n_classes]
    per_class = max(SEPARATED_SETS, MIN_SETS // n_classes) if separated else SETS_PER_CLASS[n_classes]
    centres = spread * rng.standard_normal((n_classes, 4))
    distribution = SetDistribution(np.ones(4), 20, 20, 0.0 if separated else 1.0, False)
    y = np.repeat(np.arange(n_classes), per_class)
    fresh = rng.integers(0, n_classes, n_fresh)
    sets, fresh_sets = distribution.sample(rng, centres[y]), distribution.sample(rng, centres[fresh])
    model = dk.SetClassifier(random_state=int(rng.integers(2**31))).fit(sets, y)
    p = np.asarray(model.predict_proba(fresh_sets))
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == fresh
    return {
        "accuracy": float(correct.mean()), "confidence": float(confidence.mean()),
        "calibration_error": calibration_error(confidence, correct),
    }  # fmt: skip


def calibration_error(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Return the expected calibration error: mean |accuracy - confidence| over bins, weighted by counts."""
    cell = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gap = np.bincount(cell, correct - confidence, minlength=N_BINS)
    return float(np.abs(gap).sum() / len(cell))


def report_calibration(n_fits: int, n_fresh: int, classes: Sequence[int], seed: int, runner: Any) -> Verdicts:
    """Line 4: calibration error, and confidence for separated classes."""
    verdicts = Verdicts()
    for separated in (False, True):
        for k in classes:
            arguments = [
                {"n_classes": k, "separated": separated, "index": i, "seed": seed, "n_fresh": n_fresh}
                for i in range(n_fits)
            ]
            runs = runner.run(run_calibration, arguments)
            name = f"{k} {'separated' if separated else 'overlapping'} classes"
            accuracy, confidence = (np.mean([run[key] for run in runs]) for key in ("accuracy", "confidence"))
            error = mean_and_error([run["calibration_error"] for run in runs])
            print(f"  {name:<26} accuracy {accuracy:.3f}, mean confidence {confidence:.3f}", flush=True)
            verdicts.at_most(f"{name}: expected calibration error", error[0], MAX_CALIBRATION_ERROR, error[1])
            if separated:
                verdicts.at_least(f"{name}: mean confidence", float(confidence), MIN_CONFIDENCE)
    return verdicts
