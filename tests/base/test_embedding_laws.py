"""Properties of all embeddings of sets; add new embeddings to ``EMBEDDINGS``.

Lazy input gives lazy rows; input in memory gives ndarrays. A row depends on its own set only, bit for bit. Embeddings
follow scikit-learn's conventions.
"""

import copy
import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.distances.pair_function import Pairwise
from dkdist.io import SetStore

N_SETS = 83


def custom_kappa(x, y):
    return (np.sqrt(x) - np.sqrt(y)) ** 2


def distance_of_means(a, b):
    return float(np.abs(a.mean(axis=0, dtype=np.float64) - b.mean(axis=0, dtype=np.float64)).sum())


def medians_and_size(x, weights=None):
    return np.r_[np.median(x, axis=0), np.log(len(x))]


FEATURES = dk.RandomFourierFeatures(32, random_state=0)

EMBEDDINGS = {
    "jensen-shannon-1": (1, dk.DivergenceEmbedding("jensen-shannon")),
    "hellinger-2": (2, dk.DivergenceEmbedding()),
    "total-variation-2": (2, dk.DivergenceEmbedding("total-variation", n_basis=6)),
    "chi2-3": (3, dk.DivergenceEmbedding("chi2", n_basis=5)),
    "random-2": (2, dk.DivergenceEmbedding("chi2", frequencies="random", n_frequencies=4, random_state=5)),
    "own-2": (2, dk.DivergenceEmbedding(custom_kappa, bandwidth=[0.1, 0.3])),
    "marginal-5": (5, dk.DivergenceEmbedding("jensen-shannon")),
    "joint-4": (4, dk.DivergenceEmbedding("jensen-shannon", structure="joint", n_basis=4)),
    "fine-5": (5, dk.DivergenceEmbedding(structure="joint", bandwidth=0.2, n_basis=5)),
    "joint-total-degree-4": (
        4,
        dk.DivergenceEmbedding(structure="joint", n_basis=5, index_set="total-degree"),
    ),
    "pairs-4": (4, dk.DivergenceEmbedding(n_basis=5, structure=[(0, 1), (3, 2)])),
    "l2-pairs-5": (5, dk.L2Embedding(n_basis=5, structure=[(0, 4)])),
    "histogram-groups-4": (4, dk.HistogramEmbedding(n_bins=3, structure=[2, (0, 1, 3)])),
    "unit-2": (2, dk.DivergenceEmbedding("jensen-shannon", domain="unit")),
    "mean-fourier-1": (1, dk.MeanEmbedding(10, sigma=0.3)),
    "mean-fourier-2": (2, dk.MeanEmbedding(100, sigma=0.2, method="fourier")),
    "mean-fourier-3": (3, dk.MeanEmbedding(301, sigma=[0.3, 0.9], method="fourier")),
    "mean-orthogonal-8": (8, dk.MeanEmbedding(64, method="orthogonal", random_state=0)),
    "mean-orthogonal-3": (3, dk.MeanEmbedding(160, sigma=0.1, method="orthogonal", random_state=0)),
    "mean-sobol-2": (2, dk.MeanEmbedding(64, method="sobol", random_state=1)),
    "mean-sobol-8": (8, dk.MeanEmbedding(60, sigma=[0.3, 0.6, 2.0], method="sobol", random_state=1)),
    "mean-iid-1": (1, dk.MeanEmbedding(300, method="iid", random_state=2)),
    "given-2": (2, dk.DivergenceEmbedding("jensen-shannon", domain=([-1, 0], [1, 2]))),
    "scales-2": (2, dk.DivergenceEmbedding(n_basis=6, bandwidth=[[0.1], [0.2]], n_frequencies=1)),
    "projected-3": (3, dk.DivergenceEmbedding("jensen-shannon", n_basis=5, index_set="total-degree")),
    "l2-1": (1, dk.L2Embedding(bandwidth=0)),
    "l2-3": (3, dk.L2Embedding(n_basis=5, index_set="total-degree", bandwidth=[[0.1, 0.2, 0.3], [0.2] * 3])),
    "l2-joint-4": (4, dk.L2Embedding(n_basis=5, structure="joint", index_set=("sobolev", 2))),
    "l2-marginal-5": (5, dk.L2Embedding()),
    "histogram-2": (2, dk.HistogramEmbedding(n_bins=7)),
    "histogram-marginal-4": (4, dk.HistogramEmbedding(divergence="intersection")),
    "codebook-2": (2, dk.CodebookEmbedding(12, random_state=0)),
    "codebook-5": (5, dk.CodebookEmbedding(9, "jensen-shannon", random_state=0)),
    "mean-3": (3, dk.MomentEmbedding()),
    "summary-2": (2, dk.SummaryEmbedding()),
    "sliced-embedding-1": (1, dk.SlicedWassersteinEmbedding(5, 7, random_state=0)),
    "sliced-embedding-3": (3, dk.SlicedWassersteinEmbedding(20, random_state=0)),
    "windows-1": (1, dk.SeriesWindowEmbedding(5, 6, dilations=[1, 40], random_state=0)),
    "windows-3": (3, dk.SeriesWindowEmbedding(4, 5, 4, [1, 6], random_state=0)),
    "covariance-5": (5, dk.MomentEmbedding(degree=2)),
    "gaussian-3": (3, dk.GaussianEmbedding()),
    "gaussian-9": (9, dk.GaussianEmbedding(shrinkage=0.1)),  # covariances one set at a time
    "invariant-2": (2, dk.InvariantFeatures(dk.DivergenceEmbedding(n_basis=6), FEATURES, symmetries="all")),
    "rotation-2": (2, dk.InvariantFeatures("rotation")),
    "rotation-3": (3, dk.InvariantFeatures("rotation")),
    "dtw-3": (3, dk.DistanceEmbedding("dtw", n_components=12, gamma=0, lengths=(1, 9), random_state=0)),
    "hausdorff-2": (
        2,
        dk.DistanceEmbedding(
            "directed-modified-hausdorff", "ball", 20, [0.5, 1.0], True, (1, 6), random_state=0
        ),
    ),
    "sliced-1": (1, dk.DistanceEmbedding("sliced-wasserstein", n_components=10, random_state=0)),
    "own-distance-2": (
        2,
        dk.DistanceEmbedding(dk.pairwise(distance_of_means), n_components=4, random_state=0),
    ),
    "nystroem-2": (2, dk.NystroemSets("hellinger", n_components=5, random_state=0)),
    "nystroem-dtw-3": (3, dk.NystroemSets(distance="dtw", n_components=4, random_state=0)),
    "nystroem-chi2-2": (2, dk.NystroemSets("chi2", n_components=6, estimator="plugin", random_state=0)),
    "function-2": (2, dk.FunctionEmbedding(medians_and_size)),
    "invariant-mean-3": (
        3,
        dk.InvariantFeatures(dk.MeanEmbedding(64, method="sobol", random_state=0), axes=[0, 2]),
    ),
}


