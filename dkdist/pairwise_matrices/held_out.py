"""Jensen-Shannon divergences of halves: kernel densities of one, means of logarithms over the other (P1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist.embeddings._density_numba import basis_table
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.pairwise_matrices._held_out_numba import densities_at, one_way
from dkdist.pairwise_matrices.divergence_params import Place
from dkdist.sets import SampleSets

Part = tuple[slice, list[int]]  # of the coefficients, and the axes that they are of


class _Half(NamedTuple):
    """Coefficients of a half, and the values of the basis at its points: (n, K) for each axis."""

    C: F32
    tables: list[F32]


@dataclass(frozen=True)
class HeldOutDensities:
    """P1's estimate of JS: kernel density on one half of each sample, mean over the other, both ways.

    Of marginal densities, the divergences of all dimensions are added.
    """

    spec: DivergenceSpec
    seed: int
    symmetric: ClassVar[bool] = True

    def prepare(self, sets: SampleSets, places: list[Place]) -> list[tuple[_Half, _Half]]:
        """Each set in an order drawn from the seed and its place, cut in the middle."""
        orders = [
            first + np.random.default_rng([self.seed, place.index, place.other]).permutation(size)
            for first, size, place in zip(sets.offsets[:-1], np.diff(sets.offsets), places, strict=True)
        ]
        points = sets.relative[np.concatenate(orders)]
        cuts = np.stack([sets.offsets[:-1], (sets.offsets[:-1] + sets.offsets[1:] + 1) // 2], axis=1)
        offsets = np.append(cuts.ravel(), sets.offsets[-1])
        halves = SampleSets(points, offsets)
        C = self.spec.coefficients.materialize().of(halves, np.stack([offsets[:-1], offsets[1:]], axis=1))
        low, scale = self.spec.domain.low_and_scale
        unit = np.clip((points - low) * scale, 0, 1).astype(np.float64)
        made = []
        for i in range(len(sets)):
            pair = [self._half(C[k], unit[offsets[k] : offsets[k + 1]]) for k in (2 * i, 2 * i + 1)]
            made.append((pair[0], pair[1]))
        return made

    def pair(self, a: tuple[_Half, _Half], b: tuple[_Half, _Half]) -> float:
        """JS(a, b) in nats."""
        forward, back = self._of(a[0], a[1], b[0], b[1]), self._of(a[1], a[0], b[1], b[0])
        return (forward + back) / 2

    def _half(self, C: F32, unit: F64) -> _Half:
        widths, degrees = self.spec.scales[0], self.spec.coefficients.degrees
        columns = zip(unit.T, degrees, widths, strict=True)
        return _Half(C, [basis_table(column, int(K), h) for column, K, h in columns])

    def _parts(self) -> list[Part]:
        degrees = [int(K) for K in self.spec.coefficients.degrees]
        if self.spec.structure != "marginal":
            return [(slice(None), list(range(len(degrees))))]
        ends = np.cumsum([0, *degrees]).tolist()
        return [(slice(ends[j], ends[j + 1]), [j]) for j in range(len(degrees))]

    def _of(self, p: _Half, x: _Half, q: _Half, y: _Half) -> float:
        """Densities of the halves p, q, means over the halves x, y of the same sets."""
        total = 0.0
        for columns, axes in self._parts():
            own, other = (p.C[columns], q.C[columns])
            at_x, at_y = [x.tables[j] for j in axes], [y.tables[j] for j in axes]
            of_x = one_way(densities_at(own, at_x), densities_at(other, at_x))
            of_y = one_way(densities_at(other, at_y), densities_at(own, at_y))
            total += (of_x + of_y) / 2
        return total
