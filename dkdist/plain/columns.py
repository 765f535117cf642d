"""A matrix that is given column by column, as tables have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
