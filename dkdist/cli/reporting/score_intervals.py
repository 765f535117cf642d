"""Scores of predictions with 95 % intervals: of shares by the binomial law, of all else by the bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap

from dkdist.loops.array_types import F64, I64

CONFIDENCE = 0.95
RESAMPLES, MANY = 999, 10_000  # of up to so many sets; a fifth of them for more
LEAST_PROBABILITY = 1e-15  # in a logarithm


class Score(NamedTuple):
    """A score, the ends of its interval, and what one gets without looking at a set (NaN: nothing to say)."""

    name: str
    value: float
    low: float
    high: float
    constant: float = float("nan")


def share(name: str, right: NDArray[np.bool_], constant: float = float("nan")) -> Score:
    """The share of sets of which something is true; Wilson's interval."""
    ends = binomtest(int(right.sum()), len(right)).proportion_ci(CONFIDENCE, "wilson")
    return Score(name, float(right.mean()), float(ends.low), float(ends.high), constant)


def resampled(name: str, score: Callable[[I64], float], n: int, constant: float = float("nan")) -> Score:
    """A score of some of n sets, with an interval by percentiles of samples of them, drawn with repetition."""
    every = np.arange(n)
    count = RESAMPLES if n <= MANY else RESAMPLES // 5
    found = bootstrap(
        (every,), lambda rows: score(rows), vectorized=False, n_resamples=count, confidence_level=CONFIDENCE,
        method="percentile", rng=np.random.default_rng(0),
    )  # fmt: skip
    ends = found.confidence_interval
    return Score(name, score(every), float(ends.low), float(ends.high), constant)


def scores_of_classes(
    truth: NDArray[Any], predicted: NDArray[Any], classes: Any, P: F64 | None
) -> list[Score]:
    """Accuracy, balanced accuracy, log loss of probabilities; and of every class the share that was found."""
    right, n = truth == predicted, len(truth)
    names, index = np.unique(truth, return_inverse=True)
    shares = np.bincount(index) / n
    found = [share("accuracy", right, float(shares.max()))]
    if len(names) > 1:

        def balanced(rows: I64) -> float:
            sizes = np.bincount(index[rows], minlength=len(names))
            hits = np.bincount(index[rows], right[rows], minlength=len(names))
            return float((hits[sizes > 0] / sizes[sizes > 0]).mean())

        found.append(resampled("balanced accuracy", balanced, n, 1 / len(names)))
    if P is not None:
        own = P[np.arange(n), np.searchsorted(classes, truth)]
        losses = -np.log(np.maximum(own, LEAST_PROBABILITY))
        constant = float(-(shares * np.log(shares)).sum())
        found.append(resampled("log loss", lambda rows: float(losses[rows].mean()), n, constant))
    return found + [share(f"found of {name}", right[index == k]) for k, name in enumerate(names)]


def scores_of_numbers(truth: F64, predicted: F64) -> list[Score]:
    """R^2, root mean squared and mean absolute error."""
    errors, n = truth - predicted, len(truth)
    deviation, absolute = float(truth.std()), float(np.abs(truth - np.median(truth)).mean())

    def r2(rows: I64) -> float:
        spread = ((truth[rows] - truth[rows].mean()) ** 2).sum()
        return float(1 - (errors[rows] ** 2).sum() / spread) if spread > 0 else float("nan")

    squared = resampled(
        "root mean squared error", lambda rows: float(np.sqrt((errors[rows] ** 2).mean())), n, deviation
    )
    mean = resampled("mean absolute error", lambda rows: float(np.abs(errors[rows]).mean()), n, absolute)
    return [resampled("R2", r2, n, 0.0), squared, mean] if deviation > 0 else [squared, mean]
