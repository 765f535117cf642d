"""The one door for arrays of real numbers that users give: what is none is refused with what to do.

And a matrix that is given column by column, as tables have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
