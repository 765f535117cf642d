"""Sets that are too large to read at once: rows from pieces are bit-identical, and memory is bounded by a piece."""

import tracemalloc

import numpy as np
import pytest

import dkdist as dk

RNG = np.random.default_rng(0)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**13)
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 2**15)
    monkeypatch.setattr("dkdist._runtime.arrays.MAX_BLOCK_BYTES", 2**15)
    monkeypatch.setattr("dkdist._numba.points.CHUNK_BYTES", 2**14)


@pytest.fixture
def no_whole_sets(monkeypatch):
    """Raise if a set that should be read in pieces is loaded as a whole."""
    load = dk.SetStore.points_alone

    def load_small(self, first=0):
        assert len(self) > 1 or self.n_points < 10_000
        return load(self)

    monkeypatch.setattr(dk.SetStore, "points_alone", load_small)


def write(path, arrays, weights=None, chunk_rows=512):
    sets = dk.SampleSets.from_arrays(arrays, weights)
    with dk.SetWriter(path, sets.n_dims, chunk_rows=chunk_rows) as writer:
        writer.append(sets)
    return dk.open_sets(path)


def draw_weights(n, kind):
    if kind == "none":
        return None
    w = RNG.exponential(3, n).astype(np.float32)
    w[RNG.random(n) < 0.2] = 0
    return w if kind == "one each" else w[:, None]


@pytest.mark.parametrize("weights", ["none", "one each", "one column"])
@pytest.mark.parametrize("sigma", [2.0, (2.0, 4.0), "median"])
@pytest.mark.parametrize(
    ("method", "d"), [("fourier", 1), ("fourier", 2), ("fourier", 3), ("orthogonal", 1), ("orthogonal", 7)]
)
def test_rows_from_pieces_match_whole_sets(weights, d, sigma, method, tmp_path, small_pieces, no_whole_sets):
    sizes = (300, 10_011, 7, 14_000)
    arrays = [RNG.normal(i, 1, (n, d)).astype(np.float32) for i, n in enumerate(sizes)]
    w = None if weights == "none" else [draw_weights(n, weights) for n in sizes]
    store = write(tmp_path / "s.zarr", arrays, w)
    embedding = dk.MeanEmbedding(800, sigma, method, random_state=0)
    in_memory_rows = embedding.fit_transform(dk.SampleSets.from_arrays(arrays, w))
    spec = embedding.spec_
    np.testing.assert_array_equal(embedding.fit(store).transform(store).compute(), in_memory_rows)
    assert embedding.spec_ == spec
    np.testing.assert_array_equal(embedding.transform(store[1:2]).compute(), in_memory_rows[1:2])


OTHERS = {
    "density, d = 1": (1, dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.1)),
    "density, d = 2": (2, dk.DivergenceEmbedding("hellinger")),
    "several bandwidths, d = 3": (
        3,
        dk.DivergenceEmbedding("hellinger", n_basis=6, bandwidth=[[0.1], [0.2]]),
    ),
    "uniform nodes": (2, dk.DivergenceEmbedding("hellinger", nodes="uniform", bandwidth=0.1, random_state=0)),
    "grid, d = 4": (4, dk.DivergenceEmbedding("hellinger", structure="joint", bandwidth=0.3, n_basis=8)),
    "marginal, d = 5": (5, dk.DivergenceEmbedding("total-variation", structure="marginal")),
    "pairs, d = 5": (5, dk.DivergenceEmbedding("hellinger", structure="pairs", bandwidth=0.1)),
    "L2": (2, dk.L2Embedding(bandwidth=0.1)),
    "histogram": (2, dk.HistogramEmbedding(9, "jensen-shannon")),
    "histograms of each dimension": (5, dk.HistogramEmbedding(8, "hellinger", structure="marginal")),
    "codebook": (3, dk.CodebookEmbedding(10, "hellinger", random_state=0)),
    "nystroem": (2, dk.NystroemSets("hellinger", n_components=2, random_state=0)),
    "means": (3, dk.MomentEmbedding(1)),
    "moments": (3, dk.MomentEmbedding(2)),
}


@pytest.mark.parametrize("weights", ["none", "one each"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_embeddings_from_pieces_match_whole_sets(weights, name, tmp_path, small_pieces, no_whole_sets):
    d, embedding = OTHERS[name]
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(d, d))
    arrays = [
        (rng.normal(i, 1, (n, d)) @ mix).astype(np.float32) for i, n in enumerate((300, 10_011, 7, 14_000))
    ]
    w = None if weights == "none" else [draw_weights(len(x), weights) for x in arrays]
    if w is not None:
        w[3][4096:10_000] = 0  # pieces of weight zero
    store = write(tmp_path / "s.zarr", arrays, w)
    in_memory_rows = embedding.fit_transform(dk.SampleSets.from_arrays(arrays, w))
    assert np.isfinite(in_memory_rows).all()
    np.testing.assert_array_equal(embedding.transform(store).compute(), in_memory_rows)
    spec = embedding.spec_
    assert embedding.fit(store).spec_ == spec


@pytest.mark.parametrize("name", OTHERS)
def test_chunks_of_points_change_rounding_only(name, monkeypatch):
    """Sums of float32 numbers in another order differ by about 1e-6 of the total.

    Where a density is at its floor of 1e-6, its root differs by half of that divided by the root of the floor: 5e-4.
    """
    d, embedding = OTHERS[name]
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(16_384, d)), rng.random(16_384)
    sets = dk.SampleSets.from_arrays([x, x[:500]], [w, w[:500]])
    in_one_chunk = embedding.fit_transform(sets).astype(np.float64)
    monkeypatch.setattr("dkdist._numba.points.CHUNK_BYTES", 2**14)
    in_chunks = embedding.transform(sets)
    np.testing.assert_array_equal(in_chunks[1], in_one_chunk[1])
    error = np.linalg.norm(in_chunks[0] - in_one_chunk[0])
    assert error < 5e-4 * np.linalg.norm(in_one_chunk[0])


