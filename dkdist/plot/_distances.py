"""`plot.distances`: a matrix of distances, with similar sets next to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from dkdist._base.parameter_checks import check_real_array
from dkdist._numba.arrays import F64, I64
from dkdist.plot._canvas import (
    SEQUENTIAL_CMAP,
    TargetColours,
    add_colour_bar,
    colour_by_target,
    get_axes,
    style_axes,
)
from dkdist.plot._tuning import MAX_LABELLED_SETS, MAX_MATRIX_SETS, MAX_OPTIMALLY_ORDERED_SETS


def distances(matrix: Any, y: Any = None, *, ax: Any = None) -> Axes:
    """Draw a matrix of distances between sets; small distances are dark.

    Sets are ordered by their targets, by default by the leaves of a hierarchical clustering, so that groups are
    squares along the diagonal.

    Parameters
    ----------
    matrix : (n, n) array
        Distances or divergences between all sets, as returned by `distance_matrix`; a matrix that is not symmetric is
        ordered by the mean of both directions.
    y : (n,) array, optional
        Targets; a Series is aligned to ids by its index.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes
        Its image holds the reordered matrix.

    Raises
    ------
    ValueError, TypeError
        If the matrix is not square, not finite, or of more than 5,000 sets, or targets or axes do not match.

    Notes
    -----
    Average linkage; the order of leaves is optimal for up to 300 sets. Cost: O(n^2), or O(n^3) for up to 300 sets.

    References
    ----------
    Bar-Joseph, Gifford, Jaakkola: Fast optimal leaf ordering for hierarchical clustering (2001).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(3 * (i % 2), 1, (50, 2)) for i in range(8)]
    >>> ax = dk.plot.distances(dk.distance_matrix(bags, distance="energy"))
    >>> len({int(label.get_text()) % 2 for label in ax.get_yticklabels()[:4]})  # the first four are of one group
    1
    """
    values = _check_matrix(matrix)
    colours = colour_by_target(y, matrix)
    order = _cluster_order(values) if colours is None else _target_order(values, colours)
    axes = get_axes(ax, (6.4, 5.4))
    image = axes.imshow(
        values[np.ix_(order, order)], cmap=SEQUENTIAL_CMAP, interpolation="nearest", aspect="equal"
    )
    add_colour_bar(axes, image, "distance", shrink=0.85)
    order_name = "clustering" if colours is None else colours.label
    style_axes(axes, f"{len(values):,} sets, ordered by {order_name}")
    _label_sides(axes, order, colours)
    return axes


def _check_matrix(matrix: Any) -> F64:
    values = check_real_array("matrix", matrix)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        raise ValueError(f"matrix must be (n, n) with n >= 2; got shape {values.shape}")
    if len(values) > MAX_MATRIX_SETS:
        raise ValueError(
            f"matrix must have at most {MAX_MATRIX_SETS:,} sets; got {len(values):,}. Pass a part of it"
        )
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"matrix must be finite; got {values[i, j]} at ({i}, {j}). Omit these sets")
    return values


def _cluster_order(values: F64) -> I64:
    """Return the order of the leaves of a hierarchical clustering."""
    if len(values) < 3:
        return np.arange(len(values))
    symmetric = (values + values.T) / 2
    condensed = squareform(symmetric - np.diag(np.diag(symmetric)), checks=False)
    optimal = len(values) <= MAX_OPTIMALLY_ORDERED_SETS
    tree = linkage(np.maximum(condensed, 0), "average", optimal_ordering=optimal)
    return np.asarray(leaves_list(tree), np.int64)


def _target_order(values: F64, colours: TargetColours) -> I64:
    """Return the order by numbers, or by classes and clusters within classes."""
    if colours.values is not None:
        return np.argsort(colours.values, kind="stable")
    classes = [np.flatnonzero(colours.index == k) for k in range(len(colours.names))]
    return np.concatenate([rows[_cluster_order(values[np.ix_(rows, rows)])] for rows in classes])


def _label_sides(ax: Axes, order: I64, colours: TargetColours | None) -> None:
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    if colours is not None and colours.values is None:
        sizes = np.bincount(colours.index, minlength=len(colours.names))
        ends = np.cumsum(sizes)
        for end in ends[:-1]:
            ax.axhline(end - 0.5, color="white", linewidth=1.5)
            ax.axvline(end - 0.5, color="white", linewidth=1.5)
        middles = ends - sizes / 2 - 0.5
        ax.set_xticks(middles, colours.names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(middles, colours.names)
    elif len(order) <= MAX_LABELLED_SETS:
        size = float(np.clip(300 / len(order), 5, 10))
        ax.set_xticks(range(len(order)), [str(i) for i in order], fontsize=size, rotation=90)
        ax.set_yticks(range(len(order)), [str(i) for i in order], fontsize=size)
    else:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel("sets" if colours is None else f"sets, by {colours.label}")
