"""Descriptions of stores and model files for ``dkdist info``, as JSON documents and as lines of text.

The points of a store are not read, and no code of a model file runs.
"""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist.cli._tuning import (
    MAX_LISTED_CLASSES,
    MAX_REPR_CHARACTERS,
    MAX_REPR_DEPTH,
    MAX_REPR_ITEMS,
    MAX_REPR_KEYS,
)
from dkdist.cli.console import to_json_value
from dkdist.models.model_file import StepSummary, summarize_file

Pairs = list[tuple[str, object]]


def sets_document(sets: Any) -> dict[str, Any]:
    """Describe a store of sets."""
    sizes, weights = sets.sizes, sets.weights_shape
    size_range = {"min": sizes.min(), "median": np.median(sizes), "max": sizes.max()} if len(sizes) else None
    return {
        "kind": "sets",
        "n_sets": len(sets),
        "n_points": sets.n_points,
        "n_dims": sets.n_dims,
        "names": None if sets.names is None else list(sets.names),
        "set_sizes": size_range,
        "dtype": str(sets.points_dtype),
        "origin": sets.origin,
        "weights": None if weights is None else list(weights),
        "ids": None if sets.ids is None else _describe_column(sets.ids),
        "targets": {name: _describe_column(values) for name, values in sets.targets.items()},
    }


def sets_pairs(document: dict[str, Any]) -> Pairs:
    """Format the document of a store of sets as names and values."""
    size_range, weights, ids = document["set_sizes"], document["weights"], document["ids"]
    pairs: Pairs = [
        ("store of", "sample sets"),
        ("sets", f"{document['n_sets']:,}"),
        ("points", f"{document['n_points']:,}"),
        ("dimensions", document["n_dims"]),
        *([("names", ", ".join(document["names"]))] if document["names"] else []),
        (
            "points per set",
            "{min:,} to {max:,} (median {median:,.0f})".format(**size_range) if size_range else "none",
        ),
        ("dtype", document["dtype"]),
        *(
            [("origin", ", ".join(f"{v:.12g}" for v in document["origin"]))]
            if document["origin"].any()
            else []
        ),
        (
            "weights",
            "none" if weights is None else f"{tuple(weights)} per point" if weights else "one per point",
        ),
        ("ids", "none" if ids is None else _format_column(ids)),
    ]
    return pairs + [
        (f"target {name!r}", _format_column(column)) for name, column in document["targets"].items()
    ]


def features_document(features: Any) -> dict[str, Any]:
    """Describe a store of features."""
    n, m = features.shape
    n_blocks = features.numblocks[0]
    return {
        "kind": "features",
        "n_rows": n,
        "n_features": m,
        "n_blocks": n_blocks,
        "dtype": str(features.dtype),
    }


def features_pairs(document: dict[str, Any]) -> Pairs:
    """Format the document of a store of features as names and values."""
    return [
        ("store of", "features"),
        *((name, f"{document[f'n_{name}']:,}") for name in ("rows", "features", "blocks")),
        ("dtype", document["dtype"]),
    ]


def _describe_column(values: NDArray[Any]) -> dict[str, Any]:
    """Describe a column by its dtype, and its range or its classes."""
    kind = "text" if values.dtype.kind == "U" else str(values.dtype)
    facts: dict[str, Any] = dict.fromkeys(("dtype", "columns", "distinct", "min", "max", "counts"))
    facts |= {"dtype": kind, "columns": 1 if values.ndim == 1 else values.shape[1]}
    if values.ndim > 1 or not len(values):
        return facts
    if values.dtype.kind == "f":
        return facts | {"min": values.min(), "max": values.max()}
    classes, counts = np.unique(values, return_counts=True)
    facts |= {"distinct": len(classes), "min": classes[0], "max": classes[-1]}
    if len(classes) <= MAX_LISTED_CLASSES:
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
        return f"{kind}, {column['distinct']:,} distinct values, {low} to {high}"
    classes = ", ".join(f"{to_json_value(c['value'])} ({c['count']:,})" for c in column["counts"])
    return f"{kind}, {column['distinct']} classes: {classes}"


SUMMARY_ATTRIBUTES = ("bandwidth_", "n_basis_", "sigma_", "alpha_", "distance_scale_", "n_epochs_")
"""Fitted attributes in the lines of text; the JSON document has all."""
_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxlist, _SHORT_REPR.maxdict, _SHORT_REPR.maxlevel = MAX_REPR_ITEMS, MAX_REPR_KEYS, MAX_REPR_DEPTH
_SHORT_REPR.maxstring = _SHORT_REPR.maxother = MAX_REPR_CHARACTERS


def model_document(path: str) -> dict[str, Any]:
    """Describe a model file; a damaged file is an error."""
    summary = summarize_file(path)
    return {
        "kind": "model",
        "format_version": summary.format_version,
        "saved_by": summary.saved_by,
        "n_dims": summary.n_dims,
        "n_features": summary.n_features,
        "classes": summary.classes,
        "origin": summary.origin,
        "steps": [step._asdict() for step in summary.steps],
    }


def model_pairs(document: dict[str, Any]) -> Pairs:
    """Format the document of a model file; control characters in its text are escaped."""
    versions, classes, origin = document["saved_by"], document["classes"], document["origin"]
    pairs: Pairs = [
        ("model of", f"{len(document['steps'])} step{'s' if len(document['steps']) > 1 else ''}"),
        ("dimensions", _format_value(document["n_dims"])),
        ("features", _format_value(document["n_features"])),
        ("classes", "none" if classes is None else _format_value(classes)),
    ]
    if isinstance(origin, list) and any(origin):
        pairs.append(("origin", _format_value(origin)))
    for i, step in enumerate(document["steps"], 1):
        pairs.append((f"step {i}", _format_step(StepSummary(**step))))
    saved = ", ".join(
        f"{_escape_name(name)} {_escape_name(version)}" for name, version in (versions or {}).items()
    )
    return [*pairs, ("format", f"version {document['format_version']}"), ("saved by", saved or "unknown")]


def _format_step(step: StepSummary) -> str:
    """Format the constructor call without defaults, and the main fitted attributes."""
    defaults = _default_parameters(step.estimator)
    arguments = ", ".join(
        f"{_escape_name(key)}={_format_value(value)}"
        for key, value in step.parameters.items()
        if key not in defaults or defaults[key] != value
    )
    call = f"{_escape_name(step.estimator)}({arguments})"
    fitted = [
        f"{name} {_format_value(step.fitted[name])}" for name in SUMMARY_ATTRIBUTES if name in step.fitted
    ]
    return f"{call}: {', '.join(fitted)}" if fitted else call


def _default_parameters(estimator: str) -> dict[str, Any]:
    """Return the default parameters of a public estimator as in a model file; {} for other classes."""
    kind = getattr(dkdist, estimator) if estimator in dir(dkdist) else None
    if not inspect.isclass(kind):
        return {}
    values = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _escape_name(name: str) -> str:
    """Escape control characters, which a terminal would execute."""
    return repr(name)[1:-1]


def _format_value(value: Any) -> str:
    """Format a value in one short line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and all(type(item) is float for item in value):
        items = ", ".join(f"{item:.6g}" for item in value[:MAX_REPR_ITEMS])
        return f"[{items}{', ...' * (len(value) > MAX_REPR_ITEMS)}]"
    return _SHORT_REPR.repr(value)
