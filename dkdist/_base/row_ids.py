"""Which sets rows belong to, so that targets with an index are joined to them by id and never by chance.

Rows are plain arrays; whose they are is remembered beside them while they live. Where the targets of a fit come in
another order than the sets, the rows go on as `UnalignedRows`: our own steps put the targets in order, and all others
are refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._set_output import _get_output_config

from dkdist._numba.arrays import Array
from dkdist._runtime.blocks import is_lazy, require_known_chunks
from dkdist.io import SetStore
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.indexing import align_to_ids, has_default_index, has_index, is_in_id_order, load_collection

UNKNOWN = object()  # the owner of rows that none of our steps has made
_OWNERS: dict[int, Any] = {}
"""By the identity of rows: the ids of their sets, or the view that knows them; None for sets without ids."""
_EMBEDDED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Collections with ids that were embedded and are still alive."""


class UnalignedRows:
    """Rows of sets beside targets in another order: whoever does not put these in order cannot use them."""

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
        raise _another_order()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Rows of the same sets may stand side by side, as in a FeatureUnion."""
        beside = function is np.hstack or (function is np.concatenate and kwargs.get("axis") == 1)
        parts = list(args[0]) if beside and len(args) == 1 else []
        if not parts or not all(isinstance(part, UnalignedRows) for part in parts):
            raise _another_order()
        return UnalignedRows(np.hstack([part.rows for part in parts]), self.owner)


def _another_order() -> SampleSetError:
    return SampleSetError(
        "the targets are in another order than the sets, and this step does not look at their index: give "
        "y.loc[sets.ids], or an array in the order of the sets"
    )


def attach_index(rows: Any, sets: Any) -> Any:
    """The rows, of which it is known from now on that they belong to these sets, or to those that own other rows."""
    owner = _owner_of(sets)
    if owner is UNKNOWN:
        return rows
    _OWNERS[id(rows)] = owner
    weakref.finalize(rows, _OWNERS.pop, id(rows), None).atexit = False
    if isinstance(sets, (SampleSets, SetStore)) and owner is not None:
        _EMBEDDED.add(sets)
    return rows


def ids_of(rows: Any) -> Array | None:
    """The ids of sets, or of the sets that rows belong to; None where none are known."""
    owner = _owner_of(rows)
    ids: Array | None = owner.ids if isinstance(owner, SetStore) else owner
    return None if owner is UNKNOWN else ids


def own_rows(rows: Any) -> Any:
    """Rows for steps that put targets in order, or need none."""
    return rows.rows if isinstance(rows, UnalignedRows) else rows


def check_index_alignment(rows: Any, sets: Any, y: Any) -> Any:
    """Rows of sets (or made of rows) as ``fit_transform`` hands them on: as they are, if targets are in their order."""
    owner, y = _owner_of(sets), load_collection(y)
    if owner is None or not has_index(y):
        return rows
    ids = ids_of(sets)
    if ids is None or is_in_id_order(y, ids):
        return rows
    align_to_ids(y, ids)  # what cannot be put in order is refused here, by name
    if has_index(rows):
        raise _another_order()
    return UnalignedRows(rows, owner)


def with_index(estimator: Any, rows: Any) -> Any:
    """Rows as ``set_output`` asks for them: a pandas frame has the ids of the sets for an index."""
    wanted = _get_output_config("transform", estimator)["dense"]
    if wanted != "default" and is_lazy(rows):
        raise ValueError(
            f"set_output(transform={wanted!r}) makes frames in memory, and the rows of a store are lazy: give "
            "sets.load(), or leave set_output out"
        )
    if wanted != "pandas" or (ids := ids_of(rows)) is None:
        return rows
    import pandas as pd

    return attach_index(pd.DataFrame(rows, index=ids), rows)


def align_to_index(X: Any, **beside: Any) -> tuple[Any, ...]:
    """X without its guard, and what has one entry a set, in memory: Series and frames in the order of X, by index."""
    require_known_chunks(X)
    for name, values in beside.items():
        _require_no_dict(values, name)
    beside = {name: load_collection(values) for name, values in beside.items()}
    owner = _owner_of(X)
    indexed = [] if owner is None else [name for name, values in beside.items() if has_index(values)]
    if not indexed:  # or nothing to join it to: sets without ids
        return own_rows(X), *beside.values()
    ids = ids_of(X)
    if owner is UNKNOWN:
        for name in indexed:
            _require_no_other_order(beside[name], name)
    return own_rows(X), *(align_to_ids(values, ids, name) for name, values in beside.items())


def _owner_of(X: Any) -> Any:
    if isinstance(X, SampleSets):
        return X.ids
    if isinstance(X, SetStore):
        return X if X.has_ids else None
    return X.owner if isinstance(X, UnalignedRows) else _OWNERS.get(id(X), UNKNOWN)


def _require_no_dict(values: Any, name: str) -> None:
    """Refuse all targets of sets, which are arrays by name, where one array is wanted."""
    if isinstance(values, Mapping):
        found = f"{type(values).__name__} of {', '.join(map(repr, values)) or 'nothing'}"
        raise ValueError(
            f"{name} must be an array with one entry for every set, found a {found}: give one of its values, such as "
            "sets.targets['name']"
        )


def _require_no_other_order(values: Any, name: str) -> None:
    """Refuse targets of rows that another step has made, if their index is that of sets in another order."""
    if has_default_index(values):
        return
    given, alike = set(values.index), [sets.ids for sets in list(_EMBEDDED) if len(sets) == len(values)]
    known = [ids for ids in alike if ids is not None and set(ids.tolist()) == given]
    if known and not any(is_in_id_order(values, ids) for ids in known):
        raise SampleSetError(
            f"{name} has the ids of sets that were embedded, in another order, and nothing is known of the order of "
            f"these rows, which another step has made: give {name}.loc[sets.ids], or {name}.to_numpy() if it is in the "
            "order of the rows"
        )
