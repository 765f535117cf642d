"""What kernel distances are given: point sets or shapes, weights and bandwidths, checked by name.

A bandwidth is one number, several (their kernels are added), or a matrix of scales.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import one_of, positive
from dkdist._base.sampling import median_distance, some
from dkdist._numba.arrays import F64, Array
from dkdist._numba.points import column_bounds, not_finite
from dkdist._numba.weighted_points import WeightedPoints, boxes_of
from dkdist._utils.validation import real_array, require_same_names
from dkdist.kernels.shapes import Shape, Surface, is_mesh

MEDIAN_SAMPLE_SIZE = 512  # points of each set that the median distance is taken of
MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = (
    1e-140,
    1e150,
)  # of the total weight: squares of it, and of single ones, are numbers
SHAPE_HINT = ", a Curve or a Surface"
CHECK_ROWS = 2**16  # points that are looked at at once
MAX_WIDTH_PER_BANDWIDTH = 1e100  # of the width of the points over the bandwidth
MAX_CONDITION = 1e12  # of a matrix of scales


@dataclass(frozen=True)
class Pair:
    """Points of P (n, d), then of Q, from the middle of their box, with its sides; weights of Q are negative."""

    points: WeightedPoints
    shapes: bool
    widths: F64

    @property
    def n(self) -> int:
        """Points of P."""
        return len(self.points.sets[0])


def read_pair(P: Any, Q: Any, weights: Any) -> Pair:
    """Two point sets with their weights, or two shapes."""
    require_same_names(P=P, Q=Q)
    P, Q = (
        value if isinstance(value, np.ndarray | Shape) or not is_mesh(value) else Surface(value)
        for value in (P, Q)
    )
    given: tuple[Array | None, Array | None]
    if isinstance(P, Shape) or isinstance(Q, Shape):
        sets, given = _check_shapes(P, Q, weights)
    else:
        sets = check_points("P", P, SHAPE_HINT), check_points("Q", Q, SHAPE_HINT)
        given = _check_weight_pair(weights, sets)
    d, other = (p.shape[1] for p in sets)
    if d != other:
        raise ValueError(f"P has {d} dimensions and Q has {other}: both must have the same")
    points = WeightedPoints(sets, given, (1.0, -1.0), boxes=boxes_of(sets))
    total = points.size
    if not MIN_TOTAL_WEIGHT <= total <= MAX_TOTAL_WEIGHT:
        wrong = f"more than {MAX_TOTAL_WEIGHT:g}" if total > 1 else f"less than {MIN_TOTAL_WEIGHT:g}"
        raise ValueError(
            f"the weights of P and Q (lengths or areas of shapes) sum to {total:.3g}, {wrong}: give others"
        )
    low, high = points.bounds
    return Pair(points.elsewhere(middle=low / 2 + high / 2), isinstance(P, Shape), points.widths)


def read_points(P: Any, Q: Any, weights: Any) -> Pair:
    """Two point sets with their weights; shapes are refused."""
    pair = read_pair(P, Q, weights)
    if pair.shapes:
        raise ValueError("P and Q must be point sets, not shapes: give arrays (n, d)")
    return pair


def _check_weight_pair(weights: Any, points: tuple[Array, Array]) -> tuple[Array | None, Array | None]:
    given = (None, None) if weights is None else weights
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"weights must be None or a pair (w_P, w_Q); found {type(weights).__name__}")
    w_P, w_Q = (check_weights(name, w, len(p)) for name, w, p in zip("PQ", given, points, strict=True))
    return w_P, w_Q


def _check_shapes(P: Any, Q: Any, weights: Any) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
    kinds = [value.kind if isinstance(value, Shape) else type(value).__name__ for value in (P, Q)]
    if not isinstance(P, Shape) or not isinstance(Q, Shape) or P.kind != Q.kind:
        raise ValueError(
            f"P and Q must both be point sets, curves or surfaces; found {kinds[0]} and {kinds[1]}"
        )
    if P.varifold != Q.varifold:
        raise ValueError("one shape is a varifold and the other a current: make both with the same varifold=")
    if weights is not None:
        raise ValueError("weights are for point sets: those of shapes are their lengths or areas")
    return (P.points, Q.points), (P.channels, Q.channels)


def bounding_box(x: F64) -> tuple[F64, F64]:
    """The middle of the box of points (n, d), and its sides: infinite where they are too long for a float."""
    low, high = column_bounds(x)
    with np.errstate(over="ignore"):
        return low / 2 + high / 2, high - low


def as_points(name: str, points: ArrayLike, others: str = "") -> F64:
    """A set of points as (n, d) float64 in C order; ``others`` says what else could be given."""
    return np.ascontiguousarray(check_points(name, points, others), np.float64)


def check_points(name: str, points: ArrayLike, others: str = "") -> Array:
    """The same as it was given, in whatever order and dtype, without a copy of an array."""
    array = real_array(name, points)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be points (n, d) of real numbers with n, d >= 1{others}; found {array.dtype} of shape "
            f"{array.shape}. Use x[:, None] for one dimension"
        )
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    for first in range(0, len(array), CHECK_ROWS):
        x = np.ascontiguousarray(array[first : first + CHECK_ROWS], dtype)
        lost = not_finite(x)
        if len(lost):
            point = x[lost[0]].tolist()
            raise ValueError(f"point {first + lost[0]} of {name} is {point}: every value must be finite")
    return array


def as_weights(name: str, weights: ArrayLike | None, points: Array) -> F64:
    """(n, 1) weights as they are given, or equal ones that sum to one."""
    array = check_weights(name, weights, len(points))
    if array is None:
        return np.full((len(points), 1), 1 / len(points))
    return array.astype(np.float64)[:, None]


def check_weights(name: str, weights: ArrayLike | None, n: int) -> Array | None:
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


class Bandwidths(NamedTuple):
    """The points that kernels see, their bandwidths, what mapped them, if anything, and if one kernel was meant."""

    pair: Pair
    widths: list[float]
    inverse: F64 | None
    single: bool


def resolve_bandwidths(pair: Pair, sigma: Any, h: Any, gamma: Any, kernel: str, seed: int = 0) -> Bandwidths:
    """What ``sigma``, ``h`` or ``gamma`` say of a pair of sets."""
    if kernel == "energy" and sigma is None and h is None and gamma is None:
        return Bandwidths(pair, [1.0], None, single=True)
    if not isinstance(sigma, (list, tuple, np.ndarray)) or np.ndim(sigma) == 0:
        return Bandwidths(pair, [resolve_bandwidth(pair, sigma, h, gamma, kernel, seed)], None, single=True)
    values = real_array("sigma", sigma)
    if values.ndim == 2:
        mapped, inverse = _map_by_matrix(pair, values.astype(np.float64))
        return Bandwidths(
            mapped, [resolve_bandwidth(mapped, 1.0, h, gamma, kernel, seed)], inverse, single=True
        )
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            "sigma must be a positive number, several (their kernels are added), or a matrix (d, d) of scales; found "
            f"an array of shape {values.shape}"
        )
    widths = [resolve_bandwidth(pair, value, h, gamma, kernel, seed) for value in values.tolist()]
    return Bandwidths(pair, widths, None, single=False)


def _map_by_matrix(pair: Pair, S: F64) -> tuple[Pair, F64]:
    d = pair.points.d
    if S.shape != (d, d) or not np.isfinite(S).all() or not np.linalg.cond(S) <= MAX_CONDITION:
        raise ValueError(
            f"a matrix of scales must be ({d}, {d}), finite and invertible (with a condition number of at most "
            f"{MAX_CONDITION:g}); found shape {S.shape}: for one scale a dimension give np.diag(scales)"
        )
    inverse = np.asarray(np.linalg.inv(S), np.float64)
    points = pair.points.elsewhere(inverse=inverse)
    return replace(pair, points=points, widths=points.widths), inverse


def resolve_bandwidth(pair: Pair, sigma: Any, h: Any, gamma: Any, kernel: str, seed: int = 0) -> float:
    """The standard deviation sigma of exactly one of three forms; "median" for that of points drawn from a seed."""
    given = {
        name: value for name, value in (("sigma", sigma), ("h", h), ("gamma", gamma)) if value is not None
    }
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise ValueError(
            "give exactly one bandwidth: sigma for exp(-r^2 / (2 sigma^2)), h for exp(-r^2 / h), or gamma for "
            f"exp(-gamma r^2); found {found}"
        )
    name, value = next(iter(given.items()))
    if name != "sigma" and kernel != "gaussian":
        raise ValueError(f"{name} is a bandwidth of kernel='gaussian': give sigma for kernel={kernel!r}")
    if isinstance(value, str):
        if name != "sigma":
            raise ValueError(f"{name} must be a positive number; found {value!r}: only sigma may be 'median'")
        one_of(name, value, ("median",))
        result = _median_distance(pair, seed)
    else:
        number = positive(name, value)
        result = {"sigma": number, "h": np.sqrt(number / 2), "gamma": np.sqrt(0.5 / number)}[name]
    check_bandwidth(name, value, float(result), float(pair.widths.max()))
    return float(result)


def _median_distance(pair: Pair, seed: int) -> float:
    sets = pair.points.only(0), pair.points.only(1)
    sigma = median_distance(np.concatenate([x.at(some(len(x), MEDIAN_SAMPLE_SIZE, seed))[0] for x in sets]))
    if sigma == 0:
        raise ValueError("sigma='median' needs points that differ, but all are equal: give sigma a number")
    return sigma


def check_bandwidth(name: str, value: object, sigma: float, width: float) -> None:
    """Refuse a bandwidth that is too small or too large for a float, or too small for the width of the points."""
    if not np.finfo(np.float64).tiny <= sigma < np.inf:
        size = "small" if sigma < 1 else "large"
        raise ValueError(
            f"the bandwidth {name}={value!r} is too {size} for a float: give points in other units"
        )
    if not width / MAX_WIDTH_PER_BANDWIDTH <= sigma:
        raise ValueError(
            f"the points are {width:.3g} wide, more than {MAX_WIDTH_PER_BANDWIDTH:g} bandwidths of {sigma:.3g}: check the units"
        )
