"""NumPy's .npy and .npz files from untrusted sources, checked before memory is allocated.

The size of an array in the archive, the size in its header and the size of its data must be equal. Pickles are
never loaded, and no more bytes are read than the headers state.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dkdist._utils._tuning import (
    MAX_AXES,
    MAX_COMPRESSION_RATIO,
    MAX_DIRECTORY_BYTES,
    MAX_ITEM_BYTES,
    MAX_MEMBERS,
    MAX_UNCHECKED_BYTES,
    READ_BYTES,
)
from dkdist._utils.files import open_file
from dkdist._utils.memory_budget import require_memory

Array = NDArray[Any]

# default of max_header_size: https://numpy.org/doc/stable/reference/generated/numpy.load.html
MAX_HEADER_BYTES = 10_000
DTYPE_KINDS = "biufcSUmM"


class ArchiveError(ValueError):
    """Error for a file that is not a complete archive of plain arrays; the message does not name the file."""


class Header(NamedTuple):
    """Header of an .npy array: shape, memory order, dtype, and position of the first value in bytes."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    start: int

    @property
    def nbytes(self) -> int:
        """Number of bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def open_archive(path: Any, *, compressed: bool) -> Iterator[Archive]:
    """Open the arrays of an .npz file; without ``compressed`` only uncompressed arrays (`numpy.savez`).

    `ArchiveError` for invalid content; OSError if the file cannot be opened.
    """
    with open_file(path) as file, as_archive_error():
        _require_small_directory(file)
        with zipfile.ZipFile(file) as archive:
            length = file.seek(0, 2)
            yield Archive(archive, _checked_members(archive.infolist(), length, compressed))


@contextmanager
def as_archive_error() -> Iterator[None]:
    """Convert exceptions of the readers of zip, npy and JSON into `ArchiveError`."""
    try:
        yield
    except (ArchiveError, MemoryError, OSError):
        raise
    except Exception as error:  # invalid bytes can raise a dozen exception types
        raise ArchiveError(f"{type(error).__name__}: {error}") from error


class Archive:
    """Arrays by name, read on request."""

    def __init__(self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> None:
        self._archive, self._members = archive, members

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in the order of the file."""
        return list(self._members)

    def header(self, name: str) -> Header:
        """Return the header of an array with one small read."""
        with self._opened(name) as (_, header):
            return header

    def read(self, name: str) -> Array:
        """Return an array; its CRC-32 is checked."""
        with self._opened(name) as (stream, header):
            require_memory((2 if header.dtype == np.bool_ else 1) * header.nbytes, f"array {name!r} needs")
            values = np.empty(header.nbytes, np.uint8)
            n_read = 0
            while n_read < len(values):
                piece = stream.read(min(READ_BYTES, len(values) - n_read))
                if not piece:
                    raise ArchiveError(f"array {name!r} ends after {n_read} of {len(values)} bytes")
                values[n_read : n_read + len(piece)] = np.frombuffer(piece, np.uint8)
                n_read += len(piece)
            if stream.read(1):  # reading to the end also checks the CRC-32
                raise ArchiveError(f"array {name!r} continues after its {len(values)} bytes")
        # compared with 0, because a bool with byte value 2 would be neither True nor False
        flat = values != 0 if header.dtype == np.bool_ else values.view(header.dtype)
        return flat.reshape(header.shape, order=header.order)

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[BinaryIO, Header]]:
        info = self._members[name]
        with as_archive_error(), self._archive.open(info) as opened:
            stream = cast(BinaryIO, opened)
            yield stream, read_header(f"array {name!r}", stream, info.file_size)


