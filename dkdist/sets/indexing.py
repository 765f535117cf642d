"""Indexing of collections, and alignment of targets with the ids of sets.

Every accepted key becomes a position, a range, or an array of positions. A Series or frame of targets is joined by its
index, not its order. Arrays and lists have no index and are used in their order; so is a Series with the default index
0, 1, ..., n - 1, which carries no ids.
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
    """Whether this is a pandas Series or frame; does not import pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, (pandas.Series, pandas.DataFrame))


def load_collection(values: Any) -> Any:
    """Compute a dask array, Series or frame; return anything else unchanged."""
    return values.compute() if getattr(values, "__dask_graph__", None) is not None else values


def align_to_ids(values: Any, ids: Array | None, what: str = "y") -> Any:
    """Align a pandas Series or frame with the ids (n,) by its index; return anything else unchanged.

    Raises `SampleSetError` for an index that lacks an id or contains one twice, and for the default index if the ids
    are the same numbers in another order, which is ambiguous.
    """
    if ids is None or not has_index(values) or is_in_id_order(values, ids):
        return values
    positions = positions_of_ids(ids, values.index, what)
    if has_default_index(values):
        raise SampleSetError(
            f"{what} is ambiguous: its default index 0 to {len(values) - 1} contains the ids of the sets in another "
            f"order. Pass {what}.to_numpy() if it is in the order of the sets, or {what}.loc[sets.ids]."
        )
    return values.iloc[positions]


def is_in_id_order(values: Any, ids: Array) -> bool:
    """Whether a Series or frame is in the order of the sets, by equal ids or the default index."""
    index = values.index
    if len(index) != len(ids):
        return False
    if has_default_index(values):
        return set(ids.tolist()) != set(range(len(ids))) or np.array_equal(ids, np.arange(len(ids)))
    return bool(index.nlevels == 1 and index.tolist() == ids.tolist())


def positions_of_ids(ids: Array, index: Any, what: str) -> I64:
    """Return the positions (n,) of ids in a pandas index, which must be unique and complete."""
    if index.nlevels > 1:
        raise SampleSetError(
            f"the index of {what} must have one level, the ids; got {index.nlevels}. Keep the level of ids."
        )
    if not index.is_unique:
        raise SampleSetError(
            f"the index of {what} must be unique; got {index[index.duplicated()][0]!r} twice. Pass every id once, or "
            "an array in the order of the sets."
        )
    positions: I64 = index.get_indexer(ids.astype(object) if ids.dtype.kind == "U" else ids)
    missing = np.flatnonzero(positions < 0)
    if len(missing):
        raise SampleSetError(
            f"the index of {what} lacks the id {ids[missing].tolist()[0]!r} of set {missing[0]} ({len(missing)} of "
            f"{len(ids)} ids are missing; the index begins with {index[:3].tolist()}). Pass an entry for every id, of "
            "the same type, or an array in the order of the sets. Before splitting by position, as in "
            f"cross-validation, use {what}.loc[sets.ids]."
        )
    return positions


def has_default_index(values: Any) -> bool:
    """Whether the index of a Series or frame is the default 0, 1, ..., n - 1."""
    index = values.index
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def resolve_key(key: Any, n: int) -> int | range | I64:
    """Convert a key into n sets to a position, a range, or an int64 array of positions.

    Supports integers, slices, boolean masks, integer arrays and lists, and the form ``(key, ...)`` of scikit-learn.
    Consecutive positions become a range. Raises IndexError for positions out of range.
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
    """Align a boolean pandas Series with the sets by its index; return other keys unchanged."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis else key
    plain = isinstance(mask, (slice, int, np.ndarray))
    if plain or not has_index(mask) or mask.ndim != 1 or mask.dtype.kind != "b":
        return key
    if mask.isna().any():
        raise IndexError(
            f"mask must have no missing values; got one for {mask.index[mask.isna()][0]!r}. Use mask.fillna(False)."
        )
    return np.asarray(align_to_ids(mask, ids(), "the mask"), dtype=np.bool_)


def as_position(key: int | np.integer[Any], n: int) -> int:
    """Convert an integer, possibly negative, to a position 0 .. n - 1; raises IndexError."""
    try:
        i = operator.index(key)
    except TypeError:
        raise IndexError(f"index of a set must be an integer; got {type(key).__name__}.") from None
    if not -n <= i < n:
        raise IndexError(f"set {i} is out of range for {n} sets.")
    return i % n


def _as_index(key: NDArray[Any], n: int) -> I64:
    if key.ndim == 1 and key.dtype == np.bool_:
        if len(key) != n:
            raise IndexError(f"mask must have one entry per set, {n}; got {len(key)}.")
        return np.flatnonzero(key).astype(np.int64, copy=False)
    if key.ndim != 1 or (len(key) and key.dtype.kind not in "iu"):
        raise IndexError(
            "index must be an integer, a slice, a boolean mask or a 1-D integer array; "
            f"got {key.dtype} of shape {key.shape}."
        )
    index = key.astype(np.int64)
    if len(index) and not -n <= int(index.min()) <= int(index.max()) < n:
        worst = int(index.max()) if int(index.max()) >= n else int(index.min())
        raise IndexError(f"set {worst} is out of range for {n} sets.")
    return np.where(index < 0, index + n, index)


def positions(selection: range | I64) -> I64:
    """Convert a range of positions to an array; return arrays unchanged."""
    if isinstance(selection, range):
        return np.arange(selection.start, selection.stop, selection.step, dtype=np.int64)
    return selection


class NoArrayConversion:
    """Mixin that blocks conversion to an array, which would treat sets as rows of a table."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Raise TypeError."""
        raise TypeError(
            "SampleSets is not a 2-D array. Put estimators that index columns (BaggingClassifier, "
            "permutation_importance) after an embedding: make_pipeline(embedding, BaggingClassifier(learner)), or use "
            "embedding.transform(sets). For arrays of points use list(sets) or sets.points."
        )
