"""Parameters of moment embeddings: sample sets -> means and covariances, in units fixed for all sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Specification
from dkdist.base.influence import shares
from dkdist.base.point_runs import RowOfRuns, runs_of, spans_of
from dkdist.loops.array_types import F32, F64
from dkdist.loops.points import are_long
from dkdist.moments.moments_loops import moments
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class MomentSpec(Specification[Any]):
    """What defines a moment embedding, in plain numbers: moments up to ``degree`` of (x - centre) / scale."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    degree: int

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def domain(self) -> None:
        """None: points may lie anywhere."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        d = self.n_dims
        return d if self.degree == 1 else d + d * (d + 1) // 2

    def column_names(self, names: Sequence[str]) -> list[str]:
        """mean_NAME, then cov_NAME_NAME."""
        means = [f"mean_{name}" for name in names]
        pairs = combinations_with_replacement(names, 2)
        return means if self.degree == 1 else means + [f"cov_{a}_{b}" for a, b in pairs]

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32. Sets of many points are taken run by run."""
        spans = spans_of(sets)
        long = np.flatnonzero(are_long(spans, sets.n_dims))
        if not len(long):
            return self._at_once(sets)
        out, short = np.empty((len(sets), self.n_features), np.float32), np.delete(np.arange(len(sets)), long)
        for i in long:
            pooled = PooledMoments(self._at_once, self.n_dims)
            for run, weight in runs_of(sets, spans[i]):
                pooled.take(run, weight)
            out[i] = pooled.row()
        if len(short):
            out[short] = self._at_once(sets[short])
        return out

    def row_sum(self, n_points: int, weight: float) -> RowOfRuns:
        """The row (m,) of one set that comes in pieces: the same bits as of all at once."""
        pooled = PooledMoments(self._at_once, self.n_dims)
        return RowOfRuns(self.n_dims, pooled.take, pooled.row)

    def _at_once(self, sets: SampleSets) -> F32:
        units = np.array(self.centre), np.array(self.scale)
        return moments(sets.relative, sets.offsets, sets.weights, *units, self.degree)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: y for the mean, (y - mean) (y - mean)' for the
        covariance.
        """
        y, d = self._in_units(at), self.n_dims
        found = y @ gradient[:d]
        if self.degree == 2:
            y = y - shares(one) @ self._in_units(one.relative)
            i, j = np.triu_indices(d)
            found += (y[:, i] * y[:, j] * np.where(i == j, 1, np.sqrt(2))) @ gradient[d:]
        return found

    def _in_units(self, points: F32) -> F64:
        return np.asarray((points - np.array(self.centre)) / np.array(self.scale))


class PooledMoments:
    """Means and covariances of runs, of weights W and W', taken together (Chan, Golub, LeVeque 1979):

        mean = mean + t (mean' - mean),    cov = (1 - t) cov + t cov' + t (1 - t) (mean' - mean) (mean' - mean)'

    with t = W' / (W + W').
    """

    def __init__(self, of_run: Callable[[SampleSets], F32], d: int) -> None:
        self._of_run, self._d, self._weight = of_run, d, 0.0
        self._row: F64 | None = None

    def take(self, run: SampleSets, weight: float) -> None:
        """One more run."""
        own, d = self._of_run(run)[0].astype(np.float64), self._d
        self._weight += weight
        if self._row is None:
            self._row = own
            return
        t, apart = weight / self._weight, own[:d] - self._row[:d]
        self._row = self._row + t * (own - self._row)
        if len(own) > d:
            i, j = np.triu_indices(d)
            self._row[d:] += t * (1 - t) * apart[i] * apart[j] * np.where(i == j, 1, np.sqrt(2))

    def row(self) -> F32:
        """The mean, and the covariance as in `MomentSpec`."""
        assert self._row is not None
        return self._row.astype(np.float32)
