"""A loaded specification is tried on one point before anybody relies on it.

Its numbers may each be of their kind and still describe nothing that can be drawn, or nothing that fits memory. What is
drawn here is remembered, and used by the first call after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.distances.distance_embedding_spec import DistanceSpec
from dkdist.embeddings.function import FunctionParams
from dkdist.files.model_kinds import MOST_SIZE, KindError
from dkdist.kernel.features.random_fourier_features_spec import FourierSpec
from dkdist.scaling.components_spec import ComponentsSpec
from dkdist.scaling.set_scaler_spec import ScalerSpec
from dkdist.sets import SampleSets


def require_working(name: str, spec: Any) -> None:
    """Refuse a specification from which nothing can be drawn, or whose row of a point is not finite."""
    try:
        n = int(spec.n_features)
        if not 0 < n <= MOST_SIZE:
            raise KindError(f"its rows have {n} features, expected 1 to {MOST_SIZE}")
        row = _row_of_a_point(spec)
        if row is not None and not (row.shape == (1, n) and np.isfinite(row).all()):
            raise KindError("its row of a point is not finite, or not as long as it says")
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
