"""What a model file holds: a document, and the same for people, with what is the default left out."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

import dkdist
from dkdist.cli.output.descriptions import Pairs
from dkdist.files.model_summary import StepSummary, summary_of_file

SHOWN = ("bandwidth_", "n_basis_", "sigma_", "alpha_", "distance_scale_", "n_epochs_")
"""Fitted attributes that people are told of."""
_TOLD = reprlib.Repr()
_TOLD.maxlist, _TOLD.maxdict, _TOLD.maxstring, _TOLD.maxother, _TOLD.maxlevel = 8, 12, 80, 80, 4


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
        ("dimensions", _short(found["n_dims"])),
        ("features", _short(found["n_features"])),
        ("classes", "none" if classes is None else _short(classes)),
    ]
    if isinstance(origin, list) and any(origin):
        pairs.append(("origin", _short(origin)))
    for i, step in enumerate(found["steps"], 1):
        pairs.append((f"step {i}", _call(StepSummary(**step))))
    saved = ", ".join(f"{_escaped(name)} {_escaped(version)}" for name, version in (versions or {}).items())
    return [*pairs, ("format", f"version {found['format_version']}"), ("saved by", saved or "not said")]


def _call(step: StepSummary) -> str:
    """The call that makes the step, and what it has chosen."""
    usual = _defaults(step.estimator)
    given = {key: value for key, value in step.parameters.items() if key not in usual or usual[key] != value}
    named = ", ".join(f"{_escaped(key)}={_short(value)}" for key, value in given.items())
    call = f"{_escaped(step.estimator)}({named})"
    chosen = [f"{name} {_short(step.fitted[name])}" for name in SHOWN if name in step.fitted]
    return f"{call}: {', '.join(chosen)}" if chosen else call


def _defaults(estimator: str) -> dict[str, Any]:
    """The defaults of a public estimator, as a file holds them; {} of any other."""
    kind = getattr(dkdist, estimator) if estimator in dir(dkdist) else None
    if not inspect.isclass(kind):
        return {}
    values = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _escaped(name: str) -> str:
    """A name of the file without characters that a terminal would obey."""
    return repr(name)[1:-1]


def _short(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and all(type(one) is float for one in value):
        return f"[{', '.join(f'{one:.6g}' for one in value[:8])}{', ...' * (len(value) > 8)}]"
    return _TOLD.repr(value)
