"""Colours of targets: one for each class, or a scale for numbers; with the key that tells which is which.

What all pictures share: axes that are given or made, plain labels, and colours that everybody can tell apart.
"""

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
from dkdist.sets.indexing import aligned, has_default_index, has_index

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7B4FA3", "#5C5C5C")
"""Okabe and Ito (2008), but for yellow and black: also for eyes that do not tell red from green."""

MARKERS = "os^Dvp"  # where there are more groups than colours
TEXT_COLOUR, MUTED_COLOUR, GRID_COLOUR = "#1d2733", "#6b7683", "#e6eaee"
SEQUENTIAL_CMAP, DIVERGING_CMAP = "viridis", "RdBu_r"
FIGURE_INCHES, PAD_INCHES = (6.4, 4.4), 0.08  # inches: of a picture, and around each of its panels
MAX_LABEL_CHARACTERS = 72  # of a name


def get_axes(ax: Any, size: tuple[float, float] = FIGURE_INCHES) -> Axes:
    """The axes that were given, or new ones in a figure of their own."""
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be matplotlib Axes; found {type(ax).__name__}: give one of plt.subplots()")
    return ax


def get_panels(ax: Any, n: int) -> list[Axes]:
    """One panel for each of n pictures: those that were given, or new ones side by side, three in a row."""
    if ax is None:
        columns = min(n, 3)
        rows = -(-n // columns)
        size = (3.6 * columns, 3.3 * rows) if n > 1 else FIGURE_INCHES
        layout = ConstrainedLayoutEngine(h_pad=PAD_INCHES, w_pad=PAD_INCHES)
        figure, made = plt.subplots(rows, columns, figsize=size, layout=layout, squeeze=False)
        for empty in made.flat[n:]:
            figure.delaxes(empty)
        return list(made.flat[:n])
    several = list(ax.flat) if isinstance(ax, np.ndarray) else ax if isinstance(ax, (list, tuple)) else [ax]
    given = [get_axes(panel) for panel in several if panel is not None]
    if len(given) != n:
        raise ValueError(
            f"ax must be one Axes for each of the {n} sets; found {len(given)}: give as many, or none"
        )
    return given


def style_axes(ax: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Axes with a title to the left, names of both directions, and nothing that is no data."""
    ax.set_title(title, loc="left", fontsize=11, color=TEXT_COLOUR)
    ax.set_xlabel(x, color=TEXT_COLOUR)
    ax.set_ylabel(y, color=TEXT_COLOUR)
    ax.tick_params(colors=MUTED_COLOUR, labelcolor=TEXT_COLOUR)
    for name, side in ax.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color(MUTED_COLOUR)
    return ax


def add_grid(ax: Axes, axis: Any = "both") -> None:
    """Faint lines behind the data."""
    ax.grid(visible=True, axis=axis, color=GRID_COLOUR, linewidth=0.8)
    ax.set_axisbelow(True)


def add_colour_bar(ax: Axes, mappable: Any, label: str, **options: Any) -> None:
    """The scale of the colours, beside the axes."""
    bar = ax.figure.colorbar(mappable, ax=ax, label=label, **options)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED_COLOUR, labelcolor=TEXT_COLOUR)


def add_legend(ax: Axes, **options: Any) -> None:
    """What the labels of the lines and points say, without a box unless one is asked for."""
    ax.legend(**{"frameon": False, "labelcolor": TEXT_COLOUR, **options})


def format_label(name: object) -> str:
    """A name as it is: not as a formula, not so long that nothing else is seen, never hidden from a legend."""
    text = " ".join(str(name).split())
    if len(text) > MAX_LABEL_CHARACTERS:
        text = f"{text[: MAX_LABEL_CHARACTERS - 3]}..."
    text = "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


MAX_COLOURED_CLASSES = len(PALETTE) * len(MARKERS)
MAX_INTEGER_CLASSES = 12  # different whole numbers that are classes; of more they are numbers


@dataclass(frozen=True)
class TargetColours:
    """The colour and marker of each of n sets; ``names`` of classes with their ``index``, or ``values`` of numbers.

    ``label`` says what they are.
    """

    colours: list[str]
    markers: list[str]
    names: list[str]
    index: I64
    values: F64 | None = None
    label: str = "y"

    def told(self, i: int) -> str:
        """The target of set i."""
        return f"{self.values[i]:.4g}" if self.values is not None else self.names[self.index[i]]


def colour_by_target(y: Any, of: Any) -> TargetColours | None:
    """How n sets, or the rows (n, ...) that were made of them, are coloured by their targets; None without targets.

    A Series is joined by its index to what has ids: sets, rows and matrices that were made of them, and frames.
    """
    if y is None:
        return None
    n = len(of)
    if has_index(of) and not has_default_index(of):
        y = aligned(y, of.index.to_numpy())
    else:
        _, y = align_to_index(of, y=y)
    values = np.asarray(y)
    if values.shape != (n,):
        raise ValueError(f"y must be one target for each of the {n} sets; found shape {values.shape}")
    if values.dtype.kind not in "biufUSO":
        raise ValueError(
            f"y must hold numbers, booleans or names; found dtype {values.dtype}: convert it first"
        )
    if values.dtype.kind == "O":
        values = values.astype(str)
    numbers = values.dtype.kind == "f" or (
        values.dtype.kind in "iu" and len(np.unique(values)) > MAX_INTEGER_CLASSES
    )
    made = _colour_numbers(values.astype(np.float64)) if numbers else _colour_classes(values)
    name = getattr(y, "name", None)  # of a column of a data frame
    return replace(made, label=format_label(name)) if isinstance(name, str) else made


def _colour_numbers(values: F64) -> TargetColours:
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"target {i} of y is {values[i]}: leave out the sets that have no target")
    scaled = Normalize(values.min(), values.max())(values)
    colours = [to_hex(c) for c in colormaps[SEQUENTIAL_CMAP](np.ma.filled(scaled, 0.5))]
    return TargetColours(colours, ["o"] * len(values), [], np.zeros(len(values), np.int64), values)


def _colour_classes(values: Any) -> TargetColours:
    names, index = np.unique(values, return_inverse=True)
    if len(names) > MAX_COLOURED_CLASSES:
        raise ValueError(
            f"y holds {len(names)} classes, and no more than {MAX_COLOURED_CLASSES} can be told apart: give larger groups, or "
            "floats for what is a number"
        )
    colours = [PALETTE[k % len(PALETTE)] for k in index]
    markers = [MARKERS[k // len(PALETTE)] for k in index]
    return TargetColours(colours, markers, [format_label(name) for name in names], index.astype(np.int64))


def draw_key(ax: Axes, colours: TargetColours) -> None:
    """A legend of the classes, or a bar of the numbers."""
    if colours.values is not None:
        scale = ScalarMappable(Normalize(colours.values.min(), colours.values.max()), SEQUENTIAL_CMAP)
        add_colour_bar(ax, scale, colours.label)
        return
    for k, name in enumerate(colours.names):
        own = PALETTE[k % len(PALETTE)], MARKERS[k // len(PALETTE)]
        ax.plot([], [], color=own[0], marker=own[1], linestyle="", label=name)
    add_legend(
        ax, title=colours.label, loc="upper left", bbox_to_anchor=(1, 1)
    )  # beside the data, never over them
