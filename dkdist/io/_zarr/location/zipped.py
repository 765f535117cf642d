"""Stores in zip files: read in place, never unpacked, and refused if an entry would swell when it is read.

Chunks are compressed already, so an entry that a zip file shrinks a hundred times was made to fill memory.
"""

from __future__ import annotations

import os

from zarr.storage import ZipStore

from dkdist._utils.files import file_kind

MAX_UNCHECKED_ENTRY_BYTES = 2**20
MAX_COMPRESSION_RATIO = 100


def open_zip(path: str) -> ZipStore:
    """Open a zip file for reading."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no store at {path}: check the path")
    if not os.path.isfile(path):
        raise ValueError(f"{path} is {file_kind(os.stat(path).st_mode)}, not a zip file")
    store = ZipStore(path, mode="r")
    store._sync_open()
    return store


def require_no_zip_bomb(store: ZipStore) -> None:
    """Raise ValueError for an opened zip file with entries that would fill memory when they are read."""
    for entry in store._zf.infolist():
        if entry.file_size > MAX_UNCHECKED_ENTRY_BYTES + MAX_COMPRESSION_RATIO * entry.compress_size:
            raise ValueError(
                f"entry {entry.filename!r} has {entry.compress_size} bytes and claims to unpack to "
                f"{entry.file_size}: this is no store that was zipped"
            )
