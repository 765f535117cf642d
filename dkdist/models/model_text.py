"""Fitted estimators as JSON and arrays, and back: plain numbers, strings and records of them, never code.

Numbers, strings, booleans and None stand for themselves; all else is an object whose first key is its tag:

    {"estimator": name, "params": {...}, "fitted": {...}}   {"record": name, "fields": {...}}   {"array": key}
    {"record": name, "items": [...]}   {"dict": [[key, value], ...]}   {"masked": {"data": ..., "mask": ...}}   ...

Classes are named, and only public estimators and records that say they are kept are described or made. The function of
a `FunctionEmbedding` is named too: whoever loads the file passes the function. No name in a file leads to an import.

A loaded specification is tried on one point before anybody relies on it.

Its numbers may each be of their kind and still describe nothing that can be drawn, or so much that drawing takes
minutes or all memory: a file of 1 kB names any sizes. So sizes are bounded before anything is drawn. What is drawn here
is remembered, and used by the first call after.
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
from dkdist.distances.distance_embedding_params import DistanceSpec
from dkdist.embeddings.function import FunctionParams, NamedFunction
from dkdist.embeddings.set_pca import ComponentsSpec
from dkdist.embeddings.set_scaler import ScalerSpec
from dkdist.embeddings.structure import FeatureUnionParams
from dkdist.kernels.mean_embedding_params import RandomMeanSpec
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.kernels.registry import MAX_SOBOL_DIMS
from dkdist.models.model_kinds import (
    MAX_COUNT,
    UNSAVED_PARAMETERS,
    ModelContentError,
    require_fitted_attributes,
    require_no_places,
    require_params,
    require_record,
)
from dkdist.sets import SampleSets

# Loading draws at most 100,000 dense features of 670 columns, or 4 million columns of an embedding, about 1 s
# (tests/files/test_hostile_models.py)
MAX_MATERIALIZED_NUMBERS = 2**26
BYTES_PER_NUMBER = 12  # float64 while it is drawn, then float32; tests/files/test_hostile_models.py


def require_drawable(name: str, spec: Any) -> None:
    """Refuse a specification whose parameters take minutes to draw; MemoryError for those that do not fit."""
    n_numbers = sum(_drawn_numbers(part) for part in _parts(spec))
    if n_numbers > MAX_MATERIALIZED_NUMBERS:
        raise ModelContentError(
            f"{name} has {n_numbers:.3g} numbers to draw, expected at most {MAX_MATERIALIZED_NUMBERS:.3g}: use fewer "
            "features, or random Fourier features with method='structured'"
        )
    require_memory(BYTES_PER_NUMBER * n_numbers, f"{type(spec).__name__} needs", "use fewer features")


def _parts(spec: Any) -> Iterator[Any]:
    """The specifications within a specification, or itself."""
    inner = [getattr(spec, "embedding", None), getattr(spec, "features", None)]
    inner += [part.spec for part in spec.parts] if isinstance(spec, FeatureUnionParams) else []
    inner = [part for part in inner if hasattr(part, "n_features")]
    if not inner:
        yield spec
    for part in inner:
        yield from _parts(part)


def _drawn_numbers(spec: Any) -> int:
    """Numbers to draw, or to compute, each of which takes about 10 ns; 16 times as many where each takes longer."""
    if isinstance(spec, FourierSpec):
        n_inputs, n = int(spec.n_inputs), int(spec.n_components)
        if spec.method == "structured":
            return max(n_inputs, n)
        slower = 4 if n_inputs <= MAX_SOBOL_DIMS else 1
        return n * n_inputs * max(slower, n_inputs // 1024 if spec.method == "orthogonal" else 1)
    if isinstance(spec, RandomMeanSpec):
        return 16 * int(spec.n_components) * spec.n_dims
    n_basis = int(getattr(spec, "n_basis", 1))
    least = max(n_basis**2, 16 * int(getattr(spec, "n_nodes", 1)))
    return (
        least if least > MAX_MATERIALIZED_NUMBERS else max(least, 16 * int(spec.n_features))
    )  # which may take long itself


def require_working(name: str, spec: Any) -> None:
    """Refuse a specification from which nothing can be drawn, or whose row of a point is not finite."""
    try:
        require_drawable(name, spec)
        n = int(spec.n_features)
        if not 0 < n <= MAX_COUNT:
            raise ModelContentError(f"its rows have {n} features, expected 1 to {MAX_COUNT}")
        row = _row_of_a_point(spec)
        if row is not None and not (row.shape == (1, n) and np.isfinite(row).all()):
            raise ModelContentError("its row of a point is not finite, or not as long as it says")
    except MemoryError:
        raise
    except Exception as error:  # numbers that do not fit each other fail in a dozen ways
        raise ModelContentError(
            f"nothing can be made from {name}.spec_ ({type(error).__name__}: {error!s:.200})"
        ) from error


def _row_of_a_point(spec: Any) -> Any:
    """The row (1, n_features) of a point in the middle; None where the kind of points is not known."""
    if isinstance(spec, (ScalerSpec, ComponentsSpec)):
        return spec.apply(_one_point(np.zeros(spec.n_dims))).relative
    parameters = spec.materialize()
    if isinstance(spec, FourierSpec):
        return parameters.transform(np.zeros((1, spec.n_inputs), np.float32))
    if isinstance(_innermost(spec), (DistanceSpec, FunctionParams)):
        return None
    low, high = spec.domain.arrays if spec.domain is not None else np.zeros((2, spec.n_dims), np.float32)
    return parameters.embed(_one_point(low / 2 + high / 2))


def _innermost(spec: Any) -> Any:
    """The embedding within others that change its rows or its sets."""
    while hasattr(spec, "embedding"):
        spec = spec.embedding
    return spec


def _one_point(point: Any) -> SampleSets:
    return SampleSets(point.astype(np.float32)[None], np.array([0, 1]))


Arrays = dict[str, NDArray[Any]]

PUBLIC = frozenset(dir(dkdist))
FOREIGN = {"Pipeline": Pipeline, "StandardScaler": StandardScaler}
FUNCTIONS: ContextVar[Mapping[str, Callable[..., Any]]] = ContextVar("functions")
"""By name: the functions that the caller of `load_model` passed."""


@contextmanager
def passed_functions(
    functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
) -> Iterator[None]:
    """Let files name these functions, and no others, within the context."""
    named = functions if isinstance(functions, Mapping) else {NamedFunction(f).name: f for f in functions}
    wrong = [f for name, f in named.items() if not callable(f) or not name]
    if wrong:
        raise ValueError(
            f"functions must be importable functions, or a mapping from names to functions; got {wrong[0]!r}"
        )
    token = FUNCTIONS.set(named)
    try:
        yield
    finally:
        FUNCTIONS.reset(token)


def require_known(kind: type, where: str) -> None:
    """Refuse an estimator that model files do not hold: another library's, or one that is no public name."""
    name = kind.__name__
    if estimator_named(name) is not kind:
        known = sorted(name for name in (*PUBLIC, *FOREIGN) if estimator_named(name))
        raise ValueError(
            f"{where} is a {kind.__module__}.{name}, which a model file cannot hold: it knows {', '.join(known)}"
        )


