"""Conversion of fitted estimators to JSON and arrays, and back: plain numbers, strings and records, never code.

Numbers, strings, booleans and None are stored directly; other values are objects whose first key is a tag:

    {"estimator": name, "params": {...}, "fitted": {...}}   {"record": name, "fields": {...}}   {"array": key}
    {"record": name, "items": [...]}   {"dict": [[key, value], ...]}   {"masked": {"data": ..., "mask": ...}}   ...

Classes are named; only public estimators and registered records are stored and created. The function of a
`FunctionEmbedding` is named too, and the caller of `load_model` passes it. Names in a file are never imported.

A small file can declare arbitrary sizes, so the cost of loaded parameters is checked before they are materialized. They
are then tested on one point; the materialized parameters are cached for the first call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import dkdist
from dkdist._utils.memory_budget import require_memory
from dkdist._utils.serialization import REGISTRY, field_names, registered_name
from dkdist.distances.distance_embedding_params import DistanceSpec, Landmarks
from dkdist.embeddings.function import FunctionParams, NamedFunction
from dkdist.embeddings.set_pca import SetMapSpec
from dkdist.embeddings.structure import FeatureUnionParams
from dkdist.kernels.mean_embedding_params import RandomMeanSpec
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.kernels.registry import MAX_SOBOL_DIMS
from dkdist.models.model_kinds import (
    MAX_COUNT,
    UNSAVED_PARAMETERS,
    ModelContentError,
    require_fitted_attributes,
    require_no_paths,
    require_params,
    require_record,
)
from dkdist.sets import SampleSets

# Maximum number of random numbers drawn while loading a model, about 1 s: for 100,000 dense features of 670 columns, or
# for 4 million columns of an embedding (tests/files/test_hostile_models.py)
MAX_MATERIALIZED_NUMBERS = 2**26
BYTES_PER_NUMBER = 12  # float64 during generation and the float32 result; tests/files/test_hostile_models.py


def require_materializable(name: str, spec: Any) -> None:
    """Raise for parameters that take too long to materialize; MemoryError if they do not fit in memory."""
    n_numbers = sum(_n_materialized_numbers(part) for part in _parts(spec))
    if n_numbers > MAX_MATERIALIZED_NUMBERS:
        raise ModelContentError(
            f"{name} must draw at most {MAX_MATERIALIZED_NUMBERS:.3g} numbers; got {n_numbers:.3g}. Use fewer "
            "features, or random Fourier features with method='structured'"
        )
    require_memory(BYTES_PER_NUMBER * n_numbers, f"{type(spec).__name__} needs", "use fewer features")


def _parts(spec: Any) -> Iterator[Any]:
    """Iterate over the innermost parameters of nested parameters."""
    inner = [getattr(spec, name, None) for name in ("embedding", "features", "landmarks")]
    inner += [part.spec for part in spec.parts] if isinstance(spec, FeatureUnionParams) else []
    inner = [part for part in inner if hasattr(part, "n_features")]
    if not inner:
        yield spec
    for part in inner:
        yield from _parts(part)


def _n_materialized_numbers(spec: Any) -> int:
    """Return the cost of materialization in random numbers of 10 ns; those that take longer count up to 16 times."""
    if isinstance(spec, FourierSpec):
        n_inputs, n = int(spec.n_inputs), int(spec.n_components)
        if spec.method == "structured":
            return max(n_inputs, n)
        slower = 4 if n_inputs <= MAX_SOBOL_DIMS else 1
        return n * n_inputs * max(slower, n_inputs // 1024 if spec.method == "orthogonal" else 1)
    if isinstance(spec, RandomMeanSpec):
        return 16 * int(spec.n_components) * spec.n_dims
    n_basis = int(getattr(spec, "n_basis", 1))
    cost = max(n_basis**2, 16 * int(getattr(spec, "n_nodes", 1)))
    if cost > MAX_MATERIALIZED_NUMBERS:  # computing ``n_features`` may be slow for these parameters
        return cost
    return max(cost, 16 * int(spec.n_features))


def require_working(name: str, spec: Any) -> None:
    """Raise for parameters that cannot be materialized, or whose row of a test point is invalid."""
    try:
        require_materializable(name, spec)
        n = int(spec.n_features)
        if not 0 < n <= MAX_COUNT:
            raise ModelContentError(f"its rows must have 1 to {MAX_COUNT} features; got {n}")
        row = _test_row(spec)
        if row is not None and not (row.shape == (1, n) and np.isfinite(row).all()):
            raise ModelContentError(f"its row of a test point must have {n} finite values")
    except MemoryError:
        raise
    except Exception as error:  # inconsistent parameters can raise many types of errors
        raise ModelContentError(
            f"{name}.spec_ is invalid ({type(error).__name__}: {error!s:.200})"
        ) from error


def _test_row(spec: Any) -> Any:
    """Return the row (1, n_features) of the centre of the domain; None if the type of points is unknown."""
    if isinstance(spec, SetMapSpec):
        return spec.apply(_one_point(np.zeros(spec.n_dims))).relative
    parameters = spec.materialize()
    if isinstance(spec, FourierSpec):
        return parameters.transform(np.zeros((1, spec.n_inputs), np.float32))
    if isinstance(_innermost(spec), (DistanceSpec, FunctionParams, Landmarks)):
        return None
    low, high = spec.domain.arrays if spec.domain is not None else np.zeros((2, spec.n_dims), np.float32)
    return parameters.embed(_one_point(low / 2 + high / 2))


def _innermost(spec: Any) -> Any:
    """Return the innermost embedding, or the landmarks, of nested parameters."""
    while hasattr(spec, "embedding") or hasattr(spec, "landmarks"):
        spec = spec.embedding if hasattr(spec, "embedding") else spec.landmarks
    return spec


def _one_point(point: Any) -> SampleSets:
    return SampleSets(point.astype(np.float32)[None], np.array([0, 1]))


Arrays = dict[str, NDArray[Any]]

PUBLIC = frozenset(dir(dkdist))
FOREIGN = {"Pipeline": Pipeline, "StandardScaler": StandardScaler}
FUNCTIONS: ContextVar[Mapping[str, Callable[..., Any]]] = ContextVar("functions")
"""Functions passed to `load_model`, by name."""


@contextmanager
def passed_functions(
    functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
) -> Iterator[None]:
    """Allow files to name these functions within the context."""
    by_name = functions if isinstance(functions, Mapping) else {NamedFunction(f).name: f for f in functions}
    invalid = [f for name, f in by_name.items() if not callable(f) or not name]
    if invalid:
        raise ValueError(
            f"functions must be importable functions, or a mapping from names to functions; got {invalid[0]!r}"
        )
    token = FUNCTIONS.set(by_name)
    try:
        yield
    finally:
        FUNCTIONS.reset(token)


def require_known(kind: type, where: str) -> None:
    """Raise for an estimator that is not public or from another library."""
    name = kind.__name__
    if estimator_named(name) is not kind:
        supported = sorted(name for name in (*PUBLIC, *FOREIGN) if estimator_named(name))
        raise ValueError(
            f"{where} is a {kind.__module__}.{name}, which a model file cannot hold. Supported are "
            f"{', '.join(supported)}"
        )


def estimator_named(name: str) -> Any:
    """Return the estimator class with a public name, importing it if necessary; None for other names."""
    kind: Any = FOREIGN.get(name) or (getattr(dkdist, name) if name in PUBLIC else None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseEstimator) else None


def record_named(name: str) -> Any:
    """Return the record class registered under ``name``, or None."""
    if name in PUBLIC:
        getattr(dkdist, name)  # importing the class registers it
    return REGISTRY.get(name)


def require_fitted(model: Any) -> None:
    """Raise NotFittedError unless the model, or every step of a pipeline, is fitted."""
    if isinstance(model, Pipeline):
        for _, step in model.steps:
            require_fitted(step)
    elif isinstance(model, BaseEstimator):
        check_is_fitted(model)


@singledispatch
def describe(value: Any, where: str, arrays: Arrays) -> Any:
    """Convert a value to JSON; its arrays are added to ``arrays``, and ``where`` names it in messages."""
    if not _is_registered(value):
        raise ValueError(
            f"{where} is {value!r}, which a model file cannot hold: it stores numbers, strings, arrays and objects of "
            "dkdist, never code; a registered distance is code too. Use a value of dkdist and fit again, or pickle the "
            "model for users who trust you"
        )
    return _describe_record(value, where, arrays)


def _is_registered(value: Any) -> bool:
    return type(value) in REGISTRY.values()


def _describe_record(value: Any, where: str, arrays: Arrays) -> dict[str, Any]:
    name = registered_name(type(value))
    if isinstance(value, list):
        return {"record": name, "items": _describe_items(value, where, arrays)}
    fields = {field: getattr(value, field) for field in field_names(value)}
    fields |= value.saved_params() if hasattr(value, "saved_params") else {}
    return {"record": name, "fields": _describe_named(fields, where, arrays)}


@describe.register(bool)
@describe.register(int)
@describe.register(float)
@describe.register(str)
@describe.register(type(None))
def _(value: Any, where: str, arrays: Arrays) -> Any:
    return value


@describe.register
def _(value: os.PathLike, where: str, arrays: Arrays) -> Any:  # type: ignore[type-arg]
    return os.fspath(value)


@describe.register
def _(value: BaseEstimator, where: str, arrays: Arrays) -> Any:
    name = type(value).__name__
    require_known(type(value), where)
    params = value.get_params(deep=False)
    params |= value.saved_params() if hasattr(value, "saved_params") else {}
    params |= {key: value for key, value in UNSAVED_PARAMETERS.items() if key in params}
    require_no_paths(name, params)
    not_fitted = {*params, *getattr(value, "not_saved", ())}
    fitted = {key: item for key, item in vars(value).items() if key not in not_fitted}
    if "spec_" in fitted:
        require_materializable(name, fitted["spec_"])
    return {
        "estimator": name,
        "params": _describe_named(params, name, arrays),
        "fitted": _describe_named(fitted, name, arrays),
    }


@describe.register
def _(value: NamedFunction, where: str, arrays: Arrays) -> Any:
    if not value.name:
        raise ValueError(
            f"{where} is {value.function!r}, which a model file cannot hold: it stores names of importable functions, "
            "never code. Define the function with def at the top level of a module and fit again, or pickle the model "
            "with cloudpickle for users who trust you"
        )
    return {"function": value.name}


@describe.register
def _(value: SampleSets, where: str, arrays: Arrays) -> Any:
    parts: dict[str, Any] = {
        "points": value.relative, "offsets": value.offsets, "weights": value.weights,
        "alphabet": value.alphabet, "origin": value.origin,
    }  # fmt: skip
    if value.names is not None:
        parts["names"] = tuple(value.names)
    return {"sets": _describe_named(parts, where, arrays)}


@describe.register
def _(value: np.ma.MaskedArray, where: str, arrays: Arrays) -> Any:
    parts = {"data": value.filled(None).tolist(), "mask": np.ma.getmaskarray(value)}
    return {"masked": _describe_named(parts, where, arrays)}


@describe.register
def _(value: np.ma.core.MaskedConstant, where: str, arrays: Arrays) -> Any:
    # always raises, because there is no value to store
    return describe.dispatch(object)(value, where, arrays)


@describe.register
def _(value: np.ndarray, where: str, arrays: Arrays) -> Any:
    if value.dtype != object:
        # keep the memory order of axes, which determines the order of BLAS sums
        return {"array": _add_array(value if value.flags.forc else value.copy(order="K"), arrays)}
    has_objects = any(type(item) is not str for item in value.flat)
    if has_objects or value.ndim != 1:
        raise ValueError(
            f"{where} must be an array of numbers or a 1-D array of strings; got Python objects, {value!r}"
        )
    return {"strings": value.tolist()}


@describe.register
def _(value: np.generic, where: str, arrays: Arrays) -> Any:
    if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {"number": value.item(), "dtype": value.dtype.str}
    return {"scalar": _add_array(np.asarray(value), arrays)}


@describe.register(tuple)
@describe.register(list)
def _(value: Any, where: str, arrays: Arrays) -> Any:
    if _is_registered(value):
        return _describe_record(value, where, arrays)
    return {"tuple" if isinstance(value, tuple) else "list": _describe_items(value, where, arrays)}


@describe.register
def _(value: dict, where: str, arrays: Arrays) -> Any:  # type: ignore[type-arg]
    pairs = [[describe(k, where, arrays), describe(v, f"{where}[{k!r}]", arrays)] for k, v in value.items()]
    return {"dict": pairs}


def _describe_items(values: Sequence[Any], where: str, arrays: Arrays) -> list[Any]:
    return [describe(item, f"{where}[{i}]", arrays) for i, item in enumerate(values)]


def _add_array(array: NDArray[Any], arrays: Arrays) -> str:
    name = f"array_{len(arrays)}"
    arrays[name] = array
    return name


def _describe_named(values: Mapping[str, Any], where: str, arrays: Arrays) -> dict[str, Any]:
    return {name: describe(value, f"{where}.{name}", arrays) for name, value in values.items()}


def make(described: Any, arrays: Arrays) -> Any:
    """Create the value that `describe` converted to JSON."""
    if not isinstance(described, dict):
        if isinstance(described, list):
            raise ModelContentError("a value must be an object with a tag; got a list")
        return described
    tag = next(iter(described), "nothing")
    if tag not in _MAKE:
        raise ModelContentError(f"{tag!r:.80} is not a tag of model files")
    return _MAKE[tag](described, arrays)


def _make_estimator(described: dict[str, Any], arrays: Arrays) -> Any:
    name = described["estimator"]
    kind = _class(estimator_named, name)
    params = _make_named(described["params"], arrays)
    params |= {key: value for key, value in UNSAVED_PARAMETERS.items() if key in params}
    fitted = _make_named(described["fitted"], arrays)
    require_params(name, params)
    require_fitted_attributes(kind, fitted)
    if "spec_" in fitted:
        require_working(name, fitted["spec_"])
    output = kind(**params)
    vars(output).update(fitted)
    if fitted and hasattr(output, "check_loaded"):
        output.check_loaded()
    return output


def _make_record(described: dict[str, Any], arrays: Arrays) -> Any:
    kind = _class(record_named, described["record"])
    if issubclass(kind, list):
        output = kind(make(item, arrays) for item in described["items"])
    else:
        output = kind(**_make_named(described["fields"], arrays))
    require_record(output)
    return output


def _make_masked(described: dict[str, Any], arrays: Arrays) -> Any:
    parts = _make_named(described["masked"], arrays)
    data, mask = parts["data"], parts["mask"]
    if not isinstance(data, list) or not isinstance(mask, np.ndarray) or mask.shape != (len(data),):
        raise ModelContentError("a masked array must be a list of values and a mask of equal length")
    output = np.ma.MaskedArray(np.empty(len(data), dtype=object), mask=mask.astype(np.bool_))
    for i in np.flatnonzero(~output.mask):
        output[i] = data[i]
    return output


def _make_number(described: dict[str, Any], arrays: Arrays) -> Any:
    value, dtype = described["number"], np.dtype(described["dtype"])
    if type(value) not in (bool, int, float) or dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ModelContentError(f"a number is {value!r:.80} of dtype {dtype}, which is invalid")
    return dtype.type(value)


def _make_strings(described: dict[str, Any], arrays: Arrays) -> Any:
    strings = described["strings"]
    if not isinstance(strings, list) or any(type(item) is not str for item in strings):
        raise ModelContentError(f"an array of strings must be a list of str; got {strings!r:.80}")
    return np.array(strings, dtype=object)


def _make_function(described: dict[str, Any], arrays: Arrays) -> Any:
    name, functions = described["function"], FUNCTIONS.get({})
    if not isinstance(name, str) or name not in functions:
        raise ModelContentError(
            f"the model calls the function {name!r:.200}, which loading does not import. Import it and pass it: "
            "load_model(path, functions=[function])"
        )
    return functions[name]


def _sets(
    points: Any, offsets: Any, weights: Any, alphabet: Any, origin: Any, names: Any = None
) -> SampleSets:
    # origin 0: points are already relative to it
    checked = SampleSets(points, offsets, weights, alphabet, 0 * origin)
    output = SampleSets._trusted(checked.relative, checked.offsets, checked.weights, alphabet, origin)
    return output if names is None else output.labelled(names=names)


def _make_named(described: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    return {name: make(value, arrays) for name, value in described.items()}


def _class(find: Callable[[str], Any], name: Any) -> Any:
    kind = find(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(
            f"the file names the class {name!r:.80}, which this version of dkdist cannot load. Use the version that "
            "saved it"
        )
    return kind


_MAKE: dict[str, Callable[[dict[str, Any], Arrays], Any]] = {
    "estimator": _make_estimator,
    "record": _make_record,
    "array": lambda described, arrays: arrays[described["array"]],
    "scalar": lambda described, arrays: arrays[described["scalar"]][()],
    "number": _make_number,
    "strings": _make_strings,
    "function": _make_function,
    "masked": _make_masked,
    "dict": lambda described, arrays: {make(k, arrays): make(v, arrays) for k, v in described["dict"]},
    "sets": lambda described, arrays: _sets(**_make_named(described["sets"], arrays)),
    "tuple": lambda described, arrays: tuple(make(item, arrays) for item in described["tuple"]),
    "list": lambda described, arrays: [make(item, arrays) for item in described["list"]],
}
