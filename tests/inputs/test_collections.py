"""Collections of other libraries: missing values, partitions, orders of dimensions, weights, and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from sklearn.compose import ColumnTransformer

import dkdist as dk
from inputs.kinds import RAGGED, example, ragged

SETS = ragged(example()[0])
STACKED = np.stack([x[:10] for x in SETS])
SIZES = [len(x) for x in SETS]
NESTED = [[[1.0, 2.0]], [[3.0, 4.0], [5.0, None]]]


def empty_partition() -> Any:
    return db.from_delayed([dask.delayed(list)(())])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.array(NESTED), "point 1 of set 1, or one of its coordinates, is missing"),
        (pa.array([[[1.0]], [[2.0], None]]), "point 1 of set 1, or one of its coordinates, is missing"),
        (pa.array([[{"a": 1.0}], [{"a": None}]]), "point 0 of set 1, or one of its coordinates, is missing"),
        (pa.array([[[1.0]], None]), "set 1 is missing"),
        (pa.array(["ab", None]), "set 1 is missing"),
        (pa.array([[], []], pa.list_(pa.list_(pa.float32()))), "set 0 is empty"),
        (pl.Series(NESTED), "point 1 of set 1, or one of its coordinates, is missing"),
        (ak.Array(NESTED), "point 1 of set 1, or one of its coordinates, is missing"),
        (ak.Array([[[1.0]], [[2.0], None]]), "point 1 of set 1, or one of its coordinates, is missing"),
        (ak.Array([[[1.0]], None, [[2.0]]]), "set 1 is missing"),
        (ak.Array([[[1.0]], [], [[2.0]]]), "set 1 is empty"),
        (ak.Array([[[1.0]], [[1.0, 2.0]]]), "lists of numbers of equal length"),
        (ak.Array([{"a": [1, 2], "b": [3, 4]}, {"a": [1], "b": []}]), "of set 1 .* got 1 and 0 values"),
        (db.from_sequence([SETS[0], SETS[1], None], npartitions=3), "set 2 must contain real numbers"),
        ([dask.delayed(SETS[0]), dask.delayed(np.zeros((3, 5)))], "set 1 must have 2 dimensions"),
        (
            db.from_sequence(
                [pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"b": [1.0], "a": [2.0]})]
            ),
            r"must have the same columns, \['a', 'b'\]; got \['b', 'a'\]",
        ),
        (dask.delayed(SETS), r"Pass \[value\] for one set"),
        (pd.DataFrame({"cells": SETS}), r"X\['cells'\]"),
    ],
)
def test_other_collections_are_refused_by_set_and_remedy(data: Any, message: str) -> None:
    with pytest.raises(dk.SampleSetError, match=message):
        dk.MomentEmbedding().fit(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda: db.concat([empty_partition(), db.from_sequence(SETS, npartitions=5), empty_partition()]),
        lambda: pd.Series([dask.delayed(x) for x in SETS]),
        lambda: pd.Series([np.array([*x, None], object)[:-1] for x in SETS]),  # as pandas reads Parquet
        lambda: pl.Series(SETS, dtype=pl.Object),
        lambda: ak.Array([*SETS[:3], None, *SETS[3:]])[
            [0, 1, 2, *range(4, 49)]
        ],  # options without missing values
        lambda: pa.array([x.tolist() for x in [SETS[9], *SETS, SETS[9]]])[1:-1],
        lambda: pa.ListArray.from_arrays(  # offsets from 2 on, and values after the end
            2 + np.cumsum([0, *SIZES]), pa.array(np.pad(np.concatenate(SETS), ((2, 2), (0, 0))).tolist())
        ),
        lambda: dk.SampleSets.from_arrays(SETS).to_xarray().transpose("column", "set", "point"),
    ],
)
def test_collections_equal_lists_of_arrays(make: Any) -> None:
    np.testing.assert_array_equal(_points(make()), np.concatenate(SETS))


def _points(data: Any) -> np.ndarray:
    sets = dk.as_sets(data)
    assert sets.sizes.tolist() == SIZES
    return sets.load().points if isinstance(sets, dk.LazySets) else sets.points


def test_column_of_arrays_of_a_dask_frame_is_a_collection() -> None:
    with dask.config.set({"dataframe.convert-string": False}):
        column = dd.from_pandas(pd.DataFrame({"cells": SETS}), npartitions=3)["cells"]
    np.testing.assert_array_equal(_points(column), np.concatenate(SETS))


def test_dimensions_and_coordinates_of_xarray_are_used_by_name() -> None:
    coordinates = {"set": np.arange(48) + 100, "column": ["u", "v"]}
    array = xr.DataArray(STACKED, coordinates, dims=("set", "point", "column"))
    padded = xr.Dataset({"points": array, "lengths": ("set", np.full(48, 4)), "y": ("set", np.arange(48))})
    for data, n in ((array, 10), (array.chunk(set=7), 10), (padded, 4)):
        sets = dk.as_sets(data.transpose("column", "point", "set"))
        np.testing.assert_array_equal(sets[3], STACKED[3, :n])
        assert (sets.ids.tolist(), sets.names) == (coordinates["set"].tolist(), ("u", "v"))
    assert list(sets.targets) == ["y"]


@pytest.mark.parametrize("kind", ["awkward", "Arrow list column", "polars list column", "bag"])
def test_weights_may_be_a_list_column(kind: str, tmp_path: Path) -> None:
    weights = [np.arange(1.0, 1 + len(x)) for x in SETS]
    expected = dk.SampleSets.from_arrays(SETS, weights)
    for column in (weights, pd.Series(weights), pa.array(weights), ak.Array(weights)):
        sets = dk.as_sets(RAGGED[kind](SETS, tmp_path), weights=column)
        loaded = sets.load() if isinstance(sets, dk.LazySets) else sets
        np.testing.assert_array_equal(loaded.weights, expected.weights)
    table = expected.to_arrow()
    np.testing.assert_array_equal(
        dk.as_sets(table["points"], weights=table["weights"]).weights, expected.weights
    )
    with pytest.raises(dk.SampleSetError, match=r"weights of set 1 must have shape \(19,\)"):
        dk.as_sets(RAGGED[kind](SETS, tmp_path), weights=[weights[0], weights[2], *weights[2:]])


def test_column_transformer_names_the_features_of_a_column_of_sets() -> None:
    frame = pd.DataFrame({"cells": SETS, "age": range(48)})
    columns = [("cells", dk.MomentEmbedding(), "cells"), ("age", "passthrough", ["age"])]
    table = ColumnTransformer(columns).set_output(transform="pandas").fit_transform(frame)
    assert list(table) == ["cells__momentembedding0", "cells__momentembedding1", "age__age"]
    np.testing.assert_array_equal(table.iloc[:, :2], dk.MomentEmbedding().fit_transform(SETS))


@pytest.mark.parametrize(
    "make", [lambda y: dd.from_pandas(pd.Series(y, name="y"), npartitions=3), lambda y: da.from_array(y, 9)]
)
def test_targets_of_dask_equal_arrays(make: Any) -> None:
    y = np.arange(48) % 2
    lazy = make(y)
    sets = dk.as_sets(da.from_array(STACKED, chunks=(7, 10, 2)), targets=lazy)
    np.testing.assert_array_equal(sets.targets["y"], y)
    rows = dk.MomentEmbedding().fit(sets).transform(sets)
    learner = dk.IncrementalRidgeClassifier
    expected = learner().fit(rows.compute(), y).decision_function(rows.compute())
    np.testing.assert_allclose(learner().fit(rows, lazy).decision_function(rows), expected, rtol=0, atol=1e-4)
