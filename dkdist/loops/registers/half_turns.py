"""Sines and cosines of phases in half turns, times one length, in vector registers.

    a sin(pi v),  a cos(pi v),     v = k + r,  |r| <= 1/2:   (-1)^k r S(r^2),  (-1)^k C(r^2)

S and C are polynomials times a, so that nothing is multiplied by a, and the sign is a bit of r and of C. That takes 18
operations where `elementary.sincospi` and two products take 23. S has 5 terms, with an error of 3.4e-9 a of the sine,
and C has 5, with one of 5.3e-8 a, and C(0) is a. With what is rounded, errors stay below 2.5e-7 a; where a processor
rounds products before it adds, below 3e-7 a. Nothing is rounded in the reduction of v, for any |v| < 2^31.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dkdist.loops.registers.vectors import (
    FREE,
    INDEX,
    Tile,
    addresses,
    fma,
    packed,
    shuffled,
    unpacked,
    vector,
    write,
)

SINE = (3.14159258, -5.16770688, 2.55003138, -0.59804517, 0.07722013)
COSINE = (1.0, -4.93479552, 4.05845134, -1.33209386, 0.22008064)

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's
_sized: Any = intrinsic(prefer_literal=True)


@_sized
def series(typing, length, lanes):  # type: ignore[no-untyped-def]
    """The terms of S and C times a length, all lanes the same: of a float64 length, they are rounded once."""
    made = Tile(len(SINE + COSINE), lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing, found = ir.Constant(vector(made.lanes), ir.Undefined), []
        for term in SINE + COSINE:
            product = builder.fmul(arguments[0], ir.Constant(ir.DoubleType(), term))
            one = builder.insert_element(nothing, builder.fptrunc(product, ir.FloatType()), INDEX(0))
            found.append(shuffled(builder, one, nothing, [0] * made.lanes))
        return packed(builder, found)

    return made(types.float64, lanes), generate


def _polynomial(builder: Any, terms: Any, z: Any) -> Any:
    *others, total = terms
    for term in reversed(others):
        total = fma(builder, total, z, term)
    return total


def _wave(builder: Any, v: Any, terms: Any) -> tuple[Any, Any]:
    """a sin(pi v), a cos(pi v) of one vector of phases."""
    kind, whole = v.type, ir.VectorType(INDEX, v.type.count)
    rint = ir.FunctionType(kind, [kind])
    called = cgutils.get_or_insert_function(builder.module, rint, f"llvm.rint.v{kind.count}f32")  # type: ignore[no-untyped-call]
    k = builder.call(called, [v])
    r = builder.fsub(v, k, flags=FREE)
    sign = builder.shl(builder.fptosi(k, whole), ir.Constant(whole, [31] * kind.count))
    z = builder.fmul(r, r, flags=FREE)
    sine, cosine = (_polynomial(builder, terms[i : i + 5], z) for i in (0, 5))
    r, cosine = (builder.bitcast(builder.xor(builder.bitcast(x, whole), sign), kind) for x in (r, cosine))
    return builder.fmul(sine, r, flags=FREE), cosine


@_primitive
def write_waves(typing, phases, lengths, terms, v, i, step, apart):  # type: ignore[no-untyped-def]
    """The k-th vector of phases, times the one vector of lengths: sines to v[i + k step], cosines ``apart`` further.

    Each of them is written as soon as it is there. Of ``terms`` by `series`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, (each,), known = (
            unpacked(builder, kind, tile)
            for kind, tile in zip((phases, lengths, terms), arguments, strict=False)
        )
        array, first, step, apart = arguments[3:]
        for x, at in zip(given, addresses(context, builder, v, (array, first, step), phases.n), strict=True):
            made = _wave(builder, builder.fmul(x, each), known)  # rounded before k is subtracted
            write(builder, made, [at, builder.gep(at, [apart])])
        return context.get_dummy_value()

    return types.void(phases, lengths, terms, v, types.intp, types.intp, types.intp), generate
