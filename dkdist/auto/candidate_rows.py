"""Rows of all representations for some sets, adjusted for the design of a study, and fits of members to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist.auto.cox_members import cox_member
from dkdist.auto.ensemble import Ensemble, KernelMember, LinearMember, Member, TreeMember
from dkdist.auto.representation_rows import PairwiseRows, Views, compute_rows, extend_rows
from dkdist.auto.scoring import TrainingData
from dkdist.auto.study_design import FittedDesign, adjust_rows
from dkdist.auto.successive_halving import Rows, Survivor, Trial, fit_view_trees, required_leaves
from dkdist.linear.kernel_ridge import duals


@dataclass
class CandidateRows:
    """Rows (n, m) of each leaf for the sets of ``data`` at ascending ``positions`` (n,).

    ``adjusted`` rows are those without the part that the ``design`` with the columns ``Z`` (len(data), q) explains by
    its ``coefficients`` (q, m) of each leaf; without a design, rows stay as they are.
    """

    data: TrainingData
    views: Views
    design: FittedDesign | None
    Z: F64
    positions: I64
    by_leaf: Rows
    adjusted: Rows = field(init=False)
    coefficients: Mapping[int, F64] = field(init=False)

    def __post_init__(self) -> None:
        self.adjusted, self.coefficients = self.by_leaf, {}
        if self.design is not None:
            Z, weights = self.Z[self.positions], self.data.weights[self.positions]
            self.adjusted, self.coefficients = adjust_rows(
                self.by_leaf, Z, weights, self.views.images_by_leaf
            )

    @classmethod
    def compute(
        cls, data: TrainingData, views: Views, design: FittedDesign | None, Z: F64, positions: I64
    ) -> CandidateRows:
        """Compute rows of all leaves; standardise columns by these sets."""
        rows = compute_rows(views, data.sets[positions], range(len(views.specs)))
        candidate_rows = cls(data, views, design, Z, positions, rows)
        views, rows = views.standardised(rows, candidate_rows.adjusted)
        return replace(candidate_rows, views=views, by_leaf=rows)

    def __len__(self) -> int:
        return len(self.positions)

    def extend(self, positions: I64, candidates: Sequence[Trial | Survivor]) -> CandidateRows:
        """Return rows of more sets, of the leaves that some candidates use."""
        if len(positions) == len(self):
            return self
        leaves = required_leaves(candidates)
        rows = extend_rows(self.views, self.data.sets, positions, self.by_leaf, self.positions, leaves)
        return replace(self, positions=positions, by_leaf=rows)

    @property
    def _training_data(self) -> TrainingData:
        return self.data.take(self.positions)

    def member(self, trial: Trial, share: float) -> Member:
        """Fit the kernel or the trees of a trial; a trial on the same sets is reused."""
        if trial.trees is None:
            return self.kernel_member(trial, share)
        data, trees = self._training_data, trial.trees
        if trial.values.shape[1] < len(data):
            trees, _ = fit_view_trees(
                trial.view, self.adjusted, data.y, data.weights, data.groups, data.classes
            )
        if data.survival is not None:
            # near equal hazards, residuals are log hazards times the fraction of events
            share /= max(data.survival.event_fraction, 1 / len(data))
        return TreeMember(trial.view.leaf, trees, share)

    def kernel_member(self, trial: Trial, share: float = 1.0) -> KernelMember:
        """Fit the kernel of a trial by ridge regression, by the loss of the model, or by Cox regression."""
        data, images, a = self._training_data, trial.view.of(self.adjusted), trial.duals
        if data.survival is not None and data.survival.event.any():
            return cox_member(trial, share, images, data.survival, data.log_hazards)
        if len(a) < len(data) or data.fit_loss is not None:
            (K,) = PairwiseRows(images).matrices([trial.row_kernel])
            fit = duals if data.fit_loss is None else data.fit_loss.duals
            a = fit(K, data.y, data.weights, trial.alpha)
        centre = images[0].mean(axis=0, dtype=np.float64)
        return KernelMember(trial.view.leaf, trial.row_kernel, tuple(images), a, centre, share)

    def ensemble(self, parts: Sequence[Member]) -> Ensemble:
        """Return the ensemble of members, with the design and its coefficients."""
        widths = [spec.n_features for spec in self.views.specs]
        ensemble = Ensemble.of(self.views.trees, widths, parts, self.data.y.shape[1])
        if self.design is None:
            return ensemble
        q, leaves = self.design.n_columns, ensemble.leaves
        coefficients = (
            self.coefficients.get(leaf, np.zeros((q, width))) if leaf in leaves else np.zeros((q, 0))
            for leaf, width in enumerate(widths)
        )
        return replace(ensemble, design=self.design, coefficients=tuple(coefficients))

    def constant_ensemble(self) -> Ensemble:
        """Return an ensemble that predicts the mean target, from the representation with the fewest columns."""
        leaf = int(np.argmin([spec.n_features for spec in self.views.specs]))
        constant = self.data.constant_prediction
        weights = np.zeros((len(constant), self.views.specs[leaf].n_features))
        return self.ensemble([LinearMember(leaf, weights, constant, 1.0)])
