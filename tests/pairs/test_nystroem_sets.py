"""`NystroemSets`: rows match a dense NumPy implementation, and inner products the kernel matrix."""

import numpy as np
import pytest
import zarr
from oracles import gaussian_mixtures
from scipy.linalg import eigvalsh, inv, sqrtm

import dkdist as dk
from dkdist.pairwise_matrices.gaussian_divergences import GaussianPairs
from dkdist.pairwise_matrices.landmark_candidates import k_means_plus_plus

EPS = 2.0**-24  # rounding error of float32
EIGENVALUE_TOL = 1e-6  # eigenvalues below this fraction of the largest are treated as 0
RNG = np.random.default_rng(0)
SETS = [np.clip(x, 0, 1) for x in gaussian_mixtures(40, 2, 60, 0)]
SERIES = [np.cumsum(RNG.normal(size=(n, 1)), axis=0) for n in RNG.integers(8, 25, 40)]
WORDS = ["".join(RNG.choice(list("ACGT"), n)) for n in RNG.integers(3, 14, 40)]
HISTOGRAM = dk.HistogramEmbedding(4, "hellinger", domain="unit")


def squared_row_distances(embedding, sets, landmarks):
    """Return squared distances of rows in float64."""
    A = embedding.fit(SETS).transform(sets).astype(np.float64)
    B = embedding.transform(landmarks).astype(np.float64)
    return ((A[:, None] - B) ** 2).sum(axis=2)


def histogram_hellinger(sets, landmarks):
    """Return sum_c (sqrt p_c - sqrt q_c)^2 / 2 of 4 x 4 histograms by NumPy."""

    def roots(x):
        return np.sqrt(np.histogramdd(x, 4, [(0, 1)] * 2)[0].ravel() / len(x))

    return np.array([[((roots(x) - roots(y)) ** 2).sum() / 2 for y in landmarks] for x in sets])


def squared_distances(name):
    return lambda sets, landmarks: dk.distance_matrix(sets, landmarks, name) ** 2


CASES = {  # parameters, sets, d^2
    "hellinger": (
        {"divergence": "hellinger"},
        SETS,
        lambda x, y: squared_row_distances(dk.DivergenceEmbedding(), x, y),
    ),
    "histogram": ({"divergence": HISTOGRAM}, SETS, histogram_hellinger),
    "mmd": (
        {"divergence": dk.MeanEmbedding(64, sigma=0.2, random_state=0)},
        SETS,
        lambda x, y: squared_row_distances(dk.MeanEmbedding(64, sigma=0.2, random_state=0), x, y),
    ),
    "energy": ({"distance": "energy"}, SETS, squared_distances("energy")),
    "dtw": ({"distance": "dtw"}, SERIES, squared_distances("dtw")),
    "levenshtein": ({"distance": "levenshtein", "gamma": 1.0}, WORDS, squared_distances("levenshtein")),
}


def tolerance(K):
    """Return the error of entries of Z Z^T for a kernel matrix K (R, R) of landmarks.

    Each row k(L, x) has an error of |k| c EPS, which K^(-1/2) multiplies by 1 / sqrt(smallest eigenvalue), as for the
    rounding of the product; |k| <= sqrt(R), and rows have length 1. Here c = 32 roundings of d^2 and of exp(-gamma d^2)
    with gamma d^2 of a few units. An inner product has twice this error, and loses eigenvalues below the cut.
    """
    values = np.abs(eigvalsh(K))
    smallest = values[values > EIGENVALUE_TOL * values.max()].min()
    return 2 * np.sqrt(len(K)) * 32 * EPS / np.sqrt(smallest) + EIGENVALUE_TOL * values.max()


@pytest.mark.parametrize("name", CASES)
def test_with_all_sets_as_landmarks_the_gram_matrix_is_the_kernel_matrix(name):
    params, sets, square = CASES[name]
    embedding = dk.NystroemSets(**params, n_components=40, random_state=0).fit(sets)
    assert embedding.component_indices_.tolist() == list(range(40))
    K = np.exp(-embedding.gamma_ * square(sets, sets))
    K = dk.project_psd((K + K.T) / 2)  # of indefinite kernels, the positive part
    rows = embedding.transform(sets).astype(np.float64)
    assert np.abs(rows @ rows.T - K).max() < tolerance(K)
    pairs = square(sets, sets)[np.triu_indices(40, 1)]
    expected = params.get("gamma", 0.5 / np.median(pairs[pairs > 0]))
    assert embedding.gamma_ == pytest.approx(expected, rel=1e-5)


def test_dtw_kernels_are_indefinite():
    """The case "dtw" above tests the positive part."""
    params, sets, square = CASES["dtw"]
    gamma = dk.NystroemSets(**params, n_components=40, random_state=0).fit(sets).gamma_
    assert eigvalsh(np.exp(-gamma * square(sets, sets)))[0] < -1e-3


