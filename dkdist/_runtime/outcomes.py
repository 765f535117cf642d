"""Outcomes of tasks: a value or the first error, and warnings about sets.

Errors about data are values until they reach the process that started the run. Dask would log the traceback of every
failed task on its worker, and raise the error of the task that failed first in time. The run raises the error of the
first rows instead, which is the same in every run.

Warnings about sets are also part of the outcome. The run merges those of all blocks into one, with the total count,
and issues it at the line of the user. Arrays that the user computes on threads do the same at the end of a computation.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import IntEnum
from sys import getsizeof
from typing import Any

from dkdist._numba.arrays import I64
from dkdist._runtime.process import current_worker, warn
from dkdist._utils.validation import find_user_call

MAX_LISTED_POSITIONS = 10  # maximum number of sets listed in a message; origin unknown


class WarningStep(IntEnum):
    """Steps of a pipeline that warn about skipped sets, in their order."""

    FIT = 0
    ROWS = 1
    LEARNER = 2


@dataclass(frozen=True)
class SetWarning:
    """Warning about sets: its text contains ``{n_sets}``, ``{positions}``, ``{first}``, ``{n_points}``, ``{reason}``.

    ``positions`` are the first ones in the collection, and ``reason`` is the error of the first set. The sets are
    skipped if ``n_points`` is 0, otherwise this is the number of their affected points. ``step`` is the step of the
    pipeline that warns.
    """

    text: str
    n_sets: int
    positions: tuple[int, ...]
    reason: str = ""
    n_points: int = 0
    step: WarningStep = WarningStep.FIT

    @classmethod
    def of(
        cls,
        text: str,
        positions: Sequence[int] | I64,
        reason: str = "",
        n_points: int = 0,
        step: WarningStep = WarningStep.FIT,
    ) -> SetWarning:
        """Return the warning about sets at sorted positions."""
        return cls(
            text,
            len(positions),
            tuple(int(i) for i in positions[:MAX_LISTED_POSITIONS]),
            reason,
            int(n_points),
            step,
        )

    def merge(self, other: SetWarning) -> SetWarning:
        """Return the warning about the sets of both, which differ."""
        first = self if self.positions <= other.positions else other
        positions = tuple(sorted(self.positions + other.positions)[:MAX_LISTED_POSITIONS])
        n_sets, n_points = self.n_sets + other.n_sets, self.n_points + other.n_points
        return replace(first, n_sets=n_sets, positions=positions, n_points=n_points)

    def __str__(self) -> str:
        more = ", ..." if self.n_sets > len(self.positions) else ""
        return self.text.format(
            n_sets=self.n_sets, positions=", ".join(map(str, self.positions)) + more,
            first=self.positions[0], n_points=self.n_points, reason=self.reason,
        )  # fmt: skip


SetWarnings = Mapping[str, SetWarning]
"""Merged warnings by text."""


def merge_warnings(parts: Iterable[SetWarnings]) -> dict[str, SetWarning]:
    """Return warnings of different sets, merged by text."""
    merged: dict[str, SetWarning] = {}
    for part in parts:
        for text, warning in part.items():
            merged[text] = merged[text].merge(warning) if text in merged else warning
    return merged


@dataclass(frozen=True)
class Outcome:
    """Value or error of a task, and the warnings of all tasks it depends on."""

    value: Any = None
    error: ValueError | None = None
    warnings: SetWarnings = field(default_factory=dict)

    def __sizeof__(self) -> int:
        """Return the size in bytes, from which a scheduler estimates the cost of a transfer."""
        return getsizeof(self.value)


def run_job(function: Callable[[], Any], quiet: bool) -> Outcome:
    """Return the outcome of ``function()``, without warnings if ``quiet``; other errors than ValueError are raised."""
    collected: list[SetWarning] = []
    token = collected_warnings.set(collected)
    try:
        value = function()
    except ValueError as error:
        return Outcome(error=_portable(error))
    finally:
        collected_warnings.reset(token)
    return Outcome(value, None, {} if quiet else merge_warnings({w.text: w} for w in collected))


def combine(function: Callable[..., Any], *outcomes: Outcome) -> Outcome:
    """Return the outcome of ``function`` applied to the values of the outcomes, or the first outcome with an error."""
    for outcome in outcomes:
        if outcome.error is not None:
            return outcome
    value = function(*(outcome.value for outcome in outcomes))
    return Outcome(value, None, merge_warnings(outcome.warnings for outcome in outcomes))


def _portable(error: ValueError) -> ValueError:
    """Return the error in a form that a worker can send; Dask replaces what it cannot pickle."""
    if current_worker() is None:
        return error
    from distributed.core import error_message  # local runs do not import distributed

    copy = pickle.loads(error_message(error)["exception"].data)
    return copy.with_traceback(None) if isinstance(copy, ValueError) else ValueError(str(error))


collected_warnings: ContextVar[list[SetWarning]] = ContextVar("collected_warnings")
"""Warnings of the running task."""


def issue(warning: SetWarning) -> None:
    """Warn at the line of the user, unless an earlier step of the same call has warned about the same sets.

    A step that is not later than the last one belongs to another call, for example in a loop.
    """
    global _last_warning
    subject = find_user_call(), warning.n_sets, warning.positions, warning.n_points
    last_subject, last_step = _last_warning
    _last_warning = subject, warning.step
    if subject != last_subject or warning.step <= last_step:
        warn(str(warning))


_last_warning: tuple[object, int] = None, 0
"""Call of the user and sets of the last warning, and its step."""
