"""Arrays that nobody counts: parts of them cost nothing.

numba counts who holds an array, and a part of an array holds it too, as does a function that it is given to: two atomic
steps of some ten nanoseconds for every part that a loop takes, which is more than short parts take to go through. Of an
array without an owner nothing is counted.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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
def unowned(typing, array):  # type: ignore[no-untyped-def]
    """The same array, or tuple of arrays, for as long as the caller holds it: it is not kept alive by this one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, array, arguments[0])

    return array(array), generate
