"""Lines 2 and 3 of `honesty.py`: optimism of the leaderboard, and the model against simple baselines.

Scores are accuracies, and 1 - squared error / variance of all targets of the collection (R^2 whose denominator does
not depend on the fold). Folds of repeated cross-validation share training sets, so their differences are correlated:
the variance of their mean is (1 / J + n_test / n_train) times their sample variance, for J folds (Nadeau and Bengio
2003, Inference for the generalization error, Machine Learning 52), with J - 1 degrees of freedom. Where every set is
tested once at most, the standard error is that of the mean over test sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from honest_model import describe_fit
from real_collections import load_collection, simple_baselines, split_keys
from scipy.stats import norm, rankdata, t

import dkdist as dk

MAX_BEHIND = 0.005  # mean paired difference to the chosen baseline
MAX_OPTIMISM, MAX_PESSIMISM, MAX_ERRORS = 0.01, 0.03, 3.0
SIGNIFICANCE = float(norm.sf(2))  # two standard errors, one-sided
OURS, CHOSEN = "this model", "best baseline by inner cross-validation"

Run = dict[str, Any]


def run_model(collection: str, split: int, seed: int, quick: bool) -> Run:
    """Fit the automatic model on one split: its leaderboard score, and one value for each held-out set."""
    data = load_collection(collection, seed, quick)
    train, test = data.splits[split]
    groups = None if data.groups is None else data.groups[train]
    kind = dk.SetClassifier if data.is_classifier else dk.SetRegressor
    model = kind(random_state=1000 * seed + split).fit(data.sets[train], data.y[train], groups=groups)
    fit = describe_fit(model)
    if not data.is_classifier:  # R^2 of the training sets, in the scale of all targets
        ratio = float(data.y[train].var()) / data.variance
        fit["score"], fit["std_error"] = 1 - (1 - fit["score"]) * ratio, fit["std_error"] * ratio
    values = simple_baselines.values_of(
        data.y[test], model.predict(data.sets[test]), data.is_classifier, data.variance
    )
    return {**fit, "n_train": len(train), "values": _rounded(values)}


def run_baselines(collection: str, split: int, seed: int, quick: bool) -> Run:
    """Select a simple baseline on one split: inner scores, and one value for each held-out set and baseline."""
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


def mean_and_error(values: Sequence[Sequence[float]], n_train: int, repeated: bool) -> tuple[float, float, int]:
    """Mean over folds of values of test sets, its standard error and degrees of freedom (see above)."""
    if not repeated:
        every = np.concatenate([np.asarray(v, float) for v in values])
        return float(every.mean()), float(every.std(ddof=1) / np.sqrt(len(every))), len(every) - 1
    means, sizes = np.array([np.mean(v) for v in values]), np.array([len(v) for v in values])
    factor = 1 / len(means) + sizes.mean() / n_train
    return float(np.average(means, weights=sizes)), float(means.std(ddof=1) * factor**0.5), len(means) - 1


def holm(p_values: Sequence[float]) -> np.ndarray:
    """P-values adjusted by the step-down method of Holm (1979)."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    result = np.empty(len(p))
    result[order] = np.minimum(adjusted, 1)
    return result
