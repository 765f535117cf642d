"""Which one or two numbers of every point a picture shows: its dimensions, two that were named, or principal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.loops.array_types import F64
from dkdist.plot.canvas import plain
from dkdist.sets import SampleSets

MOST_POINTS = 3000  # of one set that are drawn


@dataclass(frozen=True)
class Plane:
    """Coordinates (points - middle) @ directions of the points, (n, 1) or (n, 2), and what they are called."""

    labels: tuple[str, ...]
    middle: F64
    directions: F64

    @property
    def n_dims(self) -> int:
        """One or two."""
        return len(self.labels)

    def of(self, points: Any) -> F64:
        """The coordinates of points (n, d)."""
        return np.asarray((np.asarray(points, np.float64) - self.middle) @ self.directions)


def plane_of(sets: SampleSets, dims: Any = None) -> Plane:
    """The plane (or line) in which sets are drawn; ``dims`` are one or two dimensions, by position or by name."""
    names, d = names_of(sets), sets.n_dims
    if dims is None and d > 2:
        return _principal(np.asarray(sets.points, np.float64))
    chosen = list(range(d)) if dims is None else _positions(dims, names)
    labels = tuple(plain(names[j]) for j in chosen)
    return Plane(labels, np.zeros(d), np.eye(d)[:, chosen])


def names_of(sets: SampleSets) -> list[str]:
    """The names of the dimensions, or their positions in words."""
    names = getattr(sets, "names", None)
    return [f"dimension {j}" for j in range(sets.n_dims)] if names is None else [str(name) for name in names]


def shown_points(n: int) -> slice | Any:
    """Which of n points are drawn: all, or as many as can be told apart, drawn at random by a fixed seed."""
    if n <= MOST_POINTS:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n, MOST_POINTS, replace=False))


def _positions(dims: Any, names: list[str]) -> list[int]:
    asked = [dims] if isinstance(dims, (str, int, np.integer)) else list(dims) if np.iterable(dims) else None
    advice = f"give one or two of {len(names)} dimensions, by position or by name"
    if asked is None or len(asked) not in (1, 2):
        raise ValueError(f"dims must be one dimension or a pair; found {dims!r:.200}: {advice}")
    found = [_position(one, names, advice) for one in asked]
    if len(set(found)) < len(found):
        raise ValueError(f"dims must be two different dimensions; found {dims!r:.200}: {advice}")
    return found


def _position(one: Any, names: list[str], advice: str) -> int:
    if isinstance(one, str) and one in names:
        return names.index(one)
    if isinstance(one, (int, np.integer)) and not isinstance(one, bool) and 0 <= one < len(names):
        return int(one)
    known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise ValueError(f"dims: there is no dimension {one!r:.100} among {known}: {advice}")


def _principal(points: F64) -> Plane:
    """The two directions in which points spread most; the largest entry of each is positive."""
    middle = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(points.T, ddof=0)))
    first = np.argsort(values)[::-1][:2]
    directions = vectors[:, first]
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    shares = values[first] / max(values.sum(), np.finfo(float).tiny)
    labels = tuple(f"principal direction {k} ({100 * s:.0f} %)" for k, s in enumerate(shares, 1))
    return Plane(labels, middle, directions)
