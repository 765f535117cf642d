"""What is refused of a store: the one error of damaged or foreign ones, and all that they may claim.

Names, sizes, data types and codecs come from whoever wrote the store, and are checked before anything is read or
allocated. Only codecs that decode to plain numbers and strings are known here, so nothing is ever unpickled. A chunk of
blosc or zstd says in its header how long it will be, one of strings how many they are: one that says more than its
array's chunks hold is damaged or made to fill memory, and its decoder refuses it.

An object that is longer than it can be is damaged, or made to fill memory, and is not read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Any

from zarr import codecs as plain
from zarr.abc.codec import Codec
from zarr.codecs import BloscCodec, ShardingCodec, ZstdCodec

from dkdist._utils.memory_budget import require_memory

RESTORE_HINT = "The data is damaged: restore the store from a copy, or write it again"


class StoreFormatError(ValueError):
    """A store is no dkdist store, is newer than this library, or is damaged; the message says where.

    Examples
    --------
    >>> import dkdist as dk, tempfile
    >>> try:
    ...     dk.open_sets(tempfile.mkdtemp())
    ... except dk.StoreFormatError as error:
    ...     print(str(error)[:21])
    there is no zarr.json
    """


class ObjectTooLargeError(StoreFormatError):
    """An object is longer than it can be: it is not read again."""


class WrongChunkError(Exception):
    """An object that is whole, perhaps, but not the one that was committed at this place."""


@contextmanager
def as_format_error(what: str, remedy: str = RESTORE_HINT) -> Iterator[None]:
    """Turn what a codec or parser raises into `StoreFormatError`; what the system and `WrongChunkError` say passes."""
    try:
        yield
    except (OSError, MemoryError, StoreFormatError, WrongChunkError):
        raise
    except Exception as error:
        raise StoreFormatError(
            f"{what} cannot be read ({type(error).__name__}: {error}). {remedy}"
        ) from error


ITEM_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "string"), 8),
}
CODECS = {"bytes", "blosc", "zstd", "crc32c", "vlen-utf8", "sharding_indexed"}
MAX_ROWS = 2**53
MAX_CHUNK_BYTES = 2**31  # what blosc can hold
MAX_CHUNK_STRINGS = 2**24  # which take 400 MB even if all are empty; ours have 2**13
MAX_SHARD_CHUNKS = 2**20
MAX_SHARD_BYTES = 2**36
MAX_BYTES = 2**60
MAX_TABLE_BYTES = 2**26  # checksums of 16 million chunks
MAX_BLOCKS = 2**20
MAX_ARRAYS = 4096
MAX_DOCUMENT_BYTES = 2**21
DOCUMENT = "zarr.json"


def parse_json(document: bytes) -> Any:
    """The JSON of a document that is no larger than a store's can be: nested lists take 25 times their text."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"a document of {len(document)} bytes, expected at most {MAX_DOCUMENT_BYTES}")
    return json.loads(document)


def max_object_bytes(metadata: dict[str, Any]) -> int | None:
    """The most bytes that one object of an array can have, coded; None for strings, which may have any length."""
    if metadata["data_type"] == "string":
        return None
    plain: int = ITEM_BYTES[metadata["data_type"]] * math.prod(
        metadata["chunk_grid"]["configuration"]["chunk_shape"]
    )
    return 2 * plain + 2**16 + 32 * MAX_SHARD_CHUNKS * _sharded(metadata)


def _sharded(metadata: dict[str, Any]) -> bool:
    kinds = [codec if isinstance(codec, str) else codec["name"] for codec in metadata["codecs"]]
    return "sharding_indexed" in kinds


