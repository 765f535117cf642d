"""Limits of time and memory for the selection of a model.

`BudgetPlanner` predicts the time of the final fit from that of the trials, and drops members or landmarks that do not
fit into the budget. Kernels take n^3 operations, rows a constant time per set, m landmarks n m^2 operations per member
plus six solutions of m^3 operations. Predicted times may be wrong by a small factor. A warning is issued if even the
smallest fit exceeds the budget.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dkdist._base.parameter_checks import check_positive
from dkdist._runtime.run import n_concurrent_blocks
from dkdist._utils.concurrency import Item, Result, prefetch_each
from dkdist._utils.validation import find_stacklevel
from dkdist.auto import _tuning

if TYPE_CHECKING:
    from dkdist.auto.successive_halving import Trial, WeightedAverage


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
        matrices, n_sets = 8 * _tuning.N_KERNEL_MATRICES, _tuning.MIN_SELECTION_SETS
        maximum = int((np.sqrt(row_bytes**2 + 4 * matrices * self.memory) - row_bytes) / (2 * matrices))
        if maximum < min(n, n_sets):
            need = matrices * n_sets**2 + row_bytes * n_sets
            raise ValueError(
                f"budget['memory'] must be at least {need:.3g} bytes to compare candidates on {n_sets} sets; got "
                f"{self.memory:.3g}. Increase it or pass fewer candidates."
            )
        return min(n, maximum)

    def max_landmarks(self, n_members: int, maximum: int) -> int:
        """Return the number of landmarks for which the Gram matrices of all members fit in memory."""
        if np.isinf(self.memory):
            return maximum
        n_fitting = int(np.sqrt(self.memory / (8 * _tuning.N_GRAM_MATRICES * n_members)))
        return int(np.clip(n_fitting, min(_tuning.MIN_LANDMARKS, maximum), maximum))

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], n_rows: int
    ) -> Generator[Result]:
        """Yield ``function(item)`` for each item in order, computed by several threads.

        Uses one thread if memory is limited, or for few rows, where the GIL would block other threads.
        """
        parallel = np.isinf(self.memory) and n_rows >= _tuning.MIN_PARALLEL_ROWS
        threads = n_concurrent_blocks(local=True) if parallel else 1
        return prefetch_each(function, items, threads, threads)

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
        return self.elapsed > _tuning.SELECTION_FRACTION * self.seconds

    def require_remaining(self, step: str) -> None:
        """Raise ValueError if the time limit has passed before ``step``."""
        if self.remaining < 0:
            raise ValueError(
                f"budget must allow at least one candidate; got {max(0.0, self.seconds):.3g} s, and "
                f"{self.elapsed:.3g} s elapsed before {step}. Increase the budget."
            )


@dataclass(frozen=True)
class BudgetPlanner:
    """Planner of the fit on ``n`` sets, after computing the rows of ``n_tried`` sets in ``row_seconds``."""

    budget: Budget
    n: int
    n_tried: int
    row_seconds: float

    def trim_kernels(self, average: WeightedAverage) -> WeightedAverage:
        """Return the average of the best members that fit into the remaining time, at least one."""
        if np.isinf(self.budget.seconds):
            return average
        row_seconds = self._all_row_seconds * (1 - self.n_tried / self.n)  # compared sets already have rows
        for k in range(len(average.members), 0, -1):
            trimmed = average.take_first(k)
            seconds = row_seconds + sum(map(self._kernel_seconds, trimmed.members))
            if seconds <= self.budget.remaining:
                return trimmed
        self._warn_over_budget(seconds)
        return trimmed

    def trim_landmarks(self, average: WeightedAverage, max_landmarks: int) -> tuple[WeightedAverage, int]:
        """Return the members and the number of landmarks that fit into the remaining time."""
        if np.isinf(self.budget.seconds):
            return average, max_landmarks
        product_seconds = seconds_per_product()
        for k in range(len(average.members), 0, -1):
            for m in _halving_sequence(max_landmarks):
                seconds = self._all_row_seconds + k * product_seconds * (
                    self.n * m**2 + _tuning.N_STREAMED_ALPHAS * m**3
                )
                if seconds <= self.budget.remaining:
                    return average.take_first(k), m
        self._warn_over_budget(seconds)
        return average.take_first(1), m

    @property
    def _all_row_seconds(self) -> float:
        return self.row_seconds * self.n / self.n_tried

    def _kernel_seconds(self, trial: Trial) -> float:
        return trial.seconds / trial.n_penalties * (self.n / self.n_tried) ** 3

    def _warn_over_budget(self, seconds: float) -> None:
        warnings.warn(
            f"Fitting the best candidate on {self.n} sets needs about {seconds:.2g} s, but {self.budget.remaining:.2g} "
            f"s of the budget of {self.budget.seconds:.3g} s remain. Increase the budget, or pass fewer sets or "
            "cheaper candidates.",
            stacklevel=find_stacklevel(),
        )


def _halving_sequence(maximum: int) -> list[int]:
    """Return the maximum, its half and so on, down to about 128."""
    sizes = [maximum]
    while sizes[-1] >= 2 * _tuning.MIN_TRIMMED_LANDMARKS:
        sizes.append(sizes[-1] // 2)
    return sizes


def seconds_per_product() -> float:
    """Measure the seconds per multiply-add of a matrix product on this machine."""
    A = np.ones((_tuning.BENCHMARK_ROWS, _tuning.BENCHMARK_ROWS))
    _ = A @ A  # warm-up: starts threads and allocates buffers
    start = time.perf_counter()
    _ = A @ A
    return (time.perf_counter() - start) / _tuning.BENCHMARK_ROWS**3
