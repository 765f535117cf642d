"""A pipeline's prediction as a function of the embedding's row: maps of the row, then k linear functions.

f(a) = coef . z_k(.. z_1(a)),    df/da = J_1' .. J_k' coef
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from dkdist.kernel.features.random_fourier_features import RandomFourierFeatures
from dkdist.loops.array_types import F32, F64

ROW_MAPS = (RandomFourierFeatures, StandardScaler)


@dataclass(frozen=True)
class LinearTerm:
    """``coef`` (k, D) times what the maps make of a row."""

    spec: Any
    maps: tuple[Any, ...]
    coef: F64

    def values(self, rows: F32) -> F64:
        """(n, k) at rows (n, m)."""
        return np.asarray(self._stages(rows)[-1].astype(np.float64) @ self._columns)

    @property
    def training_rows(self) -> None:
        """A pipeline keeps no sets."""

    def gradient(self, row: F32, starts: F32 | None) -> F64:
        """Gradients (m, k) averaged from the starts (k, m), one for each function, to a row (m,), or at the row."""
        stages = self._stages(row[None])[:-1]
        start_stages: Sequence[Any] = [None] * len(stages) if starts is None else self._stages(starts)[:-1]
        gradient = self._columns
        for step, rows, step_starts in zip(self.maps[::-1], stages[::-1], start_stages[::-1], strict=True):
            if isinstance(step, RandomFourierFeatures):
                gradient = step.spec_.draw().pull_back(rows[0], gradient, step_starts)
            elif step.scale_ is not None:
                gradient = gradient / step.scale_[:, None]
        return gradient

    def _stages(self, rows: F32) -> list[F32]:
        """The rows (n, m) before each map, and after the last."""
        stages = [rows]
        for step in self.maps:
            stages.append(np.asarray(step.transform(stages[-1]), np.float32))
        return stages

    @property
    def _columns(self) -> F64:
        return np.ascontiguousarray(self.coef.T)
