"""Four rows of one length at once: their products with another row, and with each other, in registers.

    products(x0, x1, x2, x3, v)        x0 v, x1 v, x2 v, x3 v
    all_products(x0, x1, x2, x3, v)    the same, and x0 x1, x0 x2, x0 x3, x1 x2, x1 x3, x2 x3

Each number is read once for all products, and each sum has a register; its lanes are added in one order, and then what
fills no vector. A compiler would take two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dkdist.loops.registers.vectors import MANY_REGISTERS, fma, shuffled

BYTES = 64 if MANY_REGISTERS else 32  # of a vector
WITH_ANOTHER = tuple((i, 4) for i in range(4))  # pairs of rows, the fifth being the other one
AMONG = tuple(combinations(range(4), 2))

Pairs = Sequence[tuple[int, int]]

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's


def _products_of(pairs: Pairs, x: Any, arguments: Sequence[Any]) -> Any:
    """The type of the products of some pairs of rows of the type ``x``, and what makes them."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        arrays = [context.make_array(x)(context, builder, row) for row in given]
        rows, kind = [array.data for array in arrays], context.get_value_type(x.dtype)
        length = builder.extract_value(arrays[0].shape, 0)
        lanes = BYTES * 8 // x.dtype.bitwidth
        whole = builder.and_(length, ir.Constant(length.type, -lanes))
        vectors = _summed(builder, rows, pairs, (length.type(0), whole, lanes), ir.VectorType(kind, lanes))
        ones = [_total(builder, vector) for vector in vectors]
        left = _summed(builder, rows, pairs, (whole, length, 1), ir.VectorType(kind, 1))
        nothing = ir.IntType(32)(0)
        last = [builder.extract_element(vector, nothing) for vector in left]
        totals = [builder.fadd(a, b) for a, b in zip(ones, last, strict=True)]
        return context.make_tuple(builder, signature.return_type, totals)

    made: Any = types.UniTuple
    return made(x.dtype, len(pairs))(*arguments), generate


def _summed(builder: Any, rows: Sequence[Any], pairs: Pairs, run: tuple[Any, Any, int], kind: Any) -> Any:
    """The sums of products of vectors of rows, from a place to another in steps of a vector."""
    start, stop, lanes = run
    sums = [cgutils.alloca_once_value(builder, ir.Constant(kind, None)) for _ in pairs]  # type: ignore[no-untyped-call]
    each: Any = cgutils.for_range_slice
    with each(builder, start, stop, start.type(lanes)) as (place, _):
        found = [builder.load(builder.bitcast(builder.gep(row, [place]), kind.as_pointer())) for row in rows]
        for vector in found:
            vector.align = 4
        for total, (i, j) in zip(sums, pairs, strict=True):
            builder.store(fma(builder, found[i], found[j], builder.load(total)), total)
    return [builder.load(total) for total in sums]


def _total(builder: Any, vector: Any) -> Any:
    """The sum of all lanes: the second half is added to the first, again and again."""
    n = vector.type.count
    while n > 1:
        n //= 2
        low, high = (shuffled(builder, vector, vector, range(a, a + n)) for a in (0, n))
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.IntType(32)(0))


@_primitive
def products(typing, x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    """The products of four rows with another: all float32 or all float64, in C order, and of one length."""
    return _products_of(WITH_ANOTHER, x0, (x0, x1, x2, x3, v))


@_primitive
def all_products(typing, x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    """The products of four rows with another, and of each two of them."""
    return _products_of(WITH_ANOTHER + AMONG, x0, (x0, x1, x2, x3, v))
