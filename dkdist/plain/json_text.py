"""JSON from strangers: bounded in depth and kind before anything walks through it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MOST_BYTES = 2**26
MOST_DEPTH = 64


def read_json(text: bytes, keys: Mapping[str, type]) -> dict[str, Any]:
    """The object that a text is, whose values under ``keys`` are of these types; ValueError if it is anything else."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"its text has {len(text)} bytes, expected at most {MOST_BYTES}")
    try:
        value = json.loads(text.decode())
    except RecursionError:
        raise ValueError(f"its text is nested deeper than {MOST_DEPTH} levels") from None
    _require_shallow(value)
    if not isinstance(value, dict):
        raise ValueError(f"its text is a {type(value).__name__}, expected an object")
    for key, kind in keys.items():
        if type(value.get(key)) is not kind:
            raise ValueError(f"its text has {value.get(key)!r:.80} under {key!r}, expected a {kind.__name__}")
    return value


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, (dict, list))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"its text is nested deeper than {MOST_DEPTH} levels")
