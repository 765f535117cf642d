"""`plot.sets`: one or several sets, in their dimensions, two selected dimensions, or two principal directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from dkdist._base.inputs import check_sets
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist._base.parameter_checks import check_int
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import (
    MUTED_COLOUR,
    PALETTE,
    TargetColours,
    add_grid,
    colour_by_target,
    format_label,
    get_panels,
    style_axes,
)
from dkdist.plot._tuning import (
    DEFAULT_N_SETS,
    DENSITY_GRID_SIZE,
    DENSITY_LINE_SIZE,
    MAX_DENSITY_POINTS,
    MAX_DRAWN_POINTS,
    MAX_HISTOGRAM_BINS,
    MIN_DENSITY_POINTS,
)
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class Projection:
    """Projection (points - center) @ directions to one or two dimensions, and their labels."""

    labels: tuple[str, ...]
    center: F64
    directions: F64

    @property
    def n_dims(self) -> int:
        """Number of dimensions, 1 or 2."""
        return len(self.labels)

    def project(self, points: Any) -> F64:
        """Return the coordinates (n, 1) or (n, 2) of points (n, d)."""
        return np.asarray((np.asarray(points, np.float64) - self.center) @ self.directions)


def choose_projection(sets: SampleSets, dims: Any = None) -> Projection:
    """Return the projection in which sets are drawn; ``dims`` are one or two dimensions, by index or name."""
    names, d = dimension_names(sets), sets.n_dims
    if dims is None and d > 2:
        return _principal_projection(np.asarray(sets.points, np.float64))
    indices = list(range(d)) if dims is None else _dimension_indices(dims, names)
    labels = tuple(format_label(names[j]) for j in indices)
    return Projection(labels, np.zeros(d), np.eye(d)[:, indices])


def dimension_names(sets: SampleSets) -> list[str]:
    """Return the names of the dimensions, by default "dimension 0" and so on."""
    names = getattr(sets, "names", None)
    return [f"dimension {j}" for j in range(sets.n_dims)] if names is None else [str(name) for name in names]


def sample_points(n: int) -> slice | Any:
    """Return the indices of the points to draw: all, or a random sample with a fixed seed."""
    if n <= MAX_DRAWN_POINTS:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n, MAX_DRAWN_POINTS, replace=False))


def _dimension_indices(dims: Any, names: list[str]) -> list[int]:
    values = [dims] if isinstance(dims, (str, int, np.integer)) else list(dims) if np.iterable(dims) else []
    if len(values) not in (1, 2):
        raise ValueError(f"dims must be one dimension or a pair, by index or name; got {dims!r:.200}")
    indices = [_dimension_index(value, names) for value in values]
    if len(set(indices)) < len(indices):
        raise ValueError(f"dims must be two distinct dimensions; got {dims!r:.200}")
    return indices


def _dimension_index(value: Any, names: list[str]) -> int:
    if isinstance(value, str) and value in names:
        return names.index(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < len(names):
        return int(value)
    valid = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise ValueError(
        f"dims must be names of dimensions ({valid}) or indices below {len(names)}; got {value!r:.100}"
    )


def _principal_projection(points: F64) -> Projection:
    """Return the two directions of largest variance; the largest entry of each is positive."""
    center = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(points.T, ddof=0)))
    largest = np.argsort(values)[::-1][:2]
    directions = vectors[:, largest]
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    fractions = values[largest] / max(values.sum(), np.finfo(float).tiny)
    labels = tuple(f"principal direction {k} ({100 * f:.0f} %)" for k, f in enumerate(fractions, 1))
    return Projection(labels, center, directions)


CONTOUR_FRACTIONS = (0.9, 0.5)  # fractions of the points inside the contours, as documented


def sets(sets: Any, which: Any = None, y: Any = None, *, dims: Any = None, ax: Any = None) -> Axes | Figure:
    """Draw one set, or several side by side on common axes.

    One dimension is drawn as a histogram and a density, two as points with contours around the densest 50 % and 90 %,
    more as points in two principal directions, and strings as frequencies of symbols. The area of a point is
    proportional to its weight.

    Parameters
    ----------
    sets : sets
        A collection of sets; only the drawn sets of a store are read.
    which : int or list of int, optional
        Indices of the sets to draw. By default up to six: the first ones, or some of every class of ``y``.
    y : (n,) array, optional
        Targets, which define the colours; a Series is aligned to ids by its index.
    dims : int, str, or a pair of them, optional
        The dimensions to draw, by index or (if the sets have names) by name, instead of principal directions.
    ax : Axes, or one for each set, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes of one set, Figure of several

    Raises
    ------
    ValueError, TypeError
        If indices, targets, dimensions or axes do not match.
    SampleSetError
        If sets are not a collection of sets, or have negative weights.

    Notes
    -----
    If a set has more than 3,000 points, a random sample with a fixed seed is drawn, as the title states. Densities
    are kernel estimates with Scott's rule from up to 1,000 points. Cost: about 0.3 s.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(i % 2, 1, (200, 2)) for i in range(10)]
    >>> ax = dk.plot.sets(bags, 3)
    >>> ax.get_title(loc="left"), ax.get_xlabel()
    ('set 3: 200 points', 'dimension 0')
    >>> figure = dk.plot.sets(bags, [0, 1], y=[0, 1] * 5)
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['set 0: y = 0, 200 points', 'set 1: y = 1, 200 points']
    """
    collection = check_sets(sets, text=True)
    colours = colour_by_target(y, collection)
    indices = _select_sets(which, len(collection), colours)
    view = collection[np.array(indices)]
    subset = view if isinstance(view, SampleSets) else view.load()
    for k, i in enumerate(indices):
        require_nonnegative_weights(subset[k : k + 1], i)
    panels = get_panels(ax, len(indices))
    drawing = _SetPanels(subset, None if subset.points_dtype.kind == "u" else choose_projection(subset, dims))
    for k, (panel, i) in enumerate(zip(panels, indices, strict=True)):
        target = "" if colours is None else f"{colours.label} = {colours.format_target(i)}, "
        drawing.draw(panel, k, PALETTE[0] if colours is None else colours.colours[i])
        n = int(subset.sizes[k])
        sample = f"{MAX_DRAWN_POINTS:,} of " if n > MAX_DRAWN_POINTS and drawing.is_scatter else ""
        style_axes(panel, f"set {i}: {target}{sample}{n:,} points", *drawing.labels)
        add_grid(panel, "both" if drawing.is_scatter else "y")
    if len(panels) == 1:
        return panels[0]
    top = max(panel.get_ylim()[1] for panel in panels)
    for panel in panels:
        panel.set_ylim(top=top)
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    return figure


def _select_sets(which: Any, n: int, colours: TargetColours | None) -> list[int]:
    """Return the indices of the sets to draw."""
    if which is None:
        return _example_sets(n, colours)
    indices = list(which) if np.iterable(which) else [which]
    if len(indices) == 0:
        raise ValueError("which must be the index of at least one set; got none")
    return [check_int("which", i, minimum=0, maximum=n - 1) for i in indices]


def _example_sets(n: int, colours: TargetColours | None) -> list[int]:
    """Return the first sets, the first of every class in turn, or sets at equal steps of the sorted targets."""
    n_shown = min(n, DEFAULT_N_SETS)
    if colours is None:
        return list(range(n_shown))
    if colours.values is not None:
        order = np.argsort(colours.values, kind="stable")
        return [int(i) for i in order[np.linspace(0, n - 1, n_shown).round().astype(int)]]
    rank_in_class = np.empty(n, np.int64)
    for k in range(len(colours.names)):
        rows = np.flatnonzero(colours.index == k)
        rank_in_class[rows] = np.arange(len(rows))
    return [int(i) for i in np.lexsort((np.arange(n), colours.index, rank_in_class))[:n_shown]]


class _SetPanels:
    """Panels of a figure with common axes, bins and limits; without a projection the sets are strings."""

    def __init__(self, sets: SampleSets, projection: Projection | None) -> None:
        self.sets, self.projection = sets, projection
        if projection is None:
            self.labels: tuple[str, ...] = ("symbol", "fraction of the points")
            return
        coordinates = projection.project(sets.points)
        low, high = coordinates.min(axis=0), coordinates.max(axis=0)
        margin = np.where(high > low, 0.08 * (high - low), 0.5)
        self.low, self.high = low - margin, high + margin
        self.labels = projection.labels if projection.n_dims == 2 else (*projection.labels, "density")
        if projection.n_dims == 1:
            median = int(np.median(sets.sizes))
            n_bins = int(np.clip(2 * np.cbrt(median), 5, MAX_HISTOGRAM_BINS))  # Rice's rule
            ends = (low[0], high[0]) if high[0] > low[0] else (self.low[0], self.high[0])
            self.bins = np.linspace(*ends, n_bins + 1).tolist()

    @property
    def is_scatter(self) -> bool:
        """True if points are drawn as points in the plane."""
        return self.projection is not None and self.projection.n_dims == 2

    def draw(self, ax: Axes, k: int, colour: str) -> None:
        """Draw set k."""
        values = self.sets.weights_of(k)
        weights = None if values is None else np.asarray(values, np.float64).reshape(-1)
        if self.projection is None:
            self._draw_symbols(ax, k, weights, colour)
            return
        coordinates = self.projection.project(self.sets[k])
        if self.projection.n_dims == 1:
            self._draw_histogram(ax, coordinates[:, 0], weights, colour)
        else:
            self._draw_points(ax, coordinates, weights, colour)

    def _draw_symbols(self, ax: Axes, k: int, weights: F64 | None, colour: str) -> None:
        codes = np.asarray(self.sets[k]).reshape(-1).astype(np.int64)
        low, high = int(self.sets.relative.min()), int(self.sets.relative.max())
        counts = np.bincount(codes - low, weights, minlength=high - low + 1)
        ax.bar(np.arange(low, high + 1), counts / counts.sum(), color=colour, alpha=0.85)
        if self.sets.alphabet is not None and high - low < MAX_HISTOGRAM_BINS:
            symbols = range(low, high + 1)
            ax.set_xticks(symbols, [format_label(self.sets.alphabet[c]) for c in symbols])

    def _draw_histogram(self, ax: Axes, values: F64, weights: F64 | None, colour: str) -> None:
        ax.hist(values, bins=self.bins, weights=weights, density=True, color=colour, alpha=0.35)
        ax.set_xlim(self.low[0], self.high[0])
        density = _estimate_density(values[None], weights)
        if density is not None:
            grid = np.linspace(self.low[0], self.high[0], DENSITY_LINE_SIZE)
            ax.plot(grid, density(grid[None]), color=colour, linewidth=1.8)

    def _draw_points(self, ax: Axes, coordinates: F64, weights: F64 | None, colour: str) -> None:
        indices = sample_points(len(coordinates))
        x, y = coordinates[indices].T
        size = np.clip(4000 / len(x), 4, 40)
        sizes = size if weights is None else 2 * size * weights[indices] / weights.max()
        ax.scatter(x, y, s=sizes, color=colour, alpha=0.6, linewidths=0, rasterized=len(x) > 1000)
        ax.set_xlim(self.low[0], self.high[0])
        ax.set_ylim(self.low[1], self.high[1])
        density = _estimate_density(coordinates.T, weights)
        if density is None:
            return
        grid = [
            np.linspace(low, high, DENSITY_GRID_SIZE) for low, high in zip(self.low, self.high, strict=True)
        ]
        mesh = np.stack([m.ravel() for m in np.meshgrid(*grid)])
        levels = np.quantile(
            density(density.dataset),
            1 - np.array(CONTOUR_FRACTIONS),
            weights=density.weights,
            method="inverted_cdf",
        )
        if 0 < levels[0] < levels[1]:
            ax.contour(
                *grid,
                density(mesh).reshape(DENSITY_GRID_SIZE, DENSITY_GRID_SIZE),
                levels,
                colors=MUTED_COLOUR,
                linewidths=1.2,
            )


def _estimate_density(coordinates: F64, weights: F64 | None) -> gaussian_kde | None:
    """Estimate the density of points (k, n) from a sample; None if there are too few or they lie on a line."""
    n = coordinates.shape[1]
    if n < MIN_DENSITY_POINTS:
        return None
    sample = np.random.default_rng(0).permutation(n)[:MAX_DENSITY_POINTS]
    sample_weights = None if weights is None else weights[sample]
    try:
        return gaussian_kde(coordinates[:, sample], weights=sample_weights)
    except (np.linalg.LinAlgError, ValueError):  # zero variance, or a single point with a weight
        return None
