"""Products of Hadamard transforms and signs with some rows at once, in vector registers.

    H D_3 H D_2 H D_1 x,    H_1 = 1,   H_2R = [[H_R, H_R], [H_R, -H_R]]

Rows of L numbers, a power of two from 16 on, lie side by side (`side_by_side.py`): only the first two levels are within
vectors, where each addition needs a shuffle, and signs are read once for all rows. 4 rows of L = 1024 take 16 KB, which
stay in the first-level cache. First come the levels within parts that fit into registers, then up to four levels across
the parts at a time:

    across_R(v, step, j)         H_R over the R vectors v[j + k step : j + k step + lanes], k = 0 .. R - 1
    part_R(x, D, v, j)           of R vectors from v[j] on: v <- H D x

A part has 16 vectors of 16 lanes where a processor has 32 registers, and 8 vectors of 8 lanes where it has 16.
Additions come in one order whatever the vectors are, and products are by 1 and -1, hence exact: the bits are the same
on every processor, and those of a row depend on no other row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dkdist.loops.compile import inlined
from dkdist.loops.elementary import smaller
from dkdist.loops.registers.side_by_side import LANES, OWN, ROWS, repeated
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

MOST, LEAST = 16 if MANY_REGISTERS else 8, 4  # vectors of a part, and of one of rows shorter than that
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
    """H of each row's numbers in a vector: number i becomes v[i ^ h] + s_i v[i], where s_i is -1 if i has the bit h."""
    made, h = list(vectors), 1
    while h < OWN:
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
    def part(typing, x, D, v, j):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            *arrays, first = arguments
            firsts = first, builder.sdiv(first, ir.Constant(first.type, ROWS)), first
            row, signs, out = (
                addresses(context, builder, kind, (array, i, ir.Constant(first.type, step)), R)
                for kind, array, i, step in zip((x, D, v), arrays, firsts, (LANES, OWN, LANES), strict=True)
            )
            numbers, flips = loaded(builder, row, LANES), repeated(builder, signs)
            flipped = [builder.fmul(a, b, flags=FREE) for a, b in zip(numbers, flips, strict=True)]
            write(builder, _over(builder, _within(builder, flipped)), out)
            return context.get_dummy_value()

        return types.void(x, D, v, types.intp), generate

    return part


across_2, across_4, across_8, across_16 = (_across(R) for R in (2, 4, 8, 16))
part_least, part_most = _part(LEAST), _part(MOST)


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
    used, first = smaller(len(v), (m * ROWS + PART - 1) // PART * PART), D[0]
    for j in range(0, used, PART):
        part_most(x, first, v, j)
    for j in range(used, len(v), LANES):  # H 0 = 0
        store(zeros(1, LANES), v, j, LANES)
    _across_parts(v)
    for k in range(1, 3):
        signs = D[k]
        for j in range(0, len(v), PART):
            part_most(v, signs, v, j)
        _across_parts(v)


@inlined(early=False)
def _in_small_parts(x, D, v):  # type: ignore[no-untyped-def]
    """Of rows that are shorter than a part of most vectors: one or two of least."""
    for j in range(len(v)):
        v[j] = x[j]
    for k in range(3):
        for j in range(0, len(v), LEAST * LANES):
            part_least(v, D[k], v, j)
        if len(v) > LEAST * LANES:
            for j in range(0, LEAST * LANES, LANES):
                across_2(v, LEAST * LANES, j)


@inlined(early=False)
def structured_products(x, m, D, v):  # type: ignore[no-untyped-def]
    """v <- H D_3 H D_2 H D_1 x for `ROWS` rows side by side.

    x and v (`ROWS` L,) float32, each row of x with zeros from number m on, and signs D (3, L), contiguous.
    """
    if len(v) < PART:
        _in_small_parts(x, D, v)
    else:
        _in_parts(x, m, D, v)
