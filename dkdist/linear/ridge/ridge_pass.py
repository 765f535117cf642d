"""One pass of ridge regression over blocks, and what it is after.

What travels is never a feature, but for few rows or a sample: tasks sum the statistics of many blocks and send one or
two Gram matrices each, which are added in a tree of fixed shape.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.execution.blocks import Blocks, Job
from dkdist.execution.map_reduce import fold, tree_sum
from dkdist.execution.processes.process import one_blas_thread
from dkdist.execution.progress import Progress
from dkdist.execution.run import Plan, plan_blocks, resources
from dkdist.learners.kept_rows import KeptRows, join_rows, keep_rows
from dkdist.learners.ridge_leave_one_out import LeaveOneOut, leave_one_out
from dkdist.learners.ridge_solutions import spectrum
from dkdist.learners.ridge_statistics import Centred, tile_rows
from dkdist.learners.ridge_sums import Sums, accumulate, merge_sums
from dkdist.learners.rows import Known
from dkdist.linear.problems import neighbours_job
from dkdist.linear.ridge.ridge_solving import LEAVE_ONE_OUT, Ask, Found, found_from_rows, found_from_sums
from dkdist.loops.array_types import F64, I64

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

    def plan(self, what: str) -> Plan:
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


def jobs_of(blocks: Blocks, known: Known, skip: bool) -> list[Job]:
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
