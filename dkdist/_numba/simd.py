"""SIMD tiles in registers for compiled functions, and cache lines.

A tile is a value inside a compiled function: n vectors with some lanes of float32 or float64. Arrays are contiguous,
and indices refer to the flat array; n and lanes are literals:

    load(v, i, step, n, lanes)       n vectors that begin at v[i], v[i + step], ...
    load_like(tile, v, i, step)      the same, with the shape of a tile
    spread(v, i, step, n, lanes)     n vectors, all lanes v[i], all lanes v[i + step], ...
    full(x, n, lanes)                n vectors with all lanes x, of the dtype of x
    zeros(n, lanes), ones(n, lanes)  of float32
    store(tile, v, i, step)          inverse of `load`
    plus(a, b), minus(a, b), times(a, b), fused(a, b, c) = a b + c      of tiles of equal shape; b
                                     of `fused` may be a number
    add_outer(u, v, c)               vector v.n k + l of the tile c, plus u[k] v[l]
    rounded(tile), widened(tile)     float64 to float32 and back
    part(tile, k, n)                 n vectors from vector k on; k and n are literals
    square_roots(tile)               lane by lane
    smaller(a, b), larger(a, b)      lane by lane
    where_between(tile, x, low, high, other)     the tile where low <= x <= high, else the number ``other``
    comparators(pairs)(tile)         order pairs (i, j) of vectors lane by lane: the smaller numbers go to vector i
    totals(tile)                     one vector: lane k is the sum of vector k; n or 2 n lanes per vector
    lane_sum(tile)                   sum of all lanes of a tile of one vector, in halves
    transposed(tile)                 rows in separate vectors <-> interleaved rows: vector k has the numbers 4 k to
                                     4 k + 3 of each row, so that rows are combined without shuffles
    gather_rows(X, rows, i, last, r)     rows rows[i], rows[i + 1], ... of X, from column r on
    offset_to_cache_line(v)          number of float32 values before the first 64-byte line starts
    prefetch_for_write(v, i, step, n)    prefetch lines of v[i], v[i + step], ...; may be out of range

LLVM splits vectors to the length of the processor. The order of every sum is fixed, so results are bitwise
identical for any alignment; only fused multiply-add depends on the processor. A vector that spans two cache lines is
accessed twice. Stores to lines outside the first-level cache stall unless the lines are prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, register_model

from dkdist._numba._numba_private import cgutils, get_host_cpu_features, models

INDEX = ir.IntType(32)
FASTMATH_FLAGS = ("contract", "nsz")  # not "ninf": dynamic time warping adds infinities


def _has_avx512() -> bool:
    configured = config.CPU_FEATURES  # type: ignore[attr-defined]
    features: str = get_host_cpu_features() if configured is None else configured  # type: ignore[no-untyped-call]
    return "+avx512f" in features.split(",")


HAS_AVX512 = _has_avx512()
"""Whether functions are compiled for 32 registers of 16 float32 (AVX-512) instead of 16 registers of 8."""

_intrinsic: Any = intrinsic  # Numba's type hints count the typing context as an argument
_literal_intrinsic: Any = intrinsic(prefer_literal=True)


class Tile(types.Type):
    """Numba type of a tile: n vectors with ``lanes`` numbers of ``dtype`` each."""

    def __init__(self, n: int, lanes: int, dtype: Any = types.float32) -> None:
        self.n, self.lanes, self.dtype = n, lanes, dtype
        super().__init__(name=f"tile({n}, {lanes}, {dtype})")


@register_model(Tile)
class _TileModel(models.PrimitiveModel):
    def __init__(self, manager: Any, tile_type: Tile) -> None:
        super().__init__(
            manager, tile_type, ir.ArrayType(vector(tile_type.lanes, tile_type.dtype), tile_type.n)
        )  # type: ignore[no-untyped-call]


def vector(lanes: int, dtype: Any = types.float32) -> Any:
    """Return the LLVM type of a vector."""
    return ir.VectorType(ir.FloatType() if dtype == types.float32 else ir.DoubleType(), lanes)


def unpack(builder: Any, tile_type: Tile, tile: Any) -> list[Any]:
    """Return the vectors of a tile."""
    return [builder.extract_value(tile, k) for k in range(tile_type.n)]


def pack(builder: Any, vectors: Sequence[Any]) -> Any:
    """Return the tile of some vectors."""
    tile = ir.Constant(ir.ArrayType(vectors[0].type, len(vectors)), ir.Undefined)
    for k, v in enumerate(vectors):
        tile = builder.insert_value(tile, v, k)
    return tile


def shuffle(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    """Return a vector of ``lanes`` of the concatenation of a and b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INDEX, len(lanes)), list(lanes)))


