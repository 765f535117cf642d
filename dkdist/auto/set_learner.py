"""Base class of `SetClassifier` and `SetRegressor`: nested selection, reports and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.random_streams import RngStream
from dkdist._utils.validation import check_verbose, find_stacklevel
from dkdist.auto import _tuning
from dkdist.auto._tuning import MIN_SETS_WITHOUT_WARNING

# Methods import the rest, so that a class is available before numba, Dask and Zarr are loaded (1.5 s).
if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

    from dkdist._base.inputs import Sets, SetsLike
    from dkdist._base.parameter_checks import RandomStateLike
    from dkdist._numba.arrays import F64, I64
    from dkdist._runtime.progress import Progress
    from dkdist.auto.budgets import Budget
    from dkdist.auto.outer_predictions import OuterFolds, OuterPredictions
    from dkdist.auto.scoring import Score, TrainingData
    from dkdist.auto.selection import SelectedModel
    from dkdist.inspection.fitted_pipeline import Subject


class SetLearner(MetaEstimatorMixin, BaseEstimator):
    """Base class of automatic models; subclasses encode targets, score predictions and calibrate them."""

    _score_name: str
    _loss_name: str
    _accepts_strings = True
    _fit_loss: Any = None
    _notes: tuple[str, ...] = ()
    _assumptions: tuple[str, ...] = ()

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
        }  # fmt: skip

    def __init__(
        self,
        candidates: str | Sequence[Any] = "auto",
        *,
        scoring: str | Callable[..., float] | None = None,
        cv: Any = "auto",
        budget: float | None = None,
        n_permutations: int | None = None,
        ordered: str | bool = "auto",
        verbose: bool | int = False,
        random_state: RandomStateLike = None,
    ) -> None:
        self.candidates = candidates
        self.scoring = scoring
        self.cv = cv
        self.budget = budget
        self.n_permutations = n_permutations
        self.ordered = ordered
        self.verbose = verbose
        self.random_state = random_state

    def _learn(
        self, sets: Sets, y: F64, classes: I64 | None, weights: F64, groups: Any, score: Score
    ) -> tuple[SelectedModel, OuterPredictions]:
        """Select, fit and evaluate with targets (n, t) and weights (n,) of sets."""
        from dkdist._base.embedding import set_feature_names
        from dkdist._base.parameter_checks import check_int, draw_seed
        from dkdist._runtime.progress import Progress
        from dkdist.auto.budgets import Budget
        from dkdist.auto.folds import fold_labels
        from dkdist.auto.point_order import assumptions, check_ordered, find_point_order
        from dkdist.auto.scoring import TrainingData
        from dkdist.auto.selection import refit_sparse, select_model

        n_permutations = (
            None if self.n_permutations is None else check_int("n_permutations", self.n_permutations)
        )
        check_ordered(self.ordered)
        used = np.flatnonzero(weights)
        if len(used) < 2:
            raise ValueError(f"sample_weight must be above 0 for at least 2 sets; got {len(used)}.")
        if len(used) < MIN_SETS_WITHOUT_WARNING:
            warnings.warn(
                f"X should have at least {MIN_SETS_WITHOUT_WARNING} sets; got {len(used)}. Scores have large standard "
                "errors, and the model may fall back to a constant prediction.",
                stacklevel=find_stacklevel(),
            )
        used_groups = None if groups is None else check_groups(groups, len(sets))[used]
        used_classes = None if classes is None else classes[used]
        data = TrainingData(
            sets if len(used) == len(sets) else sets[used], y[used], used_classes, weights[used] / weights[used].mean(),
            used_groups, used, self.cv, fold_labels(self.cv, len(used), used_classes, used_groups),
            draw_seed(self.random_state), None if self.scoring is None else score,
        )  # fmt: skip
        self.n_features_in_, self.origin_ = sets.n_dims, sets.origin
        set_feature_names(self, sets)
        order = find_point_order(self.ordered, data.sets, self.candidates, data.seed)
        data = replace(data, is_ordered=order.is_used, fit_loss=self._fit_loss)
        budget = Budget.from_value(self.budget)
        folds = self._outer_folds(data, budget)
        n_selections = len(folds.test_rows) + folds.refit
        verbose = check_verbose(self.verbose)
        with Progress(n_selections, type(self).__name__, show=verbose, unit="selections") as progress:
            model = None
            if folds.refit:  # before the folds, so that errors name sets by their positions in X
                model = select_model(data, self.candidates, budget.restart(2 / 3))
                progress.advance(1)
            last_model, train, outer = self._evaluate(data, folds, budget, progress)
            model = refit_sparse(last_model, data) if model is None else model
        training_data, model = (train, last_model) if model is None else (data, model)
        self._used, self._weights, self._seed = training_data.positions, training_data.weights, data.seed
        self.p_value_ = outer.p_value()
        if n_permutations is not None:
            self.p_value_ = self._refitted_p_value(data, outer.statistic, n_permutations)
        self._store_result(model, outer, folds, score)
        self.ordered_, self._assumptions = order.is_used, assumptions(order, model.omissions)
        return model, outer

    def _outer_folds(self, data: TrainingData, budget: Budget) -> OuterFolds:
        from dkdist.auto.outer_predictions import draw_outer_folds

        return draw_outer_folds(data, _tuning.MAX_EXACT_SETS, single=bool(np.isfinite(budget.seconds)))

    def _evaluate(
        self, data: TrainingData, folds: OuterFolds, budget: Budget, progress: Progress | None = None
    ) -> tuple[SelectedModel, TrainingData, OuterPredictions]:
        """Return the model of the last outer fold, its training data, and the predictions of all folds."""
        from dkdist.auto.outer_predictions import collect_predictions
        from dkdist.auto.selection import select_model

        parts = []
        for test in folds.test_rows:
            train = data.take(np.setdiff1d(np.arange(len(data)), test))
            model = select_model(train, self.candidates, budget.restart())
            parts.append(model.fold_predictions(data.sets[test]))
            if progress is not None:
                progress.advance(1)
        return model, train, collect_predictions(data, folds, parts)

    def _refitted_p_value(self, data: TrainingData, observed: float, n_permutations: int) -> float:
        """Repeat selection and evaluation with permuted targets."""
        from dkdist._runtime.progress import Progress
        from dkdist.auto.budgets import Budget

        rng = np.random.default_rng([data.seed, RngStream.P_VALUE])
        n_as_large = 0
        name = f"{type(self).__name__}, permuted targets"
        verbose = check_verbose(self.verbose)
        with Progress(n_permutations, name, show=verbose, unit="evaluations") as progress:
            for _ in range(n_permutations):
                permuted = data.permuted(rng)
                budget = Budget.from_value(self.budget)
                *_, outer = self._evaluate(permuted, self._outer_folds(permuted, budget), budget)
                n_as_large += outer.statistic >= observed - 1e-9 * abs(observed)
                progress.advance(1)
        return (1 + n_as_large) / (1 + n_permutations)

    def _store_result(
        self, model: SelectedModel, outer: OuterPredictions, folds: OuterFolds, score: Score
    ) -> None:
        """Set the fitted attributes."""
        from dkdist.auto.leaderboard import Evidence, equivalence_margin, make_leaderboard, verdict
        from dkdist.auto.losses import shifted
        from dkdist.auto.outer_predictions import CONSTANT

        self.machine_, self.scaler_, self.background_ = model.machine, model.scaler, model.background
        self.fallback_ = CONSTANT if model.is_constant else None
        trials = (
            model.trials
            if self._fit_loss is None
            else shifted(model.trials, model.evaluation, self._fit_loss)
        )
        self.leaderboard_, self.leads_ = make_leaderboard(outer, trials, model.evaluation, score)
        scores = {entry["name"]: entry["score"] for entry in self.leaderboard_}
        margin = equivalence_margin(scores[CONSTANT], self.scoring is None)
        self._evidence = Evidence(self.p_value_, margin, model.is_constant)
        self.verdicts_ = {name: verdict(name, *lead, self._evidence) for name, lead in self.leads_.items()}
        self.judged_ = outer.positions
        self._evaluated_on, self._notes = folds.description, ()
        self._best = model.best.without_values()
        members = [i for i, part in enumerate(model.machine.parts) if part is model.best_part]
        self._best_index = members[0] if members else -1
        self._best_part = None if members else model.best_part
        self._n_members = len(model.ensemble.parts)

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
            title = f"{type(self).__name__}: {n_candidates} candidates; no ensemble beat the constant, which predicts"
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
        check_is_fitted(self)
        return self.machine_.values(self._scaled(X))

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
            By dimension, or at positions ``at``.
        pandas.DataFrame
            With ``as_frame``.
        """
        from dkdist._base.parameter_checks import draw_seed
        from dkdist.inspection.answers import answer

        check_is_fitted(self)
        seed = self._seed if random_state is None else draw_seed(random_state)
        return answer(self._subject(), X, by, at, reference, background, seed, as_frame)

    def _subject(self) -> Subject:
        """Return the subject of explanations."""
        from dkdist.auto.explanations import set_function
        from dkdist.inspection.fitted_pipeline import Subject

        scale, shift, single = self._units()
        scalers = () if self.scaler_ is None else (self.scaler_,)
        function = set_function(self.machine_)
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


def score_model(model: SetLearner, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the score defined by ``scoring``; weights require a scorer that accepts them."""
    from sklearn.metrics import check_scoring

    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    return float(check_scoring(model, model.scoring)(model, X, y, **weights))


def check_groups(groups: Any, n: int) -> NDArray[Any]:
    """Return group indices (n,); ValueError for fewer than 2 groups."""
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), one label per set; got {labels.shape}.")
    unique_labels, index = np.unique(labels, return_inverse=True)
    if len(unique_labels) < 2:
        raise ValueError(
            f"groups must contain at least 2 distinct values; got {unique_labels.tolist()[0]!r} for every set."
        )
    return index
