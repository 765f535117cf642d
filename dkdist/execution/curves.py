"""Curves of a run for a dashboard: losses that tasks report, and blocks that are done.

A task reports at most four times a second and process: what is fitted, how far it is, and two numbers, as an event
"dkdist" of the cluster. The other half is kept where the events arrive: a few hundred points a run, whatever its
length.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dask.base import get_annotations

TOPIC = "dkdist"  # of events
ANNOTATION = "dkdist"  # of tasks: their stage, and the blocks that one of them uses up
INTERVAL = 0.25  # seconds between two reports of a process
MOST_POINTS = 1000  # of a curve
MOST_RUNS = 8  # whose curves are kept
HISTORY = 300  # seconds for which rates are kept
SMOOTHING = 5  # seconds that a rate is a mean of

Point = tuple[int, float, float]
"""Blocks used, training loss, held-out loss (NaN where nothing is held out)."""

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
    worker, now = _own_worker(), time.monotonic()
    if worker is None or now - _last_report < INTERVAL:
        return
    _last_report = now
    span = get_annotations().get("span", {"name": ("fit",), "ids": ("",)})
    share = epochs % 1.0 or 1.0
    training, held_out = (
        share * new + (1 - share) * old for new, old in zip(losses, before or losses, strict=True)
    )
    worker.log_event(
        TOPIC,
        {
            "run": span["ids"][-1],
            "what": span["name"][-1],
            "epochs": epochs,
            "blocks": round(epochs * blocks_an_epoch),
            "loss": training,
            "held_out": held_out,
        },
    )


def _own_worker() -> Any | None:
    """The worker whose task this is; what is not imported cannot have called us."""
    distributed: Any = sys.modules.get("distributed.worker")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:
        return None


class LossCurve:
    """Losses of one run against the blocks that it has used, over all epochs.

    All of the run is kept, from its first report on: when there are too many points every second one goes, and of what
    follows only every second report is kept.
    """

    def __init__(self, what: str) -> None:
        self.what, self.epochs = what, 0.0
        self.latest: Point = (0, float("nan"), float("nan"))
        self.points: list[Point] = []
        self._n_reports, self._every = 0, 1

    def add(self, epochs: float, point: Point) -> None:
        """Take one report."""
        self.epochs, self.latest = epochs, point
        if self._n_reports % self._every == 0:
            self.points.append(point)
        self._n_reports += 1
        if len(self.points) > MOST_POINTS:
            self._every *= 2
            del self.points[1::2]


@dataclass
class Rate:
    """Blocks of one stage: all of them, and second by second those of the last five minutes."""

    total: float = 0.0
    seconds: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def add(self, blocks: float, now: float) -> None:
        """Count blocks that are done now."""
        self.total += blocks
        second = int(now)
        before = self.seconds.pop()[1] if self.seconds and self.seconds[-1][0] == second else 0.0
        self.seconds.append((second, before + blocks))

    def series(self, now: float) -> tuple[list[int], list[float]]:
        """Seconds, and blocks a second as a mean over the five that end there; up to the last full second."""
        counts = dict(self.seconds)
        first, last = max(min(counts), int(now) - HISTORY), min(max(counts) + SMOOTHING + 1, int(now))
        seconds = list(range(first, last))
        return seconds, [sum(counts.get(s - i, 0.0) for i in range(SMOOTHING)) / SMOOTHING for s in seconds]


class Curves:
    """The curves of the last runs, and the rates of all stages."""

    def __init__(self) -> None:
        self.runs: OrderedDict[str, LossCurve] = OrderedDict()
        self.rates: dict[str, Rate] = {}

    def reported(self, event: Mapping[str, Any]) -> None:
        """Take one event of `report_loss`."""
        run, what = str(event["run"]), str(event["what"])
        point = int(event["blocks"]), float(event["loss"]), float(event["held_out"])
        self.runs.setdefault(run, LossCurve(what)).add(float(event["epochs"]), point)
        while len(self.runs) > MOST_RUNS:
            self.runs.popitem(last=False)

    def finished(self, stage: str, blocks: float, now: float) -> None:
        """Count the blocks of a task that is done."""
        self.rates.setdefault(stage, Rate()).add(blocks, now)
