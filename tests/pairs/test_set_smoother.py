"""Kernel smoothing over nearest sets, compared with the formula in NumPy for all pairs of sets."""

import pickle

import numpy as np
import pytest
from dask.distributed import Client
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.pairwise_matrices import set_smoother

RNG = np.random.default_rng(0)
N_TRAIN = 60
Y = RNG.uniform(1, 2, (90, 2))
SETS = [RNG.normal(mean, scale, (40, 1)) for mean, scale in Y]
TRAIN, TEST, Y_TRAIN, Y_TEST = SETS[:N_TRAIN], SETS[N_TRAIN:], Y[:N_TRAIN], Y[N_TRAIN:]
PROFILES = {
    "gaussian": lambda u: np.exp(-(u**2) / 2),
    "epanechnikov": lambda u: np.where(u < 1, 1 - u**2, 0),
    "triangular": lambda u: np.where(u < 1, 1 - u, 0),
}


def distances(embedding, queries, sets):
    """Return distances (m, n) of all pairs of rows in float64."""
    rows = embedding.fit(TRAIN).transform(sets).astype(float)
    return np.linalg.norm(embedding.transform(queries).astype(float)[:, None] - rows, axis=2)


def smooth(d, y, kernel, h, k, w):
    """Return predictions (m, t) by a loop over the formula."""
    out = np.empty((len(d), y.shape[1]))
    for i, row in enumerate(d):
        near = np.argsort(row, kind="stable")[:k]
        weights = PROFILES[kernel](row[near] / h) * w[near]
        if weights.sum() == 0:
            weights = (row[near] == row.min()) * w[near]
        out[i] = weights @ y[near] / weights.sum()
    return out


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize(("name", "k", "h"), [("hellinger", 7, 0.1), ("l2", 100, 0.3), ("tv", 20, 0.01)])
def test_predictions_match_the_formula(kernel, name, k, h):
    weights = RNG.uniform(0, 2, N_TRAIN)
    weights[:5] = 0
    model = dk.SetSmoother(name, n_neighbors=k, kernel=kernel, bandwidth=h)
    predicted = model.fit(TRAIN, Y_TRAIN, weights).predict(TEST)
    used = TRAIN[5:]
    rows, queries = (model.embedding_.transform(s).astype(float) for s in (used, TEST))
    d = np.linalg.norm(queries[:, None] - rows, axis=2)
    # differences of float32 rows are exact in float64
    np.testing.assert_allclose(predicted, smooth(d, Y_TRAIN[5:], kernel, h, k, weights[5:]), rtol=1e-9)


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize("k", [10, 100])
def test_bandwidth_minimises_the_leave_one_out_error(kernel, k):
    weights = RNG.uniform(0.5, 2, N_TRAIN)
    model = dk.SetSmoother(kernel=kernel, n_neighbors=k).fit(TRAIN, Y_TRAIN, weights)
    d = distances(dk.DivergenceEmbedding(), TRAIN, TRAIN)
    variance = np.average((Y_TRAIN - np.average(Y_TRAIN, 0, weights)) ** 2, 0, weights)
    for h, error in zip(model.bandwidths_, model.bandwidth_errors_, strict=True):
        predicted = np.empty_like(Y_TRAIN)
        for i in range(N_TRAIN):
            others = np.arange(N_TRAIN) != i
            predicted[i] = smooth(d[i : i + 1, others], Y_TRAIN[others], kernel, h, k, weights[others])
        expected = (np.average((predicted - Y_TRAIN) ** 2, 0, weights) / variance).mean()
        np.testing.assert_allclose(error, expected, rtol=1e-9)
    assert model.bandwidth_ == model.bandwidths_[np.argmin(model.bandwidth_errors_)]
    assert 0 < np.argmin(model.bandwidth_errors_) < len(model.bandwidths_) - 1


def test_the_scale_of_a_target_does_not_change_the_bandwidth():
    scaled = dk.SetSmoother().fit(TRAIN, Y_TRAIN * [1, 1e6])
    assert scaled.bandwidth_ == dk.SetSmoother().fit(TRAIN, Y_TRAIN).bandwidth_


@pytest.mark.parametrize("kernel", PROFILES)
def test_sets_without_neighbours_get_the_target_of_the_nearest(kernel):
    model = dk.SetSmoother("l2", kernel=kernel, bandwidth=1e-6).fit(TRAIN, Y_TRAIN)
    nearest = distances(dk.L2Embedding(), TEST, TRAIN).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(TEST), Y_TRAIN[nearest])


