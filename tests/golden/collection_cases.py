"""Golden cases of collections, stores, imports and data sets: what is in them, and where it comes from."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from store.fcs_bytes import fcs_bytes
from store.las_bytes import las_bytes

import dkdist as dk

from .harness import EXACT, IN_MEMORY, case, float64
from .inputs import N_SETS, arrays, strings, table, targets

FRAME = pd.DataFrame(
    {
        "donor": np.repeat(["a", "b", "c"], [4, 3, 5]),
        "height": np.arange(12.0) / 3,
        "width": np.arange(12.0) % 5,
        "weight": np.arange(1.0, 13.0),
        "age": np.repeat([30.0, 40.0, 50.0], [4, 3, 5]),
    }
)


def contents(sets: Any) -> dict[str, Any]:
    """Everything in a collection."""
    loaded = sets if isinstance(sets, dk.SampleSets) else sets.load()
    low, high = loaded.bounds
    results: dict[str, Any] = {
        "points": loaded.points,
        "offsets": loaded.offsets,
        "low": low,
        "high": high,
        "origin": loaded.origin,
    }
    if loaded.weights is not None:
        results["weights"] = loaded.weights
    for name in ("ids", "names"):
        if getattr(loaded, name) is not None:
            results[name] = np.asarray(getattr(loaded, name)).astype(str)
    results.update({f"target {name}": values for name, values in (loaded.targets or {}).items()})
    return results


def named(**collections: Any) -> dict[str, Any]:
    """Contents of several collections."""
    return {
        f"{name} {key}": value for name, sets in collections.items() for key, value in contents(sets).items()
    }


@case(EXACT)
def sets_with_labels(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.labelled()
    rows = np.array([5, 3, 20])
    return named(
        all=sets, slice=sets[4:9], rows=sets[rows], mask=sets[np.arange(N_SETS) % 5 == 0], reverse=sets[::-1]
    )


@case(EXACT)
def weighted_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane", weighted=True)
    return {**named(all=sets), "sizes": sets.sizes, "weights of one": sets.weights_of(3)}


@case(EXACT, forms=IN_MEMORY)
def sets_of_words_and_frames(inputs: Any) -> Mapping[str, Any]:
    del inputs
    words = dk.SampleSets.from_strings(strings())
    frame = dk.SampleSets.from_frame(FRAME, "donor", ["height", "width"], targets="age", weights="weight")
    far = dk.SampleSets(np.arange(12.0).reshape(6, 2) + 1e9, [0, 2, 6], origin=[1e9, 1e9])
    return {**named(words=words, frame=frame, far=far), "alphabet": [words.alphabet], "text": words.strings()}


@case(EXACT, forms=IN_MEMORY)
def written_stores(inputs: Any) -> Mapping[str, Any]:
    del inputs
    sets = list(arrays("plane"))
    y = {"y": targets(), "n": np.arange(N_SETS, dtype=np.int16), "name": np.arange(N_SETS).astype(str)}
    with tempfile.TemporaryDirectory() as folder:
        first = {name: values[:10] for name, values in y.items()}
        rest = {name: values[10:] for name, values in y.items()}
        store = dk.write_sets(f"{folder}/a.zarr", sets[:10], first, ids=np.arange(10))
        store = store.append(sets[10:], rest, ids=np.arange(10, N_SETS))
        assert isinstance(store, dk.SetStore)
        with dk.SetWriter(f"{folder}/w.zarr", n_dims=2, names=["u", "v"], chunk_rows=64) as writer:
            writer.append(sets[:3], targets=[1, 2, 3])
            writer.append(sets[3:5], targets=[4, 5])
        written = dk.open_sets(f"{folder}/w.zarr")
        small = dk.compact(f"{folder}/a.zarr", f"{folder}/small.zarr")
        report = dk.verify_sets(f"{folder}/a.zarr")
        counts = np.array([report.n_sets, report.n_points, small.n_points, len(written)])
        return {**named(appended=store, written=written, compact=small), "counts": counts}


def generate(seed: Any) -> Any:
    """A source of sets: a function of an integer."""
    rng = np.random.default_rng(int(seed))
    for k in range(2):
        yield dk.SampleSets.from_arrays([rng.normal(size=(4 + k, 2))]), {"y": np.array([k])}, None


@case(EXACT, forms=IN_MEMORY)
def imported_files(inputs: Any) -> Mapping[str, Any]:
    del inputs
    rng = np.random.default_rng(20)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        FRAME.to_csv(folder / "cells.csv", index=False)
        FRAME.to_parquet(folder / "cells.parquet")
        points = np.concatenate(arrays("plane")[:3])
        offsets = np.concatenate([[0], np.cumsum([len(x) for x in arrays("plane")[:3]])])
        np.savez(folder / "arrays.npz", values=points, offsets=offsets, y=np.arange(3))
        events = {"CD3": rng.random(20).astype("f4"), "CD4": rng.random(20).astype("f4")}
        (folder / "events.fcs").write_bytes(fcs_bytes(events))
        (folder / "tile.las").write_bytes(las_bytes(np.round(rng.random((15, 3)), 3)))
        table_reader = dk.TableReader("donor", ("height", "width"), weight="weight", targets=("age",))
        for key, file, reader in (
            ("csv", "cells.csv", table_reader),
            ("parquet", "cells.parquet", table_reader),
            ("arrays", "arrays.npz", dk.ArrayReader("values", "offsets", targets=("y",))),
            ("cytometry", "events.fcs", dk.CytometryReader(("CD3", "CD4"))),
            ("lidar", "tile.las", dk.LidarReader()),
        ):
            results.update(named(**{key: dk.import_sets(folder / f"{key}.zarr", [folder / file], reader)}))
        frame = dk.import_frame(folder / "frame.zarr", FRAME, "donor", ["height", "width"], targets="age")
        results.update(named(frame=frame))
        return results


@case(EXACT)
def stored_features(inputs: Any) -> Mapping[str, Any]:
    X = table()[0]
    with tempfile.TemporaryDirectory() as folder:
        written = dk.write_features(f"{folder}/z.zarr", inputs.rows(X))
        opened = dk.open_features(f"{folder}/z.zarr")
        return {"written": np.asarray(written), "opened": np.asarray(opened)}


@case(EXACT, forms=IN_MEMORY)
def saved_models(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = dk.HistogramEmbedding(n_bins=4).fit(sets)
    with tempfile.TemporaryDirectory() as folder:
        dk.save_model(model, f"{folder}/model.npz")
        loaded = dk.load_model(f"{folder}/model.npz")
    return {"is_equal": np.array_equal(loaded.transform(sets), model.transform(sets))}


@case(float64("samples of NumPy's generator, moved and scaled"), forms=IN_MEMORY)
def data_sets(inputs: Any) -> Mapping[str, Any]:
    del inputs
    mixtures, n_components = dk.datasets.make_mixtures(6, 30, random_state=0)
    cells, diagnosis = dk.datasets.make_cells(6, 20, random_state=0)
    digits, names = dk.datasets.load_digits_as_sets()
    return {
        "mixtures": mixtures.points,
        "n_components": n_components,
        "cells": cells.points,
        "diagnosis": diagnosis,
        "digits": np.asarray(digits[:20].points),
        "digit_names": np.asarray(names),
    }
