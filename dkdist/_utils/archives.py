"""NumPy's .npy and .npz files from strangers: what they claim is looked at before it is given memory.

The size of an array is told three times (by the archive, by the array's header, by the bytes that come), and all
three must agree. Never a pickle, never more bytes than the headers say, never a file that is none.
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

from dkdist._utils.files import opened_file
from dkdist._utils.memory_budget import require_memory

Array = NDArray[Any]

MOST_MEMBERS = 4096
DIRECTORY_BYTES = 2**20  # of an archive with so many members
FREE_BYTES = 2**28  # what compressed arrays may unpack to, however well they were compressed
MOST_SHRUNK = 100  # beyond that; points and targets do not shrink a hundred times
MOST_ITEM_BYTES = 2**20
MOST_AXES = 8
MOST_HEADER = 10_000  # bytes, as NumPy has it
PIECE = 2**20
KINDS = "biufcSUmM"


class ArchiveError(ValueError):
    """A file is no whole archive of plain arrays; the message says why, but not where."""


class Header(NamedTuple):
    """What an array says of itself: its shape, order and dtype, and where its values begin."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def opened_archive(path: Any, *, compressed: bool) -> Iterator[Archive]:
    """The arrays of an .npz file; without ``compressed`` it must hold them as they are, as `numpy.savez` does.

    `ArchiveError` for whatever is wrong with it; OSError where it cannot be opened.
    """
    with opened_file(path) as file, as_value_error():
        _require_small_directory(file)
        with zipfile.ZipFile(file) as archive:
            length = file.seek(0, 2)
            yield Archive(archive, _checked(archive.infolist(), length, compressed))


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn all that broken bytes make the readers of zip, npy and JSON raise into `ArchiveError`."""
    try:
        yield
    except (ArchiveError, MemoryError, OSError):
        raise
    except Exception as error:  # they raise a dozen kinds
        raise ArchiveError(f"{type(error).__name__}: {error}") from error


class Archive:
    """Arrays by name; a header costs one small read, and an array what its header says."""

    def __init__(self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> None:
        self._archive, self._members = archive, members

    @property
    def names(self) -> list[str]:
        """The names of the arrays, in their order."""
        return list(self._members)

    def header(self, name: str) -> Header:
        """What an array says of itself."""
        with self._opened(name) as (_, header):
            return header

    def read(self, name: str) -> Array:
        """An array, whole; the archive checks a crc32 of it."""
        with self._opened(name) as (stream, header):
            require_memory((2 if header.dtype == np.bool_ else 1) * header.nbytes, f"array {name!r} needs")
            values = np.empty(header.nbytes, np.uint8)
            got = 0
            while got < len(values):
                piece = stream.read(min(PIECE, len(values) - got))
                if not piece:
                    raise ArchiveError(f"array {name!r} ends after {got} of {len(values)} bytes")
                values[got : got + len(piece)] = np.frombuffer(piece, np.uint8)
                got += len(piece)
            if stream.read(1):  # also the read that lets the archive compare the crc32
                raise ArchiveError(f"array {name!r} goes on after its {len(values)} bytes")
        # a byte of 2 would be neither true nor false
        flat = values != 0 if header.dtype == np.bool_ else values.view(header.dtype)
        return flat.reshape(header.shape, order=header.order)

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[BinaryIO, Header]]:
        info = self._members[name]
        with as_value_error(), self._archive.open(info) as opened:
            stream = cast(BinaryIO, opened)
            yield stream, read_header(f"array {name!r}", stream, info.file_size)


def read_header(what: str, stream: BinaryIO, size: int) -> Header:
    """The header of an .npy stream of ``size`` bytes, version 1.0 or 2.0; `ArchiveError` for what is no plain array."""
    version = npy.read_magic(stream)
    if version not in _READERS:
        raise ArchiveError(f"{what} is of version {version} of the .npy format, expected 1.0 or 2.0")
    shape, fortran, dtype = _as_numpy_writes(stream, version) or _READERS[version](stream)
    if dtype.hasobject:
        raise ArchiveError(f"{what} holds Python objects")
    if dtype.kind not in KINDS or not 1 <= dtype.itemsize <= MOST_ITEM_BYTES:
        raise ArchiveError(f"{what} has dtype {str(dtype)[:50]}: expected numbers or text")
    if len(shape) > MOST_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise ArchiveError(f"{what} has shape {str(shape)[:80]}: expected a few sizes >= 0")
    header = Header(shape, "F" if fortran else "C", dtype, stream.tell())
    inside = size - header.start
    if header.nbytes != inside:
        raise ArchiveError(
            f"{what} claims {header.nbytes} bytes for shape {shape} of {dtype}, and has {inside}"
        )
    return header


_READERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_WRITTEN = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z]\d*)', 'fortran_order': (True|False), 'shape': \((\d+(?:, \d+)*,?)?\), \} *\n"
)


def _as_numpy_writes(
    stream: BinaryIO, version: tuple[int, int]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """(shape, whether in Fortran order, dtype) of a header in NumPy's own words; None, and nothing read, for another.

    NumPy takes a header for a Python literal, and Python 3.11 fails now and then to parse two of them in two threads
    ("AST constructor recursion depth mismatch", python/cpython#106905).
    """
    start = stream.tell()
    length = int.from_bytes(stream.read(2 * version[0]), "little")
    found = _WRITTEN.fullmatch(stream.read(min(length, MOST_HEADER)))
    if found is None:
        stream.seek(start)
        return None
    descr, fortran, shape = found.groups()
    sizes = tuple(int(size) for size in (shape or b"").decode().replace(",", " ").split())
    return sizes, fortran == b"True", np.dtype(descr.decode())


def mapped_array(path: Any) -> Array:
    """The array of an .npy file, which stays on disk."""
    with opened_file(path) as file, as_value_error():
        header = read_header("array 'values'", file, os.fstat(file.fileno()).st_size)
        if not header.nbytes:
            return np.empty(header.shape, header.dtype, order=header.order)
        mapped = np.memmap(file, header.dtype, "r", header.start, header.shape, header.order)
        return mapped.astype(np.uint8) != 0 if header.dtype == np.bool_ else mapped


def _require_small_directory(file: BinaryIO) -> None:
    """Refuse an archive whose list of members alone would take a thousand times its size in memory."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end and end[zipfile._ECD_SIZE] > DIRECTORY_BYTES:  # type: ignore[attr-defined]
        raise ArchiveError(
            f"its list of members takes more than {DIRECTORY_BYTES} bytes: no archive of arrays"
        )
    file.seek(0)


def _checked(found: list[zipfile.ZipInfo], length: int, compressed: bool) -> dict[str, zipfile.ZipInfo]:
    """Members by the names of their arrays, if what they claim can be."""
    if len(found) > MOST_MEMBERS:
        raise ArchiveError(f"it has {len(found)} members, expected at most {MOST_MEMBERS}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in found:
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            raise ArchiveError(f"its member {name[:80]!r} is no array")
        if name in members:
            raise ArchiveError(f"it has two arrays {name[:80]!r}")
        allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if compressed else (zipfile.ZIP_STORED,)
        if info.compress_type not in allowed or info.flag_bits & 1:
            raise ArchiveError(
                f"its array {name[:80]!r} is compressed or encrypted, and never is in a file of this kind"
                if not compressed
                else f"its array {name[:80]!r} is packed in a way that NumPy does not use"
            )
        if not 0 <= info.header_offset < length:
            raise ArchiveError(f"its array {name[:80]!r} begins outside the file")
        members[name] = info
    claimed, packed = sum(i.file_size for i in found), sum(i.compress_size for i in found)
    most = FREE_BYTES + MOST_SHRUNK * length if compressed else length
    if packed > length or claimed > most:
        raise ArchiveError(
            f"its {len(found)} arrays claim to unpack to {claimed} bytes from {packed}, in a file of {length}: it "
            "was made to fill memory. (If it is yours, save it with numpy.savez, which does not compress.)"
        )
    return members
