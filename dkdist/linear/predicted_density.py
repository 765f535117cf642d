"""`PredictedDensity`: a density on a box, from coefficients of cosines whose sum may be negative.

    s(x) = sum_a c_a phi_a(x),   phi_a(x) = prod_j sqrt(2)^[a_j > 0] cos(pi a_j x_j),   c_0 = 1,   x in [0, 1]^d

The density nearest to s in L2 is (s - xi)+, where xi makes its integral one. It is at least as near to every density as
s (Gajek 1986; Glad, Hjort, Ushakov 2003). Here s is evaluated at the midpoints of a grid by a cosine transform, and xi
is exact for these values v_k. Between midpoints the density is interpolated linearly in each dimension, and it is
constant in the half cells at the boundary:

    p(x) = sum_k v_k prod_j hat(g x_j - k_j - 1/2),   hat(u) = max(0, 1 - |u|), reflected at 0 and 1

So p is a mixture of triangular densities. Its integral is the mean of the v_k, which is one, and points are drawn from
it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import idctn
from scipy.ndimage import map_coordinates

from dkdist._base.parameter_checks import RandomStateLike, check_int, check_real_array, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64
from dkdist._utils.memory_budget import require_memory
from dkdist.linear._tuning import GRID_POINTS_PER_FUNCTION, MIN_GRID_POINTS


@dataclass(frozen=True, eq=False)
class PredictedDensity:
    """Probability density on a box in one to three dimensions, as `DensityRegressor` predicts it.

    Parameters
    ----------
    coefficients : array-like of shape (K,) * d
        Coefficients of products of 1 and sqrt(2) cos(pi a x) on the box scaled to [0, 1]^d, for degrees a < K. The
        first one is 1.
    low, high : array-likes of shape (d,)
        Corners of the box.

    Raises
    ------
    ValueError
        For other shapes, values that are not finite, or a box without volume.

    Notes
    -----
    The density is the projection of the series on the densities: clipped at zero after subtracting a constant, so that
    its integral is one up to rounding. The first call computes and caches it on a grid: 16 points per function in one
    dimension (at least 256), 8 in two (64) and 4 in three (32) along each axis, 8 bytes each. Linear interpolation
    changes the cosine of degree a by at most the fraction (pi a / g)^2 / 8 for g points: 0.5, 2 and 8 % of the highest
    degree, which is usually damped to a tenth.

    References
    ----------
    Gajek: On improving density estimators which are not bona fide functions (1986). Glad, Hjort, Ushakov: Correction of
    density estimators that are not densities (2003).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.beta(2 + i % 3, 3, size=(200, 1)) for i in range(30)]
    >>> density = dk.DensityRegressor(random_state=0).fit(sets, sets).predict(sets[:1])[0]
    >>> low, high = density.domain
    >>> x = np.linspace(low[0], high[0], 1001)
    >>> bool(abs(np.trapezoid(density.pdf(x), x) - 1) < 1e-3)
    True
    >>> density.sample(5, random_state=0).shape
    (5, 1)
    """

    coefficients: F64
    low: F64
    high: F64

    def __post_init__(self) -> None:
        for name in ("coefficients", "low", "high"):
            values = check_real_array(name, getattr(self, name))
            if not np.isfinite(values).all():
                raise ValueError(f"{name} must be finite; got {values[~np.isfinite(values)][0]}.")
            object.__setattr__(self, name, values)
        c, d = self.coefficients, self.n_dims
        if d not in MIN_GRID_POINTS or len(set(c.shape)) != 1 or c.size == 0 or not np.isclose(c.flat[0], 1):
            raise ValueError(
                f"coefficients must have shape (K,), (K, K) or (K, K, K), and the first must be 1; got shape {c.shape}"
                + (f" and {c.flat[0]:.6g}." if c.size else ".")
            )
        if self.low.shape != (d,) or self.high.shape != (d,) or not (self.low < self.high).all():
            raise ValueError(
                f"low and high must have shape ({d},), and low < high; got {self.low!s:.80} and {self.high!s:.80}."
            )

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return self.coefficients.ndim

    @property
    def domain(self) -> tuple[F64, F64]:
        """Corners (low, high) of the box, each (d,); the density is zero outside."""
        return self.low, self.high

    @cached_property
    def grid_values(self) -> F64:
        """Values at the midpoints of g cells along each axis of the scaled box, (g,) * d; their mean is one."""
        d, n_functions = self.n_dims, self.coefficients.shape[0]
        g = max(GRID_POINTS_PER_FUNCTION[d] * n_functions, MIN_GRID_POINTS[d])
        return project_density(np.asarray(idctn(self.coefficients, s=(g,) * d, norm="ortho")) * g ** (d / 2))

    def pdf(self, x: ArrayLike) -> F64:
        """Return the density (n,) at points x (n, d), or (n,) in one dimension; zero outside the box."""
        values, unit = self.grid_values, (self._check_points(x) - self.low) / (self.high - self.low)
        is_inside = np.all((unit >= 0) & (unit <= 1), axis=1)
        cells = np.where(is_inside[:, None], unit, 0) * values.shape[0] - 0.5
        density: F64 = map_coordinates(values, cells.T, order=1, mode="nearest")
        density[~is_inside] = 0
        return density / np.prod(self.high - self.low)

    def sample(self, n: int, random_state: RandomStateLike = None) -> F64:
        """Return n independent points (n, d) from the density.

        Parameters
        ----------
        n : int
        random_state : int, Generator or None, default=None
        """
        n, values = check_int("n", n), self.grid_values
        require_memory(
            n * (8 + 48 * self.n_dims), f"a sample of {n} points needs", "draw fewer points at a time"
        )
        rng = np.random.default_rng([draw_seed(random_state), RngStream.DENSITY_POINTS])
        cells = rng.choice(values.size, n, p=values.ravel() / values.sum())
        midpoints = np.stack(np.unravel_index(cells, values.shape), axis=1) + 0.5
        # the difference of two uniform numbers has a triangular density
        unit = np.abs(midpoints + rng.random(midpoints.shape) - rng.random(midpoints.shape)) / values.shape[0]
        points: F64 = self.low + np.minimum(unit, 2 - unit) * (self.high - self.low)
        return points

    def _check_points(self, x: ArrayLike) -> F64:
        points = check_real_array("x", x)
        if self.n_dims == 1 and points.ndim == 1:
            points = points[:, None]
        if points.ndim != 2 or points.shape[1] != self.n_dims:
            raise ValueError(f"x must be points of shape (n, {self.n_dims}); got shape {np.shape(x)}.")
        if not np.isfinite(points).all():
            i = int(np.argmin(np.isfinite(points).all(axis=1)))
            raise ValueError(f"x must be finite; got {points[i]} (point {i}).")
        return points


def project_density(values: F64) -> F64:
    """Return max(values - xi, 0) with a mean of one.

    xi is the solution for a fixed set of positive values. It increases until the set no longer shrinks (Michelot 1986).
    The largest value is at most xi + n for n values, so values n below the largest are never positive.
    """
    values = np.maximum(values - values.max(), -values.size)  # large values would lose the unit of the mean
    positive = values.ravel()
    while True:
        xi = (positive.sum() - values.size) / len(positive)
        remaining = positive[positive > xi]
        if len(remaining) == len(positive):
            return np.asarray(np.maximum(values - xi, 0))
        positive = remaining
