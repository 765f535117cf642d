"""Arrays that nobody counts: parts of them cost nothing.

numba counts who holds an array, and a part of an array holds it too, as does a function that it is given to: two atomic
steps of some ten nanoseconds for every part that a loop takes, which is more than short parts take to go through. Of an
array without an owner nothing is counted.

The kinds of arrays that nearly everything here is made of.

Arrays so large that the C library gives their memory back to the system each time: it is kept for the next one.

The system zeroes every page that it hands out, which takes as long as filling it. glibc keeps what is freed up to
32 MiB an array (`dkdist._runtime.process.keep_freed_memory`), and nothing larger.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[Any]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U16 = NDArray[np.uint16]


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


_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        parts: Any = cgutils.unpack_tuple(builder, value, len(kind))  # type: ignore[no-untyped-call]
        made = [_without_owner(context, builder, *one) for one in zip(kinds, parts, strict=True)]
        return context.make_tuple(builder, kind, made)
    if not isinstance(kind, types.Array):
        return value
    given = cgutils.create_struct_proxy(kind)(context, builder, value=value)  # type: ignore[no-untyped-call]
    for part in ("meminfo", "parent"):
        setattr(given, part, cgutils.get_null_value(getattr(given, part).type))  # type: ignore[no-untyped-call]
    return given._getvalue()


@_primitive
def borrowed(typing, array):  # type: ignore[no-untyped-def]
    """The same array, or tuple of arrays, for as long as the caller holds it: it is not kept alive by this one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, array, arguments[0])

    return array(array), generate
