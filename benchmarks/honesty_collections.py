"""Lines 2 and 3 of `honesty.py`: optimism of the leaderboard, and the model compared with simple baselines.

Scores are accuracy, or 1 - squared error / variance of all targets of the collection (R^2 with the same denominator in
all folds). Folds of repeated cross-validation share training sets, so their differences are correlated: the variance of
their mean is (1 / J + n_test / n_train) times their sample variance, for J folds (Nadeau and Bengio 2003, Inference for
the generalization error, Machine Learning 52), with J - 1 degrees of freedom. If every set is tested at most once, the
standard error is that of the mean over test sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from honesty_verdicts import Verdicts, describe_fit
from real_collections import load_collection, simple_baselines, split_keys
from scipy.stats import norm, rankdata, t

import dkdist as dk

MAX_BEHIND = 0.005  # mean paired difference to the selected baseline
MAX_OPTIMISM, MAX_PESSIMISM, MAX_ERRORS = 0.01, 0.03, 3.0
MAX_SINGLE_TEST_SPLITS = 5  # with at most this many splits, every set is tested at most once
SIGNIFICANCE = float(norm.sf(2))  # two standard errors, one-sided
OURS, CHOSEN = "this model", "best baseline by inner cross-validation"

Run = dict[str, Any]


def run_model(collection: str, split: int, seed: int, quick: bool) -> Run:
    """Fit the automatic model on one split; return its leaderboard score and one value per held-out set."""
    data = load_collection(collection, seed, quick)
    train, test = data.splits[split]
    groups = None if data.groups is None else data.groups[train]
    kind = dk.SetClassifier if data.is_classifier else dk.SetRegressor
    model = kind(random_state=1000 * seed + split).fit(data.sets[train], data.y[train], groups=groups)
    fit = describe_fit(model)
    if not data.is_classifier:  # convert R^2 of the training sets to the variance of all targets
        ratio = float(data.y[train].var()) / data.variance
        fit["score"], fit["std_error"] = 1 - (1 - fit["score"]) * ratio, fit["std_error"] * ratio
    values = simple_baselines.values_of(
        data.y[test], model.predict(data.sets[test]), data.is_classifier, data.variance
    )
    return {**fit, "n_train": len(train), "values": _rounded(values)}


def run_baselines(collection: str, split: int, seed: int, quick: bool) -> Run:
    """Select a simple baseline on one split; return inner scores, and a value per held-out set and baseline."""
    data = load_collection(collection, seed, quick)
    train, test = data.splits[split]
    groups = None if data.groups is None else data.groups[train]
    selection = simple_baselines.select_baseline(
        data.sets[train], data.y[train], data.sets[test], groups, 1000 * seed + split
    )
    values = {
        name: _rounded(simple_baselines.values_of(data.y[test], p, data.is_classifier, data.variance))
        for name, p in selection.predictions.items()
    }
    return {
        "best": selection.best, "inner": selection.inner, "labels": selection.labels, "n_train": len(train),
        "values": values,
    }  # fmt: skip


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 6) for v in values]


def mean_and_error(
    values: Sequence[Sequence[float]], n_train: int, repeated: bool
) -> tuple[float, float, int]:
    """Return the mean of the values of test sets, its standard error and degrees of freedom (see module)."""
    if not repeated:
        all_values = np.concatenate([np.asarray(v, float) for v in values])
        return (
            float(all_values.mean()),
            float(all_values.std(ddof=1) / np.sqrt(len(all_values))),
            len(all_values) - 1,
        )
    means, sizes = np.array([np.mean(v) for v in values]), np.array([len(v) for v in values])
    factor = 1 / len(means) + sizes.mean() / n_train
    return float(np.average(means, weights=sizes)), float(means.std(ddof=1) * factor**0.5), len(means) - 1


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return p-values adjusted by the step-down method of Holm (1979)."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    result = np.empty(len(p))
    result[order] = np.minimum(adjusted, 1)
    return result


def report_optimism(names: Sequence[str], seed: int, quick: bool, runner: Any) -> Verdicts:
    """Line 2: leaderboard score minus held-out score, on each collection and on average."""
    verdicts, rows = Verdicts(), []
    for name, arguments in arguments_by_collection(names, seed, quick).items():
        runs = completed_runs(run_model, name, arguments, runner)
        if runs is None:
            continue
        values, repeated = [run["values"] for run in runs], len(runs) > MAX_SINGLE_TEST_SPLITS
        held_out_score, error, _ = mean_and_error(values, runs[0]["n_train"], repeated)
        if repeated:  # the leaderboard's error is part of the differences between folds
            differences = [[run["score"] - v for v in run["values"]] for run in runs]
            optimism, error, _ = mean_and_error(differences, runs[0]["n_train"], True)
        else:  # one split, or one repeat: errors of both scores
            leaderboard_score = np.mean([run["score"] for run in runs])
            optimism = float(leaderboard_score) - held_out_score
            error = float(np.hypot(error, np.mean([run["std_error"] for run in runs])))
        rows.append((name, optimism, error))
        print(
            f"  {name:<14} leaderboard {held_out_score + optimism:7.4f}  held out {held_out_score:7.4f}  "
            f"optimism {optimism:+.4f} ± {error:.4f} "
            f"({len(runs)} fits, {np.mean([run['seconds'] for run in runs]):.1f} s each)",
            flush=True,
        )
        verdicts.at_most(
            f"{name}: standard errors of optimism", abs(optimism) / max(error, 1e-12), MAX_ERRORS
        )
    if rows:
        optimism, errors = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
        error = float(np.sqrt((errors**2).sum())) / len(rows)
        print(f"  mean over {len(rows)} collections: {optimism.mean():+.4f} ± {error:.4f}")
        verdicts.at_most("mean optimism", optimism.mean(), MAX_OPTIMISM + error, error)
        verdicts.at_most("mean pessimism", -optimism.mean(), MAX_PESSIMISM, error)
    return verdicts


def report_differences(
    names: Sequence[str], seed: int, quick: bool, runner: Any, baselines_only: bool
) -> Verdicts:
    """Line 3: the model minus the baseline that inner cross-validation chose, and the rank of each method."""
    verdicts, rows, scores = Verdicts(), [], dict[str, dict[str, float]]()
    for name, arguments in arguments_by_collection(names, seed, quick).items():
        baseline_runs = completed_runs(run_baselines, name, arguments, runner)
        model_runs = None if baselines_only else completed_runs(run_model, name, arguments, runner)
        if baseline_runs is None or (model_runs is None and not baselines_only):
            continue
        values: dict[str, list[Any]] = defaultdict(list)
        for run in baseline_runs:
            values[CHOSEN].append(run["values"][run["best"]])
            for baseline, baseline_value in run["values"].items():
                values[baseline].append(baseline_value)
        if model_runs is not None:
            values[OURS] = [run["values"] for run in model_runs]
        n_train, repeated = baseline_runs[0]["n_train"], len(baseline_runs) > MAX_SINGLE_TEST_SPLITS
        estimates = {key: mean_and_error(v, n_train, repeated) for key, v in values.items()}
        scores[name] = {key: estimate[0] for key, estimate in estimates.items()}
        print(f"  {name} ({len(baseline_runs)} splits)")
        for key, (mean, error, _) in sorted(estimates.items(), key=lambda item: -item[1][0]):
            print(f"    {key:<46} {mean:7.4f} ± {error:.4f}", flush=True)
        if model_runs is not None:
            differences = [np.subtract(a, b) for a, b in zip(values[OURS], values[CHOSEN], strict=True)]
            rows.append((name, *mean_and_error(differences, n_train, repeated)))
    print_ranks(scores)
    if rows:
        add_differences(rows, verdicts)
    return verdicts


def add_differences(rows: Sequence[tuple[str, float, float, int]], verdicts: Verdicts) -> None:
    """Print and check rows of (collection, mean difference, standard error, degrees of freedom)."""
    errors = np.array([max(row[2], 1e-12) for row in rows])
    p_values = [float(t.cdf(row[1] / e, row[3])) for row, e in zip(rows, errors, strict=True)]
    adjusted = holm(p_values)
    print(f"  {OURS} minus {CHOSEN}; one-sided p-values of being worse, and adjusted by Holm")
    for (name, mean, error, _), p, q in zip(rows, p_values, adjusted, strict=True):
        print(f"    {name:<14} {mean:+.4f} ± {error:.4f}  p = {p:.3f}, adjusted {q:.3f}")
    mean = float(np.mean([row[1] for row in rows]))
    error = float(np.sqrt((errors**2).sum())) / len(rows)
    print(f"    mean over {len(rows)} collections: {mean:+.4f} ± {error:.4f}")
    verdicts.at_least("mean paired difference", mean, -MAX_BEHIND, error)
    verdicts.at_least("minimum adjusted p-value of being worse", float(adjusted.min()), SIGNIFICANCE)


def print_ranks(scores: dict[str, dict[str, float]]) -> None:
    """Print the mean relative rank of each method over its collections: 0 is best and 1 is worst."""
    ranks: dict[str, list[float]] = defaultdict(list)
    for row in scores.values():
        order = rankdata([-value for value in row.values()])
        for name, rank in zip(row, order, strict=True):
            ranks[name].append((rank - 1) / max(len(row) - 1, 1))
    print("  mean relative rank (0 best, 1 worst) and number of collections")
    for name, method_ranks in sorted(ranks.items(), key=lambda item: np.mean(item[1])):
        print(f"    {name:<46} {np.mean(method_ranks):.3f} {len(method_ranks):4d}", flush=True)


def arguments_by_collection(names: Sequence[str], seed: int, quick: bool) -> dict[str, list[Run]]:
    result: dict[str, list[Run]] = {name: [] for name in names}
    for name, split in split_keys(names, quick):
        result[name].append({"collection": name, "split": split, "seed": seed, "quick": quick})
    return result


def completed_runs(function: Any, name: str, arguments: list[Run], runner: Any) -> list[Run] | None:
    """Return the runs of a collection; print the reason and return None if its data or a library is missing."""
    try:
        return runner.run(function, arguments)
    except (FileNotFoundError, ImportError) as error:
        print(f"  {name:<14} skipped: {error}", flush=True)
        return None
