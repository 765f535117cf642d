"""`plot.contributions`: the points of a set, coloured by their contributions to its prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist._base.inputs import check_sets
from dkdist._base.parameter_checks import check_int, check_real_array
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import (
    DIVERGING_CMAP,
    MUTED_COLOUR,
    PALETTE,
    add_colour_bar,
    add_grid,
    format_label,
    get_axes,
    style_axes,
)
from dkdist.plot._sets import choose_projection
from dkdist.plot._tuning import MAX_LABELLED_SYMBOLS
from dkdist.sets import SampleSets

NEGATIVE_COLOUR, POSITIVE_COLOUR = PALETTE[0], PALETTE[1]


def contributions(
    sets: Any, contributions: Any, which: Any = 0, *, output: Any = None, dims: Any = None, ax: Any = None
) -> Axes:
    """Draw the points of a set, coloured by their contributions to its prediction.

    Red contributions increase the prediction, blue ones decrease it. One-dimensional points are drawn with their
    contribution as height, two-dimensional ones in the plane, others in two principal directions, and strings as one
    bar per symbol.

    Parameters
    ----------
    sets : sets
        The explained sets; only the drawn set of a store is read.
    contributions : list of (n_i,) or (n_i, k) arrays
        Result of `explain` by point.
    which : int, default=0
        Index of the set to draw.
    output : int, optional
        Index of the class or target; required if k > 1.
    dims : int, str, or a pair of them, optional
        The dimensions to draw, as in `plot.sets`.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If contributions are not one per point, or other arguments do not match.

    Notes
    -----
    All points are drawn, those with the largest contributions on top. The title states the sum of the contributions,
    which is the prediction minus its reference.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> bag = np.random.default_rng(0).normal(size=(40, 2))
    >>> ax = dk.plot.contributions([bag], [bag[:, 0] / 40])
    >>> len(ax.collections[0].get_offsets())
    40
    """
    collection = check_sets(sets, text=True)
    i = check_int("which", which, minimum=0, maximum=len(collection) - 1)
    view = collection[i : i + 1]
    one_set = view if isinstance(view, SampleSets) else view.load()
    values = _select_output(contributions, i, len(collection), int(one_set.sizes[0]), output)
    axes = get_axes(ax)
    if one_set.points_dtype.kind == "u":
        _draw_symbols(axes, one_set, values)
    else:
        projection = choose_projection(one_set, dims)
        coordinates, order = projection.project(one_set[0]), np.argsort(np.abs(values), kind="stable")
        heights = coordinates[:, 1] if projection.n_dims == 2 else values
        _draw_points(axes, coordinates[order, 0], heights[order], values[order])
        style_axes(axes, "", *projection.labels, *(() if projection.n_dims == 2 else ("contribution",)))
    add_grid(axes)
    title = f"set {i}: {len(values):,} points contribute {values.sum():+.4g}"
    style_axes(axes, title, axes.get_xlabel(), axes.get_ylabel())
    return axes


def _select_output(contributions: Any, i: int, n_sets: int, n: int, output: Any) -> F64:
    """Return the contributions (n,) of the points of set i to one output."""
    if not isinstance(contributions, (list, tuple)) or len(contributions) != n_sets:
        actual = (
            len(contributions) if isinstance(contributions, (list, tuple)) else type(contributions).__name__
        )
        raise ValueError(
            f"contributions must be a list with an array for each of the {n_sets} sets; got {actual}. Pass the "
            "result of explain(model, sets)"
        )
    values = check_real_array("contributions", contributions[i])
    if values.ndim not in (1, 2) or len(values) != n or not np.isfinite(values).all():
        raise ValueError(
            f"contributions must be finite, one for each of the {n} points; got shape {values.shape} (set {i})"
        )
    columns = values.reshape(n, -1)
    if output is None and columns.shape[1] != 1:
        raise ValueError(f"output must be given for contributions to {columns.shape[1]} outputs")
    return columns[
        :, check_int("output", 0 if output is None else output, minimum=0, maximum=columns.shape[1] - 1)
    ]


def _draw_points(ax: Axes, x: F64, y: F64, values: F64) -> None:
    limit = max(float(np.abs(values).max()), np.finfo(float).tiny)
    size = float(np.clip(8000 / len(x), 8, 60))
    points = ax.scatter(
        x, y, s=size, c=values, cmap=DIVERGING_CMAP, vmin=-limit, vmax=limit, edgecolors=MUTED_COLOUR, linewidths=0.4,
        rasterized=len(x) > 1000,
    )  # fmt: skip
    add_colour_bar(ax, points, "contribution to the prediction")


def _draw_symbols(ax: Axes, sets: SampleSets, values: F64) -> None:
    colours = np.where(values > 0, POSITIVE_COLOUR, NEGATIVE_COLOUR).tolist()
    ax.bar(np.arange(len(values)), values, color=colours, width=0.9)
    ax.axhline(0, color=MUTED_COLOUR, linewidth=0.8)
    if sets.alphabet is not None and len(values) <= MAX_LABELLED_SYMBOLS:
        ax.set_xticks(range(len(values)), [format_label(c) for c in sets.strings()[0]])
    style_axes(ax, "", "position in the string", "contribution")
