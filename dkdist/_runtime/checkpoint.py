"""Checkpoints: the state of a run in one file that is replaced atomically.

A checkpoint is a directory with ``state.npz``: named arrays, and a JSON text with the fingerprint of the run (its
computation and data), notes, and a digest of the arrays. The file is written to a temporary name and moved into place,
so the previous checkpoint survives if the process is killed. A state of another run raises ValueError.
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

from dkdist._utils.archives import open_archive
from dkdist._utils.files import atomic_file
from dkdist._utils.text import read_json

Arrays = dict[str, NDArray[Any]]

_FILE = "state.npz"
_HEADER = "checkpoint.json"


class Checkpoint:
    """Latest saved state of one run in a directory; equal fingerprints identify the same run.

    Saving costs one write of the arrays and two flushes to disk.

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
        """Replace the saved state atomically."""
        header = {
            "fingerprint": self.fingerprint,
            "notes": _json_roundtrip(notes),
            "digest": digest(*digest_parts(arrays)),
        }
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_unfinished()
        target = os.fspath(self.path / _FILE)
        try:
            with atomic_file(target) as file:
                np.savez(file, allow_pickle=False, **{_HEADER: text}, **arrays)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"cannot write the checkpoint {target} ({error.strerror or error}); the previous one is unchanged. "
                "Free disk space and fit again to continue from it.",
            ) from error

    def load(self) -> tuple[Arrays, dict[str, Any]] | None:
        """Return the saved arrays and notes, or None; ValueError for a damaged state or one of another run."""
        try:
            arrays, header = self._read(self.path / _FILE)
        except FileNotFoundError:
            return None
        self._require_same_run(header["fingerprint"])
        return arrays, header["notes"]

    def _remove_unfinished(self) -> None:
        """Remove partial files of a killed run; no other run writes to this checkpoint."""
        for unfinished in self.path.glob(".*.partial"):
            unfinished.unlink(missing_ok=True)

    def _read(self, file: Path) -> tuple[Arrays, dict[str, Any]]:
        try:
            with open_archive(file, compressed=False) as content:
                arrays = {name: content.read(name) for name in content.names}
            header = read_json(
                arrays.pop(_HEADER).tobytes(), {"fingerprint": dict, "notes": dict, "digest": str}
            )
            is_valid = header["digest"] == digest(*digest_parts(arrays))
        except (ValueError, KeyError) as error:
            raise self.damaged(f"{type(error).__name__}: {error}") from error
        if not is_valid:
            raise self.damaged("the digest of its arrays does not match")
        return arrays, header

    def damaged(self, reason: str) -> ValueError:
        """Return the error for a state from which a run cannot continue."""
        return ValueError(
            f"the checkpoint {self.path / _FILE} is damaged ({reason}). Delete it to start again, or use another path."
        )

    def _require_same_run(self, saved: Mapping[str, Any]) -> None:
        names = sorted(self.fingerprint.keys() | saved.keys())
        differing = [n for n in names if self.fingerprint.get(n) != saved.get(n)]
        if differing:
            text = "; ".join(
                f"{n}: expected {self.fingerprint.get(n)!r}, got {saved.get(n)!r}" for n in differing
            )
            raise ValueError(
                f"the checkpoint {self.path} was saved by a different run ({text}). Use another path for this run, or "
                "delete the checkpoint to start again."
            )


def digest(*parts: bytes | NDArray[Any]) -> str:
    """Return the BLAKE2b digest of the parts, 128 bits in hexadecimal."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).view(np.uint8).data)
    return total.hexdigest()


def digest_parts(arrays: Mapping[str, NDArray[Any]]) -> list[bytes | NDArray[Any]]:
    """Return the names, dtypes, shapes and values of arrays as arguments of `digest`."""
    parts: list[bytes | NDArray[Any]] = []
    for name in sorted(arrays):
        array = arrays[name]
        parts += [f"{name} {array.dtype.str} {array.shape}".encode(), array.reshape(-1)]
    return parts


def _json_roundtrip(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as they are read back (tuples as lists), so that equal values compare equal."""
    return dict(json.loads(json.dumps(dict(values))))
