"""Rows in registers are added to parts of an array, and parts to them, as NumPy does it: parts may overlap."""

import numpy as np
import pytest

from dkdist.loops.compile import loop
from dkdist.loops.registers.long_rows import add_row, in_registers, plus_part, write_row

ULP = np.finfo(np.float64).eps


@loop()
def _add_eight(line, weights, places, out):  # type: ignore[no-untyped-def]
    row = in_registers(line, 8)
    for w, i in zip(weights, places):  # noqa: B905
        add_row(row, w, out, i)


@loop()
def _add_sixteen(line, weights, places, out):  # type: ignore[no-untyped-def]
    row = in_registers(line, 16)
    for w, i in zip(weights, places):  # noqa: B905
        add_row(row, w, out, i)


@loop()
def _eight_of(line, weights, places, x, out):  # type: ignore[no-untyped-def]
    row = in_registers(line, 8)
    for w, i in zip(weights, places):  # noqa: B905
        row = plus_part(row, w, x, i)
    write_row(row, out)


@pytest.mark.parametrize("lanes", [8, 16])
def test_a_row_is_added_to_overlapping_parts_one_after_another(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    line, weights, places = rng.normal(size=lanes), rng.normal(size=40), rng.integers(0, 30, 40)
    out, expected, size = np.zeros(30 + lanes), np.zeros(30 + lanes), np.zeros(30 + lanes)
    (_add_eight if lanes == 8 else _add_sixteen)(line, weights, places, out)
    for w, i in zip(weights, places, strict=True):
        expected[i : i + lanes] += w * line
        size[i : i + lanes] += np.abs(w * line)
    assert (np.abs(out - expected) <= 2 * 40 * ULP * size).all()  # a product and a sum may be one rounding


def test_parts_are_added_to_a_row_and_nothing_beside_it_is_written() -> None:
    rng = np.random.default_rng(0)
    line, x = rng.normal(size=8), rng.normal(size=30)
    weights, places = rng.normal(size=40), rng.integers(0, 22, 40)
    out = np.full(12, np.nan)
    _eight_of(line, weights, places, x, out)
    parts = weights[:, None] * x[places[:, None] + np.arange(8)]
    size = np.abs(line) + np.abs(parts).sum(axis=0)
    assert (np.abs(out[:8] - line - parts.sum(axis=0)) <= 2 * 41 * ULP * size).all()
    assert np.isnan(out[8:]).all()
