"""What stands between an embedding and a linear model: maps of rows that are gone through forwards, and backwards.

f(a) = coef . z_k(.. z_1(a)),    df/da = J_1' .. J_k' coef
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from dkdist.kernel.features.random_fourier_features import RandomFourierFeatures
from dkdist.loops.array_types import F32, F64

ROW_MAPS = (RandomFourierFeatures, StandardScaler)


def forwards(maps: Sequence[Any], rows: F32) -> list[F32]:
    """The rows (n, m) before each map, and after the last."""
    passed = [rows]
    for step in maps:
        passed.append(np.asarray(step.transform(passed[-1]), np.float32))
    return passed


def backwards(
    maps: Sequence[Any], rows: Sequence[F32], gradient: F64, starts: Sequence[F32] | None = None
) -> F64:
    """(m, k) derivatives by an embedding's row, from those by the last one; ``rows`` are that set's before each map.

    With ``starts``, for each map k rows before it, derivatives of each map are averages over the straight path from
    there, one for each of the k functions.
    """
    before: Sequence[Any] = [None] * len(maps) if starts is None else starts
    for step, row, step_starts in zip(reversed(maps), reversed(rows), reversed(before), strict=True):
        if isinstance(step, RandomFourierFeatures):
            gradient = step.spec_.draw().pull_back(row, gradient, step_starts)
        elif step.scale_ is not None:
            gradient = gradient / step.scale_[:, None]
    return gradient
