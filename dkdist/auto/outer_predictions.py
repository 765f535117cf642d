"""Outer folds and their predictions: the score of the model, its standard error, and its p-value.

Every outer fold repeats the whole selection on the other sets, so no prediction depends on its own target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import t as student_t

from dkdist._base.design_columns import encode, encodings
from dkdist._base.parameter_checks import is_literal
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist.auto import _tuning
from dkdist.auto.folds import draw_folds, draw_hold_out, max_folds
from dkdist.auto.scoring import Score, TrainingData
from dkdist.auto.study_design import COVARIATES, residuals

CONSTANT = "constant"
"""The name of the baseline that predicts the mean target."""


@dataclass(frozen=True)
class OuterFolds:
    """Test rows of each outer fold, and whether the final model is refitted on all sets (``refit``).

    Without ``refit`` there is one hold-out, and the model that was scored on it is the final one.
    """

    test_rows: tuple[I64, ...]
    refit: bool = True

    @property
    def description(self) -> str:
        """Description in summaries."""
        if len(self.test_rows) > 1:
            return f"{len(self.test_rows)} outer folds"
        return f"{len(self.test_rows[0])} held-out sets"


def draw_outer_folds(data: TrainingData, max_refit_sets: int, single: bool = False) -> OuterFolds:
    """Return outer folds; one hold-out if ``single`` or for more than `MAX_NESTED_SETS` sets.

    For more than ``max_refit_sets`` sets there is no refit. A splitter or number of folds from the user is used
    unchanged, up to `MAX_NESTED_SETS` sets.
    """
    n = len(data)
    if single or n > _tuning.MAX_NESTED_SETS:
        refit = n <= max_refit_sets
        share = _tuning.HOLD_OUT_SHARE
        if not refit:
            share = min(
                _tuning.HOLD_OUT_SHARE,
                float(np.clip(n // 10, _tuning.MIN_HOLD_OUT_SETS, _tuning.MAX_HOLD_OUT_SETS)) / n,
            )
        test = draw_hold_out(n, data.classes, data.groups, share, data.seed, RngStream.OUTER_FOLDS)
        return OuterFolds((test,), refit)
    if data.fold_labels is not None:
        labels = data.fold_labels
        return OuterFolds(tuple(np.flatnonzero(labels == fold) for fold in np.unique(labels)))
    automatic = is_literal(data.cv, "auto")
    default = next(k for k, max_sets in _tuning.MAX_SETS_BY_FOLDS.items() if n <= max_sets)
    n_folds = max_folds(n, data.classes, data.groups, default if automatic else data.cv)
    if automatic and data.groups is None and data.classes is not None and n <= _tuning.MAX_BALANCED_SETS:
        n_folds = _balanced_folds(np.bincount(data.classes), n_folds)
    seed = int(np.random.default_rng([data.seed, RngStream.OUTER_FOLDS]).integers(2**32))
    return OuterFolds(tuple(draw_folds(n, data.classes, data.groups, n_folds, seed)))


def _balanced_folds(class_sizes: I64, n_folds: int) -> int:
    """Return the largest number of folds that divides every class evenly, else ``n_folds``; see `MIN_BALANCED_FOLDS`.

    Uneven folds bias the score of noise downwards: a class that is rare in training is frequent in the test fold.
    """
    choices = range(n_folds, min(n_folds, _tuning.MIN_BALANCED_FOLDS) - 1, -1)
    return next((k for k in choices if not (class_sizes % k).any()), n_folds)


@dataclass(frozen=True)
class FoldPredictions:
    """Predictions (n, t) for held-out sets by the model, by its ensemble, and by each baseline.

    The model is the constant if the ensemble did not beat it on the inner folds, otherwise the ensemble. For classes,
    ``ensemble`` holds log probabilities (n, n_classes), calibrated on the inner folds: decision values have different
    scales if models selected different penalties.
    """

    model: F64
    ensemble: F64
    baselines: Mapping[str, F64]


@dataclass(frozen=True)
class OuterPredictions:
    """Predictions for the training data, each by a model that was not fitted on the row.

    ``fold`` (n,) is the outer fold of each row.
    """

    data: TrainingData
    fold: I64
    predictions: FoldPredictions

    @property
    def positions(self) -> I64:
        """Positions of the rows in the call of ``fit``."""
        return self.data.positions

    def score(self, values: F64, score: Score) -> tuple[float, F64]:
        """Return the score of predictions (n, t), and the scores (n_blocks,) without one jackknife block each."""
        full_score = score(values, self.positions)
        return full_score, np.array(
            [score(values[rows], self.positions[rows]) for rows in self._without_blocks()]
        )

    def _without_blocks(self) -> Iterator[I64]:
        """Yield the rows outside each of up to `MAX_JACKKNIFE_BLOCKS` random blocks of rows or of whole groups."""
        n, groups = len(self.fold), self.data.groups
        unit = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        n_units = int(unit.max()) + 1
        rng = np.random.default_rng([self.data.seed, RngStream.JACKKNIFE])
        block = (rng.permutation(n_units) % min(n_units, _tuning.MAX_JACKKNIFE_BLOCKS))[unit]
        return (np.flatnonzero(block != b) for b in range(int(block.max()) + 1))

    def p_value(self) -> float:
        """Return the two-sided p-value of the predictions under independence of sets and targets.

        The statistic is T = sum_i w_i (y_i - mean y) . (v_i - mean v) for predictions v, divided by its standard
        deviation over permutations of the targets; with groups, over random signs of the sums of the groups.
        Refitted models vary more than fixed predictions. Example: for a leave-one-out linear smoother
        v_i = sum_(j != i) K_ij y_j with symmetric K, T = sum_(i != j) K_ij y_i y_j has the variance 2 sum K_ij^2,
        because each pair occurs twice, but permuting y with fixed v gives sum K_ij^2. The correction of Nadeau and
        Bengio (Inference for the generalization error, 2003) accounts for that: the variance of k folds is multiplied
        by 1 + k / (k - 1) > 2. One hold-out needs no factor. The reference distribution is Student's t with n - 1
        degrees of freedom for n sets or groups. The p-value is two-sided, although only a positive T is evidence,
        because all folds may share a favourable selection.

        With a design, the hypothesis is independence given the design: y and v are residuals of least squares on it,
        and v is the prediction without the offset of the covariates. T is 0 if the design determines the targets.
        Targets of survival models are martingale residuals, of the log hazards that covariates predict.
        """
        n_units: float = len(self.fold) if self.data.groups is None else len(np.unique(self.data.groups))
        z = self._z() / np.sqrt(self.variance_factor)
        if self.data.design is not None:
            n_units = min(n_units, self._effective_number_of_sets)
        return float(min(1.0, 2 * student_t.sf(z, max(1, n_units - 1))))

    @property
    def _effective_number_of_sets(self) -> float:
        """Number of sets with equal squared residuals and the same variance of T (Satterthwaite 1946)."""
        squares = (self._centred_targets**2).sum(axis=1)
        return float(squares.sum() ** 2 / (squares @ squares)) if squares.any() else 0.0

    @property
    def variance_factor(self) -> float:
        """Variance factor 1 + k / (k - 1) of sums over k folds with overlapping training sets; 1 for a hold-out."""
        n_folds = int(self.fold.max()) + 1
        return 1 + n_folds / (n_folds - 1) if n_folds > 1 else 1.0

    def _z(self) -> float:
        """Return T in standard deviations; 0 if all predictions of each fold are equal, as after a fallback."""
        y, v = self._centred_targets, self.data.weights[:, None] * self._set_values
        if not np.abs(v).max() > 1e-12:
            return 0.0
        if self.data.groups is None:
            y, v = y - y.mean(axis=0), v - v.mean(axis=0)
            freedom = max(1, len(y) - 1 - (0 if self._columns is None else self._columns.shape[1]))
            variance = ((y.T @ y) * (v.T @ v)).sum() / freedom  # over all permutations (Hoeffding 1951)
            return float((y * v).sum() / np.sqrt(variance)) if variance > 0 else 0.0
        sums = np.bincount(np.unique(self.data.groups, return_inverse=True)[1], (y * v).sum(axis=1))
        return float(sums.sum() / np.sqrt(sums @ sums)) if sums.any() else 0.0

    def _centred(self, values: F64) -> F64:
        """Subtract the mean of each fold, because models have different intercepts; with groups, the overall mean."""
        weights = self.data.weights
        if self.data.groups is not None:
            return values - np.average(values, axis=0, weights=weights)
        n_folds, t = int(self.fold.max()) + 1, values.shape[1]
        sums = np.stack([np.bincount(self.fold, weights * values[:, j], n_folds) for j in range(t)], axis=1)
        return values - (sums / np.bincount(self.fold, weights, n_folds)[:, None])[self.fold]

    @cached_property
    def _columns(self) -> F64 | None:
        """Columns (n, q) of the design."""
        design, weights = self.data.design, self.data.weights
        return None if design is None else encode(encodings(design, weights), design)

    @cached_property
    def _centred_targets(self) -> F64:
        if self._columns is None:
            return self.data.y - self.data.constant
        data, covariates = self.data, self.predictions.baselines.get(COVARIATES)
        if data.survival is not None and covariates is not None:
            data = data.with_residuals(covariates[:, 0])
        return residuals(self._columns, data.weights, data.y)

    @cached_property
    def _set_values(self) -> F64:
        """Predictions (n, t) from the sets: without means of folds, the offset of covariates, and the design."""
        values = self.predictions.model
        if COVARIATES in self.predictions.baselines:
            values = values - self.predictions.baselines[COVARIATES]
        values = self._centred(values)
        return values if self._columns is None else residuals(self._columns, self.data.weights, values)

    @property
    def statistic(self) -> float:
        """Statistic T of `p_value`, for a comparison with refits on permuted targets."""
        return float((self.data.weights[:, None] * self._centred_targets * self._set_values).sum())


def collect_predictions(
    data: TrainingData, folds: OuterFolds, parts: list[FoldPredictions]
) -> OuterPredictions:
    """Return the predictions of all folds in row order; the constant of a fold replaces a missing baseline."""
    rows = np.concatenate(folds.test_rows)
    order = np.argsort(rows)
    fold = np.repeat(np.arange(len(parts)), [len(test) for test in folds.test_rows])[order]
    names = dict.fromkeys(name for part in parts for name in part.baselines)

    def concatenate(values: list[F64]) -> F64:
        return np.concatenate(values)[order]

    predictions = FoldPredictions(
        concatenate([part.model for part in parts]),
        concatenate([part.ensemble for part in parts]),
        {
            name: concatenate([part.baselines.get(name, part.baselines[CONSTANT]) for part in parts])
            for name in names
        },
    )
    return OuterPredictions(data.take(rows[order]), fold, predictions)


def standard_error(without_blocks: F64) -> float:
    """Return the jackknife standard error of a score from its values without one block each (Efron, Stein 1981)."""
    n_blocks = len(without_blocks)
    deviations = without_blocks - without_blocks.mean()
    return float(np.sqrt((n_blocks - 1) / n_blocks * (deviations @ deviations)))
