"""Memory that serves again, and never while somebody holds it."""

import threading

import numpy as np

from dkdist._utils.concurrency import BufferPool


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_array_and_all_its_views_are_gone():
    room = BufferPool()
    one = room.empty((1000, 2), np.float32)
    assert (one.shape, one.dtype, one.flags.c_contiguous, one.flags.writeable) == (
        (1000, 2),
        np.float32,
        True,
        True,
    )
    where, part = place(one), one[10:20, 1]
    part[:] = 7
    del one
    other = room.empty((1000, 2), np.float32)
    assert place(other) != where
    other[:] = 1
    assert (part == 7).all()
    del part
    assert place(room.empty((1010, 2), np.float32)) == where  # a little larger is no other size


def test_what_does_not_fit_is_forgotten():
    room = BufferPool()
    del_me = room.empty((1000,), np.uint8)
    del del_me
    small = room.empty((100,), np.uint8)
    assert not room._free
    del small
    large = room.empty((10_000,), np.float64)
    large[:] = 1
    assert not room._free
    assert room.empty((0, 3), np.float32).shape == (0, 3)


def test_threads_never_get_the_same_memory():
    room, failed = BufferPool(), []

    def work(k):
        for _ in range(300):
            mine = room.empty((500,), np.int64)
            mine[:] = k
            other = room.empty((500,), np.int64)
            other[:] = -k
            if (mine != k).any():
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(room._free) <= 8
