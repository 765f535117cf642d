"""`OnePassSearch`: every candidate of a grid trained in the same pass over the data."""

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
from dkdist._base.parameter_checks import draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.process import warn
from dkdist._utils.validation import check_bool, check_verbose
from dkdist.io import SetStore
from dkdist.linear.feature_trees import SearchData, SharedFeatureGraph, source
from dkdist.linear.held_out import held_out_among
from dkdist.linear.many_models import Linear
from dkdist.linear.problems import as_classes, as_weights
from dkdist.linear.search_training import Candidate, Problem, build_candidates, measure, train
from dkdist.sets import SampleSetError, SampleSets


def _refitted(method: str) -> Callable[[OnePassSearch], bool]:
    def has(search: OnePassSearch) -> bool:
        return hasattr(
            search.best_estimator_ if hasattr(search, "best_estimator_") else search.estimator, method
        )

    return has


class OnePassSearch(MetaEstimatorMixin, BaseEstimator):
    """Choose the parameters of a pipeline by training every candidate in the same pass over the data.

    What candidates have in common is done once: points are read once a pass, their cosine coefficients computed once
    for all series and one-dimensional densities on one domain, the products of random features once for all sigmas, and
    features once for all penalties and losses. Candidates are compared on rows that none of them was trained on.

    Parameters
    ----------
    estimator : Pipeline or learner
        An embedding of sets, ``RandomFourierFeatures`` (any of the two may be missing), and one of the Incremental...
        learners as the last step.
    param_grid : dict or list of dicts
        Parameter names of the pipeline ("divergenceembedding__bandwidth") and lists of values, as for scikit-learn's
        ``GridSearchCV``.
    validation_fraction : float in (0, 1), default=0.1
        Share of the rows (of every class) that is held out, the same rows for all candidates.
    scoring : str, callable or None, default=None
        As in scikit-learn; None is the learner's own score (accuracy, or R^2).
    refit : bool, default=True
        Fit the best candidate on all rows, as ``best_estimator_``.
    random_state : int, Generator or None, default=None
        Decides which rows are held out, and the order in which SGD takes the others.
    verbose : bool, default=False
        Print the plan of each pass, and show its progress.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, scorer_
        As in ``GridSearchCV``.
    cv_results_ : dict of lists and arrays
        "params", a "param_..." masked array for each name, "split0_test_score", "mean_test_score" (the same),
        "std_test_score" (0: there is one split), "rank_test_score". For a learner with several ``alphas`` of its own,
        the score is that of the best one, and "alpha" says which.
    held_out_ : (n_held_out,) int64 array
        The rows on which candidates were compared.

    Raises
    ------
    TypeError
        For a step that cannot share a pass (use ``GridSearchCV``).
    ValueError, SampleSetError, MemoryError
        As the steps themselves; MemoryError before anything is trained.

    Notes
    -----
    All steps, and sigma="median", are fitted on the rows that are not held out. Learners are trained on them in one
    lane; n_epochs="auto" is 100,000 steps here, in 5 to 100 passes, and what a learner holds out for itself, and its
    checkpoint, belong to the refit. Held-out points outside the range of the others are clipped to it, as in
    ``transform``. ``best_score_`` is the largest of several scores on the same rows, and so too high on average. A
    candidate whose coefficients grow without bound scores NaN, with a warning.

    Cost of a pass: each set of features once, 4 D operations a row for each SGD candidate and epoch, n D^2 for the
    statistics of each set of features that has a ridge candidate (as many at a time as fit into half of the memory)
    and D^3 / 3 for each penalty. A last pass makes the features of the held-out rows again.

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
        """Restore what model files do not hold; raise ValueError for attributes that do not fit each other."""
        if (best := vars(self).get("best_estimator_")) is not None:
            check_is_fitted(best)
        params = self.cv_results_["params"]
        if not 0 <= self.best_index_ < len(params):
            raise ValueError(f"best_index_ is {self.best_index_}, and there are {len(params)} candidates")
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
        random_state: Any = None,
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
        """Train and compare all candidates; X are sets or features, y (n,) their targets, weighted as learners do.

        Scores are weighted by ``sample_weight`` too (never by a candidate's ``class_weight``).
        """
        if not isinstance(self.param_grid, (Mapping, list, tuple)):
            raise TypeError(
                f"param_grid must be a dict or a list of dicts of parameter names and lists of values; found "
                f"{type(self.param_grid).__name__}"
            )
        check_bool("refit", self.refit)
        check_verbose(self.verbose)
        grid = list(ParameterGrid(self.param_grid))
        share: Any = self.validation_fraction
        if not isinstance(share, Real) or not 0.0 < float(share) < 1.0:
            raise ValueError(
                f"validation_fraction must lie between 0 and 1; found {self.validation_fraction}"
            )
        self.scorer_ = check_scoring(self.estimator, self.scoring)
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = source(X), np.asarray(y)
        n = X.shape[0]
        if y.shape[:1] != (n,):
            raise ValueError(f"X has {n} rows but y has shape {y.shape}: give one target for every set")
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
        self._keep(grid, scores, alphas)
        if self.refit:
            self.best_estimator_ = _fitted(
                clone(self.estimator).set_params(**self.best_params_), X, y, sample_weight
            )
        return self

    def _candidates(
        self, grid: list[Mapping[str, Any]], X: Any, y: NDArray[Any], problem: Problem
    ) -> tuple[SharedFeatureGraph, list[int], list[Candidate]]:
        """Fit the steps on the rows that are not held out; an error names the set by its position in X if it can."""
        try:
            return build_candidates(self.estimator, grid, X, y, np.flatnonzero(~problem.held_out))
        except SampleSetError as error:
            if isinstance(X, (SampleSets, SetStore)):
                summarize(X, None, skip=False)
            error.add_note("Sets are counted among the rows that are not held out.")
            raise

    def _problem(self, y: NDArray[Any], weights: F64 | None) -> Problem:
        seed = draw_seed(self.random_state)
        if is_classifier(self.estimator) and y.ndim > 1:
            raise ValueError(
                f"y has shape {y.shape}: a search compares classifiers of one class a row, y (n,). For labels that do "
                "not exclude each other use scikit-learn's GridSearchCV"
            )
        classes, index = as_classes(y) if is_classifier(self.estimator) else (None, None)
        present = np.ones(len(y), np.bool_) if weights is None else weights > 0
        held_out = held_out_among(present, self.validation_fraction, (seed, RngStream.HELD_OUT), index)
        targets = y.astype(np.float64) if index is None else index
        if not np.isfinite(targets).all():
            raise ValueError(f"target {int(np.argmin(np.isfinite(targets)))} of y is not finite")
        return Problem(targets, classes, weights, held_out, seed, bool(self.verbose))

    def _scores(
        self,
        data: SearchData,
        candidates: Sequence[Candidate],
        models: Sequence[list[Linear]],
        problem: Problem,
        y: Any,
    ) -> tuple[F64, list[float | None]]:
        """The best score of each candidate's models, and the penalty it was reached with where there were several."""
        every = [model for of_candidate in models for model in of_candidate]
        values = iter(measure(data, every, problem) if every else [])
        truth, scores, alphas = y[problem.held_out], [], []
        for candidate, of_candidate in zip(candidates, models, strict=True):
            found = [self._score(candidate, next(values), truth, problem) for _ in of_candidate]
            best = int(np.argmax(found)) if found else 0
            scores.append(found[best] if found else np.nan)
            alphas.append(float(candidate.learner.penalties()[best]) if len(found) > 1 else None)
        return np.array(scores), alphas

    def _score(self, candidate: Candidate, values: F64, truth: NDArray[Any], problem: Problem) -> float:
        """What the scorer says of a model whose features are its own decision values."""
        learner, k = candidate.learner, values.shape[1]
        learner.coef_, learner.intercept_, learner.n_features_in_ = np.eye(k), np.zeros(k), k
        if problem.classes is not None:
            learner.classes_ = problem.classes
        elif truth.ndim == 1:
            learner.coef_, learner.intercept_ = np.ones(1), 0.0
        good = np.isfinite(values).all(axis=1)
        if problem.weights is None:
            return float(self.scorer_(learner, values[good], truth[good]))
        weights = problem.weights[problem.held_out][good]
        return float(self.scorer_(learner, values[good], truth[good], sample_weight=weights))

    def _keep(self, grid: list[Mapping[str, Any]], scores: F64, alphas: list[float | None]) -> None:
        lost = np.flatnonzero(np.isnan(scores))
        if len(lost) == len(grid):
            raise ValueError(
                "no candidate could be scored: the coefficients of all grow without bound. Lower eta0, or scale the "
                "features to rows of about unit norm"
            )
        if len(lost):
            warn(f"{len(lost)} of {len(grid)} candidates grew without bound and score NaN: {format_positions(lost)}")
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

    @available_if(_refitted("predict"))
    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_refitted("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(_refitted("decision_function"))
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Decision values of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.decision_function(X))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """What the scorer says of ``best_estimator_``."""
        check_is_fitted(self, "best_estimator_")
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.scorer_(self.best_estimator_, X, y, **more))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = own.estimator_type, own.classifier_tags
        tags.regressor_tags = own.regressor_tags
        return tags


def _fitted(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """The model, fitted; weights go to its learner alone."""
    if sample_weight is None:
        return model.fit(X, y)
    if not isinstance(model, Pipeline):
        return model.fit(X, y, sample_weight=sample_weight)
    if get_config()["enable_metadata_routing"]:
        model[-1].set_fit_request(sample_weight=True)
        return model.fit(X, y, sample_weight=sample_weight)
    return model.fit(X, y, **{f"{model.steps[-1][0]}__sample_weight": sample_weight})
