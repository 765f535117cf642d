"""Coresets of sets that are read piece by piece: the same guarantee as in memory, the same bits on every scheduler."""

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client

import dkdist as dk

RNG = np.random.default_rng(0)
P = RNG.permutation(np.concatenate([RNG.normal(m, 0.5, (5000, 2)) for m in (0, 2, 5, 7)])) + 50
SIGMA = 0.7


def lazily(x, rows):
    return da.from_array(x, chunks=(rows, x.shape[1]))


def independent(x, few, sigma=SIGMA, weights=None):
    return dk.kernel_distance(
        x, x[few.indices], sigma=sigma, weights=(weights, few.weights), method="fourier", eps=1e-9
    )


@pytest.fixture(scope="module")
def in_memory():
    """The mean distance of three seeds."""
    return {
        method: np.mean(
            [dk.coreset(P, 64, sigma=SIGMA, method=method, random_state=s).distance for s in range(3)]
        )
        for method in ("swap", "halving", "stratified", "random")
    }


@pytest.mark.parametrize("rows", [500, 3333, 20_000])
def test_the_guarantee_is_that_of_memory(rows, in_memory):
    result = [dk.coreset(lazily(P, rows), 64, sigma=SIGMA, random_state=s) for s in range(3)]
    assert np.mean([few.distance for few in result]) < 1.3 * in_memory["swap"]
    assert len(np.unique(result[0].indices)) == 64
    assert result[0].weights.sum() == pytest.approx(1)
    assert result[0].distance == pytest.approx(independent(P, result[0]), abs=1e-6)


@pytest.mark.parametrize("method", ["halving", "stratified", "random"])
def test_other_methods(method, in_memory):
    result = [dk.coreset(lazily(P, 3000), 64, sigma=SIGMA, method=method, random_state=s) for s in range(3)]
    assert np.mean([few.distance for few in result]) < 1.5 * in_memory[method]
    assert result[0].distance == pytest.approx(independent(P, result[0]), abs=1e-6)
    assert (np.diff(np.sort(result[0].indices)) > 0).all()


def test_stores_and_zarr_arrays_are_pieces_of_whole_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**15)
    x = P.astype(np.float32)
    weights = RNG.random(len(x)).astype(np.float32) * (RNG.random(len(x)) < 0.7)
    sets = dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_arrays([x[:70], x], [weights[:70], weights]))
    few = dk.coreset(sets[1:], 64, sigma=SIGMA, random_state=0)
    assert few.weights.sum() == pytest.approx(weights.sum())
    assert (weights[few.indices] > 0).all()
    p = weights.astype(np.float64)
    assert few.distance / p.sum() == pytest.approx(
        independent(x, dk.Coreset(few.indices, few.weights / p.sum(), 0.0), weights=p / p.sum()), abs=1e-6
    )
    array = zarr.create_array(tmp_path / "a.zarr", shape=x.shape, chunks=(1500, 2), dtype="f4")
    array[:] = x
    plain = dk.coreset(array, 64, sigma=SIGMA, random_state=0)
    assert plain.distance == pytest.approx(independent(x, plain), abs=1e-6)
    with_weights = dk.coreset(
        lazily(x, 5000), 64, sigma=SIGMA, weights=lazily(weights[:, None], 900)[:, 0], random_state=0
    )
    assert 0.5 < with_weights.distance / few.distance < 2


def test_draws_by_weight_are_as_often_as_they_weigh():
    x, weights = np.arange(6.0)[:, None], np.array([1.0, 2, 3, 0, 4, 10])
    points, p = lazily(x, 4), da.from_array(weights, chunks=4)
    counts = np.zeros(6)
    for seed in range(150):
        few = dk.coreset(points, 1, sigma=1.0, weights=p, method="random", random_state=seed)
        counts[few.indices] += 1
    np.testing.assert_allclose(counts / 150, weights / 20, atol=0.13)  # three standard deviations
    assert counts[3] == 0


def test_a_sample_without_repetition_has_the_distance_that_theory_says():
    x = P[:3000]
    square = ((x[:, None] - x) ** 2).sum(axis=2)
    kappa = np.exp(-square / (2 * SIGMA**2)).mean()
    result = [
        dk.coreset(lazily(x, 1000), 50, sigma=SIGMA, method="random", random_state=s).distance ** 2
        for s in range(30)
    ]
    assert np.mean(result) == pytest.approx((1 - kappa) / 50 * (1 - 50 / 3000), rel=0.25)


