"""Validation of the parts of a loaded model before any of them is used.

Fields of records must match their annotations, fitted attributes must pass the checks below, and sizes must be
consistent. Numbers must be finite, except for losses that were not measured.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dkdist._base.embedding import SetEmbedding
from dkdist._utils.serialization import REGISTRY, field_names, registered_name
from dkdist.linear.sgd_steps import Objective, State
from dkdist.sets import SampleSets

MAX_COUNT = 2**24  # maximum number of components or nodes in a record; tests/files/test_hostile_models.py
SCALE_FIELDS = ("sigma", "sigmas", "bandwidth", "scale", "eta0")  # fields that are divisors
MAX_SCALE = 1e40  # maximum scale, above the largest float32, 3.4e38; tests/files/test_hostile_models.py
SEED_FIELDS = ("seed",)
NO_OUTPUT_ID = -1  # output id of a MaterializedGraph without output; tests/files/test_hostile_models.py
UNSAVED_PARAMETERS = {"memory": None, "checkpoint": None, "cache": "auto"}
"""Parameters that may be paths (which fitting reads and writes) and are not saved, with their values after loading."""


class ModelContentError(ValueError):
    """Error for an invalid part of a model file."""


def require_record(record: Any) -> None:
    """Raise for a record whose fields do not match its class."""
    hints, name = get_type_hints(type(record)), registered_name(type(record))
    for field in field_names(record):
        value = getattr(record, field)
        expected = (
            _hint_text(hints[field])
            if not _matches_hint(value, hints[field])
            else _value_requirement(name, field, value)
        )
        if expected:
            raise ModelContentError(f"{name}.{field} must be {expected}; got {_value_text(value)}")
    _require_lengths(name, record)
    if hasattr(record, "check_loaded"):
        record.check_loaded()
    if name == "Omegas":
        SampleSets(record.points, record.offsets, record.weights)


def _value_requirement(record: str, field: str, value: Any) -> str | None:
    """Return the requirement that the numbers of a field violate; None if they are valid."""
    if type(value) is int and field in SEED_FIELDS:
        return "a number >= 0" if value < 0 else None
    minimum = NO_OUTPUT_ID if field == "leaf" else int(record.endswith("Spec"))
    if type(value) is int and not minimum <= value <= MAX_COUNT:
        return f"from {minimum} to {MAX_COUNT}"
    divisors: list[Any] = list(np.ravel(value)) if field in SCALE_FIELDS and value is not None else []
    if record == "L2Spec":  # bandwidth 0 means no smoothing
        divisors = [v for v in divisors if v != 0]
    return None if all(1 / MAX_SCALE <= v <= MAX_SCALE for v in divisors) else "positive numbers"


def _require_lengths(name: str, record: Any) -> None:
    """Raise for a record with sequences of inconsistent lengths."""
    for first, second in (
        ("frequencies", "masses"),
        ("low", "high"),
        ("centre", "scale"),
        ("centre", "inverse"),
    ):
        pair: tuple[Any, Any] = getattr(record, first, None), getattr(record, second, None)
        if all(isinstance(values, tuple) for values in pair) and not 0 < len(pair[0]) == len(pair[1]):
            raise ModelContentError(
                f"{name} must have equal numbers of {first} and {second}; got {len(pair[0])} and {len(pair[1])}"
            )
    domain, widths = getattr(record, "domain", None), getattr(record, "bandwidth", None)
    if domain is not None and widths is not None and (not widths or len(widths) % len(domain.low)):
        raise ModelContentError(
            f"{name} must have bandwidths for {len(domain.low)} dimensions; got {len(widths)}"
        )


def _matches_hint(value: Any, hint: Any) -> bool:
    """Whether a value matches an annotation; supports the annotations of records."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_matches_hint(value, part) for part in parts)
    if origin is tuple:
        each = parts[:1] * len(value) if isinstance(value, tuple) and parts[-1] is Ellipsis else parts
        return (
            isinstance(value, tuple)
            and len(value) == len(each)
            and all(_matches_hint(v, p) for v, p in zip(value, each, strict=True))
        )
    if origin is Callable:
        return callable(value)
    if origin in (np.ndarray, NDArray):  # get_origin returns NDArray for NumPy >= 2.5 on Python >= 3.12
        kinds = _KINDS.get(get_args(parts[-1])[0] if origin is np.ndarray else parts[0], "iuf")
        return isinstance(value, np.ndarray) and value.dtype.kind in kinds and _is_finite(value)
    if origin in (list, dict) or hint in (list, dict):
        return _is_collection(value, origin or hint, parts)
    if hint is float:
        return type(value) in (int, float) and value == value  # rejects NaN only: orders may be infinite
    if hint in (int, bool, str, type(None), None):
        return type(value) is (type(None) if hint is None else hint)
    if is_dataclass(hint) or hasattr(hint, "_fields") or hint is SampleSets or hint in REGISTRY.values():
        return type(value) is hint
    if isinstance(hint, type) and issubclass(hint, BaseEstimator):
        return isinstance(value, hint)
    return value is None or is_dataclass(value)  # Any and protocols allow records and None


