"""Cache lines: their offsets, and prefetch without side effects."""

import numpy as np
import pytest
from numba import njit

from dkdist._numba.simd import CACHE_LINE_FLOATS, offset_to_cache_line, prefetch_for_write


@njit
def _line(v):
    prefetch_for_write(v, len(v) + 1000, 2**30, 2)  # addresses outside the array
    return offset_to_cache_line(v)


@pytest.mark.parametrize("begin", range(CACHE_LINE_FLOATS))
def test_offset_to_cache_line(begin):
    v = np.empty(100, np.float32)[begin:]
    offset = _line(v)
    assert 0 <= offset < CACHE_LINE_FLOATS
    assert (v.ctypes.data + 4 * offset) % 64 == 0
