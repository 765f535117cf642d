"""`plot.validation_curve`: what one parameter does to the score.

Scores of several splits against something: their mean as a line, their spread as a band.

`plot.learning_curve`: how a model gets better with more sets, or with more passes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dkdist._base.parameter_checks import real_matrix
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

MIN_LOG_AXIS_RATIO = 50.0  # largest over smallest value from which on values are drawn on a logarithmic axis


def check_scores(name: str, given: Any, n: int) -> F64:
    """Scores (n, n_splits) of n values; finite where anything was scored."""
    scores = real_matrix(name, given)
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim != 2 or len(scores) != n or scores.shape[1] == 0:
        raise ValueError(f"{name} must be ({n}, n_splits), a row for each value; found shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{name} must be finite; found {int((~np.isfinite(scores)).sum())} that are not: leave them out"
        )
    return scores


def draw_scores(ax: Axes, x: F64, scores: F64, k: int, label: str) -> None:
    """The mean over splits, and one standard deviation of them to either side."""
    order = np.argsort(x, kind="stable")
    x, middle, spread = x[order], scores.mean(axis=1)[order], scores.std(axis=1)[order]
    line = "-" if k else "--"
    ax.plot(x, middle, line, color=PALETTE[k], marker="o", markersize=4.5, linewidth=1.8, label=label)
    if scores.shape[1] > 1:
        ax.fill_between(x, middle - spread, middle + spread, color=PALETTE[k], alpha=0.15, linewidth=0)


def set_x_scale(ax: Axes, x: F64) -> None:
    """A logarithmic axis for positive values that span much."""
    if x.min() > 0 and x.max() >= MIN_LOG_AXIS_RATIO * x.min():
        ax.set_xscale("log")


def learning_curve(result: Any, *, ax: Any = None) -> Axes:
    """Draw scores against the number of sets that were learned from, or losses against epochs.

    Parameters
    ----------
    result : tuple, or fitted estimator
        (sizes, training scores, test scores), each scores (n_sizes, n_splits), as scikit-learn's ``learning_curve``
        gives; or an `IncrementalSGDClassifier` or `IncrementalSGDRegressor`, or a pipeline with one at its end, whose
        ``loss_curve_`` (and ``validation_loss_curve_``, if sets were held out) is drawn.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        For what is neither, scores of other lengths, and axes that are none.

    Notes
    -----
    Lines are means over splits, bands one standard deviation to either side.

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
            "result must be (sizes, training scores, test scores), or a fitted SGD estimator with a loss_curve_; found "
            f"{type(result).__name__}: give what sklearn.model_selection.learning_curve returned"
        )
    sizes = real_matrix("sizes", result[0])
    if sizes.ndim != 1 or len(sizes) == 0 or not (sizes > 0).all():
        raise ValueError(f"sizes must be numbers of sets above 0; found {result[0]!r:.100}")
    training, test = (
        check_scores(f"{n} scores", r, len(sizes))
        for n, r in zip(("training", "test"), result[1:3], strict=True)
    )
    axes = get_axes(ax)
    draw_scores(axes, sizes, training, 0, "training")
    draw_scores(axes, sizes, test, 1, "test")
    set_x_scale(axes, sizes)
    style_axes(axes, "", "sets learned from", "score")
    add_grid(axes)
    add_legend(axes)
    return axes


