"""`FunctionEmbedding`: features of each set computed by a user-defined function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import DataSummary, Sets, SetsLike
from dkdist._base.invalid_sets import Positions, RowError, name_set_errors, run_skipping_invalid, should_skip
from dkdist._base.params import Params
from dkdist._numba.arrays import F32, F64
from dkdist._runtime.process import warn
from dkdist._utils.serialization import serializable
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.origins import find_lossy_column


@dataclass(frozen=True)
class NamedFunction:
    """Function that a model file stores by name, never by its code."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """``module:qualname``, or '' if importing that name does not give this function."""
        module = getattr(self.function, "__module__", None)
        path = getattr(self.function, "__qualname__", "")
        if module not in sys.modules or not path:
            return ""
        target: Any = sys.modules[module]
        for key in path.split("."):
            target = getattr(target, key, None)
        return f"{module}:{path}" if target is self.function else ""


@serializable("FunctionParams")
@dataclass(frozen=True)
class FunctionParams(Params[Any]):
    """Parameters of a function embedding: the function and the length of its vectors."""

    _cache_size = 0  # there is nothing to cache
    ordered = True  # the function may depend on the order of the points

    function: Callable[..., Any]
    n_dims: int
    n_features: int
    domain: None = None

    def __hash__(self) -> int:
        return hash((self.n_dims, self.n_features))  # callables need not be hashable

    def saved_params(self) -> dict[str, Any]:
        """Return the fields that a model file stores in another form."""
        return {"function": NamedFunction(self.function)}

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32; raise `RowError` for a set whose vector is invalid."""
        rows = np.empty((len(sets), self.n_features))
        for i, row in enumerate(_vectors(self.function, sets)):
            if len(row) != rows.shape[1]:
                raise RowError(
                    i,
                    f"has {len(row)} features, but sets had {rows.shape[1]} in fit: the function must return vectors "
                    "of the same length for every set",
                )
            rows[i] = row
        lossy_feature = find_lossy_column([rows], None)
        if lossy_feature is not None:
            warn(
                f"feature {lossy_feature} of the function has many distinct values that float32 rounds to only a few. "
                "Subtract a constant in the function, or rescale the feature."
            )
        return rows.astype(np.float32)


def _vectors(function: Callable[..., Any], sets: SampleSets) -> Iterator[F64]:
    """Yield the vector (m,) that the function returns for each set."""
    items: Iterable[Any] = sets if sets.alphabet is None else sets.strings()
    for i, points in enumerate(items):
        arguments = [points.astype(np.float64) if sets.points_dtype == np.float32 else points]
        if sets.weights is not None:
            arguments.append(sets.weights[sets.offsets[i] : sets.offsets[i + 1]].ravel().astype(np.float64))
        try:
            vector = np.atleast_1d(np.asarray(function(*arguments), np.float64))
        except Exception as error:
            raise RowError(
                i, f"has no features: the function raised {type(error).__name__}: {error}"
            ) from error
        if vector.ndim != 1 or len(vector) == 0:
            raise RowError(
                i, f"has features of shape {vector.shape}: the function must return a vector or a number"
            )
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(vector.astype(np.float32))
        if not is_finite.all():
            j = int(np.argmin(is_finite))
            raise RowError(i, f"has {vector[j]} as feature {j}: features must be finite float32 numbers")
        yield vector


class FunctionEmbedding(SetEmbedding):
    """Embed sets with a user-defined function, called once for each set.

    Parameters
    ----------
    function : callable
        ``function(points)`` returns a number or a vector (m,) of real numbers, of the same length m for every set.
        ``points`` is a read-only (n_i, d) array: float64 coordinates, integer codes, or a ``str`` for a string of
        characters. If the sets have weights, the call is ``function(points, weights)`` with weights (n_i,) float64.
        The function must depend on its arguments only. Several threads may call it at the same time.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of sets that cannot be embedded. "raise" raises an error that names the first one. "skip" gives them
        a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : FunctionParams
        The function, the dimension d and the length m.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    TypeError
        If ``function`` is not callable.
    SampleSetError
        If the function raises, returns a value that is not finite in float32, or returns a vector of
        another shape (the message names the set). Also for invalid sets, as in `MomentEmbedding`.

    Notes
    -----
    Rows are float32; a warning names a feature whose differences are lost in float32, such as a mean of times in
    seconds since 1970. `LazySets` give a lazy dask array with known chunks, other collections an ndarray. On a Dask
    cluster the function is pickled by cloudpickle, which also handles lambdas. `fit` checks every set in one pass and
    calls the function for one set, to learn m. The cost is one Python call for each set.

    `save_model` stores the name ``module:qualname`` of the function. `load_model` needs the function itself, as
    ``load_model(path, functions=[function])``. Lambdas and local functions have no such name and cannot be saved.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> sets = [[[1.0, 2.0], [3.0, 8.0]], [[5.0, 4.0]]]
    >>> dk.FunctionEmbedding(lambda points: points.max(axis=0)).fit_transform(sets)
    array([[3., 8.],
           [5., 4.]], dtype=float32)
    >>> dk.FunctionEmbedding(len).fit_transform(["Eve", "Alice"])
    array([[3.],
           [5.]], dtype=float32)
    """

    _label = "function_embedding"
    _accepts_strings = True

    def __init__(self, function: Callable[..., Any], on_error: str = "raise") -> None:
        self.function = function
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> FunctionEmbedding:
        """Check the sets X and learn the length of the vectors; ``y`` is not used."""
        if not callable(self.function):
            raise TypeError(f"function must be a function of the points of one set; got {self.function!r}")
        return super().fit(X)

    def _fit(self, sets: Sets, summary: DataSummary) -> FunctionParams:
        usable = np.setdiff1d(np.arange(len(sets)), summary.bad)
        return FunctionParams(self.function, sets.n_dims, self._vector_length(sets, usable))

    def saved_params(self) -> dict[str, Any]:
        """Return the parameters that a model file stores in another form."""
        return {"function": NamedFunction(self.function)}

    def _vector_length(self, sets: Sets, usable: Positions) -> int:
        reason = ""
        for i in usable:
            result = run_skipping_invalid(
                partial(_length, self.function), sets[i : i + 1], [int(i)], 0, skip=should_skip(self)
            )
            if not result.bad:
                return result.results[0]
            reason = reason or result.reason
        raise SampleSetError(f"none of the {len(sets)} sets can be embedded. First error: {reason}")


def _length(function: Callable[..., Any], one: SampleSets, first: int) -> int:
    with name_set_errors([first]):
        return len(next(_vectors(function, one)))