def check_array(name: str, metadata: dict[str, Any]) -> None:
    """Raise ValueError, naming the array, for metadata that no store of ours can have."""
    if (metadata["zarr_format"], metadata["node_type"]) != (3, "array"):
        raise ValueError(f"array '{name}' is no Zarr version 3 array")
    shape, chunk = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
    _check_sizes(name, "shape", shape, 0)
    _check_sizes(name, "chunks", chunk, 1)
    if len(chunk) != len(shape) or metadata["chunk_grid"]["name"] != "regular":
        raise ValueError(f"array '{name}' has shape {shape} in chunks {chunk}: expected a regular grid")
    dtype = metadata["data_type"]
    item = ITEM_BYTES.get(dtype) if isinstance(dtype, str) else None
    if item is None:
        raise ValueError(f"array '{name}' has data type {dtype}: expected numbers, booleans or strings")
    if metadata.get("storage_transformers"):
        raise ValueError(f"array '{name}' has storage transformers, which are not known here")
    _check_bytes(name, "claims", item * math.prod(shape), MAX_BYTES)
    inner = _check_codecs(name, metadata["codecs"], chunk)
    _check_bytes(name, "has chunks of", item * math.prod(inner), MAX_CHUNK_BYTES)
    if dtype == "string" and math.prod(inner) > MAX_CHUNK_STRINGS:
        raise ValueError(
            f"array '{name}' has chunks of {math.prod(inner)} strings: expected at most {MAX_CHUNK_STRINGS}"
        )
    if inner != chunk:
        _check_bytes(name, "has shards of", item * math.prod(chunk), MAX_SHARD_BYTES)


def _check_sizes(name: str, what: str, sizes: Any, least: int) -> None:
    good = isinstance(sizes, list) and 1 <= len(sizes) <= 2
    if not good or any(type(n) is not int or not least <= n < MAX_ROWS for n in sizes):
        raise ValueError(f"array '{name}' has {what} {sizes}: expected one or two numbers in a sane range")


def _check_bytes(name: str, what: str, size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"array '{name}' {what} {size} bytes: expected at most {most}")


def _check_codecs(name: str, codecs: Any, chunk: Sequence[int]) -> Sequence[int]:
    """The shape of what is decoded at a time: of a chunk inside a shard, if there are shards."""
    for codec in codecs:
        kind = codec if isinstance(codec, str) else codec["name"]
        if kind not in CODECS:
            raise ValueError(
                f"array '{name}' is coded with {kind!r}: known are {sorted(CODECS)}, none of which unpickles"
            )
        if kind == "sharding_indexed":
            return _check_shards(name, codec["configuration"], chunk)
    return chunk


