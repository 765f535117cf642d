"""Progress of a run: a line on standard error, redrawn or written now and then in log files; losses for a dashboard.

A terminal's line is cut to its width, so that it never wraps; a notebook's is one output that is replaced; a file gets
a line every ten seconds. Blocks are counted from any thread. The count also names the run: all graphs that advance one
progress are one run on a cluster's dashboard, where its loss curve is drawn of what tasks report: at most four times a
second and process, what is fitted, how far it is, and two numbers, as an event "dkdist" of the cluster.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from threading import Lock
from time import monotonic
from typing import Any, Protocol, TextIO

from dkdist._numba.compilation import WATCH

EVENT_TOPIC = "dkdist"  # of events
ANNOTATION = "dkdist"  # of tasks: their stage, and the blocks that one of them uses up
MIN_REPORT_SECONDS = 0.25  # seconds between two reports of a process


class Progress:
    """Counts blocks up to ``total`` and says how fast and for how long still; silent unless ``show``."""

    def __init__(
        self, total: int, label: str, *, show: bool, stream: TextIO | None = None, unit: str = "blocks"
    ) -> None:
        self.total, self.label, self.show, self._unit = max(1, total), label, show, unit
        self.run_id = str(uuid.uuid4())
        self.done = 0
        self._started = self._drawn = monotonic()
        self._changed, self._closed = Lock(), False
        self._line = _progress_line(stream) if show else None

    def advance(self, n: int, note: str = "") -> None:
        """Count ``n`` more blocks as done and redraw the line, if it was not drawn a moment ago."""
        with self._changed:
            self.done += n
            now = monotonic()
            if self._line is not None and not self._closed and now - self._drawn >= self._line.every:
                self._drawn = now
                self._line.draw(f"{self._text(now - self._started)} {note}".rstrip())

    def close(self) -> None:
        """Say how many blocks were done in what time, and end the line."""
        with self._changed:
            if self._line is not None and not self._closed:
                seconds = monotonic() - self._started
                of = "" if self.done == self.total else f" of {self.total:,}"
                rate = f", {self.done / seconds:.3g} a second" if self.done and seconds else ""
                self._line.end(f"{self.label}: {self.done:,}{of} {self._unit} in {seconds:.1f} s{rate}")
            self._closed = True

    def _text(self, elapsed: float) -> str:
        share = min(1.0, self.done / self.total)
        left = f", {elapsed / share - elapsed:.0f} s left" if share else ""
        bar = "#" * round(24 * share)
        return f"{self.label} [{bar:<24}] {self.done:,}/{self.total:,} {self._unit}, {elapsed:.0f} s{left}"


@contextmanager
def show_progress(total: int, label: str, unit: str, show: bool) -> Iterator[Progress]:
    """The progress of ``total`` units; within it a line says once that functions are being compiled."""
    compiling = WATCH.telling(print_compiling_text) if show else nullcontext()
    with compiling, closing(Progress(total, label, show=show, unit=unit)) as progress:
        yield progress


def print_compiling_text() -> None:
    """Say on standard error that functions are being compiled."""
    from dkdist._numba.compilation import compiling_text  # numba is imported by now

    print(compiling_text(), file=sys.stderr, flush=True)


class _Line(Protocol):
    """Where the line is drawn, and how many seconds apart at least."""

    every: float

    def draw(self, text: str) -> None: ...

    def end(self, text: str) -> None: ...


class _Terminal:
    every = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be redrawn
        print(f"\r{text:<{self._width}}", end="", file=self._stream, flush=True)
        self._width = len(text)

    def end(self, text: str) -> None:
        self.draw(text)
        print(file=self._stream, flush=True)


class _Log:
    every = 10.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draw(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    end = draw


class _Notebook:
    """One output of the cell, replaced as a whole: carriage returns would all be kept in the saved notebook."""

    every = 0.25

    def __init__(self) -> None:
        from IPython.display import display

        self._display, self._shown = display, uuid.uuid4().hex
        display({"text/plain": ""}, raw=True, display_id=self._shown)

    def draw(self, text: str) -> None:
        self._display({"text/plain": text}, raw=True, display_id=self._shown, update=True)

    end = draw


def _progress_line(stream: TextIO | None) -> _Line:
    if stream is None and _in_notebook():
        return _Notebook()
    stream = stream or sys.stderr
    return _Terminal(stream) if stream.isatty() else _Log(stream)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which has no terminal but can replace an output."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


_last_report = float("-inf")


def report_loss(
    epochs: float, blocks_an_epoch: int, losses: tuple[float, float], before: tuple[float, ...]
) -> None:
    """Tell the cluster's dashboard of the (training, held-out) loss after some epochs, 1.5 say; elsewhere do nothing.

    ``losses`` are means of the epoch so far, ``before`` those of the epoch before, () in the first. The curve shows
    their mean, weighted as blocks of this epoch and of that one: it is smooth where an epoch begins, and what the
    estimator's own curve holds where it ends.
    """
    global _last_report
    worker, now = _current_worker(), monotonic()
    if worker is None or now - _last_report < MIN_REPORT_SECONDS:
        return
    _last_report = now
    from dask.base import get_annotations  # what a process without Dask does not need

    span = get_annotations().get("span", {"name": ("fit",), "ids": ("",)})
    share = epochs % 1.0 or 1.0
    training, held_out = (
        share * new + (1 - share) * old for new, old in zip(losses, before or losses, strict=True)
    )
    worker.log_event(
        EVENT_TOPIC,
        {
            "run": span["ids"][-1],
            "what": span["name"][-1],
            "epochs": epochs,
            "blocks": round(epochs * blocks_an_epoch),
            "loss": training,
            "held_out": held_out,
        },
    )


def _current_worker() -> Any | None:
    """The worker whose task this is; what is not imported cannot have called us."""
    distributed: Any = sys.modules.get("distributed.worker")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:
        return None
