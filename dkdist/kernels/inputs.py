"""Validation of point sets, shapes, weights and bandwidths for kernel distances.

A bandwidth is one number, several (their kernels are added), or a matrix of scales.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import check_choice, check_positive
from dkdist._base.sampling import median_distance, random_subset
from dkdist._numba.arrays import F64, Array
from dkdist._numba.points import column_bounds, nonfinite_rows
from dkdist._numba.weighted_points import WeightedPoints, set_bounds
from dkdist._utils.validation import as_columns, as_real_array, require_same_names
from dkdist.kernels._tuning import CHECK_ROWS, MEDIAN_SAMPLE_SIZE
from dkdist.kernels.shapes import Shape, Surface, is_mesh

if TYPE_CHECKING:
    from dkdist.io.lazy_sets import LazySets
    from dkdist.sets import SampleSets

# Keep squares of total and single weights within normal float64 numbers (tests/kernel/test_weighted_coresets.py).
MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = 1e-140, 1e150
PointsLike: TypeAlias = "ArrayLike | Shape | SampleSets | LazySets"
"""A point set (an array in memory, of Dask or of Zarr, a store of one set), or a shape."""
SHAPE_HINT = ", a Curve or a Surface"
MAX_WIDTH_PER_BANDWIDTH = 1e100  # keeps squared distances below 1e308 (tests/kernel/test_kernel_distance.py)
MAX_CONDITION = 1e12  # the inverse of the matrix keeps 4 digits (tests/kernel/test_kernel_distance.py)


@dataclass(frozen=True)
class Pair:
    """Points of P (n, d), then of Q, relative to the centre of their bounding box; weights of Q are negative."""

    points: WeightedPoints
    are_shapes: bool
    widths: F64

    @property
    def n(self) -> int:
        """Number of points of P."""
        return len(self.points.sets[0])


def read_pair(P: Any, Q: Any, weights: Any) -> Pair:
    """Check two point sets with their weights, or two shapes."""
    require_same_names(P=P, Q=Q)
    P, Q = (
        value if isinstance(value, np.ndarray | Shape) or not is_mesh(value) else Surface(value)
        for value in (P, Q)
    )
    checked_weights: tuple[Array | None, Array | None]
    if isinstance(P, Shape) or isinstance(Q, Shape):
        sets, checked_weights = _check_shapes(P, Q, weights)
    else:
        sets = check_points("P", P, SHAPE_HINT), check_points("Q", Q, SHAPE_HINT)
        checked_weights = _check_weight_pair(weights, sets)
    d, other = (p.shape[1] for p in sets)
    if d != other:
        raise ValueError(f"P and Q must have the same number of dimensions; got {d} and {other}.")
    points = WeightedPoints(sets, checked_weights, (1.0, -1.0), boxes=set_bounds(sets))
    total = points.size
    if not MIN_TOTAL_WEIGHT <= total <= MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"absolute weights of P and Q (lengths or areas of shapes) must have a sum from {MIN_TOTAL_WEIGHT:g} to "
            f"{MAX_TOTAL_WEIGHT:g}; got {total:.3g}. Rescale them."
        )
    low, high = points.bounds
    return Pair(points.with_transform(middle=low / 2 + high / 2), isinstance(P, Shape), points.widths)


def read_points(P: Any, Q: Any, weights: Any) -> Pair:
    """Check two point sets with their weights; raise ValueError for shapes."""
    pair = read_pair(P, Q, weights)
    if pair.are_shapes:
        raise ValueError("P and Q must be arrays of points (n, d); got shapes.")
    return pair


def _check_weight_pair(weights: Any, points: tuple[Array, Array]) -> tuple[Array | None, Array | None]:
    pair = (None, None) if weights is None else weights
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"weights must be None or a pair (w_P, w_Q); got {type(weights).__name__}.")
    w_P, w_Q = (check_weights(name, w, len(p)) for name, w, p in zip("PQ", pair, points, strict=True))
    return w_P, w_Q


def _check_shapes(P: Any, Q: Any, weights: Any) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
    kinds = [value.kind if isinstance(value, Shape) else type(value).__name__ for value in (P, Q)]
    if not isinstance(P, Shape) or not isinstance(Q, Shape) or P.kind != Q.kind:
        raise ValueError(
            f"P and Q must both be point sets, curves or surfaces; got {kinds[0]} and {kinds[1]}."
        )
    if P.varifold != Q.varifold:
        raise ValueError(
            "P and Q must both be varifolds or both be currents; got one of each. Pass the same varifold= for both."
        )
    if weights is not None:
        raise ValueError("weights must be None for shapes, whose weights are their lengths or areas.")
    return (P.points, Q.points), (P.channels, Q.channels)


def bounding_box(x: F64) -> tuple[F64, F64]:
    """Return the centre and the sides of the bounding box of points (n, d); sides that overflow are infinite."""
    low, high = column_bounds(x)
    with np.errstate(over="ignore"):
        return low / 2 + high / 2, high - low


def as_points(name: str, points: ArrayLike, others: str = "") -> F64:
    """Return points as (n, d) float64 in C order; ``others`` names accepted alternatives in the error message."""
    return np.ascontiguousarray(check_points(name, points, others), np.float64)


def check_points(name: str, points: ArrayLike, others: str = "") -> Array:
    """Check points (n, d), or (n,) for d = 1, without copying or converting them; return (n, d)."""
    array = as_columns(as_real_array(name, points))
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be points (n, d) of real numbers with n, d >= 1{others}; got {array.dtype} of shape "
            f"{np.shape(points)}."
        )
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    for first in range(0, len(array), CHECK_ROWS):
        x = np.ascontiguousarray(array[first : first + CHECK_ROWS], dtype)
        invalid = nonfinite_rows(x)
        if len(invalid):
            point = x[invalid[0]].tolist()
            raise ValueError(f"{name} must be finite; got {point} at point {first + invalid[0]}.")
    return array


def as_weights(name: str, weights: ArrayLike | None, points: Array) -> F64:
    """Return checked weights (n, 1), or equal weights that sum to one for None."""
    array = check_weights(name, weights, len(points))
    if array is None:
        return np.full((len(points), 1), 1 / len(points))
    return array.astype(np.float64)[:, None]


def check_weights(name: str, weights: ArrayLike | None, n: int) -> Array | None:
    """Check weights (n,) without converting them; None means equal weights."""
    if weights is None:
        return None
    array = as_real_array(f"weights of {name}", weights)
    if array.shape != (n,):
        raise ValueError(
            f"weights of {name} must be {n} real numbers, one per point; got {array.dtype} of shape {array.shape}."
        )
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"weights of {name} must be finite; got {array[i]} at point {i}.")
    if not array.any():
        raise ValueError(f"weights of {name} must not all be zero. Pass None for equal weights.")
    return array


class Bandwidths(NamedTuple):
    """Points and their bandwidths, with the inverse of a matrix of scales (None without one).

    ``is_single`` is False for a sequence of bandwidths.
    """

    pair: Pair
    sigmas: list[float]
    inverse: F64 | None
    is_single: bool


def resolve_bandwidths(pair: Pair, sigma: Any, h: Any, gamma: Any, kernel: str, seed: int = 0) -> Bandwidths:
    """Resolve ``sigma``, ``h`` or ``gamma`` for a pair of sets."""
    if kernel == "energy" and sigma is None and h is None and gamma is None:
        return Bandwidths(pair, [1.0], None, is_single=True)
    if not isinstance(sigma, (list, tuple, np.ndarray)) or np.ndim(sigma) == 0:
        return Bandwidths(
            pair, [resolve_bandwidth(pair, sigma, h, gamma, kernel, seed)], None, is_single=True
        )
    values = as_real_array("sigma", sigma)
    if values.ndim == 2:
        mapped, inverse = _map_by_matrix(pair, values.astype(np.float64))
        return Bandwidths(
            mapped, [resolve_bandwidth(mapped, 1.0, h, gamma, kernel, seed)], inverse, is_single=True
        )
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            "sigma must be a positive number, a sequence of them (their kernels are added), or a matrix (d, d) of "
            f"scales; got an array of shape {values.shape}."
        )
    widths = [resolve_bandwidth(pair, value, h, gamma, kernel, seed) for value in values.tolist()]
    return Bandwidths(pair, widths, None, is_single=False)


def _map_by_matrix(pair: Pair, S: F64) -> tuple[Pair, F64]:
    d = pair.points.d
    if S.shape != (d, d) or not np.isfinite(S).all() or not np.linalg.cond(S) <= MAX_CONDITION:
        raise ValueError(
            f"sigma must be a finite ({d}, {d}) matrix with a condition number of at most {MAX_CONDITION:g}; got shape "
            f"{S.shape}. Pass np.diag(scales) for one scale per dimension."
        )
    inverse = np.asarray(np.linalg.inv(S), np.float64)
    points = pair.points.with_transform(inverse=inverse)
    return replace(pair, points=points, widths=points.widths), inverse


def resolve_bandwidth(pair: Pair, sigma: Any, h: Any, gamma: Any, kernel: str, seed: int = 0) -> float:
    """Return sigma from one of three forms of bandwidth; "median", the default, samples points by a seed."""
    values = {
        name: value for name, value in (("sigma", sigma), ("h", h), ("gamma", gamma)) if value is not None
    } or {"sigma": "median"}
    if len(values) > 1:
        raise ValueError(
            "at most one bandwidth is accepted: sigma for exp(-r^2 / (2 sigma^2)), h for exp(-r^2 / h), or gamma for "
            f"exp(-gamma r^2); got {' and '.join(values)}."
        )
    name, value = next(iter(values.items()))
    if name != "sigma" and kernel != "gaussian":
        raise ValueError(f"{name} requires kernel='gaussian'; got {kernel!r}. Pass sigma for this kernel.")
    if isinstance(value, str):
        if name != "sigma":
            raise ValueError(f"{name} must be a positive number; got {value!r}. Only sigma accepts 'median'.")
        check_choice(name, value, ("median",))
        result = _median_distance(pair, seed)
    else:
        number = check_positive(name, value)
        result = {"sigma": number, "h": np.sqrt(number / 2), "gamma": np.sqrt(0.5 / number)}[name]
    check_bandwidth(name, value, float(result), float(pair.widths.max()))
    return float(result)


def _median_distance(pair: Pair, seed: int) -> float:
    sets = pair.points.select_set(0), pair.points.select_set(1)
    sigma = median_distance(
        np.concatenate([x.take(random_subset(len(x), MEDIAN_SAMPLE_SIZE, seed))[0] for x in sets])
    )
    if sigma == 0:
        raise ValueError(
            "sigma='median' requires distinct points, but all are equal. Pass a number as sigma."
        )
    return sigma


def check_bandwidth(name: str, value: object, sigma: float, width: float) -> None:
    """Require a bandwidth within float64 that is not tiny compared to the width of the points."""
    if not np.finfo(np.float64).tiny <= sigma < np.inf:
        size = "small" if sigma < 1 else "large"
        raise ValueError(f"{name}={value!r} is too {size} for float64. Rescale the points and the bandwidth.")
    if not width / MAX_WIDTH_PER_BANDWIDTH <= sigma:
        raise ValueError(
            f"points must be at most {MAX_WIDTH_PER_BANDWIDTH:g} bandwidths wide; got width {width:.3g} and bandwidth "
            f"{sigma:.3g}. Check the units."
        )
