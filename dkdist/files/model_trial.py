"""A loaded specification is tried on one point before anybody relies on it.

Its numbers may each be of their kind and still describe nothing that can be drawn, or so much that drawing takes
minutes or all memory: a file of 1 kB names any sizes. So sizes are bounded before anything is drawn. What is drawn here
is remembered, and used by the first call after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dkdist._utils.memory_budget import require_memory
from dkdist.densities.structure.side_by_side_spec import SideBySideSpec
from dkdist.distances.distance_embedding_spec import DistanceSpec
from dkdist.embeddings.function import FunctionParams
from dkdist.files.model_kinds import MOST_SIZE, KindError
from dkdist.kernel.features.mean_embedding_spec import RandomMeanSpec
from dkdist.kernel.features.random_fourier_features_spec import FourierSpec
from dkdist.kernel.kinds.kernel_frequencies import SOBOL_DIMS
from dkdist.scaling.components_spec import ComponentsSpec
from dkdist.scaling.set_scaler_spec import ScalerSpec
from dkdist.sets import SampleSets

MAX_DRAWN_NUMBERS = (
    2**26
)  # about 1 s: 100,000 dense features of 670 columns, or 4 million columns of an embedding
DRAWN_BYTES = 12  # float64 while it is drawn, and float32


def require_drawable(name: str, spec: Any) -> None:
    """Refuse a specification whose parameters take minutes to draw; MemoryError for those that do not fit."""
    n_numbers = sum(_drawn_numbers(part) for part in _parts(spec))
    if n_numbers > MAX_DRAWN_NUMBERS:
        raise KindError(
            f"{name} has {n_numbers:.3g} numbers to draw, expected at most {MAX_DRAWN_NUMBERS:.3g}: use fewer "
            "features, or random Fourier features with method='structured'"
        )
    require_memory(DRAWN_BYTES * n_numbers, f"{type(spec).__name__} needs", "use fewer features")


def _parts(spec: Any) -> Iterator[Any]:
    """The specifications within a specification, or itself."""
    inner = [getattr(spec, "embedding", None), getattr(spec, "features", None)]
    inner += [part.spec for part in spec.parts] if isinstance(spec, SideBySideSpec) else []
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
        slower = 4 if n_inputs <= SOBOL_DIMS else 1
        return n * n_inputs * max(slower, n_inputs // 1024 if spec.method == "orthogonal" else 1)
    if isinstance(spec, RandomMeanSpec):
        return 16 * int(spec.n_components) * spec.n_dims
    n_basis = int(getattr(spec, "n_basis", 1))
    least = max(n_basis**2, 16 * int(getattr(spec, "n_nodes", 1)))
    return (
        least if least > MAX_DRAWN_NUMBERS else max(least, 16 * int(spec.n_features))
    )  # which may take long itself


def require_working(name: str, spec: Any) -> None:
    """Refuse a specification from which nothing can be drawn, or whose row of a point is not finite."""
    try:
        require_drawable(name, spec)
        n = int(spec.n_features)
        if not 0 < n <= MOST_SIZE:
            raise KindError(f"its rows have {n} features, expected 1 to {MOST_SIZE}")
        row = _row_of_a_point(spec)
        if row is not None and not (row.shape == (1, n) and np.isfinite(row).all()):
            raise KindError("its row of a point is not finite, or not as long as it says")
    except MemoryError:
        raise
    except Exception as error:  # numbers that do not fit each other fail in a dozen ways
        raise KindError(
            f"nothing can be made from {name}.spec_ ({type(error).__name__}: {error!s:.200})"
        ) from error


def _row_of_a_point(spec: Any) -> Any:
    """The row (1, n_features) of a point in the middle; None where the kind of points is not known."""
    if isinstance(spec, (ScalerSpec, ComponentsSpec)):
        return spec.of_sets(_one_point(np.zeros(spec.n_dims))).relative
    parameters = spec.draw()
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
