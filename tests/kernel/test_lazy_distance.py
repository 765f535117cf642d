"""Kernel distances of lazy points: equal to those in memory, in bounded memory."""

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

import dkdist as dk

RNG = np.random.default_rng(0)
D = 2
P, Q = RNG.normal(size=(5000, D)).astype(np.float32), RNG.normal(0.3, 1.2, (4000, D)).astype(np.float32)
WEIGHTS = [RNG.exponential(1, len(x)).astype(np.float32) for x in (P, Q)]
EPS = 1e-5


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return dk.write_sets(tmp_path_factory.mktemp("sets") / "s", [P, Q], chunk_rows=512)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    sets = dk.SampleSets.from_arrays([P, Q], WEIGHTS)
    return dk.write_sets(tmp_path_factory.mktemp("sets") / "w", sets, chunk_rows=512)


def zarr_array(x):
    array = zarr.create_array(store={}, shape=x.shape, chunks=(700, D), dtype=x.dtype)
    array[:] = x
    return array


def in_memory(sigma, weights=None):
    return dk.kernel_distance(P, Q, sigma=sigma, squared=True, method="exact", weights=weights)


@pytest.mark.parametrize("sigma", [0.2, 3.0, [0.3, 1.0]])
def test_lazy_inputs_match_memory(sigma, store):
    expected = in_memory(sigma)
    for p, q in (
        (da.from_array(P, chunks=(777, 2)), da.from_array(Q, chunks=(4000, 1))),
        (zarr_array(P), zarr_array(Q)),
        (store[:1], store[1:]),
        (store[:1], Q),
        (P, zarr_array(Q)),
    ):
        result = dk.kernel_distance(p, q, sigma=sigma, squared=True, eps=EPS)
        assert abs(result - expected) <= EPS
        assert dk.kernel_distance(p, q, sigma=sigma, eps=EPS) == np.sqrt(result)


def test_weights_of_lazy_inputs(weighted):
    normalized = tuple(w / w.sum(dtype=np.float64) for w in WEIGHTS)
    assert (
        abs(
            dk.kernel_distance(weighted[:1], weighted[1:], sigma=0.5, squared=True, eps=EPS)
            - in_memory(0.5, normalized)
        )
        <= EPS
    )
    scaled = tuple(w / 1000 for w in WEIGHTS)
    p, w = (da.from_array(x, chunks=901) for x in (P, scaled[0]))
    result = dk.kernel_distance(p, Q, sigma=0.5, squared=True, eps=EPS, weights=(w, scaled[1]))
    assert abs(result - in_memory(0.5, scaled)) <= EPS
    result = dk.kernel_distance(p, Q, sigma=0.5, squared=True, eps=EPS, weights=(w, None))
    assert abs(result - in_memory(0.5, (scaled[0], None))) <= EPS


def test_median_bandwidth_uses_a_sample(store):
    result = [
        dk.kernel_distance(store[:1], store[1:], sigma="median", squared=True, random_state=seed)
        for seed in range(3)
    ]
    assert len(set(result)) == 3
    low, high = (
        in_memory(s * np.median(np.linalg.norm(P[:1000, None] - Q[None, :1000], axis=2))) for s in (1.2, 0.8)
    )
    assert low < min(result) <= max(result) < high


def test_schedulers_give_identical_results(store):
    lazy = [da.from_array(x, chunks=(600, 2)) for x in (P, Q)]
    result = set()
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            result.add(dk.kernel_distance(*lazy, sigma=0.5))
    result.add(dk.kernel_distance(*lazy, sigma=0.5))
    assert len(result) == 1


def test_flat_and_equal_lazy_points():
    line = np.column_stack([np.linspace(0, 1, 3000), np.full(3000, 7.0)])
    result = dk.kernel_distance(
        da.from_array(line, chunks=500), line[::2] + np.array([0.2, 0]), sigma=0.3, squared=True, eps=EPS
    )
    exact = dk.kernel_distance(line, line[::2] + np.array([0.2, 0]), sigma=0.3, squared=True, method="exact")
    assert abs(result - exact) <= EPS
    same = da.from_array(np.full((900, 2), 3.0), chunks=100)
    assert dk.kernel_distance(same, same, sigma=1.0) == 0


def test_memory_is_bounded_by_blocks(tmp_path, monkeypatch):
    """A few float64 copies of a piece per thread; pieces have 256 KiB."""
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**18)
    n = 3_000_000
    sets = [RNG.random((n, 2), dtype=np.float32), RNG.random((n, 2), dtype=np.float32) ** 1.1]
    store = dk.write_sets(tmp_path / "s", sets, chunk_rows=2**13)
    dk.kernel_distance(P, Q, sigma=0.2, method="fourier")  # compile first
    tracemalloc.start()
    result = dk.kernel_distance(store[:1], store[1:], sigma=0.2, squared=True, method="fourier")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n  # half of the bytes of both sets
    assert 0 < result < 0.01


INVALID_OPTIONS = [
    ({"method": "exact"}, "method must be 'auto' or 'fourier' .*; got 'exact'"),
    ({"kernel": "matern52"}, "kernel='matern52'"),
    ({"gradient": True}, "gradient=True"),
    ({"unbiased": True}, "unbiased=True"),
    ({"sigma": np.eye(2)}, "sigma must not be a matrix"),
    ({"sigma": 1e-6}, "the mesh must have at most"),
    ({"eps": -1}, "eps"),
    ({"weights": 3}, "weights must be None or a pair"),
    ({"weights": (-np.ones(5000), None)}, "weights must be >= 0"),
    ({"weights": (np.zeros(5000), None)}, "weights of P must have a sum from .*; got 0"),
]


@pytest.mark.parametrize(
    ("options", "message"), INVALID_OPTIONS, ids=[message for _, message in INVALID_OPTIONS]
)
def test_invalid_options_raise(options, message):
    options = {"sigma": 0.5, "squared": True} | options
    with pytest.raises(ValueError, match=message):
        dk.kernel_distance(da.from_array(P, chunks=2000), Q, **options)


def test_invalid_lazy_points_raise(store):
    wide = da.ones((100, 4), chunks=50)
    with pytest.raises(ValueError, match="at most 3 dimensions; got 4"):
        dk.kernel_distance(wide, wide, sigma=1.0)
    with pytest.raises(ValueError, match="P and Q must have the same number of dimensions; got 2 and 4"):
        dk.kernel_distance(store[:1], wide, sigma=1.0)
    with pytest.raises(ValueError, match="must contain one set; got 2"):
        dk.kernel_distance(store, P, sigma=1.0)
    invalid = P.copy()
    invalid[3333, 1] = np.nan
    with pytest.raises(ValueError, match="in row 3333"):
        dk.kernel_distance(da.from_array(invalid, chunks=1000), Q, sigma=1.0)
