"""Sections of a report: the data, their distance to the training sets, and points and dimensions that contribute."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import dkdist as dk
from dkdist._numba.arrays import F64
from dkdist._utils.text import html_table
from dkdist.cli._tuning import (
    MAX_EXPLAINED_POINTS,
    MAX_FIGURE_POINTS,
    MAX_LISTED_POINTS,
    MAX_LISTED_VALUES,
    MAX_MAP_SETS,
    MAX_SHAPLEY_DIMS,
    MAX_SHAPLEY_POINTS,
    MAX_SHAPLEY_SETS,
)
from dkdist.cli.report.evaluation import Evaluation
from dkdist.cli.report.page import Section, render_figure, render_paragraph
from dkdist.plot._canvas import format_label


class _NamedArray(np.ndarray[Any, Any]):
    """Targets with the name of their column, which figures show."""

    def __array_finalize__(self, other: Any) -> None:
        self.name: str = getattr(other, "name", "y")


def data_section(evaluation: Evaluation) -> Section:
    """Return the table of the store, figures of up to six sets, and a map of the sets."""
    sets, y = evaluation.sets, evaluation.truth.view(_NamedArray)
    y.name = evaluation.target
    parts = [sets._repr_html_()]
    indices = _example_sets(evaluation)
    if int(sets[indices].sizes.max()) <= MAX_FIGURE_POINTS:
        examples = sets[indices].load()
        size = 3.5 * min(3, len(indices)), 3.2 * -(-len(indices) // 3)
        caption = "Example sets of every class." if evaluation.classifies else "Example sets."
        if sets.n_dims > 1:
            caption += " Contours contain the densest 50 % and 90 % of the points."
        parts.append(
            render_figure(
                lambda ax: _draw_examples(examples, y[indices], indices, ax), caption, size, len(indices)
            )
        )
    mapped = np.unique(np.linspace(0, len(sets) - 1, min(len(sets), MAX_MAP_SETS)).round().astype(np.int64))
    rows, row_name = _map_rows(evaluation, sets[mapped])
    caption = (
        f"Map of {len(mapped):,} sets by the principal components of {row_name}. Similar sets are close."
    )
    parts.append(render_figure(lambda ax: dk.plot.collection(rows, y[mapped], ax=ax), caption))
    return Section("Data", [*parts, *_domain_shift_parts(evaluation)])


def _domain_shift_parts(evaluation: Evaluation) -> list[str]:
    """Return how far the sets are from the training sets of an automatic model."""
    if not hasattr(evaluation.model, "domain_shift"):
        return []
    shift = evaluation.model.domain_shift(evaluation.sets)
    n, rows = len(shift), [("sets with more than 1 % of points clipped", (shift["clipped"] > 0.01).sum())]
    if not np.isnan(shift["p_value"]).any():
        expected = (
            f"{(shift['p_value'] <= 0.05).sum()} of {n:,} (about {0.05 * n:.0f} if equally distributed)"
        )
        rows.append(("sets farther from the training sets than 95 % of these from each other", expected))
        rows.append(("median p-value of the distance", f"{np.median(shift['p_value']):.3g}"))
    note = (
        "Distance to the training sets, in the representation with the largest weight. Predictions for distant sets "
        "are extrapolations: scores of the training data do not hold for them."
    )
    return [html_table("", ("distance to the training sets", ""), rows), render_paragraph(note, "note")]


def _example_sets(evaluation: Evaluation) -> list[int]:
    """Return the indices of up to six sets, the examples first."""
    examples = evaluation.examples
    other_indices = [i for i in range(min(len(evaluation.truth), 12)) if i not in examples]
    return [*examples, *other_indices][:6]


def _draw_examples(examples: Any, y: Any, indices: list[int], ax: Any) -> None:
    panels = ax if isinstance(ax, list) else [ax]
    dk.plot.sets(examples, list(range(len(examples))), y, ax=panels)
    for panel, i in zip(panels, indices, strict=True):
        title = panel.get_title(loc="left")
        panel.set_title(f"set {i}{title[title.index(':') :]}", loc="left", fontsize=11)


def _map_rows(evaluation: Evaluation, sets: Any) -> tuple[Any, str]:
    """Return the features of sets, or the sets, and a name for the caption."""
    pipeline = evaluation.pipeline
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2:
        return sets, "their quantiles (sliced Wasserstein distances)"
    rows = sets
    for _, step in pipeline.steps[:-1]:
        rows = step.transform(rows)
        # scikit-learn steps accept no Dask arrays
        rows = rows.compute() if hasattr(rows, "compute") else rows
    row_name = (
        "the features of the model" if pipeline is evaluation.model else "the features of the best candidate"
    )
    return rows, row_name


def points_section(evaluation: Evaluation) -> Section:
    """Return contributions of the points in the two most important dimensions, and contributions of dimensions."""
    sizes = evaluation.sets.sizes
    examples = [i for i in evaluation.examples if int(sizes[i]) <= MAX_EXPLAINED_POINTS]
    try:
        has_design = getattr(evaluation.model, "covariates", None) or getattr(
            evaluation.model, "adjust", None
        )
        importances = np.zeros(0) if has_design else _dimension_contributions(evaluation)
        dims = np.argsort(-importances, kind="stable")[:2].tolist() if len(importances) > 2 else None
        parts = _point_contributions(evaluation, examples, dims) if examples else [_too_large_note()]
        parts += _dimension_table(evaluation, importances) if len(importances) else []
    except ValueError as reason:
        parts = [render_paragraph(f"Contributions are not available for this model: {reason}", "note")]
    return Section("Contributions", parts)


def _too_large_note() -> str:
    return render_paragraph(
        f"All examples have more than {MAX_EXPLAINED_POINTS:,} points. Call dkdist.explain for single sets.",
        "note",
    )


def _point_contributions(evaluation: Evaluation, examples: list[int], dims: list[int] | None) -> list[str]:
    sets = evaluation.sets[np.array(examples)].load()
    contributions = dk.explain(evaluation.model, sets)
    outputs = _explained_outputs(evaluation, examples, contributions[0].ndim > 1)

    def draw(ax: Any) -> None:
        panels = ax if isinstance(ax, list) else [ax]
        for k, (panel, i) in enumerate(zip(panels, examples, strict=True)):
            output, name = outputs[k]
            dk.plot.contributions(sets, contributions, k, output=output, dims=dims, ax=panel)
            title = f"set {i} ({_format_target(evaluation.truth[i])}): towards {format_label(name)}"
            panel.set_title(title, loc="left", fontsize=11)

    columns = min(3, len(examples))
    size = (4.4 * columns, 3.4 * -(-len(examples) // columns))
    caption = (
        "Contribution of each point to the prediction of its set, relative to the reference of explain: red increases, "
        "blue decreases it. First-order approximation for nonlinear models."
    )
    figure = render_figure(draw, caption, size, len(examples))
    return [figure, _largest_contributions(evaluation, sets, contributions, examples, outputs)]


def _largest_contributions(
    evaluation: Evaluation, sets: Any, contributions: list[F64], examples: list[int], outputs: list[Any]
) -> str:
    """Return a table of the points with the largest contributions in each example, with their coordinates."""
    ids, names = evaluation.sets.ids, sets.names or [f"dimension {j}" for j in range(sets.n_dims)]
    shown, rows = names[:MAX_LISTED_VALUES], []
    for k, i in enumerate(examples):
        values = contributions[k] if outputs[k][0] is None else contributions[k][:, outputs[k][0]]
        for point in np.argsort(-np.abs(values), kind="stable")[:MAX_LISTED_POINTS].tolist():
            place = [f"{value:.4g}" for value in sets[k][point][: len(shown)]]
            rows.append((i if ids is None else ids[i], point, f"{values[point]:.4g}", *place))
    return html_table("Largest contributions", ("set", "point", "contribution", *shown), rows)


def _explained_outputs(
    evaluation: Evaluation, examples: list[int], has_outputs: bool
) -> list[tuple[int | None, str]]:
    """Return index and name of the explained output of every example."""
    if not evaluation.classifies:
        return [(None, "larger numbers")] * len(examples)
    classes = np.asarray(evaluation.model.classes_)
    if not has_outputs:
        return [(None, str(classes[-1]))] * len(examples)
    outputs = [int(np.flatnonzero(classes == evaluation.predicted[i])[0]) for i in examples]
    return [(k, str(classes[k])) for k in outputs]


def _format_target(truth: Any) -> str:
    return format_label(truth) if truth.dtype.kind in "USbiu" else f"{truth:.4g}"


def _dimension_contributions(evaluation: Evaluation) -> F64:
    """Return mean absolute Shapley values (d,) over a few small sets; (0,) if they are too expensive or undefined."""
    sets, d = evaluation.sets, evaluation.sets.n_dims
    small = np.flatnonzero(sets.sizes <= MAX_SHAPLEY_POINTS)
    if getattr(evaluation.model, "covariates", None) or getattr(evaluation.model, "adjust", None):
        return np.zeros(0)
    if not 1 < d <= MAX_SHAPLEY_DIMS or sets.points_dtype.kind == "u" or len(small) < 2:
        return np.zeros(0)
    sampled_indices = np.random.default_rng(0).permutation(small)[: 2 * MAX_SHAPLEY_SETS]
    explained, background = (np.sort(half) for half in np.array_split(sampled_indices, 2))
    values = dk.explain(
        evaluation.model,
        sets[explained].load(),
        by="dimension",
        background=sets[background].load(),
        random_state=0,
    )
    return np.asarray(np.abs(values).mean(axis=tuple(k for k in range(values.ndim) if k != 1)))


def _dimension_table(evaluation: Evaluation, importances: F64) -> list[str]:
    names = getattr(evaluation.sets, "names", None) or [f"dimension {j}" for j in range(len(importances))]
    rows = [(names[j], f"{importances[j]:.4g}") for j in np.argsort(-importances, kind="stable")]
    note = (
        f"Mean absolute Shapley values of up to {MAX_SHAPLEY_SETS} sets; the background is as many other sets of this "
        "store."
    )
    return [html_table("", ("dimension", "mean contribution"), rows), render_paragraph(note, "note")]
