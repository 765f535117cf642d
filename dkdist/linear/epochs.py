"""Epochs of stochastic gradient descent over blocks: their order, their lanes, how they are resumed, and when they end.

    one lane       blocks are made in parallel, a few at a time, and fitted one after another
    L > 1 lanes    block i of an epoch's order belongs to lane i % L; a lane's blocks are made and fitted in
                   one task, up to 32 batches or 65,536 rows at a time; what lanes have come to is summed in a tree
                   of tasks, and then all meet (`learners.descent.sgd_steps.meet`)

All that is random follows from (seed, role, epoch, block): neither workers nor interruptions change a bit. Mini-batches
are blocks, so the order of the rows depends on the block size.

A run ends after so many epochs, when held-out rows no longer improve, or when it has arrived. An averaged iterate
approaches its limit about as c / e after e epochs, so that what the second half of the epochs has gained is what is
still to be gained. A run has arrived when that is less than a part of what predicting a constant loses; the loss is
measured on the same rows in every epoch, so that their noise does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.blocks import Blocks, Job
from dkdist._runtime.map_reduce import fold, fold_window, tree_sum
from dkdist._runtime.progress import Progress, report_loss
from dkdist._runtime.run import BlockPlan, active_client, n_cores, plan_blocks
from dkdist.linear.rows import RowBatch, RowLabels, no_rows
from dkdist.linear.sgd_steps import (
    Batch,
    LocalSGDUpdate,
    Objective,
    State,
    average_replicas,
    fit_replica,
    mean_losses,
    prepare,
    step,
)

ROUND, ROUND_ROWS = 32, 2**16  # batches of a lane between two meetings at most, and rows of large blocks
MIN_SYNCS_PER_EPOCH = 8  # of the lanes in an epoch, at least, where there are batches enough
LEAST_STEPS, MOST_STEPS = 40_000, 2_000_000  # rows that are used, over all epochs
LEAST_EPOCHS, FEW_EPOCHS, MOST_EPOCHS = 2, 5, 100
TOLERANCE = 2e-3  # of the first epoch's loss

FEW_CORES = 2

Members = tuple[int, tuple[int, ...]]
"""A batch: its epoch, and the blocks that are shuffled together."""


def choose_materialization(blocks: Blocks, n_lanes: int) -> Blocks:
    """The blocks as steps take them best; the bits are the same.

    Features that are made when a step comes to them stay in the cache and are never written to memory. But steps of one
    lane come one after another: where this process has more cores, these make blocks of features beside the steps, at
    once. What features are made from is looked at for numbers that are none in the first case.
    """
    cores = 1 if n_lanes > 1 else n_cores(blocks.local)
    is_remote = not blocks.local and active_client() is not None
    return blocks.lazy_rows(eager=not is_remote and cores > FEW_CORES)


@dataclass(frozen=True)
class BatchSampler:
    """In what batches the rows of an epoch are taken: all that follows from the seed, and from nothing else."""

    blocks: Blocks
    known: RowLabels
    seed: int
    n_mixed: int
    n_lanes: int = 1
    skip: bool = False

    def lanes(self, epoch: int) -> list[list[Members]]:
        """Which blocks make up the batches of an epoch, lane by lane; a lane without a block is left out."""
        sizes = np.diff(self.blocks.bounds)
        order = (
            np.random.default_rng((self.seed, RngStream.BLOCK_ORDER, epoch))
            .permutation(np.flatnonzero(sizes))
            .tolist()
        )
        lanes = [order[lane :: self.n_lanes] for lane in range(self.n_lanes)]
        return [
            [(epoch, tuple(lane[a : a + self.n_mixed])) for a in range(0, len(lane), self.n_mixed)]
            for lane in lanes
            if len(lane)
        ]

    def job(self, members: Members) -> Job:
        """The job that makes and shuffles a batch."""
        epoch, indices = members
        parts = [self.blocks.rows(i) for i in indices]
        rows = RowBatch(
            starts=tuple(part.start for part in parts),
            sizes=tuple(part.stop - part.start for part in parts),
            n_features=self.blocks.n_columns,
            known=self.known.part(
                parts[0] if len(parts) == 1 else np.r_[tuple(parts)]
            ),  # of one block no copy
            seed=(self.seed, RngStream.ROW_ORDER, epoch, indices[0]),
            skip=self.skip,
            at_once=self.blocks.eager,
        )
        return Job(indices, rows)


@dataclass(frozen=True)
class Stopping:
    """At most ``most`` epochs, at least ``least``; ``patience`` as the estimators have it; ``arrives`` for "auto"."""

    least: int
    most: int
    patience: int | None = None
    arrives: bool = False

    @classmethod
    def of(cls, n_epochs: int | str, patience: int | None, n_rows: int) -> Stopping:
        """What the parameters say of a run over so many training rows."""
        if not isinstance(n_epochs, str):
            return cls(1 if patience is not None else int(n_epochs), int(n_epochs), patience)
        least = epochs_for(n_rows, LEAST_STEPS, LEAST_EPOCHS)
        return cls(least, epochs_for(n_rows, MOST_STEPS, FEW_EPOCHS), patience, arrives=True)

    def is_over(self, losses: Sequence[float], held_out: Sequence[float]) -> bool:
        """Whether the epochs whose losses these are have been enough."""
        n = len(losses)
        if n < self.least or n >= self.most:
            return n >= self.most
        return self._stalled(held_out) or (self.arrives and self._has_converged(losses))

    def certain(self, n_done: int) -> int:
        """How many more epochs there will be at least, after ``n_done`` that were not enough."""
        return max(1, self.least - n_done)

    def _stalled(self, held_out: Sequence[float]) -> bool:
        """Whether the held-out loss has not improved for ``patience`` epochs."""
        n = len(held_out)
        return self.patience is not None and n > 0 and n - 1 - int(np.argmin(held_out)) >= self.patience

    def _has_converged(self, losses: Sequence[float]) -> bool:
        """Whether the second half of the epochs has gained next to nothing."""
        n = len(losses)
        if n < 2:
            return False
        quarter = max(1, n // 4)
        before, now = np.mean(losses[n // 2 - quarter : n // 2]), np.mean(losses[n - quarter :])
        return bool(before - now <= TOLERANCE * losses[0])


def epochs_for(n_rows: int, steps: int, least: int) -> int:
    """Epochs in which so many steps are taken: ``least`` to 100."""
    return int(np.clip(-(-steps // max(1, n_rows)), least, MOST_EPOCHS))


@dataclass(frozen=True)
class TrainingConfig:
    """What a run goes through: fixed before it starts."""

    order: BatchSampler
    objective: Objective
    dtype: np.dtype[Any]
    stopping: Stopping

    def plan(self, what: str, n_passes: int) -> BlockPlan:
        """Blocks, bytes and peak memory of the passes."""
        order, waiting = self.order, self.order.n_mixed
        if order.n_lanes == 1:
            waiting = max(2 * waiting, fold_window(order.blocks))
        row_bytes = order.blocks.n_columns * self.dtype.itemsize
        beside = 4 * order.n_lanes * self.objective.n_outputs * row_bytes  # states
        return plan_blocks(order.blocks, what=what, passes=n_passes, waiting=waiting, state_bytes=beside)


@dataclass(frozen=True)
class Jobs(Sequence[Job]):
    """The jobs of some batches, made when they are asked for: their targets need not all be held."""

    order: BatchSampler
    batches: list[Members]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return Jobs(self.order, self.batches[i])
        return self.order.job(self.batches[i])


@dataclass(frozen=True)
class TrainingState:
    """How far a run is: ``done`` batches of each lane of ``epoch``, and the losses of earlier epochs.

    Lanes that have met go on with ``velocity`` (n_outputs, n_features + 1); one lane has none. ``skipped`` are the
    rows that no batch has used, sorted.
    """

    state: State
    velocity: F64 | None = None
    epoch: int = 0
    done: int = 0
    losses: tuple[float, ...] = ()
    held_out_losses: tuple[float, ...] = ()
    skipped: I64 = field(default_factory=no_rows)

    @property
    def last_losses(self) -> tuple[float, ...]:
        """(training, held-out) loss of the epoch before this one, () in the first."""
        return (*self.losses[-1:], *self.held_out_losses[-1:])

    def next_epoch(self) -> TrainingState:
        """The position after the epoch's last batch: losses noted."""
        loss, held_out_loss = self.state.losses()
        return TrainingState(
            self.state.next_epoch(), self.velocity, self.epoch + 1, 0,
            (*self.losses, loss), (*self.held_out_losses, held_out_loss), self.skipped,
        )  # fmt: skip

    def after(self, state: State, n_batches: int, skipped: I64) -> TrainingState:
        """``n_batches`` further in each lane; ``skipped`` are rows that these have left out."""
        skipped = np.union1d(self.skipped, skipped) if len(skipped) else self.skipped
        return replace(self, state=state, done=self.done + n_batches, skipped=skipped)


