"""Errors of stores, and limits on everything that a store declares before it is read.

Names, sizes, data types and codecs come from the writer of a store and are checked before reading or allocating.
Only codecs that decode to numbers and strings are accepted, so nothing is unpickled. Headers of blosc, zstd and string
chunks declare the decoded size; a chunk that declares more than its array allows is rejected. Objects longer than
their array allows are not read.
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

RESTORE_HINT = "The data is damaged. Restore the store from a copy or write it again."


class StoreFormatError(ValueError):
    """Error for a store of another format or a newer version, or a damaged store.

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
    """Error for an object that exceeds its size limit; reading is not retried."""


class WrongChunkError(Exception):
    """Error for an object that differs from the one committed under its key."""


@contextmanager
def as_format_error(what: str, remedy: str = RESTORE_HINT) -> Iterator[None]:
    """Convert errors of codecs and parsers to `StoreFormatError`; system errors pass."""
    try:
        yield
    except (OSError, MemoryError, StoreFormatError, WrongChunkError):
        raise
    except Exception as error:
        raise StoreFormatError(
            f"{what} cannot be read ({type(error).__name__}: {str(error).removesuffix('.')}). {remedy}"
        ) from error


ITEM_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "string"), 8),
}
CODECS = {"bytes", "blosc", "zstd", "crc32c", "vlen-utf8", "sharding_indexed"}
# Limits on declared sizes, far above those of stores that dkdist writes: a smaller limit rejects forged metadata with
# less memory. tests/places/test_hostile.py and tests/places/test_hostile_chunks.py exercise them with forged stores.
MAX_ROWS = 2**53  # integers that JSON readers represent exactly (RFC 8259, Section 6)
MAX_CHUNK_BYTES = 2**31  # BLOSC_MAX_BUFFERSIZE (https://github.com/Blosc/c-blosc/blob/main/blosc/blosc.h)
MAX_CHUNK_STRINGS = 2**24  # 400 MB of empty strings; chunks of dkdist have 2^14 (io/_zarr/new_arrays.py)
MAX_SHARD_CHUNKS = 2**20  # a shard index of 16 MiB (tests/places/test_hostile.py)
MAX_SHARD_BYTES = 2**36  # 64 GiB (tests/places/test_hostile.py)
MAX_BYTES = 2**60  # products of sizes stay exact in int64 (tests/places/test_hostile.py)
MAX_TABLE_BYTES = 2**26  # checksums of 16 million chunks (tests/places/test_hostile.py)
MAX_BLOCKS = 2**20  # blocks of a feature store (tests/files/test_feature_store.py)
MAX_ARRAYS = 4096  # arrays per store (tests/places/test_foreign_files.py)
# Nested JSON takes up to 25 times its text in memory (tests/places/test_foreign_files.py)
MAX_DOCUMENT_BYTES = 2**21
DOCUMENT = "zarr.json"


