"""Progress of a run: a line on standard error, in a notebook or in a log file, and losses for the dashboard.

The line of a terminal is cut to its width, so that it never wraps; a notebook has one output that is replaced; a file
gets a line every ten seconds. Any thread can advance the count. A `Progress` also identifies the run: all graphs that
advance it form one run on a cluster's dashboard. Tasks report losses for its curve as "dkdist" events of the cluster,
at most four times per second and process.
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

from dkdist._numba.compilation import COMPILE_WATCH
from dkdist._runtime._tuning import MIN_REPORT_SECONDS

EVENT_TOPIC = "dkdist"  # topic of the events that report losses
ANNOTATION = "dkdist"  # key of the annotation with the stage and the blocks per task


class Progress:
    """Counter of blocks up to ``total``; prints rate and remaining time if ``show``."""

    def __init__(
        self, total: int, label: str, *, show: bool, stream: TextIO | None = None, unit: str = "blocks"
    ) -> None:
        self.total, self.label, self.show, self._unit = max(1, total), label, show, unit
        self.run_id = str(uuid.uuid4())
        self.done = 0
        self._started = self._last_drawn = monotonic()
        self._changed, self._closed = Lock(), False
        self._line = _progress_line(stream) if show else None

    def advance(self, n: int, note: str = "") -> None:
        """Count ``n`` more blocks as done and redraw the line, at most once per interval."""
        with self._changed:
            self.done += n
            now = monotonic()
            if self._line is not None and not self._closed and now - self._last_drawn >= self._line.interval:
                self._last_drawn = now
                self._line.draw(f"{self._text(now - self._started)} {note}".rstrip())

    def close(self) -> None:
        """Print the number of blocks and the seconds, and end the line."""
        with self._changed:
            if self._line is not None and not self._closed:
                seconds = monotonic() - self._started
                total = "" if self.done == self.total else f" of {self.total:,}"
                rate = f", {self.done / seconds:.3g} per second" if self.done and seconds else ""
                self._line.end(f"{self.label}: {self.done:,}{total} {self._unit} in {seconds:.1f} s{rate}")
            self._closed = True

    def _text(self, elapsed: float) -> str:
        fraction = min(1.0, self.done / self.total)
        remaining = f", {elapsed / fraction - elapsed:.0f} s remaining" if fraction else ""
        bar = "#" * round(24 * fraction)
        return (
            f"{self.label} [{bar:<24}] {self.done:,}/{self.total:,} {self._unit}, {elapsed:.0f} s{remaining}"
        )


@contextmanager
def show_progress(total: int, label: str, unit: str, show: bool) -> Iterator[Progress]:
    """Yield the progress of ``total`` units; print a line when functions are first compiled."""
    compiling = COMPILE_WATCH.telling(print_compiling_text) if show else nullcontext()
    with compiling, closing(Progress(total, label, show=show, unit=unit)) as progress:
        yield progress


def print_compiling_text() -> None:
    """Print on standard error that functions are being compiled."""
    from dkdist._numba.compilation import compiling_text  # Numba is already imported

    print(compiling_text(), file=sys.stderr, flush=True)


class _Line(Protocol):
    """Output stream of the progress line, and the minimum interval between updates in seconds."""

    interval: float

    def draw(self, text: str) -> None: ...

    def end(self, text: str) -> None: ...


class _Terminal:
    interval = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be redrawn
        print(f"\r{text:<{self._width}}", end="", file=self._stream, flush=True)
        self._width = len(text)

    def end(self, text: str) -> None:
        self.draw(text)
        print(file=self._stream, flush=True)


class _Log:
    interval = 10.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draw(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    end = draw


class _Notebook:
    """One output of the cell, which is replaced; a saved notebook would contain every redrawn line."""

    interval = 0.25

    def __init__(self) -> None:
        from IPython.display import display

        self._display, self._display_id = display, uuid.uuid4().hex
        display({"text/plain": ""}, raw=True, display_id=self._display_id)

    def draw(self, text: str) -> None:
        self._display({"text/plain": text}, raw=True, display_id=self._display_id, update=True)

    end = draw


def _progress_line(stream: TextIO | None) -> _Line:
    if stream is None and _in_notebook():
        return _Notebook()
    stream = stream or sys.stderr
    return _Terminal(stream) if stream.isatty() else _Log(stream)


def _in_notebook() -> bool:
    """Return whether this process runs a notebook, which has no terminal but can replace an output."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


_last_report = float("-inf")


def report_loss(
    epochs: float, blocks_per_epoch: int, losses: tuple[float, float], previous: tuple[float, ...]
) -> None:
    """Send the (training, held-out) loss after ``epochs`` epochs to the dashboard; only inside tasks of a cluster.

    ``losses`` are means of the current epoch so far, ``previous`` those of the previous epoch, () in the first epoch.
    The curve shows their mean weighted by blocks: it is continuous at the start of an epoch, and at its end equals the
    loss curve of the estimator.
    """
    global _last_report
    worker, now = _current_worker(), monotonic()
    if worker is None or now - _last_report < MIN_REPORT_SECONDS:
        return
    _last_report = now
    from dask.base import get_annotations  # imported only in processes that use Dask

    span = get_annotations().get("span", {"name": ("fit",), "ids": ("",)})
    fraction = epochs % 1.0 or 1.0
    training, held_out = (
        fraction * new + (1 - fraction) * old for new, old in zip(losses, previous or losses, strict=True)
    )
    worker.log_event(
        EVENT_TOPIC,
        {
            "run": span["ids"][-1],
            "what": span["name"][-1],
            "epochs": epochs,
            "blocks": round(epochs * blocks_per_epoch),
            "loss": training,
            "held_out": held_out,
        },
    )


def _current_worker() -> Any | None:
    """Return the worker of the current task, or None outside of tasks."""
    distributed: Any = sys.modules.get("distributed.worker")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:
        return None
