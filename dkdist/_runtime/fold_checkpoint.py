"""Checkpoints of folds: the state as arrays, and a JSON description of the containers around them.

Files are never unpickled, so only values of exact built-in types and plain NumPy arrays can be saved.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from dask.base import tokenize

from dkdist._numba.arrays import I64
from dkdist._runtime.checkpoint import Arrays, Checkpoint, digest, digest_parts
from dkdist._utils.archives import DTYPE_KINDS

_ALLOWED = (
    "NumPy arrays of numbers or text, numbers, strings, None, and lists, tuples and dicts with string keys"
)


class FoldCheckpoint:
    """Saved state of a fold, for the same data, order of blocks, initial state and name of the step."""

    def __init__(
        self, path: str | PathLike[str], data: Any, step: Callable[..., Any], state: Any, order: I64
    ) -> None:
        arrays, description = encode_state(state)
        while isinstance(step, partial):
            step = step.func
        fingerprint = {
            "computation": "fold",
            "data": tokenize(data),
            "step": getattr(step, "__qualname__", type(step).__qualname__),
            "order": digest(order),
            "initial state": digest(json.dumps(description).encode(), *digest_parts(arrays)),
        }
        self._file = Checkpoint(path, fingerprint)
        self._n_blocks = len(order)

    def load(self) -> tuple[Any, int] | None:
        """Return the saved state and the number of its blocks, or None; ValueError as in `Checkpoint.load`."""
        saved = self._file.load()
        if saved is None:
            return None
        arrays, notes = saved
        n_done = notes.get("n_blocks")
        if type(n_done) is not int or not 0 <= n_done <= self._n_blocks:
            raise self._file.damaged(f"its number of blocks is {n_done!r:.80}")
        try:
            return decode_state(notes.get("state"), arrays), n_done
        except Exception as error:  # invalid descriptions can raise several types
            raise self._file.damaged(f"{type(error).__name__}: {error}") from error

    def save(self, state: Any, n_blocks: int) -> None:
        """Save the state after ``n_blocks`` blocks; TypeError names a part that cannot be saved."""
        arrays, description = encode_state(state)
        self._file.save(arrays, {"state": description, "n_blocks": n_blocks})


def encode_state(state: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a state, and the JSON description from which `decode_state` restores it.

    TypeError names the first part of the state that cannot be saved.

    >>> encode_state((1.5, {"total": np.ones(2)}))[0]
    {'array0': array([1., 1.])}
    """
    arrays: Arrays = {}
    return arrays, _encode(state, "state", arrays)


def _encode(value: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    kind = type(value)
    if kind is np.ndarray or isinstance(value, np.generic):
        if value.dtype.kind not in DTYPE_KINDS or not value.dtype.itemsize:
            raise _type_error(path, f"an array of dtype {value.dtype}")
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if kind is np.ndarray else "number": name}
    if kind is float:
        return {"float": value.hex()}  # JSON has no infinity and no NaN
    if value is None or kind in (bool, int, str):
        return {"value": value}
    if kind in (list, tuple):
        return {kind.__name__: [_encode(item, f"{path}[{i}]", arrays) for i, item in enumerate(value)]}
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise _type_error(path, "a dict with keys that are not strings")
        return {"dict": [[key, _encode(item, f"{path}[{key!r}]", arrays)] for key, item in value.items()]}
    raise _type_error(path, f"a {kind.__name__}")


def _type_error(path: str, found: str) -> TypeError:
    return TypeError(
        f"{path} must be of types that a checkpoint can save without pickle ({_ALLOWED}); got {found}. Keep such "
        "values in the state and build other objects in step, or omit checkpoint."
    )


def decode_state(description: Any, arrays: Arrays) -> Any:
    """Return the state; ValueError or another exception for a damaged description."""
    ((kind, content),) = description.items()
    if kind == "array":
        return arrays[content]
    if kind == "number":
        return arrays[content][()]
    if kind == "float":
        return float.fromhex(content)
    if kind == "value":
        return content
    if kind == "dict":
        return {key: decode_state(item, arrays) for key, item in content}
    if kind in ("list", "tuple"):
        items = [decode_state(item, arrays) for item in content]
        return items if kind == "list" else tuple(items)
    raise ValueError(f"{kind!r:.80} is not a kind of value")
