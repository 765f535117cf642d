"""Validation of user input (arrays of real numbers, column names, switches), and the stack level of warnings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._utils._tuning import MAX_NAMES_CHARACTERS

LIBRARY_PACKAGES = {"dkdist", "sklearn", "dask", "distributed", "joblib", "contextlib", "functools"}
THREAD_PACKAGES = {"threading", "concurrent"}  # outermost frames of threads that a library started


def find_stacklevel() -> int:
    """Return the ``stacklevel`` of the caller's nearest frame outside of libraries, or 1 (its own line)."""
    frame, level = _user_frame(sys._getframe(1))
    return 1 if _package(frame) in LIBRARY_PACKAGES | THREAD_PACKAGES else level


def find_user_call() -> tuple[tuple[CodeType, int], ...]:
    """Return code and instruction of the caller's nearest frame outside of libraries, and of its callers."""
    frame: FrameType | None = _user_frame(sys._getframe(1))[0]
    calls = []
    while frame is not None:
        calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(calls)


def _user_frame(frame: FrameType) -> tuple[FrameType, int]:
    """Return the nearest frame outside of libraries, or the outermost one, and its level counted from 1."""
    level = 1
    while frame.f_back is not None and _package(frame) in LIBRARY_PACKAGES:
        frame, level = frame.f_back, level + 1
    return frame, level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def as_real_array(what: str, values: Any, error: type[ValueError] = ValueError) -> NDArray[Any]:
    """Return ``values`` as an array of real numbers; raise ``error``, which names ``what``, for anything else.

    Nullable integers of data frames (pandas' Int64) are accepted if no value is missing.
    """
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise error(f"{what} must be dense; got a sparse {type(values).__name__}. Pass .toarray().")
    if np.ma.is_masked(values):
        raise error(f"{what} must not contain masked values. Fill them or drop their points.")
    try:
        array = np.asarray(values)
    except Exception as reason:  # objects of other libraries can raise any type
        raise error(
            f"{what} cannot be converted to an array ({reason}). Pass rows of equal length."
        ) from reason
    if array.dtype == object and hasattr(values, "isna"):
        array = _as_float_table(what, values, array, error)
    if array.dtype.kind not in "fiub":
        kind = f"dtype {array.dtype}" if array.ndim else type(values).__name__
        raise error(f"{what} must contain real numbers; got {kind}. Convert it first.")
    return array


def _as_float_table(what: str, values: Any, array: NDArray[Any], error: type[ValueError]) -> NDArray[Any]:
    missing = np.argwhere(np.asarray(values.isna(), bool))
    if len(missing):
        raise error(
            f"{what} must contain real numbers; got {len(missing)} missing values (first: row {missing[0][0]}). Fill "
            "them or drop their rows."
        )
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array


def as_columns(array: NDArray[Any]) -> NDArray[Any]:
    """Return (n,) as one column (n, 1), other arrays unchanged."""
    return array[:, None] if array.ndim == 1 else array


class Columns:
    """Matrix (n, d) stored as d arrays (n,) of any dtypes; rows are assembled on request."""

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        self.columns = tuple(columns)
        self.shape = (len(self.columns[0]), len(self.columns))
        self.dtype = np.result_type(*self.columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return np.stack([column[rows] for column in self.columns], axis=-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


def dimension_names(points: Any) -> list[Any] | None:
    """Return column names of a data frame, or dimension names of sets, shapes and coresets, or None."""
    names = getattr(points, "column_names", None)  # for pyarrow, whose ``columns`` are the values
    if not isinstance(names, list):
        names = getattr(points, "columns", None)
    if names is None:
        names = getattr(points, "names", None)
    return None if names is None else list(names)


def require_same_names(error: type[ValueError] = ValueError, /, **points_by_argument: Any) -> None:
    """Raise ``error`` if column names or their order differ from those of the first argument with names.

    Points without names are compared by position. Points with integer names (the default of pandas) are
    also compared by position, unless the names are equal but in another order.
    """
    first, expected = "", None
    for argument, points in points_by_argument.items():
        names = dimension_names(points)
        if expected is None:
            first, expected = argument, names
        elif (
            names and names != expected and (message := _difference_message(first, expected, argument, names))
        ):
            raise error(message)


def _difference_message(first: str, expected: list[Any], argument: str, names: list[Any]) -> str | None:
    comparison = f"expected {_format_names(expected)}; got {_format_names(names)}"
    if len(names) == len(expected) and set(names) == set(expected):
        return (
            f"the columns of {argument} must be in the order of those of {first}: {comparison}. Reorder the columns of "
            f"{argument}, or pass arrays to compare columns by position"
        )
    if all(isinstance(name, str) for name in (*expected, *names)):
        return (
            f"the columns of {argument} must have the names of those of {first}: {comparison}. Select or rename "
            "columns, or pass arrays to compare columns by position"
        )
    return None


def _format_names(names: list[Any]) -> str:
    text = ", ".join(map(repr, names))
    if len(text) <= MAX_NAMES_CHARACTERS:
        return text
    return f"{text[:MAX_NAMES_CHARACTERS]}... ({len(names)} names)"


def check_bool(name: str, value: Any) -> bool:
    """Return ``value`` if it is a boolean; TypeError for anything else, since the string "no" would be true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r:.200}.")
    return bool(value)


def check_verbose(value: Any) -> bool:
    """Return whether to show progress; ``value`` is a boolean or a non-negative integer as in scikit-learn."""
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value < 0:
        raise TypeError(f"verbose must be True or False; got {value!r:.200}.")
    return bool(value)