def _broadcast(builder: Any, number: Any, lanes: int) -> Any:
    undefined = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    return shuffle(builder, builder.insert_element(undefined, number, INDEX(0)), undefined, [0] * lanes)


def addresses(context: Any, builder: Any, array_type: Any, run: Sequence[Any], n: int) -> list[Any]:
    """Return the n addresses of array[i], array[i + step], ... for a ``run`` (array, i, step)."""
    array, i, step = run
    first, result = context.make_array(array_type)(context, builder, array).data, []
    for _ in range(n):
        result.append(builder.gep(first, [i]))
        i = builder.add(i, step)
    return result


def load_vectors(builder: Any, addresses: Sequence[Any], lanes: int) -> list[Any]:
    """Return the vectors that begin at the addresses."""
    pointer_type = ir.VectorType(addresses[0].type.pointee, lanes).as_pointer()
    vectors = [builder.load(builder.bitcast(address, pointer_type)) for address in addresses]
    for v in vectors:
        v.align = 4
    return vectors


def store_vectors(builder: Any, vectors: Sequence[Any], addresses: Sequence[Any]) -> None:
    """Store vectors at the addresses."""
    for v, address in zip(vectors, addresses, strict=True):
        builder.store(v, builder.bitcast(address, v.type.as_pointer())).align = 4


