"""The one origin of a store: what its points are counted from, and batches that float32 cannot hold from there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dkdist.loops.array_types import F64
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.sets.origins import crowded_column
from dkdist.sets.point_checks import CROWDED


def committed_origin(origin: F64 | None) -> tuple[float, ...] | None:
    """The origin as a commit says it: not at all, if it is 0."""
    return None if origin is None or not origin.any() else tuple(origin.tolist())


def counted_from(sets: Any, origin: F64 | None, label: str) -> SampleSets:
    """Sets to be written, counted from the origin of the store; from their own if it has none yet (None).

    Raises `SampleSetError` naming the column and the set if float32, so far from that origin, is too coarse for what
    the points differ by.
    """
    if origin is None:
        return as_sample_sets(sets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is told of in memory is refused here
        batch = as_sample_sets(sets, origin)
    if batch.points_dtype == np.float32 and batch.n_dims == len(origin) and len(batch):
        _require_held(list(sets) if not isinstance(sets, SampleSets) else [sets.points], batch, origin, label)
    return batch


def _require_held(given: list[Any], batch: SampleSets, origin: F64, label: str) -> None:
    parts = [np.asarray(part) for part in given]
    column = crowded_column(parts, origin)
    if column is None:
        return
    if len(parts) != len(batch):
        parts = [parts[0][a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]
    i = next((i for i, part in enumerate(parts) if crowded_column([part], origin) is not None), 0)
    raise SampleSetError(
        f"column {column} of set {i} of the sets to append lies near {np.median(parts[i][:, column]):.12g} and "
        f"{CROWDED}, for {label} counts from {origin[column]:.12g}, the origin of its first batch: write a new store "
        "whose first batch is like all of them, or give the column in two, a coarse and a fine one"
    )
