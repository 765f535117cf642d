"""Adjustment of the rows of a selection for the covariates and nuisance variables of its training sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist.auto.scoring import TrainingData
from dkdist.auto.study_design import FittedDesign, adjust_rows


@dataclass
class Adjustment:
    """Removal of the design of ``data`` from rows; without a design, rows stay as they are."""

    design: FittedDesign | None = None
    Z: F64 | None = None
    weights: F64 | None = None
    images: Mapping[int, Sequence[I64]] | None = None
    by_leaf: Mapping[int, F64] | None = None

    @classmethod
    def fit(cls, data: TrainingData, images: Mapping[int, Sequence[I64]]) -> tuple[Adjustment, TrainingData]:
        """Return the adjustment, and the data with targets relative to the offset of the covariates."""
        if data.design is None:
            return cls(), data
        design, Z, offset = FittedDesign.fit(data.design, data.y, data.weights, data.groups)
        if data.design.covariates:
            data = replace(data, y=data.y - offset, offset=offset)
        return cls(design, Z, data.weights, images), data

    def of(self, rows: dict[int, F32], positions: I64) -> dict[int, F32]:
        """Return the rows of the sets at these positions without the part that their design explains."""
        return rows if self.design is None else self._adjust(rows, positions)[0]

    def final(self, rows: dict[int, F32]) -> dict[int, F32]:
        """Return the rows of all sets, adjusted by the coefficients of the model."""
        if self.Z is None:
            return rows
        adjusted_rows, self.by_leaf = self._adjust(rows, np.arange(len(self.Z)))
        return adjusted_rows

    def coefficients(self, widths: Sequence[int], leaves: Sequence[int]) -> tuple[F64, ...]:
        """Return the coefficients (q, m) of each leaf; those of other ``leaves`` are empty."""
        if self.Z is None or self.by_leaf is None:
            return ()
        q = self.Z.shape[1]
        return tuple(
            self.by_leaf.get(leaf, np.zeros((q, width))) if leaf in leaves else np.zeros((q, 0))
            for leaf, width in enumerate(widths)
        )

    def _adjust(self, rows: Mapping[int, F32], positions: I64) -> tuple[dict[int, F32], dict[int, F64]]:
        assert self.Z is not None
        assert self.weights is not None
        assert self.images is not None
        return adjust_rows(rows, self.Z[positions], self.weights[positions], self.images)