def _check_shards(name: str, shards: dict[str, Any], shard: Sequence[int]) -> Sequence[int]:
    inner: list[int] = shards["chunk_shape"]
    _check_sizes(name, "chunks in shards", inner, 1)
    if len(inner) != len(shard) or any(a % b for a, b in zip(shard, inner, strict=True)):
        raise ValueError(f"array '{name}' has shards {shard} that are no multiple of its chunks {inner}")
    n_chunks = math.prod(a // b for a, b in zip(shard, inner, strict=True))
    if n_chunks > MAX_SHARD_CHUNKS:
        raise ValueError(
            f"array '{name}' has {n_chunks} chunks in a shard: expected at most {MAX_SHARD_CHUNKS}"
        )
    if _check_codecs(name, shards["codecs"], inner) != inner:
        raise ValueError(f"array '{name}' has shards in shards, which are not known here")
    _check_codecs(name, shards.get("index_codecs", []), inner)
    return inner


BLOSC_HEADER_BYTES = 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def with_size_checks(codecs: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """The same codecs, whose compressors refuse chunks that would become larger than they may."""
    return tuple(_with_size_check(codec) for codec in codecs)


def _with_size_check(codec: Codec) -> Codec:
    if isinstance(codec, ShardingCodec):
        return replace(codec, codecs=with_size_checks(codec.codecs))
    kinds: dict[type[Codec], type[Codec]] = {
        BloscCodec: BoundedBlosc,
        ZstdCodec: BoundedZstd,
        plain.VLenUTF8Codec: VLenUTF8Codec,
    }
    kind = kinds.get(type(codec))
    return codec if kind is None else kind.from_dict(codec.to_dict())


class BoundedBlosc(BloscCodec):
    """Blosc, which says in bytes 4 to 7 how long its content is."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        header = chunk_bytes.as_numpy_array()[:BLOSC_HEADER_BYTES].tobytes()
        if len(header) < BLOSC_HEADER_BYTES:
            raise ValueError(f"a chunk of {len(header)} bytes is too short for blosc")
        _require_decodable(int.from_bytes(header[4:8], "little"), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class BoundedZstd(ZstdCodec):
    """Zstandard, whose frame header says how long its content is (RFC 8878, 3.1.1.1)."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _require_decodable(_zstd_size(chunk_bytes.as_numpy_array()[:18].tobytes()), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class VLenUTF8Codec(plain.VLenUTF8Codec):
    """Strings, which say in the first four bytes how many they are; Zarr knows their codec by this name."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        found = int.from_bytes(chunk_bytes.as_numpy_array()[:4].tobytes(), "little")
        if found != math.prod(chunk_spec.shape):
            raise ValueError(f"a chunk holds {found} strings, expected {math.prod(chunk_spec.shape)}")
        require_memory(
            string_bytes(found, len(chunk_bytes) - 4 * (found + 1)), f"a chunk of {found} strings needs"
        )
        return super()._decode_sync(chunk_bytes, chunk_spec)


def string_bytes(n_strings: int, text_bytes: int) -> int:
    """Memory of strings while they are decoded: Python's own, and as NumPy holds them."""
    return 24 * n_strings + 56 * min(n_strings, text_bytes) + 3 * text_bytes


def _require_decodable(size: int, chunk_spec: Any) -> None:
    strings = chunk_spec.dtype.to_native_dtype().kind == "T"
    most = MAX_CHUNK_BYTES if strings else math.prod(chunk_spec.shape) * chunk_spec.dtype.item_size
    if size > most:
        raise ValueError(f"a chunk would be decoded to {size} bytes, expected at most {most}")
    require_memory(size, "a decoded chunk needs")


def _zstd_size(header: bytes) -> int:
    """The content size that a frame declares."""
    if len(header) < 6 or header[:4] != ZSTD_MAGIC:
        raise ValueError("a chunk is no zstd frame")
    descriptor = header[4]
    single_segment, flag = descriptor >> 5 & 1, descriptor >> 6
    n_bytes = (1 if single_segment else 0, 2, 4, 8)[flag]
    if n_bytes == 0:
        raise ValueError("a zstd frame does not say how long its content is")
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(header[start : start + n_bytes], "little")
    return size + 256 if n_bytes == 2 else size


class ObjectBounds:
    """Bounds of a store's objects by their keys; those of chunks follow from the arrays' metadata."""

    def __init__(self) -> None:
        self._max_bytes: dict[str, float] = {}

    def set_chunk_bound(self, name: str, max_bytes: int | None) -> None:
        """Bound the chunks (or shards) of an array; None for chunks of any length."""
        self._max_bytes[name] = inf if max_bytes is None else max_bytes

    def of_array(self, name: str) -> float:
        """The most bytes of a chunk (or shard) of an array; infinity where it is not known."""
        return self._max_bytes.get(name, inf)

    def of_key(self, key: str) -> float:
        """The most bytes of an object; infinity where it is not known."""
        parts = key.split("/")
        if parts[-1] == DOCUMENT:
            return MAX_DOCUMENT_BYTES
        if parts[-1].startswith("table."):
            return MAX_TABLE_BYTES
        if parts[-1].startswith("tail."):  # of any array
            return max(self._max_bytes.values(), default=inf)
        return self.of_array("/".join(parts[: 2 if parts[0] == "targets" else 1]))
