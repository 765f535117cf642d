"""`plot.calibration`: whether probabilities are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats import binomtest

from dkdist._base.parameter_checks import whole
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import (
    MUTED_COLOUR,
    PALETTE,
    add_grid,
    add_legend,
    format_label,
    get_axes,
    style_axes,
)

CONFIDENCE = 0.95
HISTOGRAM_HEIGHT_RATIO = 0.14  # of the height, for how often each probability was said
MAX_BINS = 1000


def calibration(model: Any, sets: Any, y: Any, *, n_bins: int = 10, ax: Any = None) -> Axes:
    """Draw how often a class was right against the probability that it was given.

    Of two classes the probability is that of the second one, of more that of the class that was predicted. Sets are
    put in bins of (nearly) equal numbers.

    Parameters
    ----------
    model : fitted classifier with ``predict_proba``
        `SetClassifier`, or a pipeline; anything that takes ``sets``.
    sets : sets
        Sets that it did not learn from.
    y : (n,) array
        Their classes; a Series is joined to ids by its index.
    n_bins : int, default=10
        Bins, at most one a set.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        Points with 95 % intervals (Wilson), the diagonal, and below them how often each probability was said.

    Raises
    ------
    ValueError, TypeError
        For a model without probabilities, and classes that do not fit.

    References
    ----------
    Niculescu-Mizil, Caruana: Predicting good probabilities with supervised learning (2005). Wilson (1927).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> y = np.arange(80) % 2
    >>> sets = [np.random.default_rng(i).normal(0.5 * c, 1, (20, 1)) for i, c in enumerate(y)]
    >>> model = dk.SetClassifier(["means"], random_state=0).fit(sets[:40], y[:40])
    >>> ax = dk.plot.calibration(model, sets[40:], y[40:], n_bins=4)
    >>> ax.get_xlabel()
    'probability of 1'
    """
    n_bins = whole("n_bins", n_bins, most=MAX_BINS)
    said, right, what = _check_predictions(model, sets, y)
    parts = np.array_split(np.argsort(said, kind="stable"), min(n_bins, len(said)))
    x = np.array([said[part].mean() for part in parts])
    shares = np.array([right[part].mean() for part in parts])
    ends = [
        binomtest(int(right[part].sum()), len(part)).proportion_ci(CONFIDENCE, "wilson") for part in parts
    ]
    axes = get_axes(ax, (5.4, 5.0))
    axes.plot([0, 1], [0, 1], color=MUTED_COLOUR, linewidth=1, linestyle="--", label="as it should be")
    low, high = shares - [end.low for end in ends], [end.high for end in ends] - shares
    axes.errorbar(
        x, shares, np.maximum([low, high], 0), color=PALETTE[0], marker="o", markersize=6, linestyle="", elinewidth=1.4,
        capsize=3, label=f"observed ({100 * CONFIDENCE:.0f} % interval)",
    )  # fmt: skip
    counts, edges = np.histogram(said, 20, (0, 1))
    axes.bar(
        edges[:-1],
        HISTOGRAM_HEIGHT_RATIO * counts / counts.max(),
        np.diff(edges),
        align="edge",
        color=MUTED_COLOUR,
        alpha=0.3,
    )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_aspect("equal")
    off = float(np.average(np.abs(x - shares), weights=[len(part) for part in parts]))
    style_axes(
        axes,
        f"{len(said):,} sets, off by {off:.3f} on average",
        f"probability of {what}",
        "share that was so",
    )
    add_grid(axes)
    add_legend(axes, loc="upper left")
    return axes


def _check_predictions(model: Any, sets: Any, y: Any) -> tuple[F64, NDArray[np.bool_], str]:
    """The probabilities (n,), whether they came true, and of what they are."""
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        raise ValueError(
            f"model must be a fitted classifier with predict_proba; found {type(model).__name__}"
        )
    _, y = align_to_index(sets, y=y)
    truth, classes = np.asarray(y), np.asarray(model.classes_)
    if truth.ndim != 1 or len(truth) == 0:
        raise ValueError(f"y must be one class for each of the sets; found shape {truth.shape}")
    known = classes.tolist()
    unknown = [value for value in truth.tolist() if value not in known]
    if unknown:
        raise ValueError(f"y holds {unknown[0]!r}, which is no class of the model: {known!r:.200}")
    P = np.asarray(model.predict_proba(sets))
    if len(P) != len(truth):
        raise ValueError(f"y must be one class for each of the {len(P)} sets; found {len(truth)}")
    if not np.isfinite(P).all():
        i = int(np.argmin(np.isfinite(P).all(axis=1)))
        raise ValueError(f"set {i} has no probabilities, for it is a bad one: leave it out")
    if len(classes) == 2:
        return P[:, 1], truth == classes[1], format_label(classes[1])
    return P.max(axis=1), truth == classes[P.argmax(axis=1)], "the predicted class"
