"""`plot.sets`: one set, or several side by side.

Which one or two numbers of every point a picture shows: its dimensions, two that were named, or principal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from dkdist._base.inputs import check_sets
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist._base.parameter_checks import whole
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
from dkdist.sets import SampleSets

MAX_DRAWN_POINTS = 3000  # of one set that are drawn


@dataclass(frozen=True)
class Projection:
    """Coordinates (points - middle) @ directions of the points, (n, 1) or (n, 2), and what they are called."""

    labels: tuple[str, ...]
    middle: F64
    directions: F64

    @property
    def n_dims(self) -> int:
        """One or two."""
        return len(self.labels)

    def of(self, points: Any) -> F64:
        """The coordinates of points (n, d)."""
        return np.asarray((np.asarray(points, np.float64) - self.middle) @ self.directions)


def choose_projection(sets: SampleSets, dims: Any = None) -> Projection:
    """The plane (or line) in which sets are drawn; ``dims`` are one or two dimensions, by position or by name."""
    names, d = dimension_names(sets), sets.n_dims
    if dims is None and d > 2:
        return _principal_projection(np.asarray(sets.points, np.float64))
    chosen = list(range(d)) if dims is None else _dimension_indices(dims, names)
    labels = tuple(format_label(names[j]) for j in chosen)
    return Projection(labels, np.zeros(d), np.eye(d)[:, chosen])


def dimension_names(sets: SampleSets) -> list[str]:
    """The names of the dimensions, or their positions in words."""
    names = getattr(sets, "names", None)
    return [f"dimension {j}" for j in range(sets.n_dims)] if names is None else [str(name) for name in names]


def sample_points(n: int) -> slice | Any:
    """Which of n points are drawn: all, or as many as can be told apart, drawn at random by a fixed seed."""
    if n <= MAX_DRAWN_POINTS:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n, MAX_DRAWN_POINTS, replace=False))


def _dimension_indices(dims: Any, names: list[str]) -> list[int]:
    asked = [dims] if isinstance(dims, (str, int, np.integer)) else list(dims) if np.iterable(dims) else None
    advice = f"give one or two of {len(names)} dimensions, by position or by name"
    if asked is None or len(asked) not in (1, 2):
        raise ValueError(f"dims must be one dimension or a pair; found {dims!r:.200}: {advice}")
    found = [_dimension_index(one, names, advice) for one in asked]
    if len(set(found)) < len(found):
        raise ValueError(f"dims must be two different dimensions; found {dims!r:.200}: {advice}")
    return found


def _dimension_index(one: Any, names: list[str], advice: str) -> int:
    if isinstance(one, str) and one in names:
        return names.index(one)
    if isinstance(one, (int, np.integer)) and not isinstance(one, bool) and 0 <= one < len(names):
        return int(one)
    known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise ValueError(f"dims: there is no dimension {one!r:.100} among {known}: {advice}")


def _principal_projection(points: F64) -> Projection:
    """The two directions in which points spread most; the largest entry of each is positive."""
    middle = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(points.T, ddof=0)))
    first = np.argsort(values)[::-1][:2]
    directions = vectors[:, first]
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    shares = values[first] / max(values.sum(), np.finfo(float).tiny)
    labels = tuple(f"principal direction {k} ({100 * s:.0f} %)" for k, s in enumerate(shares, 1))
    return Projection(labels, middle, directions)


DEFAULT_N_SETS = 6  # that are drawn if none are chosen
MAX_DENSITY_POINTS, DENSITY_GRID_SIZE = 1000, 60  # that densities are estimated from, and on
MIN_DENSITY_POINTS = 10  # of a density
CONTOUR_FRACTIONS = (0.9, 0.5)  # shares of the points within the contours
MAX_BINS = 60


def sets(sets: Any, which: Any = None, y: Any = None, *, dims: Any = None, ax: Any = None) -> Axes | Figure:
    """Draw one set, or several side by side on common axes.

    One dimension is drawn as a histogram and a density, two as points with contours within which the densest half and
    nine tenths of them lie, more as their two principal directions; strings as the shares of their symbols. Points are
    as large as their weights say.

    Parameters
    ----------
    sets : sets
        Anything that is a collection of sets; of a store only what is drawn is read.
    which : int or list of int, optional
        The set, or sets, to draw. By default up to six: the first ones, or in turn of every class of ``y``.
    y : (n,) array, optional
        A target for every set of the collection, which colours it; a Series is joined by its index to sets with ids.
    dims : int, str, or a pair of them, optional
        The dimensions to draw, by position or (where sets have names) by name, in place of principal directions.
    ax : Axes, or one for each set, optional
        Where to draw.

    Returns
    -------
    Axes of one set, Figure of several

    Raises
    ------
    ValueError, TypeError
        For positions, targets, dimensions and axes that do not fit.
    SampleSetError
        For what is no collection of sets, and negative weights.

    Notes
    -----
    Of a set with more than 3,000 points as many are drawn at random (by a fixed seed), and the title says so; densities
    are by Scott's rule from 1,000. Cost: some tenths of a second.

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
    every = check_sets(sets, text=True)
    colours = colour_by_target(y, every)
    chosen = _select_sets(which, len(every), colours)
    some = every[np.array(chosen)] if isinstance(every, SampleSets) else every[np.array(chosen)].load()
    for k, i in enumerate(chosen):
        require_nonnegative_weights(some[k : k + 1], i)
    panels = get_panels(ax, len(chosen))
    draw = _SetPanels(some, None if some.points_dtype.kind == "u" else choose_projection(some, dims))
    for k, (panel, i) in enumerate(zip(panels, chosen, strict=True)):
        target = "" if colours is None else f"{colours.label} = {colours.told(i)}, "
        draw.panel(panel, k, PALETTE[0] if colours is None else colours.colours[i])
        n = int(some.sizes[k])
        part = f"{MAX_DRAWN_POINTS:,} of " if n > MAX_DRAWN_POINTS and draw.is_plane else ""
        style_axes(panel, f"set {i}: {target}{part}{n:,} points", *draw.labels)
        add_grid(panel, "both" if draw.is_plane else "y")
    if len(panels) == 1:
        return panels[0]
    top = max(panel.get_ylim()[1] for panel in panels)
    for panel in panels:
        panel.set_ylim(top=top)
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    return figure


