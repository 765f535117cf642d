"""Events of runs: one stream per run, read by logging, ``verbose``, notebooks and the dashboard.

A `Progress` counts the work of a run in any thread and sends a `RunEvent` to its listeners, each at most once per
interval, and always at the end. INFO messages of the logger "dkdist" exist for every run. With ``verbose``, the line
of a terminal is redrawn and cut to its width, a notebook has one output that is replaced and saved, and a file gets a
line every ten seconds. Runs on a cluster also send events to its scheduler (`dashboard.py`).
"""

from __future__ import annotations

import html
import logging
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from time import monotonic
from typing import Any, Literal, Protocol, Self, TextIO

from dkdist._numba.compilation import COMPILE_WATCH, compiling_text
from dkdist._runtime._tuning import MIN_LOG_SECONDS
from dkdist._runtime.outcomes import Outcome, SetWarning, issue, merge_warnings

RunState = Literal["running", "compiling", "finished", "failed", "interrupted"]


@dataclass(frozen=True)
class RunEvent:
    """State of a run: ``done`` of ``total`` units, and the losses of SGD after ``epochs`` epochs.

    ``n_skipped`` counts invalid sets that the run skipped. Runs that converge finish before ``total``.
    """

    run: str
    stage: str
    total: int
    unit: str = "blocks"
    done: int = 0
    seconds: float = 0.0
    state: RunState = "running"
    epochs: float | None = None
    loss: float | None = None
    held_out: float | None = None
    n_skipped: int = 0

    @property
    def is_over(self) -> bool:
        """Whether this is the last event of the run."""
        return self.state not in ("running", "compiling")

    @property
    def fraction(self) -> float:
        """Fraction of the work that is done, from 0 to 1."""
        return min(1.0, self.done / self.total)

    @property
    def remaining_seconds(self) -> float | None:
        """Estimated seconds until the end; None before the first unit is done, and after the end."""
        return None if self.is_over or not self.done else self.seconds / self.fraction - self.seconds

    @property
    def figures(self) -> str:
        """Losses and skipped sets as text, each after a comma."""
        values = {"epoch": self.epochs, "loss": self.loss, "held-out loss": self.held_out}
        parts = [
            f", {name} {value:.6g}" for name, value in values.items() if value is not None and value == value
        ]
        return "".join(parts) + (f", {self.n_skipped:,} sets skipped" if self.n_skipped else "")

    @property
    def text(self) -> str:
        """Counts, seconds and losses as text."""
        if self.state == "compiling":
            return compiling_text()
        if self.is_over:
            total = "" if self.done == self.total else f" of {self.total:,}"
            rate = f", {self.done / self.seconds:.3g} per second" if self.done and self.seconds else ""
            end = "" if self.state == "finished" else f" ({self.state})"
            text = f"{self.done:,}{total} {self.unit} in {self.seconds:.1f} s{rate}{end}"
        else:
            text = f"{self.done:,}/{self.total:,} {self.unit}, {self.seconds:.0f} s"
            if self.remaining_seconds is not None:
                text += f", {self.remaining_seconds:.0f} s remaining"
        return text + self.figures

    def __str__(self) -> str:
        bar = f" [{'#' * round(24 * self.fraction):<24}]" if self.state == "running" else ":"
        return f"{self.stage}{bar} {self.text}"


class Listener(Protocol):
    """Receiver of events, at most one per ``interval`` seconds and the last one."""

    interval: float

    def update(self, event: RunEvent) -> None: ...


