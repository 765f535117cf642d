"""`plot.intervals`: predictions of numbers with their intervals, against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist._base.parameter_checks import real_matrix
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import MUTED_COLOUR, PALETTE, add_grid, add_legend, get_axes, style_axes

MAX_INTERVALS = 500  # that are drawn


def intervals(model: Any, sets: Any, y: Any, *, coverage: float = 0.9, ax: Any = None) -> Axes:
    """Draw predictions with their intervals against the true numbers: those that cross the diagonal hold the truth.

    Parameters
    ----------
    model : fitted SetRegressor
        Anything with ``predict`` and ``predict_interval``.
    sets : sets
        Sets that it did not learn from.
    y : (n,) array
        Their targets; a Series is joined to ids by its index.
    coverage : float, default=0.9
        Probability with which an interval shall hold the truth.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        The title counts how many of all sets are held; up to 500 are drawn, at even steps of the truth.

    Raises
    ------
    ValueError, TypeError
        For a model without intervals or of several targets, and targets that do not fit.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> y = np.linspace(0.5, 2, 80)
    >>> sets = [np.random.default_rng(i).normal(0, s, (60, 1)) for i, s in enumerate(y)]
    >>> model = dk.SetRegressor(["moments"], random_state=0).fit(sets[::2], y[::2])
    >>> ax = dk.plot.intervals(model, sets[1::2], y[1::2])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('truth', 'prediction')
    """
    if not hasattr(model, "predict_interval"):
        raise ValueError(
            f"model must be a fitted SetRegressor, with predict_interval; found {type(model).__name__}"
        )
    _, y = align_to_index(sets, y=y)
    truth = real_matrix("y", y)
    if truth.ndim != 1 or len(truth) == 0 or not np.isfinite(truth).all():
        raise ValueError(f"y must be a finite number for each of the sets; found shape {truth.shape}")
    found, ends = np.asarray(model.predict(sets)), np.asarray(model.predict_interval(sets, coverage))
    if found.ndim != 1:
        raise ValueError(
            f"model predicts {found.shape[1]} targets, and a picture shows one: fit it to one of them"
        )
    if len(found) != len(truth):
        raise ValueError(f"y must be a finite number for each of the {len(found)} sets; found {len(truth)}")
    held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    axes = get_axes(ax, (5.8, 5.0))
    order = np.argsort(truth, kind="stable")
    some = order[np.linspace(0, len(order) - 1, min(len(order), MAX_INTERVALS)).round().astype(int)]
    _draw_intervals(axes, truth[some], found[some], ends[some], held[some])
    share = f"{int(held.sum()):,} of {len(held):,} intervals ({100 * held.mean():.0f} %) hold the truth"
    style_axes(axes, f"{share}, asked for {100 * coverage:g} %", "truth", "prediction")
    add_grid(axes)
    add_legend(axes, loc="upper left")
    return axes


def _draw_intervals(ax: Axes, truth: F64, found: F64, ends: F64, held: Any) -> None:
    corners = [min(truth.min(), found.min()), max(truth.max(), found.max())]
    ax.plot(corners, corners, color=MUTED_COLOUR, linewidth=1, linestyle="--", label="prediction = truth")
    for own, colour, marker, label in ((held, PALETTE[0], "o", "held"), (~held, PALETTE[1], "D", "missed")):
        if not own.any():
            continue
        bars = np.abs(np.nan_to_num(ends[own] - found[own, None], posinf=0, neginf=0)).T
        ax.errorbar(
            truth[own], found[own], bars, color=colour, marker=marker, markersize=4, linestyle="", elinewidth=0.9,
            alpha=0.8, label=label,
        )  # fmt: skip
