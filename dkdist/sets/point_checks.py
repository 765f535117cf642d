"""What makes a collection of sample sets valid, and the messages for one that is not.

Arrays in, arrays out: conversion to the stored dtypes, then checks that take one vectorised pass each. A
valid collection has offsets 0 = o_0 < o_1 < ... < o_N = T, finite points that fit float32, one dimension d,
and one finite weight (or one row of k weights) for each point.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.validation import Columns, as_real_array, find_stacklevel
from dkdist.sets.origins import Part, SortedSample, find_lossy_column, normalize_origin, subtract_origin

Points = NDArray[Any]
"""(T, d) float32, or (T, 1) uint8/uint16 codes of strings."""

CODE_DTYPES = (np.dtype("u1"), np.dtype("u2"))
PRECISION_LOSS = "has many different values that float32, in which sets are kept, takes for a few equal ones"


class SampleSetError(ValueError):
    """A collection of sample sets is not valid; the message names the set and what to do.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> try:
    ...     dk.SampleSets.from_arrays([np.ones((2, 1)), [[np.nan]]])
    ... except dk.SampleSetError as error:
    ...     print(str(error)[:35])
    point 0 of set 1 is nan in column 0
    """


def require_finite(values: Points, offsets: I64, what: str = "point", first_set: int = 0) -> None:
    """Refuse NaN and infinities in the (T,) or (T, d) values of the sets that start at `first_set`.

    The extremes of an array are finite exactly if all of it is, and need no temporary of its size.
    """
    if values.size == 0 or values.dtype.kind != "f":
        return
    if np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    bad = ~np.isfinite(values.reshape(len(values), -1))
    row = int(np.argmax(bad.any(axis=1)))
    column = int(np.argmax(bad[row]))
    i, r = locate(offsets, row)
    where = f" in column {column}" if values.ndim == 2 else ""
    raise SampleSetError(
        f"{what} {r} of set {first_set + i} is {values.reshape(len(values), -1)[row, column]}{where}: "
        "every value must be finite and fit float32 (below 3.4e38). Drop it, or replace it"
    )


def locate(offsets: I64, row: int) -> tuple[int, int]:
    """The set that holds a row of the points, and the row's place in it."""
    i = int(np.searchsorted(offsets, row, side="right")) - 1
    return i, row - int(offsets[i])


def _as_array(values: ArrayLike, what: str) -> NDArray[Any]:
    return as_real_array(what, values, SampleSetError)


def as_points(points: ArrayLike | Columns) -> Part:
    """All points of a collection (T, d): an array, or columns as they are."""
    if isinstance(points, Columns):
        return points
    array = _as_array(points, "points")
    if array.ndim != 2 or array.shape[1] == 0:
        raise SampleSetError(
            f"points must have shape (n_points, n_dims) with n_dims >= 1, found {array.shape}: "
            "use points[:, None] for one dimension"
        )
    return array


def _require_representable(
    rows: Points, given: Sequence[Part], origin: F64 | None, crowded: int | None
) -> None:
    """Refuse points that are too small for float32 and would all be zero; tell of columns that hardly differ in it."""
    if origin is None and not rows[:1].any() and not rows.any() and any(np.any(part) for part in given):
        largest = max(float(np.abs(part).max(initial=0)) for part in given)
        raise SampleSetError(
            f"the points (of set 0 and all others) are at most {largest:.3g} in size, which float32 takes for 0: give "
            "them in smaller units"
        )
    if crowded is not None:
        warnings.warn(
            f"column {crowded} of the points (of set 0 and all others) {PRECISION_LOSS}: give values of other magnitudes a "
            "column of their own, drop outliers, or subtract from each set what it lies far from zero by",
            stacklevel=find_stacklevel(),
        )


