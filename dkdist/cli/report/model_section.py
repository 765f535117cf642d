"""With what, where and when: versions, the processor, and how to cite.

What the model is: its steps with their parameters, what it settled, and what was tried beside it.
"""

from __future__ import annotations

import inspect
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from numbers import Number
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import dkdist as dk
from dkdist._runtime.process import cpu_features
from dkdist._utils.memory_budget import memory_limit
from dkdist._utils.text import escape_html, html_table, key_value_table
from dkdist.cli.report.evidence import Evaluation
from dkdist.cli.report.page import Section, render_figure, render_paragraph

MAX_LISTED_VALUES = 12  # of a tuple or a small array that are shown
COLUMNS = "parameter", "given", "settled"


def model_section(evidence: Evaluation) -> Section:
    """Leaderboard, steps, and the curve of a learner that went through the data more than once."""
    steps = list(_flatten_steps(evidence.pipeline))
    parts = _leaderboard_parts(evidence.model) if hasattr(evidence.model, "leaderboard_") else []
    if evidence.pipeline is not evidence.model:
        parts.append(render_paragraph("The best one alone, as a pipeline:", "note"))
    for k, step in enumerate(steps, 1):
        parts.append(html_table(f"{k}. {type(step).__name__}", COLUMNS, _parameter_rows(step), len(COLUMNS)))
    if len(getattr(steps[-1], "loss_curve_", ())) > 1:
        caption = "Loss of every epoch of the training."
        parts.append(render_figure(lambda ax: dk.plot.learning_curve(steps[-1], ax=ax), caption, (6.4, 3.6)))
    return Section("Model", parts)


def _leaderboard_parts(model: Any) -> list[str]:
    """What a model without choices predicts by, and what else it tried."""
    board = model.leaderboard_
    size = 7.2, 1.2 + 0.34 * len(board)
    caption = "What was tried, on sets of the training that were left out. Baselines are squares."
    return [
        render_paragraph(
            f"{type(model).__name__} predicts by an average of {len(model.machine_.parts)} of its candidates."
        ),
        board._repr_html_(),
        render_figure(lambda ax: dk.plot.leaderboard(model, ax=ax), caption, size),
        *map(render_paragraph, model.summary().rpartition("\n\n")[2].splitlines()),
    ]


def _flatten_steps(model: Any) -> Iterator[Any]:
    if not isinstance(model, Pipeline):
        yield model
        return
    for _, step in model.steps:
        if step is not None and not isinstance(step, str):
            yield from _flatten_steps(step)


def _parameter_rows(step: Any) -> list[tuple[object, object, object]]:
    """Parameters as they were given (bare where they are the default), and what became of them in the fit."""
    defaults = {name: p.default for name, p in inspect.signature(type(step)).parameters.items()}
    settled = {name: _format_value(value) for name, value in vars(step).items() if not name.startswith("_")}
    rows: list[tuple[object, object, object]] = []
    for name, value in step.get_params(deep=False).items():
        chosen = "" if repr(value) == repr(defaults.get(name)) else " (chosen)"
        rows.append((name, f"{_format_value(value) or value}{chosen}", settled.pop(f"{name}_", "")))
    return rows + [(name, "", text) for name, text in sorted(settled.items()) if name.endswith("_") and text]


def _format_value(value: Any) -> str:
    """A value in a few words; nothing of what has many."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, str)) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Number):
        return f"{value:,}"
    if (isinstance(value, np.ndarray) and value.ndim == 1) or isinstance(value, (tuple, list)):
        if len(value) == 0:
            return "none"
        parts = [_format_value(one) for one in value] if len(value) <= MAX_LISTED_VALUES else []
        return ", ".join(parts) if all(parts) else ""
    return ""


PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "matplotlib")
PAPERS = (
    "Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel embeddings. "
    "AAAI 2016.",
    "Rahimi, Recht: Random features for large-scale kernel machines. NIPS 2007.",
)


def environment_section(_: Evaluation) -> Section:
    """Versions of what computes, and what decides its last bits."""
    found = cpu_features()
    pairs: list[tuple[object, object]] = [
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("dkdist", dk.__version__),
        ("Python", platform.python_version()),
        *((name, _package_version(name)) for name in PACKAGES),
        ("system", platform.platform()),
        (
            "processor",
            f"{_processor_name()}, {os.cpu_count()} cores, {memory_limit() / 2**30:.0f} GiB",
        ),
        ("BLAS", ", ".join(found["BLAS"])),
        ("compiled loops for", found["Numba"][0]),
    ]
    said = (
        "For the same seed and block size, results have the same bits on processors of one kind; on others the last "
        "digits may differ."
    )
    return Section("Environment", [key_value_table("", pairs), render_paragraph(said, "note")])


def citation_section(_: Evaluation) -> Section:
    """The software in this version, and the papers behind its main road."""
    entry = (
        "@software{dkdist,\n  title = {dkdist: learning from distributions},\n"
        f"  version = {{{dk.__version__}}},\n  year = {{{datetime.now(UTC).year}}}\n}}"
    )
    return Section(
        "How to cite", [f"<pre>{escape_html(entry)}</pre>", *(render_paragraph(one) for one in PAPERS)]
    )


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor_name() -> str:
    """The name of the processor, where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