def estimator_named(name: str) -> Any:
    """The estimator of a public name, imported if it was not; None if there is none that a model file may hold."""
    kind: Any = FOREIGN.get(name) or (getattr(dkdist, name) if name in PUBLIC else None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseEstimator) else None


def record_named(name: str) -> Any:
    """The record of a name: of a module that was imported with its estimator, or a public one; None for others."""
    if name in PUBLIC:
        getattr(dkdist, name)  # imports it
    return REGISTRY.get(name)


def require_fitted(model: Any) -> None:
    """Raise NotFittedError unless the model, or every step of a pipeline, was fitted."""
    if isinstance(model, Pipeline):
        for _, step in model.steps:
            require_fitted(step)
    elif isinstance(model, BaseEstimator):
        check_is_fitted(model)


@singledispatch
def describe(value: Any, where: str, arrays: Arrays) -> Any:
    """The JSON value that stands for ``value``; its arrays go to ``arrays``, ``where`` goes into messages."""
    if not _is_kept(value):
        raise ValueError(
            f"{where} is {value!r}, which a model file cannot hold: it keeps numbers, strings and arrays, "
            "never code. Give a named or numeric value there and fit again, or pickle the model for those "
            "who trust you"
        )
    return _describe_record(value, where, arrays)


def _is_kept(value: Any) -> bool:
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
    require_no_places(name, params)
    left_out = {*params, *getattr(value, "not_saved", ())}
    fitted = {key: item for key, item in vars(value).items() if key not in left_out}
    if "spec_" in fitted:
        require_drawable(name, fitted["spec_"])
    return {
        "estimator": name,
        "params": _describe_named(params, name, arrays),
        "fitted": _describe_named(fitted, name, arrays),
    }


@describe.register
def _(value: NamedFunction, where: str, arrays: Arrays) -> Any:
    if not value.name:
        raise ValueError(
            f"{where} is {value.function!r}, which a model file cannot hold: it keeps names of importable functions, "
            "never code. Define the function with def at the top level of a module and fit again, or pickle the model "
            "with cloudpickle for those who trust you"
        )
    return {"function": value.name}


@describe.register
def _(value: SampleSets, where: str, arrays: Arrays) -> Any:
    arrays_of = {"points": value.relative, "offsets": value.offsets, "weights": value.weights}
    parts: dict[str, Any] = {**arrays_of, "alphabet": value.alphabet, "origin": value.origin}
    if value.names is not None:
        parts["names"] = tuple(value.names)
    return {"sets": _describe_named(parts, where, arrays)}


