"""`NearestSets` compared with scikit-learn's brute force, in memory and for blocks."""

import pickle

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

import dkdist as dk
from dkdist._numba.top_k import nearest_rows

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("n", "D", "m", "k"), [(50, 3, 7, 10), (9000, 40, 300, 10), (9, 2, 4, 9), (5000, 1, 20, 3)]
)
@pytest.mark.parametrize("offset", [0, 1e4])
def test_neighbours_match_brute_force(n, D, m, k, offset):
    X = (RNG.standard_normal((n, D)) + offset).astype(np.float32)
    queries = (RNG.standard_normal((m, D)) + offset).astype(np.float32)
    distances, indices = dk.NearestSets(k).fit(X).kneighbors(queries)
    X, queries = X.astype(np.float64) - offset, queries.astype(np.float64) - offset
    reference = NearestNeighbors(n_neighbors=k, algorithm="kd_tree" if D < 5 else "brute").fit(X)
    np.testing.assert_allclose(distances, reference.kneighbors(queries)[0], rtol=1e-6, atol=1e-6)
    recomputed = np.linalg.norm(queries[:, None] - X[indices], axis=2)
    np.testing.assert_allclose(recomputed, distances, rtol=1e-6, atol=1e-6)
    assert all(len(set(row)) == k for row in indices.tolist())


@pytest.mark.parametrize("scale", [1, 1e17])
def test_neighbours_beyond_float32_resolution(scale):
    near = 1e-3 * RNG.standard_normal((150, 5))
    X = (scale * np.concatenate([near, near[::-1] + 100, [[1e4] * 5]])).astype(np.float32)
    distances, indices = dk.NearestSets(3).fit(X).kneighbors()
    exact = np.linalg.norm(X[:, None].astype(np.float64) - X, axis=2)
    np.fill_diagonal(exact, np.inf)
    np.testing.assert_allclose(distances, np.sort(exact, axis=1)[:, :3], rtol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(exact, indices, 1), distances, rtol=1e-12)


@pytest.mark.parametrize(("n", "D"), [(8000, 512), (4000, 2048)])
def test_neighbours_with_correlated_rounding(n, D):
    """In products of constant rows all terms round in the same direction, so errors add up."""
    c = np.sort(np.random.default_rng(0).random(n)).astype(np.float32)
    X, query_positions = np.repeat(c[:, None], D, axis=1), np.arange(0, n, 5)
    squares, _ = nearest_rows(X, X[query_positions], 3)
    exact = np.sort(np.abs(c[query_positions, None].astype(np.float64) - c), axis=1)[:, :3] * np.sqrt(D)
    np.testing.assert_allclose(np.sqrt(squares), exact, rtol=1e-9, atol=1e-9)


def test_lazy_features_give_identical_results():
    X = RNG.standard_normal((1000, 16)).astype(np.float32)
    distances, indices = dk.NearestSets(5).fit(X).kneighbors(X[:50])
    lazy = dk.NearestSets(5).fit(da.from_array(X, chunks=(130, 16)))
    result = lazy.kneighbors(X[:50])
    np.testing.assert_array_equal(result[1], indices)
    np.testing.assert_array_equal(result[0], distances)
    np.testing.assert_array_equal(indices[:, 0], np.arange(50))


def test_blocks_with_fewer_rows_than_neighbours():
    X = RNG.standard_normal((40, 4)).astype(np.float32)
    whole = dk.NearestSets(12).fit(X).kneighbors(X[:5])
    result = dk.NearestSets(12).fit(da.from_array(X, chunks=(7, 4))).kneighbors(X[:5])
    np.testing.assert_array_equal(result[1], whole[1])


def test_rows_are_not_their_own_neighbours():
    X = RNG.standard_normal((60, 3)).astype(np.float32)
    X[7] = X[30]
    model = dk.NearestSets(4).fit(X)
    distances, indices = model.kneighbors()
    reference = NearestNeighbors(n_neighbors=4).fit(X.astype(np.float64)).kneighbors()
    np.testing.assert_allclose(distances, reference[0], atol=1e-6)
    assert (indices != np.arange(60)[:, None]).all()
    assert indices[7, 0] == 30
    assert indices[30, 0] == 7
    assert model.kneighbors(n_neighbors=2, return_distance=False).shape == (60, 2)


def test_equal_distances_keep_the_order_of_the_rows():
    _, indices = dk.NearestSets(3).fit(np.ones((20, 2), np.float32)).kneighbors(np.zeros((1, 2)))
    assert indices.tolist() == [[0, 1, 2]]


def test_neighbours_by_divergence_have_the_same_class(tmp_path):
    sets = [RNG.normal(i % 4, 1, (80, 1)) for i in range(40)]
    rows = dk.DivergenceEmbedding("hellinger").fit(sets).transform(dk.write_sets(tmp_path / "s", sets))
    _, indices = dk.NearestSets(5).fit(rows).kneighbors()
    assert (indices % 4 == np.arange(40)[:, None] % 4).mean() > 0.95


def test_faiss_matches_exact_engine():
    X = RNG.standard_normal((500, 8)).astype(np.float32)
    _, indices = dk.NearestSets(5, engine="faiss").fit(X).kneighbors(X[:20])
    np.testing.assert_array_equal(indices, dk.NearestSets(5).fit(X).kneighbors(X[:20])[1])


