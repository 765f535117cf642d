"""Stores in zip files, read without unpacking; entries with an implausible compression ratio are rejected.

The entries of a zip file cannot be replaced, so a writer completes a directory in a staging folder, to which an append
first copies the old entries. The commit packs the directory and replaces the file by one rename.
"""

from __future__ import annotations

import os
import re
import zipfile

from zarr.storage import ZipStore

from dkdist._utils.files import file_kind, flush_file
from dkdist.io._zarr._zarr_private import default_buffer_prototype
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io._zarr.location.exchange import ARCHIVE, StagingFolder
from dkdist.io.errors import DOCUMENT

# Chunks are compressed already, so a ratio of 100 beyond 1 MiB is a zip bomb (tests/places/test_hostile.py)
MAX_UNCHECKED_ENTRY_BYTES, MAX_COMPRESSION_RATIO = 2**20, 100
ZARR_KEY = re.compile(rf"(?:(?!\.\.?/)[^/\\]+/)*(?:{re.escape(DOCUMENT)}|c(?:/\d+)+)")


def open_zip(path: str) -> ZipStore:
    """Open a zip file for reading."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no store at {path}. Check the path.")
    if not os.path.isfile(path):
        raise ValueError(f"{path} must be a zip file; got {file_kind(os.stat(path).st_mode)}.")
    store = ZipStore(path, mode="r")
    store._sync_open()
    return store


def require_no_zip_bomb(store: ZipStore) -> None:
    """Raise ValueError for a zip file with entries of an implausible compression ratio."""
    for entry in store._zf.infolist():
        if entry.file_size > MAX_UNCHECKED_ENTRY_BYTES + MAX_COMPRESSION_RATIO * entry.compress_size:
            raise ValueError(
                f"entry {entry.filename!r} of {entry.compress_size} bytes must unpack to at most "
                f"{MAX_UNCHECKED_ENTRY_BYTES + MAX_COMPRESSION_RATIO * entry.compress_size} bytes; got "
                f"{entry.file_size}. The file is not a zipped store."
            )


def unpack_zip(archive: ZipStore, store: DiskStore, *, except_for: str) -> None:
    """Copy the entries of a zipped store to a directory; names that Zarr does not use are omitted."""
    for entry in archive._zf.infolist():
        name = entry.filename
        if ZARR_KEY.fullmatch(name) and name != except_for:
            store.set_sync(name, default_buffer_prototype().buffer.from_bytes(archive._zf.read(entry)))


class ZipStagingFolder(StagingFolder):
    """Staging folder of a zip file."""

    def prepare(self) -> None:
        """Pack the new store, without compression because its chunks are compressed."""
        archive = os.path.join(self.folder, ARCHIVE)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
            for folder, _, names in sorted(os.walk(self.store)):
                for name in sorted(names):
                    path = os.path.join(folder, name)
                    file.write(path, os.path.relpath(path, self.store))
        flush_file(archive)

    def publish(self) -> None:
        """Replace the zip file by the new one."""
        os.replace(os.path.join(self.folder, ARCHIVE), self.path)