def as_offsets(offsets: ArrayLike, n_points: int) -> I64:
    """(N + 1,) int64 that start at 0, increase and end at the number of points."""
    given = _as_array(offsets, "offsets")
    if given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "iu":
        raise SampleSetError(
            f"offsets must be n_sets + 1 integers, found {given.dtype} of shape {given.shape}: "
            "give 0 and the running total of the set sizes"
        )
    edges = given.astype(np.int64)
    require_increasing(edges)
    if edges[0] != 0:
        raise SampleSetError(
            f"offsets must start at 0, found {edges[0]}: subtract offsets[0] and cut the points"
        )
    if edges[-1] != n_points:
        raise SampleSetError(
            f"offsets end at {edges[-1]} (set {len(edges) - 2}) but there are {n_points} points: "
            "the last offset must be the number of points. Check that neither array is cut short"
        )
    return edges


def require_increasing(offsets: I64, first_set: int = 0) -> None:
    """Refuse offsets that go down (not monotone) or stand still (an empty set)."""
    sizes = np.diff(offsets)
    if len(sizes) == 0 or sizes.min() > 0:
        return
    i = int(np.argmax(sizes <= 0))
    if sizes[i] < 0:
        raise SampleSetError(
            f"offsets are not monotone: set {first_set + i} would go from {offsets[i]} to {offsets[i + 1]}. "
            "Give 0 and the running total of the set sizes"
        )
    raise SampleSetError(_empty_set(first_set + i))


def _empty_set(i: int) -> str:
    return f"set {i} is empty: every sample set needs at least one point. Drop it, and its target"


def as_weights(weights: ArrayLike, edges: I64) -> F32:
    """(T,) or (T, k) float32, finite, one row a point."""
    array = _as_array(weights, "weights")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise SampleSetError(f"weights must have shape (n_points,) or (n_points, k), found {array.shape}")
    if len(array) != edges[-1]:
        raise SampleSetError(
            f"weights have {len(array)} rows but there are {edges[-1]} points (the last in set "
            f"{len(edges) - 2}): give one weight a point"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, dtype=np.float32)
    require_finite(values, edges, "weight")
    return values


def require_codes(points: Points, edges: I64, alphabet: str) -> None:
    """Refuse points that are not codes of the symbols of an alphabet."""
    if points.dtype not in CODE_DTYPES:
        raise SampleSetError(f"an alphabet needs uint8 or uint16 codes with d = 1, found {points.dtype}")
    if points.max(initial=0) >= len(alphabet):
        row = int(np.argmax(points[:, 0] >= len(alphabet)))
        i, r = locate(edges, row)
        raise SampleSetError(
            f"symbol {r} of set {i} is the code {points[row, 0]}, beyond the alphabet of {len(alphabet)} symbols"
        )


def as_parts(arrays: Iterable[ArrayLike]) -> list[NDArray[Any]]:
    """The sets of a list as arrays (n_i, d); refuses data frames whose columns are not those of the first one."""
    given: list[Any] = list(arrays)
    first = next((list(a.columns) for a in given if hasattr(a, "columns")), None)
    for i, a in enumerate(given):
        if hasattr(a, "columns") and list(a.columns) != first:
            raise SampleSetError(
                f"set {i} has the columns {list(a.columns)}, but sets before it have {first}: give all in "
                "the same order"
            )
    parts = []
    for i, values in enumerate(given):
        part = _as_array(values, f"set {i}")
        if part.ndim != 2:
            raise SampleSetError(
                f"set {i} has shape {part.shape}; expected (n_points, n_dims). Use x[:, None] for one dimension"
            )
        parts.append(part)
    if not parts:
        raise SampleSetError("an empty list has no sets and no number of dimensions: give at least one set")
    return parts


def column_names(arrays: Iterable[Any]) -> list[str] | None:
    """The columns of data frames in a list, if these are all str."""
    first = next((list(a.columns) for a in arrays if hasattr(a, "columns")), None)
    return None if first is None or not all(isinstance(name, str) for name in first) else first


