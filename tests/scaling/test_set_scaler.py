"""`SetScaler`: statistics compared with NumPy and scikit-learn, identical results from stores, lazy views."""

import pickle

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist.io import SetStore

METHODS = ("robust", "standard", "quantile", "none")


def heavy_sets(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_cauchy((k, d)).astype("f4") for k in rng.integers(3, 60, n)]


def repeat_points(values, counts):
    return np.repeat(values, counts, axis=0)


def robust_statistics(x):
    """Return the median, and IQR / 1.349 or, if it is more than four times larger, the winsorised deviation."""
    levels = [0.02, 0.25, 0.5, 0.75, 0.98]
    q02, q25, middle, q75, q98 = np.quantile(x, levels, axis=0, method="averaged_inverted_cdf")
    between, within = (q75 - q25) / 1.3489795003921634, np.clip(x, q02, q98).std(axis=0)
    return middle, np.where(within > 4 * between, within, between)


@pytest.fixture
def store(tmp_path):
    sets = heavy_sets()
    return dk.write_sets(tmp_path / "s.zarr", sets, targets=np.arange(40), ids=np.arange(40) + 7)


# ---- statistics


def test_robust_scaling_matches_numpy():
    sets = heavy_sets()
    x = np.concatenate(sets).astype(np.float64)
    scaler = dk.SetScaler(clip=None).fit(sets)
    middle, scale = robust_statistics(x)
    np.testing.assert_allclose(scaler.center_, middle, rtol=1e-12)
    np.testing.assert_allclose(scaler.scale_, scale, rtol=1e-12)
    np.testing.assert_allclose(scaler.transform(sets).points, (x - middle) / scale, rtol=1e-6)
    clipped = dk.SetScaler(clip=2).fit_transform(sets).points
    np.testing.assert_allclose(clipped, np.clip((x - middle) / scale, -2, 2), rtol=1e-6)


def test_columns_of_mostly_equal_values_have_a_moderate_scale():
    rng = np.random.default_rng(2)
    x = np.where(rng.random((500, 1)) < 0.15, 3.0, 0.0) + rng.normal(0, 1e-3, (500, 1))
    scaler = dk.SetScaler(clip=None).fit([x])
    np.testing.assert_allclose(scaler.scale_, robust_statistics(x.astype("f4").astype(float))[1], rtol=1e-6)
    assert scaler.scale_[0] > 1  # the quartiles differ by 0.0015


def test_standard_scaling_matches_scikit_learn():
    sets = heavy_sets()
    expected = StandardScaler().fit_transform(np.concatenate(sets).astype(np.float64))
    np.testing.assert_allclose(
        dk.SetScaler("standard", clip=None).fit_transform(sets).points, expected, rtol=1e-5, atol=1e-7
    )


def test_quantile_scaling_gives_average_ranks():
    rng = np.random.default_rng(0)
    # fewer distinct values than knots
    sets = [rng.integers(0, 50, (k, 2)).astype(float) for k in rng.integers(3, 60, 40)]
    x = np.concatenate(sets)
    expected = (np.column_stack([rankdata(c) for c in x.T]) - 0.5) / len(x)
    np.testing.assert_allclose(dk.SetScaler("quantile").fit_transform(sets).points, expected, rtol=1e-6)


def test_ranks_between_knots_are_accurate_and_monotonic():
    sets = heavy_sets(200)
    x = np.concatenate(sets)
    expected = (np.column_stack([rankdata(c) for c in x.T]) - 0.5) / len(x)
    result = dk.SetScaler("quantile").fit_transform(sets).points
    assert np.abs(result - expected).max() < 1 / 128
    order = np.argsort(x[:, 0])
    assert (np.diff(result[order, 0]) >= 0).all()
    far = dk.SetScaler("quantile").fit(sets).transform([np.array([[-1e30, 1e30]])])
    assert far.points.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("method", METHODS[:3])
def test_per_set_scaling_matches_numpy(method):
    sets = heavy_sets()
    result = dk.SetScaler(method, per_set=True, clip=None).fit(sets[:1]).transform(sets)
    for x, z in zip(sets, result, strict=True):
        x = x.astype(np.float64)
        if method == "quantile":
            expected = (np.column_stack([rankdata(c) for c in x.T]) - 0.5) / len(x)
        elif method == "standard":
            expected = (x - x.mean(axis=0)) / x.std(axis=0)
        else:
            middle, scale = robust_statistics(x)
            expected = (x - middle) / scale
        np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", METHODS[:3])
