"""Single numbers in compiled loops, each an instruction or two.

    smaller(a, b), larger(a, b)      of two integers or two floats; of floats that are no NaN
    bits(x), number(i)               an int32 with the bits of a float32, and back
    root(x), nearest(x)              of a float: its square root, and the integer next to it (of two, the even one)

Python's and numpy's own words say the same, but for each of them and each type numba compiles a function of its own,
which takes longer than all that is done with it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's


def _chosen(typing: Any, a: Any, b: Any, comparison: str) -> Any:
    """What chooses a where it compares so with b."""
    kind = typing.unify_types(a, b)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        compare = builder.fcmp_ordered if isinstance(kind, types.Float) else builder.icmp_signed
        return builder.select(compare(comparison, *arguments), *arguments)

    return kind(kind, kind), generate


@_primitive
def smaller(typing, a, b):  # type: ignore[no-untyped-def]
    """The smaller of two numbers."""
    return _chosen(typing, a, b, "<")


@_primitive
def larger(typing, a, b):  # type: ignore[no-untyped-def]
    """The larger of two numbers."""
    return _chosen(typing, a, b, ">")


def _same_bits(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


@_primitive
def bits(typing, x):  # type: ignore[no-untyped-def]
    """The int32 with the bits of a float32."""
    return types.int32(types.float32), _same_bits


@_primitive
def number(typing, i):  # type: ignore[no-untyped-def]
    """The float32 with the bits of an int32."""
    return types.float32(types.int32), _same_bits


def _called(name: str, x: Any) -> Any:
    """What calls LLVM's function of this name for a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(x)
        told = f"llvm.{name}.f{x.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), told)  # type: ignore[no-untyped-call]
        return builder.call(function, arguments)

    return x(x), generate


@_primitive
def root(typing, x):  # type: ignore[no-untyped-def]
    """The square root of a float."""
    return _called("sqrt", x)


@_primitive
def nearest(typing, x):  # type: ignore[no-untyped-def]
    """The integer next to a float, as a float: of two, the even one."""
    return _called("rint", x)
