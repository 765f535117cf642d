"""Targets and ids: one entry a set, of one of the few dtypes a store keeps, checked before any writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.sets import SampleSetError
from dkdist.store.errors import StoreFormatError

Columns = dict[str, NDArray[Any]]
Form = dict[str, tuple[str, tuple[int, ...]]]
"""The dtype and trailing shape of each array, by its name in the store."""
KEPT = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def as_columns(targets: Any, ids: Any, n_sets: int) -> Columns:
    """The arrays ``targets/NAME`` and ``ids`` of n_sets sets, by their names in the store.

    Raises `SampleSetError` for a wrong length, a dtype that is neither numeric, boolean nor str, or a bad
    name.
    """
    named = targets if isinstance(targets, Mapping) else {} if targets is None else {"y": targets}
    columns: Columns = {}
    for name, values in named.items():
        check_name(name)
        columns[f"targets/{name}"] = _as_column(values, f"targets {name!r}", n_sets, max_ndim=2)
    if ids is not None:
        columns["ids"] = _as_column(ids, "ids", n_sets, max_ndim=1)
        if columns["ids"].dtype.kind not in "iuU":
            raise SampleSetError(f"ids have dtype {columns['ids'].dtype}: give integers or str")
    return columns


def require_same_form(given: Form, stored: Form, label: str) -> None:
    """Refuse a batch whose points, weights, targets or ids are unlike those the store has."""
    for name in sorted(stored.keys() - given.keys()):
        raise StoreFormatError(f"{label} has {_title(name)} but the sets to append have none: give them too")
    for name in sorted(given.keys() - stored.keys()):
        raise StoreFormatError(
            f"the sets to append have {_title(name)} but {label} has none: leave them out, "
            "or write a new store"
        )
    for name, found in given.items():
        if found != stored[name]:
            raise StoreFormatError(
                f"{_title(name)} to append have dtype {found[0]} and trailing shape {found[1]}; "
                f"{label} keeps dtype {stored[name][0]} and trailing shape {stored[name][1]}. Convert them"
            )


def dtype_name(dtype: Any) -> str:
    """The name by which dtypes are compared: all kinds of strings are ``str``."""
    return "str" if dtype.kind in "UTO" else str(dtype)


def _title(name: str) -> str:
    return f"targets {name.removeprefix('targets/')!r}" if name.startswith("targets/") else name


def check_name(name: Any) -> None:
    """Refuse what cannot name targets: a path, a hidden file, or what Zarr keeps for itself."""
    good = isinstance(name, str) and name.strip() and not name.startswith((".", "__")) and name != "zarr.json"
    if not good or any(c in name for c in "/\\") or not name.isprintable():
        raise SampleSetError(
            f"{name!r} cannot name targets: use a non-empty str without '/', '\\' or control characters that "
            "does not start with '.' or '__'"
        )


def _as_column(values: Any, what: str, n_sets: int, max_ndim: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(v, str) for v in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind == "T":
        array = array.astype(np.str_)
    if not 1 <= array.ndim <= max_ndim or 0 in array.shape[1:]:
        shapes = "(n_sets,)" if max_ndim == 1 else "(n_sets,) or (n_sets, k)"
        raise SampleSetError(f"{what} must have shape {shapes}, found {array.shape}")
    if len(array) != n_sets:
        raise SampleSetError(f"{what} has {len(array)} rows but there are {n_sets} sets: give one a set")
    if array.dtype.kind == "U" and array.ndim == 1:
        return array
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.str[1:] not in KEPT:
        raise SampleSetError(
            f"{what} has dtype {array.dtype}: give numbers, booleans, or str in one dimension"
        )
    return array
