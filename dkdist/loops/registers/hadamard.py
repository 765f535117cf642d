"""Products of Hadamard transforms and signs with single rows, in vector registers.

    H D_3 H D_2 H D_1 x,    H_1 = 1,   H_2R = [[H_R, H_R], [H_R, -H_R]]

A row of L numbers, a power of two from 16 on, stays in the first-level cache (4 KB for L = 1024). One that fits into
registers stays there through all three transforms. Of a longer one go first the levels within parts that fit, then up
to four levels across the parts at a time:

    across_R(v, step, j)         H_R over the R vectors v[j + k step : j + k step + lanes], k = 0 .. R - 1
    part_R(x, D, v, j)           of R vectors of numbers from j on: v <- H D x
    all_R(x, D, v)               the same, L = R lanes, three times, with D (3, L)

Registers hold 256 numbers as 16 vectors of 16 lanes where a processor has 32 of them, and 64 as 8 vectors of 8 lanes
where it has 16. Additions come in one order whatever the vectors are, and products are by 1 and -1, hence exact: the
bits are the same on every processor, and those of a row depend on no other row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dkdist.loops.compile import inlined
from dkdist.loops.registers.vectors import (
    FREE,
    MANY_REGISTERS,
    addresses,
    loaded,
    shuffled,
    store,
    write,
    zeros,
)

LANES, MOST = (16, 16) if MANY_REGISTERS else (8, 8)  # of a vector, and vectors of a part
PART = MOST * LANES


def _over(builder: Any, vectors: Sequence[Any]) -> list[Any]:
    """H_R over a list of R vectors, neighbours first."""
    made, h = list(vectors), 1
    while h < len(made):
        for i in range(0, len(made), 2 * h):
            for j in range(i, i + h):
                a, b = made[j], made[j + h]
                made[j], made[j + h] = builder.fadd(a, b, flags=FREE), builder.fsub(a, b, flags=FREE)
        h *= 2
    return made


def _within(builder: Any, vectors: Sequence[Any]) -> list[Any]:
    """H of each vector: number i becomes v[i ^ h] + s_i v[i], where s_i is -1 if i has the bit h."""
    made, h = list(vectors), 1
    while h < LANES:
        sign = ir.Constant(made[0].type, [-1.0 if i & h else 1.0 for i in range(LANES)])
        swap = [i ^ h for i in range(LANES)]
        for k, v in enumerate(made):
            made[k] = builder.fadd(
                builder.fmul(v, sign, flags=FREE), shuffled(builder, v, v, swap), flags=FREE
            )
        h *= 2
    return made


def _transformed(builder: Any, vectors: Sequence[Any], signs: Sequence[Any]) -> list[Any]:
    """H D over the numbers of all vectors."""
    flipped = [builder.fmul(a, b, flags=FREE) for a, b in zip(vectors, signs, strict=True)]
    return _over(builder, _within(builder, flipped))


def _across(R: int) -> Any:
    @intrinsic
    def across(typing, v, step, j):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, apart, first = arguments
            at = addresses(context, builder, v, (array, first, apart), R)
            write(builder, _over(builder, loaded(builder, at, LANES)), at)
            return context.get_dummy_value()

        return types.void(v, types.intp, types.intp), generate

    return across


def _part(R: int) -> Any:
    @intrinsic
    def part(typing, x, D, v, j):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            step = ir.Constant(arguments[3].type, LANES)
            row, signs, out = (
                addresses(context, builder, kind, (array, arguments[3], step), R)
                for kind, array in zip((x, D, v), arguments, strict=False)
            )
            numbers, flips = loaded(builder, row, LANES), loaded(builder, signs, LANES)
            write(builder, _transformed(builder, numbers, flips), out)
            return context.get_dummy_value()

        return types.void(x, D, v, types.intp), generate

    return part


def _all(R: int) -> Any:
    @intrinsic
    def three(typing, x, D, v):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            index = context.get_value_type(types.intp)
            first, step = ir.Constant(index, 0), ir.Constant(index, LANES)
            row, signs, out = (
                addresses(context, builder, kind, (array, first, step), n)
                for kind, array, n in zip((x, D, v), arguments, (R, 3 * R, R), strict=True)
            )
            numbers = loaded(builder, row, LANES)
            for k in range(3):
                flips = loaded(builder, signs[k * R : (k + 1) * R], LANES)
                numbers = _transformed(builder, numbers, flips)
            write(builder, numbers, out)
            return context.get_dummy_value()

        return types.void(x, D, v), generate

    return three


across_2, across_4, across_8, across_16 = (_across(R) for R in (2, 4, 8, 16))
part_most = _part(MOST)
all_16, all_32, all_64, all_128, all_256 = (_all(max(1, L // LANES)) for L in (16, 32, 64, 128, 256))


@inlined(early=False)
def _across_parts(v):  # type: ignore[no-untyped-def]
    step, left = PART, len(v) // PART
    while left >= 16:
        for start in range(0, len(v), 16 * step):
            for j in range(start, start + step, LANES):
                across_16(v, step, j)
        step, left = 16 * step, left // 16
    if left == 8:
        for j in range(0, step, LANES):
            across_8(v, step, j)
    elif left == 4:
        for j in range(0, step, LANES):
            across_4(v, step, j)
    elif left == 2:
        for j in range(0, step, LANES):
            across_2(v, step, j)


@inlined(early=False)
def _in_parts(x, m, D, v):  # type: ignore[no-untyped-def]
    """One transform after the other, written out: as a loop over them it takes a fifth more."""
    L = len(v)
    used = min(L, (m + PART - 1) // PART * PART)
    first, second, third = D[0], D[1], D[2]
    for j in range(0, used, PART):
        part_most(x, first, v, j)
    for j in range(used, L, LANES):  # H 0 = 0
        store(zeros(1, LANES), v, j, LANES)
    _across_parts(v)
    for j in range(0, L, PART):
        part_most(v, second, v, j)
    _across_parts(v)
    for j in range(0, L, PART):
        part_most(v, third, v, j)
    _across_parts(v)


@inlined(early=False)
def structured_product(x, m, D, v):  # type: ignore[no-untyped-def]
    """v <- H D_3 H D_2 H D_1 x for x (L,) float32 with zeros from x[m] on, v (L,), and signs D (3, L), contiguous."""
    L = len(v)
    if L == 16:
        all_16(x, D, v)
    elif L == 32:
        all_32(x, D, v)
    elif L == 64:
        all_64(x, D, v)
    elif PART == 256 and L == 128:
        all_128(x, D, v)
    elif PART == 256 and L == 256:
        all_256(x, D, v)
    else:
        _in_parts(x, m, D, v)
