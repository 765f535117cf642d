"""`IncrementalSGDRegressor`: linear regression by SGD over blocks of features."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dkdist._base.parameter_checks import RandomStateLike
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.linear.prediction import LinearRegressor
from dkdist.linear.problems import as_problem, as_weights, normalize_weights
from dkdist.linear.sgd_runs import MAX_PARAMETER, IncrementalSGD
from dkdist.linear.sgd_steps import REGRESSOR_LOSSES, Objective, State


class IncrementalSGDRegressor(LinearRegressor, IncrementalSGD):
    """Linear regression by stochastic gradient descent (SGD), one block of features at a time.

    Minimises half the mean squared error (or its Huber form) plus ``alpha / 2`` times the squared norm of the
    coefficients, with a constant step and averaged iterates. Targets are centred and scaled internally.

    Parameters
    ----------
    loss : {"squared_error", "huber"}, default="squared_error"
    epsilon : float or None, default=None
        Residual, in units of y, above which the Huber loss is linear. Required for "huber", not allowed otherwise.
    alpha : float, default=1e-6
        Strength of the penalty; the intercept is not penalised.
    eta0 : float or "auto", default="auto"
        Step size. "auto" is 1 / R^2 with R^2 = E q^2 / E q, q = |x|^2 + 1, estimated from at most 1,024 rows; it is 0.5
        for rows of unit norm.
    n_epochs, n_lanes, average, patience, checkpoint, cache, random_state, verbose
        As in `IncrementalSGDClassifier`.
    validation_fraction : float in [0, 1), default=0.0
        Fraction of the rows that is held out; their loss is measured in the same pass.
    on_error : {"raise", "skip"}, default="raise"
        As in `IncrementalSGDClassifier`; predictions of skipped rows are NaN. The centre and scale of
        targets are computed from all rows.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        In the dtype of the features.
    intercept_ : ndarray of shape (1,)
    n_iter_, n_epochs_, n_lanes_, eta0_, loss_curve_, validation_loss_curve_, skipped_, n_features_in_
        As in `IncrementalSGDClassifier`; losses have squared units of y.

    Raises
    ------
    ValueError
        As in `IncrementalSGDClassifier`, and for "huber" without ``epsilon`` or ``epsilon`` without "huber".

    Notes
    -----
    Cost, memory and the order of the rows are as in `IncrementalSGDClassifier`. Up to about 5,000 features,
    `IncrementalRidge` is an alternative with one pass and no step size.

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
        "epsilon": [None, Interval(Real, 0, MAX_PARAMETER, closed="neither")],
        **IncrementalSGD._parameter_constraints,
    }

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        epsilon: float | None = None,
        alpha: float = 1e-6,
        eta0: float | str = "auto",
        n_epochs: int | str = "auto",
        n_lanes: int | str = 1,
        average: bool = True,
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
        self.epsilon = epsilon

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Run one pass over more rows; the first call determines the step, and the centre and scale of y.

        Weights are not divided by their mean, because it would depend on later calls.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,)
        sample_weight : array-like of shape (n,) or None
        """
        reset = not hasattr(self, "_stream")
        self._validate_params()
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = as_problem(self, X, y, reset=reset, numeric=True)
        weights = as_weights(sample_weight, len(y))
        if reset:
            self.settle_targets(y, None, weights)
        self._train_once(X, (y - self._centre) / self._scale, weights, 0, reset)
        return self

    def _problem(self, y: NDArray[Any], sample_weight: Any) -> tuple[NDArray[Any], F64 | None, int]:
        weights = None if sample_weight is None else normalize_weights(as_weights(sample_weight, len(y)))
        targets, n_classes = self.settle_targets(y, None, weights)
        return targets, weights, n_classes

    @property
    def _loss_unit(self) -> float:
        return self._scale**2

    def settle_targets(
        self, y: NDArray[Any], classes: NDArray[Any] | None, weights: F64 | None = None
    ) -> tuple[NDArray[Any], int]:
        """Return targets scaled to mean 0 and variance 1, and the number of classes 0; store the centre and scale."""
        if (self.loss == "huber") != (self.epsilon is not None):
            raise ValueError(
                f"epsilon must be a number in units of y for loss='huber' and None for loss='squared_error'; got "
                f"{self.epsilon} with loss={self.loss!r}."
            )
        self._centre = float(np.average(y, weights=weights))
        self._scale = float(np.sqrt(np.average((y - self._centre) ** 2, weights=weights))) or 1.0
        if not np.isfinite(self._scale):
            raise ValueError("y must have finite squares; got an overflow. Divide y by a constant.")
        return (y - self._centre) / self._scale, 0

    def objective(self, eta0: float, n_classes: int) -> Objective:
        """Return the objective with step ``eta0`` and ``epsilon`` in units of the scaled targets."""
        objective = super().objective(eta0, n_classes)
        return objective if self.epsilon is None else replace(objective, epsilon=self.epsilon / self._scale)

    def set_model(self, state: State) -> None:
        """Set the coefficients from a state, in units of y."""
        self.coef_ = state.mean_coef[0] * state.mean_coef.dtype.type(self._scale)
        self.intercept_ = self._centre + self._scale * state.mean_intercept.astype(np.float64)