@_literal_intrinsic
def load(typing, array, i, step, n, lanes):  # type: ignore[no-untyped-def]
    """Load n vectors that begin at array[i], array[i + step], ..."""
    output = Tile(n.literal_value, lanes.literal_value, array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return pack(
            builder,
            load_vectors(builder, addresses(context, builder, array, arguments[:3], output.n), output.lanes),
        )

    return output(array, types.intp, types.intp, n, lanes), generate


@_intrinsic
def load_like(typing, tile, array, i, step):  # type: ignore[no-untyped-def]
    """Load a tile of the same shape as ``tile``; its vectors begin at array[i], array[i + step], ..."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector_addresses = addresses(context, builder, array, arguments[1:], tile.n)
        return pack(builder, load_vectors(builder, vector_addresses, tile.lanes))

    return tile(tile, array, types.intp, types.intp), generate


@_literal_intrinsic
def spread(typing, array, i, step, n, lanes):  # type: ignore[no-untyped-def]
    """Return n vectors; all lanes of vector k contain array[i + k step]."""
    output = Tile(n.literal_value, lanes.literal_value, array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scalar_addresses = addresses(context, builder, array, arguments[:3], output.n)
        return pack(
            builder,
            [_broadcast(builder, builder.load(address), output.lanes) for address in scalar_addresses],
        )

    return output(array, types.intp, types.intp, n, lanes), generate


@_literal_intrinsic
def full(typing, number, n, lanes):  # type: ignore[no-untyped-def]
    """Return n vectors with one number in all lanes."""
    output = Tile(n.literal_value, lanes.literal_value, number)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return pack(builder, [_broadcast(builder, arguments[0], output.lanes)] * output.n)

    return output(number, n, lanes), generate


@_literal_intrinsic
def zeros(typing, n, lanes):  # type: ignore[no-untyped-def]
    """Return n vectors of zeros."""
    output = Tile(n.literal_value, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(ir.ArrayType(vector(output.lanes), output.n), None)

    return output(n, lanes), generate


@_literal_intrinsic
def ones(typing, n, lanes):  # type: ignore[no-untyped-def]
    """Return n vectors of ones."""
    output = Tile(n.literal_value, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return pack(builder, [ir.Constant(vector(output.lanes), [1.0] * output.lanes)] * output.n)

    return output(n, lanes), generate


@_intrinsic
def store(typing, tile, array, i, step):  # type: ignore[no-untyped-def]
    """Write a tile to the addresses from which `load` reads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector_addresses = addresses(context, builder, array, arguments[1:], tile.n)
        store_vectors(builder, unpack(builder, tile, arguments[0]), vector_addresses)
        return context.get_dummy_value()

    return types.void(tile, array, types.intp, types.intp), generate


def _elementwise(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the code generator of ``operation(builder, *vectors)`` on tiles of equal shape."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tiles = [
            unpack(builder, tile_type, tile)
            for tile_type, tile in zip(signature.args, arguments, strict=True)
        ]
        return pack(builder, [operation(builder, *vectors) for vectors in zip(*tiles, strict=True)])

    return generate


def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return the vector a b + c."""
    bits = 32 if a.type.element == ir.FloatType() else 64
    name, function_type = f"llvm.fmuladd.v{a.type.count}f{bits}", ir.FunctionType(a.type, (a.type,) * 3)
    function = cgutils.get_or_insert_function(builder.module, function_type, name)  # type: ignore[no-untyped-call]
    return builder.call(function, [a, b, c])


@_intrinsic
def plus(typing, a, b):  # type: ignore[no-untyped-def]
    """Return a + b for tiles."""
    return a(a, b), _elementwise(lambda builder, x, y: builder.fadd(x, y, flags=FASTMATH_FLAGS))


@_intrinsic
def minus(typing, a, b):  # type: ignore[no-untyped-def]
    """Return a - b for tiles."""
    return a(a, b), _elementwise(lambda builder, x, y: builder.fsub(x, y, flags=FASTMATH_FLAGS))


@_intrinsic
def times(typing, a, b):  # type: ignore[no-untyped-def]
    """Return a b for tiles."""
    return a(a, b), _elementwise(lambda builder, x, y: builder.fmul(x, y, flags=FASTMATH_FLAGS))


@_intrinsic
def rounded(typing, tile):  # type: ignore[no-untyped-def]
    """Round a float64 tile to float32."""
    output = Tile(tile.n, tile.lanes)
    return output(tile), _elementwise(lambda builder, v: builder.fptrunc(v, vector(tile.lanes)))


@_intrinsic
def widened(typing, tile):  # type: ignore[no-untyped-def]
    """Convert a float32 tile to float64."""
    output = Tile(tile.n, tile.lanes, types.float64)
    return output(tile), _elementwise(lambda builder, v: builder.fpext(v, vector(tile.lanes, types.float64)))


@_literal_intrinsic
def part(typing, tile, k, n):  # type: ignore[no-untyped-def]
    """Return the tile of n vectors from vector k on."""
    output = Tile(n.literal_value, tile.lanes, tile.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return pack(builder, unpack(builder, tile, arguments[0])[k.literal_value :][: output.n])

    return output(tile, k, n), generate


@_intrinsic
def square_roots(typing, tile):  # type: ignore[no-untyped-def]
    """Return the square roots of a float32 tile."""
    name, v = f"llvm.sqrt.v{tile.lanes}f32", vector(tile.lanes)

    def root(builder: Any, x: Any) -> Any:
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(v, (v,)), name)  # type: ignore[no-untyped-call]
        return builder.call(function, [x])

    return tile(tile), _elementwise(root)


@_intrinsic
def where_between(typing, tile, x, low, high, other):  # type: ignore[no-untyped-def]
    """Replace lanes by the number ``other`` where the number x is below tile ``low`` or above tile ``high``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept, number, lower, upper, replacement = arguments
        number, replacement = (_broadcast(builder, y, tile.lanes) for y in (number, replacement))
        vectors = []
        for v, a, b in zip(*(unpack(builder, tile, t) for t in (kept, lower, upper)), strict=True):
            inside = builder.and_(
                builder.fcmp_ordered("<=", a, number), builder.fcmp_ordered("<=", number, b)
            )
            vectors.append(builder.select(inside, v, replacement))
        return pack(builder, vectors)

    return tile(tile, x, low, high, other), generate


def _ordered(builder: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return (smaller, larger), a permutation even of signed zeros."""
    is_ordered = builder.fcmp_ordered("<", x, y)
    return builder.select(is_ordered, x, y), builder.select(is_ordered, y, x)


@_intrinsic
def smaller(typing, a, b):  # type: ignore[no-untyped-def]
    """Return the smaller numbers of two tiles without NaN."""
    return a(a, b), _elementwise(lambda builder, x, y: _ordered(builder, x, y)[0])


@_intrinsic
def larger(typing, a, b):  # type: ignore[no-untyped-def]
    """Return the larger numbers of two tiles without NaN."""
    return a(a, b), _elementwise(lambda builder, x, y: _ordered(builder, x, y)[1])


@_intrinsic
def fused(typing, a, b, c):  # type: ignore[no-untyped-def]
    """Return a b + c for tiles; b may be a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, z = arguments
        if not isinstance(b, Tile):
            y = pack(builder, [_broadcast(builder, y, a.lanes)] * a.n)
        return _elementwise(fma)(context, builder, a(a, a, c), (x, y, z))

    return a(a, b, c), generate


@_intrinsic
def fused_minus(typing, a, b, c):  # type: ignore[no-untyped-def]
    """Return a b - c for tiles."""
    return a(a, b, c), _elementwise(lambda builder, x, y, z: fma(builder, x, y, builder.fneg(z)))


@_intrinsic
def add_outer(typing, u, v, c):  # type: ignore[no-untyped-def]
    """Add u[k] v[l] to vector v.n k + l of the tile c."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        us, vs, cs = (
            unpack(builder, tile_type, tile) for tile_type, tile in zip((u, v, c), arguments, strict=True)
        )
        return pack(builder, [fma(builder, us[k // v.n], vs[k % v.n], w) for k, w in enumerate(cs)])

    return c(u, v, c), generate


def comparators(pairs: Sequence[tuple[int, int]]) -> Any:
    """Return a function that orders ``pairs`` (i, j) of vectors of a tile lane by lane: vector i gets the minimum."""

    @_intrinsic
    def ordered(typing, tile):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors = unpack(builder, tile, arguments[0])
            for i, j in pairs:
                vectors[i], vectors[j] = _ordered(builder, vectors[i], vectors[j])
            return pack(builder, vectors)

        return tile(tile), generate

    return ordered


@_intrinsic
def totals(typing, tile):  # type: ignore[no-untyped-def]
    """Return one vector: lane k is the sum of vector k, in a tree that adds neighbours first.

    For n vectors of 2 n lanes, the halves of each vector are added first.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, n, h = unpack(builder, tile, arguments[0]), tile.n, 1
        if n < tile.lanes:
            low, high = list(range(n)), list(range(n, 2 * n))
            vectors = [
                builder.fadd(shuffle(builder, v, v, low), shuffle(builder, v, v, high), flags=FASTMATH_FLAGS)
                for v in vectors
            ]
        while len(vectors) > 1:
            left = [k if not k & h else n + (k ^ h) for k in range(n)]
            right = [k ^ h if not k & h else n + k for k in range(n)]
            vectors = [
                builder.fadd(
                    shuffle(builder, a, b, left), shuffle(builder, a, b, right), flags=FASTMATH_FLAGS
                )
                for a, b in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            h *= 2
        return pack(builder, vectors)

    return Tile(1, tile.n)(tile), generate


@_intrinsic
def lane_sum(typing, tile):  # type: ignore[no-untyped-def]
    """Return the sum of all lanes (a power of two) of a tile of one vector, adding halves recursively."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (total,), lanes = unpack(builder, tile, arguments[0]), tile.lanes
        while lanes > 1:
            lanes //= 2
            low, high = (shuffle(builder, total, total, range(i, i + lanes)) for i in (0, lanes))
            total = builder.fadd(low, high)
        return builder.extract_element(total, INDEX(0))

    return tile.dtype(tile), generate


SIMD_WIDTH = 16 if HAS_AVX512 else 8  # float32 lanes per vector (tests/loops/test_vectors.py)
LANES_PER_ROW = 4  # lanes per row in a vector (python benchmarks/roofline.py features)
ROWS_PER_VECTOR = SIMD_WIDTH // LANES_PER_ROW  # interleaved rows per vector (tests/loops/test_vectors.py)


@_literal_intrinsic
def load_repeated(typing, signs, i, n):  # type: ignore[no-untyped-def]
    """Return n vectors: four numbers starting at signs[i], signs[i + 4], ..., repeated for every row."""
    output = Tile(n.literal_value, SIMD_WIDTH)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        step = ir.Constant(arguments[1].type, LANES_PER_ROW)
        fours = load_vectors(
            builder, addresses(context, builder, signs, (*arguments[:2], step), output.n), LANES_PER_ROW
        )
        lanes = [i % LANES_PER_ROW for i in range(SIMD_WIDTH)]
        return pack(builder, [shuffle(builder, four, four, lanes) for four in fours])

    return output(signs, types.intp, n), generate


@_intrinsic
def transposed(typing, tile):  # type: ignore[no-untyped-def]
    """Swap block l of vector k with block k of vector l of a (`ROWS_PER_VECTOR`, `SIMD_WIDTH`) tile, in blocks of 4."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        output, h = unpack(builder, tile, arguments[0]), 1
        while h < ROWS_PER_VECTOR:
            exchanged = [i ^ (h * LANES_PER_ROW) for i in range(SIMD_WIDTH)]
            left = [SIMD_WIDTH + exchanged[i] if i // LANES_PER_ROW & h else i for i in range(SIMD_WIDTH)]
            right = [SIMD_WIDTH + i if i // LANES_PER_ROW & h else exchanged[i] for i in range(SIMD_WIDTH)]
            for k in range(ROWS_PER_VECTOR):
                if not k & h:
                    a, b = output[k], output[k + h]
                    output[k], output[k + h] = shuffle(builder, a, b, left), shuffle(builder, a, b, right)
            h *= 2
        return pack(builder, output)

    return tile(tile), generate


@_intrinsic
def gather_rows(typing, X, rows, i, last, r):  # type: ignore[no-untyped-def]
    """Load numbers from column r on of rows rows[i], rows[i + 1], ... of X (., m) in C order.

    The tile has shape (`ROWS_PER_VECTOR`, `SIMD_WIDTH`). Indices above ``last`` are replaced by ``last``.
    """
    output = Tile(ROWS_PER_VECTOR, SIMD_WIDTH)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, indices, first, end, column = arguments
        table = context.make_array(X)(context, builder, table)
        _, columns = cgutils.unpack_tuple(builder, table.shape)  # type: ignore[no-untyped-call]
        indices, row_addresses = context.make_array(rows)(context, builder, indices).data, []
        for k in range(ROWS_PER_VECTOR):
            position = builder.add(first, ir.Constant(first.type, k))
            position = builder.select(builder.icmp_signed("<", position, end), position, end)
            row = builder.mul(builder.load(builder.gep(indices, [position])), columns)
            row_addresses.append(builder.gep(table.data, [builder.add(row, column)]))
        return pack(builder, load_vectors(builder, row_addresses, SIMD_WIDTH))

    return output(X, rows, types.intp, types.intp, types.intp), generate


CACHE_LINE_FLOATS = 16  # float32 numbers in 64 bytes (tests/loops/test_lines.py)


@_intrinsic
def offset_to_cache_line(typing, v):  # type: ignore[no-untyped-def]
    """Return the number of float32 values of an array before the start of a cache line."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        int_type = context.get_value_type(types.intp)
        address = builder.ptrtoint(context.make_array(v)(context, builder, arguments[0]).data, int_type)
        n_bytes = builder.and_(builder.neg(address), ir.Constant(int_type, 4 * CACHE_LINE_FLOATS - 1))
        return builder.lshr(n_bytes, ir.Constant(int_type, 2))

    return types.intp(v), generate


@_literal_intrinsic
def prefetch_for_write(typing, v, i, step, n):  # type: ignore[no-untyped-def]
    """Prefetch the n cache lines of v[i], v[i + step], ... for writing; n is a literal."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), (byte_pointer, INDEX, INDEX, INDEX))
        prefetch = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        for address in addresses(context, builder, v, arguments[:3], n.literal_value):
            builder.call(prefetch, [builder.bitcast(address, byte_pointer), INDEX(1), INDEX(3), INDEX(1)])
        return context.get_dummy_value()

    return types.void(v, types.intp, types.intp, n), generate
