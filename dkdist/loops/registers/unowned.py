"""Arrays that nobody counts: parts of them cost nothing.

numba counts who holds an array, and a part of an array holds it too: two atomic steps of some ten nanoseconds for
every part that a loop takes, which is more than short parts take to go through. Of an array without an owner nothing is
counted.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils
from numba.extending import intrinsic

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's


@_primitive
def unowned(typing, array):  # type: ignore[no-untyped-def]
    """The same array, for as long as the caller holds it: it is not kept alive by this one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = cgutils.create_struct_proxy(array)(context, builder, value=arguments[0])  # type: ignore[no-untyped-call]
        for part in ("meminfo", "parent"):
            setattr(given, part, cgutils.get_null_value(getattr(given, part).type))  # type: ignore[no-untyped-call]
        return given._getvalue()

    return array(array), generate
