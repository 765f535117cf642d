"""Sines and cosines in vector registers, against float64 and phases that whole numbers reduce exactly."""

import numpy as np
import pytest
from numba import njit

from dkdist.loops.registers.half_turns import series, write_waves
from dkdist.loops.registers.lines import LINE, to_line, will_write
from dkdist.loops.registers.side_by_side import LANES
from dkdist.loops.registers.vectors import load

from .test_elementary import fuses


@njit
def _waves(v, lengths, a, out):
    terms = series(a, LANES)
    for r in range(0, len(v), LANES):
        write_waves(load(v, r, 0, 1, LANES), load(lengths, r, 0, 1, LANES), terms, out, r, 0, len(v))


def waves(v, a, lengths=None):
    out = np.full((2, len(v)), np.nan, np.float32)
    _waves(v, np.ones_like(v) if lengths is None else lengths, a, out)
    return out


def expected(v):
    k = np.round(v.astype(np.float64))
    r, sign = np.pi * (v - k), 1 - 2 * (k % 2)
    return sign * np.sin(r), sign * np.cos(r)


@pytest.mark.parametrize("a", [1.0, 1 / np.sqrt(3), 0.02, 1 / np.sqrt(157)])
def test_errors_stay_below_what_is_stated(a):
    rng = np.random.default_rng(0)
    v = np.concatenate([rng.uniform(-0.5, 0.5, 2**17), rng.uniform(-1000, 1000, 2**14)]).astype(np.float32)
    assert np.abs(waves(v, a) / a - expected(v)).max() < (2.5e-7 if fuses() else 3e-7)


def test_phases_are_products_with_lengths_in_float32():
    rng = np.random.default_rng(0)
    v, lengths = rng.uniform(-9, 9, (2, 512)).astype(np.float32)
    np.testing.assert_array_equal(waves(v, 0.5, lengths), waves(v * lengths, 0.5))


def test_whole_numbers_and_halves_are_exact_up_to_2_to_the_31():
    v = np.array(
        [0, 1, -1, 2, 7, 2**20, 2**24 - 1, 2**24, 2**30, -(2**30), 0.5, -0.5, 1.5, 2.5, 0, 0], np.float32
    )
    sine, cosine = waves(v, 0.25)
    np.testing.assert_array_equal(sine[:10], 0)
    np.testing.assert_array_equal(cosine[:10], 0.25 * (1 - 2 * (v[:10].astype(object) % 2)).astype(float))
    np.testing.assert_allclose(sine[10:14], [0.25, -0.25, -0.25, 0.25], rtol=2e-7)
    np.testing.assert_allclose(cosine[10:14], 0, atol=1e-7)


@njit
def _line(v):
    will_write(v, len(v) + 1000, 2**30, 2)  # asks for nothing that is there
    return to_line(v)


@pytest.mark.parametrize("begin", range(LINE))
def test_lines_begin_at_multiples_of_64_bytes(begin):
    v = np.empty(100, np.float32)[begin:]
    place = _line(v)
    assert 0 <= place < LINE
    assert (v.ctypes.data + 4 * place) % 64 == 0
