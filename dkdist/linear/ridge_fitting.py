"""Ridge fits: selection of the penalty, passes over blocks, and the base class of the ridge estimators.

Each task sums the statistics of many blocks and sends one or two Gram matrices, which are added in a fixed tree.
With at most as many rows as features, tasks send the rows instead, and the dual problem is solved. Probabilities are
fitted on calibration values: decision values of rows by models that were not fitted on them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dkdist._base.invalid_sets import require_rows, should_skip, warn_nonfinite_rows
from dkdist._base.parameter_checks import RandomStateLike, check_real_array, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.blocks import Blocks, Job, row_blocks
from dkdist._runtime.map_reduce import fold, tree_sum
from dkdist._runtime.process import one_blas_thread
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import BlockPlan, plan_blocks, resources
from dkdist.linear._tuning import (
    MAX_LEAVE_ONE_OUT_ROWS,
    MAX_ONE_THREAD_COLUMNS,
    MAX_RIDGE_JOBS,
    MAX_TREE_LEVELS,
    MAX_UNMERGED_BYTES,
    N_CALIBRATION_ROWS,
    N_RIDGE_JOBS,
)
from dkdist.linear.held_out import held_out_in_stream, keys_in_stream
from dkdist.linear.problems import LinearLearner, block_range_job, feature_dtype
from dkdist.linear.ridge_rows import (
    DualProblem,
    LeaveOneOutPass,
    RidgeSums,
    SampledRows,
    accumulate,
    add_leave_one_out_errors,
    collect_rows,
    dual_held_out_errors,
    join_rows,
    leave_one_out_values,
    merge_sums,
)
from dkdist.linear.ridge_statistics import (
    NormalEquations,
    held_out_errors,
    invert,
    merge,
    normal_equations,
    solve,
    spectrum,
    tile_rows,
)
from dkdist.linear.rows import RowLabels, no_rows

SINGLE_ALPHA, HELD_OUT, LEAVE_ONE_OUT = "given", "held-out", "leave-one-out"


@dataclass(frozen=True)
class AlphaSelection:
    """Penalties, selection method, whether models have an intercept, and whether calibration values are needed."""

    alphas: F64
    method: str
    centre: bool
    calibration_values: bool

    @property
    def split(self) -> bool:
        """Whether rows are held out."""
        return self.method == HELD_OUT


@dataclass(frozen=True)
class RidgeResult:
    """Penalty, errors (n_alphas,), coefficients (n_features, k), intercepts (k,), and calibration rows.

    Calibration rows have ``calibration_values`` (m, k), ``targets`` (m, k) and ``weights`` (m,).
    """

    alpha: float
    errors: F64
    coef: F64
    intercept: F64
    calibration_values: F64
    targets: F64
    weights: F64


def _best_alpha(selection: AlphaSelection, errors: F64) -> float:
    return float(selection.alphas[int(np.argmin(errors))])


def fit_dual(rows: SampledRows, selection: AlphaSelection) -> RidgeResult:
    """Fit rows by the dual problem."""
    require_rows(
        rows.n if not selection.split else min(int(rows.held_out.sum()), int((~rows.held_out).sum()))
    )
    errors, problem = np.full(len(selection.alphas), np.nan), DualProblem.of(rows, selection.centre)
    if selection.split:
        errors = dual_held_out_errors(rows, selection.alphas, selection.centre)
    elif selection.method == LEAVE_ONE_OUT:
        errors = problem.leave_one_out_errors(selection.alphas)
    alpha = _best_alpha(selection, errors)
    unseen = problem.values_without(alpha) if selection.calibration_values else rows.y[:0]
    m = len(unseen)
    return RidgeResult(alpha, errors, *problem.solution(alpha), unseen, rows.y[:m], rows.weights[:m])


def fit_sums(
    sums: RidgeSums, selection: AlphaSelection, leave_one_out: Callable[[NormalEquations], F64] | None = None
) -> RidgeResult:
    """Fit by normal equations; ``leave_one_out`` computes errors in a second pass."""
    require_rows(int(min(part.n for part in sums.parts) > 0))
    equations, errors = (
        normal_equations(sums.parts[0], selection.centre),
        np.full(len(selection.alphas), np.nan),
    )
    if leave_one_out is not None:
        errors = leave_one_out(equations)
    if selection.split:
        errors = held_out_errors(equations, sums.parts[1], selection.alphas)
        equations = normal_equations(merge(*sums.parts), selection.centre)
    alpha = _best_alpha(selection, errors)
    inverse = invert(equations, alpha)
    coef, intercept = solve(equations, inverse)
    rows = sums.sample
    unseen = leave_one_out_values(rows, equations, inverse, selection.centre) if rows.n else rows.y
    return RidgeResult(alpha, errors, coef, intercept, unseen, rows.y, rows.weights)


def fit_stream(sums: RidgeSums, selection: AlphaSelection) -> RidgeResult:
    """Fit the sums of a stream, with the largest penalty until there are both training and held-out rows."""
    if all(part.n > 0 for part in sums.parts):
        return fit_sums(sums, selection)
    merged = replace(sums, parts=(merge(*sums.parts),))
    result = fit_sums(
        merged, replace(selection, alphas=selection.alphas.max(keepdims=True), method=SINGLE_ALPHA)
    )
    return replace(result, errors=np.full(len(selection.alphas), np.nan))


@dataclass(frozen=True)
class RidgeTargets:
    """Targets of n rows: numbers (n, k), or class indices (n,) with their ``codes`` (n_classes, k).

    ``weights`` (n,) are products of row and class weights.
    """

    values: NDArray[Any]
    codes: F64 | None
    weights: F64 | None

    def mean(self) -> F64:
        """Return the weighted mean (k,)."""
        w = np.ones(len(self.values)) if self.weights is None else self.weights
        if self.codes is not None:
            return np.asarray(np.bincount(self.values, w, len(self.codes)) @ self.codes / w.sum())
        return np.asarray(self.values.mean(axis=0) if self.weights is None else w @ self.values / w.sum())

    def subtract(self, offset: F64) -> RidgeTargets:
        """Return the targets minus an offset (k,)."""
        if self.codes is None:
            return RidgeTargets(self.values - offset, None, self.weights)
        return RidgeTargets(self.values, self.codes - offset, self.weights)

    @property
    def present(self) -> I64:
        """Indices of the rows with a weight above 0."""
        if self.weights is None:
            return np.arange(len(self.values))
        return np.flatnonzero(self.weights)


@dataclass(frozen=True)
class RidgeStream:
    """Sums of the ``n_rows`` rows of all calls of ``partial_fit``, with targets minus ``offset``."""

    seed: int
    offset: F64
    sums: RidgeSums
    n_rows: int


@dataclass(frozen=True)
class RidgePass:
    """One pass over rows: blocks, their jobs, targets, and the selection of the penalty."""

    blocks: Blocks
    jobs: list[Job]
    dtype: np.dtype[Any]
    targets: RidgeTargets
    selection: AlphaSelection

    @property
    def uses_dual(self) -> bool:
        """Whether the dual problem is solved: at most as many rows as features."""
        return len(self.targets.present) <= self.blocks.n_columns

    def fit_dual(self, progress: Progress) -> tuple[RidgeResult, I64]:
        """Fit rows by the dual problem; return the result and the indices of skipped rows."""
        work = partial(collect_rows, self.dtype, self.targets.codes)
        rows: SampledRows = tree_sum(
            self.blocks,
            self.jobs,
            work,
            join_rows,
            window=_window(self.blocks, False),
            label="ridge_rows",
            progress=progress,
        )
        return fit_dual(rows, self.selection), rows.skipped

    def by_sums(self, progress: Progress) -> tuple[RidgeResult, I64]:
        """Fit by normal equations; return the result and the indices of skipped rows."""
        sums = self.sums(progress)
        again = (
            partial(self.leave_one_out_errors, progress) if self.selection.method == LEAVE_ONE_OUT else None
        )
        with one_blas_thread() if self.blocks.n_columns <= MAX_ONE_THREAD_COLUMNS else nullcontext():
            return fit_sums(sums, self.selection, again), sums.skipped

    def sums(self, progress: Progress) -> RidgeSums:
        """Return the sums over all rows."""
        selection = self.selection
        work = partial(accumulate, self.dtype, selection.centre, selection.split, self.targets.codes)
        window = _window(self.blocks, selection.split)
        sums: RidgeSums = tree_sum(
            self.blocks, self.jobs, work, merge_sums, window=window, label="ridge_gram", progress=progress
        )
        return sums

    def leave_one_out_errors(self, progress: Progress, equations: NormalEquations) -> F64:
        """Return the mean squared leave-one-out error for every alpha, computed in a second pass over the rows."""
        alphas = self.selection.alphas
        params = LeaveOneOutPass.of(equations, spectrum(equations), alphas, self.dtype, self.selection.centre)
        work, zeros = partial(add_leave_one_out_errors, params, self.targets.codes), np.zeros(len(alphas))
        total = fold(
            self.blocks, [replace(job, quiet=True) for job in self.jobs], work, np.add, zeros, label="ridge_loo",
            window=len(self.jobs), progress=progress,
        )  # fmt: skip
        return np.asarray(total / (equations.n * len(equations.mean_y)))

    def plan(self, what: str) -> BlockPlan:
        """Return the plan, with the memory of the sums and of the solution.

        Normal equations: five matrices for an eigendecomposition (C, its vectors, workspace); for sums, the unmerged
        matrices, one per tree level (at most one per task), and a tile of rows per thread. Dual problem: the rows
        twice, because they are concatenated, and five matrices of the size of K. Both: targets (n, k), centred and in
        the tasks, and sums (D, k) next to each Gram matrix.
        """
        D, n, split = self.blocks.n_columns, len(self.targets.values), self.selection.split
        passes = 1 + (self.selection.method == LEAVE_ONE_OUT)
        limits = resources(self.blocks.local)
        n_jobs = len(self.jobs)
        n_waiting = -(-min(n_jobs, _window(self.blocks, split)) // limits.processes)
        n_levels = min(MAX_TREE_LEVELS, (n_jobs - 1).bit_length())
        tile_bytes = limits.threads * tile_rows(D, self.dtype) * D * self.dtype.itemsize
        state_bytes = 8 * D**2 * max(5, (n_waiting + n_levels) * (1 + split)) + tile_bytes * (1 + split)
        if self.uses_dual:
            passes, state_bytes = 1, 2 * n * D * 8 + 5 * 8 * n**2
        codes, values = self.targets.codes, self.targets.values
        k = 1 if values.ndim == 1 and codes is None else (values if codes is None else codes).shape[1]
        state_bytes += 8 * k * ((2 * n if codes is None else 0) + D * (n_waiting + n_levels) * (1 + split))
        return plan_blocks(self.blocks, what=what, passes=passes, waiting=1, state_bytes=state_bytes)


def make_jobs(blocks: Blocks, labels: RowLabels, skip: bool) -> list[Job]:
    """Return 32 to 256 jobs of adjacent blocks; fewer if a job would send more bytes than it computes.

    A job computes four times the bytes that it sends, unless that gives fewer than 32 jobs. The number of jobs and the
    order of the sums depend only on the data.
    """
    gram_bytes, block_bytes = 8 * blocks.n_columns**2, blocks.row_bytes * int(np.diff(blocks.bounds).max())
    blocks_per_job = max(
        -(-gram_bytes // block_bytes),
        min(-(-4 * gram_bytes // block_bytes), -(-len(blocks) // N_RIDGE_JOBS)),
        -(-len(blocks) // MAX_RIDGE_JOBS),
    )
    edges = np.linspace(0, len(blocks), -(-len(blocks) // blocks_per_job) + 1).round().astype(int).tolist()
    return [block_range_job(blocks, a, b, labels, skip) for a, b in pairwise(edges)]


def _window(blocks: Blocks, split: bool) -> int:
    """Return the maximum number of statistics in memory: two per thread, up to 2 GiB per process."""
    limits = resources(blocks.local)
    max_waiting = limits.processes * (MAX_UNMERGED_BYTES // (8 * blocks.n_columns**2 * (1 + split)))
    return int(np.clip(max_waiting, 2, 2 * limits.all_threads + 2))


DEFAULT_ALPHAS = tuple(10.0**k for k in range(-4, 4))


class RidgeLearner(LinearLearner):
    """Base class of the ridge estimators, with fits to encoded targets."""

    by_sums = True
    calibrates: ClassVar[bool] = False
    """Whether calibration values are computed."""
    not_saved: ClassVar[tuple[str, ...]] = ("_sums",)
    """Attributes that model files omit: predictions need no sums."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alphas": ["array-like", Interval(Real, 0, 1e300, closed="neither")],
        "fit_intercept": ["boolean"],
        "selection": [StrOptions({"auto", HELD_OUT, LEAVE_ONE_OUT})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
    }

    def __init__(
        self,
        alphas: ArrayLike = DEFAULT_ALPHAS,
        *,
        fit_intercept: bool = True,
        selection: str = "auto",
        validation_fraction: float = 0.1,
        random_state: RandomStateLike = None,
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

    def penalties(self) -> F64:
        """Return ``alphas`` (n_alphas,); ValueError unless all are positive."""
        alphas = np.atleast_1d(check_real_array("alphas", self.alphas))
        if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0.0)).all():
            raise ValueError(f"alphas must be one or more positive numbers; got {self.alphas!r}.")
        return alphas

    def _solve(self, X: Any, targets: RidgeTargets) -> RidgeResult:
        """Fit all rows in one pass, or in two passes for leave-one-out with more rows than features."""
        for name in ("_sums", "n_samples_seen_"):
            if hasattr(self, name):
                delattr(self, name)
        selection = self._make_selection(len(targets.present))
        seed, offset = draw_seed(self.random_state), _target_offset(targets, selection)
        ridge_pass = self.make_pass(X, targets.subtract(offset), selection, 0, seed)
        if selection.split:
            _require_split(ridge_pass.jobs, self.validation_fraction, len(targets.present))
        with ridge_pass.plan(f"fit {type(self).__name__}").run(self.verbose) as progress:
            result, skipped = (
                ridge_pass.fit_dual(progress) if ridge_pass.uses_dual else ridge_pass.by_sums(progress)
            )
            reason = progress.pop_reason()
        return self._store(result, offset, skipped, len(targets.values), reason)

    def _solve_more(self, X: Any, targets: RidgeTargets) -> RidgeResult:
        """Add rows to the sums and solve for all rows."""
        previous: RidgeStream | None = getattr(self, "_sums", None)
        selection = self._make_selection(None)
        if previous is None:
            first, seed, offset = 0, draw_seed(self.random_state), _target_offset(targets, selection)
        else:
            first, seed, offset = previous.n_rows, previous.seed, previous.offset
        ridge_pass = self.make_pass(X, targets.subtract(offset), selection, first, seed)
        with ridge_pass.plan(f"fit {type(self).__name__} in part").run(self.verbose) as progress:
            sums, reason = ridge_pass.sums(progress), progress.pop_reason()
        skipped = sums.skipped
        sums = sums if previous is None else merge_sums(previous.sums, sums)
        sums = RidgeSums(sums.parts, sums.sample.with_smallest_keys(N_CALIBRATION_ROWS), no_rows())
        result = fit_stream(sums, selection)
        self.n_samples_seen_ = first + len(targets.present)
        self._sums = RidgeStream(seed, offset, sums, self.n_samples_seen_)
        return self._store(result, offset, skipped, len(targets.values), reason)

    def _require_stream(self) -> bool:
        """Return whether this is the first call of ``partial_fit``; ValueError if the sums are missing."""
        if self.selection == LEAVE_ONE_OUT:
            raise ValueError(
                "selection must be 'auto' or 'held-out' in partial_fit; got 'leave-one-out', which needs a second pass."
            )
        if hasattr(self, "n_samples_seen_") and not hasattr(self, "_sums"):
            raise ValueError(
                "partial_fit requires the sums of earlier rows (16 D^2 bytes), which model files omit. Pickle the "
                "model, or call partial_fit of a clone for all rows."
            )
        return not hasattr(self, "_sums")

    def _make_selection(self, n_rows: int | None) -> AlphaSelection:
        """Return the selection for ``n_rows`` rows; None means a stream, without a second pass."""
        alphas, method = self.penalties(), str(self.selection)
        if method == "auto":
            method = LEAVE_ONE_OUT if n_rows is not None and n_rows <= MAX_LEAVE_ONE_OUT_ROWS else HELD_OUT
        return AlphaSelection(
            alphas, method if len(alphas) > 1 else SINGLE_ALPHA, bool(self.fit_intercept), self.calibrates
        )

    def make_pass(
        self, X: Any, targets: RidgeTargets, selection: AlphaSelection, first: int, seed: int
    ) -> RidgePass:
        """Return the pass over rows that start at position ``first``, with held-out and sampled rows."""
        n, present, blocks = len(targets.values), targets.present, row_blocks(X)
        held_out, keys = np.zeros(n, np.bool_), None
        if selection.split:
            fraction = float(self.validation_fraction)
            held_out[present] = held_out_in_stream(first, len(present), fraction, (seed, RngStream.HELD_OUT))
        if selection.calibration_values:
            keys = np.full(n, np.inf)
            keys[present] = keys_in_stream(first, len(present), (seed, RngStream.CALIBRATION))
            keys[np.argsort(keys, kind="stable")[N_CALIBRATION_ROWS:]] = np.inf
        labels = RowLabels(targets.values, held_out, targets.weights, keys)
        return RidgePass(
            blocks, make_jobs(blocks, labels, should_skip(self)), feature_dtype(X), targets, selection
        )

    def _store(self, result: RidgeResult, offset: F64, skipped: I64, n_rows: int, reason: str) -> RidgeResult:
        """Set the fitted attributes except coefficients; return the result after adding the offset.

        ``reason`` is the error of the first skipped set, if known.
        """
        self.alpha_, self.alpha_errors_ = result.alpha, result.errors
        self.skipped_ = np.sort(skipped)
        warn_nonfinite_rows(self.skipped_, n_rows, "left out of fit (see skipped_)", reason)
        return replace(
            result,
            intercept=result.intercept + offset,
            calibration_values=result.calibration_values + offset,
            targets=result.targets + offset,
        )


def _target_offset(targets: RidgeTargets, selection: AlphaSelection) -> F64:
    mean = targets.mean()
    return mean if selection.centre else np.zeros_like(mean)


def _require_split(jobs: list[Job], fraction: float, n_rows: int) -> None:
    """Raise ValueError unless there are both training and held-out rows."""
    n_held_out = sum(int(job.extra.labels.held_out.sum()) for job in jobs)
    if not 0 < n_held_out < n_rows:
        raise ValueError(
            f"validation_fraction must leave both training and held-out rows; {fraction} of n_samples={n_rows} holds "
            f"out {n_held_out}. Change the fraction, add rows, or pass selection='leave-one-out'."
        )
