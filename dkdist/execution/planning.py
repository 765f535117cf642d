"""What a run would read and hold, without running it: it goes as far as its plan, which is then all that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

_ONLY_PLANNED: ContextVar[bool] = ContextVar("only_planned", default=False)


class _PlannedError(Exception):
    """A run has come to its plan."""

    def __init__(self, plan: Any) -> None:
        super().__init__(str(plan))
        self.plan = plan


def plan_of(start: Callable[[], Any]) -> Any:
    """The plan of the run that ``start`` begins, which ends before its first task; RuntimeError if it makes no plan."""
    token = _ONLY_PLANNED.set(True)
    try:
        start()
    except _PlannedError as found:
        return found.plan
    finally:
        _ONLY_PLANNED.reset(token)
    raise RuntimeError("what was started has come to its end without a plan")


def stop_if_only_planned(plan: Any) -> None:
    """Let a run go on, unless its plan is all that is wanted."""
    if _ONLY_PLANNED.get():
        raise _PlannedError(plan)
