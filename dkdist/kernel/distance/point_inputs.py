"""Point sets as they are given, with weights and a bandwidth, checked by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dkdist.loops.array_types import F64, Array
from dkdist.loops.points import column_bounds, not_finite
from dkdist.plain.real_arrays import real_array

ROWS = 2**16  # points that are looked at at once
FARTHEST = 1e100  # of the width of the points over the bandwidth


def box(x: F64) -> tuple[F64, F64]:
    """The middle of the box of points (n, d), and its sides: infinite where they are too long for a float."""
    low, high = column_bounds(x)
    with np.errstate(over="ignore"):
        return low / 2 + high / 2, high - low


def points_of(name: str, points: ArrayLike, others: str = "") -> F64:
    """A set of points as (n, d) float64 in C order; ``others`` says what else could be given."""
    return np.ascontiguousarray(given_points(name, points, others), np.float64)


def given_points(name: str, points: ArrayLike, others: str = "") -> Array:
    """The same as it was given, in whatever order and dtype, without a copy of an array."""
    array = real_array(name, points)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be points (n, d) of real numbers with n, d >= 1{others}; found {array.dtype} of shape "
            f"{array.shape}. Use x[:, None] for one dimension"
        )
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    for first in range(0, len(array), ROWS):
        x = np.ascontiguousarray(array[first : first + ROWS], dtype)
        lost = not_finite(x)
        if len(lost):
            point = x[lost[0]].tolist()
            raise ValueError(f"point {first + lost[0]} of {name} is {point}: every value must be finite")
    return array


def weights_of(name: str, weights: ArrayLike | None, points: Array) -> F64:
    """(n, 1) weights as they are given, or equal ones that sum to one."""
    array = given_weights(name, weights, len(points))
    if array is None:
        return np.full((len(points), 1), 1 / len(points))
    return array.astype(np.float64)[:, None]


def given_weights(name: str, weights: ArrayLike | None, n: int) -> Array | None:
    """Weights (n,) of any dtype as they are given; None, for equal ones, stays None."""
    if weights is None:
        return None
    array = real_array(f"the weights of {name}", weights)
    if array.shape != (n,):
        raise ValueError(
            f"the weights of {name} must be {n} real numbers, one a point; found {array.dtype} of shape "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"weight {i} of {name} is {array[i]}: every weight must be finite")
    if not array.any():
        raise ValueError(
            f"the weights of {name} are all zero: give None for equal ones, or weights that count"
        )
    return array


def require_near(name: str, value: object, sigma: float, width: float) -> None:
    """Refuse a bandwidth that is too small or too large for a float, or too small for the width of the points."""
    if not np.finfo(np.float64).tiny <= sigma < np.inf:
        size = "small" if sigma < 1 else "large"
        raise ValueError(
            f"the bandwidth {name}={value!r} is too {size} for a float: give points in other units"
        )
    if not width / FARTHEST <= sigma:
        raise ValueError(
            f"the points are {width:.3g} wide, more than {FARTHEST:g} bandwidths of {sigma:.3g}: check the units"
        )
