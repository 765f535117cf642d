"""Helpers of all figures: axes, labels, and colours of targets with their legend or colour bar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64, I64
from dkdist.plot._tuning import MAX_INTEGER_CLASSES, MAX_LABEL_CHARACTERS, PAD_INCHES
from dkdist.sets.indexing import align_to_ids, has_default_index, has_index

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7B4FA3", "#5C5C5C")
"""Colours of Okabe and Ito (2008), suitable for colour-blind readers, with other colours for yellow and black."""

MARKERS = "os^Dvp"  # markers of classes that share a colour
TEXT_COLOUR, MUTED_COLOUR, GRID_COLOUR = "#1d2733", "#6b7683", "#e6eaee"
SEQUENTIAL_CMAP, DIVERGING_CMAP = "viridis", "RdBu_r"
FIGURE_INCHES = (6.4, 4.4)
MAX_COLOURED_CLASSES = len(PALETTE) * len(MARKERS)


def get_axes(ax: Any, size: tuple[float, float] = FIGURE_INCHES) -> Axes:
    """Return ``ax``, or new Axes in a new figure."""
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be matplotlib Axes; got {type(ax).__name__}. Pass one from plt.subplots()")
    return ax


def get_panels(ax: Any, n: int) -> list[Axes]:
    """Return ``ax`` as a list of n Axes, or new ones in rows of three."""
    if ax is None:
        columns = min(n, 3)
        rows = -(-n // columns)
        size = (3.6 * columns, 3.3 * rows) if n > 1 else FIGURE_INCHES
        layout = ConstrainedLayoutEngine(h_pad=PAD_INCHES, w_pad=PAD_INCHES)
        figure, grid = plt.subplots(rows, columns, figsize=size, layout=layout, squeeze=False)
        for unused in grid.flat[n:]:
            figure.delaxes(unused)
        return list(grid.flat[:n])
    panels = list(ax.flat) if isinstance(ax, np.ndarray) else ax if isinstance(ax, (list, tuple)) else [ax]
    panels = [get_axes(panel) for panel in panels if panel is not None]
    if len(panels) != n:
        raise ValueError(
            f"ax must have one Axes for each of the {n} sets; got {len(panels)}. Pass {n}, or omit ax"
        )
    return panels


def style_axes(ax: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Set title and labels, and hide the upper and right spines."""
    ax.set_title(title, loc="left", fontsize=11, color=TEXT_COLOUR)
    ax.set_xlabel(x, color=TEXT_COLOUR)
    ax.set_ylabel(y, color=TEXT_COLOUR)
    ax.tick_params(colors=MUTED_COLOUR, labelcolor=TEXT_COLOUR)
    for name, side in ax.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color(MUTED_COLOUR)
    return ax


def add_grid(ax: Axes, axis: Any = "both") -> None:
    """Add a grid behind the data."""
    ax.grid(visible=True, axis=axis, color=GRID_COLOUR, linewidth=0.8)
    ax.set_axisbelow(True)


def add_colour_bar(ax: Axes, mappable: Any, label: str, **options: Any) -> None:
    """Add a colour bar next to the axes."""
    bar = ax.figure.colorbar(mappable, ax=ax, label=label, **options)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED_COLOUR, labelcolor=TEXT_COLOUR)


def add_legend(ax: Axes, **options: Any) -> None:
    """Add a legend, by default without a frame."""
    ax.legend(**{"frameon": False, "labelcolor": TEXT_COLOUR, **options})


def format_label(name: object) -> str:
    """Return a name as one short line that matplotlib shows unchanged: no formula, and not hidden from a legend."""
    text = " ".join(str(name).split())
    if len(text) > MAX_LABEL_CHARACTERS:
        text = f"{text[: MAX_LABEL_CHARACTERS - 3]}..."
    text = "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


@dataclass(frozen=True)
class TargetColours:
    """Colours and markers of n sets: class ``names`` and the ``index`` of each set, or numeric ``values``.

    ``label`` is the name of the target.
    """

    colours: list[str]
    markers: list[str]
    names: list[str]
    index: I64
    values: F64 | None = None
    label: str = "y"

    def format_target(self, i: int) -> str:
        """Format the target of set i."""
        return f"{self.values[i]:.4g}" if self.values is not None else self.names[self.index[i]]


def colour_by_target(y: Any, of: Any) -> TargetColours | None:
    """Return the colours of n sets, or of rows (n, ...) of an embedding, by their targets; None without targets.

    A Series is aligned by its index to sets, rows, matrices and frames with ids.
    """
    if y is None:
        return None
    n = len(of)
    if has_index(of) and not has_default_index(of):
        y = align_to_ids(y, of.index.to_numpy())
    else:
        _, y = align_to_index(of, y=y)
    values = np.asarray(y)
    if values.shape != (n,):
        raise ValueError(f"y must have one target for each of the {n} sets; got shape {values.shape}")
    if values.dtype.kind not in "biufUSO":
        raise ValueError(f"y must hold numbers, booleans or text; got dtype {values.dtype}. Convert it first")
    if values.dtype.kind == "O":
        values = values.astype(str)
    is_numeric = values.dtype.kind == "f" or (
        values.dtype.kind in "iu" and len(np.unique(values)) > MAX_INTEGER_CLASSES
    )
    colours = _colour_numbers(values.astype(np.float64)) if is_numeric else _colour_classes(values)
    name = getattr(y, "name", None)  # name of a data frame column
    return replace(colours, label=format_label(name)) if isinstance(name, str) else colours


def _colour_numbers(values: F64) -> TargetColours:
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"y must be finite; got {values[i]} (set {i}). Omit sets without a target")
    scaled = Normalize(values.min(), values.max())(values)
    colours = [to_hex(c) for c in colormaps[SEQUENTIAL_CMAP](np.ma.filled(scaled, 0.5))]
    return TargetColours(colours, ["o"] * len(values), [], np.zeros(len(values), np.int64), values)


def _colour_classes(values: Any) -> TargetColours:
    names, index = np.unique(values, return_inverse=True)
    if len(names) > MAX_COLOURED_CLASSES:
        raise ValueError(
            f"y must have at most {MAX_COLOURED_CLASSES} classes; got {len(names)}. Merge classes, or "
            "pass numbers as floats"
        )
    colours = [PALETTE[k % len(PALETTE)] for k in index]
    markers = [MARKERS[k // len(PALETTE)] for k in index]
    return TargetColours(colours, markers, [format_label(name) for name in names], index.astype(np.int64))


def draw_key(ax: Axes, colours: TargetColours) -> None:
    """Add a legend of the classes, or a colour bar of the numbers."""
    if colours.values is not None:
        scale = ScalarMappable(Normalize(colours.values.min(), colours.values.max()), SEQUENTIAL_CMAP)
        add_colour_bar(ax, scale, colours.label)
        return
    for k, name in enumerate(colours.names):
        colour, marker = PALETTE[k % len(PALETTE)], MARKERS[k // len(PALETTE)]
        ax.plot([], [], color=colour, marker=marker, linestyle="", label=name)
    # next to the axes, so that it hides no data
    add_legend(ax, title=colours.label, loc="upper left", bbox_to_anchor=(1, 1))
