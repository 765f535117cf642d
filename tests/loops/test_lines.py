"""Lines of the cache: where they begin, and that a request for one changes nothing."""

import numpy as np
import pytest
from numba import njit

from dkdist._numba.simd import CACHE_LINE_FLOATS, offset_to_cache_line, prefetch_for_write


@njit
def _line(v):
    prefetch_for_write(v, len(v) + 1000, 2**30, 2)  # asks for nothing that is there
    return offset_to_cache_line(v)


@pytest.mark.parametrize("begin", range(CACHE_LINE_FLOATS))
def test_lines_begin_at_multiples_of_64_bytes(begin):
    v = np.empty(100, np.float32)[begin:]
    place = _line(v)
    assert 0 <= place < CACHE_LINE_FLOATS
    assert (v.ctypes.data + 4 * place) % 64 == 0
