"""Atomic files: file systems without fsync, and disk errors."""

from __future__ import annotations

import errno
import os

import pytest

from dkdist._utils.files import atomic_file


def failing_fsync(code):
    def fsync(handle):
        raise OSError(code, os.strerror(code))

    return fsync


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_file_is_written_without_fsync_support(code, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing_fsync(code))
    with atomic_file(tmp_path / "m.npz") as file:
        file.write(b"model")
    assert (tmp_path / "m.npz").read_bytes() == b"model"


def test_disk_error_keeps_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "m.npz").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), atomic_file(tmp_path / "m.npz") as file:
        file.write(b"new")
    assert (tmp_path / "m.npz").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.npz"]