_KINDS: dict[Any, str] = {np.generic: "biufUSO", np.bool_: "b"}
"""Kinds of dtypes by the scalar type of an annotation; others allow numbers."""


def _is_collection(value: Any, kind: Any, parts: tuple[Any, ...]) -> bool:
    """Whether a value is a list, or a dict with str keys, whose items match the item type of the annotation, if any."""
    if type(value) is not kind or (kind is dict and any(type(key) is not str for key in value)):
        return False
    items: Any = value.values() if isinstance(value, dict) else value
    return not parts or all(_matches_hint(item, parts[-1]) for item in items)


def _hint_text(hint: Any) -> str:
    return registered_name(hint) if isinstance(hint, type) else str(hint).replace("typing.", "")


def _is_finite(value: NDArray[Any]) -> bool:
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())


def _value_text(value: Any) -> str:
    """Describe a value for messages."""
    if isinstance(value, np.ndarray):
        suffix = "" if value.dtype.kind != "f" or _is_finite(value) else " that is not finite"
        return f"an array of {value.dtype} {value.shape}{suffix}"
    return f"{value!r:.80}"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _is_finite_real(value: Any) -> bool:
    """Whether a value is a finite number, or an array or sequence of finite numbers."""
    if isinstance(value, (tuple, list)):
        return all(_is_finite_real(item) for item in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "iuf" and _is_finite(np.asarray(value))
    return type(value) in (int, float) and abs(value) < np.inf


def _is_loss_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim <= 2


def _is_vector(kinds: str) -> Callable[[Any], bool]:
    """Return a check for 1-D arrays with a dtype of these kinds."""
    return lambda value: isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in kinds


def _optional(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or kind(value)


def _is_sgd_state(value: Any) -> bool:
    """Whether a value is (seed, objective, state, calls) of SGD with consistent sizes."""
    if not (isinstance(value, tuple) and len(value) == 4 and _is_count(value[0]) and _is_count(value[3])):
        return False
    _, objective, state, _ = value
    if type(objective) is not Objective or type(state) is not State or state.coef.ndim != 2:
        return False
    K, D = state.coef.shape
    shapes = {name: array.shape for name, array in state.arrays().items()}
    return objective.n_outputs == K and shapes == {
        "coef": (K, D), "mean_coef": (K, D), "intercept": (K,), "mean_intercept": (K,), "n_averaged": (), "sums": (4,)
    }  # fmt: skip


def _is_groups(value: Any) -> bool:
    """Whether a value is a tuple of groups of dimensions."""
    return isinstance(value, tuple) and all(isinstance(g, tuple) and all(map(_is_count, g)) for g in value)


ATTRIBUTE_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("n_features_in_", "n_samples_fit_", "n_iter_", "n_epochs_", "n_lanes_", "n_symmetries_"), _is_count
    ),
    **dict.fromkeys(("n_basis_", "n_pairs_found_", "_seed"), _is_count),
    **dict.fromkeys(("eta0_", "alpha_", "_centre", "_scale", "bandwidth_", "centre_"), _is_finite_real),
    **dict.fromkeys(("coef_", "intercept_", "calibration_", "_fit_X", "n_samples_seen_"), _is_finite_real),
    **dict.fromkeys(("explained_variance_", "explained_variance_ratio_"), _is_finite_real),
    **dict.fromkeys(
        ("means_", "eigenvalues_", "components_", "signature_", "outside_share_"), _is_finite_real
    ),
    **dict.fromkeys(("mean_", "var_", "scale_", "error_bound_"), _optional(_is_finite_real)),
    **dict.fromkeys(("alpha_errors_", "loss_curve_", "validation_loss_curve_"), _is_loss_array),
    "component_indices_": _is_vector("iu"),
    **dict.fromkeys(("classes_", "feature_names_in_"), _is_vector("biufUSO")),
    "sigma_": lambda value: (
        _is_finite_real(value) and all(v == 0 or 1 / MAX_SCALE <= v <= MAX_SCALE for v in np.ravel(value))
    ),
    **dict.fromkeys(("resolved_", "multilabel_", "numeric_"), lambda value: type(value) is bool),
    "structure_": lambda value: value in ("joint", "marginal", "pairs"),
    "pairs_": _is_groups,
    "origin_": lambda value: _is_vector("f")(value) and value.dtype == np.float64 and _is_finite(value),
    "skipped_": _is_vector("iu"),
    "spec_": lambda value: registered_name(type(value)).endswith(("Spec", "Params")),
    **dict.fromkeys(("_index", "recall_"), lambda value: value is None),
    "_stream": _is_sgd_state,
    "embedding_": lambda value: hasattr(value, "spec_"),
    "features_": _optional(lambda value: hasattr(value, "spec_")),
}
REQUIRED_ATTRIBUTES = {
    "CoresetThinning": ("sigma_", "_seed"),
    "NearestSets": ("n_features_in_", "_fit_X", "_index", "n_samples_fit_"),
    "PseudoEuclideanEmbedding": ("n_features_in_", "means_", "eigenvalues_", "components_"),
    "SetColumns": ("n_features_in_", "feature_names_in_", "numeric_"),
    "StandardScaler": ("n_features_in_", "mean_", "scale_"),
    **dict.fromkeys(("IncrementalRidge", "IncrementalSGDRegressor"), ("coef_", "intercept_")),
    **dict.fromkeys(("IncrementalRidgeClassifier", "IncrementalSGDClassifier"), ("classes_", "coef_", "intercept_")),
}  # fmt: skip


