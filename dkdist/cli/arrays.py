"""Sets from NumPy files: points with offsets, or one array (sets, points, dimensions); never a pickle."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist import SampleSetError, SampleSets
from dkdist.cli.batches import Batch

BATCH_POINTS = 2**20

Array = NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class ArrayNames:
    """What the user calls the arrays of a file; None for the usual names, or whatever fits."""

    values: str | None = None
    offsets: str | None = None
    weight: str | None = None
    targets: Sequence[str] | None = None


def array_batches(path: Path, names: ArrayNames) -> Iterator[Batch]:
    """About a million points at a time."""
    arrays = _load(path)
    points, offsets = _take_points(path, arrays, names)
    weights = None if names.weight is None else _take_weights(path, arrays, names.weight, len(points))
    ids = arrays.pop("ids", None)
    targets = _targets(path, arrays, names.targets, len(offsets) - 1)
    start = 0
    while start < len(offsets) - 1:
        limit = offsets[start] + BATCH_POINTS
        stop = max(start + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
        rows, here = slice(offsets[start], offsets[stop]), slice(start, stop)
        edges = offsets[start : stop + 1] - offsets[start]
        try:
            sets = SampleSets(points[rows], edges, None if weights is None else weights[rows])
        except SampleSetError as error:
            raise SampleSetError(f"sets {start} to {stop - 1} of {path}, counted from 0: {error}") from error
        yield Batch(sets, {n: a[here] for n, a in targets.items()}, None if ids is None else ids[here])
        start = stop


def _load(path: Path) -> Arrays:
    """The arrays of a file by name; that of an .npy file is called 'values' and stays on disk."""
    try:
        if path.suffix == ".npy":
            return {"values": np.load(path, mmap_mode="r", allow_pickle=False)}
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} cannot be read ({error}): expected plain arrays of numbers or text, whole and "
            "without Python objects"
        ) from error


def _take_points(path: Path, arrays: Arrays, names: ArrayNames) -> tuple[Array, NDArray[np.int64]]:
    """(points, offsets); the arrays they come from are taken out of ``arrays``."""
    cubes = [name for name, array in arrays.items() if array.ndim == 3]
    default = cubes[0] if "values" not in arrays and len(cubes) == 1 else "values"
    values = _take(path, arrays, names.values or default, "--values")
    if values.ndim == 3:
        if names.offsets is not None:
            raise ValueError(
                f"--offsets has no meaning for points of shape {values.shape} (sets, points, dimensions)"
            )
        n_sets, n, d = values.shape
        return values.reshape(n_sets * n, d), np.arange(n_sets + 1, dtype=np.int64) * n
    points = values.reshape(len(values), -1) if values.ndim == 1 else values
    offsets = _take(path, arrays, names.offsets or "offsets", "--offsets")
    ordered = (
        offsets.ndim == 1 and offsets.dtype.kind in "iu" and (np.diff(offsets.astype(np.int64)) > 0).all()
    )
    if not ordered or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(points):
        raise ValueError(
            f"offsets must be whole numbers that start at 0, increase and end at the {len(points)} points "
            f"(set i is points[offsets[i]:offsets[i + 1]]); found {offsets!r}"
        )
    return points, offsets.astype(np.int64)


def _take_weights(path: Path, arrays: Arrays, name: str, n_points: int) -> Array:
    weights = _take(path, arrays, name, "--weight")
    if weights.size != n_points:
        raise ValueError(
            f"--weight {name} has shape {weights.shape}: expected one weight for each of {n_points} points"
        )
    return weights.reshape(-1)


def _targets(path: Path, arrays: Arrays, names: Sequence[str] | None, n_sets: int) -> Arrays:
    if names is not None:
        return {name: _take(path, arrays, name, "--target") for name in names}
    fitting = {n: a for n, a in arrays.items() if a.ndim in (1, 2) and len(a) == n_sets}
    others = sorted(arrays.keys() - fitting.keys())
    if others:
        print(
            f"dkdist: left out (no entry for each of the {n_sets} sets): {', '.join(others)}", file=sys.stderr
        )
    return fitting


def _take(path: Path, arrays: Arrays, name: str, option: str) -> Array:
    if name not in arrays:
        raise ValueError(f"{path} has no array {name!r}; it has {', '.join(arrays)}. Name one with {option}")
    return arrays.pop(name)
