"""Invalid sets of an embedding: reported by position, or skipped without changing other rows."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from bad_sets import NEGATIVE, OUTSIDE, Spoilt, spoilt_store
from distributed import Client, LocalCluster
from sklearn.base import clone
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import SetStore


@pytest.fixture(scope="module")
def invalid_store(tmp_path_factory: Any) -> Spoilt:
    return spoilt_store(tmp_path_factory.mktemp("bad") / "sets.zarr")


def embedding(on_error: str = "skip", domain: Any = "unit") -> dk.DivergenceEmbedding:
    return dk.DivergenceEmbedding(domain=domain, n_basis=5, on_error=on_error)


def clean_rows(invalid_store: Spoilt) -> Any:
    return embedding("raise").fit(invalid_store.clean[invalid_store.good]).transform(invalid_store.clean)


def assert_skipped(rows: Any, expected: Any, bad: Any) -> None:
    good = np.setdiff1d(np.arange(len(expected)), bad)
    assert np.isnan(rows[bad]).all()
    np.testing.assert_array_equal(rows[good], expected[good])


@pytest.mark.parametrize("block_sets", [None, 1, 7])
def test_invalid_sets_of_a_store_are_skipped(invalid_store: Spoilt, block_sets: int | None) -> None:
    store = dk.open_sets(invalid_store.path, block_sets=block_sets)
    n_bad = len(invalid_store.bad)
    with pytest.warns(
        UserWarning, match=rf"{n_bad} invalid set\(s\) left out of fit \(see skipped_\): 5, 17, .* -0\.5"
    ):
        fitted = embedding().fit(store)
    np.testing.assert_array_equal(fitted.skipped_, invalid_store.bad)
    assert fitted.skipped_.dtype == np.int64
    assert fitted.spec_ == embedding("raise").fit(invalid_store.clean[invalid_store.good]).spec_
    with pytest.warns(UserWarning, match="cannot be embedded and have rows of NaN") as message:
        rows = fitted.transform(store).compute()
    assert_skipped(rows, clean_rows(invalid_store), invalid_store.bad)
    assert len(message) == 1  # for all blocks
    assert str(message[0].message).startswith(f"{n_bad} invalid set(s) cannot be embedded")
    assert message[0].filename == __file__


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("negative", r"weight of point 1 of set 15 is -0\.5"),
        ("outside", r"point 2 of set 15 is 1\.5 in column 0, outside the given domain"),
        ("damaged", r"chunk 9 of array 'points'"),
    ],
)
def test_invalid_set_is_reported_by_its_position(invalid_store: Spoilt, kind: str, message: str) -> None:
    i = {"negative": NEGATIVE, "outside": OUTSIDE, "damaged": invalid_store.damaged[0]}[kind]
    part = dk.open_sets(invalid_store.path, block_sets=6)[
        [*invalid_store.good[10:25], i, *invalid_store.good[:10]]
    ]
    expected_message = f"set 15 cannot be read: {message}" if kind == "damaged" else message
    with pytest.raises(ValueError, match=expected_message):
        embedding("raise").fit(part)
    with pytest.raises(ValueError, match=expected_message):
        embedding("raise").fit(invalid_store.clean).transform(part).compute()
    with pytest.warns(UserWarning, match=rf"1 invalid set.*skipped_\): 15\. First error: {message}"):
        fitted = embedding().fit(part)
    np.testing.assert_array_equal(fitted.skipped_, [15])
    with pytest.warns(UserWarning, match=rf"1 invalid set.* NaN, .*: 15\. First error: {message}"):
        fitted.transform(part).compute()


def test_invalid_sets_in_memory_are_skipped(invalid_store: Spoilt) -> None:
    undamaged = np.setdiff1d(np.arange(60), invalid_store.damaged)
    sets, bad = dk.open_sets(invalid_store.path)[undamaged].load(), np.array([NEGATIVE, OUTSIDE])
    with pytest.warns(
        UserWarning, match=r"2 invalid set\(s\) .*: 5, 17\. First error: weight of point 1 of set 5"
    ):
        rows = embedding().fit_transform(sets)
    assert isinstance(rows, np.ndarray)
    assert_skipped(rows, clean_rows(invalid_store)[undamaged], bad)
    for call in (embedding("raise").fit, embedding("raise").fit(invalid_store.clean).transform):
        with pytest.raises(dk.SampleSetError, match="weight of point 1 of set 5 is"):
            call(sets)
    with pytest.raises(dk.SampleSetError, match=r"point 2 of set 0 is 1\.5"):
        embedding("raise").fit(sets[OUTSIDE:])


def test_sets_of_a_missing_chunk_are_skipped(invalid_store: Spoilt, tmp_path: Path) -> None:
    clean = dk.SampleSets(invalid_store.clean.points, invalid_store.clean.offsets)
    store = dk.write_sets(tmp_path / "lost.zarr", clean, chunk_rows=64)
    (tmp_path / "lost.zarr/points/c/9/0").unlink()
    with pytest.warns(UserWarning, match=r"chunk 9 is missing or damaged"):
        fitted = embedding(domain="data").fit(store)
    np.testing.assert_array_equal(fitted.skipped_, invalid_store.damaged)
    remaining = np.setdiff1d(np.arange(60), invalid_store.damaged)
    plain = embedding("raise", domain="data").fit(clean[remaining])
    assert fitted.spec_ == plain.spec_
    fitted = embedding(domain="data").fit(clean[remaining[:10]])  # other points may be outside its bounds
    with pytest.warns(UserWarning, match="outside the range seen in fit"):
        expected = fitted.transform(clean)
    with pytest.warns(UserWarning, match="rows of NaN|outside the range") as message:
        rows = fitted.transform(store).compute()
    assert_skipped(rows, expected, invalid_store.damaged)
    # the store is one block
    assert sum("outside the range seen in fit" in str(w.message) for w in message) == 1


def test_no_valid_set_raises(invalid_store: Spoilt) -> None:
    with pytest.raises(dk.SampleSetError, match=r"none of the 3 sets can be embedded\. First error: chunk 9"):
        embedding().fit(dk.open_sets(invalid_store.path)[invalid_store.damaged[:3]])


def test_weights_of_several_channels_raise(invalid_store: Spoilt, tmp_path: Path) -> None:
    fitted = embedding().fit(invalid_store.clean)
    sets = dk.SampleSets(np.zeros((4, 2)), [0, 2, 4], weights=np.ones((4, 3)))
    for form in (sets, dk.write_sets(tmp_path / "three.zarr", sets)):
        for call in (fitted.fit, fitted.transform):
            with pytest.raises(dk.SampleSetError, match="must have 1 channel per point; got 3"):
                call(form)


def replace_content(store: Any, n: int = 50) -> None:
    arrays = [np.full((9, 2), 0.5)] * n
    dk.write_sets(store, dk.SampleSets.from_arrays(arrays, [np.ones(9)] * n), overwrite=True, chunk_rows=16)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("kind", ["directory", "object"])
def test_replaced_store_raises(invalid_store: Spoilt, tmp_path: Path, kind: str, on_error: str) -> None:
    location = tmp_path / "s.zarr" if kind == "directory" else MemoryStore()
    store = dk.write_sets(location, invalid_store.clean, chunk_rows=64)
    fitted = embedding(on_error).fit(invalid_store.clean)
    lazy = fitted.transform(store)
    assert not np.isnan(lazy.compute()).any()
    replace_content(location)
    for call in (lazy.compute, lambda: embedding(on_error).fit(store)):
        with pytest.raises(dk.StoreFormatError, match=r"^\S+ was replaced"):
            call()


def test_missing_store_or_root_raises(invalid_store: Spoilt, tmp_path: Path) -> None:
    path, fitted = tmp_path / "s.zarr", embedding().fit(invalid_store.clean)
    lazy = fitted.transform(dk.write_sets(path, invalid_store.clean))
    (path / "zarr.json").rename(tmp_path / "kept")
    with pytest.raises(dk.StoreFormatError, match=r"there is no zarr\.json"):
        lazy.compute()
    (tmp_path / "kept").rename(path / "zarr.json")
    shutil.rmtree(path)
    with pytest.raises(FileNotFoundError, match="there is no store"):
        lazy.compute()


@pytest.mark.parametrize("error", [OSError("connection reset"), TimeoutError("no answer"), MemoryError()])
def test_system_errors_are_not_skipped(invalid_store: Spoilt, monkeypatch: Any, error: Exception) -> None:
    def load(self: SetStore, first: int = 0) -> Any:
        raise error

    fitted, store = embedding().fit(invalid_store.clean), dk.open_sets(invalid_store.path)
    monkeypatch.setattr(SetStore, "points_alone", load)
    for call in (fitted.transform(store).compute, lambda: fitted.fit(store)):
        with pytest.raises(type(error)):
            call()


def test_valid_sets_are_read_once(invalid_store: Spoilt, tmp_path: Path, monkeypatch: Any) -> None:
    store = dk.write_sets(tmp_path / "s.zarr", invalid_store.clean)
    store, loads, load = dk.open_sets(tmp_path / "s.zarr", block_sets=7), [], SetStore.points_alone
    monkeypatch.setattr(
        SetStore, "points_alone", lambda self, first=0: (loads.append(len(self)), load(self))[1]
    )
    result = []
    for on_error in ("raise", "skip"):
        loads.clear()
        fitted = embedding(on_error).fit(store)
        rows = fitted.transform(store).compute()
        assert fitted.skipped_.shape == (0,)
        result.append((sorted(loads), rows.tobytes()))
    assert result[0] == result[1]
    assert len(result[0][0]) == 9 + 1 + 9  # summary, sample, rows


def test_failed_read_is_retried(invalid_store: Spoilt, tmp_path: Path, monkeypatch: Any) -> None:
    store, load, remaining = (
        dk.write_sets(tmp_path / "s.zarr", invalid_store.clean),
        SetStore.points_alone,
        [1],
    )

    def fail_once(self: SetStore, first: int = 0) -> Any:
        remaining[0] -= 1
        if remaining[0] == 0:
            raise dk.StoreFormatError("a chunk cannot be read")
        return load(self)

    fitted = embedding().fit(invalid_store.clean)
    monkeypatch.setattr(SetStore, "points_alone", fail_once)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = fitted.transform(store).compute()
    np.testing.assert_array_equal(rows, fitted.transform(invalid_store.clean))


def test_on_error_changes_the_array_name(invalid_store: Spoilt) -> None:
    store = dk.open_sets(invalid_store.path)
    names = {
        embedding(on_error).fit(invalid_store.clean).transform(store).name for on_error in ("raise", "skip")
    }
    assert len(names) == 2
    with pytest.raises(ValueError, match="on_error must be one of 'raise', 'skip'; got 'ignore'"):
        embedding("ignore").fit(invalid_store.clean)


@pytest.mark.network
def test_invalid_sets_on_a_process_cluster(invalid_store: Spoilt) -> None:
    store, expected = dk.open_sets(invalid_store.path, block_sets=8), clean_rows(invalid_store)
    with (
        warnings.catch_warnings(record=True) as message,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match=r"weight of point 1 of set 5"):
            embedding("raise").fit(store)
        fitted = embedding().fit(store)
        np.testing.assert_array_equal(fitted.skipped_, invalid_store.bad)
        lazy = fitted.transform(store)
        assert_skipped(lazy.compute(), expected, invalid_store.bad)
        models = [dk.IncrementalSGDRegressor(n_lanes=k, random_state=0, on_error="skip") for k in (1, 2)]
        models += [dk.IncrementalRidge(on_error="skip", random_state=0)]
        y = expected @ np.arange(expected.shape[1])
        coefficients = [model.fit(lazy, y).coef_ for model in models]
        scores = [model.score(lazy, y) for model in models]
        assert client.get_events("warn") == ()  # of workers, about computations of the user
    of_learners = [w for w in message if "rows of X are not finite" in str(w.message)]
    assert len(of_learners) == len(coefficients) + len(scores)
    for warning in of_learners:
        assert "First error: weight of point 1 of set 5" in str(warning.message)
        assert warning.filename == __file__
    for model, coef, score in zip(models, coefficients, scores, strict=True):
        np.testing.assert_array_equal(model.skipped_, invalid_store.bad)
        rows = np.where(np.isin(np.arange(60), invalid_store.bad)[:, None], np.float32(np.nan), expected)
        local_rows = da.from_array(rows, chunks=(8, -1))
        with warnings.catch_warnings(action="ignore"):
            np.testing.assert_array_equal(clone(model).fit(local_rows, y).coef_, coef)
            assert model.score(local_rows, y) == score


OVERFLOWING = [dk.SlicedWassersteinEmbedding(random_state=0), dk.MomentEmbedding(2)]


@pytest.mark.parametrize("model", OVERFLOWING, ids=lambda model: type(model).__name__)
def test_overflowing_features_raise_or_are_skipped(model: Any, tmp_path: Path) -> None:
    good = list(np.random.default_rng(0).normal(size=(12, 30, 2)))
    far = [points.copy() for points in good]
    far[5][3] = 3e38
    model = clone(model).fit(good)
    for sets in (far, dk.write_sets(tmp_path / "far.zarr", far)):
        with pytest.raises(dk.SampleSetError, match=r"set 5 has the value -?inf in feature .* Rescale"):
            np.asarray(model.transform(sets))
        model.on_error = "skip"
        with pytest.warns(UserWarning, match=r"1 invalid set.*: 5\. .* Rescale"):
            rows = np.asarray(model.transform(sets))
        np.testing.assert_array_equal(np.isnan(rows).all(axis=1), np.arange(12) == 5)
        assert np.isfinite(np.delete(rows, 5, axis=0)).all()
        model.on_error = "raise"


@pytest.mark.parametrize("distance", ["wasserstein", "sliced-wasserstein"])
def test_overflowing_distances_raise(distance: str) -> None:
    sets = [np.zeros((2, 1)), np.full((2, 1), 3e38), np.full((3, 1), -3e38)]
    with pytest.raises(dk.SampleSetError, match=r"set 1 to set 2 is inf.*Rescale"):
        dk.distance_matrix(sets, distance=distance)
