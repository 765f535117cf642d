"""A process that is killed after it saved a checkpoint, simulated by an exception that no code catches."""

from __future__ import annotations

from typing import Any

from dkdist._runtime.checkpoint import Checkpoint


class SimulatedKill(BaseException):
    """End of the simulated process."""


def kill_after_saves(monkeypatch: Any, remaining: list[int]) -> None:
    """Raise `SimulatedKill` after ``remaining[0]`` more checkpoints; a test may change the number later."""
    save = Checkpoint.save

    def save_then_fail(self: Checkpoint, *state: Any) -> None:
        save(self, *state)
        remaining[0] -= 1
        if remaining[0] == 0:
            raise SimulatedKill

    monkeypatch.setattr(Checkpoint, "save", save_then_fail)
