"""Which points, and which dimensions, made the predictions what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

import dkdist as dk
from dkdist.cli.reporting.evidence import Evidence
from dkdist.cli.reporting.inline_picture import picture
from dkdist.cli.reporting.page import Section, paragraph
from dkdist.loops.array_types import F64
from dkdist.plain.html_text import grid_table
from dkdist.plot.canvas import plain

MAX_EXPLAINED_POINTS = 20_000  # points of a set that is explained
COMPARED, MOST_DIMS = 8, 20  # sets by dimension, with as many beside them; and dimensions
LARGEST_BY_DIMENSION = 2000


def points_section(evidence: Evidence) -> Section:
    """Examples with their points coloured, in the two dimensions that matter most; and what every dimension adds."""
    some = [i for i in evidence.chosen if int(evidence.sets[i : i + 1].sizes[0]) <= MAX_EXPLAINED_POINTS]
    try:
        matters = _by_dimension(evidence)
        first = np.argsort(-matters, kind="stable")[:2].tolist() if len(matters) > 2 else None
        parts = [_by_point(evidence, some, first)] if some else [_too_large()]
        parts += _table(evidence, matters) if len(matters) else []
    except ValueError as reason:
        parts = [paragraph(f"What each point adds is not known of this model: {reason}", "note")]
    return Section("Points that matter", parts)


def _too_large() -> str:
    return paragraph(
        f"The examples have more than {MAX_EXPLAINED_POINTS:,} points each: dkdist.explain takes them one by one.",
        "note",
    )


def _by_point(evidence: Evidence, some: list[int], dims: list[int] | None) -> str:
    sets = evidence.sets[np.array(some)].load()
    points = dk.explain(evidence.model, sets)
    towards = _towards(evidence, some, points[0].ndim > 1)

    def draw(ax: Any) -> None:
        panels = ax if isinstance(ax, list) else [ax]
        for k, (panel, i) in enumerate(zip(panels, some, strict=True)):
            dk.plot.contributions(sets, points, k, output=towards[k][0], dims=dims, ax=panel)
            panel.set_title(
                f"set {i} ({_short(evidence.truth[i])}): towards {plain(towards[k][1])}",
                loc="left",
                fontsize=11,
            )

    columns = min(3, len(some))
    size = (4.4 * columns, 3.4 * -(-len(some) // columns))
    caption = (
        "What each point adds to the prediction of its set, counted from the reference of explain: red towards, blue "
        "against. First order where the model is curved."
    )
    return picture(draw, caption, size, len(some))


def _towards(evidence: Evidence, some: list[int], several: bool) -> list[tuple[int | None, str]]:
    """For every example the output that is explained, and its name."""
    if not evidence.classifies:
        return [(None, "larger numbers")] * len(some)
    classes = np.asarray(evidence.model.classes_)
    if not several:
        return [(None, str(classes[-1]))] * len(some)
    places = [int(np.flatnonzero(classes == evidence.predicted[i])[0]) for i in some]
    return [(k, str(classes[k])) for k in places]


def _short(truth: Any) -> str:
    return plain(truth) if truth.dtype.kind in "USbiu" else f"{truth:.4g}"


def _by_dimension(evidence: Evidence) -> F64:
    """(d,) what each dimension adds, means of absolute values over some small sets; (0,) where nobody asks."""
    sets, d = evidence.sets, evidence.sets.n_dims
    small = np.flatnonzero(sets.sizes <= LARGEST_BY_DIMENSION)
    if not 1 < d <= MOST_DIMS or sets.points_dtype.kind == "u" or len(small) < 2:
        return np.zeros(0)
    chosen = np.random.default_rng(0).permutation(small)[: 2 * COMPARED]
    own, beside = (np.sort(half) for half in np.array_split(chosen, 2))
    found = dk.explain(
        evidence.model, sets[own].load(), by="dimension", background=sets[beside].load(), random_state=0
    )
    return np.asarray(np.abs(found).mean(axis=tuple(k for k in range(found.ndim) if k != 1)))


def _table(evidence: Evidence, matters: F64) -> list[str]:
    names = getattr(evidence.sets, "names", None) or [f"dimension {j}" for j in range(len(matters))]
    rows = [(names[j], f"{matters[j]:.4g}") for j in np.argsort(-matters, kind="stable")]
    said = f"Shapley values of up to {COMPARED} sets against as many others of this store; means of absolute values."
    return [grid_table("", ("dimension", "adds on average"), rows), paragraph(said, "note")]
