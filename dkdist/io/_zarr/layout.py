"""The format "dkdist.sets", version 1: the commit record, which arrays it names, and whether they fit it.

    /        attrs.dkdist = {format, version, n_sets, n_points, n_dims, generation, sealed, alphabet, origin, names,
                             checksum, table, arrays}
    points   (T, d)     offsets  (N + 1,)     weights  (T,) or (T, k)     ids  (N,)
    targets/NAME  (N,) or (N, k)
    points/table.GENERATION.TOKEN     points/tail.GENERATION.TOKEN.POSITION

The root document is the commit. A store holds what its commit says and nothing else: arrays may be longer (an
append that never finished). `arrays` names the arrays, so that opening needs no listing; `checksum` is the
crc32c of the commit and of every array's metadata but the growing lengths; `table` = {key, length, crc32c} names
the object that holds the checksum of every chunk (see `chunk_sums`), and tails are last chunks that an append made
longer (see `tails`). Stores without these three are read all the same. `alphabet` is there for strings, and `origin`
(a number for each column, which was subtracted from the points) unless it is 0; `names` are those of the columns, if
they have any. No name leads out of the store, whoever
wrote it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import zarr
from crc32c import crc32c
from zarr.abc.store import Store
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import StorePath, WrapperStore

from dkdist.io._zarr.checksums import TableRecord, parse_record
from dkdist.io._zarr.location.address import get_bytes, list_names
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
VERSION = 1
ROW_ARRAYS = ("points", "weights")
OWN_ARRAYS = ("points", "offsets", "weights", "ids")
POINT_DTYPES = ("float32", "uint8", "uint16")
COUNT_FIELDS = ("n_sets", "n_points", "n_dims", "generation")
Metadata = dict[str, Any]


@dataclass(frozen=True)
class Commit:
    """What a store holds: its sizes, and the generation that names this content among all it ever had.

    `created` is the generation of the first commit. It is kept with the points, and tells an append from a
    replacement. `alphabet` says what the codes of strings stand for; an append may add to its end. `origin` is what
    points are counted from; None for 0. `names` are those of the dimensions. `table` is where its checksums are.
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
        """The attributes that are written last and make the commit, without checksum and table."""
        fields = {
            name: getattr(self, name) for name in (*COUNT_FIELDS, "sealed", "alphabet", "origin", "names")
        }
        known = {name: value for name, value in fields.items() if value is not None}
        return {"format": FORMAT, "version": VERSION, **known}

    def grew_into(self, later: Commit) -> bool:
        """Whether `later` is this commit, or this commit and what was appended since."""
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
    """The commit in a root document and its checksum, or the reason why there is none."""
    if document is None:
        raise StoreFormatError(
            f"there is no {DOCUMENT} in {label}: nothing was committed there, its folder or bucket does not "
            "exist, or it is not a Zarr version 3 store. Check the path, or write the store with write_sets"
        )
    with as_format_error(f"{DOCUMENT} of {label}"):
        root = parse_json(document)
        kind = (root.get("zarr_format"), root.get("node_type"))
        attrs = root.get("attributes", {}).get("dkdist")
    if kind != (3, "group"):
        raise StoreFormatError(
            f"{label} holds a Zarr {kind[1]} of version {kind[0]}, not a version 3 group of sets"
        )
    if not isinstance(attrs, dict):
        raise StoreFormatError(
            f"{label} has no 'dkdist' attributes: it was never committed, or is another kind of Zarr "
            "group. If a writer was interrupted, write the store again"
        )
    return _checked_commit(attrs, label), attrs.get("checksum")


def _checked_commit(attrs: dict[str, Any], label: str) -> Commit:
    if attrs.get("format") != FORMAT:
        raise StoreFormatError(
            f"{label} has format {attrs.get('format')!r}, expected {FORMAT!r}: it holds no sets"
        )
    version = attrs.get("version")
    if type(version) is int and version > VERSION:
        raise StoreFormatError(
            f"{label} has version {version} of the format and this library knows version {VERSION}: "
            "upgrade dkdist"
        )
    numbers: dict[str, Any] = {name: attrs.get(name) for name in COUNT_FIELDS}
    if version != VERSION or any(type(v) is not int or not 0 < v < 2**53 for v in numbers.values()):
        raise StoreFormatError(f"the 'dkdist' attributes of {label} make no sense: {attrs}. {RESTORE_HINT}")
    if type(attrs.get("sealed", False)) is not bool:
        raise StoreFormatError(
            f"'sealed' of {label} is {attrs['sealed']!r}, expected true or false. {RESTORE_HINT}"
        )
    alphabet = attrs.get("alphabet")
    if alphabet is not None:
        with as_format_error(f"the alphabet of {label}"):
            as_alphabet(alphabet)
    origin = _origin(attrs.get("origin"), numbers["n_dims"], label)
    table = parse_record(attrs.get("table"), label)
    sealed, names = attrs.get("sealed", False), _names(attrs.get("names"), numbers["n_dims"], label)
    return Commit(**numbers, sealed=sealed, alphabet=alphabet, origin=origin, names=names, table=table)


def _names(given: Any, d: int, label: str) -> Names | None:
    with as_format_error(f"the names of the dimensions of {label}"):
        if given is not None and not isinstance(given, list):
            raise ValueError(f"they are {given!r:.200}, expected a list of {d}")
        return as_names(given, d)


