"""Epochs of stochastic gradient descent (SGD) over blocks: order, lanes, resumption and stopping.

Block i of an epoch belongs to lane i % n_lanes. One lane is a fold: batches are prepared in parallel, steps are
sequential. `lanes.py` runs several lanes.

Random numbers depend only on (seed, stream, epoch, block), so results are bitwise identical for any number of workers
and after interruptions. Batches are blocks, so the order of rows depends on the block size. A run ends after
``n_epochs``, when the held-out loss stalls, or on convergence: the distance of an averaged iterate from its limit is
about c / e after e epochs, so the gain of the second half of the epochs estimates the remaining gain. Losses are
measured on the same rows in every epoch to reduce noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from math import ceil
from typing import Any

import numpy as np

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.blocks import Blocks, Job
from dkdist._runtime.map_reduce import fold, fold_window
from dkdist._runtime.process import active_client
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import BlockPlan, n_cores, plan_blocks
from dkdist.linear._tuning import (
    CONVERGENCE_RTOL,
    MAX_AUTO_EPOCHS,
    MAX_AUTO_LANES,
    MAX_AUTO_STEPS,
    MAX_BATCHES_PER_SYNC,
    MAX_LAZY_ROW_CORES,
    MAX_ROWS_PER_SYNC,
    MIN_AUTO_EPOCH_LIMIT,
    MIN_AUTO_EPOCHS,
    MIN_AUTO_STEPS,
    MIN_SYNCS_PER_EPOCH,
    ONE_LANE_SPEEDUP,
    ROUND_OVERHEAD_BYTES,
)
from dkdist.linear.rows import RowBatch, RowLabels, no_rows
from dkdist.linear.sgd_steps import Batch, Objective, State, prepare, step

BatchKey = tuple[int, tuple[int, ...]]
"""(epoch, indices of the blocks that are shuffled together)."""


def choose_materialization(blocks: Blocks, n_lanes: int) -> Blocks:
    """Choose between lazy features, computed in the steps, and features of whole blocks, computed in advance.

    Results are bitwise identical. Lazy features stay in the CPU cache, but one lane computes them sequentially. With
    more cores, threads compute several whole blocks in parallel.
    """
    cores = 1 if n_lanes > 1 else n_cores(blocks.local)
    is_remote = not blocks.local and active_client() is not None
    return blocks.lazy_rows(eager=not is_remote and cores > MAX_LAZY_ROW_CORES)


def min_task_bytes(n_parallel: int) -> float:
    """Return the bytes of features per task from which parallel lanes are faster than one lane on several workers.

    With o for the overhead of a round, n b / (b + o) exceeds the speed-up of one lane.
    """
    gain = n_parallel - ONE_LANE_SPEEDUP
    return ONE_LANE_SPEEDUP * ROUND_OVERHEAD_BYTES / gain if gain > 0 else np.inf


def choose_n_lanes(blocks: Blocks, n_shuffled_blocks: int, itemsize: int) -> int:
    """Return the number of lanes for n_lanes="auto": one per thread, if the tasks of a round are long enough."""
    sizes = np.diff(blocks.bounds)
    bytes_per_sync = int(sizes.sum()) * blocks.n_columns * itemsize / MIN_SYNCS_PER_EPOCH
    batches_per_sync = int(np.count_nonzero(sizes)) // (n_shuffled_blocks * MIN_SYNCS_PER_EPOCH)
    max_lanes = min(MAX_AUTO_LANES, batches_per_sync, n_cores(blocks.local))
    return next((n for n in range(max_lanes, 1, -1) if bytes_per_sync / n >= min_task_bytes(n)), 1)


@dataclass(frozen=True)
class BatchSampler:
    """Sampler of the batches of each epoch, determined by the seed."""

    blocks: Blocks
    labels: RowLabels
    seed: int
    n_shuffled_blocks: int
    n_lanes: int = 1
    skip: bool = False

    def lanes(self, epoch: int) -> list[list[BatchKey]]:
        """Return the batches of an epoch by lane, without empty lanes."""
        sizes = np.diff(self.blocks.bounds)
        order = (
            np.random.default_rng((self.seed, RngStream.BLOCK_ORDER, epoch))
            .permutation(np.flatnonzero(sizes))
            .tolist()
        )
        lanes = [order[lane :: self.n_lanes] for lane in range(self.n_lanes)]
        size = self.n_shuffled_blocks
        return [
            [(epoch, tuple(lane[a : a + size])) for a in range(0, len(lane), size)] for lane in lanes if lane
        ]

    @cached_property
    def n_batches(self) -> int:
        """Number of batches of the longest lane in an epoch."""
        lane_blocks = ceil(np.count_nonzero(np.diff(self.blocks.bounds)) / self.n_lanes)
        return ceil(lane_blocks / self.n_shuffled_blocks)

    @cached_property
    def batches_per_sync(self) -> int:
        """Number of batches of a lane between two averages; it depends only on the data and the number of lanes."""
        max_length = max(1, min(MAX_BATCHES_PER_SYNC, MAX_ROWS_PER_SYNC // self._max_block_rows))
        longest = (self.n_batches - 1) // (MIN_SYNCS_PER_EPOCH - 1)  # of rounds that give so many averages
        return int(np.clip(longest, 1, max_length))

    @property
    def _max_block_rows(self) -> int:
        return int(np.diff(self.blocks.bounds).max())

    def takes_turns(self, itemsize: int) -> bool:
        """Return whether lanes take turns in one fold, because parallel tasks of a cluster would be slower."""
        if self.n_lanes == 1 or self.blocks.local or active_client() is None:
            return False
        rows = self.batches_per_sync * self.n_shuffled_blocks * self._max_block_rows
        return rows * self.blocks.n_columns * itemsize < min_task_bytes(min(self.n_lanes, n_cores()))

    def job(self, key: BatchKey) -> Job:
        """Return the job that computes and shuffles a batch."""
        epoch, indices = key
        parts = [self.blocks.rows(i) for i in indices]
        rows = RowBatch(
            starts=tuple(part.start for part in parts),
            sizes=tuple(part.stop - part.start for part in parts),
            n_features=self.blocks.n_columns,
            # A slice of one block avoids a copy.
            labels=self.labels.part(parts[0] if len(parts) == 1 else np.r_[tuple(parts)]),
            seed=(self.seed, RngStream.ROW_ORDER, epoch, indices[0]),
            skip=self.skip,
            eager=self.blocks.eager,
        )
        return Job(indices, rows, quiet=epoch > 0)


@dataclass(frozen=True)
class StoppingRule:
    """Stopping rule: limits of the number of epochs, ``patience``, and whether to stop on convergence."""

    min_epochs: int
    max_epochs: int
    patience: int | None = None
    on_convergence: bool = False

    @classmethod
    def from_params(cls, n_epochs: int | str, patience: int | None, n_rows: int) -> StoppingRule:
        """Return the rule for the parameters of an estimator and ``n_rows`` training rows."""
        if not isinstance(n_epochs, str):
            return cls(1 if patience is not None else int(n_epochs), int(n_epochs), patience)
        min_epochs = epochs_for(n_rows, MIN_AUTO_STEPS, MIN_AUTO_EPOCHS)
        max_epochs = epochs_for(n_rows, MAX_AUTO_STEPS, MIN_AUTO_EPOCH_LIMIT)
        return cls(min_epochs, max_epochs, patience, on_convergence=True)

    def is_over(self, losses: Sequence[float], held_out_losses: Sequence[float]) -> bool:
        """Return whether the run ends, given the losses of all epochs so far."""
        n = len(losses)
        if n < self.min_epochs or n >= self.max_epochs:
            return n >= self.max_epochs
        return self._has_stalled(held_out_losses) or (self.on_convergence and self._has_converged(losses))

    def min_remaining_epochs(self, n_epochs: int) -> int:
        """Return the minimum number of further epochs if the run did not end after ``n_epochs``."""
        return max(1, self.min_epochs - n_epochs)

    def _has_stalled(self, held_out_losses: Sequence[float]) -> bool:
        n = len(held_out_losses)
        return (
            self.patience is not None and n > 0 and n - 1 - int(np.argmin(held_out_losses)) >= self.patience
        )

    def _has_converged(self, losses: Sequence[float]) -> bool:
        """Return whether the second half of the epochs reduced the loss by less than the tolerance."""
        n = len(losses)
        if n < 2:
            return False
        quarter = max(1, n // 4)
        before, after = np.mean(losses[n // 2 - quarter : n // 2]), np.mean(losses[n - quarter :])
        return bool(before - after <= CONVERGENCE_RTOL * losses[0])


def epochs_for(n_rows: int, n_steps: int, min_epochs: int) -> int:
    """Return the number of epochs for ``n_steps`` steps, clipped to ``min_epochs`` to 100."""
    return int(np.clip(-(-n_steps // max(1, n_rows)), min_epochs, MAX_AUTO_EPOCHS))


@dataclass(frozen=True)
class TrainingConfig:
    """Fixed settings of a run."""

    sampler: BatchSampler
    objective: Objective
    dtype: np.dtype[Any]
    stopping: StoppingRule
    loss_unit: float = 1.0
    """Unit of the losses in the curves of the estimator."""

    def plan(self, what: str, n_passes: int) -> BlockPlan:
        """Return the plan of the passes: blocks, bytes and peak memory."""
        sampler = self.sampler
        waiting = sampler.n_shuffled_blocks
        if sampler.n_lanes == 1 or sampler.takes_turns(self.dtype.itemsize):
            waiting = max(2 * waiting, fold_window(sampler.blocks))
        row_bytes = sampler.blocks.n_columns * self.dtype.itemsize
        state_bytes = 4 * sampler.n_lanes * self.objective.n_outputs * row_bytes
        return plan_blocks(
            sampler.blocks, what=what, passes=n_passes, waiting=waiting, state_bytes=state_bytes
        )


@dataclass(frozen=True)
class BatchJobs(Sequence[Job]):
    """Lazy sequence of jobs: the targets of all jobs need not be in memory at the same time."""

    sampler: BatchSampler
    batches: list[BatchKey]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return BatchJobs(self.sampler, self.batches[i])
        return self.sampler.job(self.batches[i])


@dataclass(frozen=True)
class TrainingState:
    """State of a run: model, ``epoch``, finished batches per lane (``n_batches``), and losses of earlier epochs.

    ``velocity`` (n_outputs, n_features + 1) is the momentum between averages of lanes, None for one lane. ``skipped``
    are the sorted indices of rows that no batch used.
    """

    model: State
    velocity: F64 | None = None
    epoch: int = 0
    n_batches: int = 0
    losses: tuple[float, ...] = ()
    held_out_losses: tuple[float, ...] = ()
    skipped: I64 = field(default_factory=no_rows)

    @property
    def last_losses(self) -> tuple[float, ...]:
        """(training, held-out) loss of the previous epoch; () in the first epoch."""
        return (*self.losses[-1:], *self.held_out_losses[-1:])

    def next_epoch(self) -> TrainingState:
        """Return the state after the last batch of the epoch, with its losses appended."""
        loss, held_out_loss = self.model.losses()
        return TrainingState(
            self.model.next_epoch(), self.velocity, self.epoch + 1, 0,
            (*self.losses, loss), (*self.held_out_losses, held_out_loss), self.skipped,
        )  # fmt: skip

    def after(self, model: State, n_batches: int, skipped: I64) -> TrainingState:
        """Return the state after ``n_batches`` more batches per lane, with additional skipped rows ``skipped``."""
        skipped = np.union1d(self.skipped, skipped) if len(skipped) else self.skipped
        return replace(self, model=model, n_batches=self.n_batches + n_batches, skipped=skipped)


SaveState = Callable[[TrainingState], None]
RunEpochs = Callable[[TrainingConfig, TrainingState, Progress, SaveState], TrainingState]


def run_epochs(
    config: TrainingConfig,
    state: TrainingState,
    progress: Progress,
    save: SaveState,
    run_lanes: RunEpochs,
) -> TrainingState:
    """Run from ``state`` to the end; call ``save`` with every state from which the run can resume.

    ``run_lanes`` runs epochs of several lanes.
    """
    while not config.stopping.is_over(state.losses, state.held_out_losses):
        run = _run_one_lane if len(config.sampler.lanes(state.epoch)) == 1 else run_lanes
        state = run(config, state, progress, save)
        measure(config, progress, state)
    return state


def measure(config: TrainingConfig, progress: Progress, state: TrainingState) -> None:
    """Report (training, held-out) losses, the means over the last epoch of blocks.

    They are continuous at the start of an epoch, and at its end equal the loss curves of the estimator.
    """
    fraction, losses = 0.0, state.last_losses
    if state.n_batches:
        fraction, losses = min(1.0, state.n_batches / config.sampler.n_batches), state.model.losses()
    training, held_out = (
        config.loss_unit * (fraction * new + (1 - fraction) * old)
        for new, old in zip(losses, state.last_losses or losses, strict=True)
    )
    progress.measure(state.epoch + fraction, training, held_out)


def _run_one_lane(
    config: TrainingConfig, state: TrainingState, progress: Progress, save: SaveState
) -> TrainingState:
    """Run the minimum number of remaining epochs in one fold, so that no core is idle between epochs."""
    sampler = config.sampler
    epochs = [sampler.lanes(epoch)[0] for epoch in next_epochs(config, state)]
    progress.advance(n_blocks(epochs[0][: state.n_batches]))
    result: TrainingState = fold(
        sampler.blocks,
        BatchJobs(sampler, list(chain(*epochs))[state.n_batches :]),
        partial(prepare, config.dtype),
        partial(_apply_batch, config.objective, len(epochs[0])),
        state,
        label="sgd",
        blocks_per_job=sampler.n_shuffled_blocks,
        on_segment=lambda segment_state, _: save(segment_state),
        observe=partial(measure, config, progress),
        progress=progress,
        sequential=sampler.blocks.local,
    )
    return result


def _apply_batch(objective: Objective, n_batches: int, state: TrainingState, batch: Batch) -> TrainingState:
    state = state.after(step(objective, state.model, batch), 1, batch.skipped)
    return state.next_epoch() if state.n_batches == n_batches else state


def next_epochs(config: TrainingConfig, state: TrainingState) -> range:
    """Return the minimum number of remaining epochs."""
    return range(state.epoch, state.epoch + config.stopping.min_remaining_epochs(len(state.losses)))


def n_blocks(batches: list[BatchKey]) -> int:
    """Return the number of blocks of some batches."""
    return sum(len(indices) for _, indices in batches)