def require_fitted_attributes(kind: type, fitted: dict[str, Any]) -> None:
    """Raise for fitted attributes of an estimator that are unknown, invalid, missing, or of inconsistent sizes.

    ``saved_attributes`` of a class, if any, are their annotations by name, or return these. Attributes that may be None
    may be missing.
    """
    name = kind.__name__
    if hasattr(kind, "saved_attributes"):
        annotations = kind.saved_attributes
        _require_annotated(name, annotations() if callable(annotations) else annotations, fitted)
        return
    for key, value in fitted.items():
        if name == "Pipeline" or key not in ATTRIBUTE_CHECKS:
            raise ModelContentError(f"{name} has no attribute {key!r:.80}")
        if not ATTRIBUTE_CHECKS[key](value):
            raise ModelContentError(f"{name}.{key} is {_value_text(value)}, which is invalid")
    is_embedding = issubclass(kind, SetEmbedding)
    default = ("spec_", "n_features_in_", *(("origin_",) if is_embedding else ()))
    required = REQUIRED_ATTRIBUTES.get(name, () if name == "Pipeline" else default)
    # an estimator that is a parameter may be unfitted
    missing = [key for key in required if fitted and key not in fitted]
    if missing:
        raise ModelContentError(f"{name} lacks {', '.join(missing)}")
    n = fitted.get("n_features_in_")
    domain = getattr(fitted.get("spec_"), "domain", None)
    if domain is not None and len(domain.low) != n:
        raise ModelContentError(f"{name}.spec_ must have a domain of {n} dimensions; got {len(domain.low)}")
    allowed: dict[str, list[Any]] = {"feature_names_in_": [(n,)]}
    for key, shapes in (allowed | _expected_shapes(fitted, n)).items():
        if key in fitted and fitted[key] is not None and np.shape(fitted[key]) not in shapes:
            raise ModelContentError(f"{name}.{key} must have shape {shapes[0]}; got {np.shape(fitted[key])}")


