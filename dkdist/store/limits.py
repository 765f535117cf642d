"""What the metadata of an array may claim, checked before anything is read or allocated.

Names, sizes, data types and codecs come from whoever wrote the store. Only codecs that decode to plain numbers
and strings are known here, so nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

ITEM_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "string"), 8),
}
CODECS = {"bytes", "blosc", "zstd", "crc32c", "vlen-utf8", "sharding_indexed"}
MAX_ROWS = 2**53
MAX_CHUNK_BYTES = 2**31  # what blosc can hold
MAX_SHARD_CHUNKS = 2**20
MAX_SHARD_BYTES = 2**36
MAX_BYTES = 2**60
MAX_TABLE_BYTES = 2**26  # checksums of 16 million chunks
MAX_BLOCKS = 2**20
MAX_ARRAYS = 4096
MAX_DOCUMENT_BYTES = 2**21
DOCUMENT = "zarr.json"


def parsed(document: bytes) -> Any:
    """The JSON of a document that is no larger than a store's can be: nested lists take 25 times their text."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"a document of {len(document)} bytes, expected at most {MAX_DOCUMENT_BYTES}")
    return json.loads(document)


def most_chunk_bytes(metadata: dict[str, Any]) -> int | None:
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
