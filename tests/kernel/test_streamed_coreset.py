"""Coresets of sets that are read in pieces: guarantees as in memory, identical results on all schedulers."""

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


def as_dask(x, rows):
    return da.from_array(x, chunks=(rows, x.shape[1]))


def recomputed_distance(x, coreset, sigma=SIGMA, weights=None):
    return dk.kernel_distance(
        x, x[coreset.indices], sigma=sigma, weights=(weights, coreset.weights), method="fourier", eps=1e-9
    )


@pytest.fixture(scope="module")
def in_memory():
    """Return the mean distance of three seeds, by method."""
    return {
        method: np.mean(
            [dk.coreset(P, 64, sigma=SIGMA, method=method, random_state=s).distance for s in range(3)]
        )
        for method in ("swap", "halving", "stratified", "random")
    }


@pytest.mark.parametrize("rows", [500, 3333, 20_000])
def test_streamed_swap_is_nearly_as_good_as_in_memory(rows, in_memory):
    result = [dk.coreset(as_dask(P, rows), 64, sigma=SIGMA, random_state=s) for s in range(3)]
    assert np.mean([coreset.distance for coreset in result]) < 1.3 * in_memory["swap"]
    assert len(np.unique(result[0].indices)) == 64
    assert result[0].weights.sum() == pytest.approx(1)
    assert result[0].distance == pytest.approx(recomputed_distance(P, result[0]), abs=1e-6)


@pytest.mark.parametrize("method", ["halving", "stratified", "random"])
def test_other_streamed_methods_are_nearly_as_good_as_in_memory(method, in_memory):
    result = [dk.coreset(as_dask(P, 3000), 64, sigma=SIGMA, method=method, random_state=s) for s in range(3)]
    assert np.mean([coreset.distance for coreset in result]) < 1.5 * in_memory[method]
    assert result[0].distance == pytest.approx(recomputed_distance(P, result[0]), abs=1e-6)
    assert (np.diff(np.sort(result[0].indices)) > 0).all()


def test_stores_and_zarr_arrays_are_read_in_whole_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**15)
    x = P.astype(np.float32)
    weights = RNG.random(len(x)).astype(np.float32) * (RNG.random(len(x)) < 0.7)
    sets = dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_arrays([x[:70], x], [weights[:70], weights]))
    coreset = dk.coreset(sets[1:], 64, sigma=SIGMA, random_state=0)
    assert coreset.weights.sum() == pytest.approx(weights.sum())
    assert (weights[coreset.indices] > 0).all()
    p = weights.astype(np.float64)
    assert coreset.distance / p.sum() == pytest.approx(
        recomputed_distance(
            x, dk.Coreset(coreset.indices, coreset.weights / p.sum(), 0.0), weights=p / p.sum()
        ),
        abs=1e-6,
    )
    array = zarr.create_array(tmp_path / "a.zarr", shape=x.shape, chunks=(1500, 2), dtype="f4")
    array[:] = x
    plain = dk.coreset(array, 64, sigma=SIGMA, random_state=0)
    assert plain.distance == pytest.approx(recomputed_distance(x, plain), abs=1e-6)
    with_weights = dk.coreset(
        as_dask(x, 5000), 64, sigma=SIGMA, weights=as_dask(weights[:, None], 900)[:, 0], random_state=0
    )
    assert 0.5 < with_weights.distance / coreset.distance < 2


def test_random_draws_are_proportional_to_weights():
    x, weights = np.arange(6.0)[:, None], np.array([1.0, 2, 3, 0, 4, 10])
    points, p = as_dask(x, 4), da.from_array(weights, chunks=4)
    counts = np.zeros(6)
    for seed in range(150):
        coreset = dk.coreset(points, 1, sigma=1.0, weights=p, method="random", random_state=seed)
        counts[coreset.indices] += 1
    np.testing.assert_allclose(counts / 150, weights / 20, atol=0.13)  # three standard deviations
    assert counts[3] == 0


def test_sample_without_replacement_has_the_theoretical_distance():
    x = P[:3000]
    square = ((x[:, None] - x) ** 2).sum(axis=2)
    kappa = np.exp(-square / (2 * SIGMA**2)).mean()
    result = [
        dk.coreset(as_dask(x, 1000), 50, sigma=SIGMA, method="random", random_state=s).distance ** 2
        for s in range(30)
    ]
    assert np.mean(result) == pytest.approx((1 - kappa) / 50 * (1 - 50 / 3000), rel=0.25)


