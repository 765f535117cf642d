"""Scalar functions in compiled code, compared with Python and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import bits_to_float, float_bits, maximum, minimum

NUMBERS = [-2.5, -1.5, -0.5, 0.0, 0.4999999, 0.5, 1.0, 1.5, 2.5, 3.25, 1e9]


@jit()
def _min_max(a, b, minima, maxima):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        minima[i], maxima[i] = minimum(a[i], b[i]), maximum(a[i], b[i])


@jit()
def _clip(a, out):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        out[i] = minimum(maximum(a[i], -1), 7)


@jit()
def _bits_and_back(x, bits, restored):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        bits[i] = float_bits(x[i])
        restored[i] = bits_to_float(bits[i])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int32])
def test_minimum_and_maximum(kind: type) -> None:
    a, b = (side.reshape(-1).astype(kind) for side in np.meshgrid(NUMBERS, NUMBERS))
    minima, maxima = np.empty_like(a), np.empty_like(a)
    _min_max(a, b, minima, maxima)
    assert (minima == np.minimum(a, b)).all()
    assert (maxima == np.maximum(a, b)).all()


def test_minimum_and_maximum_with_constants() -> None:
    a = np.arange(-10, 10)
    out = np.empty_like(a)
    _clip(a, out)
    assert (out == np.clip(a, -1, 7)).all()


def test_float_bits_match_a_view() -> None:
    x = np.array([*NUMBERS, -0.0, np.inf, 1e-42], np.float32)
    bits, restored = np.empty(len(x), np.int32), np.empty(len(x), np.float32)
    _bits_and_back(x, bits, restored)
    assert (bits == x.view(np.int32)).all()
    assert restored.tobytes() == x.tobytes()


@pytest.mark.parametrize("early", [True, False])
def test_inlined_functions_cannot_be_called_from_python(early: bool) -> None:
    @inline_jit(early=early)
    def doubled(x):  # type: ignore[no-untyped-def]
        return x + x

    @jit()
    def four_times(x):  # type: ignore[no-untyped-def]
        return doubled(doubled(x))

    for _ in range(2):  # before and after compilation of the caller
        with pytest.raises(TypeError, match="doubled can only be called from compiled functions"):
            doubled(1.0)
        assert four_times(1.5) == 6.0
