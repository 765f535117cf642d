"""The arrays of a store: their names, which its commit gives, what targets and ids they hold, and whether they fit it.

Targets and ids have one entry a set, of one of the few dtypes that a store keeps, checked before any writing. A commit
gives the names, so that opening it needs no listing; a store whose commit gives none (it was written by others, or by
an early version) is listed. No name leads out of the store, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store

from dkdist.sets import SampleSetError
from dkdist.store.places.address import list_names
from dkdist.store.refusals import DOCUMENT, MAX_ARRAYS, RESTORE, StoreFormatError, decoding, parsed

if TYPE_CHECKING:
    from dkdist.store.format.layout import Commit

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


def form_of_arrays(arrays: Mapping[str, Any]) -> Form:
    """The form of the arrays of a store or of a batch, by their names; offsets have none."""
    return {name: (dtype_name(a.dtype), a.shape[1:]) for name, a in arrays.items() if name != "offsets"}


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
    if array.dtype.kind == "T" or (array.dtype.kind == "O" and all(isinstance(v, str) for v in array.flat)):
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


OWN_ARRAYS = ("points", "offsets", "weights", "ids")


def arrays_there(store: Store, label: str) -> list[str]:
    """The names of the arrays that a store can have, as a listing shows them."""
    names = [f"targets/{name}" for name in list_names(store, "targets") if name != DOCUMENT]
    return [*OWN_ARRAYS, *_checked_names(names, label)]


def named_arrays(document: bytes | None, label: str) -> list[str] | None:
    """The names of the arrays that a root document (of a commit) gives, if it does."""
    if document is None:
        return None
    names = parsed(document)["attributes"]["dkdist"].get("arrays")
    return None if names is None else _checked_names(names, label)


def _checked_names(names: Any, label: str) -> list[str]:
    """Refuse names that would lead out of the store, or to what is no array of it."""
    with decoding(f"the names of the arrays of {label}"):
        if len(names) > MAX_ARRAYS:
            raise ValueError(f"there are {len(names)}, expected at most {MAX_ARRAYS}")
        if len(set(names)) < len(names):
            raise ValueError(f"a name occurs twice in {names}")
        for name in names:
            if name not in OWN_ARRAYS:
                kind, _, rest = name.partition("/")
                check_name(rest if kind == "targets" else None)
    return list(names)


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