def parse_json(document: bytes) -> Any:
    """Parse the JSON of a document within the size limit."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"document must have at most {MAX_DOCUMENT_BYTES} bytes; got {len(document)}")
    return json.loads(document)


def max_object_bytes(metadata: dict[str, Any]) -> int | None:
    """Return the maximum encoded size of an object of an array; None for strings."""
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
    """Raise ValueError, naming the array, for metadata outside the format or its limits."""
    if (metadata["zarr_format"], metadata["node_type"]) != (3, "array"):
        raise ValueError(f"array '{name}' is not a Zarr version 3 array")
    shape, chunk = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
    _check_sizes(name, "shape", shape, 0)
    _check_sizes(name, "chunks", chunk, 1)
    if len(chunk) != len(shape) or metadata["chunk_grid"]["name"] != "regular":
        raise ValueError(
            f"array '{name}' must have a regular chunk grid; got shape {shape} in chunks {chunk}"
        )
    dtype = metadata["data_type"]
    item = ITEM_BYTES.get(dtype) if isinstance(dtype, str) else None
    if item is None:
        raise ValueError(f"array '{name}' must contain numbers, booleans or strings; got data type {dtype}")
    if metadata.get("storage_transformers"):
        raise ValueError(f"array '{name}' has unsupported storage transformers")
    _check_bytes(name, "array", item * math.prod(shape), MAX_BYTES)
    inner = _check_codecs(name, metadata["codecs"], chunk)
    _check_bytes(name, "chunks", item * math.prod(inner), MAX_CHUNK_BYTES)
    if dtype == "string" and math.prod(inner) > MAX_CHUNK_STRINGS:
        raise ValueError(
            f"chunks of array '{name}' must have at most {MAX_CHUNK_STRINGS} strings; got {math.prod(inner)}"
        )
    if inner != chunk:
        _check_bytes(name, "shards", item * math.prod(chunk), MAX_SHARD_BYTES)


def _check_sizes(name: str, what: str, sizes: Any, minimum: int) -> None:
    is_valid = isinstance(sizes, list) and 1 <= len(sizes) <= 2
    if not is_valid or any(type(n) is not int or not minimum <= n < MAX_ROWS for n in sizes):
        raise ValueError(
            f"{what} of array '{name}' must be one or two integers from {minimum} to 2**53 - 1; got {sizes}"
        )


def _check_bytes(name: str, part: str, size: int, maximum: int) -> None:
    if size > maximum:
        what = f"array '{name}'" if part == "array" else f"{part} of array '{name}'"
        raise ValueError(f"{what} must have at most {maximum} bytes; got {size}")


def _check_codecs(name: str, codecs: Any, chunk: Sequence[int]) -> Sequence[int]:
    """Check codecs and return the shape of a decoded chunk (inside a shard, if there are shards)."""
    for codec in codecs:
        kind = codec if isinstance(codec, str) else codec["name"]
        if kind not in CODECS:
            raise ValueError(f"codecs of array '{name}' must be among {sorted(CODECS)}; got {kind!r}")
        if kind == "sharding_indexed":
            return _check_shards(name, codec["configuration"], chunk)
    return chunk


def _check_shards(name: str, shards: dict[str, Any], shard: Sequence[int]) -> Sequence[int]:
    inner: list[int] = shards["chunk_shape"]
    _check_sizes(name, "chunks in shards", inner, 1)
    if len(inner) != len(shard) or any(a % b for a, b in zip(shard, inner, strict=True)):
        raise ValueError(f"shards of array '{name}' must be a multiple of its chunks {inner}; got {shard}")
    n_chunks = math.prod(a // b for a, b in zip(shard, inner, strict=True))
    if n_chunks > MAX_SHARD_CHUNKS:
        raise ValueError(
            f"shards of array '{name}' must have at most {MAX_SHARD_CHUNKS} chunks; got {n_chunks}"
        )
    if _check_codecs(name, shards["codecs"], inner) != inner:
        raise ValueError(f"array '{name}' has nested shards, which are not supported")
    _check_codecs(name, shards.get("index_codecs", []), inner)
    return inner


BLOSC_HEADER_BYTES = 16  # https://github.com/Blosc/c-blosc/blob/main/README_HEADER.rst
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878, Section 3.1.1


def with_size_checks(codecs: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """Return the codecs with decoders that check the declared size of a chunk."""
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
    """Blosc codec that checks the decoded size in bytes 4 to 7 of the header."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        header = chunk_bytes.as_numpy_array()[:BLOSC_HEADER_BYTES].tobytes()
        if len(header) < BLOSC_HEADER_BYTES:
            raise ValueError(f"blosc chunk must have at least {BLOSC_HEADER_BYTES} bytes; got {len(header)}")
        _require_decodable(int.from_bytes(header[4:8], "little"), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class BoundedZstd(ZstdCodec):
    """Zstandard codec that checks the content size of the frame header (RFC 8878, 3.1.1.1)."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _require_decodable(_zstd_size(chunk_bytes.as_numpy_array()[:18].tobytes()), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class VLenUTF8Codec(plain.VLenUTF8Codec):
    """String codec that checks the count in the first four bytes; Zarr looks it up by class name."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        n_strings = int.from_bytes(chunk_bytes.as_numpy_array()[:4].tobytes(), "little")
        if n_strings != math.prod(chunk_spec.shape):
            raise ValueError(f"chunk must have {math.prod(chunk_spec.shape)} strings; got {n_strings}")
        text_bytes = len(chunk_bytes) - 4 * (n_strings + 1)
        require_memory(string_bytes(n_strings, text_bytes), f"a chunk of {n_strings} strings needs")
        return super()._decode_sync(chunk_bytes, chunk_spec)


def string_bytes(n_strings: int, text_bytes: int) -> int:
    """Return the memory of decoding strings: Python objects and NumPy StringDType."""
    return 24 * n_strings + 56 * min(n_strings, text_bytes) + 3 * text_bytes


def _require_decodable(size: int, chunk_spec: Any) -> None:
    strings = chunk_spec.dtype.to_native_dtype().kind == "T"
    max_bytes = MAX_CHUNK_BYTES if strings else math.prod(chunk_spec.shape) * chunk_spec.dtype.item_size
    if size > max_bytes:
        raise ValueError(f"decoded chunk must have at most {max_bytes} bytes; got {size}")
    require_memory(size, "a decoded chunk needs")


def _zstd_size(header: bytes) -> int:
    """Return the content size that a zstd frame declares."""
    if len(header) < 6 or header[:4] != ZSTD_MAGIC:
        raise ValueError("chunk is not a zstd frame")
    descriptor = header[4]
    single_segment, flag = descriptor >> 5 & 1, descriptor >> 6
    n_bytes = (1 if single_segment else 0, 2, 4, 8)[flag]
    if n_bytes == 0:
        raise ValueError("zstd frame does not declare its content size")
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(header[start : start + n_bytes], "little")
    return size + 256 if n_bytes == 2 else size


class ObjectBounds:
    """Maximum sizes of the objects of a store by key; those of chunks follow from array metadata."""

    def __init__(self) -> None:
        self._max_bytes: dict[str, float] = {}

    def set_chunk_bound(self, name: str, max_bytes: int | None) -> None:
        """Set the maximum size of the chunks (or shards) of an array; None for no limit."""
        self._max_bytes[name] = inf if max_bytes is None else max_bytes

    def of_array(self, name: str) -> float:
        """Return the maximum size of a chunk (or shard) of an array; infinity if unknown."""
        return self._max_bytes.get(name, inf)

    def of_key(self, key: str) -> float:
        """Return the maximum size of an object; infinity if unknown."""
        parts = key.split("/")
        if parts[-1] == DOCUMENT:
            return MAX_DOCUMENT_BYTES
        if parts[0] == "receipts":  # of feature blocks
            return MAX_DOCUMENT_BYTES
        is_of_commit = parts[0] == "commits"
        if (is_of_commit and parts[-1] == "0") or parts[-1].startswith("table."):
            return MAX_TABLE_BYTES
        if is_of_commit or parts[-1].startswith("tail."):  # tail of any array
            return max(self._max_bytes.values(), default=inf)
        return self.of_array("/".join(parts[: 2 if parts[0] == "targets" else 1]))
