"""Checks of constructor parameters; each returns the value or raises `ValueError`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._utils.validation import as_real_array

RandomStateLike = int | np.random.Generator | np.random.RandomState | None
MAX_COUNT = 2**40  # default maximum of counts, larger than fits in memory; origin unknown
MIN_SCALE, MAX_SCALE = 1e-30, 1e30  # frequencies and phases must fit float32 (tests/test_bad_input.py)


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """Return ``value`` if it is one of the allowed strings or numbers."""
    if not isinstance(value, (str, int, float, type(None))) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r:.200}")
    return value


def is_literal(value: Any, literal: str) -> bool:
    """Return whether ``value`` is this string; returns a single bool also for arrays."""
    return isinstance(value, str) and value == literal


def check_int(name: str, value: Any, minimum: int = 1, maximum: float = MAX_COUNT) -> int:
    """Return ``value`` as an int from ``minimum`` to ``maximum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}; got {value!r:.200}")
    if int(value) > maximum:
        raise ValueError(f"{name} must be an integer from {minimum} to {maximum}; got {value!r:.40}")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return ``value`` as a finite float above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < _float_or_inf(value) < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r:.200}")
    return float(value)


def check_scale(name: str, value: Any) -> float:
    """Return ``value`` as a positive float by which float32 points can be divided."""
    number = check_positive(name, value)
    if not MIN_SCALE <= number <= MAX_SCALE:
        raise ValueError(
            f"{name} must be between {MIN_SCALE:g} and {MAX_SCALE:g}, the range of float32 features; got {number:.3g}. "
            "Rescale the points."
        )
    return number


def check_real_array(name: str, values: Any) -> F64:
    """Return ``values`` as a float64 array; raise for ragged, complex or non-numeric data."""
    return as_real_array(name, values).astype(np.float64, copy=False)


def check_set_targets(y: Any, n_sets: int) -> F64:
    """Return finite targets (n,) or (n, t) of sets; errors name the set."""
    targets = check_real_array("y", y)
    if targets.ndim not in (1, 2) or len(targets) != n_sets or targets.size == 0:
        raise ValueError(
            f"y must have one target for each of the {n_sets} sets of X; got shape {targets.shape}."
        )
    if not np.isfinite(targets).all():
        i = int(np.argmin(np.isfinite(targets).reshape(n_sets, -1).all(axis=1)))
        raise ValueError(f"y must be finite; got {targets[i]} (set {i}). Drop sets without a target.")
    return targets


def require_symmetric(name: str, matrix: F64, tolerance: float, advice: str) -> None:
    """Raise unless a square matrix is symmetric up to ``tolerance`` times its largest entry."""
    gap = np.abs(matrix - matrix.T)
    i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
    if gap[i, j] > tolerance * np.abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric; got {matrix[i, j]:.6g} at ({i}, {j}) and {matrix[j, i]:.6g} at ({j}, {i}). "
            f"Use {advice}."
        )


def _float_or_inf(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def round_to_float32(value: float) -> float:
    """Round ``value`` to 7 digits, the precision of float32, to remove last-bit differences between libraries."""
    return float(f"{value:.7g}")


def draw_seed(random_state: Any) -> int:
    """Return a seed below 2**63 from an int, a Generator, a RandomState or None (random)."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if type(random_state) is not bool and isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise ValueError(
        f"random_state must be None, an integer >= 0 or a numpy Generator; got {random_state!r:.200}"
    )


def median_seed(random_state: Any) -> int:
    """Return the seed of ``random_state`` without advancing it; 0 for None, so that medians are reproducible."""
    is_stateful = isinstance(random_state, (np.random.Generator, np.random.RandomState))
    return (
        0 if random_state is None else draw_seed(copy.deepcopy(random_state) if is_stateful else random_state)
    )
