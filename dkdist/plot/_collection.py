"""`plot.collection`: a map of a collection with one point per set."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.linalg import eigh
from sklearn.decomposition import PCA

from dkdist._base.inputs import check_sets
from dkdist._base.parameter_checks import check_real_array, require_symmetric
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool
from dkdist.distances.sliced_wasserstein_embedding import SlicedWassersteinEmbedding
from dkdist.io.lazy_sets import LazySets
from dkdist.plot._canvas import (
    PALETTE,
    TargetColours,
    add_grid,
    colour_by_target,
    draw_key,
    get_axes,
    style_axes,
)
from dkdist.plot._tuning import MAX_MAP_SETS, SYMMETRY_TOL
from dkdist.sets import SampleSets


def collection(rows: Any, y: Any = None, *, distances: bool = False, ax: Any = None) -> Axes:
    """Draw a map of a collection in two dimensions, in which similar sets are close.

    Coordinates are the first two principal components of rows, or classical scaling (Torgerson) of distances.

    Parameters
    ----------
    rows : (n, m) array or dask array, or sets
        Rows of an embedding, or the distances between all sets. Sets are embedded by `SlicedWassersteinEmbedding`,
        so that distances are sliced Wasserstein distances.
    y : (n,) array, optional
        Targets, which define the colours; a Series is aligned to ids by its index.
    distances : bool, default=False
        Whether ``rows`` are distances (n, n), not squared.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If rows are not finite or fewer than three, distances are not square, symmetric and >= 0, or targets or axes do
        not match.

    Notes
    -----
    The labels state the fraction of the variance of each axis (for distances, of the sum of absolute eigenvalues;
    distances that are not Euclidean have negative ones). If there are more than 3,000 sets, a random sample with a
    fixed seed is drawn. Cost: O(n m min(n, m)); O(n^3) for distances.

    References
    ----------
    Torgerson: Multidimensional scaling: theory and method (1952).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> rows = dk.MomentEmbedding().fit_transform([rng.normal(c, 1, (50, 2)) for c in y])
    >>> ax = dk.plot.collection(rows, y)
    >>> sum(len(points.get_offsets()) for points in ax.collections)
    60
    """
    distances = check_bool("distances", distances)
    matrix = _sets_or_rows(rows, distances)
    n = len(matrix)
    colours = colour_by_target(y, rows)
    indices = (
        np.arange(n)
        if n <= MAX_MAP_SETS
        else np.sort(np.random.default_rng(0).choice(n, MAX_MAP_SETS, replace=False))
    )
    scale = _classical_scaling if distances else _principal_components
    coordinates, fractions = scale(matrix, indices)
    axes = get_axes(ax)
    _draw_map(axes, coordinates, indices, colours)
    axis_name = "axis" if distances else "component"
    labels = [f"{axis_name} {k} ({100 * fraction:.0f} %)" for k, fraction in enumerate(fractions, 1)]
    style_axes(axes, f"{len(indices):,} sets" + (f" of {n:,}" if len(indices) < n else ""), *labels)
    axes.set_aspect("equal", adjustable="datalim")
    add_grid(axes)
    return axes


def _sets_or_rows(values: Any, distances: bool) -> Any:
    """Return rows (n, m) or distances (n, n), which may be lazy; sets are embedded."""
    if isinstance(values, (SampleSets, LazySets)) or (not distances and _is_list_of_sets(values)):
        sets = check_sets(values)
        return SlicedWassersteinEmbedding(random_state=0).fit(sets).transform(sets)
    rows = values if hasattr(values, "dask") else check_real_array("rows", values)
    if rows.ndim != 2 or len(rows) < 3 or rows.shape[1] == 0:
        raise ValueError(f"rows must be (n, m) with three sets or more; got shape {rows.shape}")
    if distances and rows.shape[0] != rows.shape[1]:
        raise ValueError(f"distances must be (n, n); got shape {rows.shape}. For rows, omit distances=True")
    return rows


def _is_list_of_sets(values: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return len(values) > 0 and np.ndim(values[0]) == 2
    return getattr(values, "ndim", 2) == 3


def _principal_components(rows: Any, indices: I64) -> tuple[F64, F64]:
    values = _require_finite(np.asarray(rows[indices], np.float64), indices)
    if values.shape[1] == 1:
        values = np.hstack([values, np.zeros_like(values)])
    if not np.ptp(values, axis=0).any():
        return np.zeros((len(values), 2)), np.zeros(2)
    pca = PCA(2, random_state=0).fit(values)
    return np.asarray(pca.transform(values)), np.asarray(pca.explained_variance_ratio_)


def _classical_scaling(matrix: Any, indices: I64) -> tuple[F64, F64]:
    """Return coordinates (n, 2) whose distances approximate the matrix."""
    D = _require_finite(np.asarray(matrix[indices][:, indices], np.float64), indices)
    require_symmetric("distances", D, SYMMETRY_TOL, "(D + D.T) / 2, or distances of a symmetric kind")
    if D.min() < 0:
        raise ValueError(f"distances must be >= 0; got {D.min():.6g}")
    squares = D**2
    means = squares.mean(axis=0)
    products = -0.5 * (squares - means - means[:, None] + means.mean())
    values, vectors = eigh(products)
    largest = values[[-1, -2]]
    fractions = np.maximum(largest, 0) / max(np.abs(values).sum(), np.finfo(float).tiny)
    return vectors[:, [-1, -2]] * np.sqrt(np.maximum(largest, 0)), fractions


def _require_finite(values: F64, indices: I64) -> F64:
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise ValueError(
            f"rows must be finite; row {indices[i]} is not. Omit the set; embeddings that skip invalid sets return NaN"
        )
    return values


def _draw_map(ax: Axes, coordinates: F64, indices: I64, colours: TargetColours | None) -> None:
    size = float(np.clip(6000 / len(indices), 8, 45))
    options: dict[str, Any] = {
        "s": size,
        "linewidths": 0.4,
        "edgecolors": "white",
        "rasterized": len(indices) > 1000,
    }
    if colours is None:
        ax.scatter(coordinates[:, 0], coordinates[:, 1], color=PALETTE[0], **options)
        return
    point_colours = np.array(colours.colours)[indices]
    for marker in sorted(set(colours.markers)):
        rows = np.array(colours.markers)[indices] == marker
        ax.scatter(
            coordinates[rows, 0], coordinates[rows, 1], c=point_colours[rows], marker=marker, **options
        )
    draw_key(ax, colours)
