"""Checkpoints: the state of a run in one file that is either whole or not there.

A checkpoint is a directory with ``state.npz`` in it: named arrays, and a JSON text that holds the
fingerprint of the run (what it computes, from which data), its notes, and a digest of the arrays. It is
written beside and moved into place, so a killed process leaves the checkpoint before it; a state of another
run is refused, never continued.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._utils.archives import opened_archive
from dkdist._utils.files import replacing
from dkdist._utils.text import read_json

Arrays = dict[str, NDArray[Any]]

_FILE = "state.npz"
_HEADER = "checkpoint.json"


class Checkpoint:
    """The latest saved state of one run, in a directory of its own; the fingerprint makes two runs the same run.

    Saving costs one write of the arrays and two flushes to disk (a few milliseconds for 100 KB).

    >>> import tempfile, numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> Checkpoint(folder, {"seed": 0}).save({"coef": np.ones(2)}, {"epoch": 1})
    >>> arrays, notes = Checkpoint(folder, {"seed": 0}).load()
    >>> arrays["coef"], notes
    (array([1., 1.]), {'epoch': 1})
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: Mapping[str, Any]) -> None:
        self.path = Path(path).expanduser()
        self.fingerprint = _json_roundtrip(fingerprint)

    def save(self, arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, Any]) -> None:
        """Replace the saved state, all of it or nothing."""
        total = digest(*_digest_parts(arrays))
        header = {"fingerprint": self.fingerprint, "notes": _json_roundtrip(notes), "digest": total}
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_unfinished()
        target = os.fspath(self.path / _FILE)
        try:
            with replacing(target) as file:
                np.savez(file, allow_pickle=False, **{_HEADER: text}, **arrays)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"cannot write the checkpoint {target} ({error.strerror or error}): the one before it is as it was. "
                "Make room, and fit again: it goes on from there",
            ) from error

    def load(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The saved arrays and notes, or None where nothing was saved; a damaged or foreign state is refused."""
        try:
            arrays, header = self._read(self.path / _FILE)
        except FileNotFoundError:
            return None
        self._refuse_other_run(header["fingerprint"])
        return arrays, header["notes"]

    def _remove_unfinished(self) -> None:
        """Remove what a run that was killed was saving; a checkpoint belongs to one run."""
        for unfinished in self.path.glob(".*.partial"):
            unfinished.unlink(missing_ok=True)

    def _read(self, file: Path) -> tuple[Arrays, dict[str, Any]]:
        try:
            with opened_archive(file, compressed=False) as content:
                arrays = {name: content.read(name) for name in content.names}
            header = read_json(
                arrays.pop(_HEADER).tobytes(), {"fingerprint": dict, "notes": dict, "digest": str}
            )
            whole = header["digest"] == digest(*_digest_parts(arrays))
        except (ValueError, KeyError) as error:
            raise self.damaged(f"{type(error).__name__}: {error}") from error
        if not whole:
            raise self.damaged("the digest of its arrays does not match")
        return arrays, header

    def damaged(self, found: str) -> ValueError:
        """The error for a state that cannot be gone on from."""
        return ValueError(
            f"the checkpoint {self.path / _FILE} is damaged ({found}): "
            "delete it to start again, or use another path"
        )

    def _refuse_other_run(self, found: Mapping[str, Any]) -> None:
        names = sorted(self.fingerprint.keys() | found.keys())
        differing = [n for n in names if self.fingerprint.get(n) != found.get(n)]
        if differing:
            told = "; ".join(
                f"{n}: expected {self.fingerprint.get(n)!r}, found {found.get(n)!r}" for n in differing
            )
            raise ValueError(
                f"the checkpoint {self.path} was saved by a different run ({told}): "
                "use another path for this run, or delete the checkpoint to start again"
            )


def digest(*parts: bytes | NDArray[Any]) -> str:
    """A short text that changes with any byte of the parts (BLAKE2, about 1 GB/s)."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).view(np.uint8).data)
    return total.hexdigest()


def _digest_parts(arrays: Mapping[str, NDArray[Any]]) -> list[bytes | NDArray[Any]]:
    parts: list[bytes | NDArray[Any]] = []
    for name in sorted(arrays):
        array = arrays[name]
        parts += [f"{name} {array.dtype.str} {array.shape}".encode(), array.reshape(-1)]
    return parts


def _json_roundtrip(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they will be read back: tuples as lists, so that comparisons are fair."""
    return dict(json.loads(json.dumps(dict(values))))
