"""The tails of appends: an append never writes over what is committed, not even over a last chunk that is half full.

The longer last chunk of each array (or shard) is written under a name of its own, and the commit's table says so. Once
the commit is made, the tail is *settled*: it takes the place of the shorter chunk, so that a plain reader of Zarr finds
everything where Zarr has it. On a local disk that is a rename. Elsewhere it is a copy, and the tail stays until the
next commit: were the copy overtaken by one of an older writer, readers would still find the right chunk. A writer that
is killed before it has settled leaves that to the next one; readers look for the tail where the chunk is not the right
one.

Chunks as Zarr stores them - blosc, and its crc32c behind it - made at once in the thread that asks for them.

Zarr hands every chunk to an event loop and to other threads several times, which takes longer than to compress it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import zarr
from crc32c import crc32c
from numcodecs import Blosc
from numcodecs.vlen import VLenUTF8
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, VLenUTF8Codec
from zarr.core.sync import sync

from dkdist.io._zarr.checksums import U32, ChunkChecksums, CodecInfo, Table, codec_info, object_key
from dkdist.io._zarr.location.address import StoreLocation, get_bytes, list_names, put_bytes

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


PackedChunk = tuple[bytes, bytes]
"""What blosc makes of a chunk, and its checksum: as the chunk is stored, one stands behind the other."""


def chunk_packer(array: zarr.Array[Any]) -> Callable[[NDArray[Any]], PackedChunk] | None:
    """What makes the bytes of a whole chunk of an array; None where its chunks are coded in another way."""
    codecs = array.metadata.codecs  # type: ignore[union-attr]
    kinds: tuple[Any, ...] = (BytesCodec, VLenUTF8Codec), BloscCodec, Crc32cCodec
    if len(codecs) != len(kinds) or not all(map(isinstance, codecs, kinds)):
        return None
    first, said = (_codec_config(codec) for codec in codecs[:2])
    texts = VLenUTF8() if isinstance(codecs[0], VLenUTF8Codec) else None
    size = 1 if texts else array.dtype.itemsize
    as_in_memory = texts or size == 1 or (first.get("endian"), array.dtype.str[0]) == ("little", "<")
    if not as_in_memory or said["typesize"] != size:
        return None
    blosc = Blosc(said["cname"], said["clevel"], SHUFFLES.index(said["shuffle"]), said["blocksize"])

    def packed(chunk: NDArray[Any]) -> PackedChunk:
        data = bytes(blosc.encode(texts.encode(chunk) if texts else chunk))
        return data, crc32c(data).to_bytes(4, "little")

    return packed


def _codec_config(codec: Any) -> dict[str, Any]:
    """The configuration of a codec, in the words of the store's metadata."""
    said: dict[str, Any] = codec.to_dict().get("configuration", {})
    return said


OBSOLETE_NAME = re.compile(r"(?:table|tail)\.(\d+)\..+")


def merge_tails(
    address: StoreLocation, store: Store, table: Table, arrays: Mapping[str, zarr.Array[Any]]
) -> None:
    """Put the tails of a commit where their chunks belong, those that are not there yet."""
    for name, bound in table.items():
        coding = codec_info(arrays[name])
        if bound.tail is None or coding is None:
            continue
        _merge_tail(address, store, bound, object_key(arrays[name], bound.tail), coding)


def _merge_tail(
    address: StoreLocation, store: Store, bound: ChunkChecksums, place: str, coding: CodecInfo
) -> None:
    assert bound.tail is not None
    expected = bound.of(bound.tail)
    there, tail = get_bytes(store, [place, bound.tail_key])
    if _matches_checksums(there, expected, coding) or not _matches_checksums(tail, expected, coding):
        return  # settled before, or damaged: readers will say so
    assert tail is not None
    if address.path is None:
        put_bytes(store, place, tail)
        return
    with contextlib.suppress(FileNotFoundError):  # another has settled it in this moment
        os.replace(os.path.join(address.path, bound.tail_key), os.path.join(address.path, place))


def remove_obsolete(store: Store, generation: int) -> None:
    """Remove the tables and tails of commits before a generation, and of writers that never came to commit there."""
    # nobody reads them: who may write may not be allowed to list or delete
    with contextlib.suppress(OSError):
        for name in list_names(store, "points"):
            left = OBSOLETE_NAME.fullmatch(name)
            if left is not None and int(left[1]) < generation:
                sync(store.delete(f"points/{name}"))


def _matches_checksums(data: bytes | None, expected: U32 | None, coding: CodecInfo) -> bool:
    if data is None or expected is None or len(data) < coding.index_bytes:
        return False
    try:
        return np.array_equal(coding.sums(np.frombuffer(data, np.uint8)), expected)
    except ValueError:  # the index of a torn shard
        return False
