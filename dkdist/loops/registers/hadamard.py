"""Hadamard transforms of single rows, in vector registers.

    H_1 = 1,   H_2R = [[H_R, H_R], [H_R, -H_R]]

A row of L numbers, a power of two from 16 on, stays in the first-level cache (4 KB for L = 1024). First go the levels
within parts of 64 numbers, which fill eight registers, then up to four levels across the parts at a time:

    across_R(v, step, j)      H_R over the R vectors v[j + k step : j + k step + 8], k = 0 .. R - 1
    part_T(v, D, j)           H_T over the T numbers v[j : j + T] times the signs D[j : j + T]

Additions come in a fixed order and products are by 1 and -1, hence exact: the bits are the same on every processor, and
those of a row depend on no other row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dkdist.loops.compile import inlined
from dkdist.loops.registers.vectors import FREE, addresses, loaded, shuffled, write

LANES, PART = 8, 64


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
    """H_8 of each vector: number i becomes v[i ^ h] + s_i v[i], where s_i is -1 if i has the bit h."""
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
    def part(typing, v, D, j):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, signs, first = arguments
            step = ir.Constant(first.type, LANES)
            at = addresses(context, builder, v, (array, first, step), R)
            numbers = loaded(builder, at, LANES)
            flips = loaded(builder, addresses(context, builder, D, (signs, first, step), R), LANES)
            flipped = [builder.fmul(a, b, flags=FREE) for a, b in zip(numbers, flips, strict=True)]
            write(builder, _over(builder, _within(builder, flipped)), at)
            return context.get_dummy_value()

        return types.void(v, D, types.intp), generate

    return part


across_2, across_4, across_8, across_16 = (_across(R) for R in (2, 4, 8, 16))
part_16, part_32, part_64 = (_part(R) for R in (2, 4, 8))


@inlined()
def _within_parts(v, D):  # type: ignore[no-untyped-def]
    if len(v) >= PART:
        for j in range(0, len(v), PART):
            part_64(v, D, j)
    elif len(v) == 32:
        part_32(v, D, 0)
    else:
        part_16(v, D, 0)


@inlined()
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


@inlined()
def hadamard(v, D):  # type: ignore[no-untyped-def]
    """v <- H D v for v (L,) float32, contiguous, and signs D (L,)."""
    _within_parts(v, D)
    _across_parts(v)
