"""`as_sets`: every kind of input gives the results of sets in memory, lazily where it is lazy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

import dkdist as dk
from dkdist.cli import main
from inputs.kinds import ENTRIES, KINDS, LAZY, example, make, ragged, run

KIND_NAMES, ENTRY_NAMES = list(KINDS), list(ENTRIES)
# two entry points for every kind, so that every entry point meets lazy and other kinds
PAIRS = sorted(
    {(kind, ENTRY_NAMES[(i + j) % len(ENTRY_NAMES)]) for i, kind in enumerate(KIND_NAMES) for j in (0, 7)}
)
TOLERANCE = {"SetClassifier": 1e-6, "IncrementalRidgeClassifier": 1e-4, "IncrementalSGDClassifier": 1e-4}
"""Sums over blocks of other sizes are rounded differently in float32; all others are equal bit for bit."""


def compare(kind: str, entry: str, path: Path) -> None:
    X, sets, y = make(kind, path / "input")
    result, expected = run(entry, X, y, path / "a"), run(entry, sets, y, path / "b")
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE.get(entry, 0))


@pytest.mark.parametrize(("kind", "entry"), PAIRS)
def test_result_equals_that_of_arrays_in_memory(kind: str, entry: str, tmp_path: Path) -> None:
    compare(kind, entry, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "entry"), list(itertools.product(KIND_NAMES, ENTRY_NAMES)))
def test_all_pairs_equal_arrays_in_memory(kind: str, entry: str, tmp_path: Path) -> None:
    compare(kind, entry, tmp_path)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_sets_have_the_interface_of_a_store(kind: str, tmp_path: Path) -> None:
    X, sets, _ = make(kind, tmp_path / "input")
    collection = dk.as_sets(X)
    assert isinstance(collection, dk.LazySets) == (kind in LAZY)
    assert (len(collection), collection.n_dims, collection.n_points) == (len(sets), 2, sum(map(len, sets)))
    assert collection.sizes.tolist() == [len(x) for x in sets]
    np.testing.assert_array_equal(collection[5], sets[5])
    low, high = collection.bounds
    np.testing.assert_array_equal((low, high), (np.concatenate(sets).min(0), np.concatenate(sets).max(0)))
    order = [7, 3, 3, 20]
    for part, expected in zip(collection[order], [sets[i] for i in order], strict=True):
        np.testing.assert_array_equal(part, expected)
    mask = np.arange(len(sets)) % 2 == 0
    assert len(collection[mask][2:4]) == 2
    rows = dk.MomentEmbedding().fit(collection).transform(collection)
    assert isinstance(rows, da.Array) == (kind in LAZY)
    assert rows.dtype == np.float32
    assert rows.shape == (len(sets), 2)


def test_labels_and_weights_of_lazy_arrays() -> None:
    points, y = example()
    sets = ragged(points)
    flat, offsets = np.concatenate(sets), np.cumsum([0, *map(len, sets)])
    weights = np.random.default_rng(0).random(len(flat)).astype("f4")
    labels = {
        "ids": [f"s{i}" for i in range(len(sets))],
        "names": ["u", "v"],
        "targets": {"y": da.from_array(y)},
    }
    lazy = dk.as_sets(da.from_array(flat, chunks=(50, 2)), offsets, weights=weights, **labels)
    memory = dk.as_sets(flat, offsets, weights=weights, **labels)
    assert isinstance(memory, dk.SampleSets)
    for part, expected in ((lazy.load(), memory), (lazy[[9, 2]].load(), memory[[9, 2]])):
        np.testing.assert_array_equal(part.points, expected.points)
        np.testing.assert_array_equal(part.weights, expected.weights)
        np.testing.assert_array_equal(part.targets["y"], expected.targets["y"])
        assert (part.ids.tolist(), part.names) == (expected.ids.tolist(), ("u", "v"))
    embedding = dk.MomentEmbedding().fit(memory)
    np.testing.assert_array_equal(embedding.transform(lazy).compute(), embedding.transform(memory))
    scaled = dk.SetScaler().fit(memory).transform(lazy)
    np.testing.assert_array_equal(scaled.load().points, dk.SetScaler().fit(memory).transform(memory).points)


def test_float64_far_from_zero_has_an_origin() -> None:
    points = np.random.default_rng(0).standard_normal((40, 20, 2)) + 1e9
    sets = dk.as_sets(da.from_array(points, chunks=(8, 20, 2)))
    assert np.abs(sets.origin - 1e9).max() < 10
    np.testing.assert_allclose(sets[3], points[3], rtol=0, atol=1e-6)


def test_invalid_sets_are_named_or_skipped() -> None:
    points, _ = example()
    points[[13, 30], 4, 1] = np.nan
    sets = dk.as_sets(da.from_array(points, chunks=(10, 20, 2)))
    with pytest.raises(dk.SampleSetError, match="point 4 of set 13 is nan in column 1"):
        dk.MomentEmbedding().fit(sets)
    embedding = dk.MomentEmbedding(on_error="skip")
    with pytest.warns(UserWarning, match=r"2 invalid set\(s\) left out of fit \(see skipped_\): 13, 30"):
        embedding.fit(sets)
    with pytest.warns(UserWarning, match="13, 30"):
        rows = embedding.transform(sets).compute()
    assert np.flatnonzero(np.isnan(rows).any(axis=1)).tolist() == [13, 30]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dk.as_sets(da.zeros((30, 2))), r"with offsets; got \(30, 2\).*as_sets\(array, offsets\)"),
        (
            lambda: dk.as_sets(da.zeros((30, 2)), [0, 10, 20]),
            "offsets must end at the number of points, 30; got 20",
        ),
        (lambda: dk.as_sets(np.zeros((3, 4, 2)), [0, 3]), r"must have shape \(n_points, n_dims\)"),
        (lambda: dk.as_sets([np.zeros((3, 2))], [0, 3]), "offsets must be None for list"),
        (
            lambda: dk.as_sets(da.zeros((30, 2), dtype="c8"), [0, 30]),
            "points must be real numbers; got complex64",
        ),
        (
            lambda: dk.as_sets(da.zeros((3, 5, 2)), weights=np.ones((3, 4))),
            r"weights must have shape \(3, 5\)",
        ),
        (
            lambda: dk.as_sets(dk.as_sets(da.zeros((3, 5, 2))), ids=[1, 2, 3]),
            "ids, names and targets must be None",
        ),
        (lambda: dk.as_sets(xr.Dataset(attrs={"dkdist": {}})), r"Use dk.open_sets\(path\)"),
        (lambda: dk.MomentEmbedding().fit(da.zeros((30, 2))), r"as_sets\(array, offsets\)"),
    ],
)
def test_other_arrays_are_refused(call: Any, message: str) -> None:
    with pytest.raises(dk.SampleSetError, match=message):
        call()


def test_origin_of_padded_sets_ignores_the_padding(tmp_path: Path) -> None:
    points = np.random.default_rng(0).standard_normal((40, 50, 2)) + 1e9
    group = zarr.create_group(str(tmp_path / "padded.zarr"))
    padded = np.where(np.arange(50)[:, None] < 5, points, 0.0)
    for name, values in {"points": padded, "lengths": np.full(40, 5)}.items():
        group.create_array(name, shape=values.shape, chunks=values.shape, dtype=values.dtype)[...] = values
    sets = dk.as_sets(group)
    assert np.abs(sets.origin - 1e9).max() < 10
    np.testing.assert_allclose(sets[3], points[3, :5], rtol=0, atol=1e-6)


def test_precision_that_float32_loses_raises_a_warning() -> None:
    points = np.random.default_rng(0).standard_normal((40, 20, 1))
    points[::2] += 1e10
    with pytest.warns(UserWarning, match="column 0 of the points of all sets has many distinct values"):
        dk.as_sets(da.from_array(points, chunks=(8, 20, 1)))


def test_masked_values_of_lazy_arrays_are_refused() -> None:
    sets = dk.as_sets(da.ma.masked_less(da.from_array(example()[0], chunks=(10, 20, 2)), -1))
    with pytest.raises(ValueError, match="points must not contain masked values"):
        dk.MomentEmbedding().fit(sets)


def test_lists_may_mix_arrays_and_delayed_values() -> None:
    points, _ = example()
    mixed = [dask.delayed(x) if i % 2 else x for i, x in enumerate(points)]
    np.testing.assert_array_equal(dk.as_sets(mixed).load().points, points.reshape(-1, 2))


def test_empty_selections_are_empty() -> None:
    sets = dk.as_sets(da.from_array(example()[0], chunks=(10, 20, 2)))
    assert len(sets[:0]) == len(sets[:0].load()) == len(sets[[]].load()) == 0


def test_blocks_consist_of_whole_chunks() -> None:
    points = da.zeros((5000, 4, 2), chunks=(300, 4, 2), dtype="f4")
    bounds = dk.as_sets(points).block_bounds(row_bytes=4)
    assert set(np.diff(bounds)) == {900, 500}
    assert set(np.diff(dk.as_sets(points).block_bounds(row_bytes=4, max_sets=100))) == {100}


def test_chunks_at_borders_are_computed_for_each_block_and_others_once() -> None:
    counts: dict[str, int] = {}

    def counted(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info:
            location = str(block_info[None]["chunk-location"])
            counts[location] = counts.get(location, 0) + 1
        return block

    flat = da.from_array(np.zeros((24_000, 2), "f4"), chunks=(6000, 2)).map_blocks(counted, dtype="f4")
    sets = dk.as_sets(flat, np.arange(0, 24_001, 6))  # chunks end with sets
    rows = dk.MomentEmbedding().fit(dk.as_sets(np.zeros((9, 4, 2), "f4"))).transform(sets)
    dk.IncrementalRidge().fit(rows, np.arange(4000.0))
    (n_passes,) = set(counts.values())
    counts.clear()
    sets = dk.as_sets(flat, np.append(np.arange(0, 23_999, 7), 24_000))  # sets cross the borders of chunks
    rows = dk.MomentEmbedding().fit(dk.as_sets(np.zeros((9, 4, 2), "f4"))).transform(sets)
    dk.IncrementalRidge().fit(rows, np.arange(float(len(sets))))
    assert set(counts.values()) == {n_passes, 2 * n_passes}


def test_round_trip_through_other_libraries() -> None:
    points, y = example()
    sets = dk.SampleSets.from_arrays(ragged(points), ids=np.arange(48) + 5, names=["u", "v"], targets=y)
    for back in (
        dk.as_sets(sets.to_awkward()),
        dk.as_sets(sets.to_arrow()["points"]),
        dk.as_sets(sets.to_xarray()),
    ):
        np.testing.assert_array_equal(back.points, sets.points)
        np.testing.assert_array_equal(back.offsets, sets.offsets)
        assert back.names == ("u", "v")
    table = sets.to_arrow()
    assert (table["id"].to_pylist(), table["y"].to_pylist()) == (sets.ids.tolist(), y.tolist())
    assert (back.ids.tolist(), back.targets["y"].tolist()) == (sets.ids.tolist(), y.tolist())


def test_commands_read_groups_of_other_writers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, y = example()
    store, model, table = (str(tmp_path / name) for name in ("group.zarr", "model.npz", "table.csv"))
    group = zarr.create_group(store)
    for name, values in {"points": points.reshape(-1, 2), "offsets": np.arange(49) * 20, "y": y}.items():
        group.create_array(name, shape=values.shape, chunks=values.shape, dtype=values.dtype)[...] = values
    assert main(["fit", store, "--target", "y", "--task", "classify", "--model", model]) == 0
    assert main(["predict", store, "--model", model, "--output", table]) == 0
    assert len(Path(table).read_text().splitlines()) == 49
    assert main(["info", store]) == 2
    assert "dk.as_sets" in capsys.readouterr().err
