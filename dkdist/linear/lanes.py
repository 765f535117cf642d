"""Epochs of several replicas (lanes) that are averaged (local SGD).

A round is the batches of all lanes between two averages. One task computes and fits the batches of a lane; many rounds
form one graph. On a cluster, rounds that would take less time than the messages between their tasks are a fold like
that of one lane: lanes take turns.

Both ways to run lanes add the same numbers in the same order, so results are bitwise identical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist._runtime.blocks import Job
from dkdist._runtime.map_reduce import PairwiseSum, fold, run_rounds
from dkdist._runtime.progress import Progress
from dkdist.linear._tuning import MAX_GRAPH_BATCHES
from dkdist.linear.epochs import (
    BatchJobs,
    BatchKey,
    BatchSampler,
    SaveState,
    TrainingConfig,
    TrainingState,
    measure,
    n_blocks,
    next_epochs,
)
from dkdist.linear.rows import RowBatch, no_rows
from dkdist.linear.sgd_steps import (
    Batch,
    LocalSGDUpdate,
    Objective,
    State,
    average_replicas,
    fit_replica,
    prepare,
    step,
)


@dataclass(frozen=True)
class Average:
    """End of a round: ``n_batches`` per lane since the last average, and the momentum."""

    n_batches: int
    momentum: float
    ends_epoch: bool

    def apply(self, state: TrainingState, update: LocalSGDUpdate) -> TrainingState:
        """Return the state after the updates of all lanes."""
        K, D = state.model.coef.shape
        velocity: F64 = np.zeros((K, D + 1)) if state.velocity is None else state.velocity
        model, velocity = average_replicas(state.model, update, velocity, self.momentum)
        state = replace(state.after(model, self.n_batches, update.skipped), velocity=velocity)
        return state.next_epoch() if self.ends_epoch else state


class Round(NamedTuple):
    """Batches of each lane until the next average."""

    lanes: list[list[BatchKey]]
    average: Average


def _rounds(sampler: BatchSampler, epoch: int, start: int) -> Iterator[Round]:
    """Yield the rounds of an epoch from batch ``start`` of each lane."""
    lanes, length = sampler.lanes(epoch), sampler.batches_per_sync
    momentum, end = 1.0 - 1.0 / len(lanes), max(map(len, lanes))
    for first in range(start, end, length):
        parts = [part for lane in lanes if (part := lane[first : first + length])]
        yield Round(parts, Average(length, momentum, first + length >= end))


def run_lanes(
    config: TrainingConfig, state: TrainingState, progress: Progress, save: SaveState
) -> TrainingState:
    """Run the minimum number of remaining epochs."""
    sampler = config.sampler
    progress.advance(sum(n_blocks(lane[: state.n_batches]) for lane in sampler.lanes(state.epoch)))
    rounds = [
        round_
        for epoch in next_epochs(config, state)
        for round_ in _rounds(sampler, epoch, state.n_batches if epoch == state.epoch else 0)
    ]
    if sampler.takes_turns(config.dtype.itemsize):
        return _fold_lanes(config, rounds, state, progress, save)

    def observe(reached: TrainingState) -> None:
        save(reached)
        measure(config, progress, reached)

    n_graph_rounds = max(1, MAX_GRAPH_BATCHES // (sampler.batches_per_sync * sampler.n_lanes))
    for first in range(0, len(rounds), n_graph_rounds):
        state = run_rounds(
            sampler.blocks,
            [([_lane_job(sampler, lane) for lane in lanes], average.apply)
             for lanes, average in rounds[first : first + n_graph_rounds]],
            partial(_fit_lane, config.objective, config.dtype), LocalSGDUpdate.merge, state,
            label="sgd_lane", observe=observe, progress=progress,
        )  # fmt: skip
        observe(state)  # the states of other processes were not observed
    return state


def _lane_job(sampler: BatchSampler, batches: list[BatchKey]) -> Job:
    jobs = [sampler.job(key) for key in batches]
    blocks = tuple(chain.from_iterable(job.blocks for job in jobs))
    return Job(blocks, [job.extra for job in jobs], quiet=jobs[0].quiet)


def _fit_lane(
    objective: Objective,
    dtype: np.dtype[Any],
    state: TrainingState,
    blocks: Iterator[Any],
    rows: Sequence[RowBatch],
) -> LocalSGDUpdate:
    return fit_replica(objective, dtype, state.model, blocks, rows)


@dataclass(frozen=True)
class LaneFoldState:
    """State after the last average, partial sums of updates of finished lanes, and the unfinished replica."""

    training: TrainingState
    updates: tuple[tuple[int, LocalSGDUpdate], ...] = ()
    replica: tuple[State, I64] | None = None


@dataclass(frozen=True)
class LaneBatch:
    """Batch, whether it is the last of its lane in a round, and the average after the last lane."""

    batch: Batch
    ends_lane: bool
    average: Average | None

    def __sizeof__(self) -> int:
        return self.batch.__sizeof__()  # a scheduler sends the state to the batch, which is larger


@dataclass(frozen=True)
class LaneJobs(BatchJobs):
    """Lazy sequence of jobs, with the average after the last batch of a round, and whether a lane ends."""

    ends: list[tuple[bool, Average | None]]

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return LaneJobs(self.sampler, self.batches[i], self.ends[i])
        job = self.sampler.job(self.batches[i])
        return replace(job, extra=(job.extra, self.ends[i]))


def _fold_lanes(
    config: TrainingConfig,
    rounds: list[Round],
    state: TrainingState,
    progress: Progress,
    save: SaveState,
) -> TrainingState:
    """Run the batches of all lanes in turn."""
    batches, ends = list[BatchKey](), list[tuple[bool, Average | None]]()
    for lanes, average in rounds:
        for lane in lanes:
            batches += lane
            ends += [(False, None)] * (len(lane) - 1) + [(True, average if lane is lanes[-1] else None)]
    result: LaneFoldState = fold(
        config.sampler.blocks,
        LaneJobs(config.sampler, batches, ends),
        partial(_prepare_in_lane, config.dtype),
        partial(_apply_batch_in_lane, config.objective),
        LaneFoldState(state),
        label="sgd",
        blocks_per_job=config.sampler.n_shuffled_blocks,
        on_segment=lambda fold_state, _: save(fold_state.training),
        observe=lambda fold_state: measure(config, progress, fold_state.training),
        progress=progress,
    )
    return result.training


def _prepare_in_lane(dtype: np.dtype[Any], blocks: Iterator[Any], extra: tuple[RowBatch, Any]) -> LaneBatch:
    rows, ends = extra
    return LaneBatch(prepare(dtype, blocks, rows), *ends)


def _apply_batch_in_lane(objective: Objective, state: LaneFoldState, item: LaneBatch) -> LaneFoldState:
    batch, average = item.batch, item.average
    common = state.training.model
    model, skipped = state.replica or (common, no_rows())
    model, skipped = step(objective, model, batch), np.append(skipped, batch.skipped)
    if not item.ends_lane:
        return replace(state, replica=(model, skipped))
    updates = PairwiseSum(LocalSGDUpdate.merge, state.updates)  # the order of `run_rounds`
    updates.add(LocalSGDUpdate.of(common, model, skipped))
    if average is None:
        return LaneFoldState(state.training, tuple(updates.parts))
    return LaneFoldState(average.apply(state.training, updates.total()))