def read_header(what: str, stream: BinaryIO, size: int) -> Header:
    """Return the header of an .npy stream of ``size`` bytes, format version 1.0 or 2.0.

    `ArchiveError` for anything but a plain array.
    """
    version = npy.read_magic(stream)
    if version not in _HEADER_READERS:
        raise ArchiveError(f"{what} must have version 1.0 or 2.0 of the .npy format; got {version}")
    shape, fortran, dtype = _parse_numpy_header(stream, version) or _HEADER_READERS[version](stream)
    if dtype.hasobject:
        raise ArchiveError(f"{what} contains Python objects")
    if dtype.kind not in DTYPE_KINDS or not 1 <= dtype.itemsize <= MAX_ITEM_BYTES:
        raise ArchiveError(f"{what} must contain numbers or text; got dtype {str(dtype)[:50]}")
    if len(shape) > MAX_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise ArchiveError(
            f"{what} must have at most {MAX_AXES} axes of sizes >= 0; got shape {str(shape)[:80]}"
        )
    header = Header(shape, "F" if fortran else "C", dtype, stream.tell())
    n_bytes = size - header.start
    if header.nbytes != n_bytes:
        raise ArchiveError(
            f"{what} must have {header.nbytes} bytes for shape {shape} of {dtype}; got {n_bytes}"
        )
    return header


_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
_NUMPY_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z]\d*)', 'fortran_order': (True|False), 'shape': \((\d+(?:, \d+)*,?)?\), \} *\n"
)


def _parse_numpy_header(
    stream: BinaryIO, version: tuple[int, int]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """Return (shape, is_fortran_order, dtype) of a header that NumPy wrote; for others return None without reading.

    NumPy parses headers as Python literals, which sometimes fails for two threads in Python 3.11 ("AST constructor
    recursion depth mismatch", python/cpython#106905).
    """
    start = stream.tell()
    length = int.from_bytes(stream.read(2 * version[0]), "little")
    match = _NUMPY_HEADER.fullmatch(stream.read(min(length, MAX_HEADER_BYTES)))
    if match is None:
        stream.seek(start)
        return None
    descr, fortran, shape = match.groups()
    sizes = tuple(int(size) for size in (shape or b"").decode().replace(",", " ").split())
    return sizes, fortran == b"True", np.dtype(descr.decode())


def memory_map(path: Any) -> Array:
    """Return the array of an .npy file as a memory map."""
    with open_file(path) as file, as_archive_error():
        header = read_header("array 'values'", file, os.fstat(file.fileno()).st_size)
        if not header.nbytes:
            return np.empty(header.shape, header.dtype, order=header.order)
        mapped = np.memmap(file, header.dtype, "r", header.start, header.shape, header.order)
        return mapped.astype(np.uint8) != 0 if header.dtype == np.bool_ else mapped


def _require_small_directory(file: BinaryIO) -> None:
    """Raise ArchiveError if the list of members is too large."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end and end[zipfile._ECD_SIZE] > MAX_DIRECTORY_BYTES:  # type: ignore[attr-defined]
        raise ArchiveError(f"its list of members must have at most {MAX_DIRECTORY_BYTES} bytes")
    file.seek(0)


def _checked_members(
    infos: list[zipfile.ZipInfo], length: int, compressed: bool
) -> dict[str, zipfile.ZipInfo]:
    """Return members by array name; ArchiveError for impossible or suspicious sizes."""
    if len(infos) > MAX_MEMBERS:
        raise ArchiveError(f"it must have at most {MAX_MEMBERS} members; got {len(infos)}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            raise ArchiveError(f"its member {name[:80]!r} is not an array")
        if name in members:
            raise ArchiveError(f"it contains two arrays named {name[:80]!r}")
        allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if compressed else (zipfile.ZIP_STORED,)
        if info.compress_type not in allowed or info.flag_bits & 1:
            raise ArchiveError(
                f"its array {name[:80]!r} must not be compressed or encrypted"
                if not compressed
                else f"its array {name[:80]!r} must use a compression method of NumPy and no encryption"
            )
        if not 0 <= info.header_offset < length:
            raise ArchiveError(f"its array {name[:80]!r} begins outside the file")
        members[name] = info
    claimed, packed = sum(i.file_size for i in infos), sum(i.compress_size for i in infos)
    max_bytes = MAX_UNCHECKED_BYTES + MAX_COMPRESSION_RATIO * length if compressed else length
    if packed > length or claimed > max_bytes:
        raise ArchiveError(
            f"its {len(infos)} arrays declare {claimed} bytes, compressed to {packed}, in a file of {length} bytes; "
            "such a file can exhaust memory. If you trust it, save it again with numpy.savez, which does not compress."
        )
    return members
