"""Sets of many points, run by run: what is a mean over points is a mean over each run first, then over runs.

    mean over a set = sum_r W_r (mean over run r) / sum_r W_r        W_r: the weight of the points of run r

Runs are 4 MiB of points (`dkdist.loops.points.run_length`), from the first one of the set on. Compiled loops see one
run, in float32, and runs are taken together in float64. So a set that comes from a store in pieces, cut anew into
runs, has the bits of the same set in memory, and no set needs more memory than a run does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.points import are_long, run_length, weight_totals
from dkdist.sets import SampleSets


def one_set(points: F32, weights: F32 | None) -> SampleSets:
    """The points of a run, as a set of their own."""
    return SampleSets._trusted(points, np.array([0, len(points)]), weights)


class CutPieces:
    """Pieces of a set that come one by one, cut at multiples of ``length`` points, and then handed to ``use``."""

    def __init__(self, length: int, use: Callable[[F32, F32 | None], None]) -> None:
        self._length, self._use = length, use
        self._rest: tuple[F32, F32 | None] | None = None

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        if self._rest is not None:
            before, masses = self._rest
            points = np.concatenate([before, points])
            weights = None if weights is None or masses is None else np.concatenate([masses, weights])
        whole = len(points) - len(points) % self._length
        if whole:
            self._use(points[:whole], None if weights is None else weights[:whole])
        self._rest = points[whole:].copy(), None if weights is None else weights[whole:].copy()

    def end(self) -> None:
        """There are no more."""
        if self._rest is not None and len(self._rest[0]):
            self._use(*self._rest)
        self._rest = None


class RowOfRuns:
    """The row of a set of d dimensions that comes in pieces: ``take(run, W)`` sees each run that weighs more than
    nothing and its weight, ``made()`` is the row then.
    """

    def __init__(self, d: int, take: Callable[[SampleSets, float], None], made: Callable[[], F32]) -> None:
        self._take, self._made, self._length = take, made, run_length(d)
        self._pieces = CutPieces(self._length, self._use)

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        self._pieces.add(points, weights)

    def row(self) -> F32:
        """The row (m,), after the last."""
        self._pieces.end()
        return self._made()

    def _use(self, points: F32, weights: F32 | None) -> None:
        for run, weight in _runs(points, weights, 0, len(points), self._length):
            self._take(run, weight)


Compute = Callable[[SampleSets, I64], F32]
"""Numbers (n_spans, k) of the sets at spans (n_spans, 2): the first row of each and the row after its last."""


class MeanOfRuns:
    """The mean of what ``compute`` gives for each run: k numbers."""

    def __init__(self, compute: Compute) -> None:
        self._compute, self._weight = compute, 0.0
        self._sum: F64 | None = None

    def take(self, run: SampleSets, weight: float) -> None:
        """One more run."""
        more = weight * self._compute(run, spans_of(run)).reshape(-1).astype(np.float64)
        self._sum = more if self._sum is None else self._sum + more
        self._weight += weight

    def mean(self) -> F32:
        """(k,) of all runs."""
        assert self._sum is not None
        return (self._sum / self._weight).astype(np.float32)


def runs_of(sets: SampleSets, span: I64) -> Iterator[tuple[SampleSets, float]]:
    """The runs of the set at a span, and their weights; those of weight zero are left out."""
    weights = None if sets.weights is None else sets.weights.reshape(-1)
    yield from _runs(sets.relative, weights, int(span[0]), int(span[1]), run_length(sets.n_dims))


def spans_of(sets: SampleSets) -> I64:
    """(n_sets, 2) the first row of each set and the row after its last."""
    return sets.offsets.repeat(2)[1:-1].reshape(-1, 2)


def compute_by_runs(compute: Compute, sets: SampleSets, spans: I64) -> F32:
    """``compute(sets, spans)``, for sets of many points the mean over their runs."""
    long = are_long(spans, sets.n_dims)
    if not long.any():
        return compute(sets, spans)
    rows = [_mean_of_runs(compute, sets, span) for span in spans[long]]
    out = np.empty((len(spans), len(rows[0])), np.float32)
    out[long] = rows
    if not long.all():
        out[~long] = compute(sets, spans[~long])
    return out


def _mean_of_runs(compute: Compute, sets: SampleSets, span: I64) -> F32:
    means = MeanOfRuns(compute)
    for run, weight in runs_of(sets, span):
        means.take(run, weight)
    return means.mean()


def _runs(
    points: F32, weights: F32 | None, start: int, stop: int, length: int
) -> Iterator[tuple[SampleSets, float]]:
    for a, b in itertools.pairwise([*range(start, stop, length), stop]):
        masses = None if weights is None else weights[a:b]
        total = float(b - a) if masses is None else float(weight_totals(masses, np.array([0, b - a]))[0])
        if total > 0:
            yield one_set(points[a:b], masses), total