def last_step(model: Any) -> Any:
    """The learner at the end of a pipeline, or of the best one of a search."""
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
        (values, training scores, test scores), with scores (n_values, n_splits) as scikit-learn's ``validation_curve``
        gives; or an `OnePassSearch`, ``GridSearchCV`` and their kind, of which every candidate is a point and the line
        joins the best of every value.
    name : str, optional
        Of the parameter: for a search whose candidates differ in several it says which.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        For what is neither, scores of other lengths, parameters that were not searched, and axes that are none.

    Notes
    -----
    Positive numbers that span a factor of 50 are drawn on a logarithmic axis; values that are no numbers side by side.

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
            "result must be (values, training scores, test scores) or a fitted search; found "
            f"{type(result).__name__}: put the values before what sklearn.model_selection.validation_curve returned"
        )
    values, *scores = result
    axis = _place_values(list(np.asarray(values, object).ravel()))
    training, test = (
        check_scores(f"{n} scores", s, len(axis.places))
        for n, s in zip(("training", "test"), scores, strict=True)
    )
    axes = get_axes(ax)
    draw_scores(axes, axis.places, training, 0, "training")
    draw_scores(axes, axis.places, test, 1, "test")
    _label_value_axis(axes, axis, "value" if name is None else name)
    add_legend(axes)
    return axes


class _ValueAxis(NamedTuple):
    """Where values are drawn: numbers where they are, others side by side under their ``labels``."""

    places: F64
    labels: list[str]


def _place_values(values: list[Any]) -> _ValueAxis:
    if not values:
        raise ValueError("result holds no values: give one at least")
    if all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values):
        places = np.array(values, np.float64)
        if np.isfinite(places).all():
            return _ValueAxis(places, [])
    labels = [format_label(v) for v in values]
    different = list(dict.fromkeys(labels))
    return _ValueAxis(np.array([different.index(label) for label in labels], np.float64), different)


def _label_value_axis(ax: Axes, axis: _ValueAxis, name: str) -> None:
    if axis.labels:
        ax.set_xticks(range(len(axis.labels)), axis.labels)
    else:
        set_x_scale(ax, axis.places)
    style_axes(ax, "", format_label(name), "score")
    add_grid(ax)


def _draw_search(results: Any, name: str | None, ax: Axes) -> Axes:
    params = results["params"]
    name = _choose_parameter(params, name)
    scores = np.asarray(results["mean_test_score"], np.float64)
    kept = [i for i, candidate in enumerate(params) if name in candidate and np.isfinite(scores[i])]
    if not kept:
        raise ValueError(f"no candidate with {name} was scored: nothing can be drawn")
    axis = _place_values([_as_scalar(params[i][name]) for i in kept])
    found, spread = scores[kept], np.asarray(results["std_test_score"], np.float64)[kept]
    different = np.unique(axis.places)
    best = np.array([np.flatnonzero(axis.places == x)[found[axis.places == x].argmax()] for x in different])
    ax.errorbar(
        different, found[best], spread[best] if spread.any() else None, color=PALETTE[1], marker="o", markersize=5,
        linewidth=1.8, elinewidth=1, capsize=3, label="the best of every value",
    )  # fmt: skip
    if len(kept) > len(different):
        ax.plot(
            axis.places,
            found,
            "o",
            color=MUTED_COLOUR,
            markersize=3.5,
            alpha=0.6,
            zorder=1,
            label="all candidates",
        )
    top = best[found[best].argmax()]
    ax.plot(
        axis.places[top],
        found[top],
        "o",
        markersize=12,
        fillstyle="none",
        color=TEXT_COLOUR,
        label="the best of all",
    )
    _label_value_axis(ax, axis, name)
    add_legend(ax)
    return ax


def _as_scalar(value: Any) -> Any:
    """A grid of one value as that value, and what is no number in words."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, (int, float, np.number)) else str(value)


def _choose_parameter(params: Any, name: str | None) -> str:
    """The parameter that was named, or the only one in which candidates differ."""
    names = sorted({own for candidate in params for own in candidate})
    differ = [own for own in names if len({repr(candidate.get(own)) for candidate in params}) > 1]
    if name is None and len(differ) != 1:
        raise ValueError(f"candidates differ in {', '.join(differ) or 'nothing'}: say by name= which to draw")
    chosen = differ[0] if name is None else name
    if not isinstance(chosen, str) or chosen not in names:
        raise ValueError(f"name must be one of {', '.join(names)}; found {chosen!r:.100}")
    return chosen