# parameters that set the length of a row, and functions that return another value
CHANGED_RESOLUTION = {
    "n_basis": lambda n: 9 if n == "auto" else n + 1,
    "n_bins": lambda n: n + 1,
    "n_words": lambda n: n + 1,
    "n_quantiles": lambda n: n + 1,
    "n_levels": lambda n: n + 1,
    "degree": lambda n: 3 - n,
    "n_components": lambda n: 2 * n,
    "symmetries": lambda word: "permutations",
}


@pytest.fixture(params=EMBEDDINGS, scope="module")
def case(request):
    """Return an unfitted embedding and sets in memory, with sizes on both sides of the switch to a grid."""
    d, embedding = EMBEDDINGS[request.param]
    rng = np.random.default_rng(d)
    sizes = rng.choice(
        [1, 2, 30, 100, 255, 256, 257, 1030], N_SETS, p=[0.1, 0.1, 0.3, 0.3, 0.05, 0.05, 0.05, 0.05]
    )
    return clone(embedding), dk.SampleSets.from_arrays(
        [rng.beta(*rng.uniform(1, 4, 2), (n, d)) for n in sizes]
    )


@pytest.fixture(scope="module")
def rows(case):
    embedding, sets = case
    return clone(embedding).fit(sets).transform(sets)


