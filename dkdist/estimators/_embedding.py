"""Sets in, rows out: lazily for a store, at once for a collection in memory; bad sets refused, or rows of NaN."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._inputs import Sets, block_views, outside_error
from dkdist.estimators._skipping import attempt, tell_skipped
from dkdist.execution.arrays import cut, drawn, fill_in_memory, lazy_from_views
from dkdist.execution.warn import warn
from dkdist.parameters.divergence import DivergenceParameters, DivergenceSpec
from dkdist.sets import SampleSets, require_nonnegative_weights
from dkdist.store import SetStore

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

FATE = "cannot be embedded and have rows of NaN"


def transform_sets(spec: DivergenceSpec, sets: Sets, label: str, *, skip: bool) -> Any:
    """(n_sets, m) float32 rows: a dask array for a store, an ndarray for sets in memory."""
    if isinstance(sets, SampleSets):
        return _in_memory(spec, sets, skip)
    views, bounds, read_bytes = block_views(sets, 4 * spec.n_features)
    function, label = (
        partial(_embed_view, skip),
        label + "_skip" * skip,
    )  # not the same array: not the same name
    return lazy_from_views(function, spec, views, bounds, label, read_bytes)


def _in_memory(spec: DivergenceSpec, sets: SampleSets, skip: bool) -> F32:
    parameters = drawn(spec)
    one = np.zeros(1, np.int64)
    checked = attempt(partial(_count_outside, parameters), sets, range(len(sets)), one, skip=skip)
    tell_skipped(checked.bad, checked.reason, FATE)
    _tell_outside(np.concatenate(checked.results), 0)
    good, places = sets, np.arange(len(sets))
    if checked.bad:
        places = np.setdiff1d(places, checked.bad)
        good = sets[places]
    out = np.empty((len(sets), spec.n_features), np.float32)
    out[checked.bad] = np.nan

    def fill(rows: slice) -> None:
        out[places[rows] if checked.bad else rows] = parameters.embed(good[rows])

    fill_in_memory(fill, cut(good.sizes, 4 * sets.n_dims, 4 * spec.n_features))
    return out


def _embed_view(skip: bool, parameters: DivergenceParameters, view: SetStore, first: int) -> F32:
    lost = np.full((1, parameters.spec.n_features), np.nan, np.float32), np.zeros(1, np.int64)
    positions = range(first, first + len(view))
    made = attempt(partial(_embed, parameters), view, positions, lost, skip=skip)
    tell_skipped(made.bad, made.reason, FATE)
    rows, outside = zip(*made.results, strict=True)
    _tell_outside(np.concatenate(outside), first)
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _embed(parameters: DivergenceParameters, sets: SampleSets, first: int) -> tuple[F32, I64]:
    outside = _count_outside(parameters, sets, first)
    return parameters.embed(sets), outside


def _count_outside(parameters: DivergenceParameters, sets: SampleSets, first: int) -> I64:
    """Points of each set outside the bounds seen in fit; `SampleSetError` for sets that cannot be embedded."""
    require_nonnegative_weights(sets, first)
    outside = parameters.outside(sets)
    if parameters.spec.domain.fixed and outside.any():
        raise outside_error(sets, parameters.spec.domain, first)
    return outside


def _tell_outside(outside: I64, first: int) -> None:
    if outside.any():
        warn(
            f"{outside.sum()} points of {(outside > 0).sum()} sets (the first is set {first + outside.argmax()}) "
            "lie outside the bounds seen in fit and count at the wall: fit on data that spans the range, or give a "
            "domain"
        )
