"""The origin of a store: stored with the points, kept by copies and compaction, absent if it is 0."""

import json

import numpy as np
import pytest
import zarr

import dkdist as dk

RNG = np.random.default_rng(0)
FAR = [np.array([4.5e6, 0.0]) + RNG.normal(0, 10, (30 + i, 2)) for i in range(6)]
SPREAD_TOL = 2.0**-24 * 100


def document(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["dkdist"]


def test_a_store_returns_absolute_coordinates(tmp_path):
    output = dk.write_sets(tmp_path / "s", FAR)
    assert output.origin.tolist() == document(tmp_path / "s")["origin"]
    assert output.origin[0] == pytest.approx(4.5e6, abs=100)
    assert output.origin[1] == 0
    for i, x in enumerate(output):
        np.testing.assert_allclose(x, FAR[i], rtol=0, atol=SPREAD_TOL)
        assert np.array_equal(x, output[i])
    every = np.concatenate(FAR)
    np.testing.assert_allclose(output.bounds, [every.min(axis=0), every.max(axis=0)], rtol=0, atol=SPREAD_TOL)
    loaded, again = output.load(), dk.SampleSets.from_arrays(FAR)
    assert np.array_equal(loaded.relative, again.relative)
    assert np.array_equal(loaded.origin, again.origin)
    assert np.array_equal(output[[4, 1]].load()[0], output[4])
    assert "origin=[" in repr(output)
    assert dk.verify_sets(tmp_path / "s").n_sets == 6


def test_points_exact_in_float32_need_no_origin(tmp_path):
    for i, sets in enumerate(
        [[x - [4.5e6, 0] for x in FAR], [x.astype("f4") for x in FAR], ["GATTACA", "CAT"]]
    ):
        output = dk.write_sets(tmp_path / str(i), sets)
        assert "origin" not in document(tmp_path / str(i))
        assert not output.origin.any()
        if i < 2:
            assert output[0].dtype == np.float32
            assert np.array_equal(output[0], np.float32(sets[0]))


def test_appended_sets_use_the_origin_of_the_store(tmp_path):
    store = dk.write_sets(tmp_path / "s", FAR[:2]).append(FAR[2:4])
    store = store.append(dk.SampleSets.from_arrays([x.astype("f4") for x in FAR[4:]]))
    assert np.array_equal(store.origin, dk.open_sets(tmp_path / "s").origin)
    for i, x in enumerate(store):
        np.testing.assert_allclose(x, FAR[i], rtol=0, atol=SPREAD_TOL if i < 4 else 0.25)
    whole = dk.SampleSets.from_arrays(FAR[2:4], origin=store.origin)
    assert np.array_equal(store[2:4].load().relative, whole.relative)


def test_a_batch_too_far_from_the_origin_is_refused(tmp_path):
    near = [x - [4.5e6, 0] for x in FAR]
    store = dk.write_sets(tmp_path / "s", near)
    far = [near[0], near[1] + [0, 1e9]]
    for batch in (far[1:], [far[1], far[1]], dk.SampleSets.from_arrays(far[1:])):
        with pytest.raises(
            dk.SampleSetError, match=r"column 1 of set 0 of the appended sets is near 1000000"
        ):
            store.append(batch)
    with pytest.raises(
        dk.SampleSetError, match=r"column 1 of set 1 .* relative to the origin 0 of .*Write a new store"
    ):
        store.append([near[0][:3], far[1]])
    assert len(dk.open_sets(tmp_path / "s")) == 6


def test_compacting_and_copying_keep_the_origin(tmp_path):
    store = dk.write_sets(tmp_path / "s", FAR, targets=np.arange(6))
    for output in (dk.compact(store[2:], tmp_path / "c"), dk.write_sets(tmp_path / "w", store[2:])):
        assert np.array_equal(output.origin, store.origin)
        assert all(np.array_equal(x, store[2 + i]) for i, x in enumerate(output))
    dk.compact(tmp_path / "s")
    assert all(np.array_equal(x, output[i - 2]) for i, x in enumerate(dk.open_sets(tmp_path / "s")) if i >= 2)


def test_imports_use_the_origin_of_the_first_batch(tmp_path):
    pa, csv = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.csv")
    files = []
    for k in range(2):
        part = FAR[3 * k : 3 * k + 3]
        sizes = [len(x) for x in part]
        points, ids = np.concatenate(part), np.repeat(np.arange(3) + 3 * k, sizes)
        np.savez(tmp_path / f"{k}.npz", values=points, offsets=np.concatenate([[0], np.cumsum(sizes)]))
        csv.write_csv(pa.table({"id": ids, "x": points[:, 0], "y": points[:, 1]}), tmp_path / f"{k}.csv")
        files.append(tmp_path / f"{k}.npz")
    tables = [tmp_path / "0.csv", tmp_path / "1.csv"]
    imports = {
        "npz": dk.import_sets(tmp_path / "a", files),
        "csv": dk.import_sets(tmp_path / "b", tables, dk.TableReader("id")),
        "function": dk.import_sets(tmp_path / "c", range(2), lambda k: FAR[3 * k : 3 * k + 3]),
    }
    with dk.SetWriter(tmp_path / "d", 2) as writer:
        for k in range(2):
            writer.append(FAR[3 * k : 3 * k + 3])
    imports["writer"] = dk.open_sets(tmp_path / "d")
    first = dk.SampleSets.from_arrays(FAR[:3]).origin
    for name, output in imports.items():
        assert np.array_equal(output.origin, first), name
        for i, x in enumerate(output):
            np.testing.assert_allclose(x, FAR[i], rtol=0, atol=SPREAD_TOL, err_msg=name)
    assert np.array_equal(imports["function"].load().relative, imports["writer"].load().relative)


def test_an_invalid_origin_in_metadata_is_refused(tmp_path):
    dk.write_sets(tmp_path / "s", FAR)
    text = (tmp_path / "s" / "zarr.json").read_text()
    for wrong in ("[1.0]", "[1.0, Infinity]", '["a", 0.0]', "7", "[1.0, 0.0]"):
        root = json.loads(text)
        root["attributes"]["dkdist"]["origin"] = json.loads(wrong)
        (tmp_path / "s" / "zarr.json").write_text(json.dumps(root))
        with pytest.raises(dk.StoreFormatError, match=r"origin|checksum"):
            dk.open_sets(tmp_path / "s")


def test_a_rebased_view_has_another_dask_token():
    store = dk.write_sets(zarr.storage.MemoryStore(), FAR)
    moved = store.rebased(np.array([4.4e6, 1.0]))
    assert moved.__dask_tokenize__() != store.__dask_tokenize__()
    assert store.rebased(store.origin).__dask_tokenize__() == store.__dask_tokenize__()
    assert moved.rebased(store.origin).__dask_tokenize__() == store.__dask_tokenize__()
    np.testing.assert_allclose(moved[3], store[3], rtol=0, atol=0.01)
    assert moved[2:].load().origin.tolist() == [4.4e6, 1.0]
