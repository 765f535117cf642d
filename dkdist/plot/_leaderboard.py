"""`plot.leaderboard`: what was tried and how well it did."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist.auto.leaderboard import CHOSEN
from dkdist.plot._canvas import (
    MUTED_COLOUR,
    PALETTE,
    TEXT_COLOUR,
    add_grid,
    add_legend,
    format_label,
    get_axes,
    style_axes,
)

LABEL_WIDTH = 36  # characters; longer names take a second line

STYLE_BY_KIND = {
    "model": (PALETTE[1], "D", 8),
    "candidate": (PALETTE[0], "o", 7),
    "baseline": (MUTED_COLOUR, "s", 7),
}
"""Colour, marker and size: the average that predicts, what it was chosen from, and what is simpler."""


def leaderboard(model: Any, *, ax: Any = None) -> Axes:
    """Draw the leaderboard of a model without choices: scores, best first, with a standard error to either side.

    Parameters
    ----------
    model : fitted SetClassifier or SetRegressor
        Or its ``leaderboard_``.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        Baselines are grey squares, the model itself a diamond; the line is the best baseline.

    Raises
    ------
    ValueError, TypeError
        For what has no leaderboard, and axes that are none.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> y = np.arange(30) % 2
    >>> sets = [np.random.default_rng(i).normal(0, 1 + c, (30, 1)) for i, c in enumerate(y)]
    >>> model = dk.SetClassifier(["moments"], random_state=0).fit(sets, y)
    >>> ax = dk.plot.leaderboard(model)
    >>> ax.get_yticklabels()[0].get_text() == model.leaderboard_[0]["name"]
    True
    """
    entries = getattr(model, "leaderboard_", model)
    if (
        not isinstance(entries, list)
        or not entries
        or not all(isinstance(e, dict) and "score" in e for e in entries)
    ):
        raise ValueError(
            f"model must be a fitted SetClassifier or SetRegressor; found {type(model).__name__}, which has no "
            "leaderboard_"
        )
    axes = get_axes(ax, (7.2, 1.3 + 0.34 * len(entries)))
    kinds = [_kind(entry) for entry in entries]
    drawn: set[str] = set()
    for place, (entry, kind) in enumerate(zip(entries, kinds, strict=True)):
        colour, marker, size = STYLE_BY_KIND[kind]
        axes.errorbar(
            entry["score"], place, xerr=entry["std_error"], color=colour, marker=marker, markersize=size,
            elinewidth=1.6, capsize=3, linestyle="", label="_" if kind in drawn else _kind_label(kind),
            markerfacecolor="white" if kind == "baseline" else colour,
        )  # fmt: skip
        drawn.add(kind)
    simple = [entry["score"] for entry, kind in zip(entries, kinds, strict=True) if kind == "baseline"]
    if simple:
        axes.axvline(max(simple), color=MUTED_COLOUR, linewidth=1, linestyle="--", zorder=0)
    axes.set_yticks(
        np.arange(len(entries)), [fill(format_label(entry["name"]), LABEL_WIDTH) for entry in entries]
    )
    axes.set_ylim(len(entries) - 0.5, -0.5)
    style_axes(axes, "sets that were left out", f"{_score_name(model)} (\N{PLUS-MINUS SIGN} standard error)")
    for label, kind in zip(axes.get_yticklabels(), kinds, strict=True):
        label.set_fontweight("bold" if kind == "model" else "normal")
        label.set_color(MUTED_COLOUR if kind == "baseline" else TEXT_COLOUR)
    add_grid(axes, "x")
    add_legend(axes, loc="best")
    return axes


def _score_name(model: Any) -> str:
    """The name of what was scored, as far as the model tells."""
    asked = getattr(model, "scoring", "score")
    if asked is None:
        return "accuracy" if hasattr(model, "classes_") else "R2"
    return format_label(asked) if isinstance(asked, str) else "score"


def _kind(entry: Any) -> str:
    return "model" if entry["name"] == CHOSEN else "baseline" if entry.get("baseline") else "candidate"


def _kind_label(kind: str) -> str:
    return {"model": "the average that predicts", "candidate": "candidates", "baseline": "baselines"}[kind]
