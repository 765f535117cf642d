"""`plot.contributions`: the points of a set, coloured by what they add to its prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist._base.inputs import check_sets
from dkdist._base.parameter_checks import real_matrix, whole
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
from dkdist.sets import SampleSets

NEGATIVE_COLOUR, POSITIVE_COLOUR = PALETTE[0], PALETTE[1]
MAX_LABELLED_SYMBOLS = 120  # of a string that are written below its bars


def contributions(
    sets: Any, contributions: Any, which: Any = 0, *, output: Any = None, dims: Any = None, ax: Any = None
) -> Axes:
    """Draw the points of a set, coloured by what each adds to the prediction: red towards, blue against.

    One dimension is drawn as contributions against it, two as points, more as their two principal directions; strings
    as bars, one for each symbol.

    Parameters
    ----------
    sets : sets
        The sets that were explained; of a store one is read.
    contributions : list of (n_i,) or (n_i, k) arrays
        What `explain` gave for them, by point.
    which : int, default=0
        The set to draw.
    output : int, optional
        The class or target, of k; needed if k is more than one.
    dims : int, str, or a pair of them, optional
        The dimensions to draw, as in `plot.sets`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        For contributions that are not one for each point, and what does not fit.

    Notes
    -----
    All points are drawn, those that matter most on top. The title says what they sum to: the prediction less its
    reference.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> bag = np.random.default_rng(0).normal(size=(40, 2))
    >>> ax = dk.plot.contributions([bag], [bag[:, 0] / 40])
    >>> len(ax.collections[0].get_offsets())
    40
    """
    every = check_sets(sets, text=True)
    i = whole("which", which, least=0, most=len(every) - 1)
    some: SampleSets = every[i : i + 1] if isinstance(every, SampleSets) else every[i : i + 1].load()
    values = _select_output(contributions, i, len(every), int(some.sizes[0]), output)
    axes = get_axes(ax)
    if some.points_dtype.kind == "u":
        _draw_symbols(axes, some, values)
    else:
        plane = choose_projection(some, dims)
        places, order = plane.of(some[0]), np.argsort(np.abs(values), kind="stable")
        heights = places[:, 1] if plane.n_dims == 2 else values
        _draw_points(axes, places[order, 0], heights[order], values[order])
        style_axes(axes, "", *plane.labels, *(() if plane.n_dims == 2 else ("contribution",)))
    add_grid(axes)
    n = f"{len(values):,} points add {values.sum():+.4g}"
    style_axes(axes, f"set {i}: {n}", axes.get_xlabel(), axes.get_ylabel())
    return axes


def _select_output(contributions: Any, i: int, n_sets: int, n: int, output: Any) -> F64:
    """The contributions (n,) of the points of set i to one output."""
    if not isinstance(contributions, (list, tuple)) or len(contributions) != n_sets:
        found = (
            len(contributions) if isinstance(contributions, (list, tuple)) else type(contributions).__name__
        )
        raise ValueError(
            f"contributions must be a list with an array for each of the {n_sets} sets; found {found}: give what "
            "explain(model, sets) gave"
        )
    own = real_matrix("contributions", contributions[i])
    if own.ndim not in (1, 2) or len(own) != n or not np.isfinite(own).all():
        raise ValueError(
            f"contributions of set {i} must be finite, one for each of its {n} points; found shape {own.shape}"
        )
    columns = own.reshape(n, -1)
    if output is None and columns.shape[1] != 1:
        raise ValueError(f"contributions are to {columns.shape[1]} outputs: say which to draw by output=")
    return columns[:, whole("output", 0 if output is None else output, least=0, most=columns.shape[1] - 1)]


def _draw_points(ax: Axes, x: F64, y: F64, values: F64) -> None:
    end = max(float(np.abs(values).max()), np.finfo(float).tiny)
    size = float(np.clip(8000 / len(x), 8, 60))
    drawn = ax.scatter(
        x, y, s=size, c=values, cmap=DIVERGING_CMAP, vmin=-end, vmax=end, edgecolors=MUTED_COLOUR, linewidths=0.4,
        rasterized=len(x) > 1000,
    )  # fmt: skip
    add_colour_bar(ax, drawn, "contribution to the prediction")


def _draw_symbols(ax: Axes, sets: SampleSets, values: F64) -> None:
    colours = np.where(values > 0, POSITIVE_COLOUR, NEGATIVE_COLOUR).tolist()
    ax.bar(np.arange(len(values)), values, color=colours, width=0.9)
    ax.axhline(0, color=MUTED_COLOUR, linewidth=0.8)
    if sets.alphabet is not None and len(values) <= MAX_LABELLED_SYMBOLS:
        ax.set_xticks(range(len(values)), [format_label(c) for c in sets.strings()[0]])
    style_axes(ax, "", "position in the string", "contribution")
