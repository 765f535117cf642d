"""What the sets are: numbers, some of them side by side, and a map of all."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import dkdist as dk
from dkdist.cli.reporting.evidence import Evidence
from dkdist.cli.reporting.inline_picture import picture
from dkdist.cli.reporting.page import Section

MAPPED = 1000  # sets on the map
MAX_DRAWN_POINTS = 10**7  # points of a set that is still drawn


class _Named(np.ndarray[Any, Any]):
    """Targets with the name of their column, which pictures show."""

    def __array_finalize__(self, other: Any) -> None:
        self.name: str = getattr(other, "name", "y")


def data_section(evidence: Evidence) -> Section:
    """The store, up to six of its sets, and a map."""
    sets, y = evidence.sets, evidence.truth.view(_Named)
    y.name = evidence.target
    parts = [sets._repr_html_()]
    few = _few(evidence)
    if int(sets[few].sizes.max()) <= MAX_DRAWN_POINTS:
        some = sets[few].load()
        size = 3.5 * min(3, len(few)), 3.2 * -(-len(few) // 3)
        said = "Contours hold the densest half and nine tenths of the points." if sets.n_dims > 1 else ""
        caption = (
            f"Some sets, in turn of every class. {said}" if evidence.classifies else f"Some sets. {said}"
        )
        parts.append(picture(lambda ax: _drawn(some, y[few], few, ax), caption, size, len(few)))
    mapped = np.unique(np.linspace(0, len(sets) - 1, min(len(sets), MAPPED)).round().astype(np.int64))
    rows, whose = _rows(evidence, sets[mapped])
    caption = f"A map of {len(mapped):,} sets by the principal components of {whose}. What is near is alike."
    parts.append(picture(lambda ax: dk.plot.collection(rows, y[mapped], ax=ax), caption))
    return Section("Data", parts)


def _few(evidence: Evidence) -> list[int]:
    """Up to six sets: examples, and after them others."""
    first = evidence.chosen
    others = [i for i in range(min(len(evidence.truth), 12)) if i not in first]
    return [*first, *others][:6]


def _drawn(some: Any, y: Any, places: list[int], ax: Any) -> None:
    panels = ax if isinstance(ax, list) else [ax]
    dk.plot.sets(some, list(range(len(some))), y, ax=panels)
    for panel, i in zip(panels, places, strict=True):
        title = panel.get_title(loc="left")
        panel.set_title(f"set {i}{title[title.index(':') :]}", loc="left", fontsize=11)


def _rows(evidence: Evidence, sets: Any) -> tuple[Any, str]:
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
