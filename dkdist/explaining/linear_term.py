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

    @property
    def start(self) -> None:
        """A pipeline keeps no sets."""

    def gradients(self, rows: F32, start: F32 | None) -> Iterator[F64]:
        """Gradients (m, k) averaged from the start (m,) to each of the rows (n, m); without a start, those at the row."""
        before = forwards(self.maps, rows)[:-1]
        starts = None if start is None else [step[0] for step in forwards(self.maps, start[None])[:-1]]
        for i in range(len(rows)):
            yield backwards(self.maps, [step[i] for step in before], self._columns, starts)

    @property
    def _columns(self) -> F64:
        return np.ascontiguousarray(self.coef.T)
