"""Format "dkdist.sets", version 1: the commit record and the metadata of its arrays.

    /        attrs.dkdist = {format, version, n_sets, n_points, n_dims, generation, sealed, alphabet, origin, names,
                             checksum, table, arrays}
    points   (T, d)     offsets  (N + 1,)     weights  (T,) or (T, k)     ids  (N,)
    targets/NAME  (N,) or (N, k)
    commits/GENERATION-TOKEN  (bytes,)

The root document is the commit; arrays may be longer than it states (an unfinished append). `arrays` names the arrays,
so opening needs no listing. `checksum` is the crc32c of the commit and of the metadata of all arrays except their
lengths. `table` = {key, length, crc32c} names the table of chunk checksums (`checksums.py`); tails are last chunks that
an append extended (`packed.py`). All three are optional. `alphabet` exists for strings, `origin` (subtracted from the
points) unless it is 0, `names` if the dimensions are named. Array names cannot lead out of the store.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import zarr
from crc32c import crc32c
from zarr.abc.store import Store
from zarr.storage import StorePath, WrapperStore

from dkdist.io._zarr._zarr_private import ArrayV3Metadata
from dkdist.io._zarr.checksums import TableRecord, make_record, parse_record
from dkdist.io._zarr.location.address import get_bytes, list_names, missing_keys, put_bytes
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io._zarr.location.remote import RemoteStore
from dkdist.io.errors import (
    DOCUMENT,
    MAX_ARRAYS,
    RESTORE_HINT,
    StoreFormatError,
    as_format_error,
    check_array,
    max_object_bytes,
    parse_json,
    with_size_checks,
)
from dkdist.sets.labels import Names, as_names, check_name
from dkdist.sets.strings import as_alphabet

FORMAT = "dkdist.sets"
VERSION = 1  # version of the format; docs/storage.md
MAX_CONSOLIDATED_BYTES = (
    2**18
)  # of a root document, which remote readers fetch; tests/store/test_convention.py
CONVENTIONS = "CF-1.11"  # https://cfconventions.org; docs/format.md says what applies
ROW_ARRAYS = ("points", "weights")
OWN_ARRAYS = ("points", "offsets", "weights", "ids")
POINT_DTYPES = ("float32", "uint8", "uint16")
COUNT_FIELDS = ("n_sets", "n_points", "n_dims", "generation")
Metadata = dict[str, Any]


@dataclass(frozen=True)
class Commit:
    """Committed content of a store: sizes, labels of dimensions, and the generation that identifies it.

    `created` is the generation of the first commit, stored with the points; it distinguishes appends from
    replacements. An append may extend `alphabet` at its end. `origin` is None for 0. `table` locates the checksums.
    """

    n_sets: int
    n_points: int
    n_dims: int
    generation: int
    sealed: bool = False
    created: int | None = None
    alphabet: str | None = None
    origin: tuple[float, ...] | None = None
    names: Names | None = None
    table: TableRecord | None = field(default=None, compare=False)

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the commit, without checksum and table."""
        fields = {
            name: getattr(self, name) for name in (*COUNT_FIELDS, "sealed", "alphabet", "origin", "names")
        }
        present_fields = {name: value for name, value in fields.items() if value is not None}
        return {"format": FORMAT, "version": VERSION, **present_fields}

    def grew_into(self, later: Commit) -> bool:
        """Whether `later` is this commit or extends it by appends."""
        if later.generation == self.generation:
            return later == self
        return (
            later.generation > self.generation
            and later.created == self.created
            and later.n_dims == self.n_dims
            and later.origin == self.origin
            and later.names == self.names
            and later.n_sets >= self.n_sets
            and later.n_points >= self.n_points
            and (later.alphabet or "").startswith(self.alphabet or "")
        )


def parse_commit(document: bytes | None, label: str) -> tuple[Commit, int | None]:
    """Return the commit in a root document and its checksum; raises if there is none."""
    if document is None:
        raise StoreFormatError(
            f"there is no {DOCUMENT} in {label}: nothing was committed, the folder or bucket does not exist, or it is "
            "not a Zarr version 3 store. Check the path, or write the store with write_sets."
        )
    with as_format_error(f"{DOCUMENT} of {label}"):
        root = parse_json(document)
        kind = (root.get("zarr_format"), root.get("node_type"))
        attrs = root.get("attributes", {}).get("dkdist")
    if kind != (3, "group"):
        raise StoreFormatError(
            f"{label} must be a Zarr version 3 group; got a Zarr {kind[1]} of version {kind[0]}. Read other arrays "
            "with dk.as_sets."
        )
    if not isinstance(attrs, dict):
        raise StoreFormatError(
            f"{label} has no 'dkdist' attributes: it was never committed, or is another kind of Zarr group. Read other "
            "groups with dk.as_sets; if a writer was interrupted, write the store again."
        )
    return _checked_commit(attrs, label), attrs.get("checksum")


