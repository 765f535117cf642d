"""Fitted estimators as JSON and arrays, and back: plain numbers, strings and records of them, never code.

Numbers, strings, booleans and None stand for themselves; all else is an object whose first key is its tag:

    {"estimator": name, "params": {...}, "fitted": {...}}   {"record": name, "fields": {...}}   {"array": key}

Classes are named, and only those listed here are described or made.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dkdist.estimators._model_kinds import (
    PLACES,
    KindError,
    require_fitted_kinds,
    require_params,
    require_record,
)
from dkdist.estimators._model_trial import require_working

Arrays = dict[str, NDArray[Any]]

ESTIMATORS = {
    "CoresetThinning": "dkdist.estimators.thinning",
    "NearestSets": "dkdist.estimators.nearest",
    "DistanceEmbedding": "dkdist.estimators.distance",
    "DivergenceEmbedding": "dkdist.estimators.divergence",
    "HistogramEmbedding": "dkdist.estimators.histogram",
    "L2Embedding": "dkdist.estimators.l2",
    "MomentEmbedding": "dkdist.estimators.moments",
    "MeanEmbedding": "dkdist.estimators.mean",
    "InvariantFeatures": "dkdist.estimators.invariant",
    "PseudoEuclideanEmbedding": "dkdist.estimators.pseudo_euclidean",
    "RandomFourierFeatures": "dkdist.estimators.fourier",
    "IncrementalRidge": "dkdist.estimators.ridge",
    "IncrementalRidgeClassifier": "dkdist.estimators.ridge",
    "IncrementalSGDClassifier": "dkdist.estimators.sgd",
    "IncrementalSGDRegressor": "dkdist.estimators.sgd",
    "Pipeline": "sklearn.pipeline",
    "StandardScaler": "sklearn.preprocessing",
}
RECORDS = {
    "Chamfer": "dkdist.numerics.distances.hausdorff",
    "DirectedModifiedHausdorff": "dkdist.numerics.distances.hausdorff",
    "DistanceSpec": "dkdist.parameters.distance",
    "DynamicTimeWarping": "dkdist.numerics.distances.dtw",
    "Energy": "dkdist.numerics.distances.energy",
    "Hausdorff": "dkdist.numerics.distances.hausdorff",
    "Levenshtein": "dkdist.numerics.distances.levenshtein",
    "ModifiedHausdorff": "dkdist.numerics.distances.hausdorff",
    "Omegas": "dkdist.parameters.distance",
    "SlicedWasserstein": "dkdist.numerics.distances.sliced",
    "Wasserstein": "dkdist.numerics.distances.wasserstein",
    "DivergenceSpec": "dkdist.parameters.divergence",
    "Domain": "dkdist.parameters.domain",
    "InvariantSpec": "dkdist.parameters.invariant",
    "FourierSpec": "dkdist.parameters.fourier",
    "HistogramSpec": "dkdist.parameters.histogram",
    "L2Spec": "dkdist.parameters.l2",
    "MomentSpec": "dkdist.parameters.moments",
    "GridMeanSpec": "dkdist.parameters.mean",
    "Objective": "dkdist.learners.sgd",
    "RandomMeanSpec": "dkdist.parameters.mean",
    "State": "dkdist.learners.sgd",
    "UniformNodesSpec": "dkdist.parameters.uniform_nodes",
}


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
    name = type(value).__name__
    if RECORDS.get(name) != type(value).__module__:
        raise ValueError(
            f"{where} is {value!r}, which a model file cannot hold: it keeps numbers, strings and arrays, "
            "never code. Give a named or numeric value there and fit again, or pickle the model for those "
            "who trust you"
        )
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
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
    name, module = type(value).__name__, type(value).__module__
    if name not in ESTIMATORS or ESTIMATORS[name] not in (module, module.rpartition(".")[0]):
        raise ValueError(
            f"{where} is a {module}.{name}, which a model file cannot hold: "
            f"it knows {', '.join(sorted(ESTIMATORS))}"
        )
    params = value.get_params(deep=False)
    params |= {key: None for key in PLACES if key in params}
    fitted = {key: item for key, item in vars(value).items() if key not in params}
    return {
        "estimator": name,
        "params": _describe_named(params, name, arrays),
        "fitted": _describe_named(fitted, name, arrays),
    }


@describe.register
def _(value: np.ndarray, where: str, arrays: Arrays) -> Any:
    if value.dtype != object:
        return {"array": _keep(np.asarray(value, order="C"), arrays)}
    odd = [item for item in value.flat if type(item) is not str]
    if odd or value.ndim != 1:
        raise ValueError(
            f"{where} is an array of Python objects, {value!r}: a model file keeps numbers and strings"
        )
    return {"strings": value.tolist()}


@describe.register
def _(value: np.generic, where: str, arrays: Arrays) -> Any:
    return {"scalar": _keep(np.asarray(value), arrays)}


@describe.register
def _(value: tuple, where: str, arrays: Arrays) -> Any:  # type: ignore[type-arg]
    return {"tuple": [describe(item, f"{where}[{i}]", arrays) for i, item in enumerate(value)]}


@describe.register
def _(value: list, where: str, arrays: Arrays) -> Any:  # type: ignore[type-arg]
    return {"list": [describe(item, f"{where}[{i}]", arrays) for i, item in enumerate(value)]}


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
            raise KindError("a bare list stands for nothing in a model file")
        return described
    tag = next(iter(described), "nothing")
    if tag not in _MAKE:
        raise KindError(f"{tag!r:.80} stands for nothing in a model file")
    return _MAKE[tag](described, arrays)


def _make_estimator(described: dict[str, Any], arrays: Arrays) -> Any:
    name = described["estimator"]
    kind = _class(ESTIMATORS, name)
    params = _make_named(described["params"], arrays)
    params |= {key: None for key in PLACES if key in params}
    fitted = _make_named(described["fitted"], arrays)
    require_params(name, params)
    require_fitted_kinds(name, fitted)
    if "spec_" in fitted:
        require_working(name, fitted["spec_"])
    made = kind(**params)
    vars(made).update(fitted)
    return made


def _make_record(described: dict[str, Any], arrays: Arrays) -> Any:
    made = _class(RECORDS, described["record"])(**_make_named(described["fields"], arrays))
    require_record(made)
    return made


def _make_strings(described: dict[str, Any], arrays: Arrays) -> Any:
    strings = described["strings"]
    if not isinstance(strings, list) or any(type(item) is not str for item in strings):
        raise KindError(f"an array of strings is {strings!r:.80}")
    return np.array(strings, dtype=object)


def _make_named(described: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    return {name: make(value, arrays) for name, value in described.items()}


def _class(known: dict[str, str], name: str) -> Any:
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"the file names the class {name!r}, which is not one of {', '.join(sorted(known))}: "
            "it was made by another version of dkdist, or not by dkdist"
        )
    return getattr(importlib.import_module(known[name]), name)


_MAKE: dict[str, Callable[[dict[str, Any], Arrays], Any]] = {
    "estimator": _make_estimator,
    "record": _make_record,
    "array": lambda described, arrays: arrays[described["array"]],
    "scalar": lambda described, arrays: arrays[described["scalar"]][()],
    "strings": _make_strings,
    "tuple": lambda described, arrays: tuple(make(item, arrays) for item in described["tuple"]),
    "list": lambda described, arrays: [make(item, arrays) for item in described["list"]],
}
