"""A limit of time or memory for choosing a model: what it allows, and when it is used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.parameter_checks import check_positive
from dkdist._runtime.run import n_concurrent_blocks
from dkdist._utils.concurrency import Item, Result, prefetch_each
from dkdist.auto._tuning import MIN_PARALLEL_ROWS

SHARE = 0.5  # of the time, for trials; the rest is for the fit of what was chosen
MATRICES = 8  # of n x n that are alive in a trial
GRAMS = 16  # of D x D that are alive for each member, while statistics are summed on two threads
LEAST_COMPONENTS = 16
LEAST_SETS = 50  # that a choice is made by


@dataclass(frozen=True)
class Budget:
    """Seconds and bytes, infinite where nothing was said, from the moment it was made."""

    seconds: float
    memory: float
    start: float

    @classmethod
    def of(cls, given: Any) -> Budget:
        """From None, seconds, or a mapping of "seconds" and "memory" (bytes); ValueError for anything else."""
        if given is None:
            named: Mapping[str, Any] = {}
        else:
            named = given if isinstance(given, Mapping) else {"seconds": given}
        if unknown := sorted(set(map(str, named)) - {"seconds", "memory"}):
            raise ValueError(
                f"budget must be a number of seconds, or a dict of 'seconds' and 'memory' (bytes); found {unknown}"
            )
        limits = {name: check_positive(f"budget {name}", value) for name, value in named.items()}
        return cls(limits.get("seconds", np.inf), limits.get("memory", np.inf), time.perf_counter())

    def part(self, fraction: float = 1.0) -> Budget:
        """A fraction of the time that is left, from now on, and the same memory."""
        return Budget(self.left * fraction, self.memory, time.perf_counter())

    def most_sets(self, n: int, row_bytes: int) -> int:
        """Of n sets, how many a choice may be made by, with all rows of each taking ``row_bytes``."""
        if np.isinf(self.memory):
            return n
        matrices = 8 * MATRICES
        most = int((np.sqrt(row_bytes**2 + 4 * matrices * self.memory) - row_bytes) / (2 * matrices))
        if most < min(n, LEAST_SETS):
            need = matrices * LEAST_SETS**2 + row_bytes * LEAST_SETS
            raise ValueError(
                f"a budget of {self.memory:.3g} bytes is too small for one candidate on {LEAST_SETS} sets, which "
                f"takes {need:.3g}: give more, or fewer candidates"
            )
        return min(n, most)

    def most_components(self, n_members: int, most: int) -> int:
        """Random features of each member, an even number, so that all Gram matrices fit."""
        if np.isinf(self.memory):
            return most
        fitting = int(np.sqrt(self.memory / (8 * GRAMS * n_members))) // 2 * 2
        return int(np.clip(fitting, LEAST_COMPONENTS, most))

    def at_once(
        self, function: Callable[[Item], Result], items: Iterable[Item], n_rows: int
    ) -> Generator[Result]:
        """``function(item)`` of each in turn, by some threads of this machine.

        By one thread where memory is limited, and for few rows: threads would wait for the interpreter lock.
        """
        parallel = np.isinf(self.memory) and n_rows >= MIN_PARALLEL_ROWS
        threads = n_concurrent_blocks(local=True) if parallel else 1
        return prefetch_each(function, items, threads, threads)

    @property
    def unlimited(self) -> bool:
        """Whether nothing was said."""
        return bool(np.isinf(self.seconds) and np.isinf(self.memory))

    @property
    def spent(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - self.spent

    @property
    def used_up(self) -> bool:
        """Whether no further candidate may be tried."""
        return self.spent > SHARE * self.seconds

    def require_left(self, what: str) -> None:
        """Refuse a budget that is gone before ``what``."""
        if self.left < 0:
            raise ValueError(
                f"a budget of {self.seconds:.3g} s is too small for one candidate: {self.spent:.3g} s went "
                f"before {what}. Give more time"
            )