def test_integer_weights_match_repeated_points(method, per_set):
    rng = np.random.default_rng(1)
    sets = heavy_sets(12)
    counts = [rng.integers(0, 4, len(x)) for x in sets]
    counts = [c + (c.sum() == 0) for c in counts]
    if not per_set:  # sets are weighted by their number of points
        counts = [np.append(c[:-1], max(0, len(c) - c[:-1].sum())) for c in counts]
        counts = [c if c.sum() == len(c) else np.ones(len(c), int) for c in counts]
    weighted = dk.SampleSets.from_arrays(sets, [c * 0.5 for c in counts])
    plain = [repeat_points(x, c) for x, c in zip(sets, counts, strict=True)]
    result = dk.SetScaler(method, per_set).fit_transform(weighted)
    expected = dk.SetScaler(method, per_set).fit_transform(plain)
    for i, c in enumerate(counts):
        np.testing.assert_allclose(repeat_points(result[i], c), expected[i], rtol=2e-6, atol=2e-6)
        assert np.array_equal(result.weights_of(i), weighted.weights_of(i))


@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", METHODS[:3])
def test_constant_columns_and_mostly_zero_columns(method, per_set):
    zeros = np.zeros((20, 1))
    zeros[:4, 0] = [3, 3, 3, 5]
    sets = [np.column_stack([np.full(20, 7.25), zeros])] * 3
    result = dk.SetScaler(method, per_set).fit_transform(sets)
    assert np.unique(result.points[:, 0]).tolist() == [0.5 if method == "quantile" else 0.0]
    assert np.isfinite(result.points).all()
    if method == "robust":  # the median distance of nonzero values is 3
        expected = np.array([3, 3, 3, 5]) / robust_statistics(np.tile(zeros, (1 if per_set else 3, 1)))[1]
        np.testing.assert_allclose(result[0][:4, 1], expected, rtol=1e-6)


@pytest.mark.parametrize("per_set", [False, True])
def test_scale_of_mostly_equal_values_uses_the_other_values(per_set):
    x = np.zeros((200, 1))
    x[:2, 0] = [3, 5]
    result = dk.SetScaler(per_set=per_set).fit_transform([x])
    # the median of the two other values is 4
    np.testing.assert_allclose(result.points, x / (4 / 0.67448975), rtol=1e-6)


@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", ["robust", "standard"])
def test_points_of_weight_zero_in_constant_columns_keep_their_distance(method, per_set):
    x, weights = np.full((9, 1), 7.25), np.ones(9)
    x[:3, 0], weights[:3] = [9.5, -1e3, 1e3], 0.0
    sets = dk.SampleSets.from_arrays([x] * 2, [weights] * 2)
    result = dk.SetScaler(method, per_set).fit_transform(sets)
    assert result[0][:, 0].tolist() == [2.25, -10.0, 10.0, *[0.0] * 6]  # a scale of 1, clipped at 10


def test_method_none_returns_the_input(store):
    sets = heavy_sets()
    assert np.array_equal(dk.SetScaler("none").fit_transform(sets).points, np.concatenate(sets))
    assert dk.SetScaler("none").fit(store).transform(store).__dask_tokenize__() == store.__dask_tokenize__()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32), st.sampled_from(METHODS[:3]), st.booleans(), st.floats(0.01, 100), st.floats(-5, 5)
)
def test_scaling_does_not_depend_on_units(seed, method, per_set, unit, shift):
    sets = heavy_sets(8, seed=seed)
    moved = [x.astype(np.float64) * unit + shift * unit for x in sets]
    a, b = (dk.SetScaler(method, per_set).fit_transform(s).points for s in (sets, moved))
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-2 if method == "quantile" else 2e-4)


@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", METHODS[:3])
def test_scaling_is_accurate_far_from_zero(method, per_set):
    near = [x.astype(np.float64) for x in heavy_sets()]
    near = [np.round(np.clip(x, -50, 50) * 64) / 64 for x in near]
    a, b = (dk.SetScaler(method, per_set).fit_transform(s).points for s in (near, [x + 1e9 for x in near]))
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


# ---- stores