def _origin(given: Any, d: int, label: str) -> tuple[float, ...] | None:
    if given is None:
        return None
    good = isinstance(given, list) and len(given) == d and all(type(v) in (int, float) for v in given)
    if not good or not all(abs(v) < math.inf for v in given):
        raise StoreFormatError(
            f"'origin' of {label} is {given!r:.200}, expected {d} finite numbers, one a column. {RESTORE_HINT}"
        )
    return tuple(map(float, given))


def checksum(commit: Commit, arrays: dict[str, Metadata]) -> int:
    """crc32c over the canonical JSON of the commit and of every array's metadata but its length."""
    fixed = {name: {**m, "shape": m["shape"][1:]} for name, m in arrays.items()}
    text = json.dumps({"dkdist": commit.attrs(), "arrays": fixed}, sort_keys=True, separators=(",", ":"))
    return crc32c(text.encode())


def read_layout(store: Store, label: str) -> tuple[Commit, dict[str, Metadata]]:
    """The commit and the metadata of every array, as of one moment, checked against each other."""
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
            f"the metadata of {label} does not match its checksum: a {DOCUMENT} was changed, lost or "
            f"damaged. {RESTORE_HINT}"
        )
    return replace(commit, created=_created(arrays["points"])), arrays


def list_arrays(store: Store, label: str) -> list[str]:
    """The names of the arrays that a store can have, as a listing shows them."""
    names = [f"targets/{name}" for name in list_names(store, "targets") if name != DOCUMENT]
    return [*OWN_ARRAYS, *_checked_names(names, label)]


def named_arrays(document: bytes | None, label: str) -> list[str] | None:
    """The names of the arrays that a root document (of a commit) gives, if it does."""
    if document is None:
        return None
    names = parse_json(document)["attributes"]["dkdist"].get("arrays")
    return None if names is None else _checked_names(names, label)


def _checked_names(names: Any, label: str) -> list[str]:
    """Refuse names that would lead out of the store, or to what is no array of it."""
    with as_format_error(f"the names of the arrays of {label}"):
        if len(names) > MAX_ARRAYS:
            raise ValueError(f"there are {len(names)}, expected at most {MAX_ARRAYS}")
        if len(set(names)) < len(names):
            raise ValueError(f"a name occurs twice in {names}")
        for name in names:
            if name not in OWN_ARRAYS:
                kind, _, rest = name.partition("/")
                check_name(rest if kind == "targets" else None)
    return list(names)


def parse_array(name: str, document: bytes, label: str) -> Metadata:
    """The metadata of an array, if it claims nothing absurd and only what is known here."""
    with as_format_error(f"{name}/{DOCUMENT} of {label}"):
        metadata: Metadata = parse_json(document)
        check_array(name, metadata)
    return metadata


def _created(points: Metadata) -> int | None:
    with as_format_error("the attributes of array 'points'"):
        created = points.get("attributes", {}).get("created")
        return None if created is None else int(created)


def require_fit(arrays: Mapping[str, zarr.Array[Any]], commit: Commit, label: str) -> None:
    """Raise StoreFormatError, naming the array, for one that cannot hold what the commit says."""
    for name, array in arrays.items():
        length, trailing, fits = _expected(name, array, commit)
        fits = fits and array.shape[1:] == trailing and array.chunks[1:] == trailing
        if not fits or array.shape[0] < length:
            raise StoreFormatError(
                f"array '{name}' of {label} has dtype {array.dtype}, shape {array.shape} and chunks "
                f"{array.chunks}; its {commit.n_sets} sets with {commit.n_points} points need at least "
                f"{(length, *trailing)} in chunks of whole rows. {RESTORE_HINT}"
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


def array_of(store: Store, name: str, metadata: Metadata, length: int | None = None) -> zarr.Array[Any]:
    """The Zarr array of some metadata, optionally of another length; nothing is read or written."""
    if length is not None:
        metadata = {**metadata, "shape": [length, *metadata["shape"][1:]]}
    described = ArrayV3Metadata.from_dict(metadata)
    careful = replace(described, codecs=with_size_checks(described.codecs))
    inner = store
    while isinstance(inner, WrapperStore) and not isinstance(inner, RemoteStore):
        inner = inner._store
    if isinstance(inner, (DiskStore, RemoteStore)):
        inner.bounds.set_chunk_bound(name, max_object_bytes(metadata))
    return _array(careful, store, name)


def array_through(array: zarr.Array[Any], store: Store) -> zarr.Array[Any]:
    """The same array, read and written through another store around its own."""
    return _array(array.metadata, store, array.path)


def _array(metadata: Any, store: Store, name: str) -> zarr.Array[Any]:
    # a chunk that is not there is a lost chunk, so that empty ones are written
    return zarr.Array(zarr.AsyncArray(metadata, StorePath(store, name), config={"write_empty_chunks": True}))


def dump_json(document: dict[str, Any]) -> bytes:
    """A document as it is stored."""
    return json.dumps(document, indent=2).encode()


def group_document(attributes: dict[str, Any] | None = None) -> bytes:
    """The document of a Zarr version 3 group."""
    return dump_json({"attributes": attributes or {}, "zarr_format": 3, "node_type": "group"})
