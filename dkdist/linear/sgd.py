"""Linear classifiers and regressors by stochastic gradient descent over blocks of features.

The model is all that is kept: features are made block by block, used once an epoch, and let go. What a step
does is in `learners.sgd_steps`, what an epoch is in `epochs`; here are the parameters and the fitted names.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from dkdist.learners.descent import CLASSIFIER_LOSSES, PROBABILITY_LOSSES, REGRESSOR_LOSSES, probabilities
from dkdist.learners.sgd_steps import Objective, State
from dkdist.linear.prediction import LinearClassifier, LinearRegressor
from dkdist.linear.problems import as_classes, as_problem
from dkdist.linear.sgd_runs import MOST_REAL, IncrementalSGD


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
    n_epochs : int, default=5
        Passes over the data (at most; see ``patience``).
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
        Stop when the held-out loss has not improved for this many epochs; the last model is kept.
    checkpoint : path or None, default=None
        Directory in which the run is saved, every 128 batches. The same call takes it up where it was
        killed and ends with the same bits, on processors of one kind; a checkpoint of other data or
        parameters is refused.
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
    n_iter_ : int
        Epochs that were run.
    eta0_ : float
        The step that was used.
    loss_curve_ : ndarray of shape (n_iter_,)
        Progressive loss of every epoch: each batch's first 128 rows, scored before they are fitted.
    validation_loss_curve_ : ndarray of shape (n_iter_,)
        Loss of the held-out rows in every epoch (NaN without any).
    skipped_ : ndarray of shape (n_skipped,)
        Rows of X that were left out, int64 and sorted; empty with on_error="raise".
    n_features_in_ : int

    Raises
    ------
    ValueError
        For features that are not finite (the row is named; with on_error="skip", if no row is left), lengths
        that do not match, a single class, a checkpoint of another run, or a step at which the coefficients
        overflow.

    Notes
    -----
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
        **IncrementalSGD._parameter_constraints,
    }

    def fit(self, X: Any, y: ArrayLike) -> IncrementalSGDClassifier:
        """Fit from scratch, or from the checkpoint of this very fit.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        IncrementalSGDClassifier
            Itself.
        """
        self._validate_params()
        X, y = as_problem(self, X, y, numeric=False)
        self.classes_, index = as_classes(y)
        end = self._train(X, index, index, len(self.classes_))
        self.loss_curve_, self.validation_loss_curve_ = np.array(end.losses), np.array(end.held_out_losses)
        return self

    def partial_fit(self, X: Any, y: ArrayLike, classes: ArrayLike | None = None) -> IncrementalSGDClassifier:
        """One pass over some more rows; the step is settled in the first call, and nothing is held out.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like of shape (n,)
        classes : array-like, optional
            All classes there will ever be; needed in the first call.

        Returns
        -------
        IncrementalSGDClassifier
            Itself.
        """
        reset = not hasattr(self, "_stream")
        self._validate_params()
        X, y = as_problem(self, X, y, reset=reset, numeric=False)
        self._settle_classes(classes, reset)
        if (self.classes_.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
            raise ValueError(
                f"y holds {y.dtype}, but the classes are {self.classes_}: give targets of their kind"
            )
        index = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if np.any(unknown := self.classes_[index] != y):
            row = int(np.argmax(unknown))
            raise ValueError(
                f"target {y.tolist()[row]!r} in row {row} is not one of the classes {self.classes_}: "
                "name all classes in the first call of partial_fit"
            )
        self._train_once(X, index, len(self.classes_), reset)
        return self

    def settle_targets(self, y: NDArray[Any], classes: NDArray[Any] | None) -> tuple[NDArray[Any], int]:
        """Targets as descent takes them, and how many classes there are: y holds the places of their classes."""
        assert classes is not None
        self.classes_ = classes
        return y, len(classes)

    def set_model(self, state: State) -> None:
        """Predict with the model of a state."""
        self.coef_ = state.mean_coef
        self.intercept_ = state.mean_intercept.astype(state.mean_coef.dtype)

    def _settle_classes(self, classes: ArrayLike | None, reset: bool) -> None:
        if classes is None and reset:
            raise ValueError("the first call of partial_fit needs classes: all labels that will ever occur")
        if classes is not None:
            given, _ = as_classes(np.asarray(classes))
            if not reset and not np.array_equal(given, self.classes_):
                raise ValueError(f"classes={given} differ from those of the first call, {self.classes_}")
            self.classes_ = given

    @available_if(lambda self: self.loss in PROBABILITY_LOSSES)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities, columns as ``classes_`` (for ``loss`` "log_loss" and "modified_huber").

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return probabilities(self.loss, self.decision_function(X))


class IncrementalSGDRegressor(LinearRegressor, IncrementalSGD):
    """Linear regression by stochastic gradient descent, one block of features at a time.

    Minimises half the mean squared error (or its Huber form) plus ``alpha / 2`` times the squared norm of the
    coefficients, with a constant step and averaged weights. Targets are centred and scaled inside.

    Parameters
    ----------
    loss : {"squared_error", "huber"}, default="squared_error"
    epsilon : float or None, default=None
        For "huber" alone, which needs it: the residual, in units of y, beyond which the loss is linear.
    alpha : float, default=1e-6
        Strength of the penalty; the intercept is not penalised.
    eta0 : float or "auto", default="auto"
        The step. "auto" is 1 / R^2 with R^2 = E q^2 / E q, q = |x|^2 + 1, from at most 1024 rows: .5 at
        unit norm.
    n_epochs, n_lanes, average, patience, checkpoint, random_state, verbose
        As in `IncrementalSGDClassifier`.
    validation_fraction : float in [0, 1), default=0.0
        Share of the rows that is never trained on, and watched in the same pass.
    on_error : {"raise", "skip"}, default="raise"
        As in `IncrementalSGDClassifier`; predictions of rows that are not finite are NaN. Centre and scale of
        the targets are those of all rows.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        In the dtype of the features.
    intercept_ : ndarray of shape (1,)
    n_iter_, eta0_, loss_curve_, validation_loss_curve_, skipped_, n_features_in_
        As in `IncrementalSGDClassifier`; losses in squared units of y.

    Raises
    ------
    ValueError
        As `IncrementalSGDClassifier`, and for an ``epsilon`` that is missing or has no meaning.

    Notes
    -----
    Cost and memory as in `IncrementalSGDClassifier`. Up to about 5000 features `IncrementalRidge` needs one
    pass, and no step.

    References
    ----------
    Bach & Moulines (2013), Non-strongly-convex smooth stochastic approximation with convergence rate O(1/n).

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist import IncrementalSGDRegressor
    >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype("f4")
    >>> IncrementalSGDRegressor(random_state=0).fit(X, X @ [1.0, 2.0, 3.0] + 4.0).coef_.round(2)
    array([1., 2., 3.], dtype=float32)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "loss": [StrOptions(set(REGRESSOR_LOSSES))],
        "epsilon": [None, Interval(Real, 0, MOST_REAL, closed="neither")],
        **IncrementalSGD._parameter_constraints,
    }

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        epsilon: float | None = None,
        alpha: float = 1e-6,
        eta0: float | str = "auto",
        n_epochs: int = 5,
        n_lanes: int = 1,
        average: bool = True,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool = False,
        on_error: str = "raise",
    ) -> None:
        super().__init__(
            loss, alpha=alpha, eta0=eta0, n_epochs=n_epochs, n_lanes=n_lanes, average=average,
            validation_fraction=validation_fraction, patience=patience, checkpoint=checkpoint,
            random_state=random_state, verbose=verbose, on_error=on_error,
        )  # fmt: skip
        self.epsilon = epsilon

    def fit(self, X: Any, y: ArrayLike) -> IncrementalSGDRegressor:
        """Fit from scratch, or from the checkpoint of this very fit.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        IncrementalSGDRegressor
            Itself.
        """
        self._validate_params()
        X, y = as_problem(self, X, y, numeric=True)
        targets, _ = self.settle_targets(y, None)
        end = self._train(X, targets, None, 0)
        self.loss_curve_ = self._scale**2 * np.array(end.losses)
        self.validation_loss_curve_ = self._scale**2 * np.array(end.held_out_losses)
        return self

    def partial_fit(self, X: Any, y: ArrayLike) -> IncrementalSGDRegressor:
        """One pass over some more rows; the step and the units are settled in the first call.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        IncrementalSGDRegressor
            Itself.
        """
        reset = not hasattr(self, "_stream")
        self._validate_params()
        X, y = as_problem(self, X, y, reset=reset, numeric=True)
        if reset:
            self.settle_targets(y, None)
        self._train_once(X, (y - self._centre) / self._scale, 0, reset)
        return self

    def settle_targets(self, y: NDArray[Any], classes: NDArray[Any] | None) -> tuple[NDArray[Any], int]:
        """Targets as descent takes them, of mean 0 and variance 1, and no classes; their units are kept."""
        if (self.loss == "huber") != (self.epsilon is not None):
            raise ValueError(
                f"loss={self.loss!r} with epsilon={self.epsilon}: the Huber loss needs an epsilon, "
                "in units of y, and the squared error has none"
            )
        self._centre, self._scale = float(y.mean()), float(y.std()) or 1.0
        if not np.isfinite(self._scale):
            raise ValueError(
                "the targets are so large that their squares are no floats: divide them by a number"
            )
        return (y - self._centre) / self._scale, 0

    def objective(self, eta0: float, n_classes: int) -> Objective:
        """What these parameters minimise, with a step; ``epsilon`` in the units of descent."""
        objective = super().objective(eta0, n_classes)
        return objective if self.epsilon is None else replace(objective, epsilon=self.epsilon / self._scale)

    def set_model(self, state: State) -> None:
        """Predict with the model of a state, in the units of the targets."""
        self.coef_ = state.mean_coef[0] * state.mean_coef.dtype.type(self._scale)
        self.intercept_ = self._centre + self._scale * state.mean_intercept.astype(np.float64)