Save = Callable[[TrainingState], None]


def run_epochs(
    course: TrainingConfig, position: TrainingState, progress: Progress, save: Save
) -> TrainingState:
    """Go from ``position`` to the end of the course; ``save`` is told every place it can be taken up at."""
    while not course.stopping.is_over(position.losses, position.held_out_losses):
        run = _one_lane if len(course.order.lanes(position.epoch)) == 1 else _many_lanes
        position = run(course, position, progress, save)
    return position


def _one_lane(
    course: TrainingConfig, position: TrainingState, progress: Progress, save: Save
) -> TrainingState:
    """All epochs that are certain in one fold, so that no core waits where one ends."""
    last = position.epoch + course.stopping.certain(len(position.losses))
    epochs = [course.order.lanes(epoch)[0] for epoch in range(position.epoch, last)]
    progress.advance(_n_blocks(epochs[0][: position.done]))
    result: TrainingState = fold(
        course.order.blocks,
        Jobs(course.order, list(chain(*epochs))[position.done :]),
        partial(prepare, course.dtype),
        partial(_advance, course.objective, len(epochs[0]), _n_blocks(epochs[0])),
        position,
        label="sgd",
        blocks_per_job=course.order.n_mixed,
        on_segment=lambda reached, _: save(reached),
        progress=progress,
        sequential=course.order.blocks.local,
    )
    return result


