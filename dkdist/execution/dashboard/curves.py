"""Curves of a run for a dashboard: losses that tasks report, and blocks that are done.

What tasks report (`report_loss`) is kept where the events arrive: a few hundred points a run, whatever its length.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_POINTS = 1000  # of a curve
MOST_RUNS = 8  # whose curves are kept
HISTORY = 300  # seconds for which rates are kept
SMOOTHING = 5  # seconds that a rate is a mean of

Point = tuple[int, float, float]
"""Blocks used, training loss, held-out loss (NaN where nothing is held out)."""


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
