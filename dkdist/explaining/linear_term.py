"""A pipeline's prediction as a function of the embedding's row: features of it, and k linear functions of these."""

from __future__ import annotations

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
        return forwards(self.maps, rows)[-1].astype(np.float64) @ self._columns

    @property
    def training_rows(self) -> None:
        """A pipeline keeps no sets."""

    def gradient(self, row: F32, starts: F32 | None) -> F64:
        """Gradients (m, k) averaged from the starts (k, m), one for each function, to a row (m,), or at the row."""
        passed = [rows[0] for rows in forwards(self.maps, row[None])[:-1]]
        return backwards(
            self.maps, passed, self._columns, None if starts is None else forwards(self.maps, starts)[:-1]
        )

    @property
    def _columns(self) -> F64:
        return np.ascontiguousarray(self.coef.T)