def _checked_commit(attrs: dict[str, Any], label: str) -> Commit:
    if attrs.get("format") != FORMAT:
        raise StoreFormatError(f"format of {label} must be {FORMAT!r}; got {attrs.get('format')!r}.")
    version = attrs.get("version")
    if type(version) is int and version > VERSION:
        raise StoreFormatError(
            f"version of {label} must be at most {VERSION}; got {version}. Upgrade dkdist."
        )
    numbers: dict[str, Any] = {name: attrs.get(name) for name in COUNT_FIELDS}
    if version != VERSION or any(type(v) is not int or not 0 < v < 2**53 for v in numbers.values()):
        raise StoreFormatError(f"the 'dkdist' attributes of {label} are invalid: {attrs}. {RESTORE_HINT}")
    if type(attrs.get("sealed", False)) is not bool:
        raise StoreFormatError(
            f"'sealed' of {label} must be true or false; got {attrs['sealed']!r}. {RESTORE_HINT}"
        )
    alphabet = attrs.get("alphabet")
    if alphabet is not None:
        with as_format_error(f"the alphabet of {label}"):
            as_alphabet(alphabet)
    origin = _origin(attrs.get("origin"), numbers["n_dims"], label)
    table = parse_record(attrs.get("table"), label)
    sealed, names = attrs.get("sealed", False), _names(attrs.get("names"), numbers["n_dims"], label)
    return Commit(**numbers, sealed=sealed, alphabet=alphabet, origin=origin, names=names, table=table)


def _names(value: Any, d: int, label: str) -> Names | None:
    with as_format_error(f"the names of the dimensions of {label}"):
        if value is not None and not isinstance(value, list):
            raise ValueError(f"names must be a list of {d} str; got {value!r:.200}")
        return as_names(value, d)