def clustered_rows(n, D, seed=0):
    """Return rows around 20 centres."""
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((20, D))[rng.integers(20, size=n)] + 0.3 * rng.standard_normal((n, D))
    ).astype("f4")


def test_approximate_engine_reaches_the_recall():
    X, queries = clustered_rows(20_000, 8), clustered_rows(20_100, 8)[20_000:]
    model = dk.NearestSets(10, engine="approximate", random_state=0).fit(X)
    truth = dk.NearestSets(10).fit(X).kneighbors(queries)
    distances, indices = model.kneighbors(queries)
    result = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(indices, truth[1], strict=True)])
    share, error = model.recall_
    # the estimated recall, from 256 rows, agrees with that of 100 new queries within its error
    assert abs(result - share) < 5 * np.hypot(error, error * np.sqrt(256 / 100))
    assert share - error >= 0.95
    assert model._index.n_probe < model._index.index.nlist / 4
    recomputed = np.linalg.norm(queries[:, None] - X[indices], axis=2)
    np.testing.assert_allclose(distances, recomputed, rtol=1e-5)
    assert (np.diff(distances, axis=1) >= 0).all()


def test_recall_of_one_scans_all_rows():
    X = clustered_rows(3000, 5)
    model = dk.NearestSets(4, engine="approximate", recall=1.0, random_state=1).fit(X)
    assert model.recall_ == (1.0, 0.0)
    distances, indices = model.kneighbors()
    assert (indices != np.arange(3000)[:, None]).all()
    exact = dk.NearestSets(4).fit(X).kneighbors()[0]
    assert (distances <= exact * (1 + 1e-5)).mean() > 0.99


def test_lazy_rows_give_the_same_cells():
    X = clustered_rows(5000, 6)
    result = [
        dk.NearestSets(5, engine="approximate", random_state=2).fit(rows).kneighbors(X[:300])
        for rows in (X, da.from_array(X, chunks=(70, 3)), X)
    ]
    for other in result[1:]:
        np.testing.assert_array_equal(other[1], result[0][1])
        np.testing.assert_array_equal(other[0], result[0][0])


@pytest.mark.parametrize(("n", "k"), [(2, 1), (30, 29), (400, 399)])
def test_approximate_engine_with_few_rows(n, k):
    X = clustered_rows(n, 3)
    model = dk.NearestSets(1, engine="approximate", recall=0.1, random_state=0).fit(X)
    np.testing.assert_array_equal(
        np.sort(model.kneighbors(n_neighbors=k)[1]), [np.delete(np.arange(n), i) for i in range(n)]
    )


def test_copies_of_a_row_count_for_recall():
    X = np.repeat(clustered_rows(40, 3), 100, axis=0)
    model = dk.NearestSets(5, engine="approximate", random_state=0).fit(X)
    assert model.recall_.share == 1.0
    assert (model.kneighbors(X[:10])[0] == 0).all()


def test_invalid_input_raises():
    X = RNG.standard_normal((10, 3)).astype(np.float32)
    with pytest.raises(ValueError, match="n_neighbors must be at most 10 for 10 rows; got 11"):
        dk.NearestSets(11).fit(X).kneighbors(X)
    with pytest.raises(ValueError, match="n_neighbors must be at most 9"):
        dk.NearestSets(10).fit(X).kneighbors()
    with pytest.raises(ValueError, match="'exact', 'faiss', 'approximate'"):
        dk.NearestSets(engine="tree").fit(X)
    with pytest.raises(ValueError, match="in memory"):
        dk.NearestSets(engine="faiss").fit(da.from_array(X))
    for recall in (0, 1.5, "all"):
        with pytest.raises(ValueError, match="recall must be"):
            dk.NearestSets(2, engine="approximate", recall=recall).fit(X)
    with pytest.raises(ValueError, match="got inf in row 5"):
        dk.NearestSets(2, engine="approximate").fit(
            da.from_array(np.where(np.arange(30) == 16, np.inf, X.ravel()).reshape(10, 3), chunks=(4, 3))
        )
    with pytest.raises(ValueError, match="NaN"):
        dk.NearestSets(2).fit(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="3 features"):
        dk.NearestSets(2).fit(X).kneighbors(X[:, :2])
    assert clone(dk.NearestSets(3)).n_neighbors == 3


def test_model_file_round_trip(tmp_path):
    X = RNG.standard_normal((30, 3)).astype(np.float32)
    dk.save_model(dk.NearestSets(3).fit(X), tmp_path / "m.npz")
    result, expected = (
        m.kneighbors(X[:4])[1] for m in (dk.load_model(tmp_path / "m.npz"), dk.NearestSets(3).fit(X))
    )
    np.testing.assert_array_equal(result, expected)


def test_approximate_engine_is_pickled_but_not_saved(tmp_path):
    X = clustered_rows(300, 3)
    model = dk.NearestSets(3, engine="approximate", random_state=0).fit(X)
    with pytest.raises(ValueError, match="a model file cannot hold"):
        dk.save_model(model, tmp_path / "m.npz")
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.kneighbors(X[:5])[1], model.kneighbors(X[:5])[1])
