"""Limits of time and memory for the selection of a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.parameter_checks import check_positive
from dkdist._runtime.run import n_concurrent_blocks
from dkdist._utils.concurrency import Item, Result, prefetch_each
from dkdist.auto._tuning import (
    MIN_LANDMARKS,
    MIN_PARALLEL_ROWS,
    MIN_SELECTION_SETS,
    N_GRAM_MATRICES,
    N_KERNEL_MATRICES,
    SELECTION_FRACTION,
)


@dataclass(frozen=True)
class Budget:
    """Limits of time (seconds since ``start``) and memory (bytes); infinite if there is no limit."""

    seconds: float
    memory: float
    start: float

    @classmethod
    def from_value(cls, value: Any) -> Budget:
        """Return the budget for None, a number of seconds, or a mapping of "seconds" and "memory" (bytes)."""
        if value is None:
            limits_by_name: Mapping[str, Any] = {}
        else:
            limits_by_name = value if isinstance(value, Mapping) else {"seconds": value}
        if unknown := sorted(set(map(str, limits_by_name)) - {"seconds", "memory"}):
            raise ValueError(
                f"budget must be a number of seconds, or a dict of 'seconds' and 'memory' (bytes); got {unknown}."
            )
        limits = {name: check_positive(f"budget {name}", value) for name, value in limits_by_name.items()}
        return cls(limits.get("seconds", np.inf), limits.get("memory", np.inf), time.perf_counter())

    def restart(self, fraction: float = 1.0) -> Budget:
        """Return a budget that starts now, with a fraction of the remaining time and the same memory."""
        return Budget(self.remaining * fraction, self.memory, time.perf_counter())

    def max_sets(self, n: int, row_bytes: int) -> int:
        """Return how many of n sets, with ``row_bytes`` per set, can be compared within the memory limit."""
        if np.isinf(self.memory):
            return n
        matrices = 8 * N_KERNEL_MATRICES
        maximum = int((np.sqrt(row_bytes**2 + 4 * matrices * self.memory) - row_bytes) / (2 * matrices))
        if maximum < min(n, MIN_SELECTION_SETS):
            need = matrices * MIN_SELECTION_SETS**2 + row_bytes * MIN_SELECTION_SETS
            raise ValueError(
                f"budget['memory'] must be at least {need:.3g} bytes to compare candidates on {MIN_SELECTION_SETS} "
                f"sets; got {self.memory:.3g}. Increase it or pass fewer candidates."
            )
        return min(n, maximum)

    def max_landmarks(self, n_members: int, maximum: int) -> int:
        """Return the number of landmarks for which the Gram matrices of all members fit in memory."""
        if np.isinf(self.memory):
            return maximum
        n_fitting = int(np.sqrt(self.memory / (8 * N_GRAM_MATRICES * n_members)))
        return int(np.clip(n_fitting, min(MIN_LANDMARKS, maximum), maximum))

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], n_rows: int
    ) -> Generator[Result]:
        """Yield ``function(item)`` for each item in order, computed by several threads.

        Uses one thread if memory is limited, or for few rows, where the GIL would block other threads.
        """
        parallel = np.isinf(self.memory) and n_rows >= MIN_PARALLEL_ROWS
        threads = n_concurrent_blocks(local=True) if parallel else 1
        return prefetch_each(function, items, threads, threads)

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit."""
        return bool(np.isinf(self.seconds) and np.isinf(self.memory))

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def remaining(self) -> float:
        """Remaining seconds."""
        return self.seconds - self.elapsed

    @property
    def is_exhausted(self) -> bool:
        """Whether the time for candidates has been used."""
        return self.elapsed > SELECTION_FRACTION * self.seconds

    def require_remaining(self, step: str) -> None:
        """Raise ValueError if the time limit has passed before ``step``."""
        if self.remaining < 0:
            raise ValueError(
                f"budget must allow at least one candidate; got {max(0.0, self.seconds):.3g} s, and "
                f"{self.elapsed:.3g} s elapsed before {step}. Increase the budget."
            )
