"""The plan of a run, made before it starts: blocks, bytes, passes and peak memory; a run that cannot fit is refused.

    peak of a process ~ (threads + items waiting) x one block + state

Blocks are counted at their finished size; what is read for one is counted beside it. Items that wait are spread
over the processes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from dask.utils import format_bytes

from dkdist.execution.blocks import Blocks
from dkdist.execution.progress import Progress
from dkdist.execution.resources import resources


@dataclass(frozen=True)
class Plan:
    """What a run will do; ``check`` refuses it, ``announced`` prints it and shows progress."""

    what: str
    n_rows: int
    n_blocks: int
    block_bytes: int
    read_bytes: int
    passes: int
    peak_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        read = f", reads {format_bytes(self.read_bytes)} a pass" if self.read_bytes else ""
        return (
            f"{self.what}: {self.n_rows:,} rows in {self.n_blocks:,} blocks of up to {format_bytes(self.block_bytes)}"
            f"{read}, {self.passes} pass{'es' if self.passes > 1 else ''}; "
            f"peak memory about {format_bytes(self.peak_bytes)} a process (limit {format_bytes(self.limit_bytes)})"
        )

    def check(self) -> None:
        """Raise MemoryError if the peak does not fit."""
        if self.peak_bytes > self.limit_bytes:
            raise MemoryError(
                f"{self}. This does not fit. To fix: use fewer features, smaller blocks (open_sets(..., block_sets=)), "
                "or raise dask.config 'dkdist.memory-limit' if you know better"
            )

    @contextmanager
    def announced(self, verbose: bool | int) -> Iterator[Progress]:
        """Check the plan, print it if asked to, and give the progress of its blocks."""
        self.check()
        if verbose:
            print(self, file=sys.stderr)
        progress = Progress(self.n_blocks * self.passes, self.what, show=bool(verbose))
        try:
            yield progress
        finally:
            progress.close()


def plan_map(blocks: Blocks, *, n_blocks: int, what: str, passes: int = 1) -> Plan:
    """The plan of a run in which a block lives as long as the task that makes it."""
    return _plan(blocks, n_blocks=n_blocks, what=what, passes=passes, waiting=0, state_bytes=0)


def plan_fold(blocks: Blocks, *, what: str, passes: int, waiting: int, state_bytes: int) -> Plan:
    """The plan of a fold in which ``waiting`` blocks may wait for their step beside a state of some size."""
    return _plan(
        blocks, n_blocks=len(blocks), what=what, passes=passes, waiting=waiting, state_bytes=state_bytes
    )


def _plan(blocks: Blocks, *, n_blocks: int, what: str, passes: int, waiting: int, state_bytes: int) -> Plan:
    rows = np.diff(blocks.bounds).max(initial=0)
    block_bytes = int(rows) * blocks.row_bytes
    read_block = -(-blocks.read_bytes // max(1, len(blocks)))
    there = resources(blocks.local)
    waiting_here = -(-waiting // there.processes)
    peak = (there.threads + waiting_here) * block_bytes + there.threads * read_block + state_bytes
    return Plan(what, blocks.n_rows, n_blocks, block_bytes, blocks.read_bytes, passes, peak, there.memory)
