"""Lines of a cache, 64 bytes each: arrays that begin with one, and lines that are asked for before they are written.

    to_line(v)                       numbers of a float32 array before the first that begins a line
    will_write(v, i, step, n)        v[i], v[i + step], ... are written soon: it need not be so, nor be in v

A vector of 64 bytes that lies in two lines is read and written twice. And a processor waits for lines that are not in
the first level at each store, one after the other, but gets those that it was told of together.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dkdist.loops.registers.vectors import INDEX, addresses

LINE = 16  # float32 numbers of a line

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's
_sized: Any = intrinsic(prefer_literal=True)


@_primitive
def to_line(typing, v):  # type: ignore[no-untyped-def]
    """How many numbers of an array come before the first that begins a line."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(types.intp)
        begin = builder.ptrtoint(context.make_array(v)(context, builder, arguments[0]).data, kind)
        left = builder.and_(builder.neg(begin), ir.Constant(kind, 4 * LINE - 1))
        return builder.lshr(left, ir.Constant(kind, 2))

    return types.intp(v), generate


@_sized
def will_write(typing, v, i, step, n):  # type: ignore[no-untyped-def]
    """The lines of v[i], v[i + step], ... are wanted; n is written as a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), (byte, INDEX, INDEX, INDEX))
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        for address in addresses(context, builder, v, arguments[:3], n.literal_value):
            builder.call(ask, [builder.bitcast(address, byte), INDEX(1), INDEX(3), INDEX(1)])
        return context.get_dummy_value()

    return types.void(v, types.intp, types.intp, n), generate
