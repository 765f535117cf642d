"""Decoders that look at the size a compressed chunk claims before they give it memory.

A chunk of blosc or zstd says in its header how long it will be, one of strings how many they are; a chunk that
says more than its array's chunks hold is damaged or made to fill memory, and is refused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from zarr import codecs as plain
from zarr.abc.codec import Codec
from zarr.codecs import BloscCodec, ShardingCodec, ZstdCodec

from dkdist.store.limits import MAX_CHUNK_BYTES

BLOSC_HEADER = 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def bounded(codecs: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """The same codecs, whose compressors refuse chunks that would become larger than they may."""
    return tuple(_bounded(codec) for codec in codecs)


def _bounded(codec: Codec) -> Codec:
    if isinstance(codec, ShardingCodec):
        return replace(codec, codecs=bounded(codec.codecs))
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
        header = chunk_bytes.as_numpy_array()[:BLOSC_HEADER].tobytes()
        if len(header) < BLOSC_HEADER:
            raise ValueError(f"a chunk of {len(header)} bytes is too short for blosc")
        _require_fit(int.from_bytes(header[4:8], "little"), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class BoundedZstd(ZstdCodec):
    """Zstandard, whose frame header says how long its content is (RFC 8878, 3.1.1.1)."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _require_fit(_zstd_size(chunk_bytes.as_numpy_array()[:18].tobytes()), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class VLenUTF8Codec(plain.VLenUTF8Codec):
    """Strings, which say in the first four bytes how many they are; Zarr knows their codec by this name."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        found = int.from_bytes(chunk_bytes.as_numpy_array()[:4].tobytes(), "little")
        if found != math.prod(chunk_spec.shape):
            raise ValueError(f"a chunk holds {found} strings, expected {math.prod(chunk_spec.shape)}")
        return super()._decode_sync(chunk_bytes, chunk_spec)


def _require_fit(size: int, chunk_spec: Any) -> None:
    strings = chunk_spec.dtype.to_native_dtype().kind == "T"
    most = MAX_CHUNK_BYTES if strings else math.prod(chunk_spec.shape) * chunk_spec.dtype.item_size
    if size > most:
        raise ValueError(f"a chunk would be decoded to {size} bytes, expected at most {most}")


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
