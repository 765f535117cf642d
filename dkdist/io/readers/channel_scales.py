"""Spillover compensation and display scales of the channels of cytometers.

Compensation solves observed = S^T true for each event, where S (n, n) holds the fraction of the signal of each stain
(row) that each detector (column) sees: FCS 3.1 standard, $SPILLOVER.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64

KEYWORDS = ("$SPILLOVER", "$SPILL", "SPILL", "SPILLOVER")  # of the standard, and of instruments before it
TRANSFORMS = ("none", "arcsinh", "logicle")
# Scatter is the light of the cell, not of a stain: it has no negative values and stays linear
SCATTER = re.compile(r"(FSC|SSC)\b", re.IGNORECASE)
# Of fluorescence (Finak et al. 2010, BMC Bioinformatics 11:546); 5 for mass cytometry
DEFAULT_COFACTOR = 150.0


class Spillover(NamedTuple):
    """Names of n detectors and their spillover matrix (n, n), as nested tuples."""

    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, names: Sequence[Any], matrix: Any, what: str) -> Spillover:
        """Return checked names and values; ValueError for a matrix that cannot be inverted."""
        try:
            values = np.asarray(matrix, np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        n = len(names)
        if values.shape != (n, n) or n == 0 or not np.isfinite(values).all():
            raise ValueError(
                f"{what} must be a finite matrix with one row and column for each of {n} channels; got shape "
                f"{values.shape}"
            )
        if len(set(names)) < n:
            raise ValueError(f"channels of {what} must be unique; got {', '.join(map(str, names))}")
        if np.linalg.matrix_rank(values) < n:
            raise ValueError(f"{what} must be invertible; it has rank {np.linalg.matrix_rank(values)} of {n}")
        return cls(tuple(map(str, names)), tuple(map(tuple, values.tolist())))

    @classmethod
    def of_frame(cls, frame: Any) -> Spillover:
        """Return the matrix of a data frame with detectors as columns, and stains as rows in the same order."""
        names = list(frame.columns)
        if [str(name) for name in frame.index] != [str(name) for name in names] and list(frame.index) != list(
            range(len(names))
        ):
            raise ValueError(
                "compensation must have the same channels as index and as columns, in the same order; got "
                f"{', '.join(map(str, frame.index))} and {', '.join(map(str, names))}"
            )
        return cls.of(names, frame.to_numpy(), "compensation")

    @classmethod
    def of_keywords(cls, text: Any) -> Spillover:
        """Parse the keyword of a file; ValueError if there is none or it is invalid."""
        keyword = next((keyword for keyword in KEYWORDS if text.get(keyword)), None)
        if keyword is None:
            raise ValueError(
                f"it has no spillover matrix ({', '.join(KEYWORDS[:3])}). Omit compensation, or pass a data frame"
            )
        first, *items = [item.strip() for item in text[keyword].replace("\n", "").split(",")]
        n = int(first) if re.fullmatch(r"[0-9]{1,4}", first, re.ASCII) else 0
        if len(items) != n + n * n or n == 0:
            raise ValueError(
                f"{keyword} must be a number n, n channels and n * n values; got {len(items)} items after {first!r:.60}"
            )
        try:
            values = np.array([float(item) for item in items[n:]])
        except ValueError:
            raise ValueError(
                f"{keyword} must hold numbers after the channels; got {text[keyword]!r:.200}"
            ) from None
        return cls.of(items[:n], values.reshape(n, n), keyword)

    def compensate(self, events: F64) -> F64:
        """Return compensated events (n_events, n)."""
        return np.asarray(np.linalg.solve(np.array(self.rows).T, events.T).T)


def check_transform(transform: Any, cofactor: Any, logicle: Any) -> tuple[float, float, float, float]:
    """Return the parameters of the logicle scale; ValueError or ImportError for invalid options."""
    if not isinstance(transform, str) or transform not in TRANSFORMS:
        raise ValueError(
            f"transform must be one of {', '.join(map(repr, TRANSFORMS))}; got {transform!r:.200}"
        )
    if not _is_number(cofactor) or not 0 < cofactor < np.inf:
        raise ValueError(f"cofactor must be a positive number; got {cofactor!r:.200}")
    if cofactor != DEFAULT_COFACTOR and transform != "arcsinh":
        raise ValueError(f"cofactor requires transform='arcsinh'; got {transform!r}")
    parameters = tuple(logicle) if isinstance(logicle, (tuple, list)) else ()
    if len(parameters) != 4 or not all(map(_is_number, parameters)):
        raise ValueError(f"logicle must be four numbers (t, w, m, a); got {logicle!r:.200}")
    t, w, m, a = parameters
    if not (t > 0 and m > 0 and 0 <= w <= m / 2 and -w <= a <= m - 2 * w):  # Gating-ML 2.0, section 6.1.4
        raise ValueError(
            f"logicle must satisfy t > 0, m > 0, 0 <= w <= m / 2 and -w <= a <= m - 2 w; got {logicle!r:.200}"
        )
    if transform == "logicle" and find_spec("flowutils") is None:
        raise ImportError("transform='logicle' requires flowutils: pip install 'dkdist[cytometry]'")
    return float(t), float(w), float(m), float(a)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def transform_channel(
    events: F64, transform: str, cofactor: float, logicle: tuple[float, float, float, float]
) -> F64:
    """Return values of one channel (n_events,) on a scale."""
    if transform == "arcsinh":
        return np.arcsinh(events / cofactor)
    if transform == "logicle":
        from flowutils import transforms

        t, w, m, a = logicle
        return np.asarray(transforms.logicle(events, None, t=t, m=m, w=w, a=a))
    return events
