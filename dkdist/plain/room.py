"""Memory that serves again: large arrays, made one after another, of which few are held at once.

The system clears every page that a process has not had before, which takes as long as to fill it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class Room:
    """Memory of arrays that nobody holds any more, for those that follow; any thread may ask for some.

    What is kept is at most what was in use at once; arrays of less than half the size get memory of their own.
    """

    def __init__(self) -> None:
        self._free = deque[Bytes]()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array of any values, like `np.empty`; its memory comes back when it and all views of it are gone."""
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        return np.asarray(_Lent(self._free, self._found(n_bytes), shape, kind))

    def _found(self, n_bytes: int) -> Bytes:
        """Memory of at least so many bytes; what was kept and does not fit is forgotten."""
        while self._free:
            try:
                memory = self._free.popleft()
            except IndexError:  # another thread had it
                break
            if n_bytes <= len(memory) <= 2 * n_bytes:
                return memory
        return np.empty(n_bytes + n_bytes // 8, np.uint8)  # what follows may be a little larger


class _Lent:
    """What owns the memory of an array, and gives it back at its end."""

    def __init__(
        self, free: deque[Bytes], memory: Bytes, shape: tuple[int, ...], kind: np.dtype[Any]
    ) -> None:
        self._free, self._memory = free, memory
        place = memory.__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "data": place, "shape": shape, "typestr": kind.str}

    def __del__(self) -> None:
        self._free.append(self._memory)
