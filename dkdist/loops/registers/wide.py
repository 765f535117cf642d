"""Vectors as long as the processor has them.

LLVM makes loops of vectors half as long as they could be on processors whose longest ones once slowed all else down.
Long loops over single-precision numbers take up to two fifths less time with the longest.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's


@_primitive
def wide(typing):  # type: ignore[no-untyped-def]
    """Let the loops of this function, one that Python calls, be made of vectors of up to 512 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set.add(
            builder.function.attributes, '"prefer-vector-width"="512"'
        )  # llvmlite's own `add` does not know it
        return context.get_dummy_value()

    return types.void(), generate
