"""Hadamard transforms of single rows, in vector registers.

    H_1 = 1,   H_2R = [[H_R, H_R], [H_R, -H_R]]

A row of L numbers, a power of two from 16 on, stays in the first-level cache (4 KB for L = 1024). First go the levels
within tiles of 64 numbers, which fill eight registers, then up to four levels across the tiles at a time. Plain loops
cannot say that so that compilers keep it in registers; two kinds of functions here, which work in place, can:

    across_R(v, step, j)   H_R over the R vectors v[j + k step : j + k step + 8], k = 0 .. R - 1
    tile_T(v, D, j)        H_T D over the T numbers v[j : j + T], with signs D

Vectors have 8 numbers: one register with AVX and wider, two with SSE and NEON, which LLVM makes of them by itself, so
that there is no other code for other processors. Additions come in a fixed order and products are by 1 and -1, hence
exact: the bits are the same on every processor, and those of a row depend on no other row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dkdist.loops.compile import inlined

WIDTH, TILE = 8, 64
VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
INDICES = ir.VectorType(ir.IntType(32), WIDTH)
FREE = ("contract", "nsz", "nnan", "ninf")


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of the vector that begins at ``array[index]``."""
    first = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(first, [index]), VECTOR.as_pointer())


def _load(builder: Any, address: Any) -> Any:
    vector = builder.load(address)
    vector.align = 4
    return vector


def _store_all(builder: Any, vectors: Sequence[Any], addresses: Sequence[Any]) -> None:
    for vector, address in zip(vectors, addresses, strict=True):
        builder.store(vector, address).align = 4


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
    while h < WIDTH:
        sign = ir.Constant(VECTOR, [-1.0 if i & h else 1.0 for i in range(WIDTH)])
        swap = ir.Constant(INDICES, [i ^ h for i in range(WIDTH)])
        for k, v in enumerate(made):
            other = builder.shuffle_vector(v, ir.Constant(VECTOR, ir.Undefined), swap)
            made[k] = builder.fadd(builder.fmul(v, sign, flags=FREE), other, flags=FREE)
        h *= 2
    return made


def _across(R: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (v, step, j), kind = arguments, signature.args[0]
        places = [builder.add(j, builder.mul(step, ir.Constant(j.type, k))) for k in range(R)]
        addresses = [_pointer(context, builder, kind, v, place) for place in places]
        _store_all(builder, _over(builder, [_load(builder, address) for address in addresses]), addresses)
        return context.get_dummy_value()

    @intrinsic
    def across(typing, v, step, j):  # type: ignore[no-untyped-def]
        return types.void(v, types.intp, types.intp), generate

    return across


def _tile(R: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v, D, j = arguments
        places = [builder.add(j, ir.Constant(j.type, WIDTH * k)) for k in range(R)]
        addresses, signs = (
            [_pointer(context, builder, kind, array, place) for place in places]
            for kind, array in zip(signature.args, (v, D), strict=False)
        )
        flipped = [
            builder.fmul(_load(builder, at), _load(builder, sign), flags=FREE)
            for at, sign in zip(addresses, signs, strict=True)
        ]
        _store_all(builder, _over(builder, _within(builder, flipped)), addresses)
        return context.get_dummy_value()

    @intrinsic
    def tile(typing, v, D, j):  # type: ignore[no-untyped-def]
        return types.void(v, D, types.intp), generate

    return tile


across_2, across_4, across_8, across_16 = (_across(R) for R in (2, 4, 8, 16))
tile_16, tile_32, tile_64 = (_tile(R) for R in (2, 4, 8))


@inlined()
def _within_tiles(v, D):  # type: ignore[no-untyped-def]
    if len(v) >= TILE:
        for j in range(0, len(v), TILE):
            tile_64(v, D, j)
    elif len(v) == 32:
        tile_32(v, D, 0)
    else:
        tile_16(v, D, 0)


@inlined()
def _across_tiles(v):  # type: ignore[no-untyped-def]
    step, left = TILE, len(v) // TILE
    while left >= 16:
        for start in range(0, len(v), 16 * step):
            for j in range(start, start + step, WIDTH):
                across_16(v, step, j)
        step, left = 16 * step, left // 16
    if left == 8:
        for j in range(0, step, WIDTH):
            across_8(v, step, j)
    elif left == 4:
        for j in range(0, step, WIDTH):
            across_4(v, step, j)
    elif left == 2:
        for j in range(0, step, WIDTH):
            across_2(v, step, j)


@inlined()
def hadamard(v, D):  # type: ignore[no-untyped-def]
    """v <- H D v for v (L,) float32, contiguous, and signs D (L,)."""
    _within_tiles(v, D)
    _across_tiles(v)
