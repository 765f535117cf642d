"""Checks of constructor parameters, with messages that say what was expected, what was found and what to do."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._utils.validation import as_real_array

MOST_COUNTED = 2**40  # of anything
LEAST, MOST = 1e-30, 1e30  # of bandwidths and widths: frequencies and phases are float32


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """``value`` if it is one of the allowed words or numbers."""
    if not isinstance(value, (str, int, float, type(None))) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; found {value!r:.200}")
    return value


def is_word(value: Any, word: str) -> bool:
    """Whether ``value`` is this word; arrays, which compare value by value, are none."""
    return isinstance(value, str) and value == word


def whole(name: str, value: Any, least: int = 1, most: float = MOST_COUNTED) -> int:
    """``value`` as an int that is at least ``least``, and no more than anything can be counted in, or than ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; found {value!r:.200}")
    if int(value) > most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}; found {value!r:.40}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """``value`` as a finite float above zero."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < _number(value) < np.inf:
        raise ValueError(f"{name} must be a positive number; found {value!r:.200}")
    return float(value)


def within_float32(name: str, value: Any) -> float:
    """``value`` as a float above zero that float32 can divide points by."""
    number = positive(name, value)
    if not LEAST <= number <= MOST:
        raise ValueError(
            f"{name} must lie between {LEAST:g} and {MOST:g}, as features are float32; found {number:.3g}: give the "
            "points in other units"
        )
    return number


def real_matrix(name: str, values: Any) -> F64:
    """``values`` as a float64 array of any shape; ValueError for what is ragged, complex or no number."""
    return as_real_array(name, values).astype(np.float64, copy=False)


def require_symmetric(name: str, matrix: F64, tolerance: float, advice: str) -> None:
    """Refuse a square matrix that is not symmetric to some part of its largest entry."""
    gap = np.abs(matrix - matrix.T)
    i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
    if gap[i, j] > tolerance * np.abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric, found {matrix[i, j]:.6g} at ({i}, {j}) and {matrix[j, i]:.6g} at ({j}, {i}): "
            f"take {advice}"
        )


def _number(value: Real) -> float:
    """``value`` as a float; infinite if it is a whole number that no float reaches."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def round_to_float32(value: float) -> float:
    """``value`` to seven digits: what float32 can tell, and the same whatever a library's last bits are."""
    return float(f"{value:.7g}")


def draw_seed(random_state: Any) -> int:
    """A seed below 2**63 from an int, a Generator, a RandomState or None (a fresh one)."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if type(random_state) is not bool and isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise ValueError(
        f"random_state must be None, a whole number >= 0 or a numpy Generator; found {random_state!r:.200}"
    )


def median_seed(random_state: Any) -> int:
    """The seed that ``random_state`` is, or will give next; 0 for None, so that medians are the same every time."""
    moves = isinstance(random_state, (np.random.Generator, np.random.RandomState))
    return 0 if random_state is None else draw_seed(copy.deepcopy(random_state) if moves else random_state)
