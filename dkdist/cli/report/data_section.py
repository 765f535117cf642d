"""Which points, and which dimensions, made the predictions what they are.

What the sets are: numbers, some of them side by side, and a map of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import dkdist as dk
from dkdist._numba.arrays import F64
from dkdist._utils.text import html_table
from dkdist.cli.report.evidence import Evaluation
from dkdist.cli.report.page import Section, render_figure, render_paragraph
from dkdist.plot._canvas import format_label

MAX_MAP_SETS = 1000  # sets on the map
MAX_DRAWN_POINTS = 10**7  # points of a set that is still drawn


class _NamedArray(np.ndarray[Any, Any]):
    """Targets with the name of their column, which pictures show."""

    def __array_finalize__(self, other: Any) -> None:
        self.name: str = getattr(other, "name", "y")


def data_section(evidence: Evaluation) -> Section:
    """The store, up to six of its sets, and a map."""
    sets, y = evidence.sets, evidence.truth.view(_NamedArray)
    y.name = evidence.target
    parts = [sets._repr_html_()]
    few = _example_sets(evidence)
    if int(sets[few].sizes.max()) <= MAX_DRAWN_POINTS:
        some = sets[few].load()
        size = 3.5 * min(3, len(few)), 3.2 * -(-len(few) // 3)
        said = "Contours hold the densest half and nine tenths of the points." if sets.n_dims > 1 else ""
        caption = (
            f"Some sets, in turn of every class. {said}" if evidence.classifies else f"Some sets. {said}"
        )
        parts.append(render_figure(lambda ax: _draw_examples(some, y[few], few, ax), caption, size, len(few)))
    mapped = np.unique(np.linspace(0, len(sets) - 1, min(len(sets), MAX_MAP_SETS)).round().astype(np.int64))
    rows, whose = _map_rows(evidence, sets[mapped])
    caption = f"A map of {len(mapped):,} sets by the principal components of {whose}. What is near is alike."
    parts.append(render_figure(lambda ax: dk.plot.collection(rows, y[mapped], ax=ax), caption))
    return Section("Data", parts)


def _example_sets(evidence: Evaluation) -> list[int]:
    """Up to six sets: examples, and after them others."""
    first = evidence.chosen
    others = [i for i in range(min(len(evidence.truth), 12)) if i not in first]
    return [*first, *others][:6]


def _draw_examples(some: Any, y: Any, places: list[int], ax: Any) -> None:
    panels = ax if isinstance(ax, list) else [ax]
    dk.plot.sets(some, list(range(len(some))), y, ax=panels)
    for panel, i in zip(panels, places, strict=True):
        title = panel.get_title(loc="left")
        panel.set_title(f"set {i}{title[title.index(':') :]}", loc="left", fontsize=11)


def _map_rows(evidence: Evaluation, sets: Any) -> tuple[Any, str]:
    """Rows of some sets, and whose they are."""
    pipeline = evidence.pipeline
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2:
        return sets, "their quantiles (sliced Wasserstein distances)"
    rows = sets
    for _, step in pipeline.steps[:-1]:
        rows = step.transform(rows)
        rows = rows.compute() if hasattr(rows, "compute") else rows  # steps of others take arrays in memory
    whose = "the model's features" if pipeline is evidence.model else "the features of the best candidate"
    return rows, whose


MAX_EXPLAINED_POINTS = 20_000  # points of a set that is explained
MAX_SHAPLEY_SETS, MAX_SHAPLEY_DIMS = 8, 20  # sets by dimension, with as many beside them; and dimensions
MAX_SHAPLEY_POINTS = 2000


def points_section(evidence: Evaluation) -> Section:
    """Examples with their points coloured, in the two dimensions that matter most; and what every dimension adds."""
    some = [i for i in evidence.chosen if int(evidence.sets[i : i + 1].sizes[0]) <= MAX_EXPLAINED_POINTS]
    try:
        matters = _dimension_contributions(evidence)
        first = np.argsort(-matters, kind="stable")[:2].tolist() if len(matters) > 2 else None
        parts = [_point_contributions(evidence, some, first)] if some else [_too_large_note()]
        parts += _dimension_table(evidence, matters) if len(matters) else []
    except ValueError as reason:
        parts = [render_paragraph(f"What each point adds is not known of this model: {reason}", "note")]
    return Section("Points that matter", parts)


def _too_large_note() -> str:
    return render_paragraph(
        f"The examples have more than {MAX_EXPLAINED_POINTS:,} points each: dkdist.explain takes them one by one.",
        "note",
    )


def _point_contributions(evidence: Evaluation, some: list[int], dims: list[int] | None) -> str:
    sets = evidence.sets[np.array(some)].load()
    points = dk.explain(evidence.model, sets)
    towards = _explained_outputs(evidence, some, points[0].ndim > 1)

    def draw(ax: Any) -> None:
        panels = ax if isinstance(ax, list) else [ax]
        for k, (panel, i) in enumerate(zip(panels, some, strict=True)):
            dk.plot.contributions(sets, points, k, output=towards[k][0], dims=dims, ax=panel)
            panel.set_title(
                f"set {i} ({_format_target(evidence.truth[i])}): towards {format_label(towards[k][1])}",
                loc="left",
                fontsize=11,
            )

    columns = min(3, len(some))
    size = (4.4 * columns, 3.4 * -(-len(some) // columns))
    caption = (
        "What each point adds to the prediction of its set, counted from the reference of explain: red towards, blue "
        "against. First order where the model is curved."
    )
    return render_figure(draw, caption, size, len(some))


def _explained_outputs(evidence: Evaluation, some: list[int], several: bool) -> list[tuple[int | None, str]]:
    """For every example the output that is explained, and its name."""
    if not evidence.classifies:
        return [(None, "larger numbers")] * len(some)
    classes = np.asarray(evidence.model.classes_)
    if not several:
        return [(None, str(classes[-1]))] * len(some)
    places = [int(np.flatnonzero(classes == evidence.predicted[i])[0]) for i in some]
    return [(k, str(classes[k])) for k in places]


def _format_target(truth: Any) -> str:
    return format_label(truth) if truth.dtype.kind in "USbiu" else f"{truth:.4g}"


def _dimension_contributions(evidence: Evaluation) -> F64:
    """(d,) what each dimension adds, means of absolute values over some small sets; (0,) where nobody asks."""
    sets, d = evidence.sets, evidence.sets.n_dims
    small = np.flatnonzero(sets.sizes <= MAX_SHAPLEY_POINTS)
    if not 1 < d <= MAX_SHAPLEY_DIMS or sets.points_dtype.kind == "u" or len(small) < 2:
        return np.zeros(0)
    chosen = np.random.default_rng(0).permutation(small)[: 2 * MAX_SHAPLEY_SETS]
    own, beside = (np.sort(half) for half in np.array_split(chosen, 2))
    found = dk.explain(
        evidence.model, sets[own].load(), by="dimension", background=sets[beside].load(), random_state=0
    )
    return np.asarray(np.abs(found).mean(axis=tuple(k for k in range(found.ndim) if k != 1)))


def _dimension_table(evidence: Evaluation, matters: F64) -> list[str]:
    names = getattr(evidence.sets, "names", None) or [f"dimension {j}" for j in range(len(matters))]
    rows = [(names[j], f"{matters[j]:.4g}") for j in np.argsort(-matters, kind="stable")]
    said = f"Shapley values of up to {MAX_SHAPLEY_SETS} sets against as many others of this store; means of absolute values."
    return [html_table("", ("dimension", "adds on average"), rows), render_paragraph(said, "note")]
