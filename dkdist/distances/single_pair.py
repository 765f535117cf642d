"""The distance of two objects alone, checked as collections are."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.bad_sets import naming
from dkdist.base.inputs import Sets, check_both, survey
from dkdist.distances import Distance
from dkdist.distances.distance_choices import require_kind, require_units
from dkdist.distances.distance_embedding_spec import Comparing, points_for
from dkdist.distances.few_points import few_sets
from dkdist.loops.array_types import Array
from dkdist.sets import SampleSetError, SampleSets


def compare(distance: Distance, a: SampleSets, b: SampleSets) -> Array:
    """(len(a), len(b)) distances, as the distance has them."""
    comparing = Comparing(distance, b.alphabet)
    weights = None if b.weights is None else b.weights.reshape(-1)
    out = np.empty((len(a), len(b) * distance.n_parts), comparing.dtype)
    comparing.fill(comparing.prepare(points_for(distance, b), b.offsets, weights), a, out)
    return out


def distance_of(distance: Distance, x: Any, y: Any) -> float:
    """d(x, y); `SampleSetError` for objects that cannot be compared, ValueError for a distance of several numbers."""
    require_one_part(distance)
    rows, columns = (None, None) if distance.codes else (few_sets([x]), few_sets([y]))
    if rows is None or columns is None or rows.n_dims != columns.n_dims:
        rows, columns = _checked(distance, x, y)
    with naming(lambda i, j: "the first object to the second"):
        return float(compare(distance, rows, columns)[0, 0])


def _checked(distance: Distance, x: Any, y: Any) -> tuple[SampleSets, SampleSets]:
    rows, columns = check_both([x], [y], "distance(x, y)", text=True)
    for side in (rows, columns):
        assert side is not None
        require_kind(distance, side)
        require_units(distance, survey(side, None, skip=False))
    require_alike(rows, columns)
    assert isinstance(rows, SampleSets)
    assert isinstance(columns, SampleSets)
    return rows, columns


def require_alike(rows: Sets, columns: Sets | None) -> None:
    """Refuse strings of characters beside codes."""
    if columns is not None and (columns.alphabet is None) != (rows.alphabet is None):
        raise SampleSetError(
            "sets and other (set 0 and all others) are strings of different kinds: give the same"
        )


def require_one_part(distance: Distance) -> None:
    """Refuse a distance that gives several numbers for a pair."""
    if distance.n_parts != 1:
        raise ValueError(
            f"{type(distance).__name__} gives {distance.n_parts} numbers for a pair: take one that gives one"
        )
