"""Choosing sets of a collection, and putting targets in their order.

Every accepted key becomes a position, a range, or an array of positions. A Series or frame of targets is joined by its
index, not its order. An array or a list has no index and is taken as it stands; so is a Series with the default index
0, 1, ..., n - 1, which says nothing of ids, as scikit-learn's users expect.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import I64, Array
from dkdist.sets.point_checks import SampleSetError


def has_index(values: Any) -> bool:
    """Whether this is a pandas Series or frame; pandas is not imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, (pandas.Series, pandas.DataFrame))


def load_collection(values: Any) -> Any:
    """The values of a dask array, Series or frame; everything else as it is."""
    return values.compute() if getattr(values, "__dask_graph__", None) is not None else values


def align_to_ids(values: Any, ids: Array | None, what: str = "y") -> Any:
    """``values`` in the order of the ids of the sets (n,): a pandas Series or frame by its index, all else as it is.

    Raises `SampleSetError` for an index that lacks an id (the first is named) or has one twice, and for the default
    index where the ids are the same numbers in another order, so that both readings are possible.
    """
    if ids is None or not has_index(values) or is_in_id_order(values, ids):
        return values
    places = positions_of_ids(ids, values.index, what)
    if has_default_index(values):
        raise SampleSetError(
            f"{what} has the default index 0 to {len(values) - 1}, and the ids of the sets are these numbers in "
            f"another order: give {what}.to_numpy() if it is in the order of the sets, or {what}.loc[sets.ids]"
        )
    return values.iloc[places]


def is_in_id_order(values: Any, ids: Array) -> bool:
    """Whether a Series or frame stands in the order of the sets: by the same ids, or by the default index."""
    index = values.index
    if len(index) != len(ids):
        return False
    if has_default_index(values):
        return set(ids.tolist()) != set(range(len(ids))) or np.array_equal(ids, np.arange(len(ids)))
    return bool(index.nlevels == 1 and index.tolist() == ids.tolist())


def positions_of_ids(ids: Array, index: Any, what: str) -> I64:
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


def resolve_key(key: Any, n: int) -> int | range | I64:
    """Turn an index into a collection of n sets into a position, a range, or an int64 array of positions.

    Knows integers, slices, boolean masks, integer arrays and lists, and the form ``(key, ...)`` that
    scikit-learn uses. Positions that happen to be consecutive come back as a range. IndexError if any is out
    of range.
    """
    if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
        key = key[0]
    if isinstance(key, slice):
        return range(n)[key]
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return as_position(key, n)
    index = _as_index(np.asarray(key), n)
    first, count = (int(index[0]) if len(index) else 0), len(index)
    if count == 0 or (index[-1] - first == count - 1 and (np.diff(index) == 1).all()):
        return range(first, first + count)
    return index


def align_mask(key: Any, ids: Callable[[], Array | None]) -> Any:
    """A boolean pandas Series in the order of the sets, by its index; any other key as it is."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis else key
    plain = isinstance(mask, (slice, int, np.ndarray))
    if plain or not has_index(mask) or mask.ndim != 1 or mask.dtype.kind != "b":
        return key
    if mask.isna().any():
        raise IndexError(
            f"the mask has no value for {mask.index[mask.isna()][0]!r}: fill it, as in mask.fillna(False)"
        )
    return np.asarray(align_to_ids(mask, ids(), "the mask"), dtype=np.bool_)


def as_position(key: int | np.integer[Any], n: int) -> int:
    """A position 0 .. n - 1 from a key that may count from the end; `IndexError` beyond."""
    try:
        i = operator.index(key)
    except TypeError:
        raise IndexError(f"sets are indexed by a whole number, found {type(key).__name__}") from None
    if not -n <= i < n:
        raise IndexError(f"set {i} is out of range: there are {n} sets")
    return i % n


def _as_index(key: NDArray[Any], n: int) -> I64:
    if key.ndim == 1 and key.dtype == np.bool_:
        if len(key) != n:
            raise IndexError(f"the mask has {len(key)} entries but there are {n} sets")
        return np.flatnonzero(key).astype(np.int64, copy=False)
    if key.ndim != 1 or (len(key) and key.dtype.kind not in "iu"):
        raise IndexError(
            "sets are indexed by an integer, a slice, a boolean mask or a 1-D integer array, "
            f"found {key.dtype} of shape {key.shape}"
        )
    index = key.astype(np.int64)
    if len(index) and not -n <= int(index.min()) <= int(index.max()) < n:
        worst = int(index.max()) if int(index.max()) >= n else int(index.min())
        raise IndexError(f"set {worst} is out of range: there are {n} sets")
    return np.where(index < 0, index + n, index)


def positions(chosen: range | I64) -> I64:
    """The positions of a range or an array, as an array."""
    if isinstance(chosen, range):
        return np.arange(chosen.start, chosen.stop, chosen.step, dtype=np.int64)
    return chosen


class NoArrayConversion:
    """A collection that is no array: NumPy would take its sets for the rows of a table."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Refused: what asks for it wants a table of numbers, with columns."""
        raise TypeError(
            "sets of points are no table of numbers. What looks into columns (BaggingClassifier, "
            "permutation_importance) comes after an embedding, in make_pipeline(embedding, BaggingClassifier(learner)) "
            "or on embedding.transform(sets); points are arrays in list(sets) and in the points of sets in memory"
        )