def test_points_outside_are_counted_and_missing_chunks_reported(tmp_path, small_pieces):
    arrays = [RNG.normal(size=(20_000, 2)), RNG.normal(size=(90, 2))]
    store = write(tmp_path / "s.zarr", arrays)
    embedding = dk.MeanEmbedding(200, 1.0, "fourier").fit(store[1:])
    with pytest.warns(UserWarning, match="points in 1 sets") as message:
        result = embedding.transform(store).compute()
    with pytest.warns(UserWarning, match="points in 1 sets") as memory_warnings:
        expected = embedding.transform(store.load())
    assert str(message[0].message) == str(memory_warnings[0].message)
    np.testing.assert_array_equal(result, expected)
    (tmp_path / "s.zarr" / "points" / "c" / "9" / "0").unlink()
    with pytest.raises(dk.StoreFormatError, match="set 0 cannot be read"):
        embedding.fit(store)
    with pytest.warns(UserWarning, match="1 invalid set"):
        skipped = dk.MeanEmbedding(200, 1.0, "fourier", on_error="skip").fit(store)
    assert skipped.skipped_.tolist() == [0]


@pytest.mark.parametrize("method", ["fourier", "iid"])
def test_invalid_weights_raise(method, tmp_path, small_pieces, no_whole_sets):
    n = 20_000
    arrays = [RNG.normal(size=(k, 2)) for k in (9, n)]
    w = [np.ones(9), np.zeros(n)]
    embedding = dk.MeanEmbedding(100, 1.0, method, random_state=0)
    with pytest.raises(dk.SampleSetError, match="the weights of set 1 must have a positive sum"):
        embedding.fit(write(tmp_path / "nothing.zarr", arrays, w))
    w[1][[100, 15_555, 17_000]] = 1, -2, -3
    store = write(tmp_path / "negative.zarr", arrays, w)
    with pytest.raises(dk.SampleSetError, match="weight of point 15555 of set 1 is -2"):
        embedding.fit(store)
    with pytest.raises(dk.SampleSetError, match="weight of point 15555 of set 0 is -2"):
        embedding.fit(store[:1]).transform(store[1:]).compute()
    w[1][[15_555, 17_000]] = 0  # pieces of weight zero are valid
    embedding.fit(write(tmp_path / "one.zarr", arrays, w))


@pytest.mark.parametrize(("method", "weighted"), [("fourier", False), ("orthogonal", True)])
def test_memory_is_bounded_by_a_piece(method, weighted, tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 2**20)
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**19)
    n = 6_000_000  # Python's table of interned strings may grow by 8 MB during the test
    weights = [np.ones(n, np.float32)] if weighted else None
    points = RNG.random((n, 2), dtype=np.float32)
    store = write(tmp_path / "s.zarr", [points], weights, 2**15)
    embedding = dk.MeanEmbedding(50, 0.5, method, random_state=0)
    small_store = write(tmp_path / "few.zarr", [points[:300_000]], weights and [weights[0][:300_000]], 2**15)
    embedding.fit(small_store).transform(small_store).compute()  # compile first
    tracemalloc.start()
    row = embedding.fit(store).transform(store).compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n / 3  # a third of its bytes
    np.testing.assert_allclose(row @ row.T, 0.58363, atol=0.1 if weighted else 1e-3)  # for the unit square


def test_far_sets_from_pieces_match_whole_sets(tmp_path, small_pieces, no_whole_sets):
    """Pieces are relative to the origin of the model and of the store, as whole sets are."""
    arrays = [np.array([1e9, -4.5e6]) + RNG.normal(i, 1, (n, 2)) for i, n in enumerate((300, 20_011, 7))]
    store = write(tmp_path / "s.zarr", arrays)
    assert store.origin.all()
    for origin in (store.origin, np.array([1e9 - 100, -4.5e6 + 64])):
        near = store.rebased(origin)
        embedding = dk.MeanEmbedding(100, 2.0).fit(near)
        assert np.array_equal(embedding.origin_, origin)
        whole = dk.SampleSets.from_arrays(arrays, origin=store.origin)
        assert np.array_equal(embedding.transform(store).compute(), embedding.transform(whole))
        np.testing.assert_allclose(near.bounds, whole.bounds, rtol=0, atol=1)
        assert np.array_equal(
            embedding.fit(near[1:2]).spec_.domain.low,
            embedding.fit(whole[1:2].rebased(origin)).spec_.domain.low,
        )


def test_memory_of_a_summary_is_blocks_and_a_sample(tmp_path):
    from dkdist._base.inputs import summary_bytes
    from dkdist._base.sampling import MAX_POOLED_POINTS

    for n in (1000, 2 * MAX_POOLED_POINTS):  # one set, one block
        store = dk.write_sets(tmp_path / f"{n}.zarr", [np.zeros((n, 3), "f4") + np.arange(n)[:, None]])
        assert summary_bytes(store) == 3 * 4 * 3 * n + 28 * 3 * min(n, MAX_POOLED_POINTS)
