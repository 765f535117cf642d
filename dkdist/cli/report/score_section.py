"""Section of a report with scores, their 95 % intervals, and figures of the errors.

Intervals of proportions are Wilson's; those of other scores are bootstrap percentile intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap
from sklearn.metrics import confusion_matrix

import dkdist as dk
from dkdist._numba.arrays import F64, I64
from dkdist._utils.text import html_table
from dkdist.cli._tuning import (
    MAX_CONFUSION_CLASSES,
    MAX_COUNTED_CLASSES,
    MAX_FULLY_RESAMPLED_SETS,
    MAX_SCATTER_SETS,
    N_RESAMPLES,
    N_RESAMPLES_LARGE,
)
from dkdist.cli.report.evaluation import Evaluation
from dkdist.cli.report.page import Section, render_figure, render_paragraph
from dkdist.plot._canvas import MUTED_COLOUR, PALETTE, TEXT_COLOUR, add_grid, format_label, style_axes

CONFIDENCE_LEVEL = 0.95  # the text of the page states it (tests/cli/test_report.py checks the coverage)
# Keeps logarithms finite (tests/cli/test_report.py compares with log_loss of scikit-learn).
MIN_PROBABILITY = 1e-15


class Score(NamedTuple):
    """A score, the ends of its interval, and the score of a constant prediction (NaN if undefined)."""

    name: str
    value: float
    low: float
    high: float
    constant: float = float("nan")


def proportion_score(name: str, values: NDArray[np.bool_], constant: float = float("nan")) -> Score:
    """Return the proportion of true values with Wilson's interval."""
    ends = binomtest(int(values.sum()), len(values)).proportion_ci(CONFIDENCE_LEVEL, "wilson")
    return Score(name, float(values.mean()), float(ends.low), float(ends.high), constant)


def bootstrap_score(
    name: str, score: Callable[[I64], float], n: int, constant: float = float("nan")
) -> Score:
    """Return ``score(row indices)`` of n sets with its bootstrap percentile interval."""
    rows = np.arange(n)
    n_resamples = N_RESAMPLES if n <= MAX_FULLY_RESAMPLED_SETS else N_RESAMPLES_LARGE
    result = bootstrap(
        (rows,), lambda sample: score(sample), vectorized=False, n_resamples=n_resamples,
        confidence_level=CONFIDENCE_LEVEL, method="percentile", rng=np.random.default_rng(0),
    )  # fmt: skip
    ends = result.confidence_interval
    return Score(name, score(rows), float(ends.low), float(ends.high), constant)


def classification_scores(
    truth: NDArray[Any], predicted: NDArray[Any], classes: Any, P: F64 | None
) -> list[Score]:
    """Return accuracy, balanced accuracy, log loss if there are probabilities P, and the recall of every class."""
    correct, n = truth == predicted, len(truth)
    names, index = np.unique(truth, return_inverse=True)
    class_fractions = np.bincount(index) / n
    scores = [proportion_score("accuracy", correct, float(class_fractions.max()))]
    if len(names) > 1:

        def balanced(rows: I64) -> float:
            sizes = np.bincount(index[rows], minlength=len(names))
            hits = np.bincount(index[rows], correct[rows], minlength=len(names))
            return float((hits[sizes > 0] / sizes[sizes > 0]).mean())

        scores.append(bootstrap_score("balanced accuracy", balanced, n, 1 / len(names)))
    if P is not None:
        true_class = P[np.arange(n), np.searchsorted(classes, truth)]
        losses = -np.log(np.maximum(true_class, MIN_PROBABILITY))
        constant = float(-(class_fractions * np.log(class_fractions)).sum())
        scores.append(bootstrap_score("log loss", lambda rows: float(losses[rows].mean()), n, constant))
    return scores + [
        proportion_score(f"recall of {name}", correct[index == k]) for k, name in enumerate(names)
    ]


def regression_scores(truth: F64, predicted: F64) -> list[Score]:
    """Return R^2 (if defined), root mean squared error and mean absolute error."""
    errors, n = truth - predicted, len(truth)
    deviation, absolute = float(truth.std()), float(np.abs(truth - np.median(truth)).mean())

    def r2(rows: I64) -> float:
        total = ((truth[rows] - truth[rows].mean()) ** 2).sum()
        return float(1 - (errors[rows] ** 2).sum() / total) if total > 0 else float("nan")

    squared = bootstrap_score(
        "root mean squared error", lambda rows: float(np.sqrt((errors[rows] ** 2).mean())), n, deviation
    )
    mean = bootstrap_score(
        "mean absolute error", lambda rows: float(np.abs(errors[rows]).mean()), n, absolute
    )
    return [bootstrap_score("R2", r2, n, 0.0), squared, mean] if deviation > 0 else [squared, mean]


NOTE = (
    "95 % intervals: Wilson's for proportions, bootstrap over sets for other scores. They describe the variation of a "
    "score between samples of sets. If the model was trained on sets of this store, the scores are too optimistic: "
    "create the report with sets that were not used in training."
)


