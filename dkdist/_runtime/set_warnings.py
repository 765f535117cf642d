"""Warnings about sets: collected by the task or the computation that calls, and issued once at its end."""

from __future__ import annotations

from time import monotonic

from dask.callbacks import Callback

from dkdist._runtime._tuning import MIN_WARNING_SECONDS
from dkdist._runtime.outcomes import SetWarning, collected_warnings, issue, merge_warnings
from dkdist._runtime.process import current_worker, warn


def warn_of_sets(warning: SetWarning, *, workers_warn: bool = True) -> None:
    """Add a warning to the outcome of the current task or to the current computation, or issue it now.

    No step of dkdist follows a computation that the user runs on a cluster, so it cannot warn once. Each of its workers
    sends a warning if ``workers_warn``.
    """
    collected = collected_warnings.get(None)
    if collected is None and COMPUTATIONS.n_active:
        collected = COMPUTATIONS.collected
    if collected is not None:
        collected.append(warning)
    elif current_worker() is None:
        issue(warning)
    elif workers_warn and monotonic() - _sent_seconds.get(warning.text, float("-inf")) >= MIN_WARNING_SECONDS:
        _sent_seconds[warning.text] = monotonic()
        warn(f"{warning} Other blocks may contain more such sets.")


_sent_seconds: dict[str, float] = {}
"""Times of the warnings of this worker by text."""


class _Computations(Callback):
    """Computations of the user on Dask's local schedulers: warnings are issued once, at the end of each."""

    def __init__(self) -> None:
        super().__init__()
        self.n_active = 0
        self.collected: list[SetWarning] = []

    def _start(self, graph: object) -> None:
        self.n_active += 1

    def _finish(self, graph: object, state: object, errored: bool) -> None:
        self.n_active -= 1
        collected, self.collected = self.collected, []
        if not errored:
            for warning in merge_warnings({w.text: w} for w in collected).values():
                issue(warning)


COMPUTATIONS = _Computations()
