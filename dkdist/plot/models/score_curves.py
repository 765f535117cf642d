"""Scores of several splits against something: their mean as a line, their spread as a band."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist.base.parameter_checks import real_matrix
from dkdist.loops.array_types import F64
from dkdist.plot.canvas import PALETTE

WIDE = 50.0  # largest over smallest value from which on values are drawn on a logarithmic axis


def scores_of(name: str, given: Any, n: int) -> F64:
    """Scores (n, n_splits) of n values; finite where anything was scored."""
    scores = real_matrix(name, given)
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim != 2 or len(scores) != n or scores.shape[1] == 0:
        raise ValueError(f"{name} must be ({n}, n_splits), a row for each value; found shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{name} must be finite; found {int((~np.isfinite(scores)).sum())} that are not: leave them out"
        )
    return scores


def draw_scores(ax: Axes, x: F64, scores: F64, k: int, label: str) -> None:
    """The mean over splits, and one standard deviation of them to either side."""
    order = np.argsort(x, kind="stable")
    x, middle, spread = x[order], scores.mean(axis=1)[order], scores.std(axis=1)[order]
    line = "-" if k else "--"
    ax.plot(x, middle, line, color=PALETTE[k], marker="o", markersize=4.5, linewidth=1.8, label=label)
    if scores.shape[1] > 1:
        ax.fill_between(x, middle - spread, middle + spread, color=PALETTE[k], alpha=0.15, linewidth=0)


def scale_for(ax: Axes, x: F64) -> None:
    """A logarithmic axis for positive values that span much."""
    if x.min() > 0 and x.max() >= WIDE * x.min():
        ax.set_xscale("log")