def score_section(evaluation: Evaluation) -> Section:
    """Return a sentence with the main score, all scores with their intervals, and figures."""
    truth, predicted = evaluation.truth, evaluation.predicted
    classifies = evaluation.classifies
    if classifies:
        classes = np.asarray(evaluation.model.classes_)
        scores = classification_scores(truth, predicted, classes, evaluation.probabilities)
    else:
        scores = regression_scores(truth.astype(np.float64), predicted.astype(np.float64))
    rows = [(s.name, f"{s.value:.4g}", _format_interval(s), _format_number(s.constant)) for s in scores]
    columns = "score", "value", "95 % interval", "largest class" if classifies else "constant"
    parts = [render_paragraph(_score_sentence(evaluation, scores[0]), "lead"), html_table("", columns, rows)]
    parts += _classification_figures(evaluation) if classifies else _regression_figures(evaluation)
    return Section("Scores", [*parts, render_paragraph(NOTE, "note")])


def _score_sentence(evaluation: Evaluation, score: Score) -> str:
    n = f"{len(evaluation.truth):,} sets"
    interval = f"{score.low:.3g} to {score.high:.3g}"
    if evaluation.classifies:
        return (
            f"{evaluation.target!r} is correct for {100 * score.value:.1f} % of {n} (interval {interval}); always "
            f"predicting the largest class: {100 * score.constant:.1f} %."
        )
    return f"{score.name} {score.value:.3f} over {n} (interval {interval}); constant prediction: {score.constant:.3g}."


def _format_interval(score: Score) -> str:
    """Format an interval; "" if all bootstrap samples are equal (a perfect score), which would hide uncertainty."""
    return f"{score.low:.4g} to {score.high:.4g}" if score.low < score.high else ""


def _format_number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _classification_figures(evaluation: Evaluation) -> list[str]:
    names = np.unique(np.concatenate([evaluation.truth, evaluation.predicted]))
    figures = []
    if len(names) <= MAX_CONFUSION_CLASSES:
        side = float(np.clip(2.6 + 0.34 * len(names), 4.2, 9))
        caption = (
            "Counts of true (row) and predicted (column) classes; the colour is the fraction of the row."
        )
        figures.append(
            render_figure(lambda ax: _draw_confusions(ax, evaluation, names), caption, (side + 0.8, side))
        )
    if evaluation.probabilities is not None:
        cached = _CachedPredictions(evaluation)
        caption = (
            "Calibration: observed frequencies against predicted probabilities; on the diagonal they agree."
        )
        n_bins = int(np.clip(len(evaluation.truth) // 20, 2, 10))
        figures.append(
            render_figure(
                lambda ax: dk.plot.calibration(cached, cached, evaluation.truth, n_bins=n_bins, ax=ax),
                caption,
                (5.2, 4.8),
            )
        )
    return figures


class _CachedPredictions:
    """Model and sets for `plot.calibration`, with probabilities already computed."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation, self.classes_ = evaluation, evaluation.model.classes_

    def __len__(self) -> int:
        return len(self.evaluation.truth)

    def predict_proba(self, _: Any) -> Any:
        return self.evaluation.probabilities


def _draw_confusions(ax: Any, evaluation: Evaluation, names: Any) -> None:
    counts = confusion_matrix(evaluation.truth, evaluation.predicted, labels=names)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(fractions, cmap="Blues", vmin=0, vmax=1.25)
    if len(names) <= MAX_COUNTED_CLASSES:
        for (i, j), count in np.ndenumerate(counts):
            if count:
                colour = "white" if fractions[i, j] > 0.75 else TEXT_COLOUR
                ax.text(j, i, f"{count:,}", ha="center", va="center", color=colour)
    labels = [format_label(name) for name in names]
    ax.set_xticks(range(len(names)), labels, rotation=45 if max(map(len, labels)) > 3 else 0, ha="right")
    ax.set_yticks(range(len(names)), labels)
    style_axes(
        ax, "", f"predicted {format_label(evaluation.target)}", f"true {format_label(evaluation.target)}"
    )
    ax.tick_params(length=0)


def _regression_figures(evaluation: Evaluation) -> list[str]:
    if hasattr(evaluation.model, "predict_interval"):
        caption = "90 % prediction intervals; those that cross the diagonal contain the true value."
        indices = np.unique(
            np.linspace(0, len(evaluation.truth) - 1, min(len(evaluation.truth), MAX_SCATTER_SETS)).astype(
                np.int64
            )
        )
        sets, y = evaluation.sets[indices], evaluation.truth[indices]
        return [
            render_figure(lambda ax: dk.plot.intervals(evaluation.model, sets, y, ax=ax), caption, (5.8, 5))
        ]
    return [
        render_figure(
            lambda ax: _draw_scatter(ax, evaluation), "Predictions against true values.", (5.4, 4.8)
        )
    ]


def _draw_scatter(ax: Any, evaluation: Evaluation) -> None:
    indices = np.unique(
        np.linspace(0, len(evaluation.truth) - 1, min(len(evaluation.truth), MAX_SCATTER_SETS)).astype(
            np.int64
        )
    )
    x, y = evaluation.truth[indices], evaluation.predicted[indices]
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, "--", color=MUTED_COLOUR, linewidth=1)
    ax.scatter(x, y, s=16, color=PALETTE[0], alpha=0.6, linewidths=0)
    style_axes(
        ax, "", f"true {format_label(evaluation.target)}", f"predicted {format_label(evaluation.target)}"
    )
    add_grid(ax)
