"""Elastic distances of series: ERP, TWED, MSM, soft-DTW and the global alignment kernel.

Cost of a pair: n m d multiply-adds, in vector registers along the diagonals of its table (`_series_numba.py`), or the
part of them inside the band.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._base.invalid_sets import PairError
from dkdist._base.parameter_checks import check_int, check_scale
from dkdist._numba.arrays import F32, I64
from dkdist._numba.points import read_only
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances._series_numba import (
    ALIGN,
    CELLS_PER_BLOCK,
    GAPS,
    MOVES,
    SOFT,
    STAMPS,
    fill_diagonals,
)
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.series import BackwardSeries, pack_backward, require_band


class _Elastic(Distance):
    """Base class: subclasses define the kind of costs and their parameters."""

    ordered = squares_coordinates = True
    is_translation_invariant = False  # points are also compared with 0 or with the gap value

    band: float | None

    @property
    def _cost_params(self) -> tuple[int, float, float]:
        """Return (kind, a, extra) for `fill_diagonals`."""
        raise NotImplementedError

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs: pairs are compared one by one."""
        return CostModel(1, 10 / sizes.mean())

    def _shifted(self, points: F32) -> F32:
        return np.ascontiguousarray(points, np.float32)

    def prepare(self, points: F32, offsets: I64, weights: F32 | None = None) -> BackwardSeries:
        """Pack the landmarks in reverse order; needs memory for the points."""
        self.reject_weights(weights)
        return pack_backward(self._shifted(points), offsets, np.arange(len(offsets) - 1))

    def fill(self, packed: BackwardSeries, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of series i to landmark j."""
        self.reject_weights(weights)
        if points.shape[1] != packed.n_dims:
            raise ValueError(
                f"series must have {packed.n_dims} dimensions, like the landmarks; got {points.shape[1]}."
            )
        self._fill_paths(packed, self._shifted(points), offsets, out)

    def _fill_paths(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        kind, a, extra = self._cost_params
        band = -1.0 if self.band is None else float(self.band)
        options = kind, kind not in (SOFT, ALIGN), np.float32(a), np.float32(extra), band, False, False
        arrays = packed.values, packed.edges, packed.columns, rows, offsets
        fill_diagonals(*options, *(read_only(array) for array in arrays), out)


@serializable("ERP")
@dataclass(frozen=True)
class ERP(_Elastic):
    """Edit distance with real penalty, a metric (Chen and Ng 2004).

    Deleted points are compared with ``gap``.

    ``band`` is defined as for `DynamicTimeWarping`, and also restricts the borders of the table; the result is then not
    a metric.

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
            raise ValueError(f"gap must be a number with absolute value below 1e15; got {self.gap!r:.200}.")

    @property
    def _cost_params(self) -> tuple[int, float, float]:
        return GAPS, 0.0, 0.0

    def _shifted(self, points: F32) -> F32:
        return np.ascontiguousarray(points - self.gap, np.float32)


@serializable("TWED")
@dataclass(frozen=True)
class TWED(_Elastic):
    """Time warp edit distance: a metric for ``nu`` > 0, the stiffness of time (Marteau 2009).

    Points have the times 1, 2, ..; ``nu`` is the cost per unit of time, ``penalty`` (lambda) the cost of deleting a
    point. Series start at the value 0, so the first points count. ``band`` is defined as for `DynamicTimeWarping`; the
    result is then not a metric.

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
        check_scale("nu", self.nu)
        check_scale("penalty", self.penalty)

    @property
    def _cost_params(self) -> tuple[int, float, float]:
        return STAMPS, self.nu, self.nu + self.penalty


@serializable("MSM")
@dataclass(frozen=True)
class MSM(_Elastic):
    """Move-split-merge: a metric in which a point may move, split and merge (Stefan, Athitsos and Das 2013).

    ``cost`` is the cost of a split or a merge. The distance of multivariate series is the sum over variables.
    ``band`` is defined as for `DynamicTimeWarping`; the result is then not a metric.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.MSM(cost=0.5))[0, 1]), 4)
    1.5
    """

    cost: float = 1.0
    band: float | None = None

    is_translation_invariant = True

    def __post_init__(self) -> None:
        require_band(self.band)
        check_scale("cost", self.cost)

    @property
    def _cost_params(self) -> tuple[int, float, float]:
        return MOVES, self.cost, 0.0

    def _fill_paths(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        if packed.n_dims == 1:
            super()._fill_paths(packed, rows, offsets, out)
            return
        out[:] = 0
        variable_out = np.empty_like(out)
        sizes = np.diff(packed.edges)
        variable = np.concatenate([np.repeat(np.arange(packed.n_dims), size) for size in sizes])
        for e in range(packed.n_dims):
            values = np.concatenate(
                [packed.values[: len(variable)][variable == e], np.zeros(CELLS_PER_BLOCK, np.float32)]
            )
            univariate = packed._replace(n_dims=1, values=values)
            super()._fill_paths(univariate, np.ascontiguousarray(rows[:, e : e + 1]), offsets, variable_out)
            out += variable_out


class _DebiasedElastic(_Elastic):
    """Base class of distances that subtract half of the value of each series with itself, if ``divergence``."""

    divergence = True
    is_translation_invariant = True

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs: preparing a series includes comparing it with itself."""
        return CostModel(1, 1 + 10 / sizes.mean())

    def prepare(self, points: F32, offsets: I64, weights: F32 | None = None) -> BackwardSeries:
        """Pack the landmarks in reverse order, with the value of each landmark with itself."""
        packed = super().prepare(points, offsets, weights)
        return (
            packed._replace(self_distances=self._self_distances(self._shifted(points), offsets))
            if self.divergence
            else packed
        )

    def _self_distances(self, rows: F32, offsets: I64) -> F32:
        values = np.empty((len(offsets) - 1, 1), np.float32)
        for s in range(len(values)):
            points, edges = rows[offsets[s] : offsets[s + 1]], np.array([0, offsets[s + 1] - offsets[s]])
            super()._fill_paths(
                pack_backward(points, edges, np.zeros(1, np.int64)), points, edges, values[s : s + 1]
            )
        return values[:, 0]

    def _fill_paths(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        super()._fill_paths(packed, rows, offsets, out)
        if packed.self_distances is not None:
            out -= (packed.self_distances + self._self_distances(rows, offsets)[:, None]) / 2
            np.maximum(out, 0, out=out)


@serializable("SoftDTW")
@dataclass(frozen=True)
class SoftDTW(_DebiasedElastic):
    """Soft dynamic time warping, with a soft minimum of width ``gamma``; not a metric (Cuturi and Blondel 2017).

    With ``divergence=True``, half of the value of each series with itself is subtracted; the result is >= 0, and 0 for
    equal series (Blondel, Mensch and Vert 2021). Otherwise, values may be negative. Point costs are squared Euclidean
    distances. As gamma tends to 0, the value tends to that of `DynamicTimeWarping`, with the same ``band``.

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

    def __post_init__(self) -> None:
        require_band(self.band)
        check_scale("gamma", self.gamma)
        check_bool("divergence", self.divergence)

    @property
    def _cost_params(self) -> tuple[int, float, float]:
        return SOFT, self.gamma, 0.0


@serializable("GlobalAlignment")
@dataclass(frozen=True)
class GlobalAlignment(_DebiasedElastic):
    """Distance -log k(x, y) or sqrt(2 - 2 k(x, y)) of the normalised global alignment kernel k (Cuturi 2011).

    K(x, y) is the sum, over all alignments of x and y, of the product of kappa(x_i, y_j) over aligned points, where

        kappa(a, b) = g / (2 - g),   g = exp(-|a - b|^2 / (2 sigma^2)),

    and k(x, y) = K(x, y) / sqrt(K(x, x) K(y, y)). K is positive definite (Cuturi, Vert, Birkenes and Matsui 2007), and
    k(x, y) = 1 only for x = y. With kappa = g (2007), which may be indefinite, -log k is `SoftDTW` (gamma = 2 sigma^2)
    divided by gamma.

    - ``metric=False``: -log k, which is unbounded and not a metric. The features exp(-gamma d) of `DistanceEmbedding`
      are the powers k^gamma. ``exp(-distance_matrix(...))`` is the matrix of k.
    - ``metric=True``: sqrt(2 - 2 k), the distance in the feature space of k, a metric. Most pairs of long series have
      the maximum sqrt(2), unless ``sigma`` is large.

    ``sigma`` has the units of the points. Cuturi uses 0.2 to 5 times the median distance of points times the square
    root of the median length. An integer T as ``triangular`` aligns only points with |i - j| < T and multiplies g by
    1 - |i - j| / T, which is faster and also positive definite. Series whose lengths differ by T or more then have
    k = 0: the distance is sqrt(2) with ``metric=True``, and an error is raised with ``metric=False``.

    K is computed as a logarithm, so long series do not underflow. The error of -log k is about 1e-5 relative to
    max(1, -log k), for up to 1,000 points.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.GlobalAlignment(sigma=1.0))[0, 1]), 3)
    1.615
    """

    sigma: float = 1.0
    triangular: int | None = None
    metric: bool = False

    band = None

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma)
        check_bool("metric", self.metric)
        if self.triangular is not None:
            check_int("triangular", self.triangular, maximum=2**24)  # exact in float32

    @property
    def _cost_params(self) -> tuple[int, float, float]:
        return ALIGN, 2 * self.sigma**2, float(self.triangular or 0)

    def _fill_paths(self, packed: BackwardSeries, rows: F32, offsets: I64, out: F32) -> None:
        if self.triangular is not None and not self.metric:
            self._require_alignments(np.diff(offsets), np.diff(packed.edges))
        super()._fill_paths(packed, rows, offsets, out)
        out /= np.float32(2 * self.sigma**2)
        if self.metric:
            out[:] = np.sqrt(-2 * np.expm1(-out))

    def _require_alignments(self, sizes: I64, landmark_sizes: I64) -> None:
        gaps = np.abs(sizes[:, None] - landmark_sizes)
        if gaps.max(initial=0) >= self.triangular:
            i, j = np.unravel_index(int(gaps.argmax()), gaps.shape)
            raise PairError(
                int(i),
                int(j),
                f"is infinite: lengths {sizes[i]} and {landmark_sizes[j]} have no alignment with "
                f"triangular={self.triangular}. Increase triangular, or use metric=True",
            )
