"""`ArrayRecord`: records of arrays that are compared and hashed by content, for parameters that hold arrays."""

from __future__ import annotations

from typing import Any


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
