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
        length, fits = _expected(name, array, commit)
        if not fits or array.chunks[1:] != array.shape[1:] or array.shape[0] < length:
            raise StoreFormatError(
                f"array '{name}' of {label} has dtype {array.dtype}, shape {array.shape} and chunks "
                f"{array.chunks}; its {commit.n_sets} sets with {commit.n_points} points of {commit.n_dims} "
                f"dimensions need at least {length} rows, in chunks of whole rows. {RESTORE}"
            )


def _expected(name: str, array: zarr.Array[Any], commit: Commit) -> tuple[int, bool]:
    """The rows that an array needs, and whether its data type and trailing shape are such as it may have."""
    if name == "points":
        return commit.n_points, str(array.dtype) in POINT_DTYPES and array.shape[1:] == (commit.n_dims,)
    if name == "offsets":
        return commit.n_sets + 1, array.dtype == np.int64 and array.ndim == 1
    if name == "weights":
        return commit.n_points, array.dtype == np.float32 and array.ndim < 3
    return commit.n_sets, array.dtype.kind in "biufT"
