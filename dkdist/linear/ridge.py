"""`IncrementalRidge`: ridge regression in one pass over blocks of features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.linear.prediction import LinearRegressor
from dkdist.linear.problems import as_problem, as_weights, feature_dtype
from dkdist.linear.ridge_fitting import RidgeLearner, RidgeResult, RidgeTargets


def _targets(y: F64, sample_weight: Any) -> RidgeTargets:
    return RidgeTargets(y if y.ndim == 2 else y[:, None], None, as_weights(sample_weight, len(y)))


class IncrementalRidge(LinearRegressor, RidgeLearner):
    """Ridge regression in one pass over the data, with cross-validated choice of the penalty.

    Minimises ``|y - X w - b|^2 + alpha |w|^2``, like scikit-learn's ``Ridge``.

    Parameters
    ----------
    alphas : float or array-like of floats, default=(1e-4, 1e-3, ..., 1000)
        Positive penalties to choose from. With a single penalty no rows are held out.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalised.
    selection : {"auto", "held-out", "leave-one-out"}, default="auto"
        Method for choosing one of several alphas. "held-out" computes errors on held-out rows of the same pass and then
        fits all rows with the best alpha. "leave-one-out" computes exact errors (as in ``RidgeCV``) and needs a second
        pass for more rows than features. "auto" means "leave-one-out" up to 4,000 rows, where 10 % of the rows would
        be too noisy, and "held-out" above.
    validation_fraction : float in (0, 1), default=0.1
        Fraction of held-out rows: one random row in each range of 1 / fraction consecutive rows.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        Seed of the held-out rows.
    verbose : bool, default=False
        Show a progress line.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of rows of X with NaN or infinity, such as those of sets that an embedding skipped. "raise" raises
        an error that names the first row; "skip" excludes these rows from the fit, the choice of alpha and the score,
        and predicts NaN for them.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        In the dtype of the features.
    intercept_ : float or ndarray of shape (n_targets,)
    alpha_ : float
        The selected penalty.
    alpha_errors_ : ndarray of shape (n_alphas,)
        Mean squared error for each alpha (NaN for a single alpha).
    skipped_ : ndarray of shape (n_skipped,)
        Sorted int64 indices of the skipped rows of X (of the last call); empty with on_error="raise".
    n_samples_seen_ : int
        Number of rows with a weight above 0 in all calls of ``partial_fit``.
    n_features_in_ : int

    Raises
    ------
    ValueError
        If features are not finite (with on_error="skip": if no row remains), lengths differ, alphas are not positive,
        or weights are negative, NaN or all 0.

    Notes
    -----
    A row of weight w is equivalent to w equal rows in the fit and in errors; a row of weight 0 is ignored.

    For n <= D rows of D features the dual problem is solved in one pass: n^2 D operations, and about 10 n^3 for
    leave-one-out. For more rows: n D^2 operations per pass, and D^3 / 3 per alpha for held-out selection, or about
    10 D^3 for leave-one-out or more than 12 alphas. A Gram matrix takes 8 D^2 bytes (200 MB for D = 5000); held-out
    selection needs two. In memory, over all workers: the matrices of running tasks, up to 2 GiB (at least two) of
    matrices that are not yet merged, and up to 8 in the tree of sums. The order of rows does not matter.

    ``partial_fit`` stores these matrices and adds to them. Pickles contain them, model files do not.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist import IncrementalRidge
    >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype("f4")
    >>> IncrementalRidge(alphas=0.1).fit(X, X @ [1.0, 2.0, 3.0] + 4.0).coef_.round(2)
    array([1., 2., 3.], dtype=float32)
    """

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> IncrementalRidge:
        """Fit from scratch, ignoring earlier calls.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,) or (n, n_targets)
        sample_weight : array-like of shape (n,) or None
        """
        self._validate_params()
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = as_problem(self, X, y, numeric=True, multi_output=True)
        self._predict_by(self._solve(X, _targets(y, sample_weight)), X, y)
        return self

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> IncrementalRidge:
        """Add rows to the rows of earlier calls and refit on all rows.

        Up to rounding, the model is the same as after one ``fit`` on all rows with selection="held-out", which is used
        for "auto". An earlier ``fit`` is discarded, because it stores no sums. Without held-out rows the largest alpha
        is used. Each call takes D^3 / 3 operations per alpha, so a few large calls are faster than many small ones.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,) or (n, n_targets)
        sample_weight : array-like of shape (n,) or None
        """
        self._validate_params()
        reset = self._require_stream()
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = as_problem(self, X, y, reset=reset, numeric=True, multi_output=True)
        if not reset and np.shape(self.coef_)[:-1] != y.shape[1:]:
            raise ValueError(
                f"y must have the same targets in every call of partial_fit; got shape {y.shape} after coefficients of "
                f"shape {self.coef_.shape}."
            )
        self._predict_by(self._solve_more(X, _targets(y, sample_weight)), X, y)
        return self

    def _predict_by(self, result: RidgeResult, X: Any, y: F64) -> None:
        """Set the coefficients, in the dtype of the features."""
        coef = result.coef.T.astype(feature_dtype(X), order="C")
        self.coef_ = coef if y.ndim == 2 else coef[0]
        self.intercept_ = result.intercept if y.ndim == 2 else float(result.intercept[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
