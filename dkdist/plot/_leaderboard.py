"""`plot.leaderboard`: scores of an automatic model, its candidates and baselines."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dkdist.auto.leaderboard import MODEL_NAME
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
from dkdist.plot._tuning import LABEL_LINE_CHARACTERS

STYLE_BY_KIND = {
    "model": (PALETTE[1], "D", 8),
    "candidate": (PALETTE[0], "o", 7),
    "baseline": (MUTED_COLOUR, "s", 7),
}
"""Colour, marker and size of the ensemble, of candidates and of baselines."""
LABEL_BY_KIND = {"model": "ensemble", "candidate": "candidates", "baseline": "baselines"}


def leaderboard(model: Any, *, ax: Any = None) -> Axes:
    """Draw the leaderboard of an automatic model: scores, best first, with one standard error to either side.

    Parameters
    ----------
    model : fitted SetClassifier, SetRegressor or SetSurvival
        Or its ``leaderboard_``.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes
        Baselines are grey squares, the ensemble is a diamond; the line is the best baseline.

    Raises
    ------
    ValueError, TypeError
        If model has no leaderboard, or ax is not Axes.

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
            f"model must be a fitted SetClassifier, SetRegressor or SetSurvival; got {type(model).__name__}, which has "
            "no leaderboard_"
        )
    axes = get_axes(ax, (7.2, 1.3 + 0.34 * len(entries)))
    kinds = [_kind(entry) for entry in entries]
    labelled: set[str] = set()
    for row, (entry, kind) in enumerate(zip(entries, kinds, strict=True)):
        colour, marker, size = STYLE_BY_KIND[kind]
        axes.errorbar(
            entry["score"], row, xerr=entry["std_error"], color=colour, marker=marker, markersize=size,
            elinewidth=1.6, capsize=3, linestyle="", label="_" if kind in labelled else LABEL_BY_KIND[kind],
            markerfacecolor="white" if kind == "baseline" else colour,
        )  # fmt: skip
        labelled.add(kind)
    baselines = [entry["score"] for entry, kind in zip(entries, kinds, strict=True) if kind == "baseline"]
    if baselines:
        axes.axvline(max(baselines), color=MUTED_COLOUR, linewidth=1, linestyle="--", zorder=0)
    axes.set_yticks(
        np.arange(len(entries)),
        [fill(format_label(entry["name"]), LABEL_LINE_CHARACTERS) for entry in entries],
    )
    axes.set_ylim(len(entries) - 0.5, -0.5)
    style_axes(axes, "held-out sets", f"{_score_name(model)} (\N{PLUS-MINUS SIGN} standard error)")
    for label, kind in zip(axes.get_yticklabels(), kinds, strict=True):
        label.set_fontweight("bold" if kind == "model" else "normal")
        label.set_color(MUTED_COLOUR if kind == "baseline" else TEXT_COLOUR)
    add_grid(axes, "x")
    add_legend(axes, loc="best")
    return axes


def _score_name(model: Any) -> str:
    """Return the name of the score, "score" if it is not known."""
    scoring = getattr(model, "scoring", "score")
    if scoring is None:
        return "accuracy" if hasattr(model, "classes_") else "R2"
    return format_label(scoring) if isinstance(scoring, str) else "score"


def _kind(entry: Any) -> str:
    return "model" if entry["name"] == MODEL_NAME else "baseline" if entry.get("baseline") else "candidate"
