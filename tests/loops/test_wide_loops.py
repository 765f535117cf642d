"""Compiled functions use the widest vectors of the processor."""

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


@pytest.mark.skipif(not HAS_AVX512, reason="requires AVX-512")
@pytest.mark.parametrize("run", [_doubled, _squared])
def test_compiled_functions_use_512_bit_vectors(run, monkeypatch):
    monkeypatch.setattr(run._cache, "load_overload", lambda *_: None)  # cached code cannot be inspected
    run(np.arange(100, dtype=np.float32), np.zeros(100, np.float32))
    (code,) = run.inspect_asm().values()
    assert "zmm" in code
