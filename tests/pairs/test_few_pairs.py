"""Few small sets are compared on the calling thread, with the same values as for many sets."""

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
def test_small_matrix_matches_large_matrix(sets, distance):
    large = dk.distance_matrix(sets, distance=distance, random_state=0)
    small = dk.distance_matrix(sets[:4], distance=distance, random_state=0)
    np.testing.assert_array_equal(small, large[:4, :4])
    cross = dk.distance_matrix(sets[:3], sets[20:], distance=distance, random_state=0)
    np.testing.assert_array_equal(cross, large[:3, 20:])


def test_small_matrix_starts_no_thread(sets, monkeypatch):
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread), start(thread)))
    dk.distance_matrix(sets[:4], distance="energy")
    assert not started
    dk.distance_matrix([[*points] * 20 for points in sets], distance="energy")
    assert started


def test_user_function_runs_on_threads(sets):
    threads = set()

    def distance_of_means(x, y):
        threads.add(threading.current_thread())
        return float(abs(x.mean() - y.mean()))

    dk.distance_matrix(sets[:4], distance=dk.pairwise(distance_of_means))
    assert threads - {threading.current_thread()}
