"""How good the predictions are, how sure one can be of that, and where they go wrong.

Scores of predictions with 95 % intervals: of shares by the binomial law, of all else by the bootstrap.
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
from dkdist.cli.report.evidence import Evaluation
from dkdist.cli.report.page import Section, render_figure, render_paragraph
from dkdist.plot._canvas import MUTED_COLOUR, PALETTE, TEXT_COLOUR, add_grid, format_label, style_axes

CONFIDENCE = 0.95
N_RESAMPLES, MAX_FULLY_RESAMPLED_SETS = 999, 10_000  # of up to so many sets; a fifth of them for more
MIN_PROBABILITY = 1e-15  # in a logarithm


class Score(NamedTuple):
    """A score, the ends of its interval, and what one gets without looking at a set (NaN: nothing to say)."""

    name: str
    value: float
    low: float
    high: float
    constant: float = float("nan")


def proportion_score(name: str, right: NDArray[np.bool_], constant: float = float("nan")) -> Score:
    """The share of sets of which something is true; Wilson's interval."""
    ends = binomtest(int(right.sum()), len(right)).proportion_ci(CONFIDENCE, "wilson")
    return Score(name, float(right.mean()), float(ends.low), float(ends.high), constant)


def bootstrap_score(
    name: str, score: Callable[[I64], float], n: int, constant: float = float("nan")
) -> Score:
    """A score of some of n sets, with an interval by percentiles of samples of them, drawn with repetition."""
    every = np.arange(n)
    count = N_RESAMPLES if n <= MAX_FULLY_RESAMPLED_SETS else N_RESAMPLES // 5
    found = bootstrap(
        (every,), lambda rows: score(rows), vectorized=False, n_resamples=count, confidence_level=CONFIDENCE,
        method="percentile", rng=np.random.default_rng(0),
    )  # fmt: skip
    ends = found.confidence_interval
    return Score(name, score(every), float(ends.low), float(ends.high), constant)


def classification_scores(
    truth: NDArray[Any], predicted: NDArray[Any], classes: Any, P: F64 | None
) -> list[Score]:
    """Accuracy, balanced accuracy, log loss of probabilities; and of every class the share that was found."""
    right, n = truth == predicted, len(truth)
    names, index = np.unique(truth, return_inverse=True)
    shares = np.bincount(index) / n
    found = [proportion_score("accuracy", right, float(shares.max()))]
    if len(names) > 1:

        def balanced(rows: I64) -> float:
            sizes = np.bincount(index[rows], minlength=len(names))
            hits = np.bincount(index[rows], right[rows], minlength=len(names))
            return float((hits[sizes > 0] / sizes[sizes > 0]).mean())

        found.append(bootstrap_score("balanced accuracy", balanced, n, 1 / len(names)))
    if P is not None:
        own = P[np.arange(n), np.searchsorted(classes, truth)]
        losses = -np.log(np.maximum(own, MIN_PROBABILITY))
        constant = float(-(shares * np.log(shares)).sum())
        found.append(bootstrap_score("log loss", lambda rows: float(losses[rows].mean()), n, constant))
    return found + [proportion_score(f"found of {name}", right[index == k]) for k, name in enumerate(names)]


def regression_scores(truth: F64, predicted: F64) -> list[Score]:
    """R^2, root mean squared and mean absolute error."""
    errors, n = truth - predicted, len(truth)
    deviation, absolute = float(truth.std()), float(np.abs(truth - np.median(truth)).mean())

    def r2(rows: I64) -> float:
        spread = ((truth[rows] - truth[rows].mean()) ** 2).sum()
        return float(1 - (errors[rows] ** 2).sum() / spread) if spread > 0 else float("nan")

    squared = bootstrap_score(
        "root mean squared error", lambda rows: float(np.sqrt((errors[rows] ** 2).mean())), n, deviation
    )
    mean = bootstrap_score(
        "mean absolute error", lambda rows: float(np.abs(errors[rows]).mean()), n, absolute
    )
    return [bootstrap_score("R2", r2, n, 0.0), squared, mean] if deviation > 0 else [squared, mean]


MAX_CONFUSION_CLASSES = 30  # of a picture of confusions
MAX_CLASSES_WITH_COUNTS = 12  # classes whose counts are written into it
MAX_SCATTER_SETS = 2000  # sets in a scatter
CAVEAT = (
    "Intervals are of 95 %: Wilson's of shares, by the bootstrap over sets of all else. They say how much another "
    "sample of sets would change the score. If the model learned from sets of this store, the scores flatter it: make "
    "the report of sets that it never saw."
)


