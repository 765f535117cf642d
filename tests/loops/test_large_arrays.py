"""Memory of large arrays: used again when nobody has a view of it, and never before."""

from __future__ import annotations

import threading

import numpy as np

from dkdist._numba.arrays import LARGE, MAX_UNUSED_BUFFERS, MIN_REUSED_BYTES, LargeArrays
from dkdist._runtime.process import one_blas_thread

ROWS, COLUMNS = 9, MIN_REUSED_BYTES // 32  # 36 MiB of float32


def place(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def keeping() -> LargeArrays:
    large = LargeArrays()
    large.unused = []
    return large


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    large = keeping()
    first = large.empty((ROWS, COLUMNS), np.float32)
    assert first.shape == (ROWS, COLUMNS)
    assert first.dtype == np.float32
    assert first.flags.c_contiguous
    assert first.flags.writeable
    there, row = place(first), first[3, 5:]
    del first
    second = large.empty((ROWS, COLUMNS), np.float32)
    assert not np.shares_memory(second, row)
    del row
    third = large.empty((ROWS, COLUMNS), np.float32)
    assert place(third) == there
    assert not np.shares_memory(second, third)
    del third
    wider = large.empty((ROWS, 2 * COLUMNS), np.float32)  # too small a piece is let go
    assert not np.shares_memory(wider, second)
    assert large.unused == []


def test_small_arrays_are_numpys_own() -> None:
    large = keeping()
    assert large.empty((8, COLUMNS), np.float32).base is None
    assert large.unused == []


def test_what_was_forgotten_is_not_kept_when_it_ends() -> None:
    large = keeping()
    used = large.empty((ROWS, COLUMNS), np.float32)
    large.unused = []
    del used
    assert large.unused == []
    many = [large.empty((ROWS, COLUMNS), np.float32) for _ in range(MAX_UNUSED_BUFFERS + 2)]
    many.clear()
    assert len(large.unused) == MAX_UNUSED_BUFFERS


def test_threads_never_share_memory() -> None:
    large, wrong = keeping(), list[int]()

    def work(i: int) -> None:
        for _ in range(20):
            mine = large.empty((ROWS, COLUMNS), np.float32)
            mine[:, ::4096] = i
            if not (mine[:, ::4096] == i).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(large.unused) <= 8  # a thread lets go of one when it has the next


def test_memory_is_kept_while_a_run_is_under_way_and_not_otherwise() -> None:
    shape = (ROWS, COLUMNS)
    assert LARGE.empty(shape, np.float32).base is None
    with one_blas_thread():
        with one_blas_thread():
            LARGE.empty(shape, np.float32)
        assert len(LARGE.unused or []) == 1
        used = LARGE.empty(shape, np.float32)
    assert LARGE.unused is None
    del used
    assert LARGE.unused is None
