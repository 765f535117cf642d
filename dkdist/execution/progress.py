"""Progress on standard error: one line, redrawn as blocks finish, in terminals and notebooks alike."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Counts blocks up to ``total`` and says how fast and for how long still; silent unless ``show``."""

    def __init__(self, total: int, label: str, *, show: bool, stream: TextIO | None = None) -> None:
        self.total, self.label, self.show = max(1, total), label, show
        self.done, self._started, self._stream = 0, time.monotonic(), stream or sys.stderr

    def advance(self, n: int, note: str = "") -> None:
        """Count ``n`` more blocks as done and redraw the line."""
        self.done += n
        if not self.show:
            return
        share = min(1.0, self.done / self.total)
        elapsed = time.monotonic() - self._started
        left = elapsed / share - elapsed if share else 0.0
        bar = "#" * round(24 * share)
        line = (
            f"\r{self.label} [{bar:<24}] {self.done}/{self.total} blocks, {elapsed:.0f} s, {left:.0f} s left"
        )
        print(f"{line} {note}   ", end="", file=self._stream, flush=True)

    def close(self) -> None:
        """End the line."""
        if self.show:
            print(file=self._stream, flush=True)