def _origin(value: Any, d: int, label: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    is_valid = isinstance(value, list) and len(value) == d and all(type(v) in (int, float) for v in value)
    if not is_valid or not all(abs(v) < math.inf for v in value):
        raise StoreFormatError(
            f"'origin' of {label} must be {d} finite numbers, one per column; got {value!r:.200}. {RESTORE_HINT}"
        )
    return tuple(map(float, value))


def checksum(commit: Commit, arrays: dict[str, Metadata]) -> int:
    """Return the crc32c of the canonical JSON of the commit and of array metadata without lengths."""
    fixed = {name: {**m, "shape": m["shape"][1:]} for name, m in arrays.items()}
    text = json.dumps({"dkdist": commit.attrs(), "arrays": fixed}, sort_keys=True, separators=(",", ":"))
    return crc32c(text.encode())


def read_layout(store: Store, label: str) -> tuple[Commit, dict[str, Metadata]]:
    """Read a consistent snapshot of the commit and the metadata of every array."""
    (before,) = get_bytes(store, [DOCUMENT])
    while True:
        commit, expected = parse_commit(before, label)
        named = named_arrays(before, label)
        names = list_arrays(store, label) if named is None else named
        *documents, after = get_bytes(store, [*(f"{name}/{DOCUMENT}" for name in names), DOCUMENT])
        if before == after:
            break
        before = after
    arrays = {n: parse_array(n, d, label) for n, d in zip(names, documents, strict=True) if d is not None}
    for name in ("points", "offsets", *(named or ())):
        if name not in arrays:
            raise StoreFormatError(
                f"array '{name}' of {label} has no metadata ({name}/{DOCUMENT}). {RESTORE_HINT}"
            )
    if expected is not None and expected != checksum(commit, arrays):
        raise StoreFormatError(
            f"the metadata of {label} do not match their checksum: a {DOCUMENT} was changed, lost or damaged. "
            f"{RESTORE_HINT}"
        )
    return replace(commit, created=_created(arrays["points"])), arrays


def list_arrays(store: Store, label: str) -> list[str]:
    """List the possible array names of a store."""
    names = [f"targets/{name}" for name in list_names(store, "targets") if name != DOCUMENT]
    return [*OWN_ARRAYS, *_checked_names(names, label)]


def named_arrays(document: bytes | None, label: str) -> list[str] | None:
    """Return the array names in a root document; None if it does not list them."""
    if document is None:
        return None
    names = parse_json(document)["attributes"]["dkdist"].get("arrays")
    return None if names is None else _checked_names(names, label)


def _checked_names(names: Any, label: str) -> list[str]:
    """Raise for array names that the format does not allow, such as paths that leave the store."""
    with as_format_error(f"the names of the arrays of {label}"):
        if len(names) > MAX_ARRAYS:
            raise ValueError(f"a store must have at most {MAX_ARRAYS} arrays; got {len(names)}")
        if len(set(names)) < len(names):
            raise ValueError(f"array names must be unique; got {names}")
        for name in names:
            if name not in OWN_ARRAYS:
                kind, _, target_name = name.partition("/")
                check_name(target_name if kind == "targets" else None)
    return list(names)


def parse_array(name: str, document: bytes, label: str) -> Metadata:
    """Parse and check the metadata of an array."""
    with as_format_error(f"{name}/{DOCUMENT} of {label}"):
        metadata: Metadata = parse_json(document)
        check_array(name, metadata)
    return metadata


def _created(points: Metadata) -> int | None:
    with as_format_error("the attributes of array 'points'"):
        created = points.get("attributes", {}).get("created")
        return None if created is None else int(created)


def require_fit(arrays: Mapping[str, zarr.Array[Any]], commit: Commit, label: str) -> None:
    """Raise StoreFormatError for an array that is too small for the commit or has a wrong type."""
    for name, array in arrays.items():
        length, trailing, fits = _expected(name, array, commit)
        fits = fits and array.shape[1:] == trailing and array.chunks[1:] == trailing
        if not fits or array.shape[0] < length:
            raise StoreFormatError(
                f"array '{name}' of {label} must have a shape of at least {(length, *trailing)}, in chunks of whole "
                f"rows, for {commit.n_sets} sets with {commit.n_points} points; got dtype {array.dtype}, shape "
                f"{array.shape} and chunks {array.chunks}. {RESTORE_HINT}"
            )


def _expected(name: str, array: zarr.Array[Any], commit: Commit) -> tuple[int, tuple[int, ...], bool]:
    """Return the required rows and trailing shape of an array, and whether its dtype is valid."""
    if name == "points":
        return commit.n_points, (commit.n_dims,), str(array.dtype) in POINT_DTYPES
    if name == "offsets":
        return commit.n_sets + 1, (), array.dtype == np.int64
    if name == "weights":
        return commit.n_points, array.shape[1:], array.dtype == np.float32
    return commit.n_sets, array.shape[1:], array.dtype.kind in "biufT"


def array_of(store: Store, name: str, metadata: Metadata, length: int | None = None) -> zarr.Array[Any]:
    """Create a Zarr array object from metadata, optionally of another length, without I/O."""
    if length is not None:
        metadata = {**metadata, "shape": [length, *metadata["shape"][1:]]}
    described = ArrayV3Metadata.from_dict(metadata)
    checked = replace(described, codecs=with_size_checks(described.codecs))
    inner = store
    while isinstance(inner, WrapperStore) and not isinstance(inner, RemoteStore):
        inner = inner._store
    if isinstance(inner, (DiskStore, RemoteStore)):
        inner.bounds.set_chunk_bound(name, max_object_bytes(metadata))
    return _array(checked, store, name)


def array_through(array: zarr.Array[Any], store: Store) -> zarr.Array[Any]:
    """Return the array on a wrapper of its store."""
    return _array(array.metadata, store, array.path)


def _array(metadata: Any, store: Store, name: str) -> zarr.Array[Any]:
    # write empty chunks, so that a missing chunk is a lost chunk
    return zarr.Array(zarr.AsyncArray(metadata, StorePath(store, name), config={"write_empty_chunks": True}))


def dump_json(document: dict[str, Any]) -> bytes:
    """Serialize a document to JSON."""
    return json.dumps(document, indent=2).encode()


def group_document(attributes: dict[str, Any] | None = None) -> bytes:
    """Serialize the metadata of a Zarr version 3 group."""
    return dump_json({"attributes": attributes or {}, "zarr_format": 3, "node_type": "group"})


def root_document(commit: dict[str, Any], arrays: Mapping[str, Metadata]) -> bytes:
    """Serialize the root group with a commit.

    It contains the metadata of the arrays, with the committed lengths, as Zarr's consolidated metadata: other readers
    see no rows of unfinished appends, and need no listing. dkdist reads the documents of the arrays.
    """
    root = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"Conventions": CONVENTIONS, "dkdist": commit},
    }
    groups = {name.rpartition("/")[0] for name in arrays} - {""}
    nodes = {**{name: json.loads(group_document()) for name in sorted(groups)}, **arrays}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": nodes}
    document = dump_json({**root, "consolidated_metadata": consolidated})
    return document if len(document) <= MAX_CONSOLIDATED_BYTES else dump_json(root)


def bytes_document(shape: tuple[int, ...], chunk: tuple[int, ...], dimension_names: tuple[str, ...]) -> bytes:
    """Serialize the metadata of a Zarr array of bytes, whose chunks are stored without a codec."""
    return dump_json(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes"}],
            "fill_value": 0,
            "dimension_names": dimension_names,
            "attributes": {},
        }
    )


def put_groups(store: Store, names: Iterable[str]) -> None:
    """Create the Zarr groups that do not exist."""
    for key in missing_keys(store, [f"{name}/{DOCUMENT}" for name in names]):
        put_bytes(store, key, group_document())


def put_table(store: Store, key: str, data: bytes) -> TableRecord:
    """Write a serialized table of checksums as the chunk of an array; return its record."""
    folder = key.removesuffix("/c/0")
    name = folder.rpartition("/")[2]
    # a dimension of its own, because xarray requires equal sizes of equal dimensions in a group
    document = bytes_document((len(data),), (len(data),), (f"bytes_{name}",))
    put_bytes(store, f"{folder}/{DOCUMENT}", document)
    put_bytes(store, key, data)
    return make_record(key, data)
