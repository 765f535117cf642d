"""Ridge regression in one pass over blocks of features, with every penalty from the same sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.linear.prediction import LinearRegressor
from dkdist.linear.problems import as_problem, as_weights, feature_dtype
from dkdist.linear.ridge_fitting import Found, RidgeLearner, RidgeTargets


def _targets(y: F64, sample_weight: Any) -> RidgeTargets:
    return RidgeTargets(y if y.ndim == 2 else y[:, None], None, as_weights(sample_weight, len(y)))


class IncrementalRidge(LinearRegressor, RidgeLearner):
    """Ridge regression from one pass over the data, its penalty chosen on rows that were left out.

    Minimises ``|y - X w - b|^2 + alpha |w|^2``, as scikit-learn's ``Ridge``.

    Parameters
    ----------
    alphas : float or array-like of floats, default=(1e-4, 1e-3, ..., 1000)
        Penalties to choose from, all positive. With a single one nothing is held out.
    fit_intercept : bool, default=True
        Add an intercept, which is not penalised.
    selection : {"auto", "held-out", "leave-one-out"}, default="auto"
        How one of several alphas is chosen. "held-out" measures each on rows left out of the same pass, then fits all
        rows with the best. "leave-one-out" is exact (as ``RidgeCV``); with more rows than features it takes a second
        pass. "auto" is "leave-one-out" up to 4,000 rows, of which a held-out tenth is noise, and "held-out" above.
    validation_fraction : float in (0, 1), default=0.1
        Share of the rows that is held out: one of every 1 / fraction in the order of the rows, drawn from the seed.
    random_state : int, numpy.random.Generator, RandomState or None, default=None
        Decides which rows are held out.
    verbose : bool, default=False
        Show a progress line.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of rows of X with NaN or infinity, as those of sets that an embedding skipped. "raise" stops
        and names the first; "skip" leaves them out of the fit, the choice of alpha and the score, and predicts
        NaN for them.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        In the dtype of the features.
    intercept_ : float or ndarray of shape (n_targets,)
    alpha_ : float
        The penalty that was chosen.
    alpha_errors_ : ndarray of shape (n_alphas,)
        Mean squared error of every alpha (NaN where there was nothing to choose).
    skipped_ : ndarray of shape (n_skipped,)
        Rows of X (of the last call) that were left out, int64 and sorted; empty with on_error="raise".
    n_samples_seen_ : int
        Rows of weight above 0 that ``partial_fit`` has added up.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For features that are not finite (the row is named; with on_error="skip", if no row is left), lengths
        that do not match, alphas that are not positive, weights that are negative, NaN or all 0.

    Notes
    -----
    A row of weight w counts as w equal rows in the fit, and errors are weighted too; a row of weight 0 is not there.

    For n <= D rows of D features the rows are kept and the dual problem is solved: n^2 D operations, about 10 n^3 to
    choose alpha by leave-one-out, one pass whatever the selection. For more rows n D^2 operations a pass, D^3 / 3 for
    every alpha on held-out rows, about 10 D^3 for leave-one-out or more than twelve alphas. A Gram matrix takes
    8 D^2 bytes (200 MB at D = 5000); held-out selection needs two wherever there is one. Alive at a time, over all
    workers: those of running tasks and those that wait to be added, up to 2 GB together (two at least), and one for
    each level of the tree, at most 8. The order of storage does not matter.

    ``partial_fit`` keeps these sums and adds to them; a model file does not hold them, a pickle does.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist import IncrementalRidge
    >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype("f4")
    >>> IncrementalRidge(alphas=0.1).fit(X, X @ [1.0, 2.0, 3.0] + 4.0).coef_.round(2)
    array([1., 2., 3.], dtype=float32)
    """

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> IncrementalRidge:
        """Fit from scratch; returns itself.

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
        """Add some more rows to those of earlier calls, and solve for all of them; returns itself.

        After any calls the model is, up to rounding, that of one ``fit`` of all rows with selection="held-out" (which
        "auto" means here); what ``fit`` has learned before is forgotten, as it keeps no sums. While no row is held out
        yet the largest alpha is taken. Each call solves again, D^3 / 3 operations an alpha, so that few large calls are
        faster than many small ones.

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
                f"y has shape {y.shape}, but the coefficients of the calls before have shape {self.coef_.shape}: give "
                "as many targets in every call"
            )
        self._predict_by(self._solve_more(X, _targets(y, sample_weight)), X, y)
        return self

    def _predict_by(self, found: Found, X: Any, y: F64) -> None:
        """Predict with what was found, in the dtype of the features."""
        coef = found.coef.T.astype(feature_dtype(X), order="C")
        self.coef_ = coef if y.ndim == 2 else coef[0]
        self.intercept_ = found.intercept if y.ndim == 2 else float(found.intercept[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
