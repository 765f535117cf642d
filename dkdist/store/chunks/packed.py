"""Chunks as Zarr stores them - blosc, and its crc32c behind it - made at once in the thread that asks for them.

Zarr hands every chunk to an event loop and to other threads several times, which takes longer than to compress it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zarr
from crc32c import crc32c
from numcodecs import Blosc
from numcodecs.vlen import VLenUTF8
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, VLenUTF8Codec

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


Packed = tuple[bytes, bytes]
"""What blosc makes of a chunk, and its checksum: as the chunk is stored, one stands behind the other."""


def packing_of(array: zarr.Array[Any]) -> Callable[[NDArray[Any]], Packed] | None:
    """What makes the bytes of a whole chunk of an array; None where its chunks are coded in another way."""
    codecs = array.metadata.codecs  # type: ignore[union-attr]
    kinds: tuple[Any, ...] = (BytesCodec, VLenUTF8Codec), BloscCodec, Crc32cCodec
    if len(codecs) != len(kinds) or not all(map(isinstance, codecs, kinds)):
        return None
    first, said = (_said(codec) for codec in codecs[:2])
    texts = VLenUTF8() if isinstance(codecs[0], VLenUTF8Codec) else None
    size = 1 if texts else array.dtype.itemsize
    as_in_memory = texts or size == 1 or (first.get("endian"), array.dtype.str[0]) == ("little", "<")
    if not as_in_memory or said["typesize"] != size:
        return None
    blosc = Blosc(said["cname"], said["clevel"], SHUFFLES.index(said["shuffle"]), said["blocksize"])

    def packed(chunk: NDArray[Any]) -> Packed:
        data = bytes(blosc.encode(texts.encode(chunk) if texts else chunk))
        return data, crc32c(data).to_bytes(4, "little")

    return packed


def _said(codec: Any) -> dict[str, Any]:
    """The configuration of a codec, in the words of the store's metadata."""
    said: dict[str, Any] = codec.to_dict().get("configuration", {})
    return said
