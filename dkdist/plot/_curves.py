"""`plot.learning_curve` and `plot.validation_curve`: scores by number of sets, epoch or parameter value.

Lines are means over splits; bands extend one standard deviation over splits to either side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dkdist._base.parameter_checks import check_real_array
from dkdist._numba.arrays import F64
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
from dkdist.plot._tuning import MIN_LOG_AXIS_RATIO


def check_scores(name: str, values: Any, n: int) -> F64:
    """Return finite scores (n, n_splits)."""
    scores = check_real_array(name, values)
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim != 2 or len(scores) != n or scores.shape[1] == 0:
        raise ValueError(f"{name} must be ({n}, n_splits), a row for each value; got shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{name} must be finite; got {int((~np.isfinite(scores)).sum())} that are not. Omit these values"
        )
    return scores


def draw_scores(ax: Axes, x: F64, scores: F64, k: int, label: str) -> None:
    """Draw the mean over splits, and one standard deviation to either side."""
    order = np.argsort(x, kind="stable")
    x, mean, std = x[order], scores.mean(axis=1)[order], scores.std(axis=1)[order]
    line = "-" if k else "--"
    ax.plot(x, mean, line, color=PALETTE[k], marker="o", markersize=4.5, linewidth=1.8, label=label)
    if scores.shape[1] > 1:
        ax.fill_between(x, mean - std, mean + std, color=PALETTE[k], alpha=0.15, linewidth=0)


def set_x_scale(ax: Axes, x: F64) -> None:
    """Use a logarithmic axis for positive values with a large ratio."""
    if x.min() > 0 and x.max() >= MIN_LOG_AXIS_RATIO * x.min():
        ax.set_xscale("log")


def learning_curve(result: Any, *, ax: Any = None) -> Axes:
    """Draw scores against the number of training sets, or losses against epochs.

    Parameters
    ----------
    result : tuple, or fitted estimator
        (sizes, training scores, test scores) with scores (n_sizes, n_splits), as returned by ``learning_curve`` of
        scikit-learn; or an `IncrementalSGDClassifier` or `IncrementalSGDRegressor`, or a pipeline that ends with one,
        whose ``loss_curve_`` (and ``validation_loss_curve_``, if sets were held out) is drawn.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If result has another type, or lengths of scores or axes do not match.

    Notes
    -----
    Lines are means over splits; bands extend one standard deviation to either side.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> X = np.random.default_rng(0).normal(size=(400, 3)).astype("f4")
    >>> model = dk.IncrementalSGDClassifier(n_epochs=5, validation_fraction=0.2, random_state=0).fit(X, X[:, 0] > 0)
    >>> ax = dk.plot.learning_curve(model)
    >>> [line.get_label() for line in ax.lines], ax.lines[0].get_xdata().tolist()
    (['training', 'held out'], [1, 2, 3, 4, 5])
    """
    learner = last_step(result)
    if hasattr(learner, "loss_curve_"):
        return _draw_losses(get_axes(ax), learner)
    if not isinstance(result, (tuple, list)) or len(result) < 3:
        raise ValueError(
            "result must be (sizes, training scores, test scores), or a fitted SGD estimator with a loss_curve_; got "
            f"{type(result).__name__}. Pass the result of sklearn.model_selection.learning_curve"
        )
    sizes = check_real_array("sizes", result[0])
    if sizes.ndim != 1 or len(sizes) == 0 or not (sizes > 0).all():
        raise ValueError(f"sizes must be numbers of sets above 0; got {result[0]!r:.100}")
    training = check_scores("training scores", result[1], len(sizes))
    test = check_scores("test scores", result[2], len(sizes))
    axes = get_axes(ax)
    draw_scores(axes, sizes, training, 0, "training")
    draw_scores(axes, sizes, test, 1, "test")
    set_x_scale(axes, sizes)
    style_axes(axes, "", "training sets", "score")
    add_grid(axes)
    add_legend(axes)
    return axes


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or of the best pipeline of a search."""
    model = getattr(model, "best_estimator_", model)
    return model.steps[-1][1] if hasattr(model, "steps") else model


def _draw_losses(ax: Axes, learner: Any) -> Axes:
    epochs = np.arange(1, len(learner.loss_curve_) + 1)
    held_out = np.asarray(learner.validation_loss_curve_)
    ax.plot(epochs, learner.loss_curve_, "--", color=PALETTE[0], marker="o", markersize=4.5, label="training")
    if np.isfinite(held_out).any():
        ax.plot(epochs, held_out, color=PALETTE[1], marker="o", markersize=4.5, label="held out")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    style_axes(ax, "", "epoch", f"mean loss ({learner.loss})".replace("_", " "))
    add_grid(ax)
    add_legend(ax)
    return ax


