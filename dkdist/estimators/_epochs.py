"""Epochs of stochastic gradient descent over blocks: their order, their lanes, and how they are resumed.

    one lane       blocks are made in parallel, a few at a time, and fitted one after another
    L > 1 lanes    block i of an epoch's order belongs to lane i % L; a lane's blocks are made and fitted in
                   one task, eight batches at a time, and the lanes are averaged at the end of the epoch

All that is random follows from (seed, role, epoch, block): neither workers nor interruptions change a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.execution.blocks import Blocks
from dkdist.execution.fold import WINDOW, Job, fold
from dkdist.execution.plan import Plan, plan_fold
from dkdist.execution.progress import Progress
from dkdist.learners.rows import Rows
from dkdist.learners.sgd import Objective, State, fit_lane, merge, prepare, step

ROUND = 8  # batches of a lane between two checkpoints
HELD_OUT, ORDER, SHUFFLE = range(3)  # roles of the seed


@dataclass(frozen=True)
class Course:
    """What a run goes through: fixed before it starts."""

    blocks: Blocks
    objective: Objective
    dtype: np.dtype[Any]
    targets: NDArray[Any]
    held_out: NDArray[np.bool_]
    seed: int
    n_epochs: int
    n_lanes: int
    n_mixed: int
    patience: int | None = None

    @property
    def window(self) -> int:
        """Batches that may wait to be fitted while others are made."""
        return max(2, WINDOW // self.n_mixed)

    def plan(self, what: str, n_passes: int) -> Plan:
        """Blocks, bytes and peak memory of the passes."""
        waiting = self.n_mixed * (self.window if self.n_lanes == 1 else 1)
        states = 4 * self.n_lanes * self.objective.n_outputs * self.blocks.n_columns * self.dtype.itemsize
        return plan_fold(self.blocks, what=what, passes=n_passes, waiting=waiting, state_bytes=states)

    def lanes(self, epoch: int) -> list[list[Job]]:
        """The batches of an epoch, lane by lane; a lane without a block is left out."""
        sizes = np.diff(self.blocks.bounds)
        order = np.random.default_rng((self.seed, ORDER, epoch)).permutation(np.flatnonzero(sizes))
        lanes = [order[lane :: self.n_lanes] for lane in range(self.n_lanes)]
        return [
            [self._batch(lane[a : a + self.n_mixed], epoch) for a in range(0, len(lane), self.n_mixed)]
            for lane in lanes
            if len(lane)
        ]

    def _batch(self, members: NDArray[np.int64], epoch: int) -> Job:
        parts = [self.blocks.rows(int(i)) for i in members]
        rows = Rows(
            starts=tuple(part.start for part in parts),
            sizes=tuple(part.stop - part.start for part in parts),
            n_features=self.blocks.n_columns,
            targets=np.concatenate([self.targets[part] for part in parts]),
            held_out=np.concatenate([self.held_out[part] for part in parts]),
            seed=(self.seed, SHUFFLE, epoch, int(members[0])),
        )
        return Job(tuple(int(i) for i in members), rows)


@dataclass(frozen=True)
class Position:
    """How far a run is: ``done`` batches of each lane of ``epoch``, and the losses of earlier epochs."""

    states: tuple[State, ...]
    epoch: int = 0
    done: int = 0
    losses: tuple[float, ...] = ()
    held_out_losses: tuple[float, ...] = ()

    def stalled(self, patience: int | None) -> bool:
        """Whether the held-out loss has not improved for ``patience`` epochs."""
        curve = self.held_out_losses
        return patience is not None and len(curve) > 0 and len(curve) - 1 - int(np.argmin(curve)) >= patience

    def next_epoch(self) -> Position:
        """The position after the epoch's last batch: lanes averaged, losses noted."""
        state = merge(self.states)
        loss, held_out_loss = state.losses()
        return Position(
            (state.next_epoch(),), self.epoch + 1, 0,
            (*self.losses, loss), (*self.held_out_losses, held_out_loss),
        )  # fmt: skip


Save = Callable[[Position], None]


def run_epochs(course: Course, position: Position, progress: Progress, save: Save) -> Position:
    """Go from ``position`` to the end of the course; ``save`` is told every place it can be taken up at."""
    while position.epoch < course.n_epochs and not position.stalled(course.patience):
        lanes = course.lanes(position.epoch)
        run = _one_lane if len(lanes) == 1 else _many_lanes
        position = run(course, lanes, position, progress, save).next_epoch()
    return position


def _one_lane(
    course: Course, lanes: list[list[Job]], position: Position, progress: Progress, save: Save
) -> Position:
    start, jobs = position.done, lanes[0][position.done :]
    progress.advance(_n_blocks(lanes[0][:start]))
    state = fold(
        course.blocks,
        jobs,
        partial(prepare, course.dtype),
        partial(step, course.objective),
        position.states[0],
        label="sgd",
        window=course.window,
        on_segment=lambda state, done: save(replace(position, states=(state,), done=start + done)),
        progress=progress,
    )
    return replace(position, states=(state,), done=start + len(jobs))


def _many_lanes(
    course: Course, lanes: list[list[Job]], position: Position, progress: Progress, save: Save
) -> Position:
    if position.done == 0:  # every lane starts from the common model
        position = replace(position, states=position.states * len(lanes))
    progress.advance(sum(_n_blocks(lane[: position.done]) for lane in lanes))
    work = partial(fit_lane, course.objective, course.dtype)
    for start in range(position.done, max(len(lane) for lane in lanes), ROUND):
        turns = [lane[start : start + ROUND] for lane in lanes]
        jobs = [
            Job(tuple(i for job in turn for i in job.blocks), (state, [job.extra for job in turn]))
            for turn, state in zip(turns, position.states, strict=True)
        ]
        states = fold(
            course.blocks, jobs, work, _append, (), label="sgd_lane", window=len(jobs), progress=progress
        )
        position = replace(position, states=states, done=start + ROUND)
        save(position)
    return position


def _n_blocks(jobs: list[Job]) -> int:
    return sum(len(job.blocks) for job in jobs)


def _append(states: tuple[State, ...], state: State) -> tuple[State, ...]:
    return (*states, state)
