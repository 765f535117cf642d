"""Model of a disk: which names and contents survive a power loss, given a log of file changes.

Flushed content survives; later writes survive, are truncated, become zeros, or are lost. A change of names survives
if a folder that it touches was flushed after it. Otherwise it survives at random: independently, or, as with a
journal, all changes up to some moment. A move changes both names or neither, which journaling file systems guarantee.
"""

import os
from pathlib import Path


class Folder:
    """Identity of a folder; its names are stored in `Disk`."""


class File:
    """Written content of a file, and its flushed part."""

    def __init__(self, data=b"", flushed=None):
        self.data, self.flushed = data, flushed


class Disk:
    """Replays a log of changes to the files of a folder, then simulates a power loss."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.top = Folder()
        self._names = {}  # (folder, name) -> current File or Folder
        self._changes = []  # (effects, folders that are not flushed, none if one of them is), in order
        for folder, folders, files in os.walk(self.root):
            here = self._at(folder)
            for name in folders:
                self._names[here, name] = Folder()
            for name in files:
                data = Path(folder, name).read_bytes()
                self._names[here, name] = File(data, data)
        self._before = dict(self._names)

    def follow(self, kind, path, *more):
        """Replay one change of the log; a change that failed has no effect."""
        there, place = self._at(path), self._place(path)
        if kind in ("create", "mkdir") and there is None:
            self._change({place: File() if kind == "create" else Folder()})
        elif kind == "write":
            there.data += more[0]
        elif kind == "fsync":
            self._flush(there)
        elif (kind == "unlink" and isinstance(there, File)) or (kind == "rmdir" and self._is_empty(there)):
            self._change({place: None})
        elif kind == "rename" and there is not None:
            other = self._at(more[0])
            if other is None or isinstance(other, File) or self._is_empty(other):
                self._change({place: None, self._place(more[0]): there})
        elif kind == "exchange":
            self._change({place: self._at(more[0]), self._place(more[0]): there})

    def lose_power(self, rng, target):
        """Write the surviving files to a folder."""
        names = dict(self._before)
        cut = rng.integers(len(self._changes) + 1) if rng.random() < 0.5 else None
        for i, (effects, waiting) in enumerate(self._changes):
            kept = rng.random() < 0.5 if cut is None else i < cut
            if kept or not waiting:
                names.update(effects)
        self._write(self.top, names, rng, Path(target))

    def _write(self, folder, names, rng, target):
        target.mkdir()
        for (owner, name), what in names.items():
            if owner is folder and isinstance(what, Folder):
                self._write(what, names, rng, target / name)
            elif owner is folder and what is not None:
                (target / name).write_bytes(content_after_power_loss(what, rng))

    def _at(self, path):
        what = self.top
        for name in Path(os.path.relpath(path, self.root)).parts:
            what = self._names.get((what, name))
        return what

    def _place(self, path):
        folder, name = os.path.split(path)
        return self._at(folder), name

    def _is_empty(self, what):
        held = (owner is what and inner is not None for (owner, _), inner in self._names.items())
        return isinstance(what, Folder) and not any(held)

    def _flush(self, what):
        if isinstance(what, File):
            what.flushed = what.data
        for effects, waiting in self._changes:
            if any(folder is what for folder, _ in effects):
                waiting.clear()

    def _change(self, effects):
        self._names.update(effects)
        self._changes.append((effects, {folder for folder, _ in effects}))


def content_after_power_loss(file, rng):
    """Return the content of a file after a power loss."""
    if file.flushed == file.data:
        return file.data
    flushed = file.flushed or b""
    return [
        flushed,
        file.data,
        flushed + file.data[len(flushed) : int(rng.integers(len(flushed), len(file.data) + 1))],
        flushed + bytes(len(file.data) - len(flushed)),
    ][rng.integers(4)]
