"""Reports on adjusted variables: confounding with the target, and how well adjusted rows still predict them.

Confounding: R^2 is the fraction of the variance of the target that weighted least squares on the adjusted variables
explains. The variance of an effect of the sets is proportional to 1 / (1 - R^2), the variance inflation factor
(Marquardt 1970), so that n sets are worth n (1 - R^2). A warning is issued if half of them are lost. If less than a
tenth is left, deviations from linear effects of the variables may exceed the rest, and the model does not use the sets.

Prediction: in each of five folds, rows are adjusted by the coefficients of the other sets, and kernel ridge
regression on these predicts the variable of the held-out sets. In training sets adjusted rows have equal means for all
categories, therefore the kernel is linear plus Gaussian: it also detects differences in spread and shape.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from dkdist._base.design_columns import StudyDesign, encode, encodings
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._utils.validation import find_stacklevel
from dkdist.auto import _tuning
from dkdist.auto.folds import sample_positions
from dkdist.auto.representation_rows import PairwiseRows, RowKernel, leaf_rows
from dkdist.auto.scoring import TrainingData
from dkdist.auto.study_design import adjust_rows, residuals
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.kernel_ridge import INTERCEPT_KERNEL, duals

if TYPE_CHECKING:
    from dkdist.auto.selection import SelectedModel


def check_confounding(data: TrainingData) -> tuple[dict[str, float], bool]:
    """Return the fraction of the targets' variance that each variable explains.

    Warn if adjusted variables explain half. Also return whether too little is left for any statement about the sets.
    """
    design = data.design
    if design is None:
        return {}, False
    explained = {}
    for i, (name, values) in enumerate(design.columns.items()):
        variable = StudyDesign({name: values}, int(i < design.n_covariates))
        explained[name] = max(_explained(variable, data.y, data.weights)[0])
    if not design.adjusted:
        return explained, False
    of_outputs, n_columns = _explained(design.select(design.adjusted), data.y, data.weights)
    total, largest = of_outputs[0], max(of_outputs)
    is_complete = total >= _tuning.MAX_EXPLAINED_VARIANCE
    if is_complete or largest >= _tuning.WARN_EXPLAINED_VARIANCE:
        named = [
            name for name in design.adjusted if explained[name] >= _tuning.WARN_EXPLAINED_VARIANCE
        ] or design.adjusted
        lost = (
            "Too little is left for any statement about the sets: the model predicts without them. "
            if is_complete
            else f"The {len(data.y)} sets are worth {len(data.y) * (1 - largest):.0f} sets without this dependence. "
        )
        by_chance = min(1.0, n_columns / (len(data.y) - 1))
        warnings.warn(
            f"adjust={list(named)} is confounded with y: the adjusted variables explain {largest:.0%} of the variance "
            f"of y (by chance {by_chance:.0%}). {lost}Effects of these variables and of y cannot be separated. Add "
            "sets that break the dependence, such as all classes in each batch.",
            stacklevel=find_stacklevel(),
        )
    return explained, is_complete


def _explained(design: StudyDesign, y: F64, weights: F64) -> tuple[list[float], int]:
    """Return the explained fractions of the variance of all targets together and of each, and the rank of columns."""
    Z = encode(encodings(design, weights), design)
    left = weights @ residuals(Z, weights, y) ** 2
    total = weights @ (y - np.average(y, axis=0, weights=weights)) ** 2
    parts = np.divide(left, total, out=np.ones_like(left), where=total > 0)
    joint = 1 - float(left.sum() / total.sum()) if total.any() else 0.0
    return [joint, *(1 - parts).tolist()], int(np.linalg.matrix_rank(Z - Z.mean(axis=0)))


def nuisance_scores(
    design: StudyDesign, rows: F32, weights: F64, groups: Array | None, seed: int
) -> dict[str, dict[str, float]]:
    """Return for each adjusted variable its score from adjusted rows (n, m), from unadjusted rows, and by chance.

    Scores of held-out sets: the mean recall of categories, or R^2 of numbers (at least 0).
    """
    scores = {}
    for name in design.adjusted:
        (variable,) = encodings(design.select([name]), weights)
        values = design.columns[name]
        is_number = variable.categories is None
        known = ~np.isnan(values.astype(np.float64)) if is_number else np.ones(len(values), np.bool_)
        usable = np.flatnonzero(known)
        targets = (
            values[usable] if is_number else np.unique(values, return_inverse=True)[1].reshape(-1)[usable]
        )
        if len(np.unique(targets)) < 2:
            continue
        nuisance = _Nuisance(design[usable], rows[usable], weights[usable], targets, is_number)
        folds = _folds(targets, is_number, None if groups is None else np.asarray(groups)[usable], seed)
        scores[name] = {
            "adjusted": nuisance.score(folds, adjusted=True),
            "unadjusted": nuisance.score(folds, adjusted=False),
            "chance": 0.0 if is_number else 1.0 / (int(targets.max()) + 1),
        }
    return scores


def _folds(targets: Array, is_number: bool, groups: Array | None, seed: int) -> list[I64]:
    units = (
        np.arange(len(targets)) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    )
    first = np.unique(units, return_index=True)[1]
    n_folds = min(_tuning.N_NUISANCE_FOLDS, len(first))
    kind = KFold if is_number or np.bincount(targets[first]).max() < n_folds else StratifiedKFold
    splits = kind(n_folds, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categories with fewer sets than folds
        parts = [test for _, test in splits.split(first, None if kind is KFold else targets[first])]
    return [np.flatnonzero(np.isin(units, test)) for test in parts]


@dataclass(frozen=True)
class _Nuisance:
    """One adjusted variable with its targets (n,): numbers or indices of categories."""

    design: StudyDesign
    rows: F32
    weights: F64
    targets: Array
    is_number: bool

    def score(self, folds: Sequence[I64], *, adjusted: bool) -> float:
        """Return the score of predictions of all held-out folds."""
        y = self.targets[:, None].astype(np.float64)
        if not self.is_number:
            y = (self.targets[:, None] == np.arange(self.targets.max() + 1)).astype(np.float64)
        predicted = np.zeros_like(y)
        for test in folds:
            train = np.setdiff1d(np.arange(len(y)), test)
            predicted[test] = self._predict(y, train, test, adjusted=adjusted)
        if self.is_number:
            spread = ((y - y.mean()) ** 2).sum()
            return max(0.0, 1 - float(((y - predicted) ** 2).sum() / spread))
        hits = predicted.argmax(axis=1) == self.targets
        return float(np.mean([hits[self.targets == k].mean() for k in np.unique(self.targets)]))

    def _predict(self, y: F64, train: I64, test: I64, *, adjusted: bool) -> F64:
        """Return predictions (k, t) for the test rows by kernel ridge regression on the training rows."""
        rows = self.rows
        if adjusted:
            variables = encodings(self.design[train], self.weights[train])
            Z = encode(variables, self.design)
            _, by_leaf = adjust_rows({0: rows[train]}, Z[train], self.weights[train], {})
            rows = np.asarray(rows - Z @ by_leaf[0], np.float32)
        kernels = PairwiseRows([rows[train]]).kernels()
        used: list[RowKernel] = [kernel for kernel in kernels if kernel.sigma is None][:1]
        gaussian = sorted(
            (kernel for kernel in kernels if kernel.sigma), key=lambda kernel: kernel.sigma or 0.0
        )
        used += gaussian[len(gaussian) // 2 : len(gaussian) // 2 + 1]
        # Categories have equal weights in total, as in the mean recall.
        weights = np.ones(len(train))
        if not self.is_number:
            counts = np.bincount(self.targets[train], minlength=y.shape[1])
            weights = len(train) / (counts[self.targets[train]] * max(1, int((counts > 0).sum())))
        if not used:
            return np.tile(np.average(y[train], axis=0, weights=weights), (len(test), 1))
        X, centre = [rows[train].astype(np.float64)], rows[train].mean(axis=0, dtype=np.float64)
        K = np.mean([kernel.of(rows.astype(np.float64), X, centre) for kernel in used], axis=0)
        a = duals(K[train], y[train], weights, _tuning.NUISANCE_PENALTY)
        return np.asarray((K[test] + INTERCEPT_KERNEL) @ a)


def nuisance_text(
    design: StudyDesign,
    scores: dict[str, dict[str, float]],
    explained: dict[str, float],
    kinds: dict[str, str],
) -> list[str]:
    """Return one line per variable for summaries."""
    lines = [
        f"Covariate {name!r} ({kinds[name]}): a predictor next to the sets." for name in design.covariates
    ]
    for name in design.adjusted:
        text = f"Adjusted for {name!r} ({kinds[name]}), which explains {explained[name]:.0%} of the variance of y."
        if name in scores:
            one = scores[name]
            measure = "R^2" if kinds[name].startswith("number") else "mean recall"
            text += (
                f" Prediction of {name!r} from held-out rows: {measure} {one['adjusted']:.2f} after adjustment, "
                f"{one['unadjusted']:.2f} before, {one['chance']:.2f} by chance."
            )
        lines.append(text)
    return lines


def report_design(
    model: SelectedModel, data: TrainingData, explained: dict[str, float]
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Return `nuisance_scores` of the representation with the largest weight, and lines for the summary."""
    design, fitted = data.design, model.machine.design
    if design is None or fitted is None:
        return {}, ()
    scores: dict[str, dict[str, float]] = {}
    if design.adjusted:
        rng = np.random.default_rng([data.seed, RngStream.SAMPLED_SETS])
        positions = sample_positions(rng, len(data), _tuning.MAX_NUISANCE_SETS)
        sample = data.take(positions)
        sets = sample.sets if model.scaler is None else model.scaler.transform(sample.sets)
        spec = model.best.view.spec
        if not model.is_constant:
            leaf = max(model.ensemble.parts, key=lambda part: part.share).leaf
            spec = next(root.spec for root in model.ensemble.trees.roots if root.leaf == leaf)
        graph = SharedFeatureGraph((Node(spec, (), 0),))
        rows = leaf_rows(SearchData(sets, graph, [spec.n_features], False), [0])[0]
        scores = nuisance_scores(design[positions], rows, sample.weights, sample.groups, data.seed)
    kinds = {variable.name: variable.description for variable in fitted.variables}
    return scores, tuple(nuisance_text(design, scores, explained, kinds))
