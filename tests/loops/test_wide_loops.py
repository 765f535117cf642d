"""Loops, and what is compiled into them, consist of vectors as long as the processor's."""

import numpy as np
import pytest

from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.simd import HAS_AVX512


@jit(FINITE_FMA)
def _doubled(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = x[i] + x[i]


@inline_jit(FINITE_FMA)
def _add_squares(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] += x[i] * x[i]


@jit(FINITE_FMA)
def _squared(x, out):  # type: ignore[no-untyped-def]
    _add_squares(x, out)


@pytest.mark.skipif(not HAS_AVX512, reason="vectors of 512 bits are those of AVX-512")
@pytest.mark.parametrize("run", [_doubled, _squared])
def test_loops_have_vectors_of_512_bits(run, monkeypatch):
    monkeypatch.setattr(run._cache, "load_overload", lambda *_: None)  # code that is kept cannot be looked at
    run(np.arange(100, dtype=np.float32), np.zeros(100, np.float32))
    (code,) = run.inspect_asm().values()
    assert "zmm" in code