@pytest.mark.parametrize("kernel", PROFILES)
def test_equally_near_sets_are_averaged(kernel):
    model = dk.SetSmoother(kernel=kernel, bandwidth=1e-3).fit([*TRAIN, TRAIN[3]], np.arange(N_TRAIN + 1.0))
    np.testing.assert_allclose(model.predict(TRAIN[3:4]), (3 + N_TRAIN) / 2)


def test_large_bandwidths_and_equal_sets_give_the_mean():
    model = dk.SetSmoother(bandwidth=1e6).fit(TRAIN, Y_TRAIN[:, 0])
    np.testing.assert_allclose(model.predict(TEST), Y_TRAIN[:, 0].mean(), rtol=1e-9)
    equal = dk.SetSmoother().fit([TRAIN[0]] * 4, np.arange(4.0))
    np.testing.assert_allclose(equal.predict(TRAIN[:1]), 1.5)


@pytest.mark.parametrize(
    "embedding", ["hellinger", make_pipeline(dk.SetScaler(), dk.MeanEmbedding(64, random_state=0))]
)
def test_targets_are_learned(embedding):
    """Mean and scale of 40 points have standard errors of about scale / 6, so that R^2 is below 1 - 0.06 / 0.083."""
    model = dk.SetSmoother(embedding).fit(TRAIN, Y_TRAIN)
    score = model.score(TEST, Y_TEST)
    assert score == r2_score(Y_TEST, model.predict(TEST))
    assert 0.2 < score < 1


def test_stores_give_identical_predictions(tmp_path, monkeypatch):
    store = dk.write_sets(tmp_path / "s", SETS, targets=Y[:, 0], chunk_rows=64)
    with Client(processes=False, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        on_cluster = dk.SetSmoother().fit(store[:N_TRAIN], Y_TRAIN[:, 0]).predict(store[N_TRAIN:])
    lazy = dk.SetSmoother().fit(store[:N_TRAIN], store.targets["y"][:N_TRAIN])
    model = dk.SetSmoother().fit(TRAIN, Y_TRAIN[:, 0])
    assert lazy.bandwidth_ == model.bandwidth_
    expected = model.predict(TEST)
    np.testing.assert_array_equal(on_cluster, expected)
    np.testing.assert_array_equal(lazy.predict(store[N_TRAIN:]), expected)
    np.testing.assert_array_equal(model.predict(TEST[4:5]), expected[4:5])
    monkeypatch.setattr(set_smoother, "MAX_NEIGHBOUR_VALUES", 120)  # two sets in a batch
    np.testing.assert_array_equal(model.predict(TEST), expected)


def test_targets_with_an_index_are_joined_by_id():
    pd = pytest.importorskip("pandas")
    ids = np.arange(N_TRAIN) + 7
    sets = dk.SampleSets.from_arrays(TRAIN).labelled(ids=ids)
    y = pd.Series(Y_TRAIN[::-1, 0], index=ids[::-1])
    model = dk.SetSmoother().fit(sets, y)
    np.testing.assert_array_equal(
        model.predict(TEST), dk.SetSmoother().fit(TRAIN, Y_TRAIN[:, 0]).predict(TEST)
    )
    assert model.score(sets, y) == model.score(TRAIN, Y_TRAIN[:, 0])


def test_many_sets_select_the_bandwidth_by_a_sample(monkeypatch):
    monkeypatch.setattr(set_smoother, "MAX_LEAVE_ONE_OUT_SETS", 64)
    y = RNG.uniform(1, 2, 300)
    sets = [RNG.normal(mean, 1, (30, 1)) for mean in y]
    sampled = [dk.SetSmoother(random_state=seed).fit(sets, y) for seed in (0, 0, 1)]
    assert sampled[0].bandwidth_errors_.tolist() == sampled[1].bandwidth_errors_.tolist()
    assert sampled[0].bandwidth_errors_.tolist() != sampled[2].bandwidth_errors_.tolist()


def test_strings_are_smoothed_over_their_embedding():
    words = ["abc" * i for i in range(1, 20)]
    model = dk.SetSmoother(dk.NGramEmbedding(), n_neighbors=2).fit(words, np.arange(19))
    assert model.predict(words[4:5]).shape == (1,)


@pytest.mark.parametrize("engine", ["faiss", "approximate"])
def test_other_engines_find_the_same_neighbours(engine):
    pytest.importorskip("faiss")
    model = dk.SetSmoother(n_neighbors=5, engine=engine, random_state=0).fit(TRAIN, Y_TRAIN)
    exact = dk.SetSmoother(n_neighbors=5).fit(TRAIN, Y_TRAIN)
    error = np.abs(model.predict(TEST) - exact.predict(TEST)).max(axis=1)
    assert (error < 1e-4).mean() >= (1 if engine == "faiss" else 0.8)


def test_models_are_cloned_pickled_saved_and_tuned(tmp_path):
    model = dk.SetSmoother(dk.MeanEmbedding(32, random_state=0), n_neighbors=9).fit(TRAIN, Y_TRAIN)
    dk.save_model(model, tmp_path / "m.npz")
    expected = model.predict(TEST)
    for other in (
        pickle.loads(pickle.dumps(model)),
        dk.load_model(tmp_path / "m.npz"),
        clone(model).fit(TRAIN, Y_TRAIN),
    ):
        np.testing.assert_array_equal(other.predict(TEST), expected)
    search = GridSearchCV(dk.SetSmoother(), {"n_neighbors": [1, 20]}, cv=3).fit(TRAIN, Y_TRAIN[:, 0])
    assert search.best_params_ == {"n_neighbors": 20}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"embedding": "euclid"}, "embedding must be one of 'jensen-shannon'.* got 'euclid'"),
        ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1; got 0"),
        ({"kernel": "box"}, "kernel must be one of 'gaussian', 'epanechnikov', 'triangular'; got 'box'"),
        ({"bandwidth": -1.0}, "bandwidth must be a positive number; got -1.0"),
        ({"bandwidth": "scott"}, "bandwidth must be a positive number; got 'scott'"),
        ({"engine": "tree"}, "engine must be one of"),
    ],
)
def test_invalid_parameters_raise(params, message):
    with pytest.raises(ValueError, match=message):
        dk.SetSmoother(**params).fit(TRAIN, Y_TRAIN)


