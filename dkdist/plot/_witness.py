"""`plot.witness`: the witness function of two point sets, which shows where one is denser than the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dkdist._numba.arrays import F64
from dkdist._utils.validation import require_same_names
from dkdist.kernels.inputs import as_points
from dkdist.kernels.witness import witness as witness_at
from dkdist.plot._canvas import (
    DIVERGING_CMAP,
    MUTED_COLOUR,
    PALETTE,
    TEXT_COLOUR,
    add_colour_bar,
    add_grid,
    add_legend,
    get_axes,
    style_axes,
)
from dkdist.plot._sets import sample_points
from dkdist.plot._tuning import (
    MARGIN_RATIO,
    MIN_WITNESS_RANGE,
    N_WITNESS_LEVELS,
    WITNESS_GRID_SIZE,
    WITNESS_LINE_SIZE,
)

P_COLOUR, Q_COLOUR = PALETTE[1], PALETTE[0]  # resemble the ends of the diverging colour map


def witness(P: Any, Q: Any, *, sigma: Any = "median", kernel: str = "gaussian", ax: Any = None) -> Axes:
    """Draw the witness function of two point sets: positive where P is denser, negative where Q is.

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Points, in one or two dimensions.
    sigma : float or "median", default="median"
        Bandwidth, as in `kernel_distance`.
    kernel : str, default="gaussian"
        As in `dkdist.witness`.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        As `dkdist.witness`; if points have more than two dimensions, or ax is not Axes.

    Notes
    -----
    The function is computed from all points; up to 3,000 points of each set are drawn. Cost: 300 (n + m) values of the
    kernel in one dimension, 8,100 (n + m) in two.

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012), section 2.3.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> ax = dk.plot.witness(rng.normal(-1, 1, (300, 1)), rng.normal(1, 1, (300, 1)), sigma=0.5)
    >>> x, f = ax.lines[0].get_data()
    >>> bool(f[x < -1].min() > 0 > f[x > 1].max())
    True
    """
    require_same_names(P=P, Q=Q)
    p, q = as_points("P", P), as_points("Q", Q)
    d = p.shape[1]
    if d > 2:
        raise ValueError(
            f"P must have at most 2 dimensions; got {d}. Pass two columns of P and Q, or their principal components"
        )
    points = np.vstack([p, q]) if q.shape[1] == d else p
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.where(high > low, MARGIN_RATIO * (high - low), 0.5)
    sides = [
        np.linspace(a, b, WITNESS_LINE_SIZE if d == 1 else WITNESS_GRID_SIZE)
        for a, b in zip(low - margin, high + margin, strict=True)
    ]
    nodes = np.stack([m.ravel() for m in np.meshgrid(*sides)], axis=1)
    f = witness_at(p, q, nodes, sigma=sigma, kernel=kernel)
    axes = get_axes(ax)
    if d == 1:
        _draw_line(axes, sides[0], f, p, q)
    else:
        _draw_plane(axes, sides, f.reshape(WITNESS_GRID_SIZE, WITNESS_GRID_SIZE), p, q)
    return axes


def _draw_line(ax: Axes, x: F64, f: F64, p: F64, q: F64) -> None:
    ax.plot(x, f, color=TEXT_COLOUR, linewidth=1.8)
    ax.fill_between(x, f, 0, where=(f > 0).tolist(), color=P_COLOUR, alpha=0.25, linewidth=0)
    ax.fill_between(x, f, 0, where=(f < 0).tolist(), color=Q_COLOUR, alpha=0.25, linewidth=0)
    ax.axhline(0, color=MUTED_COLOUR, linewidth=0.8)
    limit = 1.15 * max(float(np.abs(f).max()), MIN_WITNESS_RANGE)
    ax.set_ylim(-limit, limit)
    for points, height, colour, name in ((p, 0.97, P_COLOUR, "P"), (q, 0.03, Q_COLOUR, "Q")):
        x_points = points[sample_points(len(points)), 0]
        heights, transform = np.full(len(x_points), height), ax.get_xaxis_transform()
        ax.plot(x_points, heights, "|", color=colour, markersize=9, alpha=0.5, transform=transform)
        ax.text(1.01, height, name, color=colour, va="center", fontweight="bold", transform=ax.transAxes)
    style_axes(ax, "P is denser above 0, Q below", "dimension 0", "witness f")
    add_grid(ax, "y")


def _draw_plane(ax: Axes, sides: list[F64], f: F64, p: F64, q: F64) -> None:
    limit = max(float(np.abs(f).max()), MIN_WITNESS_RANGE)
    levels = MaxNLocator(N_WITNESS_LEVELS, symmetric=True).tick_values(-limit, limit)
    contours = ax.contourf(*sides, f, levels, cmap=DIVERGING_CMAP, vmin=-limit, vmax=limit, alpha=0.75)
    add_colour_bar(ax, contours, "witness f: above 0 where P is denser")
    for points, colour, marker, name in ((p, P_COLOUR, "o", "P"), (q, Q_COLOUR, "s", "Q")):
        sample = points[sample_points(len(points))]
        size = float(np.clip(4000 / len(sample), 5, 30))
        options: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.3, "rasterized": len(sample) > 1000}
        ax.scatter(sample[:, 0], sample[:, 1], s=size, color=colour, marker=marker, label=name, **options)
    style_axes(ax, "P is denser in red regions, Q in blue", "dimension 0", "dimension 1")
    add_legend(ax, frameon=True, framealpha=0.9)
