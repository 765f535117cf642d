"""Base class of `SetClassifier`, `SetRegressor` and `SetSurvival`: nested selection, reports and predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

# Methods import the rest, so that a class is available before numba, Dask and Zarr are loaded (1.5 s).
if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

    from dkdist._base.inputs import Sets, SetsLike
    from dkdist._base.parameter_checks import RandomStateLike
    from dkdist._numba.arrays import F64, I64
    from dkdist.auto.nested_evaluation import EvaluatedModel
    from dkdist.auto.scoring import Score
    from dkdist.inspection.fitted_pipeline import Subject


class SetLearner(MetaEstimatorMixin, BaseEstimator):
    """Base class of automatic models; subclasses encode targets, score predictions and calibrate them."""

    _score_name: str
    _loss_name: str
    _accepts_strings = True
    _fit_loss: Any = None
    _notes: tuple[str, ...] = ()
    _assumptions: tuple[str, ...] = ()
    _background_columns: F64 | None = None
    _explained: dict[str, float] | None = None  # R^2 with the target; None in older files
    # parameters, which subclasses document and set
    candidates: str | Sequence[Any]
    cv: Any
    budget: Any
    n_permutations: int | None
    ordered: str | bool
    verbose: bool | int
    random_state: RandomStateLike
    scoring: str | Callable[..., float] | None = None
    covariates: Sequence[str] | None = None
    adjust: Sequence[str] | None = None

    @classmethod
    def saved_attributes(cls) -> dict[str, Any]:
        """Return types of the fitted attributes, checked when a model file is loaded; optional ones may be missing."""
        from dkdist._numba.arrays import F64, I64
        from dkdist.auto.ensemble import Ensemble, KernelMember, LinearMember
        from dkdist.auto.leaderboard import Evidence, Leaderboard
        from dkdist.auto.successive_halving import Trial
        from dkdist.embeddings.set_scaler import SetScaler
        from dkdist.sets import SampleSets

        return {
            "n_features_in_": int, "feature_names_in_": NDArray[np.generic] | None, "origin_": F64,
            "machine_": Ensemble, "scaler_": SetScaler | None, "background_": SampleSets | None,
            "leaderboard_": Leaderboard, "leads_": dict[str, tuple[float, float]], "judged_": I64, "_best": Trial,
            "_used": I64, "_seed": int, "_weights": F64, "_score_name": str | None, "p_value_": float,
            "fallback_": str | None, "verdicts_": dict[str, str], "_evidence": Evidence, "_evaluated_on": str,
            "_notes": tuple[str, ...], "_assumptions": tuple[str, ...] | None, "ordered_": bool | None,
            "_n_members": int, "_best_part": KernelMember | LinearMember | None, "_best_index": int,
            "nuisance_scores_": dict[str, dict[str, float]] | None, "_background_columns": F64 | None,
            "_explained": dict[str, float] | None,
        }  # fmt: skip

    def _aligned(self, X: SetsLike, y: Any, sample_weight: Any, groups: Any) -> tuple[Sets, Any, F64, Any]:
        """Return checked sets, and targets, weights and groups in their order; forget names of an earlier fit."""
        from dkdist._base.inputs import check_sets
        from dkdist._base.row_ids import align_to_index

        X, y, sample_weight, groups = align_to_index(X, y=y, sample_weight=sample_weight, groups=groups)
        self.__dict__.pop("_loss_name", None)
        sets = check_sets(X, text=True)
        return sets, y, check_weights(sample_weight, len(sets)), groups

    def _learn(
        self, sets: Sets, y: F64, classes: I64 | None, weights: F64, groups: Any, score: Score, survival: Any = None,
    ) -> EvaluatedModel:  # fmt: skip
        """Select, fit and evaluate with targets (n, t) and weights (n,) of sets, and set the fitted attributes.

        ``survival`` is None, or the events and times (n,) whose residuals are the targets.
        """
        from dkdist._base.embedding import set_feature_names
        from dkdist.auto.leaderboard import verdict
        from dkdist.auto.nested_evaluation import select_and_evaluate, training_data

        data = training_data(self, sets, y, classes, weights, groups, score, survival)
        self.n_features_in_, self.origin_ = sets.n_dims, sets.origin
        set_feature_names(self, sets)
        result = select_and_evaluate(self, data, score)
        model, used = result.model, result.training_data
        self._used, self._weights, self._seed = used.positions, used.weights, used.seed
        self.machine_, self.scaler_, self.background_ = model.machine, model.scaler, model.background
        design, self._background_columns = model.machine.design, None
        if design is not None and model.background is not None:
            self._background_columns = design.encode(design.read(model.background))
        self._best, self._n_members = model.best.without_values(), len(model.ensemble.parts)
        members = [i for i, part in enumerate(model.machine.parts) if part is model.best_part]
        self._best_index = members[0] if members else -1
        self._best_part = None if members else model.best_part
        self.leaderboard_, self.leads_, self._evidence = result.leaderboard, result.leads, result.evidence
        self.verdicts_ = {name: verdict(name, *lead, result.evidence) for name, lead in result.leads.items()}
        self.p_value_, self.nuisance_scores_ = result.p_value, result.nuisance_scores
        self._explained = result.explained
        self.fallback_ = None
        if model.is_constant:
            self.fallback_ = "covariates" if self.covariates else "constant"
        self.judged_, self.ordered_ = result.outer.positions, result.is_ordered
        self._evaluated_on, self._notes = result.evaluated_on, result.design_notes
        self._assumptions = result.assumptions
        return result

    def _scored(self, default: Callable[..., Any], X: SetsLike, y: Any, sample_weight: Any) -> float:
        """Return the score defined by ``scoring``, or the ``default`` one."""
        from sklearn.metrics import check_scoring

        from dkdist._base.row_ids import align_to_index

        check_is_fitted(self)
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        if self.scoring is None:
            return float(default(X, y, sample_weight))
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(check_scoring(self, self.scoring)(self, X, y, **weights))

    def check_loaded(self) -> None:
        """Raise ValueError if loaded attributes are inconsistent."""
        d, used = self.n_features_in_, self._used
        dims = {root.spec.n_dims for root in self.machine_.trees.roots} | {len(self.origin_)}
        if self.scaler_ is not None:
            dims.add(self.scaler_.n_features_in_)
        if self.background_ is not None:
            dims.add(self.background_.n_dims)
        if dims != {d}:
            raise ValueError(f"The model has {d} dimensions, but its parts have {sorted(dims)}.")
        if used.ndim != 1 or self._weights.shape != used.shape:
            raise ValueError(
                f"weights must have shape {used.shape}, one per training set; got {self._weights.shape}."
            )
        if self._best_part is None and self._best_index not in range(len(self.machine_.parts)):
            raise ValueError(
                f"The best candidate must be one of {len(self.machine_.parts)} members; got index {self._best_index}."
            )
        design = self.machine_.design
        if design is not None and self.background_ is not None:
            expected = len(self.background_), design.n_columns
            if self._background_columns is None or self._background_columns.shape != expected:
                raise ValueError(f"The columns of the background must have shape {expected}.")
        self.summary()
        self.leaderboard_._repr_html_()

    def summary(self) -> str:
        """Return scores on held-out sets, the p-value, and a verdict for each simple baseline.

        Returns
        -------
        str
            Outer-fold scores of the model and the baselines, best first; selection scores of the other candidates; the
            p-value; and for each baseline the lead in standard errors with the verdict "better", "not better" (a lead
            above the equivalence margin is excluded) or "not established". Last, whether the order of points was used,
            and the families of candidates that were not tried, with reasons.
        """
        from dkdist.auto.leaderboard import format_summary

        check_is_fitted(self)
        n_candidates = len(self.leaderboard_) - 1
        title = f"{type(self).__name__}: {n_candidates} candidates, {self._n_members} in the ensemble"
        if self.fallback_ is not None:
            baseline = "the constant" if self.fallback_ == "constant" else "the covariates alone"
            title = f"{type(self).__name__}: {n_candidates} candidates; no ensemble beat {baseline}, which predicts"
        return format_summary(
            self.leaderboard_, self.leads_, self._evidence, title=title, score_name=self._score_name,
            evaluated_on=self._evaluated_on, selected_by=self._loss_name if self.scoring is None else self._score_name,
            notes=(*self._notes, *self._assumptions),
        )  # fmt: skip

    @property
    def best_estimator_(self) -> Pipeline:
        """The best single candidate as a fitted pipeline of public estimators, with 4,096 features for its kernel."""
        from sklearn.pipeline import Pipeline

        from dkdist.auto.best_pipeline import best_pipeline, linear_part
        from dkdist.auto.ensemble import KernelMember, TreeMember

        check_is_fitted(self)
        if self.machine_.design is not None:
            raise AttributeError(
                "best_estimator_ does not exist for models with covariates or adjust: pipelines of embeddings do not "
                "read columns of the sets."
            )
        if self._best.view.entry.embedding is None:
            raise AttributeError(
                "best_estimator_ does not exist: the best candidate is set sizes, which have no public embedding."
            )
        part = self.machine_.parts[self._best_index] if self._best_part is None else self._best_part
        assert not isinstance(part, TreeMember)
        steps_before, rows = best_pipeline(self.scaler_, self._best, part, self._seed)
        if isinstance(part, KernelMember) and len(part.duals) < len(self._weights):
            part, rows = linear_part(rows, part), None
        return Pipeline([*steps_before.steps, ("learner", self._learner(rows, part))])

    @property
    def best_name_(self) -> str:
        """Name of the best single candidate on the leaderboard."""
        check_is_fitted(self)
        return self._best.view.entry.name

    def _learner(self, rows: Any, part: Any) -> Any:
        """Return the learner of ``best_estimator_``, fitted on ``rows``; if None, with the coefficients of ``part``."""
        raise NotImplementedError

    def _values(self, X: Any) -> F64:
        """Return predictions (n, t); blocks of a store are read one after another."""
        sets = self._sets(X)
        return self.machine_.values(self._scaled(sets), self._design_columns(sets))

    def _design_columns(self, sets: Sets) -> F64 | None:
        """Return the columns (n, q) of covariates and adjusted variables; None for a model without them."""
        design = self.machine_.design
        return None if design is None else design.encode(design.read(sets), warn=True)

    def domain_shift(self, X: SetsLike) -> NDArray[Any]:
        """Return how far sets are from the training sets: predictions for distant sets are not supported by data.

        Parameters
        ----------
        X : sets
            A store is read block by block, twice.

        Returns
        -------
        (n,) structured array
            ``clipped``: largest fraction of points outside the domain of a representation, which are moved to its
            boundary. ``distance``: Euclidean distance to the nearest training set, or landmark, in the representation
            with the largest weight. ``p_value``: about 5 % of new sets of the same distribution have at most 0.05
            (conformal p-value; Bates et al. 2023). Distances and p-values are NaN if no member of the model has
            training rows: for constants, trees and n-grams. `pandas.DataFrame` accepts the array.

        Notes
        -----
        Cost: the embeddings, and n_sets x n_training distances of rows.

        Examples
        --------
        >>> import numpy as np, dkdist as dk
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(60) % 2
        >>> model = dk.SetClassifier(random_state=0).fit([rng.normal(0, 1 + c, (40, 1)) for c in y], y)
        >>> shift = model.domain_shift([rng.normal(0, 1, (40, 1)), rng.normal(8, 1, (40, 1))])
        >>> shift["p_value"].round(2) <= 0.05
        array([False,  True])
        """
        from dkdist.auto.domain_shift import domain_shift

        check_is_fitted(self)
        sets = self._sets(X)
        return domain_shift(self.machine_, self._scaled(sets), self._design_columns(sets))

    @overload
    def explain(
        self, X: SetsLike, *, by: Literal["point"] = ..., at: None = ...,
        reference: ArrayLike | None = ..., background: SetsLike | None = ...,
        random_state: RandomStateLike = ..., as_frame: Literal[False] = ...,
    ) -> list[F64]: ...  # fmt: skip
    @overload
    def explain(
        self, X: SetsLike, *, by: Literal["dimension"],
        reference: ArrayLike | None = ..., background: SetsLike | None = ...,
        random_state: RandomStateLike = ..., as_frame: Literal[False] = ...,
    ) -> F64: ...  # fmt: skip
    @overload
    def explain(
        self, X: SetsLike, *, at: ArrayLike,
        reference: ArrayLike | None = ..., background: SetsLike | None = ...,
        random_state: RandomStateLike = ..., as_frame: Literal[False] = ...,
    ) -> F64: ...  # fmt: skip
    @overload
    def explain(
        self, X: SetsLike, *, by: str = ..., at: ArrayLike | None = ...,
        reference: ArrayLike | None = ..., background: SetsLike | None = ...,
        random_state: RandomStateLike = ..., as_frame: Literal[True],
    ) -> pd.DataFrame: ...  # fmt: skip
    def explain(
        self,
        X: SetsLike,
        *,
        by: str = "point",
        at: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        background: SetsLike | None = None,
        random_state: RandomStateLike = None,
        as_frame: bool = False,
    ) -> Any:
        """Explain predictions by contributions of points or dimensions, or by derivatives at positions.

        `dkdist.explain` defines the contributions and their sum.

        Parameters
        ----------
        X : sets
            A store is read block by block.
        by : {"point", "dimension"}, default="point"
            Units of the contributions.
        at : (q, d) array, optional
            Positions at which to return the derivative of each prediction with respect to the weight of a new point; it
            is close to zero where the model is flat.
        reference : number or (k,) array, optional
            Reference prediction for contributions of points. Default: 0 for decision values, so that contributions sum
            to them, and the mean of the targets for regression.
        background : sets, optional
            Reference sets. Default by point: up to 256 of the training sets, or ``background_`` if the model stores no
            training sets. Default by dimension: ``background_``. At most 32 sets of this argument are used.
        random_state : int, Generator or None, default=None
            Seed for contributions of dimensions and the choice of 32 background sets. Default: seed of the model.
        as_frame : bool, default=False
            Return a pandas DataFrame as described in `dkdist.explain`.

        Returns
        -------
        list of (n_i,) float64 arrays, or (n_i, k)
            By point: contributions to ``classes_[1]`` for two classes, else to each class or target. Gradients are
            averaged along a path from the background to the set (Sundararajan, Taly, Yan 2017).
        (n_sets, d) or (n_sets, q) float64 array, or with a last axis k
            By dimension, or at positions ``at``. Covariates and adjusted variables of the set are constant:
            background sets count as if they had the same ones.
        pandas.DataFrame
            With ``as_frame``.
        """
        from dkdist._base.parameter_checks import draw_seed
        from dkdist.inspection.answers import answer

        check_is_fitted(self)
        seed = self._seed if random_state is None else draw_seed(random_state)
        subject = self._subject(X, has_background=background is not None)
        return answer(subject, X, by, at, reference, background, seed, as_frame)

    def _subject(self, X: SetsLike, *, has_background: bool) -> Subject:
        """Return the subject of explanations of sets X."""
        from dkdist.auto.explanations import designed_function, set_function
        from dkdist.inspection.fitted_pipeline import Subject

        scale, shift, single = self._units()
        scalers = () if self.scaler_ is None else (self.scaler_,)
        Z = None if self.machine_.design is None else self._design_columns(self._sets(X))
        function = set_function(self.machine_)
        if Z is not None:
            background_Z = None if has_background else self._background_columns
            function = designed_function(self.machine_, Z, background_Z)
        outputs = getattr(self, "classes_", range(len(scale)))
        return Subject(function, self, scalers, shift, scale, shift, single, outputs, self.background_)

    def _units(self) -> tuple[F64, F64, bool]:
        """Return scale and shift of the ensemble's values, and whether there is one output."""
        raise NotImplementedError

    def _scaled(self, X: Any) -> Sets:
        sets = self._sets(X)
        return sets if self.scaler_ is None else self.scaler_.transform(sets)

    def _sets(self, X: Any) -> Sets:
        from dkdist._base.embedding import check_fitted_sets

        return check_fitted_sets(self, X, text=True)


def check_weights(sample_weight: ArrayLike | None, n: int) -> F64:
    """Return weights (n,) of sets; ones for None. ValueError for negative or all-zero weights."""
    from dkdist._base.parameter_checks import check_real_array

    if sample_weight is None:
        return np.ones(n)
    weights = check_real_array("sample_weight", sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one weight per set; got {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        i = int(np.argmax(~(np.isfinite(weights) & (weights >= 0))))
        raise ValueError(
            "sample_weight must be finite, at least 0, and not zero for all sets; got "
            f"{'only zeros' if not weights.any() else f'{weights[i]} (set {i})'}."
        )
    return weights
