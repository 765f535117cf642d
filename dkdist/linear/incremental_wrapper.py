"""`IncrementalWrapper`: training of any estimator with ``partial_fit`` on blocks of features."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_classifier,
)
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from dkdist._base.inputs import require_feature_rows
from dkdist._base.parameter_checks import RandomStateLike, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import align_to_index, unwrap_rows
from dkdist._runtime.blocks import Job, chunk_blocks, is_lazy, local_blocks, max_block_sets
from dkdist._runtime.map_reduce import fold, fold_window
from dkdist._runtime.run import plan_blocks
from dkdist.linear.lazy_predict import lazy_predict
from dkdist.linear.problems import as_classes, as_weights
from dkdist.linear.sgd_runs import MAX_EPOCHS


def _has(name: str) -> Callable[[Any], bool]:
    """Return a check whether the wrapped estimator has a method."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)  # raises AttributeError
        return True

    return check


class IncrementalWrapper(MetaEstimatorMixin, BaseEstimator):
    """Train any estimator with ``partial_fit`` on dask arrays, one block of rows at a time.

    Blocks are computed in parallel and passed to ``partial_fit`` one after another, with a bounded number of blocks in
    memory, on threads or a cluster. Predictions for dask arrays are dask arrays.

    Parameters
    ----------
    estimator : estimator with ``partial_fit``
        Classifier, regressor, clusterer or transformer, such as ``SGDClassifier(random_state=0)``. Its clone is fitted.
    n_epochs : int, default=1
        Number of passes over the data.
    shuffle_blocks : bool, default=True
        Pass the blocks in a random order, a different one in each epoch. Rows inside a block keep their order; many
        estimators shuffle them.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        Seed of the order of blocks. Set the seed of the estimator in the estimator.
    verbose : bool, default=False
        Show the plan and a progress line.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.
    classes_ : ndarray of shape (n_classes,) or list of these
        Classes of y, if the estimator is a classifier; a list for y of shape (n, n_outputs).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X in ``fit`` was a frame with columns of strings.

    Raises
    ------
    ValueError
        If lengths differ, chunks have unknown lengths, there is only one class, or ``sample_weight`` is passed for an
        estimator whose ``partial_fit`` does not accept it. Other checks are those of the estimator.

    Notes
    -----
    A block is a chunk of a dask array along its first axis, or 1,024 rows of an array in memory. The size of blocks
    changes the result of most estimators, but the scheduler, the number of workers and the order in which blocks are
    ready do not. An epoch computes every block once. Targets and weights are loaded into memory. On a cluster the
    estimator is sent between workers and to the client every few blocks.

    `fold` is the loop of this class for other states and orders.

    Examples
    --------
    >>> import dask.array as da
    >>> import dkdist as dk
    >>> from sklearn.linear_model import SGDClassifier
    >>> X = da.random.default_rng(0).standard_normal((1000, 3), chunks=(100, 3))
    >>> y = X[:, 0] > 0
    >>> model = dk.IncrementalWrapper(SGDClassifier(random_state=0), n_epochs=3, random_state=0).fit(X, y)
    >>> model.predict(X)
    dask.array<predict, shape=(1000,), dtype=bool, chunksize=(100,), chunktype=numpy.ndarray>
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["partial_fit"])],
        "n_epochs": [Interval(Integral, 1, MAX_EPOCHS, closed="both")],
        "shuffle_blocks": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    estimator_: Any

    def __init__(
        self,
        estimator: Any,
        *,
        n_epochs: int = 1,
        shuffle_blocks: bool = True,
        random_state: RandomStateLike = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.n_epochs = n_epochs
        self.shuffle_blocks = shuffle_blocks
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit a clone of the estimator in ``n_epochs`` passes, ignoring earlier calls.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,) or (n, n_outputs), or None
        sample_weight : array-like of shape (n,) or None
        """
        self._validate_params()
        return self._train(X, y, None, sample_weight, int(self.n_epochs), reset=True)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Run one pass over more rows; the first call clones the estimator.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,) or (n, n_outputs), or None
        classes : array-like, optional
            Classes of all calls, for classifiers; by default those of y in the first call.
        sample_weight : array-like of shape (n,) or None
        """
        self._validate_params()
        return self._train(X, y, classes, sample_weight, 1, reset=not hasattr(self, "estimator_"))

    def _train(self, X: Any, y: Any, classes: Any, sample_weight: Any, n_epochs: int, *, reset: bool) -> Self:
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X = self._validate(X, reset=reset)
        y = self._targets(y, X.shape[0])
        weights = as_weights(sample_weight, X.shape[0])
        parameters = inspect.signature(self.estimator.partial_fit).parameters
        if weights is not None and "sample_weight" not in parameters:
            raise ValueError(
                f"sample_weight must be None, as partial_fit of {type(self.estimator).__name__} does not accept it; "
                "got weights. Repeat rows or use an estimator that accepts weights."
            )
        if is_classifier(self.estimator) and reset:
            self.classes_ = (
                _find_classes(self.estimator, y) if classes is None else np.unique(np.asarray(classes))
            )
        step = partial(_fit_block, self.classes_ if "classes" in parameters else None)
        model: Any = clone(self.estimator) if reset else self.estimator_
        if reset:
            self._seed, self._n_passes = draw_seed(self.random_state), 0
        blocks = chunk_blocks(X) if is_lazy(X) else local_blocks(X, max_block_sets(X.shape[0]))
        jobs = []
        for _ in range(n_epochs):
            for i in self._block_order(np.diff(blocks.bounds)):
                rows = blocks.rows(i)
                jobs.append(Job((i,), tuple(None if v is None else v[rows] for v in (y, weights))))
            self._n_passes += 1
        plan = plan_blocks(
            blocks,
            what=f"fit {type(self.estimator).__name__}",
            n_blocks=len(jobs),
            waiting=fold_window(blocks),
        )
        with plan.run(self.verbose) as progress:
            self.estimator_ = fold(
                blocks, jobs, _add_targets, step, model,
                label="incremental", progress=progress, sequential=blocks.local, in_place=True,
            )  # fmt: skip
        return self

    def _block_order(self, sizes: NDArray[Any]) -> list[int]:
        numbers = np.flatnonzero(sizes)
        if self.shuffle_blocks:
            numbers = np.random.default_rng((self._seed, RngStream.BLOCK_ORDER, self._n_passes)).permutation(
                numbers
            )
        return list(numbers.tolist())

    def _validate(self, X: Any, *, reset: bool) -> Any:
        """Return X as a dask array, an array or a CSR matrix; the estimator checks the values."""
        X = unwrap_rows(X)
        require_feature_rows(self, X)
        if is_lazy(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        if hasattr(X, "__dask_graph__"):
            raise ValueError(
                f"X must be a dask array or rows in memory; got a {type(X).__name__}. Call "
                "X.to_dask_array(lengths=True)."
            )
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=None, ensure_all_finite=False, allow_nd=True
        )

    def _targets(self, y: Any, n_rows: int) -> NDArray[Any] | None:
        if y is None:
            if get_tags(self.estimator).target_tags.required:
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
            return None
        y = np.asarray(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
        if len(y) != n_rows:
            raise ValueError(
                f"y must have one target for each of the {n_rows} rows of X; got {len(y)} targets."
            )
        return np.asarray(column_or_1d(y, warn=True)) if y.shape[1:] == (1,) else y

    @available_if(_has("predict"))
    def predict(self, X: Any) -> Any:
        """Return the predictions of the estimator: a dask array for a dask array, by `lazy_predict`.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        """
        return self._call(X, "predict")

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities (n, n_classes): a dask array for a dask array.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        """
        return self._call(X, "predict_proba")

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return decision values (n,) or (n, n_classes): a dask array for a dask array.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        """
        return self._call(X, "decision_function")

    @available_if(_has("transform"))
    def transform(self, X: Any) -> Any:
        """Return transformed rows (n, n_components): a dask array for a dask array.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        """
        return self._call(X, "transform")

    @available_if(_has("transform"))
    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> Any:
        """Fit and return the transformed rows: a dask array for a dask array.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,), or None
        """
        return self.fit(X, y).transform(X)

    @available_if(_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns of ``transform``, by the estimator."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.get_feature_names_out(input_features))

    def _call(self, X: Any, method: str) -> Any:
        check_is_fitted(self)
        return lazy_predict(self.estimator_, self._validate(X, reset=False), method)

    @available_if(_has("score"))
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the score of the estimator; for a dask array the accuracy or R^2 of its predictions.

        Parameters
        ----------
        X : ndarray, sparse matrix or dask array of shape (n, n_features)
            For estimators with a score of their own, X must be in memory.
        y : array-like or dask collection of shape (n,), or None
        sample_weight : array-like of shape (n,) or None
        """
        check_is_fitted(self)
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X = self._validate(X, reset=False)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not is_lazy(X):
            return float(self.estimator_.score(X, y, **options))
        metrics = {ClassifierMixin.score: accuracy_score, RegressorMixin.score: r2_score}
        metric = metrics.get(type(self.estimator_).score)
        if metric is None:
            raise ValueError(
                f"X must be in memory, as {type(self.estimator_).__name__} has a score of its own; got a dask array. "
                "Pass X.compute(), or apply a metric to the predictions."
            )
        check_consistent_length(X, y)
        return float(metric(y, np.asarray(self.predict(X)), **options))

    def __sklearn_tags__(self) -> Any:
        tags = get_tags(self.estimator)
        tags.array_api_support = False
        return tags


def _find_classes(estimator: Any, y: NDArray[Any]) -> Any:
    """Return the classes of y; for several outputs a list, or the numbers of labels if they form one target."""
    if y.ndim == 1:
        return as_classes(y)[0]
    if get_tags(estimator).classifier_tags.multi_label:
        return unique_labels(y)
    return [as_classes(column)[0] for column in y.T]


def _add_targets(blocks: Iterator[Any], targets: tuple[Any, Any]) -> tuple[Any, Any, Any]:
    return next(blocks), *targets


def _fit_block(classes: Any, model: Any, item: tuple[Any, Any, Any]) -> Any:
    block, y, weights = item
    options = {"classes": classes, "sample_weight": weights}
    model.partial_fit(
        block, *([] if y is None else [y]), **{name: v for name, v in options.items() if v is not None}
    )
    return model