def _select_sets(which: Any, n: int, colours: TargetColours | None) -> list[int]:
    """Positions of the sets that are drawn."""
    if which is None:
        return _example_sets(n, colours)
    asked = (
        [which] if isinstance(which, (int, np.integer)) else list(which) if np.iterable(which) else [which]
    )
    if len(asked) == 0:
        raise ValueError("which must name one set at least; found none")
    return [whole("which", i, least=0, most=n - 1) for i in asked]


def _example_sets(n: int, colours: TargetColours | None) -> list[int]:
    """The first sets; of every class in turn; or at even steps from the least to the largest number."""
    most = min(n, DEFAULT_N_SETS)
    if colours is None:
        return list(range(most))
    if colours.values is not None:
        order = np.argsort(colours.values, kind="stable")
        return [int(i) for i in order[np.linspace(0, n - 1, most).round().astype(int)]]
    turns = np.empty(n, np.int64)  # how many of its class come before a set
    for k in range(len(colours.names)):
        own = np.flatnonzero(colours.index == k)
        turns[own] = np.arange(len(own))
    first = np.lexsort((np.arange(n), colours.index, turns))[:most]
    return [int(i) for i in first]


class _SetPanels:
    """How the sets of one picture are drawn: the same axes, bins and limits for all of them."""

    def __init__(self, sets: SampleSets, plane: Projection | None) -> None:
        self.sets, self.plane = sets, plane
        if plane is None:
            self.labels: tuple[str, ...] = ("symbol", "share of the points")
            return
        places = plane.of(sets.points)
        low, high = places.min(axis=0), places.max(axis=0)
        margin = np.where(high > low, 0.08 * (high - low), 0.5)
        self.low, self.high = low - margin, high + margin
        self.labels = plane.labels if plane.n_dims == 2 else (*plane.labels, "density")
        if plane.n_dims == 1:
            median = int(np.median(sets.sizes))
            n_bins = int(np.clip(2 * np.cbrt(median), 5, MAX_BINS))  # Rice's rule
            ends = (low[0], high[0]) if high[0] > low[0] else (self.low[0], self.high[0])
            self.bins = np.linspace(*ends, n_bins + 1).tolist()

    @property
    def is_plane(self) -> bool:
        """Whether points are drawn as points."""
        return self.plane is not None and self.plane.n_dims == 2

    def panel(self, ax: Axes, k: int, colour: str) -> None:
        """Draw set k."""
        given = self.sets.weights_of(k)
        weights = None if given is None else np.asarray(given, np.float64).reshape(-1)
        if self.plane is None:
            self._symbols(ax, k, weights, colour)
        elif self.plane.n_dims == 1:
            self._histogram(ax, self.plane.of(self.sets[k])[:, 0], weights, colour)
        else:
            self._points(ax, self.plane.of(self.sets[k]), weights, colour)

    def _symbols(self, ax: Axes, k: int, weights: F64 | None, colour: str) -> None:
        codes = np.asarray(self.sets[k]).reshape(-1).astype(np.int64)
        least, most = int(self.sets.relative.min()), int(self.sets.relative.max())
        shares = np.bincount(codes - least, weights, minlength=most - least + 1)
        ax.bar(np.arange(least, most + 1), shares / shares.sum(), color=colour, alpha=0.85)
        if self.sets.alphabet is not None and most - least < MAX_BINS:
            ax.set_xticks(
                range(least, most + 1), [format_label(self.sets.alphabet[c]) for c in range(least, most + 1)]
            )

    def _histogram(self, ax: Axes, values: F64, weights: F64 | None, colour: str) -> None:
        ax.hist(values, bins=self.bins, weights=weights, density=True, color=colour, alpha=0.35)
        ax.set_xlim(self.low[0], self.high[0])
        density = _estimate_density(values[None], weights)
        if density is not None:
            grid = np.linspace(self.low[0], self.high[0], 200)
            ax.plot(grid, density(grid[None]), color=colour, linewidth=1.8)

    def _points(self, ax: Axes, places: F64, weights: F64 | None, colour: str) -> None:
        some = sample_points(len(places))
        x, y = places[some].T
        size = np.clip(4000 / len(x), 4, 40)
        sizes = size if weights is None else 2 * size * weights[some] / weights.max()
        ax.scatter(x, y, s=sizes, color=colour, alpha=0.6, linewidths=0, rasterized=len(x) > 1000)
        ax.set_xlim(self.low[0], self.high[0])
        ax.set_ylim(self.low[1], self.high[1])
        density = _estimate_density(places.T, weights)
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


def _estimate_density(places: F64, weights: F64 | None) -> gaussian_kde | None:
    """The estimated density of points (k, n), by some of them; None of few, or of points on a line."""
    n = places.shape[1]
    if n < MIN_DENSITY_POINTS:
        return None
    some = np.random.default_rng(0).permutation(n)[:MAX_DENSITY_POINTS]
    own = None if weights is None else weights[some]
    try:
        return gaussian_kde(places[:, some], weights=own)
    except (
        np.linalg.LinAlgError,
        ValueError,
    ):  # nothing to estimate from: no spread, or one point with a weight
        return None