@describe.register
def _(value: np.ma.MaskedArray, where: str, arrays: Arrays) -> Any:
    parts = {"data": value.filled(None).tolist(), "mask": np.ma.getmaskarray(value)}
    return {"masked": _describe_named(parts, where, arrays)}


@describe.register
def _(value: np.ma.core.MaskedConstant, where: str, arrays: Arrays) -> Any:
    return describe.dispatch(object)(value, where, arrays)  # refused: it is no array that could be filled


@describe.register
def _(value: np.ndarray, where: str, arrays: Arrays) -> Any:
    if value.dtype != object:
        # BLAS sums in another order where the order of axes in memory differs
        return {"array": _keep(value if value.flags.forc else value.copy(order="K"), arrays)}
    odd = [item for item in value.flat if type(item) is not str]
    if odd or value.ndim != 1:
        raise ValueError(
            f"{where} is an array of Python objects, {value!r}: a model file keeps numbers and strings"
        )
    return {"strings": value.tolist()}


@describe.register
def _(value: np.generic, where: str, arrays: Arrays) -> Any:
    if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {"number": value.item(), "dtype": value.dtype.str}
    return {"scalar": _keep(np.asarray(value), arrays)}


@describe.register(tuple)
@describe.register(list)
def _(value: Any, where: str, arrays: Arrays) -> Any:
    if _is_kept(value):
        return _describe_record(value, where, arrays)
    return {"tuple" if isinstance(value, tuple) else "list": _describe_items(value, where, arrays)}


@describe.register
def _(value: dict, where: str, arrays: Arrays) -> Any:  # type: ignore[type-arg]
    pairs = [[describe(k, where, arrays), describe(v, f"{where}[{k!r}]", arrays)] for k, v in value.items()]
    return {"dict": pairs}


def _describe_items(values: Sequence[Any], where: str, arrays: Arrays) -> list[Any]:
    return [describe(item, f"{where}[{i}]", arrays) for i, item in enumerate(values)]


def _keep(array: NDArray[Any], arrays: Arrays) -> str:
    name = f"array_{len(arrays)}"
    arrays[name] = array
    return name


def _describe_named(values: Mapping[str, Any], where: str, arrays: Arrays) -> dict[str, Any]:
    return {name: describe(value, f"{where}.{name}", arrays) for name, value in values.items()}


def make(described: Any, arrays: Arrays) -> Any:
    """The value that a JSON value stands for."""
    if not isinstance(described, dict):
        if isinstance(described, list):
            raise ModelContentError("a bare list stands for nothing in a model file")
        return described
    tag = next(iter(described), "nothing")
    if tag not in _MAKE:
        raise ModelContentError(f"{tag!r:.80} stands for nothing in a model file")
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
        raise ModelContentError("a masked array is not a list of values and as many marks")
    output = np.ma.MaskedArray(np.empty(len(data), dtype=object), mask=mask.astype(np.bool_))
    for i in np.flatnonzero(~output.mask):
        output[i] = data[i]
    return output


def _make_number(described: dict[str, Any], arrays: Arrays) -> Any:
    value, dtype = described["number"], np.dtype(described["dtype"])
    if type(value) not in (bool, int, float) or dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ModelContentError(f"a number is {value!r:.80} of dtype {dtype}")
    return dtype.type(value)


def _make_strings(described: dict[str, Any], arrays: Arrays) -> Any:
    strings = described["strings"]
    if not isinstance(strings, list) or any(type(item) is not str for item in strings):
        raise ModelContentError(f"an array of strings is {strings!r:.80}")
    return np.array(strings, dtype=object)


def _make_function(described: dict[str, Any], arrays: Arrays) -> Any:
    name, known = described["function"], FUNCTIONS.get({})
    if not isinstance(name, str) or name not in known:
        raise ModelContentError(
            f"the model calls the function {name!r:.200}, which a file never imports. Import it yourself and pass it: "
            "load_model(path, functions=[function])"
        )
    return known[name]


def _sets(
    points: Any, offsets: Any, weights: Any, alphabet: Any, origin: Any, names: Any = None
) -> SampleSets:
    checked = SampleSets(points, offsets, weights, alphabet, 0 * origin)  # points as they are kept
    output = SampleSets._trusted(checked.relative, checked.offsets, checked.weights, alphabet, origin)
    return output if names is None else output.labelled(names=names)


def _make_named(described: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    return {name: make(value, arrays) for name, value in described.items()}


def _class(find: Callable[[str], Any], name: Any) -> Any:
    kind = find(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(
            f"the file names the class {name!r:.80}, which is not one that model files hold: it was made by another "
            "version of dkdist, or not by dkdist"
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