@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_store_gives_identical_lazy_view(method, per_set, store, monkeypatch):
    scaler = dk.SetScaler(method, per_set).fit(store)
    assert scaler.spec_ == dk.SetScaler(method, per_set).fit(store.load()).spec_
    expected = scaler.transform(store.load())
    reads = []
    load = SetStore.points_alone
    monkeypatch.setattr(SetStore, "points_alone", lambda self, first=0: reads.append(1) or load(self))
    view = scaler.transform(store)
    assert isinstance(view, SetStore)
    assert reads == []
    assert np.array_equal(view.load().points, expected.points)
    assert np.array_equal(view[5], expected[5])
    assert np.array_equal(view[[9, 2]].load().points, expected[[9, 2]].points)
    assert np.array_equal(np.concatenate(list(view)), expected.points)
    assert np.array_equal(view.bounds, expected.bounds)
    assert np.array_equal(view[3:6].targets["y"], [3, 4, 5])
    assert view.ids[0] == 7
    assert (len(view), view.n_points, view.n_dims) == (40, store.n_points, 2)
    assert np.array_equal(view.sizes, store.sizes)
    restored = pickle.loads(pickle.dumps(view[4:8]))
    assert np.array_equal(restored.load().points, expected[4:8].points)
    assert restored.__dask_tokenize__() == view[4:8].__dask_tokenize__()
    assert (view.__dask_tokenize__() == store.__dask_tokenize__()) == (method == "none")


@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("block_sets", [1, 7, None])
def test_embeddings_of_views_match_memory(method, per_set, block_sets, store):
    pipeline = make_pipeline(dk.SetScaler(method, per_set), dk.DivergenceEmbedding())
    expected = clone(pipeline).fit_transform(store.load())
    view = dk.open_sets(store._address, block_sets=block_sets)
    for scheduler in ("threads", "sync"):
        with dask.config.set(scheduler=scheduler):
            rows = clone(pipeline).fit(view).transform(view)
            assert isinstance(rows, dask.array.Array)
            assert np.array_equal(rows.compute(), expected)


def test_chained_scalers(store):
    first, second = dk.SetScaler("standard").fit(store), dk.SetScaler("quantile", per_set=True)
    view = second.fit(first.transform(store)).transform(first.transform(store))
    expected = second.transform(first.transform(store.load()))
    assert np.array_equal(view.load().points, expected.points)
    assert "through SetScaler('standard'), through SetScaler('quantile', per_set=True)" in repr(view)


def test_embedding_of_a_view_with_another_origin(store):
    far = [x + 1e9 for x in np.random.default_rng(0).random((4, 9, 2))]
    embedding = dk.MomentEmbedding().fit(far)
    view = dk.SetScaler().fit(store).transform(store)
    assert np.array_equal(embedding.transform(view).compute(), embedding.transform(view.load()))


def test_view_can_be_written_but_not_changed(store, tmp_path):
    view = dk.SetScaler().fit(store).transform(store)
    expected = view.load().points
    for written in (
        dk.write_sets(tmp_path / "w.zarr", view),
        dk.compact(view, tmp_path / "c.zarr"),
    ):
        assert np.array_equal(written.load().points, expected)
    for call in (lambda: view.append(heavy_sets(1)), view.verify, lambda: dk.compact(view)):
        with pytest.raises(ValueError, match=r"a view with the transform SetScaler\('robust'\)"):
            call()


def test_integer_codes_become_float32(tmp_path):
    sets = [np.random.default_rng(i).integers(0, 255, (30, 1)).astype(np.uint8) for i in range(5)]
    store = dk.write_sets(tmp_path / "codes.zarr", sets)
    assert store.points_dtype == np.uint8
    scaler = dk.SetScaler().fit(store)
    view = scaler.transform(store)
    assert view.points_dtype == view.load().points_dtype == np.float32
    assert np.array_equal(view.load().points, scaler.transform(sets).points)
    assert np.array_equal(dk.compact(view, tmp_path / "f.zarr").load().points, view.load().points)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("per_set", [False, True])
