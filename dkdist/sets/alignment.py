"""Targets put in the order of the sets that they belong to: a Series or frame is joined by its index, not its order.

An array or a list has no index and is taken as it stands. So is a Series with the default index 0, 1, ..., n - 1, which
says nothing of ids, as scikit-learn's users expect.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dkdist.loops.array_types import I64, Array
from dkdist.sets.point_checks import SampleSetError


def has_index(values: Any) -> bool:
    """Whether this is a pandas Series or frame; pandas is not imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, (pandas.Series, pandas.DataFrame))


def load_collection(values: Any) -> Any:
    """The values of a dask array, Series or frame; everything else as it is."""
    return values.compute() if getattr(values, "__dask_graph__", None) is not None else values


def aligned(values: Any, ids: Array | None, what: str = "y") -> Any:
    """``values`` in the order of the ids of the sets (n,): a pandas Series or frame by its index, all else as it is.

    Raises `SampleSetError` for an index that lacks an id (the first is named) or has one twice, and for the default
    index where the ids are the same numbers in another order, so that both readings are possible.
    """
    if ids is None or not has_index(values) or in_order(values, ids):
        return values
    places = places_of(ids, values.index, what)
    if has_default_index(values):
        raise SampleSetError(
            f"{what} has the default index 0 to {len(values) - 1}, and the ids of the sets are these numbers in "
            f"another order: give {what}.to_numpy() if it is in the order of the sets, or {what}.loc[sets.ids]"
        )
    return values.iloc[places]


def in_order(values: Any, ids: Array) -> bool:
    """Whether a Series or frame stands in the order of the sets: by the same ids, or by the default index."""
    index = values.index
    if len(index) != len(ids):
        return False
    if has_default_index(values):
        return set(ids.tolist()) != set(range(len(ids))) or np.array_equal(ids, np.arange(len(ids)))
    return bool(index.nlevels == 1 and index.tolist() == ids.tolist())


def places_of(ids: Array, index: Any, what: str) -> I64:
    """(n,) where each id stands in a pandas index; refuses one that lacks an id, or has entries twice."""
    if index.nlevels > 1:
        raise SampleSetError(
            f"the index of {what} has {index.nlevels} levels: {what} is joined to the sets by id. Keep the level of ids"
        )
    if not index.is_unique:
        raise SampleSetError(
            f"the index of {what} has {index[index.duplicated()][0]!r} twice: {what} is joined to the sets by id, so "
            "give every id once, or an array in the order of the sets"
        )
    places: I64 = index.get_indexer(ids.astype(object) if ids.dtype.kind == "U" else ids)
    lost = np.flatnonzero(places < 0)
    if len(lost):
        raise SampleSetError(
            f"the index of {what} lacks the id {ids[lost].tolist()[0]!r} of set {lost[0]} ({len(lost)} of {len(ids)} "
            f"ids are not in it; it begins with {index[:3].tolist()}): {what} is joined to the sets by id. Give one "
            "with an entry for every id, of their type, or an array in the order of the sets. Where sets and targets "
            f"are split by position, as in cross-validation, put them in one order before: {what}.loc[sets.ids]"
        )
    return places


def has_default_index(values: Any) -> bool:
    """Whether the index of a Series or frame is 0, 1, ..., n - 1 that nobody has given."""
    index = values.index
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