def validation_curve(result: Any, name: str | None = None, *, ax: Any = None) -> Axes:
    """Draw scores against the values of a parameter.

    Parameters
    ----------
    result : tuple, or fitted search
        (values, training scores, test scores) with scores (n_values, n_splits), as returned by ``validation_curve`` of
        scikit-learn; or an `OnePassSearch`, ``GridSearchCV`` or similar search: candidates are points, and the line
        joins the best candidate of every value.
    name : str, optional
        Name of the parameter; required for a search whose candidates differ in several parameters.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If result has another type, lengths of scores or axes do not match, or the parameter was not searched.

    Notes
    -----
    Positive numbers that span a factor of 50 have a logarithmic axis; values that are not numbers are categories.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> X = np.random.default_rng(0).normal(size=(200, 3)).astype("f4")
    >>> search = dk.OnePassSearch(dk.IncrementalRidge(), {"alphas": [0.01, 1.0, 100.0]}, random_state=0)
    >>> ax = dk.plot.validation_curve(search.fit(X, X[:, 0]))
    >>> ax.get_xlabel(), ax.get_xscale(), ax.lines[0].get_xdata().tolist()
    ('alphas', 'log', [0.01, 1.0, 100.0])
    """
    if hasattr(result, "cv_results_"):
        return _draw_search(result.cv_results_, name, get_axes(ax))
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise ValueError(
            "result must be (values, training scores, test scores) or a fitted search; got "
            f"{type(result).__name__}. Pass (values, *sklearn.model_selection.validation_curve(...))"
        )
    axis = _place_values(list(np.asarray(result[0], object).ravel()))
    training = check_scores("training scores", result[1], len(axis.positions))
    test = check_scores("test scores", result[2], len(axis.positions))
    axes = get_axes(ax)
    draw_scores(axes, axis.positions, training, 0, "training")
    draw_scores(axes, axis.positions, test, 1, "test")
    _label_value_axis(axes, axis, "value" if name is None else name)
    add_legend(axes)
    return axes


class _ValueAxis(NamedTuple):
    """Positions of values along the axis: the numbers, or indices into ``labels``."""

    positions: F64
    labels: list[str]


def _place_values(values: list[Any]) -> _ValueAxis:
    if not values:
        raise ValueError("result must hold at least one value; got none")
    if all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values):
        positions = np.array(values, np.float64)
        if np.isfinite(positions).all():
            return _ValueAxis(positions, [])
    labels = [format_label(v) for v in values]
    distinct = list(dict.fromkeys(labels))
    return _ValueAxis(np.array([distinct.index(label) for label in labels], np.float64), distinct)


def _label_value_axis(ax: Axes, axis: _ValueAxis, name: str) -> None:
    if axis.labels:
        ax.set_xticks(range(len(axis.labels)), axis.labels)
    else:
        set_x_scale(ax, axis.positions)
    style_axes(ax, "", format_label(name), "score")
    add_grid(ax)


def _draw_search(results: Any, name: str | None, ax: Axes) -> Axes:
    params = results["params"]
    name = _choose_parameter(params, name)
    scores = np.asarray(results["mean_test_score"], np.float64)
    scored = [i for i, candidate in enumerate(params) if name in candidate and np.isfinite(scores[i])]
    if not scored:
        raise ValueError(f"result must hold a scored candidate with {name}; got none")
    axis = _place_values([_as_scalar(params[i][name]) for i in scored])
    x, means = axis.positions, scores[scored]
    stds = np.asarray(results["std_test_score"], np.float64)[scored]
    distinct = np.unique(x)
    best = np.array([np.flatnonzero(x == value)[means[x == value].argmax()] for value in distinct])
    ax.errorbar(
        distinct, means[best], stds[best] if stds.any() else None, color=PALETTE[1], marker="o", markersize=5,
        linewidth=1.8, elinewidth=1, capsize=3, label="best of each value",
    )  # fmt: skip
    if len(scored) > len(distinct):
        ax.plot(
            x, means, "o", color=MUTED_COLOUR, markersize=3.5, alpha=0.6, zorder=1, label="all candidates"
        )
    top = best[means[best].argmax()]
    ax.plot(
        x[top], means[top], "o", markersize=12, fillstyle="none", color=TEXT_COLOUR, label="best candidate"
    )
    _label_value_axis(ax, axis, name)
    add_legend(ax)
    return ax


def _as_scalar(value: Any) -> Any:
    """Convert a number, or a sequence of one number, to a number; other values to text."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, (int, float, np.number)) else str(value)


def _choose_parameter(params: Any, name: str | None) -> str:
    """Return the name of the parameter, by default the only one in which candidates differ."""
    names = sorted({key for candidate in params for key in candidate})
    searched = [key for key in names if len({repr(candidate.get(key)) for candidate in params}) > 1]
    if name is None and len(searched) != 1:
        raise ValueError(
            f"name must be given if candidates differ in several parameters; they differ in "
            f"{', '.join(searched) or 'none'}"
        )
    parameter = searched[0] if name is None else name
    if not isinstance(parameter, str) or parameter not in names:
        raise ValueError(f"name must be one of {', '.join(names)}; got {parameter!r:.100}")
    return parameter