def test_every_scheduler_gives_the_same_bits(tmp_path, monkeypatch):
    def found(points):
        few = dk.coreset(points, 40, sigma="median", optimal_weights=True, random_state=3)
        return few.indices.tolist(), few.weights.tolist(), few.distance

    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**15)
    sets = dk.write_sets(tmp_path / "s.zarr", [P])
    with dask.config.set(scheduler="synchronous"):
        expected, of_store = found(lazily(P, 1700)), found(sets)
    assert found(lazily(P, 1700)) == expected
    with dask.config.set(scheduler="threads", num_workers=3):
        assert found(sets) == of_store
    with Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        assert found(lazily(P, 1700)) == expected
        assert found(sets) == of_store


def test_memory_is_that_of_a_piece():
    def make(rows, block_info=None):
        k = block_info[None]["chunk-location"][0]
        return np.random.default_rng(k).random((rows, 2))

    def lazy(pieces, rows):
        return da.map_blocks(
            make, rows, chunks=((rows,) * pieces, (2,)), dtype=np.float64, meta=np.empty((0, 0))
        )

    dk.coreset(lazy(1, 50_000), 20, sigma=1.0, random_state=0)
    peaks = []
    for pieces in (4, 60):
        tracemalloc.start()
        with dask.config.set(scheduler="synchronous"):
            few = dk.coreset(lazy(pieces, 50_000), 20, sigma=1.0, random_state=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert few.distance < 0.01
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 60 * 50_000 * 16 / 2  # half of the points


def test_many_dimensions_are_judged_by_unseen_features():
    x = RNG.normal(size=(4000, 5))
    few = dk.coreset(lazily(x, 1000), 60, sigma=3.0, random_state=0)
    assert few.distance == pytest.approx(dk.kernel_distance(x, x[few.indices], sigma=3.0, eps=1e-7), rel=0.1)
    narrow = dk.coreset(lazily(P, 5000), 60, sigma=1e-3, random_state=0)  # more cells than are kept
    assert narrow.distance == pytest.approx(dk.kernel_distance(P, P[narrow.indices], sigma=1e-3), rel=0.1)


def test_small_sets_and_coincident_points():
    x = np.repeat([[1.0, 2.0, 3.0]], 50, axis=0)
    few = dk.coreset(lazily(x, 20), 50, sigma=1.0, random_state=0)
    assert few.indices.tolist() == list(range(50))
    assert few.distance < 1e-7
    assert dk.coreset(lazily(x, 20), 7, sigma=1.0, random_state=0).distance < 1e-4
    p = np.r_[1000.0, np.ones(49)]
    for method in ("swap", "random", "halving", "stratified"):
        few = dk.coreset(lazily(x, 1), 30, sigma=1.0, weights=p, method=method, random_state=0)
        assert len(set(few.indices.tolist())) == 30


def test_what_is_refused(tmp_path):
    points = lazily(P, 5000)
    bad = P.copy()
    bad[7000, 1] = np.nan
    for message, value, options in (
        ("at most the number of points, 20000; got 20001", points, {"size": 20_001}),
        ("Load them", points, {"method": "every"}),
        ("in row 7000", lazily(bad, 3000), {}),
        (r"weights must have shape \(20000,\)", points, {"weights": np.ones(9)}),
        (
            "weights must be >= 0; got -1.0 at point 3",
            points,
            {"weights": np.where(np.arange(20_000) == 3, -1, 1)},
        ),
        ("positive sum; got 0", points, {"weights": np.zeros(20_000)}),
        ("sigma=1e-07 is too small for points", points, {"sigma": 1e-7}),
        ("width of the points must be", lazily(1e200 * P, 5000), {"sigma": 1e200}),
        ("total weight must be .*; got 2e-36", points, {"weights": np.full(20_000, 1e-40)}),
        ("shape", points[:, 0], {}),
        ("real numbers", points.astype(complex), {}),
        ("'median'", points, {"sigma": "mean"}),
        ("one set; got 2", dk.write_sets(tmp_path / "s.zarr", [P[:9], P[:9]]), {}),
        ("weights must be None for a store", dk.open_sets(tmp_path / "s.zarr")[:1], {"weights": np.ones(9)}),
        ("string of characters", dk.write_sets(tmp_path / "t.zarr", ["ABBA"]), {"size": 1}),
    ):
        with pytest.raises(ValueError, match=message):
            dk.coreset(value, **({"size": 5, "sigma": 1.0} | options))
