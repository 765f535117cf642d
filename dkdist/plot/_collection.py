"""`plot.collection`: a map of a collection, one point for each set."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.linalg import eigh
from sklearn.decomposition import PCA

from dkdist._base.inputs import check_sets
from dkdist._base.parameter_checks import real_matrix, require_symmetric
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool
from dkdist.distances.sliced_wasserstein_embedding import SlicedWassersteinEmbedding
from dkdist.io import SetStore
from dkdist.plot._canvas import (
    PALETTE,
    TargetColours,
    add_grid,
    colour_by_target,
    draw_key,
    get_axes,
    style_axes,
)
from dkdist.sets import SampleSets

MAX_MAP_SETS = 3000  # on a map
SYMMETRY_TOL = 1e-6  # of the largest distance


def collection(rows: Any, y: Any = None, *, distances: bool = False, ax: Any = None) -> Axes:
    """Draw a map of a collection in two dimensions: sets that are near each other are alike.

    Rows of an embedding by their two principal components; a matrix of distances by classical scaling (Torgerson).

    Parameters
    ----------
    rows : (n, m) array or dask array, or sets
        What an embedding made of the sets, or all distances between them; of sets themselves the rows of
        `SlicedWassersteinEmbedding`, whose distances are sliced Wasserstein distances.
    y : (n,) array, optional
        Targets, which colour the map; a Series is joined to ids by its index.
    distances : bool, default=False
        Whether ``rows`` are distances (n, n), not squared.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        For rows that are not finite or fewer than three, distances that are not square, symmetric and >= 0, targets
        and axes that do not fit.

    Notes
    -----
    The axes say which share of the variance they show (of distances: of the absolute eigenvalues, for those of a
    distance that is not Euclidean may be negative). Of more than 3,000 sets as many are drawn, chosen at random by a
    fixed seed. Cost: n m min(n, m) steps; n^3 of distances.

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
    given = _sets_or_rows(rows, distances)
    n = len(given)
    colours = colour_by_target(y, rows)
    some = (
        np.arange(n)
        if n <= MAX_MAP_SETS
        else np.sort(np.random.default_rng(0).choice(n, MAX_MAP_SETS, replace=False))
    )
    places, shares = _classical_scaling(given, some) if distances else _principal_components(given, some)
    axes = get_axes(ax)
    _draw_map(axes, places, some, colours)
    what = "axis" if distances else "component"
    labels = [f"{what} {k} ({100 * share:.0f} %)" for k, share in enumerate(shares, 1)]
    style_axes(axes, f"{len(some):,} sets" + (f" of {n:,}" if len(some) < n else ""), *labels)
    axes.set_aspect("equal", adjustable="datalim")
    add_grid(axes)
    return axes


def _sets_or_rows(given: Any, distances: bool) -> Any:
    """Rows (n, m) or distances (n, n) as they came, lazy perhaps; or the rows of sets."""
    if isinstance(given, (SampleSets, SetStore)) or (not distances and _is_list_of_sets(given)):
        sets = check_sets(given)
        return SlicedWassersteinEmbedding(random_state=0).fit(sets).transform(sets)
    rows = given if hasattr(given, "dask") else real_matrix("rows", given)
    if rows.ndim != 2 or len(rows) < 3 or rows.shape[1] == 0:
        raise ValueError(f"rows must be (n, m) with three sets or more; found shape {rows.shape}")
    if distances and rows.shape[0] != rows.shape[1]:
        raise ValueError(
            f"distances must be (n, n); found shape {rows.shape}: leave distances=True out for rows"
        )
    return rows


def _is_list_of_sets(given: Any) -> bool:
    if isinstance(given, (list, tuple)):
        return len(given) > 0 and np.ndim(given[0]) == 2
    return getattr(given, "ndim", 2) == 3


def _principal_components(rows: Any, some: I64) -> tuple[F64, F64]:
    values = _require_finite(np.asarray(rows[some], np.float64), some)
    if values.shape[1] == 1:
        values = np.hstack([values, np.zeros_like(values)])
    if not np.ptp(values, axis=0).any():
        return np.zeros((len(values), 2)), np.zeros(2)
    found = PCA(2, random_state=0).fit(values)
    return np.asarray(found.transform(values)), np.asarray(found.explained_variance_ratio_)


def _classical_scaling(matrix: Any, some: I64) -> tuple[F64, F64]:
    """Places whose distances are those of the matrix, as nearly as two numbers each can have them."""
    D = _require_finite(np.asarray(matrix[some][:, some], np.float64), some)
    require_symmetric("distances", D, SYMMETRY_TOL, "(D + D.T) / 2, or distances of a symmetric kind")
    if D.min() < 0:
        raise ValueError(f"distances must be >= 0; found {D.min():.6g}")
    squares = D**2
    means = squares.mean(axis=0)
    products = -0.5 * (squares - means - means[:, None] + means.mean())
    values, vectors = eigh(products)
    first = values[[-1, -2]]
    shares = np.maximum(first, 0) / max(np.abs(values).sum(), np.finfo(float).tiny)
    return vectors[:, [-1, -2]] * np.sqrt(np.maximum(first, 0)), shares


def _require_finite(values: F64, some: I64) -> F64:
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise ValueError(
            f"row {some[i]} is not finite: leave that set out, as embeddings that skip bad sets do"
        )
    return values


def _draw_map(ax: Axes, places: F64, some: I64, colours: TargetColours | None) -> None:
    size = float(np.clip(6000 / len(some), 8, 45))
    options: dict[str, Any] = {
        "s": size,
        "linewidths": 0.4,
        "edgecolors": "white",
        "rasterized": len(some) > 1000,
    }
    if colours is None:
        ax.scatter(places[:, 0], places[:, 1], color=PALETTE[0], **options)
        return
    shown = np.array(colours.colours)[some]
    for marker in sorted(set(colours.markers)):
        own = np.array(colours.markers)[some] == marker
        ax.scatter(places[own, 0], places[own, 1], c=shown[own], marker=marker, **options)
    draw_key(ax, colours)