def _advance(
    objective: Objective, n_batches: int, n_blocks: int, position: TrainingState, batch: Batch
) -> TrainingState:
    """One batch further, and into the next epoch after the last."""
    state = step(objective, position.state, batch)
    position = position.after(state, 1, batch.skipped)
    report_loss(position.epoch + position.done / n_batches, n_blocks, state.losses(), position.last_losses)
    return position.next_epoch() if position.done == n_batches else position


def _many_lanes(
    course: TrainingConfig, position: TrainingState, progress: Progress, save: Save
) -> TrainingState:
    """One epoch in rounds: every lane's share is one task, and what they have come to is summed in a tree."""
    lanes = course.order.lanes(position.epoch)
    longest = max(len(lane) for lane in lanes)
    largest = int(np.diff(course.order.blocks.bounds).max())
    length = int(np.clip(longest // MIN_SYNCS_PER_EPOCH, 1, max(1, min(ROUND, ROUND_ROWS // largest))))
    progress.advance(sum(_n_blocks(lane[: position.done]) for lane in lanes))
    n_blocks = sum(_n_blocks(lane) for lane in lanes)
    for start in range(position.done, longest, length):
        turns = [[course.order.job(members) for members in lane[start : start + length]] for lane in lanes]
        jobs = [
            Job(tuple(i for job in turn for i in job.blocks), [job.extra for job in turn])
            for turn in turns
            if turn
        ]
        epochs = position.epoch + min(1.0, (start + length) / longest)
        tell = partial(_tell, len(jobs), epochs, n_blocks, position.state.sums, position.last_losses)
        work = partial(_lane, tell, course.objective, course.dtype, position.state)
        met = tree_sum(
            course.order.blocks, jobs, work, partial(_merged, tell), window=max(2, len(jobs)),
            label="sgd_lane", progress=progress,
        )  # fmt: skip
        state, velocity = average_replicas(position.state, met, _velocity(position), 1.0 - 1.0 / len(lanes))
        position = replace(position.after(state, length, met.skipped), velocity=velocity)
        save(position)
    return position.next_epoch()


def _velocity(position: TrainingState) -> F64:
    """That of the lanes when they last met; none before."""
    K, D = position.state.coef.shape
    return np.zeros((K, D + 1)) if position.velocity is None else position.velocity


def _n_blocks(batches: list[Members]) -> int:
    return sum(len(indices) for _, indices in batches)


def _lane(
    tell: Callable[[LocalSGDUpdate], LocalSGDUpdate],
    objective: Objective,
    dtype: np.dtype[Any],
    common: State,
    blocks: Iterator[Any],
    batches: Sequence[RowBatch],
) -> LocalSGDUpdate:
    return tell(fit_replica(objective, dtype, common, blocks, batches))


def _merged(
    tell: Callable[[LocalSGDUpdate], LocalSGDUpdate], a: LocalSGDUpdate, b: LocalSGDUpdate
) -> LocalSGDUpdate:
    return tell(a.merged(b))


def _tell(
    n_lanes: int, epochs: float, n_blocks: int, sums: F64, before: tuple[float, ...], lanes: LocalSGDUpdate
) -> LocalSGDUpdate:
    """The lanes; when all have come together, what they have measured, too, is reported."""
    if lanes.n == n_lanes:
        report_loss(epochs, n_blocks, mean_losses(sums + lanes.sums), before)
    return lanes