@pytest.mark.parametrize("method", METHODS[:3])
def test_scaling_of_sets_in_pieces_matches_whole_sets(method, per_set, weighted, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(i, 1, (n, 1)) for i, n in enumerate((50, 90_000, 9_000))]
    weights = [rng.random(len(x)) for x in arrays] if weighted else None
    sets = dk.SampleSets.from_arrays(arrays, weights)
    with dk.SetWriter(tmp_path / "s.zarr", 1, chunk_rows=512) as writer:
        writer.append(sets)
    store = dk.open_sets(tmp_path / "s.zarr")
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**13)
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 2**15)
    monkeypatch.setattr("dkdist._runtime.arrays.MAX_BLOCK_BYTES", 2**15)
    load = SetStore.points_alone
    monkeypatch.setattr(
        SetStore,
        "points_alone",
        lambda self, first=0: pytest.fail("read whole") if self.n_points > 20_000 else load(self),
    )
    pipeline = make_pipeline(dk.SetScaler(method, per_set), dk.MeanEmbedding(100, 1.0, random_state=0))
    expected = clone(pipeline).fit_transform(sets)
    assert np.array_equal(pipeline.fit(store).transform(store).compute(), expected)


def test_statistics_of_many_points_use_a_sample():
    x = np.random.default_rng(0).standard_normal((300_000, 1))
    scaler = dk.SetScaler().fit(np.split(x, 300))
    assert abs(scaler.center_[0]) < 4 * 1.2533 / 256  # median of 65,536 points
    assert scaler.scale_[0] == pytest.approx(1, abs=4 * 1.17 / 256)  # their interquartile range
    ranks = dk.SetScaler("quantile").fit(np.split(x, 300)).transform([x]).points
    expected = (rankdata(x) - 0.5) / len(x)
    # Kolmogorov's quantile at 1 - 1e-4, plus one knot
    assert np.abs(ranks[:, 0] - expected).max() < 2.2 / 256 + 1 / 128


# ---- conventions


def test_model_file_round_trip(tmp_path, store):
    for method in METHODS:
        for per_set in (False, True):
            model = make_pipeline(dk.SetScaler(method, per_set), dk.DivergenceEmbedding()).fit(store)
            dk.save_model(model, tmp_path / "m.npz")
            loaded = dk.load_model(tmp_path / "m.npz")
            assert np.array_equal(loaded.transform(store.load()), model.transform(store.load()))
            assert loaded[0].spec_ == model[0].spec_


def test_invalid_options_and_sets_raise(store):
    for options, message in (
        ({"method": "ranks"}, "method must be one of 'robust', 'standard', 'quantile', 'none'"),
        ({"clip": 0}, "clip must be a positive number"),
        ({"on_error": "no"}, "on_error must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.SetScaler(**options).fit(store)
    with pytest.raises(TypeError, match="per_set must be True or False; got 'no'"):
        dk.SetScaler(per_set="no").fit(store)
    scaler = dk.SetScaler().fit(store)
    for invalid_sets, message in (
        ([np.zeros((2, 3))], "as in fit; got 3"),
        ([np.zeros((2, 2)), np.array([[0.0, np.nan]])], "point 0 of set 1 is nan in column 1"),
        (["GATTACA"], "are strings, which have no coordinates"),
    ):
        with pytest.raises(dk.SampleSetError, match=message):
            scaler.transform(invalid_sets)
    negative = dk.SampleSets.from_arrays([np.ones((2, 2))] * 2, [[1, 1], [1, -1]])
    for call in (dk.SetScaler().fit, dk.SetScaler(per_set=True).fit_transform):
        with pytest.raises(dk.SampleSetError, match="weight of point 1 of set 1 is -1"):
            call(negative)
    with pytest.warns(UserWarning, match="1 invalid set"):
        assert dk.SetScaler(on_error="skip").fit(negative).skipped_.tolist() == [1]


@pytest.mark.parametrize("method", METHODS[:3])
def test_invalid_set_of_a_view_raises_in_embedding(method, tmp_path):
    sets = dk.SampleSets.from_arrays(
        [np.arange(8.0).reshape(4, 2)] * 5, [[1, 1, 1, 1]] * 3 + [[0, -1, -1, 0]] * 2
    )
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    view = dk.SetScaler(method, per_set=True).fit(store).transform(store)
    with pytest.raises(dk.SampleSetError, match="weight of point 1 of set 3 is -1"):
        dk.DivergenceEmbedding().fit(view)
    with pytest.warns(UserWarning, match="2 invalid set"):
        assert dk.DivergenceEmbedding(on_error="skip").fit(view).skipped_.tolist() == [3, 4]
