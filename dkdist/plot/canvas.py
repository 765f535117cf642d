"""What all pictures share: axes that are given or made, plain labels, and colours that everybody can tell apart."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7B4FA3", "#5C5C5C")
"""Okabe and Ito (2008), but for yellow and black: also for eyes that do not tell red from green."""

MARKERS = "os^Dvp"  # where there are more groups than colours
INK, FAINT, LINES = "#1d2733", "#6b7683", "#e6eaee"
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
SIZE, PAD = (6.4, 4.4), 0.08  # inches: of a picture, and around each of its panels
MOST_CHARACTERS = 72  # of a name


def axes_for(ax: Any, size: tuple[float, float] = SIZE) -> Axes:
    """The axes that were given, or new ones in a figure of their own."""
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be matplotlib Axes; found {type(ax).__name__}: give one of plt.subplots()")
    return ax


def panels_for(ax: Any, n: int) -> list[Axes]:
    """One panel for each of n pictures: those that were given, or new ones side by side, three in a row."""
    if ax is None:
        columns = min(n, 3)
        rows = -(-n // columns)
        size = (3.6 * columns, 3.3 * rows) if n > 1 else SIZE
        layout = ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD)
        figure, made = plt.subplots(rows, columns, figsize=size, layout=layout, squeeze=False)
        for empty in made.flat[n:]:
            figure.delaxes(empty)
        return list(made.flat[:n])
    several = list(ax.flat) if isinstance(ax, np.ndarray) else ax if isinstance(ax, (list, tuple)) else [ax]
    given = [axes_for(panel) for panel in several if panel is not None]
    if len(given) != n:
        raise ValueError(
            f"ax must be one Axes for each of the {n} sets; found {len(given)}: give as many, or none"
        )
    return given


def dressed(ax: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Axes with a title to the left, names of both directions, and nothing that is no data."""
    ax.set_title(title, loc="left", fontsize=11, color=INK)
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    ax.tick_params(colors=FAINT, labelcolor=INK)
    for name, side in ax.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color(FAINT)
    return ax


def gridded(ax: Axes, axis: Any = "both") -> None:
    """Faint lines behind the data."""
    ax.grid(visible=True, axis=axis, color=LINES, linewidth=0.8)
    ax.set_axisbelow(True)


def colour_bar(ax: Axes, mappable: Any, label: str, **options: Any) -> None:
    """The scale of the colours, beside the axes."""
    bar = ax.figure.colorbar(mappable, ax=ax, label=label, **options)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=FAINT, labelcolor=INK)


def legend(ax: Axes, **options: Any) -> None:
    """What the labels of the lines and points say, without a box unless one is asked for."""
    ax.legend(**{"frameon": False, "labelcolor": INK, **options})


def plain(name: object) -> str:
    """A name as it is: not as a formula, not so long that nothing else is seen, never hidden from a legend."""
    text = " ".join(str(name).split())
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS - 3]}..."
    text = "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
