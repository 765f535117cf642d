"""Products of Hadamard transforms and signs with several interleaved rows, in vector registers.

    H D_3 H D_2 H D_1 x,    H_1 = 1,   H_2R = [[H_R, H_R], [H_R, -H_R]]

Rows have L numbers, a power of two >= 16, and are interleaved (`simd.transposed`): only the first two levels are within
vectors, where each addition needs a shuffle. Signs are read once for all rows. 4 rows of L = 1024 take 16 KB, which
fit in the L1 cache. Levels within parts that fit in registers come first, then up to four levels across parts at a
time:

    transform_columns(tile)      H_R over the R vectors of a tile, per lane
    transform_rows(tile)         H_4 over the four numbers of each row in a vector

A part has 16 vectors of 16 lanes on processors with 32 registers, and 8 vectors of 8 lanes on those with 16. The order
of additions does not depend on the vector length, and products with 1 and -1 are exact. So results are bitwise
identical on all processors, and each row is bitwise independent of the other rows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from dkdist._numba.compilation import inline_jit
from dkdist._numba.elementary import minimum
from dkdist._numba.simd import (
    FASTMATH_FLAGS,
    HAS_AVX512,
    LANES_PER_ROW,
    ROWS_PER_VECTOR,
    SIMD_WIDTH,
    load,
    load_repeated,
    pack,
    shuffle,
    store,
    times,
    unpack,
    zeros,
)

# vectors per part: half of the registers; short rows have fewer (python benchmarks/roofline.py features)
MAX_PART_VECTORS, MIN_PART_VECTORS = 16 if HAS_AVX512 else 8, 4
# float32 numbers per part (python benchmarks/roofline.py features)
PART_LENGTH = MAX_PART_VECTORS * SIMD_WIDTH

_intrinsic: Any = intrinsic  # Numba's type hints count the typing context as an argument


@_intrinsic
def transform_columns(typing, tile):  # type: ignore[no-untyped-def]
    """Apply H_R over the R vectors of a tile, adjacent vectors first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, h = unpack(builder, tile, arguments[0]), 1
        while h < len(vectors):
            for i in range(0, len(vectors), 2 * h):
                for j in range(i, i + h):
                    a, b = vectors[j], vectors[j + h]
                    vectors[j], vectors[j + h] = (
                        builder.fadd(a, b, flags=FASTMATH_FLAGS),
                        builder.fsub(a, b, flags=FASTMATH_FLAGS),
                    )
            h *= 2
        return pack(builder, vectors)

    return tile(tile), generate


@_intrinsic
def transform_rows(typing, tile):  # type: ignore[no-untyped-def]
    """Apply H within each row of a vector: v[i] becomes v[i ^ h] + s_i v[i], where s_i is -1 if i has the bit h."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, h = unpack(builder, tile, arguments[0]), 1
        while h < LANES_PER_ROW:
            sign = ir.Constant(vectors[0].type, [-1.0 if i & h else 1.0 for i in range(SIMD_WIDTH)])
            swap = [i ^ h for i in range(SIMD_WIDTH)]
            for k, v in enumerate(vectors):
                signed = builder.fmul(v, sign, flags=FASTMATH_FLAGS)
                vectors[k] = builder.fadd(signed, shuffle(builder, v, v, swap), flags=FASTMATH_FLAGS)
            h *= 2
        return pack(builder, vectors)

    return tile(tile), generate


@inline_jit(early=False)
def _transform_across_parts(v):  # type: ignore[no-untyped-def]
    step, n_remaining = PART_LENGTH, len(v) // PART_LENGTH
    while n_remaining >= 16:
        for start in range(0, len(v), 16 * step):
            for j in range(start, start + step, SIMD_WIDTH):
                store(transform_columns(load(v, j, step, 16, SIMD_WIDTH)), v, j, step)
        step, n_remaining = 16 * step, n_remaining // 16
    if n_remaining == 8:
        for j in range(0, step, SIMD_WIDTH):
            store(transform_columns(load(v, j, step, 8, SIMD_WIDTH)), v, j, step)
    elif n_remaining == 4:
        for j in range(0, step, SIMD_WIDTH):
            store(transform_columns(load(v, j, step, 4, SIMD_WIDTH)), v, j, step)
    elif n_remaining == 2:
        for j in range(0, step, SIMD_WIDTH):
            store(transform_columns(load(v, j, step, 2, SIMD_WIDTH)), v, j, step)


@inline_jit(early=False)
def _transform_part(x, D, v, j):  # type: ignore[no-untyped-def]
    """v <- H D x in the full part that starts at j."""
    numbers = times(
        load(x, j, SIMD_WIDTH, MAX_PART_VECTORS, SIMD_WIDTH),
        load_repeated(D, j // ROWS_PER_VECTOR, MAX_PART_VECTORS),
    )
    store(transform_columns(transform_rows(numbers)), v, j, SIMD_WIDTH)


@inline_jit(early=False)
def _transform_parts(x, m, D, v):  # type: ignore[no-untyped-def]
    n_used, first_signs = (
        minimum(len(v), (m * ROWS_PER_VECTOR + PART_LENGTH - 1) // PART_LENGTH * PART_LENGTH),
        D[0],
    )
    for j in range(0, n_used, PART_LENGTH):
        _transform_part(x, first_signs, v, j)
    for j in range(n_used, len(v), SIMD_WIDTH):  # unused vectors stay zero: H 0 = 0
        store(zeros(1, SIMD_WIDTH), v, j, SIMD_WIDTH)
    _transform_across_parts(v)
    for k in range(1, 3):
        signs = D[k]
        for j in range(0, len(v), PART_LENGTH):
            _transform_part(v, signs, v, j)
        _transform_across_parts(v)


@inline_jit(early=False)
def _transform_small_parts(x, D, v):  # type: ignore[no-untyped-def]
    """Transform rows that are shorter than a full part, as one or two small parts."""
    for j in range(len(v)):
        v[j] = x[j]
    for k in range(3):
        for j in range(0, len(v), MIN_PART_VECTORS * SIMD_WIDTH):
            numbers = times(
                load(v, j, SIMD_WIDTH, MIN_PART_VECTORS, SIMD_WIDTH),
                load_repeated(D[k], j // ROWS_PER_VECTOR, MIN_PART_VECTORS),
            )
            store(transform_columns(transform_rows(numbers)), v, j, SIMD_WIDTH)
        if len(v) > MIN_PART_VECTORS * SIMD_WIDTH:
            for j in range(0, MIN_PART_VECTORS * SIMD_WIDTH, SIMD_WIDTH):
                store(
                    transform_columns(load(v, j, MIN_PART_VECTORS * SIMD_WIDTH, 2, SIMD_WIDTH)),
                    v,
                    j,
                    MIN_PART_VECTORS * SIMD_WIDTH,
                )


@inline_jit(early=False)
def structured_products(x, m, D, v):  # type: ignore[no-untyped-def]
    """v <- H D_3 H D_2 H D_1 x for `ROWS_PER_VECTOR` interleaved rows.

    x and v have shape (`ROWS_PER_VECTOR` L,), float32; numbers of each row of x from m on are zero. Signs D: (3, L),
    contiguous.
    """
    if len(v) < PART_LENGTH:
        _transform_small_parts(x, D, v)
    else:
        _transform_parts(x, m, D, v)
