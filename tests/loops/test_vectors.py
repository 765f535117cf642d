"""SIMD vectors of float64: sums with overlapping parts of an array, compared with NumPy, and sums of lanes."""

import numpy as np
import pytest

from dkdist._numba.compilation import jit
from dkdist._numba.simd import full, fused, lane_sum, load, load_like, store

ULP = np.finfo(np.float64).eps


@jit()
def _add_eight(line, weights, positions, out):  # type: ignore[no-untyped-def]
    row = load(line, 0, 0, 1, 8)
    for w, i in zip(weights, positions):  # noqa: B905
        store(fused(row, w, load_like(row, out, i, 0)), out, i, 0)


@jit()
def _add_sixteen(line, weights, positions, out):  # type: ignore[no-untyped-def]
    row = load(line, 0, 0, 1, 16)
    for w, i in zip(weights, positions):  # noqa: B905
        store(fused(row, w, load_like(row, out, i, 0)), out, i, 0)


@jit()
def _eight_of(line, weights, positions, x, out):  # type: ignore[no-untyped-def]
    row = load(line, 0, 0, 1, 8)
    for w, i in zip(weights, positions):  # noqa: B905
        row = fused(load_like(row, x, i, 0), w, row)
    store(row, out, 0, 0)


@jit()
def _lane_sum(v, start):  # type: ignore[no-untyped-def]
    return lane_sum(fused(load(v, 0, 0, 1, 16), v.dtype.type(1.0), full(start, 1, 16)))


@pytest.mark.parametrize("lanes", [8, 16])
def test_row_is_added_to_overlapping_parts(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    line, weights, positions = rng.normal(size=lanes), rng.normal(size=40), rng.integers(0, 30, 40)
    out, expected, size = np.zeros(30 + lanes), np.zeros(30 + lanes), np.zeros(30 + lanes)
    (_add_eight if lanes == 8 else _add_sixteen)(line, weights, positions, out)
    for w, i in zip(weights, positions, strict=True):
        expected[i : i + lanes] += w * line
        size[i : i + lanes] += np.abs(w * line)
    assert (np.abs(out - expected) <= 2 * 40 * ULP * size).all()  # FMA may round a product and a sum once


def test_parts_are_added_to_a_row_without_writing_outside() -> None:
    rng = np.random.default_rng(0)
    line, x = rng.normal(size=8), rng.normal(size=30)
    weights, positions = rng.normal(size=40), rng.integers(0, 22, 40)
    out = np.full(12, np.nan)
    _eight_of(line, weights, positions, x, out)
    parts = weights[:, None] * x[positions[:, None] + np.arange(8)]
    size = np.abs(line) + np.abs(parts).sum(axis=0)
    assert (np.abs(out[:8] - line - parts.sum(axis=0)) <= 2 * 41 * ULP * size).all()
    assert np.isnan(out[8:]).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_lane_sum_adds_halves(dtype: str) -> None:
    v = np.random.default_rng(0).normal(size=16).astype(dtype)
    expected = v + v.dtype.type(0.5)
    while len(expected) > 1:
        expected = expected[: len(expected) // 2] + expected[len(expected) // 2 :]
    assert _lane_sum(v, v.dtype.type(0.5)) == expected[0]
