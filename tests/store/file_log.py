"""Log of the file changes that a process makes under a folder.

Functions of `os` that change files are replaced by ones that first call a watcher. An audit hook detects changes that
bypass them; such a change is an error of this harness.
"""

import os
import sys
import threading

from dkdist.io._zarr.location import exchange

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class FileLog:
    """Calls ``watch(kind, *what)`` before each change of a file under ``root``, one thread at a time."""

    def __init__(self, root, watch):
        self.root, self._watch = os.path.realpath(root), watch
        self._lock, self._mine = threading.RLock(), threading.local()
        self._paths = {}
        self.missed = []
        self._real = {n: getattr(os, n) for n in (
            "open", "write", "fsync", "close", "mkdir", "rename", "replace", "unlink", "remove", "rmdir", "link"
        )}  # fmt: skip

    def install(self):
        for name in ("open", "write", "fsync", "close", "mkdir", "unlink", "rmdir"):
            setattr(os, name, getattr(self, f"_{name}"))
        os.remove = self._unlink
        os.rename = os.replace = self._rename
        swap = exchange.exchange_names
        exchange.exchange_names = lambda one, other: self._exchange(swap, one, other)
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if not writing and event not in (
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.mkdir",
            "os.link",
            "os.symlink",
        ):
            return
        if getattr(self._mine, "known", False) or not isinstance(arguments[0], (str, bytes)):
            return
        if self._inside(os.fsdecode(arguments[0])):
            self.missed.append((event, arguments))

    def _inside(self, path):
        path = os.path.abspath(path)
        return path == self.root or path.startswith(self.root + os.sep)

    def _path(self, path, dir_fd=None):
        path = os.fsdecode(path)
        return (
            os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
            if dir_fd is not None
            else os.path.abspath(path)
        )

    def _notify_and_call(self, kind, what, call):
        """Call the watcher, then make the change; failing changes are logged too."""
        with self._lock:
            self._watch(kind, *what)
            self._mine.known = True
            try:
                return call()
            finally:
                self._mine.known = False

    def _open(self, path, flags, mode=0o777, *, dir_fd=None):
        real = self._path(path, dir_fd)

        def call():
            return self._real["open"](path, flags, mode, dir_fd=dir_fd)

        if not self._inside(real):
            handle = call()
            self._paths.pop(handle, None)
            return handle
        if not flags & WRITING:
            handle = call()
        else:
            handle = self._notify_and_call("create" if flags & os.O_CREAT else "change", (real,), call)
        self._paths[handle] = real
        return handle

    def _close(self, handle):
        self._paths.pop(handle, None)
        self._real["close"](handle)

    def _write(self, handle, data):
        if handle not in self._paths:
            return self._real["write"](handle, data)
        path = self._paths[handle]
        return self._notify_and_call("write", (path, bytes(data)), lambda: self._real["write"](handle, data))

    def write_half(self, path, data):
        """Write half of some bytes, like a process that is killed during the write."""
        handle = next(handle for handle, open_path in self._paths.items() if open_path == path)
        self._real["write"](handle, data[: len(data) // 2])

    def _fsync(self, handle):
        if handle not in self._paths:
            return self._real["fsync"](handle)
        return self._notify_and_call("fsync", (self._paths[handle],), lambda: None)

    def _mkdir(self, path, mode=0o777, *, dir_fd=None):
        real = self._path(path, dir_fd)
        return self._changed("mkdir", (real,), lambda: self._real["mkdir"](path, mode, dir_fd=dir_fd))

    def _unlink(self, path, *, dir_fd=None):
        real = self._path(path, dir_fd)
        return self._changed("unlink", (real,), lambda: self._real["unlink"](path, dir_fd=dir_fd))

    def _rmdir(self, path, *, dir_fd=None):
        real = self._path(path, dir_fd)
        return self._changed("rmdir", (real,), lambda: self._real["rmdir"](path, dir_fd=dir_fd))

    def _rename(self, one, other):
        pair = self._path(one), self._path(other)
        return self._changed("rename", pair, lambda: self._real["replace"](one, other))

    def _exchange(self, swap, one, other):
        return self._changed("exchange", (one, other), lambda: swap(one, other))

    def _changed(self, kind, paths, call):
        return self._notify_and_call(kind, paths, call) if self._inside(paths[-1]) else call()