def test_schedulers_give_identical_results(tmp_path, monkeypatch, worker_processes):
    def coreset_values(points):
        coreset = dk.coreset(points, 40, sigma="median", optimal_weights=True, random_state=3)
        return coreset.indices.tolist(), coreset.weights.tolist(), coreset.distance

    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**15)
    sets = dk.write_sets(tmp_path / "s.zarr", [P])
    with dask.config.set(scheduler="synchronous"):
        expected, store_values = coreset_values(as_dask(P, 1700)), coreset_values(sets)
    assert coreset_values(as_dask(P, 1700)) == expected
    with dask.config.set(scheduler="threads", num_workers=3):
        assert coreset_values(sets) == store_values
    with Client(worker_processes):
        assert coreset_values(as_dask(P, 1700)) == expected
        assert coreset_values(sets) == store_values


def test_memory_is_bounded_by_a_piece():
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
            coreset = dk.coreset(lazy(pieces, 50_000), 20, sigma=1.0, random_state=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert coreset.distance < 0.01
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 60 * 50_000 * 16 / 2  # half of the points


def test_distance_in_many_dimensions_uses_independent_features():
    x = RNG.normal(size=(4000, 5))
    coreset = dk.coreset(as_dask(x, 1000), 60, sigma=3.0, random_state=0)
    assert coreset.distance == pytest.approx(
        dk.kernel_distance(x, x[coreset.indices], sigma=3.0, eps=1e-7), rel=0.1
    )
    narrow = dk.coreset(as_dask(P, 5000), 60, sigma=1e-3, random_state=0)  # more cells than the limit
    assert narrow.distance == pytest.approx(dk.kernel_distance(P, P[narrow.indices], sigma=1e-3), rel=0.1)


def test_streamed_coresets_of_small_and_coincident_sets():
    x = np.repeat([[1.0, 2.0, 3.0]], 50, axis=0)
    coreset = dk.coreset(as_dask(x, 20), 50, sigma=1.0, random_state=0)
    assert coreset.indices.tolist() == list(range(50))
    assert coreset.distance < 1e-7
    assert dk.coreset(as_dask(x, 20), 7, sigma=1.0, random_state=0).distance < 1e-4
    p = np.r_[1000.0, np.ones(49)]
    for method in ("swap", "random", "halving", "stratified"):
        coreset = dk.coreset(as_dask(x, 1), 30, sigma=1.0, weights=p, method=method, random_state=0)
        assert len(set(coreset.indices.tolist())) == 30


def test_invalid_input_raises(tmp_path):
    points = as_dask(P, 5000)
    invalid = P.copy()
    invalid[7000, 1] = np.nan
    for message, value, options in (
        ("at most the number of points, 20000; got 20001", points, {"size": 20_001}),
        ("Load them", points, {"method": "every"}),
        ("in row 7000", as_dask(invalid, 3000), {}),
        (r"weights must have shape \(20000,\)", points, {"weights": np.ones(9)}),
        (
            "weights must be >= 0; got -1.0 at point 3",
            points,
            {"weights": np.where(np.arange(20_000) == 3, -1, 1)},
        ),
        ("positive sum; got 0", points, {"weights": np.zeros(20_000)}),
        ("sigma=1e-07 is too small for points", points, {"sigma": 1e-7}),
        ("width of the points must be", as_dask(1e200 * P, 5000), {"sigma": 1e200}),
        ("total weight must be .*; got 2e-36", points, {"weights": np.full(20_000, 1e-40)}),
        ("shape", points[None], {}),
        ("real numbers", points.astype(complex), {}),
        ("'median'", points, {"sigma": "mean"}),
        ("one set; got 2", dk.write_sets(tmp_path / "s.zarr", [P[:9], P[:9]]), {}),
        ("weights must be None for a store", dk.open_sets(tmp_path / "s.zarr")[:1], {"weights": np.ones(9)}),
        ("string of characters", dk.write_sets(tmp_path / "t.zarr", ["ABBA"]), {"size": 1}),
    ):
        with pytest.raises(ValueError, match=message):
            dk.coreset(value, **({"size": 5, "sigma": 1.0} | options))
