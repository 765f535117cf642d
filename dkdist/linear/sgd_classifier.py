"""Linear classifiers by stochastic gradient descent over blocks of features.

The model is all that is kept: features are made block by block, used once an epoch, and let go. What a step
does is in `learners.descent.sgd_steps`, what an epoch is in `epochs`; here are the parameters and the fitted names.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.linear.prediction import LinearClassifier
from dkdist.linear.problems import (
    CLASS_WEIGHTS,
    as_classes,
    as_problem,
    classes_of_stream,
    index_among,
    of_mean_one,
    weights_of,
)
from dkdist.linear.sgd_runs import IncrementalSGD
from dkdist.linear.sgd_steps import CLASSIFIER_LOSSES, PROBABILITY_LOSSES, State, probabilities


class IncrementalSGDClassifier(LinearClassifier, IncrementalSGD):
    """Linear classifier trained by stochastic gradient descent, one block of features at a time.

    Minimises the mean loss plus ``alpha / 2`` times the squared norm of the coefficients, with a constant
    step and averaged weights; more than two classes are fitted each against the rest.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge", "modified_huber"}, default="log_loss"
        The first and the last give ``predict_proba``.
    alpha : float, default=1e-6
        Strength of the penalty; the intercept is not penalised.
    eta0 : float or "auto", default="auto"
        The step. "auto" is c / R^2 with R^2 = E q^2 / E q, q = |x|^2 + 1, from at most 1024 rows: at unit
        norm 4 for the log loss, .5 for the hinge, .25 for its squares.
    n_epochs : int or "auto", default="auto"
        Passes over the data (at most; see ``patience``). "auto" goes on until the second half of the passes has gained
        less than .2 % of the first one's loss: from 40,000 rows on, used again and again (two passes at least), to
        2,000,000 (five passes at least), and 100 passes at most.
    class_weight : None, "balanced" or dict, default=None
        Weights of classes, which multiply those of rows: "balanced" gives all classes the same weight together.
    n_lanes : int, default=1
        Sequences that share the blocks of an epoch and meet every few blocks, with momentum 1 - 1/L. One lane is
        exact sequential descent, and keeps some fifteen producing cores busy; with L lanes nothing is taken one
        after another, so that more workers help, at a small loss of accuracy. The result depends on this number,
        never on the number of workers.
    average : bool, default=True
        Predict with the average of the iterates, the n-th weighted by n, instead of the last one.
    validation_fraction : float in [0, 1), default=0.0
        Share of the rows (of every class) that is never trained on. Their loss is measured in the same
        pass, on each block before it is fitted, so watching it costs no pass of its own.
    patience : int or None, default=None
        Stop when the held-out loss has not improved for this many epochs (with n_epochs="auto" not before 40,000
        steps); the last model is kept.
    checkpoint : path or None, default=None
        Directory in which the run is saved, every 128 batches. The same call takes it up where it was
        killed and ends with the same bits, on processors of one kind; a checkpoint of other data or
        parameters is refused.
    cache : "auto", "memory", path or False, default="auto"
        Where rows are kept after the first pass, so that later ones neither read nor embed again: what random
        features are made from (features never are), or rows without such. "auto" is in memory if they take at most
        256 MiB and an eighth of the memory limit; a path is a folder with room for them, emptied in the end. They are
        kept as they were made: results have the same bits wherever they are kept. On a cluster, or with a scheduler
        of Dask's, "auto" keeps none, "memory" is refused, and a folder is one that all workers share. The plan says
        what is kept.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        Decides the order of blocks and rows and the held-out rows.
    verbose : bool, default=False
        Show a progress line.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of rows of X with NaN or infinity, as those of sets that an embedding skipped. "raise" stops
        and names the first; "skip" leaves them out of training, held-out loss, step and score. Their decision
        values are NaN, and ``predict`` refuses them by name.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        In the dtype of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_, n_epochs_ : int
        Epochs that were run.
    eta0_ : float
        The step that was used.
    loss_curve_ : ndarray of shape (n_iter_,)
        Progressive loss of every epoch: 128 rows of each batch, the same in every epoch, scored before they are
        fitted.
    validation_loss_curve_ : ndarray of shape (n_iter_,)
        Loss of the held-out rows in every epoch (NaN without any).
    skipped_ : ndarray of shape (n_skipped,)
        Rows of X that were left out, int64 and sorted; empty with on_error="raise".
    n_features_in_ : int

    Raises
    ------
    ValueError
        For features that are not finite (the row is named; with on_error="skip", if no row is left), lengths
        that do not match, a single class, weights that are negative, NaN or all 0, a checkpoint of another run, or a
        step at which the coefficients overflow.

    Notes
    -----
    A row's weight multiplies its steps (in ``fit`` weights are divided by their mean), and its loss wherever that is
    measured; a row of weight 0 is not there. With weights c the default step is divided by E c^2 / E c.

    An epoch shuffles the blocks, and the rows within each block: a mini-batch is a block (a chunk of a dask array,
    ``block_sets`` sets of a store, at most 1,024 rows of an array in memory). So another block size is another order of
    the rows, and gives other coefficients at about the same accuracy. For one block size and seed, coefficients are
    identical for any number of workers, any scheduler, and arrays in memory, lazy or persisted. Of two block sizes,
    `IncrementalRidgeClassifier` has coefficients that differ by rounding alone.

    An epoch makes every block once. A row costs about 1.3 us a decision function at 5000 float32 features.
    As many blocks are alive as there are threads, and two more; on a cluster twice that. Rows stored in the
    order of their targets are recognised and up to eight blocks shuffled together, two such batches at a time at
    least; a store that was shuffled when it was written needs none of that.

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
        n_lanes: int = 1,
        average: bool = True,
        class_weight: Any = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        cache: str | PathLike[str] | bool = "auto",
        random_state: Any = None,
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
        """One pass over some more rows; the step is settled in the first call, and nothing is held out; returns itself.

        Weights are taken as they are, as nobody knows the mean of those to come.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,)
        classes : array-like, optional
            All classes there will ever be; needed in the first call.
        sample_weight : array-like of shape (n,) or None
        """
        reset = not hasattr(self, "_stream")
        self._validate_params()
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = as_problem(self, X, y, reset=reset, numeric=False)
        self.classes_ = classes_of_stream(classes, None if reset else self.classes_)
        index = index_among(self.classes_, y)
        weights = weights_of(sample_weight, self.class_weight, self.classes_, index, stream=True)
        self._train_once(X, index, weights, len(self.classes_), reset)
        return self

    def _problem(self, y: NDArray[Any], sample_weight: Any) -> tuple[NDArray[Any], F64 | None, int]:
        self.classes_, index = as_classes(y)
        if sample_weight is None and self.class_weight is None:
            return index, None, len(self.classes_)
        weights = weights_of(sample_weight, self.class_weight, self.classes_, index)
        return index, of_mean_one(weights), len(self.classes_)

    def settle_targets(
        self, y: NDArray[Any], classes: NDArray[Any] | None, weights: F64 | None = None
    ) -> tuple[NDArray[Any], int]:
        """Targets as descent takes them, and how many classes there are: y holds the places of their classes."""
        assert classes is not None
        self.classes_ = classes
        return y, len(classes)

    def set_model(self, state: State) -> None:
        """Predict with the model of a state."""
        self.coef_ = state.mean_coef
        self.intercept_ = state.mean_intercept.astype(state.mean_coef.dtype)

    @available_if(lambda self: self.loss in PROBABILITY_LOSSES)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities (n, n_classes), columns as ``classes_`` (for ``loss`` "log_loss" and "modified_huber").

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        """
        return probabilities(self.loss, self.decision_function(X))
