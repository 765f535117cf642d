"""Switches: booleans alone, for the word "no" would be true and replace a store."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_flag(name: str, value: Any) -> bool:
    """``value`` if it is a boolean; TypeError for a word, a number or None."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r:.200}: give True or False")
    return bool(value)


def as_verbose(value: Any) -> bool:
    """Whether to show progress: a boolean, or a whole number as other libraries take it."""
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value < 0:
        raise TypeError(f"verbose is {value!r:.200}: give True or False")
    return bool(value)
