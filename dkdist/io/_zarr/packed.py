"""Tails of appends, and fast compression of chunks.

An append never overwrites committed objects. It writes the extended last chunk (or shard) of an array under a separate
key, the tail, which the table of the commit names. After the commit the tail is merged: it replaces the shorter chunk,
so that any Zarr reader finds the data under the regular key. On a local disk this is a rename; elsewhere it is a copy,
and the tail remains until the next commit, because a copy by an older writer could overwrite it. If a writer is killed
before merging, the next writer merges; readers try the tail when a chunk has the wrong checksum.

`chunk_packer` encodes whole chunks (blosc, crc32c) in the calling thread: Zarr's event loop takes longer than blosc.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np
import zarr
from crc32c import crc32c
from numcodecs import Blosc
from numcodecs.vlen import VLenUTF8
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, VLenUTF8Codec

from dkdist.io._zarr._zarr_private import sync
from dkdist.io._zarr.checksums import (
    COMMITS,
    EARLIER_TABLE_KEY,
    U32,
    ChunkChecksums,
    CodecInfo,
    Table,
    codec_info,
    object_key,
)
from dkdist.io._zarr.location.address import StoreLocation, get_bytes, list_names, put_bytes

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


PackedChunk = tuple[bytes, bytes]
"""Compressed chunk and its crc32c; the stored object is their concatenation."""


def chunk_packer(array: zarr.Array[Any]) -> Callable[[NDArray[Any]], PackedChunk] | None:
    """Return an encoder of whole chunks; None if the codecs of the array are not supported."""
    codecs = array.metadata.codecs  # type: ignore[union-attr]
    kinds: tuple[Any, ...] = (BytesCodec, VLenUTF8Codec), BloscCodec, Crc32cCodec
    if len(codecs) != len(kinds) or not all(map(isinstance, codecs, kinds)):
        return None
    first, blosc_config = (_codec_config(codec) for codec in codecs[:2])
    texts = VLenUTF8() if isinstance(codecs[0], VLenUTF8Codec) else None
    size = 1 if texts else array.dtype.itemsize
    matches_memory = texts or size == 1 or (first.get("endian"), array.dtype.str[0]) == ("little", "<")
    if not matches_memory or blosc_config["typesize"] != size:
        return None
    shuffle = SHUFFLES.index(blosc_config["shuffle"])
    blosc = Blosc(blosc_config["cname"], blosc_config["clevel"], shuffle, blosc_config["blocksize"])

    def pack(chunk: NDArray[Any]) -> PackedChunk:
        data = bytes(blosc.encode(texts.encode(chunk) if texts else chunk))
        return data, crc32c(data).to_bytes(4, "little")

    return pack


def _codec_config(codec: Any) -> dict[str, Any]:
    configuration: dict[str, Any] = codec.to_dict().get("configuration", {})
    return configuration


COMMIT_NAME = re.compile(r"(\d+)-.+")


def merge_tails(
    address: StoreLocation, store: Store, table: Table, arrays: Mapping[str, zarr.Array[Any]]
) -> None:
    """Move the tails of a commit to the keys of their chunks."""
    for name, checksums in table.items():
        coding = codec_info(arrays[name])
        if checksums.tail is None or coding is None:
            continue
        _merge_tail(address, store, checksums, object_key(arrays[name], checksums.tail), coding)


def _merge_tail(
    address: StoreLocation, store: Store, checksums: ChunkChecksums, key: str, coding: CodecInfo
) -> None:
    assert checksums.tail is not None
    expected = checksums.of(checksums.tail)
    chunk, tail = get_bytes(store, [key, checksums.tail_key])
    if _matches_checksums(chunk, expected, coding) or not _matches_checksums(tail, expected, coding):
        return  # already merged, or damaged (readers report this)
    assert tail is not None
    if address.path is None:
        put_bytes(store, key, tail)
        return
    with contextlib.suppress(FileNotFoundError):  # merged by a concurrent process
        os.replace(os.path.join(address.path, checksums.tail_key), os.path.join(address.path, key))


def remove_obsolete(store: Store, generation: float = inf, table_key: str = "") -> None:
    """Remove tables and tails of commits before a generation, and of unfinished writers.

    ``table_key`` is the key of the previous table.
    """
    # best effort: credentials may allow writing but not listing or deleting
    with contextlib.suppress(OSError):
        for name in list_names(store, COMMITS):
            match = COMMIT_NAME.fullmatch(name)
            if match is not None and int(match[1]) < generation:
                sync(store.delete_dir(f"{COMMITS}/{name}"))
        if EARLIER_TABLE_KEY.fullmatch(table_key):
            sync(store.delete(table_key))


def _matches_checksums(data: bytes | None, expected: U32 | None, coding: CodecInfo) -> bool:
    if data is None or expected is None or len(data) < coding.index_bytes:
        return False
    try:
        return np.array_equal(coding.sums(np.frombuffer(data, np.uint8)), expected)
    except ValueError:  # truncated index of a shard
        return False
