"""Stores in zip files, read without unpacking; entries with an implausible compression ratio are rejected."""

from __future__ import annotations

import os

from zarr.storage import ZipStore

from dkdist._utils.files import file_kind

# Chunks are compressed already, so a ratio of 100 beyond 1 MiB is a zip bomb (tests/places/test_hostile.py)
MAX_UNCHECKED_ENTRY_BYTES, MAX_COMPRESSION_RATIO = 2**20, 100


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
