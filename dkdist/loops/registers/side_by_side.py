"""Rows side by side in vectors: the k-th holds the numbers 4 k to 4 k + 3 of some rows, one row after the other.

Numbers of a row that are combined then lie in the same lane of two vectors, but for those next to each other, and what
is the same for all rows is read once.

    crossed(tile)                        some rows, a vector of numbers of each, side by side; and the same back
    rows_of(X, places, i, last, r)       some rows places[i], places[i + 1], ... of X, the numbers from column r on
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dkdist.loops.registers.vectors import MANY_REGISTERS, Tile, addresses, loaded, packed, shuffled, unpacked

LANES = 16 if MANY_REGISTERS else 8  # of a vector
OWN = 4  # of them are one row's
ROWS = LANES // OWN

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's
_sized: Any = intrinsic(prefer_literal=True)


@_sized
def repeated(typing, signs, i, n):  # type: ignore[no-untyped-def]
    """n vectors of the four numbers from signs[i], signs[i + 4], ... on, the same for every row."""
    made = Tile(n.literal_value, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        step = ir.Constant(arguments[1].type, OWN)
        fours = loaded(builder, addresses(context, builder, signs, (*arguments[:2], step), made.n), OWN)
        lanes = [i % OWN for i in range(LANES)]
        return packed(builder, [shuffled(builder, four, four, lanes) for four in fours])

    return made(signs, types.intp, n), generate


@_primitive
def crossed(typing, tile):  # type: ignore[no-untyped-def]
    """Fours of numbers change places: the l-th of vector k becomes the k-th of vector l. A tile (`ROWS`, `LANES`)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made, h = unpacked(builder, tile, arguments[0]), 1
        while h < ROWS:
            moved = [i ^ (h * OWN) for i in range(LANES)]
            left = [LANES + moved[i] if i // OWN & h else i for i in range(LANES)]
            right = [LANES + i if i // OWN & h else moved[i] for i in range(LANES)]
            for k in range(ROWS):
                if not k & h:
                    a, b = made[k], made[k + h]
                    made[k], made[k + h] = shuffled(builder, a, b, left), shuffled(builder, a, b, right)
            h *= 2
        return packed(builder, made)

    return tile(tile), generate


@_primitive
def rows_of(typing, X, places, i, last, r):  # type: ignore[no-untyped-def]
    """Numbers from column r on of the rows places[i], places[i + 1], ... of X (., m) in C order, (`ROWS`, `LANES`).

    For places past the ``last`` one, that one.
    """
    made = Tile(ROWS, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, which, first, end, column = arguments
        table = context.make_array(X)(context, builder, table)
        _, columns = cgutils.unpack_tuple(builder, table.shape)  # type: ignore[no-untyped-call]
        which, found = context.make_array(places)(context, builder, which).data, []
        for k in range(ROWS):
            here = builder.add(first, ir.Constant(first.type, k))
            here = builder.select(builder.icmp_signed("<", here, end), here, end)
            row = builder.mul(builder.load(builder.gep(which, [here])), columns)
            found.append(builder.gep(table.data, [builder.add(row, column)]))
        return packed(builder, loaded(builder, found, LANES))

    return made(X, places, types.intp, types.intp, types.intp), generate
