"""sigma="median" uses random rows, so grids, repeated columns and the order of sets do not bias it."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

import dkdist as dk
from dkdist._base.sampling import random_row_keys, random_runs, random_subset, smallest_keys

GRID = np.stack(np.meshgrid(np.arange(512.0), np.arange(512.0)), axis=-1).reshape(-1, 2)


def median_and_spread():
    """Return the median distance of different pixels, and the standard deviation of its estimate times root m.

    The sample median of m random points has the variance 4 zeta / (m f^2), as a quantile of a U-statistic: f is the
    density of distances at the median, zeta the variance over points of the fraction of nearer points.
    """
    k = np.arange(512)
    counts = np.where(k == 0, 512, 2 * (512 - k)).astype(float)  # pairs of pixels at distance k along an axis
    distances, n_pairs = np.hypot(*np.meshgrid(k, k)).ravel()[1:], np.outer(counts, counts).ravel()[1:]
    order = np.argsort(distances)
    distances, cumulative = distances[order], np.cumsum(n_pairs[order]) / n_pairs.sum()
    median = distances[np.searchsorted(cumulative, 0.5)]
    density = np.diff(np.interp([median - 5, median + 5], distances, cumulative))[0] / 10
    x = GRID[np.random.default_rng(0).integers(len(GRID), size=1500)]
    return median, 2 * (cdist(x, x) < median).mean(axis=1).std() / density


MEDIAN, SPREAD = median_and_spread()
DEVIATION = {m: SPREAD / np.sqrt(m) for m in (512, 1024)}


@pytest.mark.parametrize("seed", range(3))
def test_median_sigma_of_grid_points(seed, monkeypatch):
    seen = []
    monkeypatch.setattr("dkdist.coresets.selection.median_sigma", lambda x: seen.append(x) or 260.0)
    dk.coreset(GRID, 4, sigma="median", method="random", random_state=seed)
    sets = dk.SampleSets.from_arrays([GRID])
    result = {
        "coreset": (np.median(pdist(seen[0])), 1024),
        "mean": (dk.MeanEmbedding(random_state=seed).fit(sets).sigma_, 1024),
    }
    for name, (sigma, m) in result.items():
        assert sigma == pytest.approx(MEDIAN, abs=4 * DEVIATION[m]), name
    rows = dk.RandomFourierFeatures(10, random_state=seed).fit(GRID).sigma_
    # 32 runs of neighbouring rows: standard deviation of 10 % by simulation
    assert rows == pytest.approx(MEDIAN, rel=0.3)


def test_median_follows_its_sampling_distribution():
    result = [np.median(pdist(GRID[random_subset(len(GRID), 512, seed)])) for seed in range(40)]
    assert np.mean(result) == pytest.approx(MEDIAN, abs=4 * DEVIATION[512] / np.sqrt(40))
    assert np.std(result) < 1.5 * DEVIATION[512]  # 1.5: four standard errors for 40 values


def test_kernel_distance_of_grids_and_repeated_columns():
    shifted = GRID + 0.25
    result = dk.kernel_distance(GRID, shifted, sigma="median", squared=True, eps=1e-9)
    near = [dk.kernel_distance(GRID, shifted, sigma=MEDIAN * f, squared=True, eps=1e-9) for f in (1.1, 0.9)]
    assert near[0] < result < near[1]
    assert result == pytest.approx(
        dk.kernel_distance(shifted, GRID, sigma="median", squared=True, eps=1e-9), rel=1e-6
    )
    column = np.tile(np.arange(64.0), 4096)[:, None]
    sigma = np.median(pdist(column[:64]))
    for seed in range(3):
        assert dk.two_sample_test(
            column[:2048], column[:2048] + 1, sigma="median", n_permutations=1, random_state=seed
        ).sigma == pytest.approx(sigma, rel=0.2)
    # not reported as mostly equal points
    assert dk.coreset(column, 8, sigma="median", random_state=0).distance < 0.1
    assert dk.kernel_distance(column, column + 1, sigma="median") > 0
    assert dk.RandomFourierFeatures(10, random_state=0).fit(column).sigma_ == pytest.approx(sigma, rel=0.3)


def test_median_sigma_of_periodic_sets():
    rng = np.random.default_rng(0)
    wide = [rng.normal(size=(8, 1)) * (10.0 if i % 73 == 0 else 1.0) for i in range(73 * 7 + 1)]
    narrow = np.median(pdist(rng.normal(size=(2000, 1))))
    result = [dk.MeanEmbedding(random_state=seed).fit(wide).sigma_ for seed in range(3)]
    np.testing.assert_allclose(result, narrow, rtol=0.15)


def test_sample_does_not_depend_on_input_type(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    P = rng.normal(size=(5000, 2)).astype(np.float32) + 5
    w = rng.random(5000).astype(np.float32) * (rng.random(5000) < 0.5)
    samples = []
    target = "dkdist.coresets.selection.median_sigma"
    monkeypatch.setattr(target, lambda x: samples.append(np.array(x)) or 1.0)
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**12)
    store = dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_arrays([P], [w]))
    for points, weights in (
        (P, w), (da.from_array(P, chunks=(700, 2)), w), (da.from_array(P, chunks=(5000, 2)), w), (store, None),
    ):  # fmt: skip
        dk.coreset(points, 9, sigma="median", weights=weights, random_state=4)
    for points in (P, da.from_array(P, chunks=(700, 2)), da.from_array(P, chunks=(1, 2))[:3000]):
        dk.coreset(points, 9, sigma="median", random_state=4)
    for other in samples[1:4]:
        np.testing.assert_array_equal(other, samples[0])
    np.testing.assert_array_equal(samples[4], samples[5])
    assert len(samples[0]) == len(samples[4]) == len(samples[6]) == 1024
    assert not np.array_equal(samples[0], samples[4])


def test_median_sigma_of_stores_matches_memory(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    sets = dk.SampleSets.from_arrays([rng.normal(i, 1, (50 + i % 3, 2)) for i in range(300)])
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    expected = dk.MeanEmbedding(random_state=7).fit(sets).sigma_
    assert dk.MeanEmbedding(random_state=7).fit(store).sigma_ == expected
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 0)
    single_set_store = dk.write_sets(tmp_path / "one.zarr", sets[:1])
    assert (
        dk.MeanEmbedding(random_state=7).fit(single_set_store).sigma_
        == dk.MeanEmbedding(random_state=7).fit(sets[:1]).sigma_
    )
    rows = rng.normal(size=(3000, 4)).astype(np.float32)
    lazy = da.from_array(rows, chunks=(100, 4))
    output = dk.RandomFourierFeatures(10, random_state=7)
    assert output.fit(lazy).sigma_ == output.fit(rows).sigma_


def test_gamma_uses_all_sets():
    rng = np.random.default_rng(0)
    # the first 500 sets are close together
    sets = [rng.normal(0 if i < 500 else 50 * (i % 2), 1, (6, 1)) for i in range(2000)]
    gamma_64 = dk.DistanceEmbedding("energy", n_components=64, random_state=0).fit(sets).gamma_
    gamma_1024 = dk.DistanceEmbedding("energy", n_components=1024, random_state=0).fit(sets).gamma_
    assert gamma_1024 == pytest.approx(gamma_64, rel=1)


@pytest.mark.parametrize("n", [1, 7, 512, 513, 600, 5000])
def test_random_runs_are_within_bounds_and_distinct(n):
    rows = np.concatenate([random_runs(n, 32, 16, seed) for seed in range(50)]).reshape(50, -1)
    assert (np.diff(rows, axis=1) > 0).all()
    assert rows.min() == 0
    assert rows.max() == n - 1 if n < 600 else rows.max() < n
    assert rows.shape[1] == min(n, 512)


def test_random_row_keys_do_not_depend_on_pieces():
    keys = random_row_keys(0, 1000, 3)
    np.testing.assert_array_equal(
        np.concatenate([random_row_keys(a, 100, 3) for a in range(0, 1000, 100)]), keys
    )
    np.testing.assert_array_equal(smallest_keys(keys, 10), np.sort(np.argsort(keys)[:10]))
