"""`plot.calibration`: observed class frequencies against predicted probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats import binomtest

from dkdist._base.parameter_checks import check_int
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
from dkdist.plot._tuning import HISTOGRAM_HEIGHT_RATIO, MAX_BINS

CONFIDENCE_LEVEL = 0.95  # level of the intervals, as documented (tests/plot/test_pictures_of_models.py)


def calibration(model: Any, sets: Any, y: Any, *, n_bins: int = 10, ax: Any = None) -> Axes:
    """Draw observed class frequencies against predicted probabilities.

    The probability is that of the second class for two classes, and of the predicted class for more. Bins have (nearly)
    equal numbers of sets.

    Parameters
    ----------
    model : fitted classifier with ``predict_proba``
        `SetClassifier`, a pipeline, or another model that accepts ``sets``.
    sets : sets
        Sets that were not used in training.
    y : (n,) array
        Classes of the sets; a Series is aligned to ids by its index.
    n_bins : int, default=10
        Number of bins, at most the number of sets.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes
        Points with 95 % intervals (Wilson), the diagonal, and a histogram of the probabilities.

    Raises
    ------
    ValueError, TypeError
        If the model has no probabilities, or classes do not match.

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
    n_bins = check_int("n_bins", n_bins, maximum=MAX_BINS)
    probabilities, correct, class_name = _predict_probabilities(model, sets, y)
    bins = np.array_split(np.argsort(probabilities, kind="stable"), min(n_bins, len(probabilities)))
    x = np.array([probabilities[rows].mean() for rows in bins])
    frequencies = np.array([correct[rows].mean() for rows in bins])
    ends = [
        binomtest(int(correct[rows].sum()), len(rows)).proportion_ci(CONFIDENCE_LEVEL, "wilson")
        for rows in bins
    ]
    axes = get_axes(ax, (5.4, 5.0))
    axes.plot([0, 1], [0, 1], color=MUTED_COLOUR, linewidth=1, linestyle="--", label="perfect calibration")
    low, high = frequencies - [end.low for end in ends], [end.high for end in ends] - frequencies
    axes.errorbar(
        x, frequencies, np.maximum([low, high], 0), color=PALETTE[0], marker="o", markersize=6, linestyle="",
        elinewidth=1.4, capsize=3, label=f"observed ({100 * CONFIDENCE_LEVEL:.0f} % interval)",
    )  # fmt: skip
    counts, edges = np.histogram(probabilities, 20, (0, 1))
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
    error = float(np.average(np.abs(x - frequencies), weights=[len(rows) for rows in bins]))
    style_axes(
        axes,
        f"{len(probabilities):,} sets, mean calibration error {error:.3f}",
        f"probability of {class_name}",
        "observed frequency",
    )
    add_grid(axes)
    add_legend(axes, loc="upper left")
    return axes


def _predict_probabilities(model: Any, sets: Any, y: Any) -> tuple[F64, NDArray[np.bool_], str]:
    """Return probabilities (n,) of a class, whether each set is of that class, and its name."""
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        raise ValueError(f"model must be a fitted classifier with predict_proba; got {type(model).__name__}")
    _, y = align_to_index(sets, y=y)
    truth, classes = np.asarray(y), np.asarray(model.classes_)
    if truth.ndim != 1 or len(truth) == 0:
        raise ValueError(f"y must have one class per set; got shape {truth.shape}")
    names = classes.tolist()
    unknown = [value for value in truth.tolist() if value not in names]
    if unknown:
        raise ValueError(f"y must contain only classes of the model, {names!r:.200}; got {unknown[0]!r}")
    P = np.asarray(model.predict_proba(sets))
    if len(P) != len(truth):
        raise ValueError(f"y must have one class for each of the {len(P)} sets; got {len(truth)}")
    if not np.isfinite(P).all():
        i = int(np.argmin(np.isfinite(P).all(axis=1)))
        raise ValueError(f"sets must be valid; set {i} has no probabilities. Omit it")
    if len(classes) == 2:
        return P[:, 1], truth == classes[1], format_label(classes[1])
    return P.max(axis=1), truth == classes[P.argmax(axis=1)], "the predicted class"
