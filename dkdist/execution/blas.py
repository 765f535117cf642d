"""One BLAS thread for the whole process while any run is under way, however many threads have one.

Each run for itself would put back what it found: the first of two that overlap gives BLAS its threads back while the
second still computes, and the second leaves one for ever. So runs are counted, and the last puts back what the first
found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import ThreadpoolController, threadpool_limits


class _Runs:
    """How many are under way in this process, and the limits to take back after the last."""

    def __init__(self) -> None:
        self.lock, self.under_way, self.for_good = Lock(), 0, False
        self.limits: list[threadpool_limits] = []

    def begin(self, runs: int = 1) -> int:
        """Count so many more; the BLAS threads that were found, at least 1."""
        with self.lock:
            pools = ThreadpoolController().select(user_api="blas")
            found = max((pool.num_threads for pool in pools.lib_controllers), default=1)
            if found > 1:  # the first, or a library that was loaded since
                self.limits.append(pools.limit(limits=1))
            self.under_way += runs
            return found

    def end(self) -> None:
        """Count one less; BLAS has its threads back after the last."""
        with self.lock:
            self.under_way -= 1
            while self.limits and not self.under_way and not self.for_good:
                self.limits.pop().restore_original_limits()


_runs = _Runs()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread inside the ``with``, in all threads of this process. Costs some milliseconds."""
    _runs.begin()
    try:
        yield
    finally:
        _runs.end()


def one_blas_thread_for_good() -> int:
    """Hold BLAS to one thread for as long as this process lives; the threads it had before, at least 1."""
    _runs.for_good = True
    return _runs.begin(0)


def runs_under_way() -> int:
    """How many runs this process has now, those of all its threads."""
    return _runs.under_way


def _after_fork() -> None:
    """Runs of the parent's threads do not go on here."""
    _runs.lock, _runs.under_way = Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
