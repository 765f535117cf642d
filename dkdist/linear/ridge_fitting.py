"""What both ridge estimators share: parameters, what a fit asks for, and the state of ``partial_fit``.

What ridge regression finds from the sums of its rows, or from the rows: a penalty, a solution, and values unseen.

Values unseen are decision values of rows by models that had not learned from them: what probabilities are fitted on.

One pass of ridge regression over blocks, and what it is after.

What travels is never a feature, but for few rows or a sample: tasks sum the statistics of many blocks and send one or
two Gram matrices each, which are added in a tree of fixed shape.
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
from dkdist._base.parameter_checks import draw_seed, check_real_array
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.blocks import Blocks, Job, row_blocks
from dkdist._runtime.map_reduce import fold, tree_sum
from dkdist._runtime.process import one_blas_thread
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import BlockPlan, plan_blocks, resources
from dkdist.linear.held_out import held_out_in_stream, keys_in_stream
from dkdist.linear.problems import LinearLearner, feature_dtype, neighbours_job
from dkdist.linear.ridge_rows import (
    DualProblem,
    KeptRows,
    LeaveOneOut,
    Sums,
    accumulate,
    dual_held_out_errors,
    join_rows,
    keep_rows,
    leave_one_out,
    merge_sums,
    values_without,
)
from dkdist.linear.ridge_statistics import (
    Centred,
    centred,
    held_out_errors,
    inverse_of,
    merge,
    solution,
    spectrum,
    tile_rows,
)
from dkdist.linear.rows import RowLabels, no_rows

GIVEN, HELD_OUT, LEAVE_ONE_OUT = "given", "held-out", "leave-one-out"


@dataclass(frozen=True)
class Ask:
    """Penalties to choose from, by what (``way``), for models with an intercept or not; whether for unseen values."""

    alphas: F64
    way: str
    centre: bool
    unseen: bool

    @property
    def split(self) -> bool:
        """Whether rows are held out."""
        return self.way == HELD_OUT


@dataclass(frozen=True)
class Found:
    """The penalty, its coefficients (n_features, k) and intercepts, every alpha's error, and values (m, k) unseen.

    ``targets`` (m, k) and ``weights`` (m,) are those of the rows whose values these are.
    """

    alpha: float
    errors: F64
    coef: F64
    intercept: F64
    unseen: F64
    targets: F64
    weights: F64


def _chosen(ask: Ask, errors: F64) -> float:
    return float(ask.alphas[int(np.argmin(errors))])


def found_from_rows(rows: KeptRows, ask: Ask) -> Found:
    """By the dual problem."""
    require_rows(rows.n if not ask.split else min(int(rows.held_out.sum()), int((~rows.held_out).sum())))
    errors, problem = np.full(len(ask.alphas), np.nan), DualProblem.of(rows, ask.centre)
    if ask.split:
        errors = dual_held_out_errors(rows, ask.alphas, ask.centre)
    elif ask.way == LEAVE_ONE_OUT:
        errors = problem.leave_one_out_errors(ask.alphas)
    alpha = _chosen(ask, errors)
    unseen = problem.values_without(alpha) if ask.unseen else rows.y[:0]
    m = len(unseen)
    return Found(alpha, errors, *problem.solution(alpha), unseen, rows.y[:m], rows.weights[:m])


def found_from_sums(sums: Sums, ask: Ask, errors_of: Callable[[Centred], F64] | None = None) -> Found:
    """By the normal equations; ``errors_of`` is the second look that leave-one-out errors take."""
    require_rows(int(min(part.n for part in sums.parts) > 0))
    equations, errors = centred(sums.parts[0], ask.centre), np.full(len(ask.alphas), np.nan)
    if errors_of is not None:
        errors = errors_of(equations)
    if ask.split:
        errors = held_out_errors(equations, sums.parts[1], ask.alphas)
        equations = centred(merge(*sums.parts), ask.centre)
    alpha = _chosen(ask, errors)
    inverse = inverse_of(equations, alpha)
    coef, intercept = solution(equations, inverse)
    rows = sums.sample
    unseen = values_without(rows, equations, inverse, ask.centre) if rows.n else rows.y
    return Found(alpha, errors, coef, intercept, unseen, rows.y, rows.weights)


def found_from_stream(sums: Sums, ask: Ask) -> Found:
    """What sums that are still growing say: the largest penalty until rows are held out and others are not."""
    if all(part.n > 0 for part in sums.parts):
        return found_from_sums(sums, ask)
    whole = replace(sums, parts=(merge(*sums.parts),))
    found = found_from_sums(whole, replace(ask, alphas=ask.alphas.max(keepdims=True), way=GIVEN))
    return replace(found, errors=np.full(len(ask.alphas), np.nan))


JOBS, MOST_JOBS = 32, 256  # tasks that sum statistics
FEW_COLUMNS = 1024  # whose equations gain nothing from several threads, which wait for each other
LEVELS = 8  # of the tree in which they are added
UNMERGED_BYTES = 2 * 2**30  # of statistics that wait to be added, in a process


@dataclass(frozen=True)
class RidgeTargets:
    """What to say of n rows: numbers ``given`` (n, k), or classes (n,), for which ``codes`` (n_classes, k) stand.

    ``weights`` (n,) are those of rows times those of their classes.
    """

    given: NDArray[Any]
    codes: F64 | None
    weights: F64 | None

    def mean(self) -> F64:
        """The weighted mean of the numbers, (k,)."""
        w = np.ones(len(self.given)) if self.weights is None else self.weights
        if self.codes is not None:
            return np.asarray(np.bincount(self.given, w, len(self.codes)) @ self.codes / w.sum())
        return np.asarray(self.given.mean(axis=0) if self.weights is None else w @ self.given / w.sum())

    def about(self, offset: F64) -> RidgeTargets:
        """The same, less an offset (k,)."""
        if self.codes is None:
            return RidgeTargets(self.given - offset, None, self.weights)
        return RidgeTargets(self.given, self.codes - offset, self.weights)

    @property
    def present(self) -> I64:
        """The rows whose weight is not 0."""
        if self.weights is None:
            return np.arange(len(self.given))
        return np.flatnonzero(self.weights)


@dataclass(frozen=True)
class RidgeStream:
    """What calls of ``partial_fit`` have added up: sums of ``n_rows`` rows, about targets less ``offset``."""

    seed: int
    offset: F64
    sums: Sums
    n_rows: int


@dataclass(frozen=True)
class RidgePass:
    """One pass over some rows: what is asked for, the blocks, and the tasks that go over them."""

    blocks: Blocks
    jobs: list[Job]
    dtype: np.dtype[Any]
    targets: RidgeTargets
    ask: Ask

    @property
    def few(self) -> bool:
        """Whether there are no more rows than features: then they are kept, and the dual problem is solved."""
        return len(self.targets.present) <= self.blocks.n_columns

    def by_rows(self, progress: Progress) -> tuple[Found, I64]:
        """What the rows say, and which were skipped."""
        work = partial(keep_rows, self.dtype, self.targets.codes)
        rows: KeptRows = tree_sum(
            self.blocks,
            self.jobs,
            work,
            join_rows,
            window=_window(self.blocks, False),
            label="ridge_rows",
            progress=progress,
        )
        return found_from_rows(rows, self.ask), rows.skipped

    def by_sums(self, progress: Progress) -> tuple[Found, I64]:
        """What the sums say, and which rows were skipped."""
        sums = self.sums(progress)
        again = partial(self.leave_one_out_errors, progress) if self.ask.way == LEAVE_ONE_OUT else None
        with one_blas_thread() if self.blocks.n_columns <= FEW_COLUMNS else nullcontext():
            return found_from_sums(sums, self.ask, again), sums.skipped

    def sums(self, progress: Progress) -> Sums:
        """The sums over all rows."""
        ask = self.ask
        work = partial(accumulate, self.dtype, ask.centre, ask.split, self.targets.codes)
        window = _window(self.blocks, ask.split)
        sums: Sums = tree_sum(
            self.blocks, self.jobs, work, merge_sums, window=window, label="ridge_gram", progress=progress
        )
        return sums

    def leave_one_out_errors(self, progress: Progress, equations: Centred) -> F64:
        """Mean squared leave-one-out error of every alpha, by a second pass."""
        alphas = self.ask.alphas
        known = LeaveOneOut.of(equations, spectrum(equations), alphas, self.dtype, self.ask.centre)
        look, none = partial(leave_one_out, known, self.targets.codes), np.zeros(len(alphas))
        found = fold(
            self.blocks, self.jobs, look, np.add, none, label="ridge_loo", window=len(self.jobs), progress=progress
        )  # fmt: skip
        return np.asarray(found / (equations.n * len(equations.mean_y)))

    def plan(self, what: str) -> BlockPlan:
        """Memory of the sums, and of the largest step after them.

        Sums: five matrices to decompose one (C, its vectors, workspace); to merge, those that wait and one a level of
        the tree, no more than there are tasks, and a tile of rows for each thread.
        For fewer rows than features: the rows twice, while they are joined, and five matrices as large as K.
        """
        D, n, split = self.blocks.n_columns, len(self.targets.given), self.ask.split
        passes = 1 + (self.ask.way == LEAVE_ONE_OUT)
        there = resources(self.blocks.local)
        n_jobs = len(self.jobs)
        waiting = -(-min(n_jobs, _window(self.blocks, split)) // there.processes)
        levels = min(LEVELS, (n_jobs - 1).bit_length())
        tiles = there.threads * tile_rows(D, self.dtype) * D * self.dtype.itemsize
        state_bytes = 8 * D**2 * max(5, (waiting + levels) * (1 + split)) + tiles * (1 + split)
        if self.few:
            passes, state_bytes = 1, 2 * n * D * 8 + 5 * 8 * n**2
        return plan_blocks(self.blocks, what=what, passes=passes, waiting=1, state_bytes=state_bytes)


def jobs_of(blocks: Blocks, known: RowLabels, skip: bool) -> list[Job]:
    """Neighbouring blocks in tasks, 32 to 256 of them; fewer where a task would make less than it sends.

    A task makes four times what it sends where that leaves 32. Their number follows from the data alone, and with it
    the order of the sums.
    """
    gram, block = 8 * blocks.n_columns**2, blocks.row_bytes * int(np.diff(blocks.bounds).max())
    size = max(
        -(-gram // block), min(-(-4 * gram // block), -(-len(blocks) // JOBS)), -(-len(blocks) // MOST_JOBS)
    )
    edges = np.linspace(0, len(blocks), -(-len(blocks) // size) + 1).round().astype(int).tolist()
    return [neighbours_job(blocks, a, b, known, skip) for a, b in pairwise(edges)]


def _window(blocks: Blocks, split: bool) -> int:
    """Statistics that may be in the making or wait to be merged: two for every thread, up to 2 GB a process."""
    there = resources(blocks.local)
    small = there.processes * (UNMERGED_BYTES // (8 * blocks.n_columns**2 * (1 + split)))
    return int(np.clip(small, 2, 2 * there.all_threads + 2))


ALPHAS = tuple(10.0**k for k in range(-4, 4))
FEW_ROWS = 4000  # up to which leave-one-out errors choose: a held-out tenth of fewer rows is noise
SAMPLE_ROWS = 1024  # rows that probabilities are fitted on, where there are more rows than features


class RidgeLearner(LinearLearner):
    """The part of fitting that does not care what the targets mean."""

    by_sums = True
    calibrates: ClassVar[bool] = False
    """Whether values of rows by models that had not learned from them are wanted."""
    not_saved: ClassVar[tuple[str, ...]] = ("_sums",)
    """What model files leave out: predicting needs no sums."""

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
        alphas: ArrayLike = ALPHAS,
        *,
        fit_intercept: bool = True,
        selection: str = "auto",
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

    def penalties(self) -> F64:
        """The ``alphas`` to choose from, (n_alphas,); ValueError unless all are positive."""
        alphas = np.atleast_1d(check_real_array("alphas", self.alphas))
        if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0.0)).all():
            raise ValueError(f"alphas must be one or more positive numbers, found {self.alphas!r}")
        return alphas

    def _solve(self, X: Any, targets: RidgeTargets) -> Found:
        """Fit all rows in one pass, or in two where more rows than features are left out one by one."""
        for name in ("_sums", "n_samples_seen_"):
            if hasattr(self, name):
                delattr(self, name)
        ask = self._ask(len(targets.present))
        seed, offset = draw_seed(self.random_state), _offset(targets, ask)
        run = self._run(X, targets.about(offset), ask, 0, seed)
        if ask.split:
            _require_split(run.jobs, self.validation_fraction, len(targets.present))
        with run.plan(f"fit {type(self).__name__}").run(self.verbose) as progress:
            found, skipped = run.by_rows(progress) if run.few else run.by_sums(progress)
        return self._keep(found, offset, skipped, len(targets.given))

    def _solve_more(self, X: Any, targets: RidgeTargets) -> Found:
        """Add some more rows to the sums, and solve for all."""
        before: RidgeStream | None = getattr(self, "_sums", None)
        ask = self._ask(None)
        if before is None:
            first, seed, offset = 0, draw_seed(self.random_state), _offset(targets, ask)
        else:
            first, seed, offset = before.n_rows, before.seed, before.offset
        run = self._run(X, targets.about(offset), ask, first, seed)
        with run.plan(f"fit {type(self).__name__} in part").run(self.verbose) as progress:
            sums = run.sums(progress)
        skipped = sums.skipped
        sums = sums if before is None else merge_sums(before.sums, sums)
        sums = Sums(sums.parts, sums.sample.with_smallest_keys(SAMPLE_ROWS), no_rows())
        found = found_from_stream(sums, ask)
        self.n_samples_seen_ = first + len(targets.present)
        self._sums = RidgeStream(seed, offset, sums, self.n_samples_seen_)
        return self._keep(found, offset, skipped, len(targets.given))

    def _require_stream(self) -> bool:
        """Whether this is the first call of ``partial_fit``; ValueError where sums were not kept."""
        if self.selection == LEAVE_ONE_OUT:
            raise ValueError(
                "selection='leave-one-out' looks at every row again, which partial_fit cannot: choose 'auto' or "
                "'held-out'"
            )
        if hasattr(self, "n_samples_seen_") and not hasattr(self, "_sums"):
            raise ValueError(
                "a model file holds no sums that partial_fit could add to (they take 16 D^2 bytes): keep the model as "
                "a pickle, or call partial_fit from the first rows on, of a clone of it"
            )
        return not hasattr(self, "_sums")

    def _ask(self, n_rows: int | None) -> Ask:
        """What is asked of so many rows; None for a stream, whose rows are never seen again."""
        alphas, way = self.penalties(), str(self.selection)
        if way == "auto":
            way = LEAVE_ONE_OUT if n_rows is not None and n_rows <= FEW_ROWS else HELD_OUT
        return Ask(alphas, way if len(alphas) > 1 else GIVEN, bool(self.fit_intercept), self.calibrates)

    def _run(self, X: Any, targets: RidgeTargets, ask: Ask, first: int, seed: int) -> RidgePass:
        """A pass over rows that come after ``first`` others: which are held out, and which are sampled."""
        n, present, blocks = len(targets.given), targets.present, row_blocks(X)
        held_out, keys = np.zeros(n, np.bool_), None
        if ask.split:
            share = float(self.validation_fraction)
            held_out[present] = held_out_in_stream(first, len(present), share, (seed, RngStream.HELD_OUT))
        if ask.unseen:
            keys = np.full(n, np.inf)
            keys[present] = keys_in_stream(first, len(present), (seed, RngStream.CALIBRATION))
            keys[np.argsort(keys, kind="stable")[SAMPLE_ROWS:]] = np.inf
        known = RowLabels(targets.given, held_out, targets.weights, keys)
        return RidgePass(blocks, jobs_of(blocks, known, should_skip(self)), feature_dtype(X), targets, ask)

    def _keep(self, found: Found, offset: F64, skipped: I64, n_rows: int) -> Found:
        """Keep what was found, but for coefficients; targets and values are those before the offset again."""
        self.alpha_, self.alpha_errors_ = found.alpha, found.errors
        self.skipped_ = np.sort(skipped)
        warn_nonfinite_rows(self.skipped_, n_rows, "left out of fit (see skipped_)")
        return replace(
            found,
            intercept=found.intercept + offset,
            unseen=found.unseen + offset,
            targets=found.targets + offset,
        )


def _offset(targets: RidgeTargets, ask: Ask) -> F64:
    mean = targets.mean()
    return mean if ask.centre else np.zeros_like(mean)


def _require_split(jobs: list[Job], fraction: float, n_rows: int) -> None:
    """Refuse to choose on no rows, or to learn from none."""
    n_held = sum(int(job.extra.known.held_out.sum()) for job in jobs)
    if not 0 < n_held < n_rows:
        raise ValueError(
            f"validation_fraction={fraction} of n_samples={n_rows} holds out {n_held or 'no'} row(s): "
            "give more rows, another fraction, or selection='leave-one-out'"
        )
