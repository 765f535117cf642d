"""Choosing sets of a collection: every accepted key becomes a position, a range, or an array of positions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import I64, Array
from dkdist.sets.alignment import aligned, has_index


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


def mask_of_ids(key: Any, ids: Callable[[], Array | None]) -> Any:
    """A boolean pandas Series in the order of the sets, by its index; any other key as it is."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis else key
    plain = isinstance(mask, (slice, int, np.ndarray))
    if plain or not has_index(mask) or mask.ndim != 1 or mask.dtype.kind != "b":
        return key
    if mask.isna().any():
        raise IndexError(
            f"the mask has no value for {mask.index[mask.isna()][0]!r}: fill it, as in mask.fillna(False)"
        )
    return np.asarray(aligned(mask, ids(), "the mask"), dtype=np.bool_)


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


class NoTable:
    """A collection that is no array: NumPy would take its sets for the rows of a table."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Refused: what asks for it wants a table of numbers, with columns."""
        raise TypeError(
            "sets of points are no table of numbers. What looks into columns (BaggingClassifier, "
            "permutation_importance) comes after an embedding, in make_pipeline(embedding, BaggingClassifier(learner)) "
            "or on embedding.transform(sets); points are arrays in list(sets) and in the points of sets in memory"
        )
