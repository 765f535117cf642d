"""Checks of output files, folders and stores of a command, before any work: errors name the option."""

from __future__ import annotations

import contextlib
import os
import uuid

from dkdist._utils.files import CREATE_FLAGS, PARTIAL_SUFFIX, SAFE_FLAGS, file_kind, write_all
from dkdist.cli._tuning import PROBE_BYTES
from dkdist.io._zarr.location.address import as_location
from dkdist.io._zarr.location.exchange import staging_prefix


def require_output_file(option: str, path: str, *, overwrite: bool) -> None:
    """Raise for a file that cannot be written, or that exists if ``overwrite`` is false."""
    folder = os.path.dirname(path) or os.curdir
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise ValueError(f"{option} {path} cannot be written. Pass a file in an existing directory")
    if os.path.lexists(path):
        if not overwrite:
            raise FileExistsError(f"{option} {path} already exists. Pass --overwrite or another name")
        if not os.path.isfile(path) and os.path.exists(path):
            raise ValueError(f"{option} must be a file; got {path}, {file_kind(os.stat(path).st_mode)}")
    _require_writable(option, path, folder, path)


def require_output_folder(option: str, path: str) -> None:
    """Raise for a folder in which no file can be written."""
    _require_writable(option, path, _nearest_existing_folder(option, path, path), path)


def require_output_store(option: str, store: str, *, append: bool = False, staged: bool = True) -> None:
    """Raise for a local store that cannot be written; ``staged`` ones require a staging folder with a longer name."""
    path = as_location(store).path
    if path is None:
        return
    path = os.path.realpath(path)
    longest_path = f"{staging_prefix(path)}{uuid.uuid4().hex}" if staged and not append else path
    folder = path if append else os.path.dirname(path)
    _require_writable(option, store, _nearest_existing_folder(option, store, folder), longest_path)


def _nearest_existing_folder(option: str, value: str, path: str) -> str:
    """Return the folder itself, or its nearest existing parent."""
    path = os.path.abspath(path)
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(f"{option} {value} cannot be written: {path} is not a directory")
    return path


def _require_writable(option: str, value: str, folder: str, longest_path: str) -> None:
    """Write a probe file into the folder and remove it; raise for paths that are too long."""
    probe = os.path.join(folder, f".{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(longest_path)
        handle = os.open(probe, CREATE_FLAGS | SAFE_FLAGS, 0o666)
        try:
            write_all(handle, bytes(PROBE_BYTES))
        finally:
            os.close(handle)
            os.unlink(probe)
    except OSError as error:
        raise type(error)(f"{option} {value} cannot be written: {error.strerror or error}") from error
