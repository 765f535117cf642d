"""What a model file holds: a document, and the same for people, with what is the default left out.

What stores of sets and of features hold: a document, and the same for people; points are not read.
"""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist.cli.console import to_json_value
from dkdist.models.model_file import StepSummary, summary_of_file

Pairs = list[tuple[str, object]]

MOST_CLASSES = 20


def sets_document(sets: Any) -> dict[str, Any]:
    """The facts of a store of sets."""
    sizes, weights = sets.sizes, sets.weights_shape
    spread = {"min": sizes.min(), "median": np.median(sizes), "max": sizes.max()} if len(sizes) else None
    return {
        "kind": "sets",
        "n_sets": len(sets),
        "n_points": sets.n_points,
        "n_dims": sets.n_dims,
        "names": None if sets.names is None else list(sets.names),
        "set_sizes": spread,
        "dtype": str(sets.points_dtype),
        "origin": sets.origin,
        "weights": None if weights is None else list(weights),
        "ids": None if sets.ids is None else _describe_column(sets.ids),
        "targets": {name: _describe_column(values) for name, values in sets.targets.items()},
    }


def sets_pairs(found: dict[str, Any]) -> Pairs:
    """The same as names and values."""
    spread, weights, ids = found["set_sizes"], found["weights"], found["ids"]
    pairs: Pairs = [
        ("store of", "sample sets"),
        ("sets", f"{found['n_sets']:,}"),
        ("points", f"{found['n_points']:,}"),
        ("dimensions", found["n_dims"]),
        *([("names", ", ".join(found["names"]))] if found["names"] else []),
        ("points a set", "{min:,} to {max:,} (median {median:,.0f})".format(**spread) if spread else "none"),
        ("dtype", found["dtype"]),
        *([("origin", ", ".join(f"{v:.12g}" for v in found["origin"]))] if found["origin"].any() else []),
        (
            "weights",
            "none" if weights is None else f"{tuple(weights)} a point" if weights else "one a point",
        ),
        ("ids", "none" if ids is None else _format_column(ids)),
    ]
    return pairs + [(f"target {name!r}", _format_column(column)) for name, column in found["targets"].items()]


def features_document(features: Any) -> dict[str, Any]:
    """The facts of a store of features."""
    n, m = features.shape
    n_blocks = features.numblocks[0]
    return {
        "kind": "features",
        "n_rows": n,
        "n_features": m,
        "n_blocks": n_blocks,
        "dtype": str(features.dtype),
    }


def features_pairs(found: dict[str, Any]) -> Pairs:
    """The same as names and values."""
    named = (("rows", "n_rows"), ("features", "n_features"), ("blocks", "n_blocks"))
    sizes: Pairs = [(name, f"{found[key]:,}") for name, key in named]
    return [("store of", "features"), *sizes, ("dtype", found["dtype"])]


def _describe_column(values: NDArray[Any]) -> dict[str, Any]:
    """A column in a few facts: its dtype, and its range or its classes."""
    kind = "text" if values.dtype.kind == "U" else str(values.dtype)
    facts: dict[str, Any] = dict.fromkeys(("dtype", "columns", "distinct", "min", "max", "counts"))
    facts |= {"dtype": kind, "columns": 1 if values.ndim == 1 else values.shape[1]}
    if values.ndim > 1 or not len(values):
        return facts
    if values.dtype.kind == "f":
        return facts | {"min": values.min(), "max": values.max()}
    classes, counts = np.unique(values, return_counts=True)
    facts |= {"distinct": len(classes), "min": classes[0], "max": classes[-1]}
    if len(classes) <= MOST_CLASSES:
        pairs = zip(classes, counts, strict=True)
        facts["counts"] = [{"value": value, "count": count} for value, count in pairs]
    return facts


def _format_column(column: dict[str, Any]) -> str:
    kind, low, high = column["dtype"], column["min"], column["max"]
    if column["columns"] > 1:
        return f"{kind}, {column['columns']} columns"
    if low is None:
        return str(kind)
    if column["distinct"] is None:
        return f"{kind}, {low:.6g} to {high:.6g}"
    if column["counts"] is None:
        return f"{kind}, {column['distinct']:,} different values, {low} to {high}"
    named = ", ".join(f"{to_json_value(one['value'])} ({one['count']:,})" for one in column["counts"])
    return f"{kind}, {column['distinct']} classes: {named}"


SUMMARY_ATTRIBUTES = ("bandwidth_", "n_basis_", "sigma_", "alpha_", "distance_scale_", "n_epochs_")
"""Fitted attributes that people are told of."""
_SHORT_REPR = reprlib.Repr()
(
    _SHORT_REPR.maxlist,
    _SHORT_REPR.maxdict,
    _SHORT_REPR.maxstring,
    _SHORT_REPR.maxother,
    _SHORT_REPR.maxlevel,
) = 8, 12, 80, 80, 4


def model_document(path: str) -> dict[str, Any]:
    """The facts of a model file; a damaged one is an error."""
    found = summary_of_file(path)
    return {
        "kind": "model",
        "format_version": found.format_version,
        "saved_by": found.saved_by,
        "n_dims": found.n_dims,
        "n_features": found.n_features,
        "classes": found.classes,
        "origin": found.origin,
        "steps": [step._asdict() for step in found.steps],
    }


def model_pairs(found: dict[str, Any]) -> Pairs:
    """The same as names and values; text of the file is quoted, so that no terminal obeys it."""
    versions, classes, origin = found["saved_by"], found["classes"], found["origin"]
    pairs: Pairs = [
        ("model of", f"{len(found['steps'])} step{'s' if len(found['steps']) > 1 else ''}"),
        ("dimensions", _format_value(found["n_dims"])),
        ("features", _format_value(found["n_features"])),
        ("classes", "none" if classes is None else _format_value(classes)),
    ]
    if isinstance(origin, list) and any(origin):
        pairs.append(("origin", _format_value(origin)))
    for i, step in enumerate(found["steps"], 1):
        pairs.append((f"step {i}", _format_step(StepSummary(**step))))
    saved = ", ".join(
        f"{_escape_name(name)} {_escape_name(version)}" for name, version in (versions or {}).items()
    )
    return [*pairs, ("format", f"version {found['format_version']}"), ("saved by", saved or "not said")]


def _format_step(step: StepSummary) -> str:
    """The call that makes the step, and what it has chosen."""
    usual = _default_parameters(step.estimator)
    given = {key: value for key, value in step.parameters.items() if key not in usual or usual[key] != value}
    named = ", ".join(f"{_escape_name(key)}={_format_value(value)}" for key, value in given.items())
    call = f"{_escape_name(step.estimator)}({named})"
    chosen = [
        f"{name} {_format_value(step.fitted[name])}" for name in SUMMARY_ATTRIBUTES if name in step.fitted
    ]
    return f"{call}: {', '.join(chosen)}" if chosen else call


def _default_parameters(estimator: str) -> dict[str, Any]:
    """The defaults of a public estimator, as a file holds them; {} of any other."""
    kind = getattr(dkdist, estimator) if estimator in dir(dkdist) else None
    if not inspect.isclass(kind):
        return {}
    values = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _escape_name(name: str) -> str:
    """A name of the file without characters that a terminal would obey."""
    return repr(name)[1:-1]


def _format_value(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and all(type(one) is float for one in value):
        return f"[{', '.join(f'{one:.6g}' for one in value[:8])}{', ...' * (len(value) > 8)}]"
    return _SHORT_REPR.repr(value)
