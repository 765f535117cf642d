"""Array types, reuse of the memory of large arrays, and compiled access to arrays without reference counting.

The operating system zeroes every new page, which takes as long as filling it. glibc reuses freed arrays of up to 32 MiB
(`dkdist._runtime.process.keep_freed_memory`); `LargeArrays` reuses larger ones.
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


# glibc returns larger freed arrays to the system (https://man7.org/linux/man-pages/man3/mallopt.3.html)
MIN_REUSED_BYTES = 32 * 2**20
MAX_UNUSED_BUFFERS = 8  # limits unused memory (tests/loops/test_large_arrays.py)


class LargeArrays:
    """Pool of memory for large arrays; memory returns to the pool after the last view of its array.

    ``unused`` is a list of free memory during a run, else None. If the list is replaced, memory in use is released
    with its last view. The pool never holds more memory than the maximum in use at one time.
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
            memory = unused.pop()  # list.pop is atomic in CPython
        except IndexError:
            memory = np.empty(0, np.uint8)
        # a buffer of another run may be too small or waste memory
        if not n_bytes <= memory.nbytes <= 1.25 * n_bytes:
            memory = np.empty(n_bytes, np.uint8)
        # views reference this array, not the memory
        flat = np.frombuffer(memory.data, dtype, math.prod(shape))
        weakref.finalize(flat, _keep_memory, unused, memory).atexit = False
        return flat.reshape(shape)


def _keep_memory(unused: list[Array], memory: Array) -> None:
    if len(unused) < MAX_UNUSED_BUFFERS:
        unused.append(memory)


LARGE = LargeArrays()


_intrinsic: Any = intrinsic  # Numba's type hints count the typing context as an argument


def _without_owner(context: Any, builder: Any, numba_type: Any, value: Any) -> Any:
    if isinstance(numba_type, types.BaseTuple):
        element_types: Any = numba_type
        elements: Any = cgutils.unpack_tuple(builder, value, len(numba_type))  # type: ignore[no-untyped-call]
        items = [
            _without_owner(context, builder, *item) for item in zip(element_types, elements, strict=True)
        ]
        return context.make_tuple(builder, numba_type, items)
    if not isinstance(numba_type, types.Array):
        return value
    array = cgutils.create_struct_proxy(numba_type)(context, builder, value=value)  # type: ignore[no-untyped-call]
    for field in ("meminfo", "parent"):
        setattr(array, field, cgutils.get_null_value(getattr(array, field).type))  # type: ignore[no-untyped-call]
    return array._getvalue()


@_intrinsic
def borrowed(typing, array):  # type: ignore[no-untyped-def]
    """Return an array, or tuple of arrays, without reference counting; the caller must keep it alive.

    Numba counts references for every slice and argument: two atomic operations of about 10 ns, more than
    the work on short slices.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, array, arguments[0])

    return array(array), generate
