"""The answer of a command on standard output: lines for people, or one JSON document for scripts."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dkdist.cli.console import print_pairs
from dkdist.cli.output.terminal_text import escape_controls


def answer(args: Namespace, document: Mapping[str, Any], told: str | Sequence[tuple[str, object]]) -> None:
    """Print the document if ``--json`` asks for it, else a text or names and values."""
    if args.json:
        print_json(document)
    elif isinstance(told, str):
        print(escape_controls(told))
    else:
        print_pairs(told)


def print_json(document: Mapping[str, Any]) -> None:
    """Print the document as one line of JSON."""
    print(json.dumps(plain(document), allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers and arrays of NumPy as Python's; what is no number (NaN, infinity) is null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
