"""Memory of large arrays is reused when no view of it is left, and not before."""

from __future__ import annotations

import threading

import numpy as np

from dkdist._numba.arrays import LARGE, MAX_UNUSED_BUFFERS, MIN_REUSED_BYTES, LargeArrays
from dkdist._runtime.process import one_blas_thread

ROWS, COLUMNS = 9, MIN_REUSED_BYTES // 32  # 36 MiB of float32


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def make_arrays() -> LargeArrays:
    large = LargeArrays()
    large.unused = []
    return large


def test_memory_is_reused_after_the_last_view() -> None:
    large = make_arrays()
    first = large.empty((ROWS, COLUMNS), np.float32)
    assert first.shape == (ROWS, COLUMNS)
    assert first.dtype == np.float32
    assert first.flags.c_contiguous
    assert first.flags.writeable
    first_address, row = address(first), first[3, 5:]
    del first
    second = large.empty((ROWS, COLUMNS), np.float32)
    assert not np.shares_memory(second, row)
    del row
    third = large.empty((ROWS, COLUMNS), np.float32)
    assert address(third) == first_address
    assert not np.shares_memory(second, third)
    del third
    wider = large.empty((ROWS, 2 * COLUMNS), np.float32)  # too small buffers are released
    assert not np.shares_memory(wider, second)
    assert large.unused == []


def test_small_arrays_are_allocated_by_numpy() -> None:
    large = make_arrays()
    assert large.empty((8, COLUMNS), np.float32).base is None
    assert large.unused == []


def test_buffers_of_ended_runs_are_released() -> None:
    large = make_arrays()
    used = large.empty((ROWS, COLUMNS), np.float32)
    large.unused = []
    del used
    assert large.unused == []
    arrays = [large.empty((ROWS, COLUMNS), np.float32) for _ in range(MAX_UNUSED_BUFFERS + 2)]
    arrays.clear()
    assert len(large.unused) == MAX_UNUSED_BUFFERS


def test_threads_never_share_memory() -> None:
    large, failed_threads = make_arrays(), list[int]()

    def work(i: int) -> None:
        for _ in range(20):
            array = large.empty((ROWS, COLUMNS), np.float32)
            array[:, ::4096] = i
            if not (array[:, ::4096] == i).all():
                failed_threads.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed_threads == []
    assert len(large.unused) <= 8  # a thread releases an array after it gets the next one


def test_buffers_are_kept_during_runs_only() -> None:
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
