"""Columns to float32 rows with one rounding, and starts of runs of equal values, compared with NumPy."""

import numpy as np
import pytest

from dkdist._numba.points import EXACT_DTYPES, TILE_ROWS, fill_rows, run_starts

N = TILE_ROWS + 3  # one tile and some rows


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("with_origin", [False, True])
def test_fill_rows_rounds_float64_differences_once(d, with_origin):
    rng = np.random.default_rng(d)
    kinds = sorted(EXACT_DTYPES, key=str)
    for k in range(len(kinds)):
        columns = [(rng.normal(size=N) * 100).astype(kinds[(k + j // 2) % len(kinds)]) for j in range(d)]
        origin = rng.normal(size=d) if with_origin else np.zeros(d)
        out = np.empty((N, d), np.float32)
        assert fill_rows(columns, origin, out)
        expected = [
            (c.astype(np.float64) - o).astype(np.float32) for c, o in zip(columns, origin, strict=True)
        ]
        np.testing.assert_array_equal(out.view(np.uint32), np.stack(expected, axis=1).view(np.uint32))


def test_fill_rows_keeps_signed_zeros_and_subnormals():
    values = np.array([-0.0, 0.0, 1e-310, -1e-42, 3e-39, 1 + 2.0**-24, 1 + 3 * 2.0**-24])
    for columns in ([values], [values, values[::-1].copy()]):
        out = np.empty((len(values), len(columns)), np.float32)
        assert fill_rows(columns, np.zeros(len(columns)), out)
        expected = np.stack(columns, axis=1).astype(np.float32)
        np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("invalid_value", [np.nan, np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("row", [0, N // 2, N - 1])
def test_fill_rows_detects_nonfinite_values(invalid_value, row):
    for d in (1, 2, 3):
        columns = [np.full(N, np.finfo(np.float32).max, np.float64) for _ in range(d)]
        out = np.empty((N, d), np.float32)
        assert fill_rows(columns, np.zeros(d), out)  # although sums of the values overflow
        columns[-1][row] = invalid_value
        assert not fill_rows(columns, np.zeros(d), out)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f8", "u1"])
def test_run_starts_match_numpy(dtype):
    values = np.random.default_rng(0).integers(0, 2, 999).astype(dtype)
    expected = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    np.testing.assert_array_equal(run_starts(values), expected)
    assert run_starts(values[:0]).tolist() == []
    assert run_starts(values[:1]).tolist() == [0]
    if dtype == "f8":
        values[[4, 5]] = np.nan
        assert {4, 5, 6} <= set(run_starts(values).tolist())
