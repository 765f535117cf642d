"""What kernel distances are given: point sets or shapes, weights and a bandwidth, checked by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.drawn_samples import median_distance, some
from dkdist.base.parameter_checks import one_of, positive
from dkdist.kernel.distance.point_inputs import given_points, given_weights, require_near
from dkdist.kernel.distance.shapes import Shape, Surface, is_mesh
from dkdist.loops.array_types import F64, Array
from dkdist.loops.tiles.weighted_points import WeightedPoints, boxes_of
from dkdist.plain.real_arrays import require_same_names

SAMPLE = 512  # points of each set that the median distance is taken of
LEAST, LARGEST = 1e-140, 1e150  # of the total weight: squares of it, and of single ones, are numbers
OR_SHAPE = ", a Curve or a Surface"


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
    P, Q = (Surface(value) if is_mesh(value) and not isinstance(value, Shape) else value for value in (P, Q))
    given: tuple[Array | None, Array | None]
    if isinstance(P, Shape) or isinstance(Q, Shape):
        sets, given = _two_shapes(P, Q, weights)
    else:
        sets = given_points("P", P, OR_SHAPE), given_points("Q", Q, OR_SHAPE)
        given = _two_weights(weights, sets)
    d, other = (p.shape[1] for p in sets)
    if d != other:
        raise ValueError(f"P has {d} dimensions and Q has {other}: both must have the same")
    points = WeightedPoints(sets, given, (1.0, -1.0), boxes=boxes_of(sets))
    total = points.size
    if not LEAST <= total <= LARGEST:
        wrong = f"more than {LARGEST:g}" if total > 1 else f"less than {LEAST:g}"
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


def _two_weights(weights: Any, points: tuple[Array, Array]) -> tuple[Array | None, Array | None]:
    given = (None, None) if weights is None else weights
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"weights must be None or a pair (w_P, w_Q); found {type(weights).__name__}")
    w_P, w_Q = (given_weights(name, w, len(p)) for name, w, p in zip("PQ", given, points, strict=True))
    return w_P, w_Q


def _two_shapes(P: Any, Q: Any, weights: Any) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
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


def bandwidth(pair: Pair, sigma: Any, h: Any, gamma: Any, kernel: str, seed: int = 0) -> float:
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
        result = _median(pair, seed)
    else:
        number = positive(name, value)
        result = {"sigma": number, "h": np.sqrt(number / 2), "gamma": np.sqrt(0.5 / number)}[name]
    require_near(name, value, float(result), float(pair.widths.max()))
    return float(result)


def _median(pair: Pair, seed: int) -> float:
    sets = pair.points.only(0), pair.points.only(1)
    sigma = median_distance(np.concatenate([x.at(some(len(x), SAMPLE, seed))[0] for x in sets]))
    if sigma == 0:
        raise ValueError("sigma='median' needs points that differ, but all are equal: give sigma a number")
    return sigma