@pytest.fixture(scope="module")
def path(case, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "sets.zarr"
    dk.write_sets(path, case[1])
    return path


@pytest.fixture
def counts(monkeypatch):
    """Count computations by schedulers and reads of store views."""
    result = {"computes": 0, "reads": 0}
    load = SetStore.points_alone

    def counting_load(self, first=0):
        result["reads"] += 1
        return load(self)

    def counting_get(graph, keys, **kwargs):
        result["computes"] += 1
        return dask.get(graph, keys, **kwargs)

    monkeypatch.setattr(SetStore, "points_alone", counting_load)
    with dask.config.set(scheduler=counting_get):
        yield result


def test_transform_of_a_store_is_lazy(case, rows, path, counts):
    embedding, sets = case
    fitted = clone(embedding).fit(sets)
    lazy = fitted.transform(dk.open_sets(path, block_sets=20))
    part = lazy[25:30]
    assert isinstance(lazy, da.Array)
    assert counts == {"computes": 0, "reads": 0}
    np.testing.assert_array_equal(part.compute(), rows[25:30])
    assert counts == {"computes": 1, "reads": 1}  # one block of the five
    np.testing.assert_array_equal(lazy.compute(), rows)
    assert counts == {"computes": 2, "reads": 6}


def test_shape_dtype_and_chunks_of_rows(case, rows, path):
    embedding, sets = case
    fitted = clone(embedding).fit(sets)
    assert isinstance(rows, np.ndarray)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert np.isfinite(rows).all()
    lazy = fitted.transform(dk.open_sets(path, block_sets=30))
    assert (lazy.shape, lazy.dtype) == (rows.shape, rows.dtype)
    assert lazy.chunks == ((30, 30, 23), (rows.shape[1],))
    block = lazy.blocks[0].compute()
    assert (block.dtype, block.shape, block.flags.c_contiguous) == (rows.dtype, (30, rows.shape[1]), True)


@pytest.mark.parametrize("block_sets", [None, 7, 64, 1000])
@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_rows_do_not_depend_on_blocks_and_schedulers(case, rows, path, block_sets, scheduler):
    embedding, _ = case
    store = dk.open_sets(path, block_sets=block_sets)
    with dask.config.set(scheduler=scheduler):
        fitted = clone(embedding).fit(store)
        np.testing.assert_array_equal(fitted.transform(store).compute(), rows)
        np.testing.assert_array_equal(fitted.transform(store[40:]).compute(), rows[40:])
        np.testing.assert_array_equal(fitted.transform(store[[5, 3, 60]]).compute(), rows[[5, 3, 60]])


def test_rows_do_not_depend_on_one_set_blocks(case, rows, path):
    embedding, sets = case
    store = dk.open_sets(path, block_sets=1)[:9]
    np.testing.assert_array_equal(clone(embedding).fit(sets).transform(store).compute(), rows[:9])


def test_fit_on_store_matches_fit_in_memory(case, path):
    embedding, sets = case
    on_store = clone(embedding).fit(dk.open_sets(path, block_sets=9))
    assert on_store.spec_ == clone(embedding).fit(sets).spec_


def test_row_depends_on_its_own_set_only(case, rows):
    embedding, sets = case
    fitted = clone(embedding).fit(sets)
    np.testing.assert_array_equal(fitted.transform(sets[::-1])[::-1], rows)
    np.testing.assert_array_equal(fitted.transform(sets[17:19]), rows[17:19])
    mask = np.arange(N_SETS) % 3 == 1
    np.testing.assert_array_equal(fitted.transform(sets[mask]), rows[mask])


def is_of_series(embedding):
    is_dtw = embedding.get_params().get("distance") == "dtw"
    return is_dtw or isinstance(embedding, dk.SeriesWindowEmbedding)


def test_order_of_points_changes_rounding_only(case, rows):
    embedding, sets = case
    if is_of_series(embedding):
        pytest.skip("series have an order")
    fitted, rng = clone(embedding).fit(sets), np.random.default_rng(0)
    shuffled = fitted.transform([x[rng.permutation(len(x))] for x in sets])
    norm = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1))
    distance = np.sqrt(((shuffled - rows).astype(np.float64) ** 2).sum(axis=1))
    assert (distance / norm).max() < 2e-3


def test_input_types_give_identical_rows(case):
    embedding, sets = case
    fitted = clone(embedding).fit(sets)
    arrays = [x[:30] for x in sets if len(x) >= 30]
    expected = fitted.transform(arrays)
    for form in (
        np.array(arrays),
        np.array(arrays, np.float64),
        dk.SampleSets.from_arrays(arrays),
        tuple(arrays),
    ):
        np.testing.assert_array_equal(fitted.transform(form), expected)


def test_inputs_are_not_modified(case):
    embedding, sets = case
    arrays = [np.array(x, np.float64) for x in sets]
    copies = copy.deepcopy(arrays)
    points, offsets = sets.points.copy(), sets.offsets.copy()
    clone(embedding).fit(arrays).transform(arrays)
    clone(embedding).fit(sets).transform(sets)
    for x, y in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(sets.points, points)
    np.testing.assert_array_equal(sets.offsets, offsets)


def test_refit_gives_identical_rows(case, rows):
    embedding, sets = case
    fitted = clone(embedding)
    np.testing.assert_array_equal(fitted.fit_transform(sets), rows)
    fitted.fit(sets[:40])
    np.testing.assert_array_equal(fitted.fit(sets).transform(sets), rows)
    np.testing.assert_array_equal(fitted.transform(sets), rows)  # transform changes nothing


