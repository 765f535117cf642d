"""Rows of the weight fractions of sets in cells, mapped so that squared distances are divergences.

fractions p_c of cells --p^(1/2 + i l_j)--> row,   |row_p - row_q|^2 ~ sum_c kappa(p_c, q_c)

Cells are boxes of a grid (`HistogramEmbedding`) or Voronoi cells of words (`CodebookEmbedding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from dkdist._base.influence import as_singletons
from dkdist._base.parameter_checks import is_literal
from dkdist._base.params import ChunkedRowSum, ChunkMean, FittedParams, S, compute_by_chunks, set_spans
from dkdist._numba.arrays import F32, F64, I64
from dkdist.embeddings._density_numba import amplitude_slopes, homogeneous_features, n_parts
from dkdist.embeddings._tuning import CELLS_PER_TILE
from dkdist.embeddings.divergences import Divergence, divergence
from dkdist.embeddings.kappa import Kappa
from dkdist.sets import SampleSets


class CellFeatures(FittedParams[S]):
    """Base class of fitted parameters whose rows are features of cell fractions.

    ``spec`` has ``frequencies`` l_j and ``masses`` w_j; if they are None, rows are the fractions. Rows concatenate
    ``groups`` of at most ``max_cells`` cells. A subclass computes the fractions of a group.
    """

    has_densities = False  # True if fractions are multiplied by the number of cells of their group

    def __init__(self, spec: S, groups: Sequence[tuple[int, ...]], max_cells: int) -> None:
        self.spec = spec
        self._groups = groups
        self._sets_per_tile = max(1, CELLS_PER_TILE // max_cells)
        self._is_linear = spec.frequencies is None
        self._frequencies, self._masses = np.array(spec.frequencies or ()), np.array(spec.masses or ())

    def _compute(self, group: tuple[int, ...], sets: SampleSets, spans: I64) -> F32:
        """Return the fractions (n_spans, n_cells) float32 of the weight of each span of points in each cell."""
        raise NotImplementedError

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        spans = set_spans(sets)
        for start in range(0, len(sets), self._sets_per_tile):
            tile = slice(start, start + self._sets_per_tile)
            self._write((self._fractions(sets, spans[tile], group) for group in self._groups), out[tile])
        return out

    def row_sum(self, n_points: int, weight: float) -> ChunkedRowSum:
        """Return an accumulator for the row (m,) of one set that is read in pieces."""
        means = [ChunkMean(partial(self._compute, group)) for group in self._groups]

        def add_chunk(chunk: SampleSets, weight: float) -> None:
            for mean in means:
                mean.add(chunk, weight)

        def finish() -> F32:
            row = np.empty((1, self.spec.n_features), np.float32)
            self._write((mean.mean()[None] for mean in means), row)
            return row.reshape(-1)

        return ChunkedRowSum(self.spec.n_dims, add_chunk, finish)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d), up to an additive constant per column.

        It is constant in each cell, and 0 in cells where the set has no points if the derivative is infinite there.
        """
        singles, column = as_singletons(one, at), 0
        out, spans = np.zeros((len(at), gradient.shape[1])), set_spans(singles)
        for group in self._groups:
            fractions = self._fractions(one, set_spans(one), group)[0]
            stop = column + self._n_parts * len(fractions)
            slopes = self._slopes(fractions, gradient[column:stop])
            for start in range(0, len(at), self._sets_per_tile):
                tile = slice(start, start + self._sets_per_tile)
                out[tile] += self._fractions(singles, spans[tile], group) @ slopes
            column = stop
        return out

    @property
    def _n_parts(self) -> int:
        return 1 if self._is_linear else n_parts(self.spec.frequencies)

    def _fractions(self, sets: SampleSets, spans: I64, group: tuple[int, ...]) -> F32:
        return compute_by_chunks(partial(self._compute, group), sets, spans)

    def _cell_measures(self, n_cells: int) -> F64:
        return np.full(n_cells, 1 / n_cells if self.has_densities else 1.0)

    def _write(self, fractions_by_group: Iterable[F32], rows: F32) -> None:
        """Fill rows from the fractions (n_rows, n_cells) of each group."""
        column = 0
        for fractions in fractions_by_group:
            n = fractions.shape[1]
            if self._is_linear:
                rows[:, column : column + n] = fractions
            else:
                measures = self._cell_measures(n)
                homogeneous_features(
                    fractions, measures, self._frequencies, self._masses, rows, column, floor=0
                )
            column += self._n_parts * n

    def _slopes(self, fractions: F32, gradient: F64) -> F64:
        """Return the derivatives (n_cells, k) of k functions with respect to the fractions of a group."""
        if self._is_linear:
            return gradient
        measures = self._cell_measures(len(fractions))
        return amplitude_slopes(fractions, measures, self._frequencies, self._masses, gradient, floor=0)


def histogram_divergence(name_or_kappa: str | Kappa) -> Divergence:
    """Return the divergence; "intersection" is total variation, because |x - y| = x + y - 2 min(x, y)."""
    return divergence("total-variation" if is_literal(name_or_kappa, "intersection") else name_or_kappa)