@pytest.mark.parametrize("rule", ["k-means++", "leverage", "random"])
@pytest.mark.parametrize("name", ["hellinger", "histogram", "energy", "levenshtein"])
def test_rows_match_a_dense_implementation(name, rule):
    params, sets, square = CASES[name]
    embedding = dk.NystroemSets(**params, n_components=7, landmarks=rule, random_state=0).fit(sets)
    L = [sets[i] for i in embedding.component_indices_]
    K = np.exp(-embedding.gamma_ * square(L, L))
    expected = np.exp(-embedding.gamma_ * square(sets, L)) @ inv(sqrtm(K)).real
    assert eigvalsh(K)[0] > 1e-3
    np.testing.assert_allclose(embedding.transform(sets), expected, atol=tolerance(K))


@pytest.mark.parametrize(
    ("divergence", "estimator"),
    [
        ("kullback-leibler", dk.PluginDivergence(12, 0.1, "unit")),
        ("renyi", dk.PluginDivergence(12, 0.1, "unit")),
        ("hellinger", "knn"),
        ("jensen-shannon", "entropy"),
    ],
)
def test_estimators_of_pairs_match_divergence_matrix(divergence, estimator):
    train, test = SETS[:12], SETS[12:17]
    embedding = dk.NystroemSets(divergence, n_components=5, estimator=estimator, random_state=0).fit(train)
    L = [train[i] for i in embedding.component_indices_]
    options = {"estimator": estimator, "symmetric": True}
    D_L = np.maximum(dk.divergence_matrix(L, divergence, **options), 0)
    D = np.maximum(dk.divergence_matrix(test, divergence, L, **options), 0)
    K = np.exp(-embedding.gamma_ * D_L)
    expected = np.exp(-embedding.gamma_ * D) @ inv(sqrtm(K)).real
    np.testing.assert_allclose(embedding.transform(test), expected, atol=tolerance(K))


def test_directed_divergences_use_densities_by_default():
    rows = dk.NystroemSets("kl", n_components=4, random_state=0).fit_transform(SETS[:10])
    expected = dk.NystroemSets("kullback-leibler", n_components=4, estimator="plugin", random_state=0)
    np.testing.assert_array_equal(rows, expected.fit_transform(SETS[:10]))


def test_k_means_plus_plus_draws_by_squared_distance():
    squares = np.subtract.outer([0.0, 1, 3], [0.0, 1, 3]) ** 2
    rng, counts = np.random.default_rng(0), np.zeros((3, 3))
    for _ in range(3000):
        first, second = k_means_plus_plus(squares, 2, rng)
        counts[first, second] += 1
    expected = squares / squares.sum(axis=1, keepdims=True) / 3
    deviation = np.sqrt(expected * (1 - expected) / 3000)
    assert (np.abs(counts / 3000 - expected) <= 4 * deviation).all()