def offsets_of(parts: Sequence[NDArray[Any]]) -> I64:
    """Offsets of sets in a list; refuses empty ones and other dimensions."""
    d = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != d:
            raise SampleSetError(
                f"set {i} has {part.shape[1]} dimensions but set 0 has {d}: all sets must have the same. "
                "Check which of the two is wrong"
            )
        if len(part) == 0:
            raise SampleSetError(_empty_set(i))
    if d == 0:
        raise SampleSetError("set 0 has 0 dimensions: points need at least one coordinate")
    return np.array([0, *accumulate(map(len, parts))], np.int64)


def convert_points(
    parts: Sequence[Part], origin: ArrayLike | None, *, copy: bool = True, held: bool = False
) -> tuple[Points, F64 | None]:
    """(T, d) points of all parts as they are kept, and their origin: the one given, or the natural one.

    Without ``copy`` one part that is kept as it is stays the array that it was. ``held`` says that float32 is known to
    hold them where they are counted from.
    """
    by_column = isinstance(parts[0], Columns)
    dtypes, sizes = {part.dtype for part in parts}, [len(part) for part in parts]
    start = None if origin is None else _as_origin(origin, parts[0].shape)
    codes = parts[0].shape[1] == len(dtypes) == 1 and not dtypes.isdisjoint(CODE_DTYPES)
    settled = codes or (held and start is not None)
    sample = None if settled else SortedSample.of(parts)
    if start is not None:
        start = None if codes else normalize_origin(start)
    elif sample is not None:
        start = sample.natural_origin()
    dtype = parts[0].dtype if codes else np.dtype(np.float32)
    with np.errstate(over="ignore"):  # an overflow becomes inf, and is reported with its set
        if start is None and not copy and not by_column:
            rows = np.ascontiguousarray(parts[0], dtype)
        else:
            rows = np.empty((sum(sizes), parts[0].shape[1]), dtype)
            if start is None and not by_column:
                np.concatenate(parts, out=rows, casting="unsafe")
            else:
                for part, end in zip(parts, np.cumsum(sizes).tolist(), strict=True):
                    subtract_origin(part, start, rows[end - len(part) : end])
    if not codes:
        crowded = None
        if not held:
            crowded = find_lossy_column(parts, start) if sample is None else sample.crowded(start)
        _require_representable(rows, parts, start, crowded)
    return rows, start


def concatenate_weights(weights: Sequence[ArrayLike], parts: Sequence[NDArray[Any]], edges: I64) -> F32:
    """The weights of all sets of a list, (T,) or (T, k) float32, one row a point."""
    columns = [_as_array(w, f"weights of set {i}") for i, w in enumerate(weights)]
    if len(columns) != len(parts):
        raise SampleSetError(
            f"there are weights for {len(columns)} sets but {len(parts)} sets: give one array a set"
        )
    for i, (w, part) in enumerate(zip(columns, parts, strict=True)):
        if len(w.shape) == 0 or len(w) != len(part) or w.shape[1:] != columns[0].shape[1:]:
            raise SampleSetError(
                f"weights of set {i} have shape {w.shape}; expected ({len(part)}, ...) for its points, "
                f"with the trailing shape {columns[0].shape[1:]} of set 0"
            )
    with np.errstate(over="ignore"):
        joined = np.concatenate(columns, dtype=np.float32, casting="unsafe")
    return as_weights(joined, edges)


def _as_origin(origin: ArrayLike, shape: tuple[int, ...]) -> F64:
    """The origin that was given: a finite number, or one for each column."""
    try:
        given = np.broadcast_to(np.asarray(origin, np.float64), shape[1:])
    except (TypeError, ValueError):
        given = np.array(np.nan)
    if not np.isfinite(given).all():
        raise SampleSetError(
            f"origin must be a finite number or one for each column of points of shape {shape}; found {origin!r}"
        )
    return given
