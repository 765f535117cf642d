"""Validation and conversion of the arrays of sample sets, and the messages for invalid ones.

Functions take arrays and return arrays of the stored dtypes, with one vectorized pass per check. Valid sets have
offsets 0 = o_0 < o_1 < ... < o_N = T, finite points that fit float32, one dimension d, and one finite weight (or one
row of k weights) per point.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence, Sized
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.validation import Columns, as_columns, as_real_array, find_stacklevel
from dkdist.sets.origins import Part, SortedSample, find_lossy_column, normalize_origin, subtract_origin

Points = NDArray[Any]
"""(T, d) float32, or (T, 1) uint8/uint16 codes of strings."""

CODE_DTYPES = (np.dtype("u1"), np.dtype("u2"))
PRECISION_LOSS = "has many distinct values that float32 rounds to a few"


class SampleSetError(ValueError):
    """Error for invalid sample sets; the message names the set and the remedy.

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
    """Raise for NaN and infinities in the (T,) or (T, d) values of sets from `first_set` on."""
    if values.size == 0 or values.dtype.kind != "f":
        return
    # min and max are finite if and only if all values are, and need no temporary array
    if np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    table = values.reshape(len(values), -1)
    nonfinite = ~np.isfinite(table)
    row = int(np.argmax(nonfinite.any(axis=1)))
    column = int(np.argmax(nonfinite[row]))
    i, r = locate(offsets, row)
    where = f" in column {column}" if values.ndim == 2 else ""
    raise SampleSetError(
        f"{what} {r} of set {first_set + i} is {table[row, column]}{where}. Values must be finite and fit float32 "
        "(below 3.4e38). Drop or replace it."
    )


def locate(offsets: I64, row: int) -> tuple[int, int]:
    """Return the set that contains a row of the points, and the row's index in the set."""
    i = int(np.searchsorted(offsets, row, side="right")) - 1
    return i, row - int(offsets[i])


def _as_array(values: ArrayLike, what: str) -> NDArray[Any]:
    return as_real_array(what, values, SampleSetError)


def as_points(points: ArrayLike | Columns) -> Part:
    """Check points (T, d), or (T,) for d = 1: a real array, or columns unchanged."""
    if isinstance(points, Columns):
        return points
    array = as_columns(_as_array(points, "points"))
    if array.ndim != 2 or array.shape[1] == 0:
        raise SampleSetError(
            f"points must have shape (n_points, n_dims) with n_dims >= 1; got {array.shape}."
        )
    return array


def _require_representable(
    rows: Points, parts: Sequence[Part], origin: F64 | None, lossy_column: int | None
) -> None:
    """Raise if float32 rounds all points to 0; warn about a column whose distinct values become equal."""
    if origin is None and not rows[:1].any() and not rows.any() and any(np.any(part) for part in parts):
        largest = max(float(np.abs(part).max(initial=0)) for part in parts)
        raise SampleSetError(
            f"all points of all sets are at most {largest:.3g} in absolute value, which float32 rounds to "
            "0. Use smaller units."
        )
    if lossy_column is not None:
        warnings.warn(
            f"column {lossy_column} of the points of all sets {PRECISION_LOSS}. Move values of another "
            "magnitude to a separate column, drop outliers, or subtract a large common offset from each set.",
            stacklevel=find_stacklevel(),
        )


def as_offsets(offsets: ArrayLike, n_points: int) -> I64:
    """Convert offsets to (N + 1,) int64; they start at 0, increase and end at n_points."""
    array = _as_array(offsets, "offsets")
    if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "iu":
        raise SampleSetError(
            f"offsets must be n_sets + 1 integers; got {array.dtype} of shape {array.shape}. "
            "Pass 0 and the cumulative sum of the set sizes."
        )
    edges = array.astype(np.int64)
    require_increasing(edges)
    if edges[0] != 0:
        raise SampleSetError(
            f"offsets must start at 0; got {edges[0]}. Subtract offsets[0] and slice the points."
        )
    if edges[-1] != n_points:
        raise SampleSetError(
            f"offsets must end at the number of points, {n_points}; got {edges[-1]} (set {len(edges) - 2}). "
            "Check that neither array is truncated."
        )
    return edges


def require_increasing(offsets: I64, first_set: int = 0) -> None:
    """Raise for offsets that decrease or repeat (an empty set)."""
    sizes = np.diff(offsets)
    if len(sizes) == 0 or sizes.min() > 0:
        return
    i = int(np.argmax(sizes <= 0))
    if sizes[i] < 0:
        raise SampleSetError(
            f"offsets must increase; got {offsets[i]} before {offsets[i + 1]} (set {first_set + i}). "
            "Pass 0 and the cumulative sum of the set sizes."
        )
    raise SampleSetError(_empty_set(first_set + i))


def _empty_set(i: int) -> str:
    return f"set {i} is empty. Every set needs at least one point; drop it and its target."


def as_weights(weights: ArrayLike, edges: I64) -> F32:
    """Convert weights to finite float32, (T,) or (T, k), one row per point."""
    array = _as_array(weights, "weights")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise SampleSetError(f"weights must have shape (n_points,) or (n_points, k); got {array.shape}.")
    if len(array) != edges[-1]:
        raise SampleSetError(
            f"weights must have one row per point, {edges[-1]}; got {len(array)} (the last set is set "
            f"{len(edges) - 2})."
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, dtype=np.float32)
    require_finite(values, edges, "weight")
    return values


