"""Tiles of float64: sums with overlapping parts of an array, as NumPy has them, and sums of lanes."""

import numpy as np
import pytest

from dkdist._numba.compilation import jit
from dkdist._numba.simd import full, fused, lane_sum, load, load_like, store

ULP = np.finfo(np.float64).eps


@jit()
def _add_eight(line, weights, places, out):  # type: ignore[no-untyped-def]
    row = load(line, 0, 0, 1, 8)
    for w, i in zip(weights, places):  # noqa: B905
        store(fused(row, w, load_like(row, out, i, 0)), out, i, 0)


@jit()
def _add_sixteen(line, weights, places, out):  # type: ignore[no-untyped-def]
    row = load(line, 0, 0, 1, 16)
    for w, i in zip(weights, places):  # noqa: B905
        store(fused(row, w, load_like(row, out, i, 0)), out, i, 0)


@jit()
def _eight_of(line, weights, places, x, out):  # type: ignore[no-untyped-def]
    row = load(line, 0, 0, 1, 8)
    for w, i in zip(weights, places):  # noqa: B905
        row = fused(load_like(row, x, i, 0), w, row)
    store(row, out, 0, 0)


@jit()
def _lane_sum(v, start):  # type: ignore[no-untyped-def]
    return lane_sum(fused(load(v, 0, 0, 1, 16), v.dtype.type(1.0), full(start, 1, 16)))


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


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_lanes_are_added_in_halves(dtype: str) -> None:
    v = np.random.default_rng(0).normal(size=16).astype(dtype)
    expected = v + v.dtype.type(0.5)
    while len(expected) > 1:
        expected = expected[: len(expected) // 2] + expected[len(expected) // 2 :]
    assert _lane_sum(v, v.dtype.type(0.5)) == expected[0]
