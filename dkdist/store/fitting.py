"""Whether the arrays of a store fit its commit: data types, trailing shapes, lengths, and chunks of whole rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr

from dkdist.store.errors import RESTORE, StoreFormatError
from dkdist.store.layout import Commit

POINT_DTYPES = ("float32", "uint8", "uint16")


def require_fit(arrays: Mapping[str, zarr.Array[Any]], commit: Commit, label: str) -> None:
    """Raise StoreFormatError, naming the array, for one that cannot hold what the commit says."""
    for name, array in arrays.items():
        length, trailing, fits = _expected(name, array, commit)
        fits = fits and array.shape[1:] == trailing and array.chunks[1:] == trailing
        if not fits or array.shape[0] < length:
            raise StoreFormatError(
                f"array '{name}' of {label} has dtype {array.dtype}, shape {array.shape} and chunks "
                f"{array.chunks}; its {commit.n_sets} sets with {commit.n_points} points need at least "
                f"{(length, *trailing)} in chunks of whole rows. {RESTORE}"
            )


def _expected(name: str, array: zarr.Array[Any], commit: Commit) -> tuple[int, tuple[int, ...], bool]:
    """The rows and the trailing shape that an array needs, and whether it is of a kind that it may have."""
    if name == "points":
        return commit.n_points, (commit.n_dims,), str(array.dtype) in POINT_DTYPES
    if name == "offsets":
        return commit.n_sets + 1, (), array.dtype == np.int64
    if name == "weights":
        return commit.n_points, array.shape[1:], array.dtype == np.float32
    return commit.n_sets, array.shape[1:], array.dtype.kind in "biufT"