def test_clone_and_get_params(case):
    embedding, sets = case
    parameters = embedding.get_params(deep=False)
    fitted = clone(embedding).fit(sets)
    assert repr(fitted) == repr(embedding)
    assert not hasattr(clone(fitted), "spec_")
    assert fitted.fit(sets) is fitted
    assert type(embedding)(**parameters).get_params(deep=False).keys() == parameters.keys()


def test_pickled_embedding_is_small_and_gives_identical_rows(case, rows):
    embedding, sets = case
    if isinstance(embedding, dk.NystroemSets):
        pytest.skip("whole sets are parameters")
    sent = pickle.dumps(clone(embedding).fit(sets))
    assert len(sent) < 5000  # parameters only
    np.testing.assert_array_equal(pickle.loads(sent).transform(sets), rows)


def test_model_file_round_trip(case, rows, tmp_path):
    embedding, sets = case
    params = embedding.get_params()
    if callable(params.get("divergence")) or isinstance(params.get("distance"), Pairwise):
        pytest.skip("code is not kept in a model file")
    dk.save_model(clone(embedding).fit(sets), tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz", functions=[medians_and_size])
    assert hash(loaded.spec_) == hash(clone(embedding).fit(sets).spec_)
    np.testing.assert_array_equal(loaded.transform(sets), rows)


def test_feature_names_are_unique(case, rows):
    embedding, sets = case
    names = clone(embedding).fit(sets).get_feature_names_out()
    assert len(names) == len(set(names)) == rows.shape[1]
    assert names[0] == type(embedding).__name__.lower() + "0"


def test_transform_before_fit_raises(case):
    embedding, sets = case
    with pytest.raises(NotFittedError):
        clone(embedding).transform(sets)
    with pytest.raises(NotFittedError):
        clone(embedding).get_feature_names_out()


def test_pipeline_of_a_store_is_lazy(case, path, counts):
    embedding, sets = case
    model = make_pipeline(clone(embedding), dk.RandomFourierFeatures(64, sigma=1.0, random_state=0)).fit(sets)
    lazy = model.transform(dk.open_sets(path, block_sets=20))
    assert isinstance(lazy, da.Array)
    assert counts["reads"] == 0
    np.testing.assert_array_equal(lazy.compute(), model.transform(sets))
    assert counts == {"computes": 1, "reads": 5}


def test_graph_keys_depend_on_data_and_parameters(case, path):
    embedding, sets = case
    store = dk.open_sets(path, block_sets=20)
    fitted = clone(embedding).fit(sets)
    assert fitted.transform(store).name == fitted.transform(dk.open_sets(path, block_sets=20)).name
    assert fitted.transform(store).name != fitted.transform(store[1:]).name
    name = next((name for name in CHANGED_RESOLUTION if name in embedding.get_params()), None)
    if name is None or embedding.get_params().get("embedding") == "rotation":
        pytest.skip("no parameter sets the length of its rows")
    other = (
        clone(embedding).set_params(**{name: CHANGED_RESOLUTION[name](getattr(embedding, name))}).fit(sets)
    )
    assert fitted.transform(store).name != other.transform(store).name


def test_invalid_set_changes_only_its_row(case):
    embedding, sets = case
    if is_of_series(embedding) or isinstance(embedding.get_params().get("distance"), Pairwise):
        pytest.skip("the embedding does not support weights")
    weights = np.ones(sets.n_points, np.float32)
    clean = dk.SampleSets(sets.points, sets.offsets, weights)
    weights = weights.copy()
    weights[sets.offsets[3]] = -1
    invalid_sets = dk.SampleSets(sets.points, sets.offsets, weights)
    with pytest.raises(dk.SampleSetError, match="set 3"):
        clone(embedding).fit(invalid_sets)
    with pytest.raises(dk.SampleSetError, match="set 3"):
        clone(embedding).fit(clean).transform(invalid_sets)
    fitted = clone(embedding).set_params(on_error="skip").fit(clean)
    with pytest.warns(
        UserWarning, match=r"1 invalid set\(s\) cannot be embedded and have rows of NaN, .*: 3"
    ):
        rows = fitted.transform(invalid_sets)
    others = np.arange(N_SETS) != 3
    assert np.isnan(rows[3]).all()
    np.testing.assert_array_equal(rows[others], fitted.transform(clean)[others])
    with pytest.warns(UserWarning, match="left out of fit"):
        assert clone(fitted).fit(invalid_sets).skipped_.tolist() == [3]
