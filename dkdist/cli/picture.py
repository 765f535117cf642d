"""The demo's picture: what was taken for what, one panel a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

INK, FAINT = "#1d2733", "#8a94a0"


def draw_confusions(path: Path, truth: NDArray[Any], predicted: Mapping[str, NDArray[Any]]) -> None:
    """Draw counts of (true, predicted) classes: right ones in blue, mistakes in red on a scale of their own."""
    classes = np.unique(truth)
    figure = Figure(figsize=(5.6 * len(predicted), 6), facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)
    panels = figure.subplots(1, len(predicted), squeeze=False)[0]
    for axes, (name, found) in zip(panels, predicted.items(), strict=True):
        counts = confusion_matrix(truth, found, labels=classes)
        _draw_counts(axes, counts, classes)
        right = int(np.trace(counts))
        title = f"{name}: {100 * right / len(truth):.1f} % right"
        axes.set_title(title, fontsize=15, color=INK, pad=12, loc="left")
        axes.set_title(f"{right} of {len(truth)} held out", fontsize=11, color=FAINT, pad=12, loc="right")
    figure.savefig(path, dpi=110)


def _draw_counts(axes: Axes, counts: NDArray[np.int64], classes: NDArray[Any]) -> None:
    diagonal = np.eye(len(classes), dtype=bool)
    right, wrong = np.ma.masked_where(~diagonal, counts), np.ma.masked_where(diagonal | (counts == 0), counts)
    axes.imshow(right, cmap="Blues", vmin=0, vmax=2.6 * counts.max())
    axes.imshow(wrong, cmap="Reds", vmin=-2, vmax=2 * max(3, int(np.max(wrong.filled(0)))))
    for (i, j), count in np.ndenumerate(counts):
        if count:
            weight = "normal" if i == j else "bold"
            axes.text(j, i, str(count), ha="center", va="center", fontsize=11, color=INK, weight=weight)
    ticks = np.arange(len(classes))
    axes.set_xticks(ticks, [str(c) for c in classes], color=INK, fontsize=11)
    axes.set_yticks(ticks, [str(c) for c in classes], color=INK, fontsize=11)
    axes.set_xlabel("predicted digit", color=INK, fontsize=12)
    axes.set_ylabel("true digit", color=INK, fontsize=12)
    axes.set_xticks(ticks[:-1] + 0.5, minor=True)
    axes.set_yticks(ticks[:-1] + 0.5, minor=True)
    axes.grid(which="minor", color="#e6eaee", linewidth=1)
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_color(FAINT)
