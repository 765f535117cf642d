"""Buffer pool: memory is reused, but never while an array refers to it."""

import threading

import numpy as np

from dkdist._utils.concurrency import BufferPool


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_reused_after_all_views_are_deleted():
    pool = BufferPool()
    first = pool.empty((1000, 2), np.float32)
    assert (first.shape, first.dtype, first.flags.c_contiguous, first.flags.writeable) == (
        (1000, 2),
        np.float32,
        True,
        True,
    )
    first_address, part = address(first), first[10:20, 1]
    part[:] = 7
    del first
    second = pool.empty((1000, 2), np.float32)
    assert address(second) != first_address
    second[:] = 1
    assert (part == 7).all()
    del part
    # slightly larger arrays reuse the buffer
    assert address(pool.empty((1010, 2), np.float32)) == first_address


def test_buffers_of_other_sizes_are_released():
    pool = BufferPool()
    deleted = pool.empty((1000,), np.uint8)
    del deleted
    small = pool.empty((100,), np.uint8)
    assert not pool._free
    del small
    large = pool.empty((10_000,), np.float64)
    large[:] = 1
    assert not pool._free
    assert pool.empty((0, 3), np.float32).shape == (0, 3)


def test_threads_do_not_share_memory():
    pool, failed_threads = BufferPool(), []

    def work(k):
        for _ in range(300):
            first = pool.empty((500,), np.int64)
            first[:] = k
            second = pool.empty((500,), np.int64)
            second[:] = -k
            if (first != k).any():
                failed_threads.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed_threads
    assert len(pool._free) <= 8
