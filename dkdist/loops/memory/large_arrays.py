"""Arrays so large that the C library gives their memory back to the system each time: it is kept for the next one.

The system zeroes every page that it hands out, which takes as long as filling it. glibc keeps what is freed up to
32 MiB an array (`dkdist.execution.processes.process.keep_freed_memory`), and nothing larger.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from dkdist.loops.array_types import Array

LEAST_BYTES = 32 * 2**20
MOST_KEPT = 8  # pieces of memory that nobody uses


class LargeArrays:
    """Memory of large arrays, which is there again as soon as nobody has a view of them.

    ``unused`` is what is kept, a list while a run is under way; None, where nothing is. Memory that is still used when
    another list takes its place is let go with its last view. There is never more than was used at once.
    """

    def __init__(self) -> None:
        self.unused: list[Array] | None = None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """``np.empty(shape, dtype)``."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        unused = self.unused
        if unused is None or n_bytes <= LEAST_BYTES:
            return np.empty(shape, dtype)
        try:
            memory = unused.pop()  # a whole step, in any thread
        except IndexError:
            memory = np.empty(0, np.uint8)
        if not n_bytes <= memory.nbytes <= 1.25 * n_bytes:  # of another run
            memory = np.empty(n_bytes, np.uint8)
        flat = np.frombuffer(memory.data, dtype, math.prod(shape))  # views hold it, and not the memory
        weakref.finalize(flat, _keep, unused, memory).atexit = False
        return flat.reshape(shape)


def _keep(unused: list[Array], memory: Array) -> None:
    if len(unused) < MOST_KEPT:
        unused.append(memory)


LARGE = LargeArrays()
