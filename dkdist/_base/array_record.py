"""Records of arrays that are compared and hashed by content, for parameters that hold arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32
from dkdist._utils.serialization import serializable


class ArrayRecord:
    """Base class of records of arrays, which are equal if their arrays are bitwise identical."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        arrays = vars(self).values()
        return tuple(None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in arrays)


@serializable("Matrix")
@dataclass(frozen=True, eq=False)
class Matrix(ArrayRecord):
    """Nonempty matrix (n, m) float32."""

    values: F32

    def __len__(self) -> int:
        return len(self.values)

    def check_loaded(self) -> None:
        """Raise ValueError unless the values are a nonempty matrix of float32."""
        if self.values.ndim != 2 or 0 in self.values.shape or self.values.dtype != np.float32:
            raise ValueError(
                f"values must be a nonempty float32 matrix; got {self.values.dtype} {self.values.shape}"
            )
