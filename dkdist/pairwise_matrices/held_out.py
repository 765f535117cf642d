"""Jensen-Shannon divergences from densities of one half of each set at the points of the other half (P1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist.embeddings._density_numba import basis_table
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.pairwise_matrices._held_out_numba import densities_at, mean_log_ratio
from dkdist.pairwise_matrices.divergence_params import SetPosition
from dkdist.sets import SampleSets

Marginal = tuple[slice, list[int]]  # (columns of coefficients, axes)


class _Half(NamedTuple):
    """Coefficients of a half, and the basis (n, K) at its points for each axis."""

    C: F32
    tables: list[F32]


@dataclass(frozen=True)
class HeldOutDensities:
    """Held-out estimate of JS, averaged over both roles of the halves (P1).

    Divergences of marginal densities are summed.
    """

    spec: DivergenceSpec
    seed: int
    symmetric: ClassVar[bool] = True

    def prepare(self, sets: SampleSets, positions: list[SetPosition]) -> list[tuple[_Half, _Half]]:
        """Shuffle each set with the seed and its position, and split it into halves."""
        orders = [
            first + np.random.default_rng([self.seed, position.index, position.other]).permutation(size)
            for first, size, position in zip(sets.offsets[:-1], np.diff(sets.offsets), positions, strict=True)
        ]
        points = sets.relative[np.concatenate(orders)]
        bounds = np.stack([sets.offsets[:-1], (sets.offsets[:-1] + sets.offsets[1:] + 1) // 2], axis=1)
        offsets = np.append(bounds.ravel(), sets.offsets[-1])
        halves = SampleSets(points, offsets)
        C = self.spec.coefficients.materialize().of(halves, np.stack([offsets[:-1], offsets[1:]], axis=1))
        low, scale = self.spec.domain.low_and_scale
        unit = np.clip((points - low) * scale, 0, 1).astype(np.float64)
        prepared = [self._half(C[k], unit[offsets[k] : offsets[k + 1]]) for k in range(2 * len(sets))]
        return list(zip(prepared[::2], prepared[1::2], strict=True))

    def pair(self, a: tuple[_Half, _Half], b: tuple[_Half, _Half]) -> float:
        """Estimate JS(a, b) in nats."""
        first, second = self._held_out(a[0], a[1], b[0], b[1]), self._held_out(a[1], a[0], b[1], b[0])
        return (first + second) / 2

    def _half(self, C: F32, unit: F64) -> _Half:
        widths, degrees = self.spec.scales[0], self.spec.coefficients.degrees
        columns = zip(unit.T, degrees, widths, strict=True)
        return _Half(C, [basis_table(column, int(K), h) for column, K, h in columns])

    def _marginals(self) -> list[Marginal]:
        degrees = [int(K) for K in self.spec.coefficients.degrees]
        if self.spec.structure != "marginal":
            return [(slice(None), list(range(len(degrees))))]
        ends = np.cumsum([0, *degrees]).tolist()
        return [(slice(ends[j], ends[j + 1]), [j]) for j in range(len(degrees))]

    def _held_out(self, p: _Half, x: _Half, q: _Half, y: _Half) -> float:
        """Estimate JS from densities of the halves p, q, averaged over the other halves x, y of the same sets."""
        total = 0.0
        for columns, axes in self._marginals():
            C_p, C_q = p.C[columns], q.C[columns]
            x_tables, y_tables = [x.tables[j] for j in axes], [y.tables[j] for j in axes]
            over_x = mean_log_ratio(densities_at(C_p, x_tables), densities_at(C_q, x_tables))
            over_y = mean_log_ratio(densities_at(C_q, y_tables), densities_at(C_p, y_tables))
            total += (over_x + over_y) / 2
        return total
