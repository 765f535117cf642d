"""Few small sets are compared by the thread that asks: the values are those of many, and no other thread is started."""

import threading

import numpy as np
import pytest

import dkdist as dk

POINTS = ("dtw", "hausdorff", "energy", "chamfer", "sliced-wasserstein", "wasserstein")


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    return dk.SampleSets.from_arrays([rng.standard_normal((n, 2)) for n in rng.integers(30, 40, 24)])


@pytest.mark.parametrize("distance", POINTS)
def test_few_are_a_corner_of_many(sets, distance):
    many = dk.distance_matrix(sets, distance=distance, random_state=0)
    few = dk.distance_matrix(sets[:4], distance=distance, random_state=0)
    np.testing.assert_array_equal(few, many[:4, :4])
    beside = dk.distance_matrix(sets[:3], sets[20:], distance=distance, random_state=0)
    np.testing.assert_array_equal(beside, many[:3, 20:])


def test_no_thread_is_started_for_few(sets, monkeypatch):
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread), start(thread)))
    dk.distance_matrix(sets[:4], distance="energy")
    assert not started
    dk.distance_matrix([[*points] * 20 for points in sets], distance="energy")
    assert started


def test_a_function_of_ones_own_may_take_long_and_has_threads(sets):
    seen = set()

    def apart(x, y):
        seen.add(threading.current_thread())
        return float(abs(x.mean() - y.mean()))

    dk.distance_matrix(sets[:4], distance=dk.pairwise(apart))
    assert seen - {threading.current_thread()}
