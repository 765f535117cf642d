"""`SetPCA`: components of scikit-learn, identical results from memory and stores, lazy views with fewer dimensions."""

from __future__ import annotations

import pickle
from typing import Any

import dask
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.io import SetStore

MIX = np.random.default_rng(7).normal(size=(5, 5)) * [3, 2, 1, 0.5, 0.2]


def random_sets(n: int = 40, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(k, 5)) @ MIX.T + 4).astype("f4") for k in rng.integers(3, 60, n)]


@pytest.fixture
def store(tmp_path: Any) -> SetStore:
    return dk.write_sets(tmp_path / "s.zarr", random_sets(), targets=np.arange(40))


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("n_components", [1, 3, 5, 0.9, 0.999])
def test_components_match_scikit_learn(n_components: Any, whiten: bool) -> None:
    sets = random_sets()
    x = np.concatenate(sets).astype(np.float64)
    reference = PCA(n_components, whiten=whiten, svd_solver="full").fit(x)
    pca = dk.SetPCA(n_components, whiten).fit(sets)
    assert pca.n_components_ == reference.n_components_
    np.testing.assert_allclose(pca.mean_, reference.mean_, rtol=1e-9)
    np.testing.assert_allclose(pca.explained_variance_ratio_, reference.explained_variance_ratio_, rtol=1e-9)
    n = len(x)
    np.testing.assert_allclose(
        pca.explained_variance_, reference.explained_variance_ * (n - 1) / n, rtol=1e-9
    )
    signs = np.sign((pca.components_ * reference.components_).sum(axis=1))
    np.testing.assert_allclose(pca.components_, reference.components_ * signs[:, None], atol=1e-9)
    assert (np.take_along_axis(pca.components_, np.abs(pca.components_).argmax(axis=1)[:, None], 1) > 0).all()
    expected = reference.transform(x) * signs * (np.sqrt(n / (n - 1)) if whiten else 1)
    np.testing.assert_allclose(pca.transform(sets).points, expected, rtol=1e-4, atol=1e-4)


def test_integer_weights_match_repeated_points() -> None:
    rng, sets = np.random.default_rng(0), random_sets(12)
    counts = [
        rng.permutation(np.repeat([0, 1, 2], [k // 3, k - 2 * (k // 3), k // 3])) for k in map(len, sets)
    ]
    weighted = dk.SampleSets.from_arrays(sets, [c * 0.5 for c in counts])
    repeated = [np.repeat(x, c, axis=0) for x, c in zip(sets, counts, strict=True)]
    a, b = dk.SetPCA(3).fit(weighted), dk.SetPCA(3).fit(repeated)
    np.testing.assert_allclose(a.components_, b.components_, atol=1e-6)
    np.testing.assert_allclose(a.mean_, b.mean_, rtol=1e-6)
    np.testing.assert_array_equal(a.transform(weighted).weights, weighted.weights)


def test_whitened_components_have_unit_covariance() -> None:
    flat = [np.concatenate([x, x[:, :1]], axis=1) for x in random_sets()]
    z = dk.SetPCA(6, whiten=True).fit_transform(flat).points.astype(np.float64)
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.diag([1.0, 1, 1, 1, 1, 0]), atol=1e-4)


def test_components_are_accurate_for_all_units_and_offsets() -> None:
    near = [np.round(x.astype(np.float64) * 64) / 64 for x in random_sets()]
    a = dk.SetPCA(2).fit_transform(near).points
    np.testing.assert_allclose(
        dk.SetPCA(2).fit_transform([x + 1e9 for x in near]).points, a, rtol=1e-4, atol=1e-4
    )
    for unit in (1e-20, 1e20):
        scaled = dk.SetPCA(2).fit_transform([x * unit for x in near])
        np.testing.assert_allclose(scaled.points / unit, a, rtol=1e-4, atol=1e-4)


def test_store_gives_identical_lazy_view(store: SetStore, monkeypatch: Any) -> None:
    pca = dk.SetPCA(2).fit(store)
    assert pca.spec_ == dk.SetPCA(2).fit(store.load()).spec_
    expected = pca.transform(store.load())
    reads, load = [], SetStore.load
    monkeypatch.setattr(SetStore, "load", lambda self: reads.append(1) or load(self))
    view = pca.transform(store)
    assert reads == []
    assert (view.n_dims, store.n_dims, len(view), view.n_points) == (2, 5, 40, store.n_points)
    assert "n_dims=2" in repr(view)
    assert "through SetPCA(2)" in repr(view)
    np.testing.assert_array_equal(view.load().points, expected.points)
    np.testing.assert_array_equal(view[5], expected[5])
    np.testing.assert_array_equal(view[[9, 2]].load().points, expected[[9, 2]].points)
    np.testing.assert_array_equal(np.concatenate(list(view)), expected.points)
    np.testing.assert_array_equal(view.bounds, expected.bounds)
    assert np.array_equal(view[3:6].targets["y"], [3, 4, 5])
    restored = pickle.loads(pickle.dumps(view[4:8]))
    np.testing.assert_array_equal(restored.load().points, expected[4:8].points)
    assert restored.__dask_tokenize__() == view[4:8].__dask_tokenize__() != store[4:8].__dask_tokenize__()


@pytest.mark.parametrize("block_sets", [1, 7, None])
def test_embeddings_of_views_match_memory(block_sets: Any, store: SetStore) -> None:
    model = make_pipeline(
        dk.SetScaler(), dk.SetPCA(2), dk.SetScaler("quantile", per_set=True), dk.DivergenceEmbedding()
    )
    expected = clone(model).fit_transform(store.load())
    view = dk.open_sets(store._address, block_sets=block_sets)
    for scheduler in ("threads", "sync"):
        with dask.config.set(scheduler=scheduler):
            np.testing.assert_array_equal(clone(model).fit(view).transform(view).compute(), expected)


def test_points_are_transformed_independently() -> None:
    sets = random_sets()
    pca = dk.SetPCA(3).fit(sets)
    np.testing.assert_array_equal(pca.transform(sets[::-1])[0], pca.transform(sets[-1:])[0])
    np.testing.assert_array_equal(pca.transform([sets[0][5:6]])[0], pca.transform(sets)[0][5:6])


def test_pca_of_sets_in_pieces_matches_whole_sets(tmp_path: Any, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(i, 1, (n, 5)) @ MIX.T).astype("f4") for i, n in enumerate((50, 30_000, 3_000))]
    store = dk.write_sets(tmp_path / "s.zarr", arrays, chunk_rows=512)
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**13)
    # 13,107 points of 5 dimensions, 65,536 of one
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 2**18)
    monkeypatch.setattr("dkdist._runtime.arrays.MAX_BLOCK_BYTES", 2**18)
    load = SetStore.load
    monkeypatch.setattr(
        SetStore, "load", lambda self: pytest.fail("read whole") if self.n_points > 20_000 else load(self)
    )
    model = make_pipeline(dk.SetPCA(1), dk.MeanEmbedding(100, 1.0, random_state=0))
    expected = clone(model).fit_transform(dk.SampleSets.from_arrays(arrays))
    np.testing.assert_array_equal(model.fit(store).transform(store).compute(), expected)