def test_copies_are_drawn_last_and_change_no_inner_product():
    squares = np.subtract.outer([0.0, 0, 1, 1, 2], [0.0, 0, 1, 1, 2]) ** 2
    order = k_means_plus_plus(squares, 5, np.random.default_rng(0))
    assert sorted(order) == list(range(5))
    assert len({int(i) // 2 for i in order[:3]}) == 3
    copies = [*SETS[:4], *SETS[:4]]
    once = dk.NystroemSets("hellinger", n_components=4, gamma=2.0).fit_transform(SETS[:4])
    twice = dk.NystroemSets("hellinger", n_components=8, gamma=2.0).fit_transform(copies)[:4]
    np.testing.assert_allclose(twice @ twice.T, once @ once.T, atol=1e-4)


@pytest.mark.parametrize("rule", ["k-means++", "leverage"])
def test_rare_sets_become_landmarks(rule):
    rng = np.random.default_rng(0)
    sets = [rng.normal(0, 0.1, (50, 2)) for _ in range(200)]
    for i in range(5):
        sets[40 * i] += 10.0 * (i + 1)
    chosen = dk.NystroemSets(distance="energy", n_components=10, landmarks=rule, gamma=1.0, random_state=0)
    n_rare = len(set(range(0, 200, 40)) & set(chosen.fit(sets).component_indices_))
    assert n_rare >= {"k-means++": 5, "leverage": 4}[rule]  # uniform draws give 0.25 on average


def test_weights_of_zero_remove_points():
    arrays = [x[:20] for x in SETS]
    weights = [np.r_[np.ones(10), np.zeros(10)]] * 40
    weighted = dk.SampleSets.from_arrays(arrays, weights)
    for params in ({"divergence": HISTOGRAM}, {"distance": "energy"}):
        embedding = dk.NystroemSets(**params, n_components=6, gamma=3.0, random_state=0)
        expected = embedding.fit_transform([x[:10] for x in arrays])
        np.testing.assert_allclose(embedding.fit_transform(weighted), expected, atol=1e-4)
    with pytest.raises(
        dk.SampleSetError, match="all sets have weights; estimator='knn' does not use weights"
    ):
        dk.NystroemSets("hellinger", estimator="knn", n_components=3).fit(weighted)


@pytest.mark.parametrize("name", ["levenshtein", "kullback-leibler"])
def test_stores_give_identical_lazy_rows(name):
    params, sets, _ = CASES.get(name, ({"divergence": "kullback-leibler"}, SETS, None))
    location = zarr.storage.MemoryStore()
    dk.write_sets(location, sets)
    store = dk.open_sets(location, block_sets=9)
    embedding = dk.NystroemSets(**params, n_components=6, random_state=0)
    expected = embedding.fit_transform(sets)
    rows = embedding.fit(store).transform(store)
    assert rows.chunks[1] == (6,)
    np.testing.assert_array_equal(rows.compute(), expected)


@pytest.mark.parametrize(
    "params",
    [
        {"divergence": HISTOGRAM},
        {"distance": "energy"},
        {"divergence": "kullback-leibler"},
        {"divergence": "hellinger", "estimator": "knn"},
        {"divergence": "jensen-shannon", "estimator": "entropy"},
        {"divergence": "bhattacharyya", "estimator": "gaussian"},
    ],
    ids=str,
)
def test_model_files_keep_rows(params, tmp_path):
    embedding = dk.NystroemSets(**params, n_components=5, random_state=0).fit(SETS[:12])
    dk.save_model(embedding, tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(SETS), embedding.transform(SETS))
    assert loaded.spec_ == embedding.spec_
    np.testing.assert_array_equal(loaded.component_indices_, embedding.component_indices_)


def test_loaded_gaussian_pairs_have_a_known_divergence():
    with pytest.raises(ValueError, match=r"divergence must be one of 'jensen-shannon'.*; got 'total'"):
        GaussianPairs("total", None, 1024, 0.5, True)


def test_functions_cannot_be_saved(tmp_path):
    embedding = dk.NystroemSets(lambda p, q: np.abs(p - q), estimator="plugin", n_components=3).fit(SETS[:8])
    with pytest.raises(ValueError, match="divergence"):
        dk.save_model(embedding, tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "exactly one of divergence and distance must be given; got divergence=None and distance=None"),
        ({"divergence": "hellinger", "distance": "energy"}, "exactly one of divergence and distance"),
        ({"divergence": "bregman"}, "divergence must be one of .*'hellinger'.* got 'bregman'"),
        ({"distance": "euclid"}, "distance must be one of 'dtw'"),
        ({"distance": "directed-modified-hausdorff"}, "distance must give 1 number per pair"),
        ({"distance": "energy", "estimator": "knn"}, "estimator='knn' has no effect with distance"),
        ({"divergence": "chi2", "estimator": "knn"}, "divergence must be one of 'kullback-leibler'"),
        ({"divergence": "js", "estimator": "held-out"}, "must compare all points of .*; got 'held-out'"),
        ({"divergence": "js", "n_components": 0}, "n_components must be an integer >= 1; got 0"),
        ({"divergence": "js", "n_components": 41}, "must be at most 40, the number of valid sets"),
        ({"divergence": "js", "landmarks": "grid"}, "must be one of 'k-means..', 'leverage', 'random'"),
        ({"divergence": "js", "gamma": -1.0}, "gamma must be a positive number; got -1.0"),
        ({"divergence": "js", "on_error": "drop"}, "on_error must be one of 'raise', 'skip'"),
    ],
)
def test_invalid_parameters_raise(params, message):
    with pytest.raises(ValueError, match=message):
        dk.NystroemSets(**{"n_components": 4} | params).fit(SETS)


def test_invalid_sets_raise_by_name():
    with pytest.raises(dk.SampleSetError, match="all sets are strings"):
        dk.NystroemSets("hellinger").fit(WORDS)
    words = dk.NystroemSets(distance="levenshtein", n_components=4, random_state=0).fit(WORDS)
    neighbours = dk.NystroemSets("hellinger", estimator="knn", n_components=3, random_state=0).fit(SETS)
    for model, sets, message in (
        (words, ["ACG", "ANG"], "symbol 1 of set 1 must occur in the strings passed to fit; got 'N'"),
        (words, [[[0.5]]], "Levenshtein compares strings; got real-valued points"),
        (
            neighbours,
            [SETS[0], SETS[1][:3]],
            r"set 1 has 3 point\(s\); k=4 neighbours of a point need at least 5",
        ),
        (neighbours, [SETS[0], np.zeros((9, 2))], r"set 1 has no row: 9 of 9 points .* in the set"),
        (neighbours, [np.zeros((9, 1))], r"all sets must have 2 dimension\(s\), as in fit; got 1"),
    ):
        with pytest.raises(dk.SampleSetError, match=message):
            model.transform(sets)
