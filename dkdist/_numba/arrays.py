"""Array types, reuse of memory of large arrays, and arrays without reference counting in compiled functions.

The system zeroes every page that it hands out, which takes as long as filling it. glibc keeps freed arrays of up to
32 MiB (`dkdist._runtime.process.keep_freed_memory`); `LargeArrays` keeps larger ones.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dkdist._numba._numba_private import cgutils

Array = NDArray[Any]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U16 = NDArray[np.uint16]


# largest mmap threshold of glibc: it returns larger freed arrays (https://man7.org/linux/man-pages/man3/mallopt.3.html)
MIN_REUSED_BYTES = 32 * 2**20
MAX_UNUSED_BUFFERS = 8  # bounds the memory that waits for reuse (tests/loops/test_large_arrays.py)


class LargeArrays:
    """Pool of memory for large arrays; memory returns to the pool after the last view of its array.

    ``unused`` is a list of free memory during a run, else None. Memory in use when the list is replaced is released
    with its last view. The pool never holds more than was in use at once.
    """

    def __init__(self) -> None:
        self.unused: list[Array] | None = None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return ``np.empty(shape, dtype)``, from reused memory if the array is large and a run is active."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        unused = self.unused
        if unused is None or n_bytes <= MIN_REUSED_BYTES:
            return np.empty(shape, dtype)
        try:
            memory = unused.pop()  # atomic in CPython
        except IndexError:
            memory = np.empty(0, np.uint8)
        if not n_bytes <= memory.nbytes <= 1.25 * n_bytes:  # of another run
            memory = np.empty(n_bytes, np.uint8)
        flat = np.frombuffer(
            memory.data, dtype, math.prod(shape)
        )  # views reference this array, not the memory
        weakref.finalize(flat, _keep_memory, unused, memory).atexit = False
        return flat.reshape(shape)


def _keep_memory(unused: list[Array], memory: Array) -> None:
    if len(unused) < MAX_UNUSED_BUFFERS:
        unused.append(memory)


LARGE = LargeArrays()


_intrinsic: Any = intrinsic  # Numba's type hints count the typing context as an argument


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        parts: Any = cgutils.unpack_tuple(builder, value, len(kind))  # type: ignore[no-untyped-call]
        output = [_without_owner(context, builder, *one) for one in zip(kinds, parts, strict=True)]
        return context.make_tuple(builder, kind, output)
    if not isinstance(kind, types.Array):
        return value
    given = cgutils.create_struct_proxy(kind)(context, builder, value=value)  # type: ignore[no-untyped-call]
    for part in ("meminfo", "parent"):
        setattr(given, part, cgutils.get_null_value(getattr(given, part).type))  # type: ignore[no-untyped-call]
    return given._getvalue()


@_intrinsic
def borrowed(typing, array):  # type: ignore[no-untyped-def]
    """Return an array, or tuple of arrays, without reference counting; the caller must keep it alive.

    Numba counts references of every slice and argument: two atomic operations of some 10 ns, more than the work on
    short slices.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, array, arguments[0])

    return array(array), generate
