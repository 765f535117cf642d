"""Conformal prediction: sets of classes and intervals that contain the true value with a given probability.

If the scores s_1, .., s_n of held-out rows and that of the next one are exchangeable,

    P(s <= the k-th smallest of s_1, .., s_n) >= coverage,    k = ceil((n + 1) coverage),

and at most 1 / (n + 1) more if no two are equal. With fewer rows than coverage / (1 - coverage) the bound is
infinite (Vovk, Gammerman, Shafer 2005; Lei et al. 2018, theorem 2).

If rows belong to groups (such as patients), rows are not exchangeable, but groups are. For a row of a new group, each
of the G groups has the same weight, independent of its number of rows, and the new group has the weight 1 / (G + 1):

    P(s <= q) >= coverage,   q the smallest with  1/(G + 1) sum_g (fraction of s in group g that are <= q)  >= coverage

With fewer than coverage / (1 - coverage) groups the bound is infinite (Dunn, Wasserman, Ramdas 2022,
Distribution-free prediction sets for two-layer hierarchical models; Lee, Barber, Willett 2023).

Prediction sets contain the most probable class and all classes c with

    1 - p_c <= q(coverage),    q the conformal quantile of the scores 1 - p_(true class) of held-out rows.

If the probabilities are correct, no other sets with this coverage contain fewer classes on average. The most
probable class is always included, so no set is empty; if its accuracy exceeds the requested coverage, so does the
coverage of the sets (Sadinle, Lei, Wasserman: Least ambiguous set-valued classifiers (2019), theorem 1).

Regression intervals have a width that depends on the size of the set:

    variance_i = a + b / n_i,    interval = prediction +- q(coverage) sqrt(variance_i)

n_i is the size of the set; rows of small sets have more noise. a, b >= 0 maximise the Gaussian likelihood of held-out
residuals, and q is the conformal quantile of |residual| / sqrt(variance), so the coverage is valid for any distribution
of residuals and any a and b, which determine only the relative widths.

References: Lei et al., Distribution-free predictive inference for regression (2018), section 5.2; for leave-one-out
residuals Barber et al., Predictive inference with the jackknife+ (2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dkdist._numba.arrays import F64, I64
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import as_real_array, check_bool
from dkdist.auto._tuning import MAX_SCORES, MAX_SCORING_STEPS, MIN_VARIANCE_RATIO, VARIANCE_RTOL

RANK_TOL = 1e-9  # rounding errors of products such as 0.9 * 10 (tests/learners/test_prediction_intervals.py)


@serializable("ConformalScores")
@dataclass(frozen=True)
class ConformalScores:
    """Sorted scores, at evenly spaced ranks, of ``n_rows`` held-out rows or groups of equal weight."""

    n_rows: int
    values: tuple[float, ...]

    def check_loaded(self) -> None:
        """Raise ValueError unless scores are ascending, one per row or group or 10,000."""
        if (
            not min(self.n_rows, MAX_SCORES) <= len(self.values) <= MAX_SCORES
            or (np.diff(self.values) < 0).any()
        ):
            raise ValueError(
                f"Conformal scores must be ascending, one per row or 10,000; got {len(self.values)} for "
                f"{self.n_rows} rows."
            )

    def quantile(self, coverage: float) -> float:
        """Return a bound that the next score does not exceed with probability ``coverage``; infinite for too few rows.

        Raises ValueError unless 0 < coverage < 1.
        """
        rank = int(np.ceil((self.n_rows + 1) * require_coverage(coverage) - RANK_TOL))
        if rank > self.n_rows:
            return float("inf")
        position = -(-rank * len(self.values) // self.n_rows)  # first stored score with at least this rank
        return self.values[position - 1]


def conformal_scores(scores: F64, groups: Any = None) -> ConformalScores:
    """Return the conformal scores of n >= 1 rows with finite ``scores`` (n,) and optional ``groups`` (n,)."""
    scores = finite_rows("scores", scores, 1)
    require_held_out(len(scores))
    order = np.argsort(scores, kind="stable")
    n_kept = min(len(scores), MAX_SCORES)
    if groups is None:
        n = len(scores)
        ranks = -(-np.arange(1, n_kept + 1) * n // n_kept)
        return ConformalScores(n, tuple(scores[order][ranks - 1].tolist()))
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    # Mean over groups of the fraction of scores up to this one.
    weight_below = np.cumsum(1.0 / sizes[group[order]]) / len(sizes)
    positions = np.searchsorted(weight_below, np.arange(1, n_kept + 1) / n_kept - RANK_TOL)
    return ConformalScores(len(sizes), tuple(scores[order][np.minimum(positions, len(scores) - 1)].tolist()))


def require_held_out(n: int) -> None:
    """Raise ValueError without held-out rows."""
    if n == 0:
        raise ValueError("Conformal prediction requires at least 1 held-out row; got 0.")


def require_coverage(coverage: Any) -> float:
    """Return ``coverage`` as a float; ValueError unless 0 < coverage < 1."""
    try:
        number = float(coverage)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if isinstance(coverage, (bool, str, bytes)) or not 0 < number < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9; got {coverage!r:.200}.")
    return number


def finite_rows(name: str, values: Any, n_dims: int, n_rows: int | None = None) -> F64:
    """Return ``values`` as a finite float64 array with ``n_dims`` axes and, unless None, ``n_rows`` rows."""
    array = as_real_array(name, values).astype(np.float64, copy=False)
    if array.ndim != n_dims or (n_rows is not None and len(array) != n_rows):
        expected_rows = "" if n_rows is None else f" with {n_rows} rows"
        raise ValueError(f"{name} must be {n_dims}-D{expected_rows}; got shape {array.shape}.")
    if not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
        raise ValueError(f"{name} must be finite; got {array[row]} (row {row}). Drop this row.")
    return array


@serializable("PredictionSets")
@dataclass(frozen=True)
class PredictionSets:
    """Conformal scores (1 - probability of the true class) of all held-out rows, and by class."""

    scores: ConformalScores
    by_class: tuple[ConformalScores, ...]

    def members(
        self, probabilities: Any, coverage: float = 0.9, class_conditional: bool = False
    ) -> NDArray[np.bool_]:
        """Return the prediction sets (n, n_classes) for ``probabilities`` (n, n_classes).

        With ``class_conditional`` the coverage is valid for each class. A class is in all prediction sets if it has
        fewer than coverage / (1 - coverage) held-out rows. Without ``class_conditional``, all classes are in
        all prediction sets if there are fewer held-out rows in total. Raises ValueError unless 0 < coverage < 1.
        """
        p = finite_rows("probabilities", probabilities, 2)
        scores = self.by_class if check_bool("class_conditional", class_conditional) else (self.scores,)
        is_member = 1 - p <= np.array([class_scores.quantile(coverage) for class_scores in scores])
        is_member[np.arange(len(p)), p.argmax(axis=1)] = True
        return np.asarray(is_member)


def fit_prediction_sets(probabilities: Any, labels: I64, groups: Any = None) -> PredictionSets:
    """Fit prediction sets to held-out rows.

    ``probabilities`` (n, n_classes) are predictions of models that were not fitted on these rows, ``labels`` (n,) the
    indices of the true classes. Each group in ``groups`` (n,) has the weight of one row.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist.auto.conformal import fit_prediction_sets
    >>> p = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.55, 0.45]])
    >>> fit_prediction_sets(p, np.array([0, 0, 1, 1])).members([[0.9, 0.1], [0.5, 0.5]], 0.8)
    array([[ True, False],
           [ True,  True]])
    """
    p = finite_rows("probabilities", probabilities, 2)
    if len(labels) != len(p) or labels.min(initial=0) < 0 or labels.max(initial=0) >= p.shape[1]:
        raise ValueError(
            f"labels must be {len(p)} indices of {p.shape[1]} classes; got shape {np.shape(labels)}."
        )
    scores = 1 - p[np.arange(len(p)), labels]
    by_class = tuple(_scores_of(scores, groups, labels == c) for c in range(p.shape[1]))
    return PredictionSets(_scores_of(scores, groups, np.ones(len(p), np.bool_)), by_class)


def _scores_of(scores: F64, groups: Any, rows: NDArray[np.bool_]) -> ConformalScores:
    if not rows.any():
        return ConformalScores(0, ())
    return conformal_scores(scores[rows], None if groups is None else np.asarray(groups)[rows])


@serializable("PredictionIntervals")
@dataclass(frozen=True)
class PredictionIntervals:
    """Conformal scores, and the variance ``of_model`` + ``of_size`` / size of residuals, at least ``least``."""

    of_model: float
    of_size: float
    least: float
    scores: ConformalScores

    def standard_deviations(self, n: int, sizes: Any = None) -> F64:
        """Return standard deviations (n,) of the residuals of rows with these set sizes."""
        return np.sqrt(np.maximum(self.of_model + self.of_size * _inverse_sizes(n, sizes), self.least))

    def interval(self, predictions: Any, coverage: float = 0.9, sizes: Any = None) -> F64:
        """Return intervals (n, 2) around ``predictions`` (n,).

        Raises ValueError unless 0 < coverage < 1 and sizes have shape (n,). Intervals are infinite with fewer
        than coverage / (1 - coverage) held-out rows: 9 for 0.9.
        """
        middle = finite_rows("predictions", predictions, 1)
        half = self.scores.quantile(coverage) * self.standard_deviations(len(middle), sizes)
        return np.stack([middle - half, middle + half], axis=1)


def fit_intervals(
    predictions: Any, targets: Any, sizes: Any = None, groups: Any = None
) -> PredictionIntervals:
    """Fit prediction intervals to held-out rows.

    Parameters
    ----------
    predictions, targets : (n,) arrays
        Predictions of models that were not fitted on these rows (cross-validated or leave-one-out), and true values.
    sizes : (n,) array, optional
        Number of points of each set, or the effective number of weighted points; None ignores sizes.
    groups : (n,) array, optional
        Each group has the weight of one row: intervals are for rows of new groups.

    Returns
    -------
    PredictionIntervals

    Raises
    ------
    ValueError
        If arrays are not finite or have different lengths, or sizes are not positive.

    Notes
    -----
    Coverage is exact in finite samples for fixed a and b; fitting them on the same rows changes it by about 1 / n.
    Cost: O(n log n).

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist.auto.conformal import fit_intervals
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
    columns = np.stack([np.ones(len(middle)), _inverse_sizes(len(middle), sizes)], axis=1)
    if not np.isfinite(squares.sum()):
        raise ValueError(
            "targets - predictions must have finite squares; got an overflow. Divide both by a constant."
        )
    least = MIN_VARIANCE_RATIO * float(squares.mean()) if squares.any() else 1.0
    of_model, of_size = _fit_variance(squares, columns, least)
    unscored = PredictionIntervals(of_model, of_size, least, ConformalScores(0, ()))
    scores = np.sqrt(squares) / unscored.standard_deviations(len(middle), sizes)
    return PredictionIntervals(of_model, of_size, least, conformal_scores(scores, groups))


def _fit_variance(squares: F64, columns: F64, min_variance: float) -> tuple[float, float]:
    """Return a, b >= 0 with the largest likelihood by Fisher scoring: iterated weighted least squares."""
    variance = np.full(len(squares), max(float(squares.mean()), min_variance))
    coefficients = np.zeros(2)
    for _ in range(MAX_SCORING_STEPS):
        coefficients, _ = nnls(columns / variance[:, None], squares / variance)
        previous, variance = variance, np.maximum(columns @ coefficients, min_variance)
        if np.abs(variance - previous).max() <= VARIANCE_RTOL * variance.max():
            break
    return float(coefficients[0]), float(coefficients[1])


def _inverse_sizes(n: int, sizes: Any) -> F64:
    return np.zeros(n) if sizes is None else 1 / _check_positive("sizes", sizes, n)


def _check_positive(name: str, values: Any, n: int) -> F64:
    array = finite_rows(name, values, 1, n)
    if (array <= 0).any():
        row = int(np.argmax(array <= 0))
        raise ValueError(f"{name} must be positive; got {array[row]} (row {row}).")
    return array
