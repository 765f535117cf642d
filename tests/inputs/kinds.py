"""Kinds of input and entry points of the table in docs/inputs.md: all give the results of sets in memory."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import xarray as xr
import zarr
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.cli import main

N_SETS, N_POINTS = 48, 20


def example() -> tuple[np.ndarray, np.ndarray]:
    """Return sets (N, n, 2) whose spread depends on their class, and the classes (N,)."""
    rng = np.random.default_rng(7)
    y = np.arange(N_SETS) % 2
    points = rng.standard_normal((N_SETS, N_POINTS, 2)) * (1 + y[:, None, None])
    return points.astype("f4"), y


def ragged(points: np.ndarray) -> list[np.ndarray]:
    """Return sets of 10 to 20 points."""
    return [x[: N_POINTS - i % 11] for i, x in enumerate(points)]


def _zarr(path: Path, values: np.ndarray, rows: int) -> Any:
    array = zarr.create_array(
        str(path), shape=values.shape, chunks=(rows, *values.shape[1:]), dtype=values.dtype
    )
    array[...] = values
    return array


def _group(path: Path, arrays: dict[str, np.ndarray], **names: Any) -> Any:
    group = zarr.create_group(str(path))
    for name, values in arrays.items():
        array = group.create_array(
            name, shape=values.shape, chunks=values.shape, dtype=values.dtype, dimension_names=names.get(name)
        )
        array[...] = values
    return group


def _padded_group(sets: list[np.ndarray], path: Path) -> Any:
    padded = np.full((len(sets), N_POINTS, 2), np.nan, "f4")
    for i, x in enumerate(sets):
        padded[i, : len(x)] = x
    return _group(path, {"points": padded, "lengths": np.array([len(x) for x in sets])})


def _cf_group(sets: list[np.ndarray], path: Path) -> Any:
    flat, sizes = np.concatenate(sets), np.array([len(x) for x in sets])
    arrays = {"u": flat[:, 0], "v": flat[:, 1], "row_size": sizes}
    group = _group(path, arrays, u=["obs"], v=["obs"], row_size=["set"])
    group["row_size"].attrs["sample_dimension"] = "obs"
    return group


def _torch(sets: list[np.ndarray], path: Path) -> Any:
    import torch

    return [torch.from_numpy(x) for x in sets]


def _flat(sets: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(sets), np.concatenate([[0], np.cumsum([len(x) for x in sets])])


def _futures(sets: list[np.ndarray], path: Path) -> Any:
    from distributed import default_client

    # keys by content would meet the release of the same sets of an earlier test
    return default_client().scatter(sets, hash=False)


def _stacked(sets: list[np.ndarray]) -> np.ndarray:
    return np.stack([x[:10] for x in sets])


Maker = Callable[[list[np.ndarray], Path], Any]

RAGGED: dict[str, Maker] = {
    "list of arrays": lambda sets, path: sets,
    "SampleSets": lambda sets, path: dk.SampleSets.from_arrays(sets),
    "store": lambda sets, path: dk.write_sets(path, sets),
    "NumPy (T, d), offsets": lambda sets, path: dk.as_sets(*_flat(sets)),
    "Series of arrays": lambda sets, path: pd.Series(sets),
    "object array": lambda sets, path: pd.Series(sets).to_numpy(),
    "awkward": lambda sets, path: ak.Array(sets),
    "Arrow list column": lambda sets, path: pa.array(
        [x.tolist() for x in sets], pa.list_(pa.list_(pa.float32(), 2))
    ),
    "polars list column": lambda sets, path: pl.Series(
        [x.tolist() for x in sets], dtype=pl.List(pl.Array(pl.Float32, 2))
    ),
    "Dask (T, d), offsets": lambda sets, path: (
        da.from_array(_flat(sets)[0], chunks=(97, 2)),
        _flat(sets)[1],
    ),
    "Zarr (T, d), offsets": lambda sets, path: dk.as_sets(_zarr(path, _flat(sets)[0], 97), _flat(sets)[1]),
    "Zarr group, padded": _padded_group,
    "Zarr group, CF": _cf_group,
    "xarray, CF": lambda sets, path: dk.SampleSets.from_arrays(sets).to_xarray().chunk({"point": 97}),
    "bag": lambda sets, path: db.from_sequence(sets, npartitions=5),
    "list of Delayed": lambda sets, path: [dask.delayed(x) for x in sets],
}
"""Makers of collections of sets of different sizes."""

STACKED: dict[str, Maker] = {
    "NumPy (N, n, d)": lambda sets, path: _stacked(sets),
    "Dask (N, n, d)": lambda sets, path: da.from_array(_stacked(sets), chunks=(7, 4, 2)),
    "Zarr (N, n, d)": lambda sets, path: _zarr(path, _stacked(sets), 7),
    "xarray (N, n, d)": lambda sets, path: xr.DataArray(
        da.from_array(_stacked(sets), chunks=(7, 10, 2)), dims=("set", "point", "column")
    ),
}
"""Makers of collections of sets of ten points."""

LAZY = {
    "store", "Dask (T, d), offsets", "Zarr (T, d), offsets", "Zarr group, padded", "Zarr group, CF", "xarray, CF",
    "bag", "list of Delayed", "Dask (N, n, d)", "Zarr (N, n, d)", "xarray (N, n, d)", "futures",
}  # fmt: skip
KINDS = {**RAGGED, **STACKED}
PERSISTED_KINDS = [
    "Dask (T, d), offsets", "Dask (N, n, d)", "xarray, CF", "xarray (N, n, d)", "bag", "list of Delayed",
]  # fmt: skip
CLUSTER_KINDS = {"futures": _futures}
OPTIONAL_KINDS = {"PyTorch": _torch}


def make(kind: str, path: Path, *, is_persisted: bool = False) -> tuple[Any, list[np.ndarray], np.ndarray]:
    """Return the input, the same sets as a list of arrays, and their classes."""
    points, y = example()
    sets = ragged(points)
    expected = list(_stacked(sets)) if kind in STACKED else sets
    maker = {**KINDS, **CLUSTER_KINDS, **OPTIONAL_KINDS}[kind]
    data = maker(sets, path)
    if is_persisted:
        (data,) = dask.persist(data)
    return dk.as_sets(*data) if isinstance(data, tuple) else data, expected, y


def _divergence(X: Any, y: Any, path: Path) -> Any:
    return dk.DivergenceEmbedding(domain=(-8, 8), n_basis=8, bandwidth=0.1).fit(X).transform(X)


def _moments(X: Any, y: Any, path: Path) -> Any:
    return dk.MomentEmbedding(degree=2).fit_transform(X)


def _sliced(X: Any, y: Any, path: Path) -> Any:
    return dk.SlicedWassersteinEmbedding(8, random_state=0).fit_transform(X)


def _features(X: Any, y: Any, path: Path) -> Any:
    return make_pipeline(
        dk.MomentEmbedding(degree=2), dk.RandomFourierFeatures(64, random_state=0)
    ).fit_transform(X)


def _learner(learner: Any) -> Callable[..., Any]:
    def run(X: Any, y: Any, path: Path) -> Any:
        return make_pipeline(dk.MomentEmbedding(degree=2), learner).fit(X, y).decision_function(X)

    return run


def _classifier(X: Any, y: Any, path: Path) -> Any:
    model = dk.SetClassifier([dk.MomentEmbedding(degree=2)], random_state=0).fit(X, y)
    return model.predict_proba(X)


def _search(X: Any, y: Any, path: Path) -> Any:
    pipeline = make_pipeline(dk.MomentEmbedding(degree=2), dk.IncrementalRidgeClassifier())
    search = dk.OnePassSearch(pipeline, {"momentembedding__degree": [1, 2]}, validation_fraction=0.25)
    return search.fit(X, y).predict(X)


def _two_sample(X: Any, y: Any, path: Path) -> Any:
    sets = dk.as_sets(X)
    return np.array([dk.two_sample_test(sets[y == 0], sets[y == 1], random_state=0).p_value])


def _coreset(X: Any, y: Any, path: Path) -> Any:
    return dk.CoresetThinning(6, sigma=1.0, random_state=0).fit(X).transform(X).points


def _write(X: Any, y: Any, path: Path) -> Any:
    return dk.write_sets(path / "written.zarr", X, targets=y).load().points


def _command(X: Any, y: Any, path: Path) -> Any:
    dk.write_sets(path / "sets.zarr", X, targets=y)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(["embed", f"{path}/sets.zarr", f"{path}/rows.zarr", "--features", "0", "--n-basis", "8"])
    return dk.open_features(path / "rows.zarr").compute()


ENTRIES: dict[str, Callable[..., Any]] = {
    "DivergenceEmbedding": _divergence,
    "MomentEmbedding": _moments,
    "SlicedWassersteinEmbedding": _sliced,
    "RandomFourierFeatures": _features,
    "IncrementalRidgeClassifier": _learner(dk.IncrementalRidgeClassifier()),
    "IncrementalSGDClassifier": _learner(dk.IncrementalSGDClassifier(n_epochs=2, random_state=0)),
    "SetClassifier": _classifier,
    "OnePassSearch": _search,
    "two_sample_test": _two_sample,
    "CoresetThinning": _coreset,
    "write_sets": _write,
    "command line": _command,
}
"""Functions of (X, y, empty folder) that return an array."""


def run(entry: str, X: Any, y: np.ndarray, path: Path) -> np.ndarray:
    """Return the result of an entry point in memory."""
    path.mkdir(exist_ok=True)
    return np.asarray(ENTRIES[entry](X, y, path))
