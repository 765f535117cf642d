"""The names of the arrays of a store: given by its commit, so that opening it needs no listing.

A store whose commit gives no names (it was written by others, or by an early version) is listed. No name leads
out of the store, whoever wrote it.
"""

from __future__ import annotations

import json
from typing import Any

from zarr.abc.store import Store

from dkdist.store.address import get_bytes, list_names
from dkdist.store.columns import check_name
from dkdist.store.errors import decoding
from dkdist.store.limits import DOCUMENT as DOCUMENT
from dkdist.store.limits import MAX_ARRAYS, parsed

OWN_ARRAYS = ("points", "offsets", "weights", "ids")


def with_names(document: bytes, store: Store, label: str) -> bytes:
    """A root document that also names the arrays that are in the store."""
    root = json.loads(document)
    names = arrays_there(store, label)
    there = get_bytes(store, [f"{name}/{DOCUMENT}" for name in names])
    root["attributes"]["dkdist"]["arrays"] = sorted(
        n for n, d in zip(names, there, strict=True) if d is not None
    )
    return json.dumps(root, indent=2).encode()


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
