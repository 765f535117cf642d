"""Checks of output files, folders and stores of a command, before any work: errors name the option."""

from __future__ import annotations

import contextlib
import os
import uuid

from dkdist._utils.files import CREATE_FLAGS, PARTIAL_SUFFIX, SAFE_FLAGS, file_kind, write_all
from dkdist.io._zarr.location.address import as_address
from dkdist.io._zarr.location.exchange import hidden_prefix

PROBE_BYTES = 2**16  # a full disk has less than that, and so has a used up quota
TOKEN_CHARACTERS = 32  # of the hidden folder in which a store grows


def require_output_file(option: str, path: str, *, overwrite: bool) -> None:
    """Refuse a file that could not be written, or that exists and must not be replaced."""
    folder = os.path.dirname(path) or os.curdir
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise ValueError(f"{option} {path} cannot be written: expected a file in a directory that is there")
    if os.path.lexists(path):
        if not overwrite:
            raise FileExistsError(f"{option} {path} is there already: give --overwrite, or another name")
        if not os.path.isfile(path) and os.path.exists(path):
            raise ValueError(f"{option} {path} is {file_kind(os.stat(path).st_mode)}: expected a file")
    _require_writable(option, path, folder, path)


def require_output_folder(option: str, path: str) -> None:
    """Refuse a folder in which no file could be written."""
    _require_writable(option, path, _nearest_existing_folder(option, path, path), path)


def require_output_store(option: str, store: str, *, append: bool = False, staged: bool = True) -> None:
    """Refuse a local store that could not be written; ``staged`` ones grow in a hidden folder with a longer name."""
    path = as_address(store).path
    if path is None:
        return
    path = os.path.realpath(path)
    hidden = f"{hidden_prefix(path)}{'0' * TOKEN_CHARACTERS}" if staged and not append else path
    folder = path if append else os.path.dirname(path)
    _require_writable(option, store, _nearest_existing_folder(option, store, folder), hidden)


def _nearest_existing_folder(option: str, shown: str, path: str) -> str:
    """The folder itself, or the nearest one above it that exists."""
    path = os.path.abspath(path)
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(f"{option} {shown} cannot be written: {path} is not a directory")
    return path


def _require_writable(option: str, shown: str, folder: str, longest_name: str) -> None:
    """Write a probe file into the folder and remove it; refuse names that are too long for it."""
    probe = os.path.join(folder, f".{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(longest_name)
        handle = os.open(probe, CREATE_FLAGS | SAFE_FLAGS, 0o666)
        try:
            write_all(handle, bytes(PROBE_BYTES))
        finally:
            os.close(handle)
            os.unlink(probe)
    except OSError as error:
        raise type(error)(f"{option} {shown} cannot be written: {error.strerror or error}") from error
