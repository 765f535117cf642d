"""Sections of a report about the model (parameters, fitted attributes, leaderboard), the environment and citations."""

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
from dkdist._base.set_digests import data_fingerprint
from dkdist._runtime.process import cpu_features
from dkdist._utils.memory_budget import memory_limit
from dkdist._utils.text import escape_html, html_table, key_value_table
from dkdist.cli._tuning import MAX_LISTED_VALUES
from dkdist.cli.report.evaluation import Evaluation
from dkdist.cli.report.page import Section, render_figure, render_paragraph

COLUMNS = "parameter", "value", "fitted"
NUISANCE_SCORES = {"adjusted": "after adjustment", "unadjusted": "before adjustment", "chance": "by chance"}


def model_section(evaluation: Evaluation) -> Section:
    """Return the leaderboard, the steps, and the loss curve of a learner with several epochs."""
    steps = list(_flatten_steps(evaluation.pipeline))
    parts = _leaderboard_parts(evaluation.model) if hasattr(evaluation.model, "leaderboard_") else []
    if evaluation.pipeline is not evaluation.model:
        parts.append(render_paragraph("The best candidate, as a pipeline:", "note"))
    for k, step in enumerate(steps, 1):
        parts.append(html_table(f"{k}. {type(step).__name__}", COLUMNS, _parameter_rows(step), len(COLUMNS)))
    if len(getattr(steps[-1], "loss_curve_", ())) > 1:
        caption = "Training loss by epoch."
        parts.append(render_figure(lambda ax: dk.plot.learning_curve(steps[-1], ax=ax), caption, (6.4, 3.6)))
    return Section("Model", parts)


def design_section(evaluation: Evaluation) -> Section | None:
    """Return covariates and adjusted variables with their relation to target and rows; None without them."""
    model = evaluation.model
    design = getattr(getattr(model, "machine_", None), "design", None)
    if design is None:
        return None
    rows = []
    for i, variable in enumerate(design.variables):
        role = "covariate" if i < design.n_covariates else "adjusted"
        scores = model.nuisance_scores_.get(variable.name, {})
        figures = (model._explained or {}).get(variable.name), *(scores.get(name) for name in NUISANCE_SCORES)
        texts = ("" if figure is None else f"{figure:.2f}" for figure in figures)
        rows.append((variable.name, role, variable.description, *texts))
    columns = "variable", "role", "kind", "R² with the target", *NUISANCE_SCORES.values()
    note = (
        "Covariates predict next to the sets; adjusted variables are removed from all rows. The last columns are "
        "scores of predictions of an adjusted variable from the rows of held-out sets: mean recall of categories, R² "
        "of numbers. After adjustment they should be near chance."
    )
    return Section("Design", [html_table("", columns, rows, 3), render_paragraph(note, "note")])


def _leaderboard_parts(model: Any) -> list[str]:
    """Return the size of the ensemble, the leaderboard, and the conclusions of the summary."""
    board = model.leaderboard_
    size = 7.2, 1.2 + 0.34 * len(board)
    caption = "Scores on held-out training sets. Baselines are squares."
    return [
        render_paragraph(
            f"{type(model).__name__} predicts the average of {len(model.machine_.parts)} of its candidates."
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
    """Return rows of parameters, marked if they differ from the default, with their fitted attributes."""
    defaults = {name: p.default for name, p in inspect.signature(type(step)).parameters.items()}
    fitted = {name: _format_value(value) for name, value in vars(step).items() if not name.startswith("_")}
    rows: list[tuple[object, object, object]] = []
    for name, value in step.get_params(deep=False).items():
        mark = "" if repr(value) == repr(defaults.get(name)) else " (not the default)"
        rows.append((name, f"{_format_value(value) or value}{mark}", fitted.pop(f"{name}_", "")))
    return rows + [(name, "", text) for name, text in sorted(fitted.items()) if name.endswith("_") and text]


def _format_value(value: Any) -> str:
    """Format a short value; "" for arrays and objects that are not short."""
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
        parts = [_format_value(item) for item in value] if len(value) <= MAX_LISTED_VALUES else []
        return ", ".join(parts) if all(parts) else ""
    return ""


PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "matplotlib")
PAPERS = (
    "Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel embeddings. "
    "AAAI 2016.",
    "Rahimi, Recht: Random features for large-scale kernel machines. NIPS 2007.",
)


def environment_section(evaluation: Evaluation) -> Section:
    """Return the data, versions of libraries, and properties of the CPU on which rounding errors depend."""
    features = cpu_features()
    pairs: list[tuple[object, object]] = [
        ("created", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("fingerprint of the data", data_fingerprint(evaluation.sets)),
        ("dkdist", dk.__version__),
        ("Python", platform.python_version()),
        *((name, _package_version(name)) for name in PACKAGES),
        ("system", platform.platform()),
        (
            "processor",
            f"{_processor_name()}, {os.cpu_count()} cores, {memory_limit() / 2**30:.0f} GiB",
        ),
        ("BLAS", ", ".join(features["BLAS"])),
        ("compilation target", features["Numba"][0]),
    ]
    note = (
        "Equal fingerprints (BLAKE2b) mean the same sets in the same order; points may be stored in any order. "
        "For a given seed and block size, results are bit-identical on CPUs of one type; on other CPUs the last digits "
        "may differ."
    )
    return Section("Environment", [key_value_table("", pairs), render_paragraph(note, "note")])


def citation_section(_: Evaluation) -> Section:
    """Return the citations of this version of the software and of its methods."""
    entry = (
        "@software{dkdist,\n  title = {dkdist: learning from distributions},\n"
        f"  version = {{{dk.__version__}}},\n  year = {{{datetime.now(UTC).year}}}\n}}"
    )
    return Section("How to cite", [f"<pre>{escape_html(entry)}</pre>", *map(render_paragraph, PAPERS)])


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
