"""Parameters of histogram embeddings: sample sets -> histograms -> rows whose squared distances are divergences.

points --counting--> shares p_c of equal cells --p^(1/2 + i l_j)--> row,    |row_p - row_q|^2 ~ sum_c kappa(p_c, q_c)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dkdist.base.embedding_spec import LEAST_WIDTH, Domain, Specification, Tables, numbered
from dkdist.base.influence import each_alone
from dkdist.base.point_runs import MeanOfRuns, RowOfRuns, compute_by_runs, spans_of
from dkdist.densities.density_loops import amplitude_slopes, homogeneous_features, n_parts
from dkdist.densities.histogram_loops import histograms
from dkdist.loops.array_types import F32, F64, I64
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets

CELLS_AT_ONCE = 2**18  # of several sets: they stay in the second-level cache


@kept
@dataclass(frozen=True)
class HistogramSpec(Specification["HistogramParameters"]):
    """What defines a histogram embedding, in plain numbers; ``draw()`` makes the tables.

    ``structure`` is "joint" (cells of all dimensions) or "marginal" (bins of each dimension alone).
    """

    domain: Domain
    structure: str
    n_bins: int
    frequencies: tuple[float, ...]
    masses: tuple[float, ...]

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    @property
    def groups(self) -> list[tuple[int, int]]:
        """(first column, number of columns) of the dimensions that are counted together."""
        return [(0, self.n_dims)] if self.structure == "joint" else [(j, 1) for j in range(self.n_dims)]

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        cells = [int(self.n_bins**dims) for _, dims in self.groups]
        return n_parts(self.frequencies) * sum(cells)

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """NAME_0, NAME_1, ... of each dimension, if each is taken alone."""
        return None if self.structure == "joint" else numbered(names, self.n_features)

    def _tables(self) -> HistogramParameters:
        return HistogramParameters(self)


class HistogramParameters(Tables[HistogramSpec]):
    """Drawn tables of a `HistogramSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: HistogramSpec) -> None:
        self.spec = spec
        self._frequencies, self._masses = np.array(spec.frequencies), np.array(spec.masses)
        self._low = np.array(spec.domain.low)
        width = np.array(spec.domain.high) - self._low
        self._width = np.where(width > LEAST_WIDTH, width, 0.0)

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32. Points outside the domain count at its wall."""
        spec = self.spec
        out = np.empty((len(sets), spec.n_features), np.float32)
        spans = spans_of(sets)
        step = max(1, CELLS_AT_ONCE // spec.n_bins ** spec.groups[0][1])
        for start in range(0, len(sets), step):
            tile = slice(start, start + step)
            self._write((self._histograms(sets, spans[tile], *group) for group in spec.groups), out[tile])
        return out

    def row_sum(self, n_points: int, weight: float) -> RowOfRuns:
        """The row (m,) of one set that comes in pieces: the same bits as of all at once."""
        groups = self.spec.groups
        means = [MeanOfRuns(partial(self._at_once, *group)) for group in groups]

        def take(run: SampleSets, weight: float) -> None:
            for own in means:
                own.take(run, weight)

        def made() -> F32:
            row = np.empty((1, self.spec.n_features), np.float32)
            self._write((own.mean()[None] for own in means), row)
            return row.reshape(-1)

        return RowOfRuns(self.spec.n_dims, take, made)

    def _write(self, densities: Iterable[F32], rows: F32) -> None:
        """Fill rows from the densities (n_rows, n_cells) of each group of dimensions."""
        column = 0
        for density in densities:
            cells = density.shape[1]
            shares = np.full(cells, 1 / cells)
            homogeneous_features(density, shares, self._frequencies, self._masses, rows, column, floor=0)
            column += n_parts(self._frequencies) * cells

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: that of the share of their cell.

        It is zero in cells that hold no point of the set, where the derivative is infinite.
        """
        spec, singles, column = self.spec, each_alone(one, at), 0
        out, spans = np.zeros((len(at), gradient.shape[1])), spans_of(singles)
        step = max(1, CELLS_AT_ONCE // spec.n_bins ** spec.groups[0][1])
        for first, dims in spec.groups:
            density = self._histograms(one, spans_of(one), first, dims)[0]
            stop = column + n_parts(self._frequencies) * len(density)
            equal, own = np.full(len(density), 1 / len(density)), gradient[column:stop]
            slopes = amplitude_slopes(density, equal, self._frequencies, self._masses, own, floor=0)
            for start in range(0, len(at), step):
                tile = slice(start, start + step)
                out[tile] += self._histograms(singles, spans[tile], first, dims) @ slopes
            column = stop
        return out

    def _histograms(self, sets: SampleSets, spans: I64, first: int, dims: int) -> F32:
        """Densities of the sets at ``spans``; those of many points are taken run by run."""
        return compute_by_runs(partial(self._at_once, first, dims), sets, spans)

    def _at_once(self, first: int, dims: int, sets: SampleSets, spans: I64) -> F32:
        return histograms(
            sets.relative, spans, sets.weights, self._low, self._width, self.spec.n_bins, dims, first
        )
