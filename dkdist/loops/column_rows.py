"""Columns of tables, one after another, as the rows that sets keep; and where a column changes.

Each number is read once: it is subtracted from and rounded, put in its row, and looked at for what is not finite, while
it is in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dkdist.loops.array_types import F32, F64, I64, Array
from dkdist.loops.compile import LANES, loop
from dkdist.loops.elementary import f32
from dkdist.loops.points import read_only

ROWS_PER_TILE = 2**13  # rows that stay in a cache until all their columns have come
EXACT = frozenset(np.dtype(name) for name in ("f8", "f4", "i4", "i2", "i1", "u4", "u2", "u1"))
"""Dtypes whose numbers are float64 without rounding."""


def fill_rows(columns: Sequence[Array], origin: F64, out: F32) -> bool:
    """``out[i, j] = columns[j][i] - origin[j]``, subtracted in float64 and rounded once; whether all of it is finite.

    The d columns (n,) have dtypes of `EXACT`; out is (n, d), C-contiguous.
    """
    d, left = len(columns), f32(0.0)
    step = ROWS_PER_TILE if d > 2 else max(1, len(out))
    for a in range(0, len(out), step):
        rows = out[a : a + step]
        given = [read_only(column[a : a + step]) for column in columns]
        for j in range(0, d - 1, 2):
            if given[j].dtype == given[j + 1].dtype:
                left += _fill_two(given[j], given[j + 1], origin[j], origin[j + 1], rows, j)
            else:
                left += _fill(given[j], origin[j], rows, j) + _fill(given[j + 1], origin[j + 1], rows, j + 1)
        if d % 2:
            left += _fill(given[-1], origin[-1], rows, d - 1)
    return bool(left == 0)


@loop(LANES)
def _fill(x, shift, out, j):  # type: ignore[no-untyped-def]
    """Fill column j; 0 if all that is put there is finite, else NaN."""
    left = f32(0.0)
    for i in range(len(x)):
        value = f32(x[i] - shift)
        out[i, j] = value
        left += value * f32(0.0)
    return left


@loop(LANES)
def _fill_two(x, y, first, second, out, j):  # type: ignore[no-untyped-def]
    """Fill columns j and j + 1, which lie beside each other."""
    left = right = f32(0.0)
    for i in range(len(x)):
        a, b = f32(x[i] - first), f32(y[i] - second)
        out[i, j], out[i, j + 1] = a, b
        left += a * f32(0.0)
        right += b * f32(0.0)
    return left + right


def run_starts(values: Array) -> I64:
    """The rows of (n,) whose value is not that of the row before; the first is one, and NaN is like no other."""
    starts = np.empty(len(values), np.int64)
    found: I64 = starts[: _run_starts(read_only(values), starts)].copy()
    return found


@loop()
def _run_starts(values, starts):  # type: ignore[no-untyped-def]
    n = 0
    for i in range(len(values)):
        if i == 0 or values[i] != values[i - 1]:
            starts[n] = i
            n += 1
    return n
