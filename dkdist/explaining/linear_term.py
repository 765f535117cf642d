"""A pipeline's prediction as a function of the embedding's row: features of it, and k linear functions of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.explaining.row_maps import backwards, forwards
from dkdist.loops.array_types import F32, F64


@dataclass(frozen=True)
class LinearTerm:
    """``coef`` (k, D) times what the maps make of a row."""

    spec: Any
    maps: tuple[Any, ...]
    coef: F64

    def values(self, rows: F32) -> F64:
        """(n, k) at rows (n, m)."""
        return np.asarray(forwards(self.maps, rows)[-1].astype(np.float64) @ self._columns)

    def slopes(self, rows: F32) -> Iterator[tuple[F64, F64]]:
        """The value (k,) and the derivative (m, k) at each of the rows (n, m)."""
        *before, last = forwards(self.maps, rows)
        for i, z in enumerate(last):
            slope = backwards(self.maps, [passed[i] for passed in before], self._columns)
            yield z.astype(np.float64) @ self._columns, slope

    @property
    def _columns(self) -> F64:
        return np.ascontiguousarray(self.coef.T)