def require_codes(points: Points, edges: I64, alphabet: str) -> None:
    """Raise unless points are codes of the symbols of an alphabet."""
    if points.dtype not in CODE_DTYPES:
        raise SampleSetError(f"alphabet requires uint8 or uint16 codes with d = 1; got {points.dtype}.")
    if points.max(initial=0) >= len(alphabet):
        row = int(np.argmax(points[:, 0] >= len(alphabet)))
        i, r = locate(edges, row)
        raise SampleSetError(
            f"codes must be below {len(alphabet)}, the size of the alphabet; got {points[row, 0]} "
            f"(symbol {r} of set {i})."
        )


def as_parts(arrays: Iterable[ArrayLike], first_set: int = 0) -> list[NDArray[Any]]:
    """Convert a list of sets (n_i, d), or (n_i,) for d = 1, to arrays (n_i, d); data frames must have equal columns.

    Errors name sets by positions from ``first_set`` on.
    """
    inputs: list[Any] = list(arrays)
    first = next((list(a.columns) for a in inputs if hasattr(a, "columns")), None)
    for i, a in enumerate(inputs, first_set):
        if hasattr(a, "columns") and list(a.columns) != first:
            raise SampleSetError(
                f"columns of set {i} must equal those of the sets before it, {first}; got {list(a.columns)}. "
                "Reorder or rename them."
            )
    parts = []
    for i, values in enumerate(inputs, first_set):
        part = as_columns(_as_array(values, f"set {i}"))
        if part.ndim != 2:
            hint = "Pass [x] for one set x." if part.ndim == 0 else "Pass a list of such arrays."
            raise SampleSetError(
                f"set {i} must have shape (n_points, n_dims), or (n_points,) for n_dims = 1; got {part.shape}. {hint}"
            )
        parts.append(part)
    if not parts:
        raise SampleSetError("sets must contain at least one set; got an empty list.")
    return parts


def column_names(arrays: Iterable[Any]) -> list[str] | None:
    """Return the columns of the first data frame in a list if all are str, else None."""
    first = next((list(a.columns) for a in arrays if hasattr(a, "columns")), None)
    return None if first is None or not all(isinstance(name, str) for name in first) else first


def offsets_of(parts: Sequence[NDArray[Any]]) -> I64:
    """Return the offsets of a list of sets; raises for empty sets and unequal dimensions."""
    d = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != d:
            raise SampleSetError(f"set {i} must have {d} dimensions, as set 0; got {part.shape[1]}.")
        if len(part) == 0:
            raise SampleSetError(_empty_set(i))
    if d == 0:
        raise SampleSetError("points must have at least one coordinate; got 0 dimensions (set 0).")
    return np.array([0, *accumulate(map(len, parts))], np.int64)


def convert_points(
    parts: Sequence[Part], origin: ArrayLike | None, *, copy: bool = True, is_representable: bool = False
) -> tuple[Points, F64 | None]:
    """Convert parts to stored points (T, d) and their origin: the argument, or an inferred one.

    With ``copy=False`` a single part of the stored dtype is returned unchanged. ``is_representable`` skips the check
    that float32 represents the points relative to the origin.
    """
    by_column = isinstance(parts[0], Columns)
    dtypes, sizes = {part.dtype for part in parts}, [len(part) for part in parts]
    start = None if origin is None else _as_origin(origin, parts[0].shape)
    codes = parts[0].shape[1] == len(dtypes) == 1 and not dtypes.isdisjoint(CODE_DTYPES)
    needs_sample = not codes and not (is_representable and start is not None)
    sample = SortedSample.of(parts) if needs_sample else None
    if start is not None:
        start = None if codes else normalize_origin(start)
    elif sample is not None:
        start = sample.infer_origin()
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
        lossy_column = None
        if not is_representable:
            lossy_column = (
                find_lossy_column(parts, start) if sample is None else sample.find_lossy_column(start)
            )
        _require_representable(rows, parts, start, lossy_column)
    return rows, start


def concatenate_weights(weights: Sequence[ArrayLike], parts: Sequence[Sized], edges: I64) -> F32:
    """Concatenate the weights of a list of sets to float32, (T,) or (T, k)."""
    columns = [_as_array(w, f"weights of set {i}") for i, w in enumerate(weights)]
    if len(columns) != len(parts):
        raise SampleSetError(f"weights must contain one array per set, {len(parts)}; got {len(columns)}.")
    for i, (w, part) in enumerate(zip(columns, parts, strict=True)):
        if len(w.shape) == 0 or len(w) != len(part) or w.shape[1:] != columns[0].shape[1:]:
            raise SampleSetError(
                f"weights of set {i} must have shape {(len(part), *columns[0].shape[1:])} (one row per point, columns "
                f"as in set 0); got {w.shape}."
            )
    with np.errstate(over="ignore"):
        joined = np.concatenate(columns, dtype=np.float32, casting="unsafe")
    return as_weights(joined, edges)


def _as_origin(origin: ArrayLike, shape: tuple[int, ...]) -> F64:
    try:
        values = np.broadcast_to(np.asarray(origin, np.float64), shape[1:])
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if not np.isfinite(values).all():
        raise SampleSetError(
            f"origin must be a finite number, or one per column of points of shape {shape}; got {origin!r}."
        )
    return values