class Progress:
    """Counter of a run of ``total`` units; a context manager that sends the last event at its end.

    All graphs that advance it form one run. ``show`` adds a line on standard error, or an output of the notebook.
    """

    def __init__(
        self,
        total: int,
        label: str,
        *,
        show: bool = False,
        stream: TextIO | None = None,
        unit: str = "blocks",
    ) -> None:
        self.event = RunEvent(str(uuid.uuid4()), label, max(1, total), unit)
        self._warnings: dict[str, SetWarning] = {}
        self._changed, self._started, self._show = RLock(), monotonic(), show
        self._last_sent: dict[Listener, float] = {}
        self._stack = ExitStack()
        if _LOG.isEnabledFor(logging.INFO):
            self.attach(_LogRecords())
        if show:
            self.attach(_progress_line(stream))

    @property
    def done(self) -> int:
        """Number of units that are done."""
        return self.event.done

    def attach(self, listener: Listener) -> None:
        """Send events to a further listener, unless an equal one receives them."""
        with self._changed:
            self._last_sent.setdefault(listener, self._started)

    def advance(self, n: int) -> None:
        """Count ``n`` more units as done."""
        with self._changed:
            self._send(replace(self.event, done=self.event.done + n))

    def measure(self, epochs: float, loss: float, held_out: float) -> None:
        """Set the losses after ``epochs`` epochs, for the next event."""
        with self._changed:
            self.event = replace(self.event, epochs=epochs, loss=loss, held_out=held_out)

    def settle(self, outcome: Any) -> Any:
        """Return the value of an `Outcome` or raise its error; add its warnings. Return other values unchanged."""
        if not isinstance(outcome, Outcome):
            return outcome
        if outcome.error is not None:
            raise outcome.error
        if outcome.warnings:
            with self._changed:
                self._warnings = merge_warnings([self._warnings, outcome.warnings])
                n_skipped = sum(w.n_sets for w in self._warnings.values() if not w.n_points)
                self.event = replace(self.event, n_skipped=n_skipped)
        return outcome.value

    def pop_reason(self) -> str:
        """Return the error of the first skipped set and omit the warning, for callers that warn of skipped rows."""
        with self._changed:
            skipped = [text for text, warning in self._warnings.items() if not warning.n_points]
            return next((self._warnings.pop(text).reason for text in skipped), "")

    def close(self, state: RunState = "finished") -> None:
        """Send the last event, once, and warn about sets if the run has finished."""
        with self._changed:
            if self.event.is_over:
                return
            self._send(replace(self.event, state=state))
            self._stack.close()
        if state == "finished":
            for warning in self._warnings.values():
                issue(warning)

    def __enter__(self) -> Self:
        if self._last_sent:
            self._stack.enter_context(COMPILE_WATCH.telling(self._tell_compiling))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failure: RunState = "failed" if kind and issubclass(kind, Exception) else "interrupted"
        self.close("finished" if kind is None else failure)

    def _tell_compiling(self) -> None:
        with self._changed:
            self._send(replace(self.event, state="compiling"), now=True)
            self.event = replace(self.event, state="running")

    def _send(self, event: RunEvent, *, now: bool = False) -> None:
        if self.event.is_over:
            return  # late reports of threads
        seconds = monotonic()
        self.event = event = replace(event, seconds=seconds - self._started)
        for listener, last in self._last_sent.items():
            if now or event.is_over or seconds - last >= listener.interval:
                self._last_sent[listener] = seconds
                listener.update(event)


@contextmanager
def tracked(progress: Progress | None, total: int, label: str) -> Iterator[Progress]:
    """Yield the progress of a larger run, or that of a run of its own if it is None."""
    if progress is not None:
        yield progress
        return
    with Progress(total, label) as own_progress:
        yield own_progress


_LOG = logging.getLogger("dkdist")


class _LogRecords:
    interval = MIN_LOG_SECONDS

    def update(self, event: RunEvent) -> None:
        _LOG.info("%s", event)


class _Terminal:
    interval = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def update(self, event: RunEvent) -> None:
        text = str(event)[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be redrawn
        end = "\n" if event.is_over else ""
        print(f"\r{text:<{self._width}}", end=end, file=self._stream, flush=True)
        self._width = len(text)


class _LogFile:
    interval = MIN_LOG_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def update(self, event: RunEvent) -> None:
        print(event, file=self._stream, flush=True)


class _Notebook:
    """One output of the cell, which is replaced; a saved notebook contains the last one."""

    interval = 0.25

    def __init__(self) -> None:
        from IPython.display import display

        self._display, self._display_id = display, uuid.uuid4().hex
        display({"text/plain": ""}, raw=True, display_id=self._display_id)

    def update(self, event: RunEvent) -> None:
        fraction = 1.0 if event.state == "finished" else event.fraction
        text = html.escape(f"{event.stage}: {event.text}")
        data = {"text/plain": str(event), "text/html": f'<progress value="{fraction:.3f}"></progress> {text}'}
        self._display(data, raw=True, display_id=self._display_id, update=True)


def _progress_line(stream: TextIO | None) -> Listener:
    if stream is None and _in_notebook():
        return _Notebook()
    stream = stream or sys.stderr
    return _Terminal(stream) if stream.isatty() else _LogFile(stream)


def _in_notebook() -> bool:
    """Return whether this process runs a notebook, which has no terminal but can replace an output."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
