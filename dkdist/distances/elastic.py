"""Elastic distances of series beside dynamic time warping: ERP, TWED, MSM and soft-DTW, with bands.

Cost of a pair: n m d multiply-adds, in vector registers along the diagonals of its table (`diagonal_loops`); a band
leaves out what is outside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._base.parameter_checks import within_float32
from dkdist._numba.arrays import F32, I64
from dkdist._numba.points import read_only
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances._series_numba import GAPS, MOVES, SOFT, STAMPS, WHOLE, fill_diagonals
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.series import BackwardSeries, backwards, require_band


class _Elastic(Distance):
    """Series along diagonals; a subclass says what kind it is and with which numbers."""

    ordered = squares = True
    knows_differences = False  # points are compared with 0 or a gap, too

    band: float | None

    @property
    def _numbers(self) -> tuple[int, float, float]:
        """(kind, a, what it costs anyway to leave a point out) for the loops."""
        raise NotImplementedError

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """Each pair goes alone."""
        return CostModel(1, 10 / sizes.mean())

    def _shifted(self, points: F32) -> F32:
        return np.ascontiguousarray(points, np.float32)

    def prepare(self, points: F32, offsets: I64, weights: F32 | None = None) -> BackwardSeries:
        """The omegas from their last points to their first; memory is that of the points."""
        self.refuse_weights(weights)
        return backwards(self._shifted(points), offsets, np.arange(len(offsets) - 1))

    def fill(self, packed: BackwardSeries, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """out[i, j] = distance of series i to omega j; see the package for the contract."""
        self.refuse_weights(weights)
        if points.shape[1] != packed.n_dims:
            raise ValueError(
                f"expected series of {packed.n_dims} dimensions as the omegas have, found {points.shape[1]}"
            )
        self._ways(packed, self._shifted(points), offsets, out)

    def _ways(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        kind, a, extra = self._numbers
        band = -1.0 if self.band is None else float(self.band)
        options = kind, kind != SOFT, np.float32(a), np.float32(extra), band, False, False
        arrays = packed.values, packed.edges, packed.columns, rows, offsets
        fill_diagonals(*options, *(read_only(array) for array in arrays), out)


@serializable("ERP")
@dataclass(frozen=True)
class ERP(_Elastic):
    """Edit distance with real penalty: a metric that compares points that are left out with ``gap`` (Chen and Ng 2004).

    ``band`` as for `DynamicTimeWarping`, also along the borders of the table; then it is no metric.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.ERP())[0, 1]), 4)
    2.0
    """

    gap: float = 0.0
    band: float | None = None

    def __post_init__(self) -> None:
        require_band(self.band)
        if (
            isinstance(self.gap, bool)
            or not isinstance(self.gap, (int, float, np.number))
            or not abs(self.gap) < 1e15
        ):
            raise ValueError(f"gap must be a number below 1e15; found {self.gap!r:.200}")

    @property
    def _numbers(self) -> tuple[int, float, float]:
        return GAPS, 0.0, 0.0

    def _shifted(self, points: F32) -> F32:
        return np.ascontiguousarray(points - self.gap, np.float32)


@serializable("TWED")
@dataclass(frozen=True)
class TWED(_Elastic):
    """Time warp edit distance: a metric for ``nu`` > 0, the stiffness of time (Marteau 2009).

    Points have the times 1, 2, ..; ``nu`` is the price of a step of time, ``penalty`` (lambda) that of leaving a point
    out. Series begin at 0, so the first points count. ``band`` as for `DynamicTimeWarping`; then it is no metric.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.TWED(nu=0.5))[0, 1]), 4)
    2.5
    """

    nu: float = 0.001
    penalty: float = 1.0
    band: float | None = None

    def __post_init__(self) -> None:
        require_band(self.band)
        within_float32("nu", self.nu)
        within_float32("penalty", self.penalty)

    @property
    def _numbers(self) -> tuple[int, float, float]:
        return STAMPS, self.nu, self.nu + self.penalty


@serializable("MSM")
@dataclass(frozen=True)
class MSM(_Elastic):
    """Move-split-merge: a metric in which a point may move, split and merge (Stefan, Athitsos and Das 2013).

    ``cost`` is the price of a split or a merge. Of series of several variables it is the sum of those of each variable.
    ``band`` as for `DynamicTimeWarping`; then it is no metric.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.MSM(cost=0.5))[0, 1]), 4)
    1.5
    """

    cost: float = 1.0
    band: float | None = None

    knows_differences = True

    def __post_init__(self) -> None:
        require_band(self.band)
        within_float32("cost", self.cost)

    @property
    def _numbers(self) -> tuple[int, float, float]:
        return MOVES, self.cost, 0.0

    def _ways(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        if packed.n_dims == 1:
            super()._ways(packed, rows, offsets, out)
            return
        out[:] = 0
        of_one = np.empty_like(out)
        sizes = np.diff(packed.edges)
        variable = np.concatenate([np.repeat(np.arange(packed.n_dims), size) for size in sizes])
        for e in range(packed.n_dims):
            values = np.concatenate(
                [packed.values[: len(variable)][variable == e], np.zeros(WHOLE, np.float32)]
            )
            one = packed._replace(n_dims=1, values=values)
            super()._ways(one, np.ascontiguousarray(rows[:, e : e + 1]), offsets, of_one)
            out += of_one


@serializable("SoftDTW")
@dataclass(frozen=True)
class SoftDTW(_Elastic):
    """Soft dynamic time warping, with a soft minimum of width ``gamma``; no metric (Cuturi and Blondel 2017).

    With ``divergence=True`` half of both series' own values is subtracted: not negative, and 0 for equal series
    (Blondel, Mensch and Vert 2021). Without, values may be negative. Squared Euclidean distances of points, as in
    `DynamicTimeWarping`, which it tends to as gamma falls; ``band`` as there.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.SoftDTW(0.1))[0, 1]), 3)
    1.986
    """

    gamma: float = 1.0
    band: float | None = None
    divergence: bool = True

    knows_differences = True

    def __post_init__(self) -> None:
        require_band(self.band)
        within_float32("gamma", self.gamma)
        check_bool("divergence", self.divergence)

    @property
    def _numbers(self) -> tuple[int, float, float]:
        return SOFT, self.gamma, 0.0

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """Each pair goes alone, and each series with itself where it is made ready."""
        return CostModel(1, 1 + 10 / sizes.mean())

    def prepare(self, points: F32, offsets: I64, weights: F32 | None = None) -> BackwardSeries:
        """The omegas from their last points to their first, and their own values."""
        packed = super().prepare(points, offsets, weights)
        return packed._replace(own=self._own(self._shifted(points), offsets)) if self.divergence else packed

    def _own(self, rows: F32, offsets: I64) -> F32:
        own = np.empty((len(offsets) - 1, 1), np.float32)
        for s in range(len(own)):
            points, edges = rows[offsets[s] : offsets[s + 1]], np.array([0, offsets[s + 1] - offsets[s]])
            super()._ways(backwards(points, edges, np.zeros(1, np.int64)), points, edges, own[s : s + 1])
        return own[:, 0]

    def _ways(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        super()._ways(packed, rows, offsets, out)
        if packed.own is not None:
            out -= (packed.own + self._own(rows, offsets)[:, None]) / 2
            np.maximum(out, 0, out=out)
