"""`plot.intervals`: predictions of numbers with their intervals, against the true values."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist._base.parameter_checks import check_real_array
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import MUTED_COLOUR, PALETTE, add_grid, add_legend, get_axes, style_axes
from dkdist.plot._tuning import MAX_INTERVALS


def intervals(model: Any, sets: Any, y: Any, *, coverage: float = 0.9, ax: Any = None) -> Axes:
    """Draw predictions with their intervals against the true values.

    Intervals that cross the diagonal contain the true value.

    Parameters
    ----------
    model : fitted SetRegressor
        Or any other model with ``predict`` and ``predict_interval``.
    sets : sets
        Sets that were not used in training.
    y : (n,) array
        Targets of the sets; a Series is aligned to ids by its index.
    coverage : float, default=0.9
        Nominal coverage of the intervals.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes
        The title states the coverage over all sets; up to 500 are drawn, at equal steps of the sorted true values.

    Raises
    ------
    ValueError, TypeError
        If the model has no intervals or several targets, or targets do not match.

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
            f"model must be a fitted SetRegressor, with predict_interval; got {type(model).__name__}"
        )
    _, y = align_to_index(sets, y=y)
    truth = check_real_array("y", y)
    if truth.ndim != 1 or len(truth) == 0 or not np.isfinite(truth).all():
        raise ValueError(f"y must have one finite number per set; got shape {truth.shape}")
    predicted, ends = np.asarray(model.predict(sets)), np.asarray(model.predict_interval(sets, coverage))
    if predicted.ndim != 1:
        raise ValueError(
            f"model must predict one target; got {predicted.shape[1]}. Fit a model to one of them"
        )
    if len(predicted) != len(truth):
        raise ValueError(
            f"y must have one finite number for each of the {len(predicted)} sets; got {len(truth)}"
        )
    is_covered = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    axes = get_axes(ax, (5.8, 5.0))
    order = np.argsort(truth, kind="stable")
    indices = order[np.linspace(0, len(order) - 1, min(len(order), MAX_INTERVALS)).round().astype(int)]
    _draw_intervals(axes, truth[indices], predicted[indices], ends[indices], is_covered[indices])
    title = (
        f"coverage {100 * is_covered.mean():.0f} % ({int(is_covered.sum()):,} of {len(is_covered):,}), nominal "
        f"{100 * coverage:g} %"
    )
    style_axes(axes, title, "truth", "prediction")
    add_grid(axes)
    add_legend(axes, loc="upper left")
    return axes


def _draw_intervals(ax: Axes, truth: F64, predicted: F64, ends: F64, is_covered: Any) -> None:
    corners = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    ax.plot(corners, corners, color=MUTED_COLOUR, linewidth=1, linestyle="--", label="prediction = truth")
    for rows, colour, marker, label in (
        (is_covered, PALETTE[0], "o", "covered"),
        (~is_covered, PALETTE[1], "D", "not covered"),
    ):
        if not rows.any():
            continue
        bars = np.abs(np.nan_to_num(ends[rows] - predicted[rows, None], posinf=0, neginf=0)).T
        ax.errorbar(
            truth[rows], predicted[rows], bars, color=colour, marker=marker, markersize=4, linestyle="", elinewidth=0.9,
            alpha=0.8, label=label,
        )  # fmt: skip
