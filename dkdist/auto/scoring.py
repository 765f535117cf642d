"""Training data of automatic models, and losses: squared error for regression, log loss for classification.

Squared errors of decision values v favour narrow kernels over wider ones that classify more sets correctly. Classifiers
are therefore compared by the log loss of softmax(beta v), with the best common beta for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base.design_columns import StudyDesign
from dkdist._numba.arrays import F64, I64
from dkdist.auto._log_loss_numba import add_log_losses
from dkdist.auto._tuning import BETA_RTOL, MAX_BETA, MAX_NEWTON_STEPS, SIGNIFICANCE_Z
from dkdist.auto.folds import repeated_folds
from dkdist.auto.losses import Loss, PoissonLoss
from dkdist.auto.study_design import permutation_strata
from dkdist.linear.calibration import fit_calibration
from dkdist.linear.cox import Survival
from dkdist.linear.kernel_ridge import FoldsByLength, folds_by_length

Repeats = Sequence[Sequence[I64]]
Score = Callable[[F64, I64], float]
"""Score of predictions (n, t), larger is better, for the sets at some positions of the call of ``fit``."""


@dataclass(frozen=True)
class EvaluationSet:
    """Targets (n, t), weights (n,) with mean 1, and repeats of cross-validation folds.

    ``rows`` (n,) are the positions of the sets in the call of ``fit``. ``classes`` (n,) is None for regression.
    ``criterion(predictions, rows)``, if not None, is a score that replaces the loss. ``groups`` (n,) is optional. With
    an ``offset`` (n, t) of covariates, ``y`` and all values are relative to it, and classes depend on their sum. With a
    working response as ``y``, errors are those of the loss of the original targets and weights in ``source``.
    """

    y: F64
    weights: F64
    repeats: Repeats
    rows: I64
    classes: I64 | None = None
    criterion: Callable[[F64, I64], float] | None = None
    groups: Any = None
    offset: F64 | None = None
    source: TrainingData | None = None

    @cached_property
    def folds_by_length(self) -> FoldsByLength:
        """Folds of all repeats, grouped by length for `cross_validated_values`."""
        return folds_by_length(self.repeats)

    def loss(self, values: F64) -> float:
        """Return the mean error of predictions (n_repeats, n, t), or the negative criterion."""
        if self.criterion is not None:
            return -float(np.mean([self.criterion(one, self.rows) for one in self.total(values)]))
        return float(self._errors(values) @ self.weights / len(self.y))

    def is_significantly_worse(self, values: F64, others: F64) -> bool:
        """Return whether predictions are worse by `SIGNIFICANCE_Z` standard errors of the paired difference."""
        if self.criterion is not None:
            return False
        mean, standard_error = self._paired(values, others)
        return mean > SIGNIFICANCE_Z * standard_error

    def beats_constant(self, values: F64) -> bool:
        """Return whether predictions are better than the constant by one standard error of the paired difference.

        The one-standard-error rule (Breiman et al., Classification and regression trees, 1984, section 3.4.3): the
        simplest model within one standard error of the best is preferred.
        """
        constant = self.constant_values
        if self.criterion is not None:
            return self.loss(values) < self.loss(constant)
        mean, standard_error = self._paired(constant, values)
        return mean > standard_error

    def calibration(self, values: F64) -> F64 | None:
        """Return the calibration of the mean over repeats of values (n_repeats, n, t); None for regression."""
        if self.classes is None:
            return None
        return fit_calibration(
            self.total(values).mean(axis=0), self.classes, max(2, self.y.shape[1]), self.weights
        )

    @property
    def constant_values(self) -> F64:
        """Predictions (n_repeats, n, t) of the constant: weighted mean targets outside each fold."""
        values = np.empty((len(self.repeats), *self.y.shape))
        total, weight = self.weights @ self.y, self.weights.sum()
        for repeat_values, folds in zip(values, self.repeats, strict=True):
            for fold in folds:
                w = self.weights[fold]
                repeat_values[fold] = (total - w @ self.y[fold]) / (weight - w.sum())
                if self.source is not None:
                    others = np.setdiff1d(np.arange(len(self.y)), fold)
                    repeat_values[fold] = self.source.take(others).constant_prediction
        return values

    def _paired(self, values: F64, others: F64) -> tuple[float, float]:
        """Return mean and standard error of the paired difference of errors; a group is one observation."""
        excess = (self._errors(values) - self._errors(others)) * self.weights
        n = len(excess)
        mean = float(excess.mean())
        centred: F64 = excess - mean
        if self.groups is not None:
            group = np.unique(self.groups, return_inverse=True)[1]
            centred = np.asarray(np.bincount(group, centred), np.float64)
        return mean, float(np.sqrt(centred @ centred)) / n

    def _errors(self, values: F64) -> F64:
        """Return the error (n,) of each row, averaged over repeats."""
        if self.source is not None and isinstance(self.source.fit_loss, PoissonLoss):
            errors = self.source.fit_loss.errors(self.source.y, values)
            return np.asarray(errors * self.source.weights / self.weights)
        if self.classes is None:
            return np.asarray(((values - self.y) ** 2).sum(axis=2).mean(axis=0))
        return log_losses(self.total(values), self.classes, self.weights)

    def total(self, values: F64) -> F64:
        """Return predictions (.., n, t) with the offset of the covariates."""
        return values if self.offset is None else values + self.offset


def log_losses(values: F64, classes: I64, weights: F64) -> F64:
    """Return -log p(true class) (n,) for decision values (n_repeats, n, t), averaged over repeats.

    The other classes get a probability of 1 / (n + 2) in each row (Platt 1999), to avoid overconfidence with few rows.
    """
    v = np.concatenate([-values, values], axis=2) if values.shape[2] == 1 else values
    class_index = np.broadcast_to(classes[:, None], (*v.shape[:2], 1))
    differences = v - np.take_along_axis(v, class_index, axis=2)
    smoothing = differences.sum(axis=2) / ((v.shape[2] - 1) * (len(classes) + 2))
    losses = np.zeros(len(classes))
    add_log_losses(differences, smoothing, np.asarray(weights), MAX_NEWTON_STEPS, BETA_RTOL, MAX_BETA, losses)
    return losses / len(values)


OPTIONAL_COLUMNS = (
    "sets", "classes", "groups", "fold_labels", "design", "offset", "event", "time", "log_hazards", "working",
    "working_weights",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingData:
    """Sets (None if only targets are used), targets (n, t), weights (n,) with mean 1, classes and groups (optional).

    ``positions`` (n,) are the positions of the sets in the call of ``fit``. ``fold_labels`` (n,) are folds of a
    splitter from the user, or None. The selection maximises ``criterion``; None means squared error or log loss.
    ``is_ordered`` allows candidates to use the order of points. ``design`` are the covariates and adjusted variables;
    ``offset`` (n, t) is the prediction from the covariates, relative to which ``y`` is. The model must not use the sets
    if the adjusted variables explain the targets (``is_confounded``). ``event`` and ``time`` (n,) of censored times are
    None in other problems; ``y`` then holds the martingale residuals, and members are Cox regressions. ``log_hazards``
    (n,) are those that the design predicts; None: equal hazards.
    Otherwise members are fitted by ``fit_loss``; None means squared error. Candidates are compared by the squared error
    of the working response ``working`` (n, t) with weights ``working_weights`` (n,), if any, instead of targets and
    weights.
    """

    sets: Any
    y: F64
    classes: I64 | None
    weights: F64
    groups: NDArray[Any] | None
    positions: I64
    cv: Any
    fold_labels: I64 | None
    seed: int
    criterion: Score | None = None
    is_ordered: bool = False
    design: StudyDesign | None = None
    offset: F64 | None = None
    is_confounded: bool = False
    event: NDArray[np.bool_] | None = None
    time: F64 | None = None
    log_hazards: F64 | None = None
    fit_loss: Loss | None = None
    working: F64 | None = None
    working_weights: F64 | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: I64) -> TrainingData:
        """Return the data of the rows with these ascending indices."""
        if len(rows) == len(self):
            return self
        weights = self.weights[rows]
        optional: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[rows]
            for name in OPTIONAL_COLUMNS
        }
        part = replace(
            self, y=self.y[rows], weights=weights / weights.mean(), positions=self.positions[rows], **optional
        )
        # residuals of the rows alone: no model uses times of the sets that it is evaluated on
        return part if part.survival is None else part.with_residuals(part.log_hazards)

    def with_residuals(self, log_hazards: F64 | None) -> TrainingData:
        """Return censored times with the martingale residuals of log hazards (n,) as targets."""
        assert self.survival is not None
        return replace(self, y=self.survival.null_residuals(log_hazards)[:, None], log_hazards=log_hazards)

    @property
    def needs_exact_fit(self) -> bool:
        """Whether members need rows of all sets at once: rows with landmarks are neither adjusted nor reweighted."""
        return self.design is not None or self.fit_loss is not None

    @property
    def needs_pilot(self) -> bool:
        """Whether candidates need a working response, from the predictions of a first model."""
        return isinstance(self.fit_loss, PoissonLoss) and self.working is None

    @property
    def survival(self) -> Survival | None:
        """Censored times with their weights; None in other problems."""
        if self.event is None or self.time is None:
            return None
        return Survival(self.event, self.time, self.weights)

    def permuted(self, rng: np.random.Generator) -> TrainingData:
        """Permute targets and weights: among sets, among groups if each group has one target, else within groups.

        With a design, targets are permuted among sets with equal expected targets (`permutation_strata`), because
        the design and the targets may depend on each other.
        """
        order = self._permutation(rng)
        columns: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[order]
            for name in ("y", "classes", "weights", "positions", "event", "time")
        }
        return replace(self, **columns)

    def _permutation(self, rng: np.random.Generator) -> I64:
        strata = np.zeros(len(self), np.int64)
        if self.design is not None:
            strata = permutation_strata(self.design, self.y, self.weights)
        if self.groups is None:
            return permute_within(strata, rng)
        _, first, group = np.unique(self.groups, return_index=True, return_inverse=True)
        if (self.y == self.y[first][group]).all():
            return first[permute_within(strata[first], rng)[group]]
        return permute_within(group * (strata.max() + 1) + strata, rng)

    def evaluation_set(self, rows: I64) -> EvaluationSet:
        """Return targets and inner folds of some rows, for the comparison of candidates."""
        data = replace(self, sets=None).take(rows)
        classes = None if data.classes is None else np.unique(data.classes, return_inverse=True)[1]
        repeats = repeated_folds(len(data), classes, data.groups, data.cv, data.fold_labels, data.seed)
        y, weights = data.y, data.weights
        if data.working is not None and data.working_weights is not None:
            y, weights = data.working, data.working_weights / data.working_weights.mean()
        source = None if data.working is None else data
        return EvaluationSet(
            y,
            weights,
            repeats,
            data.positions,
            data.classes,
            data.criterion,
            data.groups,
            data.offset,
            source,
        )

    @property
    def constant(self) -> F64:
        """Weighted mean target (t,)."""
        if self.event is not None:
            return np.zeros(1)  # exactly: folds must not differ by rounding errors
        return np.average(self.y, axis=0, weights=self.weights)

    @property
    def constant_prediction(self) -> F64:
        """Prediction (t,) of the constant baseline: the mean target, or the constant with the smallest loss."""
        if self.fit_loss is None:
            return self.constant
        return self.fit_loss.shift(self.y, np.zeros_like(self.y), self.weights)


def permute_within(strata: I64, rng: np.random.Generator) -> I64:
    """Return a permutation of positions that leaves every position in its stratum (n,)."""
    order = np.arange(len(strata))
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        order[rows] = rng.permutation(rows)
    return order
