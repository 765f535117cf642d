"""Sets in, rows out: lazily for a store, at once for a collection in memory; one block function for both."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._inputs import Sets, block_views, outside_error
from dkdist.execution.arrays import cut, drawn, fill_in_memory, lazy_from_views
from dkdist.parameters.divergence import DivergenceParameters, DivergenceSpec
from dkdist.sets import SampleSets, require_nonnegative_weights
from dkdist.store import SetStore


def transform_sets(spec: DivergenceSpec, sets: Sets, label: str) -> Any:
    """(n_sets, m) float32 rows: a dask array for a store, an ndarray for sets in memory."""
    row_bytes = 4 * spec.n_features
    if isinstance(sets, SetStore):
        views, bounds, read_bytes = block_views(sets, row_bytes)
        return lazy_from_views(_embed_view, spec, views, bounds, label, read_bytes)
    parameters = drawn(spec)
    require_nonnegative_weights(sets)
    _check_domain(parameters, sets, 0)
    out = np.empty((len(sets), spec.n_features), np.float32)

    def fill(rows: slice) -> None:
        out[rows] = parameters.embed(sets[rows])

    fill_in_memory(fill, cut(sets.sizes, 4 * sets.n_dims, row_bytes))
    return out


def _embed_view(parameters: DivergenceParameters, view: SetStore, first: int) -> NDArray[np.float32]:
    sets = view.load()
    require_nonnegative_weights(sets)
    _check_domain(parameters, sets, first)
    return parameters.embed(sets)


def _check_domain(parameters: DivergenceParameters, sets: SampleSets, first: int) -> None:
    outside = parameters.outside(sets)
    n = int(outside.sum())
    if n == 0:
        return
    if parameters.spec.domain.fixed:
        raise outside_error(sets, parameters.spec.domain, first)
    warnings.warn(
        f"{n} points of {int((outside > 0).sum())} sets (the first is set {first + int(np.argmax(outside > 0))}) lie "
        "outside the bounds seen in fit and count at the wall: fit on data that spans the range, or give a domain",
        stacklevel=2,
    )
