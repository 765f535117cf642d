"""Rows of float64 that stay in registers while they are added to many parts of an array, or many parts to them.

    in_registers(line, lanes)         the first numbers of a line
    add_row(row, w, array, i)         array[i], array[i + 1], ... += w row
    plus_part(row, w, array, i)       row + w (array[i], array[i + 1], ...)
    write_row(row, line)              where `in_registers` would find it

A compiler asks before each such sum whether the line and the array overlap, and how long the line is; here it knows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from dkdist.loops.registers.vectors import INDEX

_primitive: Any = intrinsic  # numba's types say that the first argument is the caller's
_sized: Any = intrinsic(prefer_literal=True)


class Row(types.Type):
    """The type of a row of some lanes of float64."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"row({lanes})")

    @property
    def vector(self) -> Any:
        """LLVM's type."""
        return ir.VectorType(ir.DoubleType(), self.lanes)


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Row) -> None:
        super().__init__(manager, kind, kind.vector)  # type: ignore[no-untyped-call]


def _pointer(context: Any, builder: Any, kind: Any, array: Any, i: Any, row: Row) -> Any:
    place = builder.gep(context.make_array(kind)(context, builder, array).data, [i])
    return builder.bitcast(place, row.vector.as_pointer())


def _loaded(builder: Any, pointer: Any) -> Any:
    found = builder.load(pointer)
    found.align = 8
    return found


@_sized
def in_registers(typing, line, lanes):  # type: ignore[no-untyped-def]
    """The first numbers of a line, as a row."""
    made = Row(lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = context.get_constant(types.intp, 0)
        return _loaded(builder, _pointer(context, builder, line, arguments[0], first, made))

    return made(line, lanes), generate


def _fused(builder: Any, kind: Row, w: Any, a: Any, b: Any) -> Any:
    """w a + b, of a number and two rows."""
    nothing, lanes = (
        ir.Constant(kind.vector, ir.Undefined),
        ir.Constant(ir.VectorType(INDEX, kind.lanes), None),
    )
    every = builder.shuffle_vector(builder.insert_element(nothing, w, INDEX(0)), nothing, lanes)
    name, of = f"llvm.fmuladd.v{kind.lanes}f64", ir.FunctionType(kind.vector, (kind.vector,) * 3)
    function = cgutils.get_or_insert_function(builder.module, of, name)  # type: ignore[no-untyped-call]
    return builder.call(function, [every, a, b])


@_primitive
def add_row(typing, row, w, array, i):  # type: ignore[no-untyped-def]
    """array[i], array[i + 1], ... += w row"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, number, cells, at = arguments
        pointer = _pointer(context, builder, array, cells, at, row)
        builder.store(_fused(builder, row, number, given, _loaded(builder, pointer)), pointer).align = 8
        return context.get_dummy_value()

    return types.void(row, types.float64, array, types.intp), generate


@_primitive
def plus_part(typing, row, w, array, i):  # type: ignore[no-untyped-def]
    """row + w (array[i], array[i + 1], ...)"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, number, cells, at = arguments
        part = _loaded(builder, _pointer(context, builder, array, cells, at, row))
        return _fused(builder, row, number, part, given)

    return row(row, types.float64, array, types.intp), generate


@_primitive
def write_row(typing, row, line):  # type: ignore[no-untyped-def]
    """Write a row to where `in_registers` would find it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = context.get_constant(types.intp, 0)
        pointer = _pointer(context, builder, line, arguments[1], first, row)
        builder.store(arguments[0], pointer).align = 8
        return context.get_dummy_value()

    return types.void(row, line), generate
