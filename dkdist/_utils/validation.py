"""Checks of values that users give: arrays of real numbers, names of columns, and switches.

What is none is refused with what to do. Switches are booleans alone: the word "no" would be true and replace a store.
`Columns` are a matrix that is given column by column, as tables have it.

The line of the user's that a warning is about: not one of ours, nor of the libraries that called us.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

BETWEEN = {"dkdist", "sklearn", "dask", "distributed", "joblib", "contextlib", "functools"}
THREADS = {"threading", "concurrent"}  # what stands above all lines of a thread that is not the user's


def find_stacklevel() -> int:
    """The ``stacklevel`` with which its caller warns of the nearest line above that is the user's, or of its own."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _package(frame) in BETWEEN:
        frame, level = frame.f_back, level + 1
    return 1 if _package(frame) in BETWEEN | THREADS else level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


MAX_NAMES_CHARACTERS = 200  # of a list of names in a message


def real_array(what: str, values: Any, error: type[ValueError] = ValueError) -> NDArray[Any]:
    """``values`` as an array of real numbers of any shape and dtype; ``error`` naming ``what`` for anything else.

    Integers of data frames that could be missing (pandas' Int64) are taken where none is.
    """
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise error(f"{what} must be dense, found a sparse {type(values).__name__}: give .toarray() of it")
    if np.ma.is_masked(values):
        raise error(f"{what} are masked in part: fill the masked values, or drop their points")
    try:
        array = np.asarray(values)
    except Exception as reason:  # other libraries' objects raise what they like
        raise error(f"{what} cannot be made an array ({reason}): give rows of equal length") from reason
    if array.dtype == object and hasattr(values, "isna"):
        array = _of_table(what, values, array, error)
    if array.dtype.kind not in "fiub":
        found = f"dtype {array.dtype}" if array.ndim else type(values).__name__
        raise error(f"{what} must hold real numbers, found {found}: convert it first")
    return array


def _of_table(what: str, values: Any, array: NDArray[Any], error: type[ValueError]) -> NDArray[Any]:
    missing = np.argwhere(np.asarray(values.isna(), bool))
    if len(missing):
        raise error(
            f"{what} must hold real numbers, found {len(missing)} that are missing (the first in row {missing[0][0]}): "
            "fill them, or drop their rows"
        )
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array


class Columns:
    """(n, d) numbers in d arrays (n,), each of a dtype of its own; rows of it are made when they are asked for."""

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
    """Names of the columns of a data frame, or of the dimensions of sets, shapes and coresets; None without any."""
    names = getattr(points, "column_names", None)  # pyarrow, whose ``columns`` are the values
    if not isinstance(names, list):
        names = getattr(points, "columns", None)
    if names is None:
        names = getattr(points, "names", None)
    return None if names is None else list(names)


def require_same_names(error: type[ValueError] = ValueError, /, **points_by_argument: Any) -> None:
    """Raise ``error`` for points whose columns differ in name or order from those of the first argument with names.

    Points without names are compared by position. So are those whose names are numbers, as pandas numbers columns,
    unless they are the same numbers in another order.
    """
    first, expected = "", None
    for argument, points in points_by_argument.items():
        names = dimension_names(points)
        if expected is None:
            first, expected = argument, names
        elif names and names != expected and (message := _difference(first, expected, argument, names)):
            raise error(message)


def _difference(first: str, expected: list[Any], argument: str, names: list[Any]) -> str | None:
    found = f"expected {_listed(expected)}; got {_listed(names)}"
    if len(names) == len(expected) and set(names) == set(expected):
        return (
            f"the columns of {argument} must be in the order of those of {first}: {found}. Reorder the columns of "
            f"{argument}, or pass arrays to compare columns by position"
        )
    if all(isinstance(name, str) for name in (*expected, *names)):
        return (
            f"the columns of {argument} must have the names of those of {first}: {found}. Select or rename columns, or "
            "pass arrays to compare columns by position"
        )
    return None


def _listed(names: list[Any]) -> str:
    text = ", ".join(map(repr, names))
    if len(text) <= MAX_NAMES_CHARACTERS:
        return text
    return f"{text[:MAX_NAMES_CHARACTERS]}... ({len(names)} names)"


def check_bool(name: str, value: Any) -> bool:
    """``value`` if it is a boolean; TypeError for a word, a number or None."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r:.200}: give True or False")
    return bool(value)


def as_verbose(value: Any) -> bool:
    """Whether to show progress: a boolean, or a whole number as other libraries take it."""
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value < 0:
        raise TypeError(f"verbose is {value!r:.200}: give True or False")
    return bool(value)
