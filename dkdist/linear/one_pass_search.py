"""`OnePassSearch`: grid search that trains all candidates in the same pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dkdist._base.inputs import cached_summaries, summarize
from dkdist._base.invalid_sets import format_positions
from dkdist._base.parameter_checks import RandomStateLike, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.process import warn
from dkdist._utils.validation import check_bool, check_verbose
from dkdist.io.lazy_sets import LazySets
from dkdist.linear.feature_trees import SearchData, SharedFeatureGraph, check_search_data
from dkdist.linear.held_out import choose_held_out_present
from dkdist.linear.many_models import LinearModel
from dkdist.linear.problems import as_classes, as_weights
from dkdist.linear.search_training import (
    Candidate,
    SearchProblem,
    build_candidates,
    held_out_decision_values,
    train,
)
from dkdist.sets import SampleSetError, SampleSets


def _delegates(method: str) -> Callable[[OnePassSearch], bool]:
    def has_method(search: OnePassSearch) -> bool:
        return hasattr(
            search.best_estimator_ if hasattr(search, "best_estimator_") else search.estimator, method
        )

    return has_method


class OnePassSearch(MetaEstimatorMixin, BaseEstimator):
    """Grid search over the parameters of a pipeline that trains all candidates in the same passes over the data.

    Shared work is done once per pass: reading of points; cosine coefficients, for all series and one-dimensional
    densities on the same domain; products of random features, for all sigmas; features, for all penalties and losses.
    Candidates are compared on held-out rows.

    Parameters
    ----------
    estimator : Pipeline or learner
        An embedding of sets (optional), ``RandomFourierFeatures`` (optional), and an Incremental... learner.
    param_grid : dict or list of dicts
        Parameter names of the pipeline ("divergenceembedding__bandwidth") and lists of values, as in ``GridSearchCV``.
    validation_fraction : float in (0, 1), default=0.1
        Fraction of the rows (of every class) that is held out; all candidates have the same held-out rows.
    scoring : str, callable or None, default=None
        As in scikit-learn; None: the score of the learner (accuracy or R^2).
    refit : bool, default=True
        Fit the best candidate on all rows, as ``best_estimator_``.
    random_state : int, Generator or None, default=None
        Seed of the held-out rows and of the order of training rows in SGD.
    verbose : bool, default=False
        Print the plan of each pass and show its progress.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, scorer_
        As in ``GridSearchCV``.
    cv_results_ : dict of lists and arrays
        "params", a masked array "param_..." for each name, "split0_test_score", "mean_test_score" (equal, because there
        is one split), "std_test_score" (0), "rank_test_score". For a learner with several ``alphas`` the score is that
        of the best penalty, which is in "alpha".
    held_out_ : (n_held_out,) int64 array
        Indices of the held-out rows.

    Raises
    ------
    TypeError
        If a step cannot share passes; use ``GridSearchCV``.
    ValueError, SampleSetError, MemoryError
        As in the steps; MemoryError is raised before training starts.

    Notes
    -----
    All steps, including sigma="median", are fitted on the training rows. Learners use one lane; n_epochs="auto" means
    100,000 steps, in 5 to 100 passes. The ``validation_fraction`` and ``checkpoint`` of a learner apply to the
    refit only. Held-out points outside the range of the training points are clipped, as in ``transform``.
    ``best_score_`` is the largest of several scores on the same rows, so it is optimistic. A candidate whose
    coefficients diverge scores NaN, with a warning.

    Cost: each group of D features is computed once per pass. An SGD candidate takes 4 D operations per row and epoch.
    Ridge candidates take n D^2 operations per group of features and D^3 / 3 per penalty; groups whose statistics exceed
    half of the free memory are processed in several passes. A last pass recomputes the features of the held-out rows.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> sets = [rng.beta(2 + c, 2, size=(60, 1)) for c in y]
    >>> model = make_pipeline(
    ...     dk.DivergenceEmbedding("hellinger", domain="unit", n_basis=20),
    ...     dk.RandomFourierFeatures(200, random_state=0),
    ...     dk.IncrementalSGDClassifier(random_state=0),
    ... )
    >>> grid = {"divergenceembedding__bandwidth": [0.05, 0.1, 0.2], "incrementalsgdclassifier__alpha": [1e-6, 1e-3]}
    >>> search = dk.OnePassSearch(model, grid, validation_fraction=0.3, random_state=0).fit(sets, y)
    >>> len(search.cv_results_["params"]), search.best_score_ > 0.9
    (6, True)
    """

    not_saved: ClassVar[tuple[str, ...]] = ("scorer_", "best_params_")
    saved_attributes: ClassVar[dict[str, Any]] = {
        "held_out_": I64, "cv_results_": dict, "best_index_": int, "best_score_": float,
        "best_estimator_": BaseEstimator | None,
    }  # fmt: skip

    def check_loaded(self) -> None:
        """Restore attributes that model files do not contain; raise ValueError if attributes are inconsistent."""
        if (best := vars(self).get("best_estimator_")) is not None:
            check_is_fitted(best)
        params = self.cv_results_["params"]
        if not 0 <= self.best_index_ < len(params):
            raise ValueError(
                f"best_index_ must be below {len(params)}, the number of candidates; got {self.best_index_}."
            )
        self.best_params_ = params[self.best_index_]
        self.scorer_ = check_scoring(self.estimator, self.scoring)

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        validation_fraction: float = 0.1,
        *,
        scoring: Any = None,
        refit: bool = True,
        random_state: RandomStateLike = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.refit = refit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> OnePassSearch:
        """Train and compare all candidates on sets or features X with targets y (n,).

        Scores are weighted by ``sample_weight`` (n,), but not by the ``class_weight`` of a candidate.
        """
        if not isinstance(self.param_grid, (Mapping, list, tuple)):
            raise TypeError(
                "param_grid must be a dict or a list of dicts of parameter names and lists of values; got "
                f"{type(self.param_grid).__name__}."
            )
        check_bool("refit", self.refit)
        check_verbose(self.verbose)
        grid = list(ParameterGrid(self.param_grid))
        fraction: Any = self.validation_fraction
        if not isinstance(fraction, Real) or not 0.0 < float(fraction) < 1.0:
            raise ValueError(f"validation_fraction must be between 0 and 1; got {self.validation_fraction}.")
        self.scorer_ = check_scoring(self.estimator, self.scoring)
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = check_search_data(X), np.asarray(y)
        n = X.shape[0]
        if y.shape[:1] != (n,):
            raise ValueError(f"y must have one target for each of the {n} rows of X; got shape {y.shape}.")
        problem = self._problem(y, as_weights(sample_weight, n))
        self.held_out_ = np.flatnonzero(problem.held_out)
        with cached_summaries():
            steps = getattr(self.estimator, "steps", [("", self.estimator)])
            skip = any(getattr(step, "on_error", "raise") == "skip" for _, step in steps)
            trees, widths, candidates = self._candidates(grid, X, y, problem)
            for candidate in candidates:
                candidate.learner.require_valid()
            data = SearchData(X, trees, widths, skip)
            models = train(data, candidates, problem)
            scores, alphas = self._scores(data, candidates, models, problem, y)
        self._store(grid, scores, alphas)
        if self.refit:
            self.best_estimator_ = _fit_with_weights(
                clone(self.estimator).set_params(**self.best_params_), X, y, sample_weight
            )
        return self

    def _candidates(
        self, grid: list[Mapping[str, Any]], X: Any, y: NDArray[Any], problem: SearchProblem
    ) -> tuple[SharedFeatureGraph, list[int], list[Candidate]]:
        """Fit the steps on the training rows; errors name the set by its position in X if possible."""
        try:
            return build_candidates(self.estimator, grid, X, y, np.flatnonzero(~problem.held_out))
        except SampleSetError as error:
            if isinstance(X, (SampleSets, LazySets)):
                summarize(X, None, skip=False)
            error.add_note("Positions are counted among the training rows.")
            raise

    def _problem(self, y: NDArray[Any], weights: F64 | None) -> SearchProblem:
        seed = draw_seed(self.random_state)
        if is_classifier(self.estimator) and y.ndim > 1:
            raise ValueError(
                f"y must have shape (n,), one class per row; got {y.shape}. Use scikit-learn's GridSearchCV for "
                "multilabel targets."
            )
        classes, index = as_classes(y) if is_classifier(self.estimator) else (None, None)
        present = np.ones(len(y), np.bool_) if weights is None else weights > 0
        held_out = choose_held_out_present(
            present, self.validation_fraction, (seed, RngStream.HELD_OUT), index
        )
        targets = y.astype(np.float64) if index is None else index
        if len(invalid := np.flatnonzero(~np.isfinite(targets))):
            raise ValueError(f"y must be finite; got {targets[invalid[0]]} (set {invalid[0]}).")
        return SearchProblem(targets, classes, weights, held_out, seed, bool(self.verbose))

    def _scores(
        self,
        data: SearchData,
        candidates: Sequence[Candidate],
        models: Sequence[list[LinearModel]],
        problem: SearchProblem,
        y: Any,
    ) -> tuple[F64, list[float | None]]:
        """Return the best score of each candidate, and its penalty if the candidate has several."""
        all_models = [model for of_candidate in models for model in of_candidate]
        values = iter(held_out_decision_values(data, all_models, problem) if all_models else [])
        targets, scores, alphas = y[problem.held_out], [], []
        for candidate, of_candidate in zip(candidates, models, strict=True):
            model_scores = [self._score(candidate, next(values), targets, problem) for _ in of_candidate]
            best = int(np.argmax(model_scores)) if model_scores else 0
            scores.append(model_scores[best] if model_scores else np.nan)
            alphas.append(float(candidate.learner.penalties()[best]) if len(model_scores) > 1 else None)
        return np.array(scores), alphas

    def _score(
        self, candidate: Candidate, values: F64, targets: NDArray[Any], problem: SearchProblem
    ) -> float:
        """Score decision values by a learner with identity coefficients."""
        learner, k = candidate.learner, values.shape[1]
        learner.coef_, learner.intercept_, learner.n_features_in_ = np.eye(k), np.zeros(k), k
        if problem.classes is not None:
            learner.classes_ = problem.classes
        elif targets.ndim == 1:
            learner.coef_, learner.intercept_ = np.ones(1), 0.0
        valid = np.isfinite(values).all(axis=1)
        if problem.weights is None:
            return float(self.scorer_(learner, values[valid], targets[valid]))
        weights = problem.weights[problem.held_out][valid]
        return float(self.scorer_(learner, values[valid], targets[valid], sample_weight=weights))

    def _store(self, grid: list[Mapping[str, Any]], scores: F64, alphas: list[float | None]) -> None:
        diverged = np.flatnonzero(np.isnan(scores))
        if len(diverged) == len(grid):
            raise ValueError(
                "No candidate has a score: all coefficients diverge. Reduce eta0, or scale the features to rows of "
                "about unit norm."
            )
        if len(diverged):
            warn(
                f"{len(diverged)} of {len(grid)} candidates diverged and score NaN: {format_positions(diverged)}"
            )
        order = np.where(np.isnan(scores), -np.inf, scores)
        rank = 1 + (order[None, :] > order[:, None]).sum(axis=1)
        self.cv_results_: dict[str, Any] = {"params": grid}
        for name in sorted({name for params in grid for name in params}):
            column = np.ma.MaskedArray(np.empty(len(grid), dtype=object), mask=True)
            for i, params in enumerate(grid):
                if name in params:
                    column[i] = params[name]
            self.cv_results_[f"param_{name}"] = column
        self.cv_results_ |= {
            "split0_test_score": scores, "mean_test_score": scores, "std_test_score": np.zeros(len(grid)),
            "rank_test_score": rank.astype(np.int32),
        }  # fmt: skip
        if any(alpha is not None for alpha in alphas):
            self.cv_results_["alpha"] = alphas
        self.best_index_ = int(np.argmax(order))
        self.best_score_, self.best_params_ = float(scores[self.best_index_]), grid[self.best_index_]

    @property
    def classes_(self) -> Any:
        """Class labels of the refitted classifier."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.classes_

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> NDArray[Any]:
        """Return predictions of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return class probabilities of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return decision values of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.decision_function(X))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the score of ``best_estimator_`` defined by ``scoring``."""
        check_is_fitted(self, "best_estimator_")
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        kwargs = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.scorer_(self.best_estimator_, X, y, **kwargs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator_tags = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = (
            estimator_tags.estimator_type,
            estimator_tags.classifier_tags,
        )
        tags.regressor_tags = estimator_tags.regressor_tags
        return tags


def _fit_with_weights(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit the model; only its learner receives the weights."""
    if sample_weight is None:
        return model.fit(X, y)
    if not isinstance(model, Pipeline):
        return model.fit(X, y, sample_weight=sample_weight)
    if get_config()["enable_metadata_routing"]:
        model[-1].set_fit_request(sample_weight=True)
        return model.fit(X, y, sample_weight=sample_weight)
    return model.fit(X, y, **{f"{model.steps[-1][0]}__sample_weight": sample_weight})
