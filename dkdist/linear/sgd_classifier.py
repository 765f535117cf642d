"""`IncrementalSGDClassifier`: linear classification by SGD over blocks of features.

Steps are in `sgd_steps`, epochs in `epochs`, runs in `sgd_runs`.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from dkdist._base.parameter_checks import RandomStateLike
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.linear.prediction import LinearClassifier
from dkdist.linear.problems import (
    CLASS_WEIGHTS,
    as_classes,
    as_problem,
    check_stream_classes,
    class_index,
    normalize_weights,
    row_weights,
)
from dkdist.linear.sgd_runs import IncrementalSGD
from dkdist.linear.sgd_steps import CLASSIFIER_LOSSES, PROBABILITY_LOSSES, State, probabilities


class IncrementalSGDClassifier(LinearClassifier, IncrementalSGD):
    """Linear classifier trained by stochastic gradient descent (SGD), one block of features at a time.

    Minimises the mean loss plus ``alpha / 2`` times the squared norm of the coefficients, with a constant step and
    averaged iterates; more than two classes are fitted one-vs-rest.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge", "modified_huber"}, default="log_loss"
        "log_loss" and "modified_huber" provide ``predict_proba``.
    alpha : float, default=1e-6
        Strength of the penalty; the intercept is not penalised.
    eta0 : float or "auto", default="auto"
        Step size. "auto" is c / R^2 with R^2 = E q^2 / E q, q = |x|^2 + 1, estimated from at most 1,024 rows. For rows
        of unit norm it is 4 for the log loss, 0.5 for the hinge loss and 0.25 for the squared losses.
    n_epochs : int or "auto", default="auto"
        Maximum number of passes over the data (see ``patience``). "auto" stops when the second half of the passes
        reduces the loss by less than 0.2 % of the loss of the first pass: at the earliest after 40,000 steps (at least
        2 passes), at the latest after 2,000,000 steps (at least 5 passes) or 100 passes. A step is one row.
    class_weight : None, "balanced" or dict, default=None
        Class weights, multiplied by the row weights; "balanced" gives all classes the same total weight.
    n_lanes : int or "auto", default=1
        Number L of SGD replicas (lanes) that share the blocks of an epoch and are averaged every few blocks, with
        momentum 1 - 1/L (local SGD). One lane is sequential SGD, with features computed on up to about 15
        cores; L lanes run in parallel on more workers, with slightly lower accuracy. The result depends on this number,
        but not on the number of workers. "auto" is one lane per thread of the cluster or core of this machine, at most
        8, and fewer if they compute too few features between two averages (two lanes: less than 2.5 GiB per epoch).
        Thus its result depends on the number of workers; pass ``n_lanes_`` for the same result elsewhere.
    average : bool, default=True
        Predict with the average of all iterates, where iterate n has weight n, instead of the last iterate.
    validation_fraction : float in [0, 1), default=0.0
        Fraction of the rows (of every class) that is held out. Their loss is measured in the same passes, on each block
        before its training rows are fitted.
    patience : int or None, default=None
        Stop when the held-out loss has not improved for this many epochs (with n_epochs="auto" not before 40,000
        steps). The model of the last epoch is used.
    checkpoint : path or None, default=None
        Directory in which the run is saved every 128 batches. The same call resumes an interrupted run; the result is
        bitwise identical on the same CPU type. A checkpoint of other data or parameters raises an error.
    cache : "auto", "memory", path or False, default="auto"
        Location of a cache of embedded rows, so that later passes neither read nor embed sets. The rows are the input
        of random features, or of the learner without random features. "auto" uses memory if rows take at most 256 MiB
        and 1/8 of the memory limit. A path is a folder with enough space; it is emptied at the end. Results with and
        without cache are bitwise identical. On a cluster or with a Dask scheduler, "auto" caches nothing, "memory"
        raises an error, and a folder must be shared by all workers. The plan reports what is cached.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        Seed of the order of blocks and rows, and of the held-out rows.
    verbose : bool, default=False
        Show a progress line.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of rows of X with NaN or infinity, such as those of sets that an embedding skipped. "raise" raises an
        error that names the first row; "skip" excludes these rows from training, held-out loss, step and score. Their
        decision values are NaN, and ``predict`` raises an error that names them.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        In the dtype of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_, n_epochs_ : int
        Number of epochs.
    n_lanes_ : int
        Number of lanes; 1 after ``partial_fit``.
    eta0_ : float
        Step size.
    loss_curve_ : ndarray of shape (n_iter_,)
        Progressive loss of every epoch, measured on 128 rows of each batch (the same in every epoch) before its steps.
    validation_loss_curve_ : ndarray of shape (n_iter_,)
        Loss of the held-out rows in every epoch (NaN without held-out rows).
    skipped_ : ndarray of shape (n_skipped,)
        Sorted int64 indices of the skipped rows of X; empty with on_error="raise".
    n_features_in_ : int

    Raises
    ------
    ValueError
        If features are not finite (with on_error="skip": if no row remains), lengths differ, there is only one class,
        weights are negative, NaN or all 0, the checkpoint is from another run, or coefficients overflow.

    Notes
    -----
    The weight of a row multiplies its steps (in ``fit`` weights are divided by their mean) and its loss; a row of
    weight 0 is ignored. With weights c the default step is divided by E c^2 / E c.

    An epoch shuffles the blocks, and the rows within each block: a mini-batch is a block (a chunk of a dask array,
    ``block_sets`` sets of a store, at most 1,024 rows of an array in memory). Another block size changes the order of
    the rows and thus the coefficients; the accuracy is about the same. For a given block size and seed, coefficients
    are identical for any number of workers, any scheduler, and any kind of array (in memory, lazy or persisted). The
    block size changes coefficients of `IncrementalRidgeClassifier` only by rounding.

    An epoch computes every block once. A row costs about 1.3 us per decision function at 5,000 float32 features. The
    number of blocks in memory is the number of threads plus two; on a cluster twice that. For rows sorted by target, up
    to 8 blocks are shuffled together, and at least two such batches are in memory. Shuffle stores at writing to avoid
    this.

    References
    ----------
    Bach & Moulines (2013), Non-strongly-convex smooth stochastic approximation with convergence rate O(1/n).
    Lacoste-Julien, Schmidt & Bach (2012), A simpler approach to obtaining an O(1/t) convergence rate.
    Chen & Huo (2016), Scalable training by incremental block training with intra-block parallel optimization and
    blockwise model-update filtering (lanes).

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist import IncrementalSGDClassifier
    >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype("f4")
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> IncrementalSGDClassifier(random_state=0).fit(X, y).score(X, y) > 0.97
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "loss": [StrOptions(set(CLASSIFIER_LOSSES))],
        "class_weight": CLASS_WEIGHTS,
        **IncrementalSGD._parameter_constraints,
    }

    def __init__(
        self,
        loss: str = "log_loss",
        *,
        alpha: float = 1e-6,
        eta0: float | str = "auto",
        n_epochs: int | str = "auto",
        n_lanes: int | str = 1,
        average: bool = True,
        class_weight: Any = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        cache: str | PathLike[str] | bool = "auto",
        random_state: RandomStateLike = None,
        verbose: bool = False,
        on_error: str = "raise",
    ) -> None:
        super().__init__(
            loss, alpha=alpha, eta0=eta0, n_epochs=n_epochs, n_lanes=n_lanes, average=average,
            validation_fraction=validation_fraction, patience=patience, checkpoint=checkpoint, cache=cache,
            random_state=random_state, verbose=verbose, on_error=on_error,
        )  # fmt: skip
        self.class_weight = class_weight

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Run one pass over more rows, without held-out rows; the first call determines the step.

        Weights are not divided by their mean, because it would depend on later calls.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,)
        classes : array-like, optional
            Classes of all calls; required in the first call.
        sample_weight : array-like of shape (n,) or None
        """
        reset = not hasattr(self, "_stream")
        self._validate_params()
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = as_problem(self, X, y, reset=reset, numeric=False)
        self.classes_ = check_stream_classes(classes, None if reset else self.classes_)
        index = class_index(self.classes_, y)
        weights = row_weights(sample_weight, self.class_weight, self.classes_, index, stream=True)
        self._train_once(X, index, weights, len(self.classes_), reset)
        return self

    def _problem(self, y: NDArray[Any], sample_weight: Any) -> tuple[NDArray[Any], F64 | None, int]:
        self.classes_, index = as_classes(y)
        if sample_weight is None and self.class_weight is None:
            return index, None, len(self.classes_)
        weights = row_weights(sample_weight, self.class_weight, self.classes_, index)
        return index, normalize_weights(weights), len(self.classes_)

    def settle_targets(
        self, y: NDArray[Any], classes: NDArray[Any] | None, weights: F64 | None = None
    ) -> tuple[NDArray[Any], int]:
        """Return the class indices y and the number of classes."""
        assert classes is not None
        self.classes_ = classes
        return y, len(classes)

    def set_model(self, state: State) -> None:
        """Set the coefficients from a state."""
        self.coef_ = state.mean_coef
        self.intercept_ = state.mean_intercept.astype(state.mean_coef.dtype)

    @available_if(lambda self: self.loss in PROBABILITY_LOSSES)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return class probabilities (n, n_classes) in the order of ``classes_``.

        Available for ``loss`` "log_loss" and "modified_huber".

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        """
        return probabilities(self.loss, self.decision_function(X))