def test_view_can_be_written_but_not_changed(store: SetStore, tmp_path: Any) -> None:
    view = dk.SetPCA(2).fit(store).transform(store)
    expected = view.load().points
    for written in (dk.write_sets(tmp_path / "w.zarr", view), dk.compact(view, tmp_path / "c.zarr")):
        assert written.n_dims == 2
        np.testing.assert_array_equal(written.load().points, expected)
    for call in (lambda: view.append(random_sets(1)), view.verify, lambda: dk.compact(view)):
        with pytest.raises(ValueError, match=r"a view with the transform SetPCA\(2\)"):
            call()


def test_model_file_and_explanations(tmp_path: Any) -> None:
    rng, y = np.random.default_rng(0), np.arange(40) % 2
    sets = [rng.normal(c, 1, (20, 5)) for c in y]
    model = make_pipeline(
        dk.SetScaler(), dk.SetPCA(2), dk.MeanEmbedding(64, random_state=0), dk.IncrementalRidge()
    )
    model.fit(sets, y.astype(float))
    dk.save_model(model, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.predict(sets), model.predict(sets))
    assert loaded[1].spec_ == model[1].spec_
    predicted, intercept = model.predict(sets[:3]), model[-1].intercept_
    for i, points in enumerate(dk.explain(model, sets[:3])):
        assert points.sum() == pytest.approx(predicted[i] - intercept, abs=1e-6)
        prediction_of_point = model.predict([sets[i][4:5]])[0]  # exact, because rows are means over points
        assert points[4] == pytest.approx((prediction_of_point - intercept) / 20, abs=1e-6)
    influences = dk.explain(model, sets[:1], at=sets[0][4:6])
    np.testing.assert_allclose(
        influences[0] / 20 + (predicted[0] - intercept) / 20, dk.explain(model, sets[:1])[0][4:6], atol=1e-6
    )
    by_dimension = dk.explain(model, sets[:1], by="dimension", background=sets[2:4], random_state=0)
    assert by_dimension.shape == (1, 5)
    mean = model.predict(sets[2:4]).mean()
    assert by_dimension.sum() == pytest.approx(predicted[0] - mean, abs=1e-6)


@pytest.mark.parametrize(
    "n_components", [0, 6, -1, 1.0, 0.0, 1.5, True, "mle", None, [2], float("nan"), 10**400]
)
def test_invalid_n_components_raises(n_components: Any) -> None:
    with pytest.raises(ValueError, match="n_components must be an integer from 1 to the 5 dimensions"):
        dk.SetPCA(n_components).fit(random_sets(3))


def test_invalid_sets_raise(store: SetStore) -> None:
    with pytest.raises(TypeError, match="whiten must be True or False; got 'no'"):
        dk.SetPCA(whiten="no").fit(store)
    with pytest.raises(dk.SampleSetError, match=r"points must not all be equal"):
        dk.SetPCA().fit([np.ones((3, 2))] * 2)
    pca = dk.SetPCA().fit(store)
    with pytest.raises(dk.SampleSetError, match=r"got 3\. Pass sets"):
        pca.transform([np.zeros((2, 3))])
    far = np.where(pca.components_[0] > 0, 3e38, -3e38)
    with pytest.raises(dk.SampleSetError, match=r"components of point 1 of set 1 exceed float32.*SetScaler"):
        pca.transform([np.zeros((2, 5)), np.stack([np.zeros(5), far])])
    negative = dk.SampleSets.from_arrays([np.ones((2, 2))] * 2, [[1, 1], [1, -1]])
    with pytest.raises(dk.SampleSetError, match="weight of point 1 of set 1 is -1"):
        dk.SetPCA().fit(negative)
    negative_weights = dk.SampleSets.from_arrays([np.eye(2)] * 2, [[1, 1], [1, -1]])
    with pytest.warns(UserWarning, match="1 invalid set"):
        assert dk.SetPCA(on_error="skip").fit(negative_weights).skipped_.tolist() == [1]
