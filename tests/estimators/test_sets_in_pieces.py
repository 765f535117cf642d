"""Sets too large to be read at once: embedded from pieces, with the bits of the whole and the memory of a piece."""

import tracemalloc

import numpy as np
import pytest

import dkdist as dk

RNG = np.random.default_rng(0)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("dkdist.store.rows.PIECE_BYTES", 2**13)
    monkeypatch.setattr("dkdist.store.rows.WHOLE_BYTES", 2**15)


def write(path, arrays):
    with dk.SetWriter(path, arrays[0].shape[1], chunk_rows=512) as writer:
        writer.append(arrays)
    return dk.open_sets(path)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("sigma", [2.0, "median"])
def test_rows_have_the_bits_of_whole_sets(d, sigma, tmp_path, small_pieces):
    arrays = [RNG.normal(i, 1, (n, d)).astype(np.float32) for i, n in enumerate((300, 20_011, 7, 33_000))]
    store = write(tmp_path / "s.zarr", arrays)
    embedding = dk.MeanEmbedding(300, sigma, "fourier")
    of_memory = embedding.fit_transform(dk.SampleSets.from_arrays(arrays))
    spec = embedding.spec_
    np.testing.assert_array_equal(embedding.fit(store).transform(store).compute(), of_memory)
    assert embedding.spec_ == spec
    np.testing.assert_array_equal(embedding.transform(store[1:2]).compute(), of_memory[1:2])


def test_points_outside_are_counted_and_lost_chunks_named(tmp_path, small_pieces):
    arrays = [RNG.normal(size=(20_000, 2)), RNG.normal(size=(90, 2))]
    store = write(tmp_path / "s.zarr", arrays)
    embedding = dk.MeanEmbedding(200, 1.0, "fourier").fit(store[1:])
    with pytest.warns(UserWarning, match="points of 1 sets") as told:
        found = embedding.transform(store).compute()
    with pytest.warns(UserWarning, match="points of 1 sets") as in_memory:
        expected = embedding.transform(store.load())
    assert str(told[0].message) == str(in_memory[0].message)
    np.testing.assert_array_equal(found, expected)
    (tmp_path / "s.zarr" / "points" / "c" / "9" / "0").unlink()
    with pytest.raises(dk.StoreFormatError, match="set 0 cannot be read"):
        embedding.fit(store)
    with pytest.warns(UserWarning, match="1 bad set"):
        skipped = dk.MeanEmbedding(200, 1.0, "fourier", on_error="skip").fit(store)
    assert skipped.skipped_.tolist() == [0]


def test_memory_is_that_of_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.store.rows.WHOLE_BYTES", 2**20)
    monkeypatch.setattr("dkdist.store.rows.PIECE_BYTES", 2**19)
    n = 1_500_000
    store = write(tmp_path / "s.zarr", [RNG.random((n, 2), dtype=np.float32)])
    dk.MeanEmbedding(50, 0.5, "fourier").fit_transform([np.zeros((3, 2)), np.ones((3, 2))])  # compiles
    tracemalloc.start()
    row = dk.MeanEmbedding(50, 0.5, "fourier").fit(store).transform(store).compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n / 3  # of its bytes
    np.testing.assert_allclose(row @ row.T, 0.58363, atol=1e-3)  # the mean kernel of the unit square
