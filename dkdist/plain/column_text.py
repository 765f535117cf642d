"""Columns with one entry a set (targets, ids, sizes) in a few words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 20


def column_text(values: NDArray[Any]) -> str:
    """Its dtype, and its range or its classes.

    Examples
    --------
    >>> column_text(np.array([2, 1, 2])), column_text(np.array([0.5, 2.0]))
    ('int64, 2 classes: 1 (1), 2 (2)', 'float64, 0.5 to 2')
    """
    kind = kind_text(values.dtype)
    if values.ndim > 1:
        return f"{kind}, {values.shape[1]} columns"
    if len(values) == 0:
        return f"{kind}, none"
    if values.dtype.kind not in "biufU":
        return f"{kind}, {len(values):,} values"
    if values.dtype.kind == "f":
        return f"{kind}, {values.min():.6g} to {values.max():.6g}"
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) > MOST_CLASSES:
        return f"{kind}, {len(classes):,} different values, {classes[0]} to {classes[-1]}"
    named = ", ".join(f"{c} ({n:,})" for c, n in zip(classes, counts, strict=True))
    return f"{kind}, {len(classes)} classes: {named}"


def kind_text(dtype: np.dtype[Any]) -> str:
    """What a column holds: text, or numbers of a dtype."""
    return "text" if dtype.kind == "U" else str(dtype)


def sizes_text(sizes: NDArray[Any]) -> str:
    """The least, the largest and the median number of points a set.

    Examples
    --------
    >>> sizes_text(np.array([3, 1200, 40]))
    '3 to 1,200 (median 40)'
    """
    if len(sizes) == 0:
        return "none"
    return f"{sizes.min():,} to {sizes.max():,} (median {np.median(sizes):,.0f})"


def numbers_text(values: NDArray[Any], most: int = 6) -> str:
    """The first few numbers of a vector, to six digits.

    Examples
    --------
    >>> numbers_text(np.array([1.5, 2e9, 0.25]), most=2)
    '1.5, 2e+09, ...'
    """
    shown = ", ".join(f"{v:.6g}" for v in values[:most].tolist())
    return f"{shown}, ..." if len(values) > most else shown