def _require_annotated(name: str, hints: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Raise for attributes without an annotation, of another type, or missing."""
    for key, value in fitted.items():
        if key not in hints:
            raise ModelContentError(f"{name} has no attribute {key!r:.80}")
        if not _matches_hint(value, hints[key]):
            raise ModelContentError(
                f"{name}.{key} must be {_hint_text(hints[key])}; got {_value_text(value)}"
            )
    missing = [
        key for key, hint in hints.items() if fitted and key not in fitted and not _matches_hint(None, hint)
    ]
    if missing:
        raise ModelContentError(f"{name} lacks {', '.join(missing)}")


def _expected_shapes(fitted: dict[str, Any], n: Any) -> dict[str, list[tuple[int, ...]]]:
    """Return the allowed shapes of attributes, given the other attributes."""
    coef = fitted.get("coef_")
    if "classes_" in fitted:
        k = len(fitted["classes_"])
        is_multilabel = fitted.get("multilabel_", False)
        outputs = 1 if k == 2 and not is_multilabel else k
        calibration = (k, 2) if is_multilabel else (2,)
        return {"coef_": [(outputs, n)], "intercept_": [(outputs,)], "calibration_": [calibration]}
    if coef is not None:
        outputs = len(coef) if np.ndim(coef) == 2 else 1
        return {
            "coef_": [(n,), (outputs, n)],
            "intercept_": [(outputs,)] if np.ndim(coef) == 2 else [(), (1,)],
        }
    if "_fit_X" in fitted:
        return {"_fit_X": [(fitted["n_samples_fit_"], n)]}
    if "means_" in fitted:
        m, k = np.size(fitted["means_"]), np.size(fitted["eigenvalues_"])
        return {"means_": [(m,)], "eigenvalues_": [(k,)], "components_": [(m, k)], "signature_": [(k,)]}
    return {key: [(n,)] for key in ("mean_", "var_", "scale_", "centre_", "origin_")}


def require_steps(steps: Any) -> None:
    """Raise for steps of a pipeline that are not named estimators, or whose numbers of features do not match."""
    are_steps = isinstance(steps, list) and len(steps) > 0 and all(_is_step(step) for step in steps)
    if not are_steps or len({name for name, _ in steps}) < len(steps):
        raise ModelContentError(
            f"the steps of a Pipeline must be a list of (name, estimator) with unique names; got {steps!r:.80}"
        )
    n_previous: int | None = None
    for i, (name, step) in enumerate(steps):
        if step is None or step == "passthrough":
            continue
        if i < len(steps) - 1 and not hasattr(step, "transform"):
            raise ModelContentError(f"step {name!r} must have a transform method; got {type(step).__name__}")
        n_inputs = getattr(step, "n_features_in_", None)
        if n_previous is not None and n_inputs is not None and n_inputs != n_previous:
            raise ModelContentError(
                f"step {name!r} takes {n_inputs} features, but the previous step returns {n_previous}"
            )
        n_previous = _n_outputs(step, n_inputs)


def _n_outputs(step: Any, n_inputs: int | None) -> int | None:
    """Return the number of output features of a step; None if unknown."""
    if hasattr(step, "spec_"):
        return int(step.spec_.n_features)
    return n_inputs if type(step).__name__ == "StandardScaler" else None


def _is_step(step: Any) -> bool:
    return (
        isinstance(step, tuple)
        and len(step) == 2
        and type(step[0]) is str
        and (isinstance(step[1], BaseEstimator) or step[1] in (None, "passthrough"))
    )


ESTIMATOR_PARAMS = {
    "DensityRegressor": ("embedding",),
    "InvariantFeatures": ("embedding", "features"),
    "NystroemSets": ("divergence",),
    "OnePassSearch": ("estimator",),
    "SetSmoother": ("embedding",),
}


def require_params(name: str, params: dict[str, Any]) -> None:
    """Raise for parameters that must not be estimators or functions."""
    for key, value in params.items():
        is_function = callable(value) and type(value) not in REGISTRY.values()  # distances are callable, too
        if is_function != (name == "FunctionEmbedding" and key == "function"):
            raise ModelContentError(f"{name}.{key} is {value!r:.80}, which is invalid")
        if isinstance(value, BaseEstimator) and key not in ESTIMATOR_PARAMS.get(name, ()):
            raise ModelContentError(f"{name}.{key} must not be an estimator; got {type(value).__name__}")
    if name == "Pipeline":
        require_steps(params.get("steps"))
    require_no_paths(name, params)


def require_no_paths(name: str, params: dict[str, Any]) -> None:
    """Raise for a parameter grid with parameters that may be paths, which fitting would read and write."""
    grid = params.get("param_grid", ())
    for key in {key for candidates in ([grid] if isinstance(grid, dict) else grid) for key in candidates}:
        if str(key).rpartition("__")[2] in UNSAVED_PARAMETERS:
            raise ModelContentError(
                f"{name}.param_grid has {key!r:.80}, which may be a path and is not saved. Remove it from the grid"
            )
