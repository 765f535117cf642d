"""Products of Hadamard transforms and signs with some rows at once, in vector registers.

    H D_3 H D_2 H D_1 x,    H_1 = 1,   H_2R = [[H_R, H_R], [H_R, -H_R]]

Rows of L numbers, a power of two from 16 on, lie side by side (`side_by_side.py`): only the first two levels are within
vectors, where each addition needs a shuffle, and signs are read once for all rows. 4 rows of L = 1024 take 16 KB, which
stay in the first-level cache. First come the levels within parts that fit into registers, then up to four levels across
the parts at a time:

    transform_columns(tile)      H_R over the R vectors of a tile, lane by lane
    transform_rows(tile)         H_4 over the four numbers that each row has in a vector

A part has 16 vectors of 16 lanes where a processor has 32 registers, and 8 vectors of 8 lanes where it has 16.
Additions come in one order whatever the vectors are, and products are by 1 and -1, hence exact: the bits are the same
on every processor, and those of a row depend on no other row.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from dkdist._numba.compilation import inlined
from dkdist._numba.elementary import smaller
from dkdist._numba.simd import (
    FREE,
    LANES,
    MANY_REGISTERS,
    OWN,
    ROWS,
    load,
    packed,
    repeated,
    shuffled,
    store,
    times,
    unpacked,
    zeros,
)

MOST, LEAST = 16 if MANY_REGISTERS else 8, 4  # vectors of a part, and of one of rows shorter than that
PART = MOST * LANES

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's


@_primitive
def transform_columns(typing, tile):  # type: ignore[no-untyped-def]
    """H_R over the R vectors of a tile, neighbours first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made, h = unpacked(builder, tile, arguments[0]), 1
        while h < len(made):
            for i in range(0, len(made), 2 * h):
                for j in range(i, i + h):
                    a, b = made[j], made[j + h]
                    made[j], made[j + h] = builder.fadd(a, b, flags=FREE), builder.fsub(a, b, flags=FREE)
            h *= 2
        return packed(builder, made)

    return tile(tile), generate


@_primitive
def transform_rows(typing, tile):  # type: ignore[no-untyped-def]
    """H of each row's numbers in a vector: number i becomes v[i ^ h] + s_i v[i], where s_i is -1 if i has the bit h."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made, h = unpacked(builder, tile, arguments[0]), 1
        while h < OWN:
            sign = ir.Constant(made[0].type, [-1.0 if i & h else 1.0 for i in range(LANES)])
            swap = [i ^ h for i in range(LANES)]
            for k, v in enumerate(made):
                kept = builder.fmul(v, sign, flags=FREE)
                made[k] = builder.fadd(kept, shuffled(builder, v, v, swap), flags=FREE)
            h *= 2
        return packed(builder, made)

    return tile(tile), generate


@inlined(early=False)
def _across_parts(v):  # type: ignore[no-untyped-def]
    step, left = PART, len(v) // PART
    while left >= 16:
        for start in range(0, len(v), 16 * step):
            for j in range(start, start + step, LANES):
                store(transform_columns(load(v, j, step, 16, LANES)), v, j, step)
        step, left = 16 * step, left // 16
    if left == 8:
        for j in range(0, step, LANES):
            store(transform_columns(load(v, j, step, 8, LANES)), v, j, step)
    elif left == 4:
        for j in range(0, step, LANES):
            store(transform_columns(load(v, j, step, 4, LANES)), v, j, step)
    elif left == 2:
        for j in range(0, step, LANES):
            store(transform_columns(load(v, j, step, 2, LANES)), v, j, step)


@inlined(early=False)
def _part(x, D, v, j):  # type: ignore[no-untyped-def]
    """v <- H D x in the part of most vectors from j on."""
    numbers = times(load(x, j, LANES, MOST, LANES), repeated(D, j // ROWS, MOST))
    store(transform_columns(transform_rows(numbers)), v, j, LANES)


@inlined(early=False)
def _in_parts(x, m, D, v):  # type: ignore[no-untyped-def]
    used, first = smaller(len(v), (m * ROWS + PART - 1) // PART * PART), D[0]
    for j in range(0, used, PART):
        _part(x, first, v, j)
    for j in range(used, len(v), LANES):  # H 0 = 0
        store(zeros(1, LANES), v, j, LANES)
    _across_parts(v)
    for k in range(1, 3):
        signs = D[k]
        for j in range(0, len(v), PART):
            _part(v, signs, v, j)
        _across_parts(v)


@inlined(early=False)
def _in_small_parts(x, D, v):  # type: ignore[no-untyped-def]
    """Of rows that are shorter than a part of most vectors: one or two of least."""
    for j in range(len(v)):
        v[j] = x[j]
    for k in range(3):
        for j in range(0, len(v), LEAST * LANES):
            numbers = times(load(v, j, LANES, LEAST, LANES), repeated(D[k], j // ROWS, LEAST))
            store(transform_columns(transform_rows(numbers)), v, j, LANES)
        if len(v) > LEAST * LANES:
            for j in range(0, LEAST * LANES, LANES):
                store(transform_columns(load(v, j, LEAST * LANES, 2, LANES)), v, j, LEAST * LANES)


@inlined(early=False)
def structured_products(x, m, D, v):  # type: ignore[no-untyped-def]
    """v <- H D_3 H D_2 H D_1 x for `ROWS` rows side by side.

    x and v (`ROWS` L,) float32, each row of x with zeros from number m on, and signs D (3, L), contiguous.
    """
    if len(v) < PART:
        _in_small_parts(x, D, v)
    else:
        _in_parts(x, m, D, v)
