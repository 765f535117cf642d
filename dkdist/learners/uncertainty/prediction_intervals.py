"""Intervals around predictions of a regression that cover a given share of what is true, wide where it is unsure.

    variance_i = a + b / n_i,    interval = prediction +- q(coverage) sqrt(variance_i)

n_i is the size of the set: a row made of few points is noisier. a, b >= 0 are those of the largest Gaussian likelihood
of the residuals of held-out rows, and q the conformal quantile of |residual| / sqrt(variance), so that the intervals
cover what they say whether or not residuals are Gaussian, and whatever a and b are; a and b decide where they are wide.
(Lei et al.: Distribution-free predictive inference for regression (2018), section 5.2. Barber et al.: Predictive
inference with the jackknife+ (2021), for rows that were left out one by one.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from dkdist.learners.uncertainty.conformal_scores import (
    ConformalScores,
    conformal_scores,
    finite_rows,
    require_held_out,
)
from dkdist.loops.array_types import F64
from dkdist.plain.kept import kept

MOST_STEPS = 50  # of the likelihood; some ten are taken
SETTLED = 1e-9  # of the variances: when they no longer change
LEAST = 1e-6  # of the mean squared residual: what no variance is below


@kept
@dataclass(frozen=True)
class PredictionIntervals:
    """Variance ``of_model`` + ``of_size`` / size of a residual, at least ``least``, and conformal scores."""

    of_model: float
    of_size: float
    least: float
    scores: ConformalScores

    def standard_deviations(self, n: int, sizes: Any = None) -> F64:
        """(n,) of the residuals of rows with these set sizes, as `fit_intervals` takes them."""
        return np.sqrt(np.maximum(self.of_model + self.of_size * _one_over(n, sizes), self.least))

    def interval(self, predictions: Any, coverage: float = 0.9, sizes: Any = None) -> F64:
        """(n, 2) lower and upper ends around ``predictions`` (n,).

        Raises ValueError for another coverage than between 0 and 1, and arrays of other lengths. Infinite where fewer
        rows were held out than coverage / (1 - coverage): nine for .9.
        """
        middle = finite_rows("predictions", predictions, 1)
        half = self.scores.quantile(coverage) * self.standard_deviations(len(middle), sizes)
        return np.stack([middle - half, middle + half], axis=1)


def fit_intervals(
    predictions: Any, targets: Any, sizes: Any = None, groups: Any = None
) -> PredictionIntervals:
    """Learn from held-out rows how far predictions are off.

    Parameters
    ----------
    predictions, targets : (n,) arrays
        Predictions of rows that their model did not learn from (out of fold, or left out one by one), and the truth.
    sizes : (n,) array, optional
        Points of each set, or their effective number where they are weighted; by default size does not count.
    groups : (n,) array, optional
        Rows of one group count as much as one row: intervals are for rows of new groups.

    Returns
    -------
    PredictionIntervals

    Raises
    ------
    ValueError
        Naming what is not finite, not positive or of another length.

    Notes
    -----
    Coverage is exact in finite samples for given a and b; that these two are learned from the same rows changes it by
    some 1 / n. Cost: n log n.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist.learners.uncertainty.prediction_intervals import fit_intervals
    >>> rng = np.random.default_rng(0)
    >>> sizes = rng.integers(2, 200, 4000)
    >>> truth = rng.normal(size=4000)
    >>> found = truth + rng.normal(size=4000) * np.sqrt(0.01 + 1 / sizes)
    >>> model = fit_intervals(found[:2000], truth[:2000], sizes=sizes[:2000])
    >>> low, high = model.interval(found[2000:], 0.9, sizes=sizes[2000:]).T
    >>> covered = (low <= truth[2000:]) & (truth[2000:] <= high)
    >>> bool(abs(covered.mean() - 0.9) < 0.02), bool(abs(covered[sizes[2000:] < 20].mean() - 0.9) < 0.05)
    (True, True)
    """
    middle = finite_rows("predictions", predictions, 1)
    require_held_out(len(middle))
    squares = (finite_rows("targets", targets, 1, len(middle)) - middle) ** 2
    columns = np.stack([np.ones(len(middle)), _one_over(len(middle), sizes)], axis=1)
    if not np.isfinite(squares.sum()):
        raise ValueError(
            "targets and predictions differ by more than floats can square: divide them by a number"
        )
    least = LEAST * float(squares.mean()) if squares.any() else 1.0
    of_model, of_size = _variance(squares, columns, least)
    unscored = PredictionIntervals(of_model, of_size, least, ConformalScores(0, ()))
    scores = np.sqrt(squares) / unscored.standard_deviations(len(middle), sizes)
    return PredictionIntervals(of_model, of_size, least, conformal_scores(scores, groups))


def _variance(squares: F64, columns: F64, least: float) -> tuple[float, float]:
    """a, b >= 0 of the largest likelihood: Fisher's scoring, each step least squares in units of the last variances."""
    variance = np.full(len(squares), max(float(squares.mean()), least))
    found = np.zeros(2)
    for _ in range(MOST_STEPS):
        found, _ = nnls(columns / variance[:, None], squares / variance)
        before, variance = variance, np.maximum(columns @ found, least)
        if np.abs(variance - before).max() <= SETTLED * variance.max():
            break
    return float(found[0]), float(found[1])


def _one_over(n: int, sizes: Any) -> F64:
    """One over the sizes; zeros where none are given."""
    return np.zeros(n) if sizes is None else 1 / _positive("sizes", sizes, n)


def _positive(name: str, values: Any, n: int) -> F64:
    array = finite_rows(name, values, 1, n)
    if (array <= 0).any():
        row = int(np.argmax(array <= 0))
        raise ValueError(f"{name} must be positive; found {array[row]} in row {row}")
    return array