def score_section(evidence: Evaluation) -> Section:
    """A sentence, the scores with their intervals, and pictures."""
    truth, predicted = evidence.truth, evidence.predicted
    classifies = evidence.classifies
    if classifies:
        classes = np.asarray(evidence.model.classes_)
        scores = classification_scores(truth, predicted, classes, evidence.probabilities)
    else:
        scores = regression_scores(truth.astype(np.float64), predicted.astype(np.float64))
    rows = [(s.name, f"{s.value:.4g}", _format_interval(s), _format_number(s.constant)) for s in scores]
    columns = "score", "value", "95 % interval", "largest class" if classifies else "a constant"
    parts = [render_paragraph(_score_sentence(evidence, scores[0]), "lead"), html_table("", columns, rows)]
    parts += _classification_figures(evidence) if classifies else _regression_figures(evidence)
    return Section("Scores", [*parts, render_paragraph(CAVEAT, "note")])


def _score_sentence(evidence: Evaluation, score: Score) -> str:
    n = f"{len(evidence.truth):,} sets"
    interval = f"{score.low:.3g} to {score.high:.3g}"
    if evidence.classifies:
        return (
            f"{100 * score.value:.1f} % of {n} are given their {evidence.target!r} (interval {interval}); always "
            f"naming the largest class would give {100 * score.constant:.1f} %."
        )
    return (
        f"{score.name} {score.value:.3f} over {n} (interval {interval}); a constant has {score.constant:.3g}."
    )


def _format_interval(score: Score) -> str:
    """Nothing where all samples agree, as those of a perfect score do: they do not say how sure it is."""
    return f"{score.low:.4g} to {score.high:.4g}" if score.low < score.high else ""


def _format_number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _classification_figures(evidence: Evaluation) -> list[str]:
    names = np.unique(np.concatenate([evidence.truth, evidence.predicted]))
    found = []
    if len(names) <= MAX_CONFUSION_CLASSES:
        side = float(np.clip(2.6 + 0.34 * len(names), 4.2, 9))
        caption = "How often each class (line) was taken for each (column); shares of a line are the colours."
        found.append(
            render_figure(lambda ax: _draw_confusions(ax, evidence, names), caption, (side + 0.8, side))
        )
    if evidence.probabilities is not None:
        said = _CachedPredictions(evidence)
        caption = "Whether probabilities are what they say: points on the diagonal are."
        n_bins = int(np.clip(len(evidence.truth) // 20, 2, 10))
        found.append(
            render_figure(
                lambda ax: dk.plot.calibration(said, said, evidence.truth, n_bins=n_bins, ax=ax),
                caption,
                (5.2, 4.8),
            )
        )
    return found


class _CachedPredictions:
    """The model and its sets in one: what it said of them all already."""

    def __init__(self, evidence: Evaluation) -> None:
        self.evidence, self.classes_ = evidence, evidence.model.classes_

    def __len__(self) -> int:
        return len(self.evidence.truth)

    def predict_proba(self, _: Any) -> Any:
        return self.evidence.probabilities


def _draw_confusions(ax: Any, evidence: Evaluation, names: Any) -> None:
    counts = confusion_matrix(evidence.truth, evidence.predicted, labels=names)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.25)
    if len(names) <= MAX_CLASSES_WITH_COUNTS:
        for (i, j), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[i, j] > 0.75 else TEXT_COLOUR
                ax.text(j, i, f"{count:,}", ha="center", va="center", color=colour)
    labels = [format_label(name) for name in names]
    ax.set_xticks(range(len(names)), labels, rotation=45 if max(map(len, labels)) > 3 else 0, ha="right")
    ax.set_yticks(range(len(names)), labels)
    style_axes(ax, "", f"predicted {format_label(evidence.target)}", f"true {format_label(evidence.target)}")
    ax.tick_params(length=0)


def _regression_figures(evidence: Evaluation) -> list[str]:
    if hasattr(evidence.model, "predict_interval"):
        caption = "Intervals that should hold nine truths of ten: those that cross the diagonal do."
        some = np.unique(
            np.linspace(0, len(evidence.truth) - 1, min(len(evidence.truth), MAX_SCATTER_SETS)).astype(
                np.int64
            )
        )
        sets, y = evidence.sets[some], evidence.truth[some]
        return [
            render_figure(lambda ax: dk.plot.intervals(evidence.model, sets, y, ax=ax), caption, (5.8, 5))
        ]
    return [
        render_figure(lambda ax: _draw_scatter(ax, evidence), "Predictions against the truth.", (5.4, 4.8))
    ]


def _draw_scatter(ax: Any, evidence: Evaluation) -> None:
    some = np.unique(
        np.linspace(0, len(evidence.truth) - 1, min(len(evidence.truth), MAX_SCATTER_SETS)).astype(np.int64)
    )
    x, y = evidence.truth[some], evidence.predicted[some]
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, "--", color=MUTED_COLOUR, linewidth=1)
    ax.scatter(x, y, s=16, color=PALETTE[0], alpha=0.6, linewidths=0)
    style_axes(ax, "", f"true {format_label(evidence.target)}", f"predicted {format_label(evidence.target)}")
    add_grid(ax)