def test_invalid_input_raises():
    with pytest.raises(TypeError, match=r"embedding must be one of .* MeanEmbedding"):
        dk.SetSmoother(np.mean).fit(TRAIN, Y_TRAIN)
    for arguments, message in (
        ((TRAIN, Y_TRAIN[1:]), r"y must have one target for each of the 60 sets of X; got shape \(59, 2\)"),
        ((TRAIN, np.where(np.arange(N_TRAIN) == 3, np.nan, 1)), r"y must be finite; got .*nan.* \(set 3\)"),
        ((TRAIN[:2], [1, 2], [0, 1]), "requires at least 2 sets with a weight above 0; got 1"),
        ((TRAIN[:2], [1, 2], [-1, 1]), "sample_weight must be finite and at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.SetSmoother().fit(*arguments)
    with pytest.raises(dk.SampleSetError, match=r"must have 1 dimension\(s\), as in fit; got 2"):
        dk.SetSmoother().fit(TRAIN, Y_TRAIN).predict([np.zeros((3, 2))])
    outside = dk.DivergenceEmbedding(domain=(-50, 50), on_error="skip")
    with (
        pytest.warns(UserWarning, match="invalid set"),
        pytest.raises(ValueError, match=r"got NaN or infinity \(set 1\)"),
    ):
        dk.SetSmoother(outside).fit([TRAIN[0], TRAIN[1] + 99, *TRAIN[2:]], Y_TRAIN)
    weights = np.r_[0, np.ones(N_TRAIN - 1)]
    with (
        pytest.warns(UserWarning, match="invalid set"),
        pytest.raises(ValueError, match=r"got NaN or infinity \(set 1\)"),
    ):
        dk.SetSmoother(outside).fit([TRAIN[0], TRAIN[1] + 99, *TRAIN[2:]], Y_TRAIN, weights)
    outside = dk.DivergenceEmbedding(domain=(-50, 50))
    with pytest.raises(dk.SampleSetError, match="set 0") as raised:
        dk.SetSmoother(outside).fit([TRAIN[0], TRAIN[1] + 99, *TRAIN[2:]], Y_TRAIN, weights)
    assert raised.value.__notes__ == ["The set is counted among those with a weight above 0."]
