"""Ids of the sets that rows belong to, so that indexed targets are joined by id.

Rows are plain arrays. Their owner (the ids or view of their sets) is registered as long as they exist. If
targets in ``fit`` are in another order than the sets, the rows are passed on as `UnalignedRows`: estimators of this
package align the targets, all others raise an error.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._set_output import _get_output_config

from dkdist._numba.arrays import Array
from dkdist._runtime.blocks import is_lazy, require_known_chunks
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.indexing import align_to_ids, has_default_index, has_index, is_in_id_order, load_collection

UNKNOWN_OWNER = object()  # owner of rows from other libraries
_OWNERS: dict[int, Any] = {}
"""Owner by ``id(rows)``: the ids of the sets, or a view with ids; None for sets without ids."""
_EMBEDDED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Live collections with ids that have been embedded."""


class UnalignedRows:
    """Rows of sets whose targets are in another order; conversion to an array raises an error."""

    def __init__(self, rows: Any, owner: Any) -> None:
        self.rows = rows
        self.owner = owner
        self.shape = rows.shape
        self.ndim = rows.ndim

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"UnalignedRows(shape={self.shape}): the targets are in another order than the sets"

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise _unaligned_error()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Allow ``hstack`` of rows of the same sets, as in a FeatureUnion."""
        is_hstack = function is np.hstack or (function is np.concatenate and kwargs.get("axis") == 1)
        parts = list(args[0]) if is_hstack and len(args) == 1 else []
        if not parts or not all(isinstance(part, UnalignedRows) for part in parts):
            raise _unaligned_error()
        return UnalignedRows(np.hstack([part.rows for part in parts]), self.owner)


def _unaligned_error() -> SampleSetError:
    return SampleSetError(
        "y must be in the order of the sets, as this step ignores its index; got another order. Pass y.loc[sets.ids] "
        "or an array in the order of the sets."
    )


def attach_index(rows: Any, sets: Any) -> Any:
    """Register the owner of ``sets``, which may be rows, as the owner of ``rows``; return ``rows``."""
    owner = _owner_of(sets)
    if owner is UNKNOWN_OWNER:
        return rows
    _OWNERS[id(rows)] = owner
    weakref.finalize(rows, _OWNERS.pop, id(rows), None).atexit = False
    if isinstance(sets, (SampleSets, LazySets)) and owner is not None:
        _EMBEDDED.add(sets)
    return rows


def find_ids(rows: Any) -> Array | None:
    """Return the ids of sets, or of the sets that rows belong to; None if unknown."""
    owner = _owner_of(rows)
    ids: Array | None = owner.ids if isinstance(owner, LazySets) else owner
    return None if owner is UNKNOWN_OWNER else ids


def unwrap_rows(rows: Any) -> Any:
    """Return plain rows, for steps that align targets themselves or need no targets."""
    return rows.rows if isinstance(rows, UnalignedRows) else rows


def check_index_alignment(rows: Any, sets: Any, y: Any) -> Any:
    """Return the rows, as `UnalignedRows` if the index of ``y`` is in another order than the sets."""
    owner, y = _owner_of(sets), load_collection(y)
    if owner is None or not has_index(y):
        return rows
    ids = find_ids(sets)
    if ids is None or is_in_id_order(y, ids):
        return rows
    align_to_ids(y, ids)  # raises if ids are missing
    if has_index(rows):
        raise _unaligned_error()
    return UnalignedRows(rows, owner)


def apply_set_output(estimator: Any, rows: Any) -> Any:
    """Return rows in the container of ``set_output``; a pandas frame is indexed by the ids of the sets."""
    container = _get_output_config("transform", estimator)["dense"]
    if container != "default" and is_lazy(rows):
        raise ValueError(
            f"set_output(transform={container!r}) requires sets in memory; got a store, whose rows are lazy. Pass "
            "sets.load() or omit set_output."
        )
    if container != "pandas" or (ids := find_ids(rows)) is None:
        return rows
    import pandas as pd

    return attach_index(pd.DataFrame(rows, index=ids), rows)


def align_to_index(X: Any, **targets: Any) -> tuple[Any, ...]:
    """Return plain rows X and ``targets`` in memory; Series and frames are sorted by index in the order of X."""
    require_known_chunks(X)
    for name, values in targets.items():
        _require_single_target(values, name)
    targets = {name: load_collection(values) for name, values in targets.items()}
    owner = _owner_of(X)
    indexed = [] if owner is None else [name for name, values in targets.items() if has_index(values)]
    if not indexed:
        return unwrap_rows(X), *targets.values()
    ids = find_ids(X)
    if owner is UNKNOWN_OWNER:
        for name in indexed:
            _require_same_order(targets[name], name)
    return unwrap_rows(X), *(align_to_ids(values, ids, name) for name, values in targets.items())


def _owner_of(X: Any) -> Any:
    if isinstance(X, SampleSets):
        return X.ids
    if isinstance(X, LazySets):
        return X if X.has_ids else None
    return X.owner if isinstance(X, UnalignedRows) else _OWNERS.get(id(X), UNKNOWN_OWNER)


def _require_single_target(values: Any, name: str) -> None:
    """Raise for a mapping of targets by name."""
    if isinstance(values, Mapping):
        keys = ", ".join(map(repr, values)) or "nothing"
        raise ValueError(
            f"{name} must be an array with one entry per set; got a {type(values).__name__} of {keys}. Pass one of its "
            "values, such as sets.targets['name']."
        )


def _require_same_order(values: Any, name: str) -> None:
    """Raise if targets of rows of unknown owner have the ids of embedded sets, in another order."""
    if has_default_index(values):
        return
    index, candidates = set(values.index), [sets.ids for sets in list(_EMBEDDED) if len(sets) == len(values)]
    matches = [ids for ids in candidates if ids is not None and set(ids.tolist()) == index]
    if matches and not any(is_in_id_order(values, ids) for ids in matches):
        raise SampleSetError(
            f"{name} must be in the order of the rows, whose ids another step has removed; got the ids of embedded "
            f"sets in another order. Pass {name}.loc[sets.ids], or {name}.to_numpy() if it is in the order of the rows."
        )
