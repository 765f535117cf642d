"""`plot.learning_curve`: how a model gets better with more sets, or with more passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dkdist.base.parameter_checks import real_matrix
from dkdist.plot.canvas import PALETTE, axes_for, dressed, gridded, legend
from dkdist.plot.models.score_curves import draw_scores, scale_for, scores_of


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
        return _losses(axes_for(ax), learner)
    if not isinstance(result, (tuple, list)) or len(result) < 3:
        raise ValueError(
            "result must be (sizes, training scores, test scores), or a fitted SGD estimator with a loss_curve_; found "
            f"{type(result).__name__}: give what sklearn.model_selection.learning_curve returned"
        )
    sizes = real_matrix("sizes", result[0])
    if sizes.ndim != 1 or len(sizes) == 0 or not (sizes > 0).all():
        raise ValueError(f"sizes must be numbers of sets above 0; found {result[0]!r:.100}")
    training, test = (
        scores_of(f"{n} scores", r, len(sizes))
        for n, r in zip(("training", "test"), result[1:3], strict=True)
    )
    axes = axes_for(ax)
    draw_scores(axes, sizes, training, 0, "training")
    draw_scores(axes, sizes, test, 1, "test")
    scale_for(axes, sizes)
    dressed(axes, "", "sets learned from", "score")
    gridded(axes)
    legend(axes)
    return axes


def last_step(model: Any) -> Any:
    """The learner at the end of a pipeline, or of the best one of a search."""
    model = getattr(model, "best_estimator_", model)
    return model.steps[-1][1] if hasattr(model, "steps") else model


def _losses(ax: Axes, learner: Any) -> Axes:
    epochs = np.arange(1, len(learner.loss_curve_) + 1)
    held_out = np.asarray(learner.validation_loss_curve_)
    ax.plot(epochs, learner.loss_curve_, "--", color=PALETTE[0], marker="o", markersize=4.5, label="training")
    if np.isfinite(held_out).any():
        ax.plot(epochs, held_out, color=PALETTE[1], marker="o", markersize=4.5, label="held out")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    dressed(ax, "", "epoch", f"mean loss ({learner.loss})".replace("_", " "))
    gridded(ax)
    legend(ax)
    return ax
