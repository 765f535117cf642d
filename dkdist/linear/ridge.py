"""Ridge regression and classification in one pass over blocks; every penalty from one decomposition.

What travels is never a feature: tasks sum the statistics of many blocks and send one or two Gram matrices each, which
are added in a tree of fixed shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dkdist.base.bad_sets import require_rows, skips, tell_skipped_rows
from dkdist.base.parameter_checks import draw_seed, real_matrix
from dkdist.base.roles import Role
from dkdist.execution.blocks import Blocks, Job, row_blocks
from dkdist.execution.passes import fold
from dkdist.execution.run import Plan, plan_blocks
from dkdist.execution.tree import tree_sum
from dkdist.learners.ridge_rows import (
    KeptRows,
    dual_held_out_errors,
    dual_leave_one_out_errors,
    dual_solution,
    join_rows,
    keep_rows,
)
from dkdist.learners.ridge_statistics import (
    Centred,
    LeaveOneOut,
    Sums,
    accumulate,
    centred,
    held_out_errors,
    leave_one_out,
    merge,
    merge_sums,
    solve,
    spectrum,
)
from dkdist.learners.rows import choose_held_out
from dkdist.learners.sgd_steps import signs
from dkdist.linear.prediction import LinearClassifier, LinearRegressor
from dkdist.linear.problems import (
    LinearLearner,
    as_classes,
    as_problem,
    feature_dtype,
    neighbours_job,
)
from dkdist.loops.array_types import F64, I64

ALPHAS = tuple(10.0**k for k in range(-4, 3))
JOBS, MOST_JOBS = 32, 256  # tasks that sum statistics
LEVELS = 8  # of the tree in which they are added
UNMERGED_BYTES = 2 * 2**30  # of statistics that wait to be added, over all workers


class _IncrementalRidge(LinearLearner):
    """The part of fitting that does not care what the targets mean."""

    by_sums = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alphas": ["array-like", Interval(Real, 0, 1e300, closed="neither")],
        "fit_intercept": ["boolean"],
        "selection": [StrOptions({"held-out", "leave-one-out"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
    }

    def __init__(
        self,
        alphas: ArrayLike = ALPHAS,
        *,
        fit_intercept: bool = True,
        selection: str = "held-out",
        validation_fraction: float = 0.1,
        random_state: Any = None,
        verbose: bool = False,
        on_error: str = "raise",
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.selection = selection
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        self.on_error = on_error

    def _solve(self, X: Any, values: F64, classes: I64 | None) -> tuple[NDArray[Any], F64]:
        """Coefficients (n_targets, n_features) and intercepts (n_targets,) for targets ``values`` (n, n_targets).

        With ``classes`` (n,) the values are those of each class, (n_classes, n_targets): rows travel as classes.
        """
        n = len(values) if classes is None else len(classes)
        alphas, centre = self.penalties(), bool(self.fit_intercept)
        dtype, blocks = feature_dtype(X), row_blocks(X)
        split = len(alphas) > 1 and self.selection == "held-out"
        again = len(alphas) > 1 and not split
        held_out = np.zeros(n, dtype=np.bool_)
        if split:
            seed = draw_seed(self.random_state)
            held_out = choose_held_out(n, self.validation_fraction, (seed, Role.HELD_OUT), classes)
        mean = values.mean(axis=0) if classes is None else np.bincount(classes) @ values / n
        offset = mean if centre else np.zeros_like(mean)
        values = values - offset
        codes = None if classes is None else values
        jobs = _jobs(blocks, values if classes is None else classes, held_out, skips(self))
        self.alpha_errors_ = np.full(len(alphas), np.nan)
        with _plan(blocks, f"fit {type(self).__name__}", n, split, again).announced(self.verbose) as progress:
            gather = partial(tree_sum, blocks, jobs, progress=progress)
            if n <= blocks.n_columns:
                work = partial(keep_rows, dtype, codes)
                rows: KeptRows = gather(work, join_rows, window=JOBS, label="ridge_rows")
                skipped = rows.skipped
                w, intercept = self._from_rows(rows, alphas, split, centre)
            else:

                def second_look(equations: Centred) -> F64:
                    known = LeaveOneOut.of(equations, spectrum(equations), alphas, dtype, centre)
                    look, none = partial(leave_one_out, known, codes), np.zeros(len(alphas))
                    label, window = "ridge_loo", len(jobs)
                    found = fold(
                        blocks, jobs, look, np.add, none, label=label, window=window, progress=progress
                    )
                    return np.asarray(found / (equations.n * values.shape[1]))

                add = partial(accumulate, dtype, centre, split, codes)
                sums: Sums = gather(add, merge_sums, window=_window(blocks, split), label="ridge_gram")
                skipped = sums.skipped
                w, intercept = self._from_sums(sums, alphas, split, centre, second_look if again else None)
        self.skipped_ = np.sort(skipped)
        tell_skipped_rows(self.skipped_, n, "left out of fit (see skipped_)")
        return w.T.astype(dtype, order="C"), intercept + offset

    def _from_rows(self, rows: KeptRows, alphas: F64, split: bool, centre: bool) -> tuple[F64, F64]:
        """Coefficients and intercepts by the dual problem."""
        require_rows(rows.n if not split else min(int(rows.held_out.sum()), int((~rows.held_out).sum())))
        if len(alphas) > 1:
            errors = dual_held_out_errors if split else dual_leave_one_out_errors
            self.alpha_errors_ = errors(rows, alphas, centre)
        self.alpha_ = float(alphas[int(np.argmin(self.alpha_errors_))])
        return dual_solution(rows, self.alpha_, centre)

    def _from_sums(
        self,
        sums: Sums,
        alphas: F64,
        split: bool,
        centre: bool,
        second_look: Callable[[Centred], F64] | None,
    ) -> tuple[F64, F64]:
        """Coefficients and intercepts by the normal equations."""
        require_rows(min(part.n for part in sums.parts))
        equations = centred(sums.parts[0], centre)
        if second_look is not None:
            self.alpha_errors_ = second_look(equations)
        if split:
            self.alpha_errors_ = held_out_errors(equations, sums.parts[1], alphas)
            equations = centred(merge(*sums.parts), centre)
        self.alpha_ = float(alphas[int(np.argmin(self.alpha_errors_))])
        return solve(equations, self.alpha_)

    def penalties(self) -> F64:
        """The ``alphas`` to choose from, (n_alphas,); ValueError unless all are positive."""
        alphas = np.atleast_1d(real_matrix("alphas", self.alphas))
        if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0.0)).all():
            raise ValueError(f"alphas must be one or more positive numbers, found {self.alphas!r}")
        return alphas


def _jobs(blocks: Blocks, targets: NDArray[Any], held_out: NDArray[np.bool_], skip: bool) -> list[Job]:
    """Neighbouring blocks in tasks, 32 to 256 of them: few enough that a task makes four times what it sends.

    Their number follows from the data alone, and with it the order of the sums.
    """
    gram, block = 8 * blocks.n_columns**2, blocks.row_bytes * int(np.diff(blocks.bounds).max())
    size = int(np.clip(-(-4 * gram // block), -(-len(blocks) // MOST_JOBS), -(-len(blocks) // JOBS)))
    return [
        neighbours_job(blocks, first, min(first + size, len(blocks)), targets, held_out, skip)
        for first in range(0, len(blocks), size)
    ]


def _window(blocks: Blocks, split: bool) -> int:
    """Statistics that may wait to be merged: up to 2 GB of them."""
    return int(np.clip(UNMERGED_BYTES // (8 * blocks.n_columns**2 * (1 + split)), 2, JOBS))


def _plan(blocks: Blocks, what: str, n: int, split: bool, again: bool) -> Plan:
    """Memory of the sums, and of the largest step after them.

    Sums: five matrices to decompose one (C, its vectors, room to work); to merge, those that wait and one a level. For
    fewer rows than features: the rows twice, while they are joined, and five matrices as large as K.
    """
    D = blocks.n_columns
    if n <= D:
        state_bytes, again = 2 * n * D * 8 + 5 * 8 * n**2, False
    else:
        state_bytes = 8 * D**2 * max(5, (_window(blocks, split) + LEVELS) * (1 + split))
    return plan_blocks(blocks, what=what, passes=1 + again, waiting=1, state_bytes=state_bytes)


class IncrementalRidge(LinearRegressor, _IncrementalRidge):
    """Ridge regression from one pass over the data, its penalty chosen on rows that were held out.

    Minimises ``|y - X w - b|^2 + alpha |w|^2``, as scikit-learn's ``Ridge``.

    Parameters
    ----------
    alphas : float or array-like of floats, default=(1e-4, 1e-3, ..., 100)
        Penalties to choose from, all positive. With a single one nothing is held out.
    fit_intercept : bool, default=True
        Add an intercept, which is not penalised.
    selection : {"held-out", "leave-one-out"}, default="held-out"
        "held-out" measures every alpha on rows left out of the same pass, then fits all rows with the best.
        "leave-one-out" is exact (as ``RidgeCV``); with more rows than features it takes a second pass.
    validation_fraction : float in (0, 1), default=0.1
        Share of the rows that is held out.
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
        Rows of X that were left out, int64 and sorted; empty with on_error="raise".
    n_features_in_ : int

    Raises
    ------
    ValueError
        For features that are not finite (the row is named; with on_error="skip", if no row is left), lengths
        that do not match, alphas that are not positive.

    Notes
    -----
    For n <= D rows of D features the rows are kept and the dual problem is solved: n^2 D operations, about 10 n^3 to
    choose alpha, one pass whatever the selection. For more rows n D^2 operations a pass, about 10 D^3 to choose alpha,
    D^3 / 3 to solve. A Gram matrix takes
    8 D^2 bytes (200 MB at D = 5000); held-out selection needs two wherever there is one. Alive at a time, over all
    workers: those of running tasks and those that wait to be added, up to 2 GB together (two at least), and one for
    each level of the tree, at most 8. The order of storage does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist import IncrementalRidge
    >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype("f4")
    >>> IncrementalRidge(alphas=0.1).fit(X, X @ [1.0, 2.0, 3.0] + 4.0).coef_.round(2)
    array([1., 2., 3.], dtype=float32)
    """

    def fit(self, X: Any, y: ArrayLike) -> IncrementalRidge:
        """Fit from scratch.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like of shape (n,) or (n, n_targets)

        Returns
        -------
        IncrementalRidge
            Itself.
        """
        self._validate_params()
        X, y = as_problem(self, X, y, numeric=True, multi_output=True)
        coef, intercept = self._solve(X, y if y.ndim == 2 else y[:, None], None)
        self.coef_ = coef if y.ndim == 2 else coef[0]
        self.intercept_ = intercept if y.ndim == 2 else float(intercept[0])
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class IncrementalRidgeClassifier(LinearClassifier, _IncrementalRidge):
    """Ridge regression on targets -1 and +1, one function for each class if there are more than two.

    As scikit-learn's ``RidgeClassifier``, from one pass over the data.

    Parameters
    ----------
    alphas, fit_intercept, selection, validation_fraction, random_state, verbose, on_error
        As in `IncrementalRidge`; held-out rows are a share of every class. Decision values of rows that are not
        finite are NaN, and ``predict`` refuses them by name.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        In the dtype of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    alpha_, alpha_errors_, skipped_, n_features_in_
        As in `IncrementalRidge`; errors are squared errors of the targets -1 and +1.

    Raises
    ------
    ValueError
        As `IncrementalRidge`, and for a single class.

    Notes
    -----
    Cost and memory as in `IncrementalRidge`, whatever the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist import IncrementalRidgeClassifier
    >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype("f4")
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> IncrementalRidgeClassifier(random_state=0).fit(X, y).score(X, y) > 0.97
    True
    """

    def fit(self, X: Any, y: ArrayLike) -> IncrementalRidgeClassifier:
        """Fit from scratch.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        IncrementalRidgeClassifier
            Itself.
        """
        self._validate_params()
        X, y = as_problem(self, X, y, numeric=False)
        self.classes_, index = as_classes(y)
        codes = signs(np.arange(len(self.classes_)), len(self.classes_))
        coef, intercept = self._solve(X, codes, index)
        self.coef_, self.intercept_ = coef, intercept.astype(coef.dtype)
        return self
