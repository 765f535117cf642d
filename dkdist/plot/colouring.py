"""Colours of targets: one for each class, or a scale for numbers; with the key that tells which is which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex

from dkdist.base.row_ids import in_row_order
from dkdist.loops.array_types import F64, I64
from dkdist.plot.canvas import MARKERS, PALETTE, SEQUENTIAL, colour_bar, legend, plain
from dkdist.sets.indexing import aligned, has_default_index, has_index

MOST_CLASSES = len(PALETTE) * len(MARKERS)
MOST_NUMBERS = 12  # different whole numbers that are classes; of more they are numbers


@dataclass(frozen=True)
class Colouring:
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


def colouring(y: Any, of: Any) -> Colouring | None:
    """How n sets, or the rows (n, ...) that were made of them, are coloured by their targets; None without targets.

    A Series is joined by its index to what has ids: sets, rows and matrices that were made of them, and frames.
    """
    if y is None:
        return None
    n = len(of)
    if has_index(of) and not has_default_index(of):
        y = aligned(y, of.index.to_numpy())
    else:
        _, y = in_row_order(of, y=y)
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
        values.dtype.kind in "iu" and len(np.unique(values)) > MOST_NUMBERS
    )
    made = _of_numbers(values.astype(np.float64)) if numbers else _of_classes(values)
    name = getattr(y, "name", None)  # of a column of a data frame
    return replace(made, label=plain(name)) if isinstance(name, str) else made


def _of_numbers(values: F64) -> Colouring:
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"target {i} of y is {values[i]}: leave out the sets that have no target")
    scaled = Normalize(values.min(), values.max())(values)
    colours = [to_hex(c) for c in colormaps[SEQUENTIAL](np.ma.filled(scaled, 0.5))]
    return Colouring(colours, ["o"] * len(values), [], np.zeros(len(values), np.int64), values)


def _of_classes(values: Any) -> Colouring:
    names, index = np.unique(values, return_inverse=True)
    if len(names) > MOST_CLASSES:
        raise ValueError(
            f"y holds {len(names)} classes, and no more than {MOST_CLASSES} can be told apart: give larger groups, or "
            "floats for what is a number"
        )
    colours = [PALETTE[k % len(PALETTE)] for k in index]
    markers = [MARKERS[k // len(PALETTE)] for k in index]
    return Colouring(colours, markers, [plain(name) for name in names], index.astype(np.int64))


def draw_key(ax: Axes, colours: Colouring) -> None:
    """A legend of the classes, or a bar of the numbers."""
    if colours.values is not None:
        scale = ScalarMappable(Normalize(colours.values.min(), colours.values.max()), SEQUENTIAL)
        colour_bar(ax, scale, colours.label)
        return
    for k, name in enumerate(colours.names):
        own = PALETTE[k % len(PALETTE)], MARKERS[k // len(PALETTE)]
        ax.plot([], [], color=own[0], marker=own[1], linestyle="", label=name)
    legend(
        ax, title=colours.label, loc="upper left", bbox_to_anchor=(1, 1)
    )  # beside the data, never over them
