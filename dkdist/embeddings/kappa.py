"""Spectral measures of user-defined divergences kappa(x, y).

kappa must work elementwise on arrays, and be finite, symmetric, zero for x = y, non-negative and homogeneous of degree
one, kappa(c x, c y) = c kappa(x, y), for all x, y >= 0. Each condition is checked on a fixed grid. With Z = kappa(1,
0),

    f(t) = Z cosh(t / 2) - kappa(e^(t/2), e^(-t/2)) / 2 = int_0^inf cos(l t) dmu(l)

defines the measure mu, with an atom f(inf) at 0 and the density

    mu'(l) = (2 / pi) int_0^inf (f(t) - f(inf)) cos(l t) dt.

kappa is a squared distance in a Hilbert space exactly when mu is non-negative (Fuglede, Spirals in Hilbert space,
2005). Rounding in kappa is proportional to e^(t/2), so f is used up to t = 32 and continued by a fitted exponential.
`CosineTransform` evaluates the integral exactly for a piecewise Legendre expansion of f and the exponential tail, for
any l; panels shrink geometrically towards t = 0, where f may have a kink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import minimize_scalar
from scipy.special import spherical_jn

from dkdist._numba.arrays import F64

Kappa = Callable[[F64, F64], F64]

_LAW_RTOL = 1e-9  # relative to x + y; allows for rounding in a user's formula (no measurement recorded)


def evaluate(kappa: Kappa, x: F64, y: F64) -> F64:
    """Return kappa(x, y) as float64 without warnings; kappa(0, 0) is always 0, by homogeneity."""
    with np.errstate(all="ignore"):
        values = np.asarray(kappa(x, y), dtype=np.float64)
    return np.where((x == 0) & (y == 0), 0.0, values) if values.shape == np.shape(x) else values


def check_laws(kappa: Kappa) -> None:
    """Raise ValueError for the first condition that kappa violates on a grid of x, y in {0} and [1e-6, 1e3]."""
    levels = np.concatenate([[0.0], np.geomspace(1e-6, 1e3, 28)])
    x, y = (a.copy() for a in np.meshgrid(levels, levels, indexing="ij"))
    values = _check_vectorised(kappa, x, y)
    _check_finite(kappa, x, y, values)

    def refuse(wrong: NDArray[np.bool_], law: str, other: F64) -> None:
        if np.any(wrong):
            i = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise ValueError(
                f"kappa must be {law}; got kappa({x[i]:.6g}, {y[i]:.6g}) = {values[i]:.10g} instead of "
                f"{other[i]:.10g}."
            )

    slack = _LAW_RTOL * (x + y)
    swapped = evaluate(kappa, y, x)
    refuse(np.abs(values - swapped) > slack, "symmetric, kappa(x, y) = kappa(y, x)", swapped)
    zeros = np.zeros_like(x)
    refuse((x == y) & (np.abs(values) > slack), "zero on the diagonal, kappa(x, x) = 0", zeros)
    refuse(values < -slack, "non-negative, kappa(x, y) >= 0", zeros)
    scaled = evaluate(kappa, 3.0 * x, 3.0 * y) / 3.0
    refuse(np.abs(values - scaled) > slack, "homogeneous of degree 1, kappa(3x, 3y)/3 = kappa(x, y)", scaled)


def _check_vectorised(kappa: Kappa, x: F64, y: F64) -> F64:
    hint = "kappa(x, y) must work elementwise on float64 arrays of equal shape; write it with NumPy functions"
    try:
        values = evaluate(kappa, x, y)
    except (TypeError, ValueError) as error:
        raise ValueError(f"kappa failed on arrays of shape {x.shape}: {error}. {hint}.") from error
    if values.shape != x.shape:
        raise ValueError(
            f"kappa of arrays of shape {x.shape} must have the same shape; got {values.shape}. {hint}."
        )
    part = evaluate(kappa, x[3:5, 7:9], y[3:5, 7:9])
    if not np.allclose(part, values[3:5, 7:9], rtol=1e-12, atol=0.0, equal_nan=True):
        raise ValueError(
            f"kappa must not depend on other elements; got {part[0, 0]:g} for a part and {values[3, 7]:g} for "
            f"the whole array. {hint}."
        )
    return values


def _check_finite(kappa: Kappa, x: F64, y: F64, values: F64) -> None:
    at_zero = float(evaluate(kappa, np.array([1.0]), np.array([0.0]))[0])
    if not np.isfinite(at_zero):
        raise ValueError(
            f"kappa(1, 0), the total mass Z of the spectral measure, must be finite; got {at_zero}. Use "
            "scipy.special.xlogy for terms 0 log 0. A divergence that is infinite at 0 (Jeffreys) cannot be "
            "embedded."
        )
    if not np.all(np.isfinite(values)):
        i = np.unravel_index(int(np.argmax(~np.isfinite(values))), values.shape)
        raise ValueError(
            f"kappa must be finite for all x, y >= 0; got kappa({x[i]:.6g}, {y[i]:.6g}) = {values[i]}."
        )


_N_PANEL_NODES = 16  # makes Legendre expansions exact up to rounding (tests/densities/test_divergences.py)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(_N_PANEL_NODES)
# Row k maps the values of f at the nodes of a panel to its k-th Legendre coefficient.
_TO_LEGENDRE = (
    (np.arange(_N_PANEL_NODES) + 0.5)[:, None]
    * np.polynomial.legendre.legvander(_NODES, _N_PANEL_NODES - 1).T
    * _NODE_WEIGHTS
)


@dataclass(frozen=True)
class ExponentialTail:
    """Tail f(t) = level + (amplitude + slope tau) exp(-rate tau) + half exp(-tau / 2), tau = t - start >= 0."""

    start: float
    level: float
    amplitude: float
    slope: float
    half: float
    rate: float

    def cosine_integral(self, lam: F64) -> F64:
        """Return int_start^inf (f(t) - level) cos(lam t) dt."""
        pole = 1 / (self.rate - 1j * lam)
        terms = pole * (self.amplitude + self.slope * pole) + self.half / (0.5 - 1j * lam)
        return np.asarray(np.real(np.exp(1j * lam * self.start) * terms))


def panel_nodes(edges: F64) -> F64:
    """Return Gauss-Legendre nodes (n_panels, 16) of the panels between consecutive edges."""
    half = np.diff(edges)[:, None] / 2
    return np.asarray(edges[:-1, None] + half * (1 + _NODES))


@dataclass(frozen=True, eq=False)  # hashable by identity
class CosineTransform:
    """Cosine transform (2 / pi) int_0^inf (f(t) - level) cos(l t) dt of f given at `panel_nodes(edges)`.

    ``values`` (n_panels, 16) are f at the nodes of the panels between ``edges`` (n_panels + 1,), from 0 to
    ``tail.start``; ``tail`` is f beyond the last edge.
    """

    edges: F64
    values: F64
    tail: ExponentialTail

    def __call__(self, lam: F64) -> F64:
        """Return the density at an array of l >= 0. Cost: 16 spherical Bessel functions per panel and l."""
        lam = np.asarray(lam, dtype=np.float64)
        coefficients = (self.values - self.tail.level) @ _TO_LEGENDRE.T
        half = np.diff(self.edges) / 2
        middle = self.edges[:-1] + half
        argument = lam[..., None] * half
        # int_-1^1 P_k(s) exp(i z s) ds = 2 i^k j_k(z)
        inner = np.zeros(argument.shape, dtype=np.complex128)
        for k in range(_N_PANEL_NODES):
            inner += 1j**k * coefficients[:, k] * spherical_jn(k, argument)
        panels = 2 * np.real(np.exp(1j * lam[..., None] * middle) * inner) @ half
        return np.asarray(2 / np.pi * (panels + self.tail.cosine_integral(lam)))


@dataclass(frozen=True, eq=False)  # hashable by identity
class TabulatedDensity:
    """Density given on a grid: a spline in asinh(l), continued by height (l / end)^-power beyond the grid."""

    grid: F64
    values: F64
    height: float
    power: float

    @cached_property
    def _spline(self) -> CubicSpline:
        return CubicSpline(np.arcsinh(self.grid), self.values)

    def __call__(self, lam: F64) -> F64:
        """Return the density at an array of l >= 0."""
        lam = np.asarray(lam, dtype=np.float64)
        end = self.grid[-1]
        inside = np.maximum(self._spline(np.arcsinh(np.minimum(lam, end))), 0.0)
        beyond = self.height * np.maximum(lam / end, 1.0) ** -self.power
        return np.asarray(np.where(lam > end, beyond, inside))


@dataclass(frozen=True, eq=False)  # hashable by identity
class TabulatedMeasure:
    """Measure on l >= 0: masses (n,) between edges (n + 1,), and an atom mu({0})."""

    edges: F64
    masses: F64
    atom: float = 0.0

    @classmethod
    def from_density(cls, density: Callable[[F64], F64], edges: F64, atom: float = 0.0) -> TabulatedMeasure:
        """Integrate a density between edges with four Gauss-Legendre nodes each."""
        nodes, weights = np.polynomial.legendre.leggauss(4)
        half = np.diff(edges) / 2
        values = density(edges[:-1, None] + half[:, None] * (1 + nodes))
        return cls(edges, np.maximum(values @ weights * half, 0.0), atom)

    @property
    def total(self) -> float:
        """Total mass mu([0, inf))."""
        return self.atom + float(self.masses.sum())

    @cached_property
    def _inverse(self) -> PchipInterpolator | None:
        """Monotone interpolation of asinh(l) from -log(mass above l / mass without the atom)."""
        # Summed from the far end to keep the relative accuracy of the tail.
        above = np.cumsum(self.masses[::-1])[::-1]
        if above[0] <= 0:
            return None
        depth = -np.log(np.where(above > 0, above / above[0], 1.0))
        keep = np.flatnonzero((above > 0) & np.append(True, np.diff(above) < 0))
        depth, lower = depth[keep], self.edges[:-1][keep]
        keep = np.flatnonzero(np.append(True, np.diff(depth) > 0))
        return PchipInterpolator(depth[keep], np.arcsinh(lower[keep]))

    def quantile(self, u: F64) -> F64:
        """Return the quantiles of mu for u in [0, 1); 0 for u below the fraction of the atom."""
        u = np.asarray(u, dtype=np.float64)
        if self._inverse is None:
            return np.zeros(u.shape)
        atom_fraction = self.atom / self.total
        depth = -np.log1p(-np.clip((u - atom_fraction) / (1 - atom_fraction), 0.0, 1 - 2.0**-53))
        return np.asarray(np.sinh(self._inverse(np.minimum(depth, self._inverse.x[-1]))))


_EPS = float(np.finfo(np.float64).eps)
# Values of t. The rounding error of f is eps e^(t/2): 2e-9 at 32, 5e-12 at 20, where the fit of the tail starts.
_TAIL_START, _TAIL_FIT_START = 32.0, 20.0  # tests/densities/test_divergences.py
# Grid of tabulated densities (tests/densities/test_divergences.py compares with closed forms).
_MAX_FREQUENCY, _N_GRID = 300.0, 1201
_MAX_TABULATED_FREQUENCY = (
    1e16  # power tails have negligible mass above it (tests/densities/test_divergences.py)
)
_DENSITY_RTOL = 1e-6  # accuracy of the density in units of Z / (1 + l) (tests/densities/test_divergences.py)


@dataclass(frozen=True)
class DerivedMeasure:
    """Spectral measure: density(l), quantile(u), total mass Z, atom at 0; ``smooth`` if the second moment is finite."""

    density: Callable[[F64], F64]
    quantile: Callable[[F64], F64]
    total: float
    atom: float
    smooth: bool


def derive_measure(kappa: Kappa) -> DerivedMeasure:
    """Check a kappa and derive its spectral measure (P1, where mu defines kappa; Fuglede 2005 for the converse).

    kappa takes float64 arrays of equal shape, which may contain zeros. Density and atom are accurate to about 1e-6 of
    Z; power tails (total variation) are extrapolated beyond l = 300. Raises `ValueError` with the values that violate a
    condition. Takes about 0.2 s: a few thousand evaluations of kappa and one transform at 1,200 frequencies.

    >>> measure = derive_measure(lambda x, y: np.abs(x - y))
    >>> round(float(measure.density(np.array([0.5]))[0]) * np.pi / 2, 5)
    1.0
    """
    check_laws(kappa)
    total = float(evaluate(kappa, np.array([1.0]), np.array([0.0]))[0])
    if total <= 0:
        raise ValueError(
            f"kappa(1, 0), the divergence of densities with disjoint supports, must be positive; got {total:g}. "
            "This kappa does not distinguish any densities."
        )
    edges = np.concatenate([[0.0], 2.0 ** np.arange(-30, 0), np.arange(1.0, _TAIL_START + 0.5)])
    t = panel_nodes(edges)
    f = _profile(kappa, total, t)
    _check_bounded(t, f, total)
    tail, misfit = _fit_tail(kappa, total)
    transform = CosineTransform(edges, f, tail)
    smooth = _is_smooth(kappa)
    density = _density(transform, _DENSITY_RTOL * total + 2 * misfit, smooth)
    table = TabulatedMeasure.from_density(density, _table_edges(density), tail.level)
    if abs(table.total - total) > 1e-4 * total:
        raise ValueError(
            f"the mass of the spectral measure of kappa must be kappa(1, 0) = {total:.6g}; got {table.total:.6g} "
            "numerically. kappa is too rough away from x = y, or too noisy. Write it without cancellation."
        )
    atom = tail.level if density.values.any() else total
    return DerivedMeasure(density, table.quantile, total, atom, smooth)


def _table_edges(density: TabulatedDensity) -> F64:
    """Return edges, ten per grid step; a density that continues beyond the grid is tabulated to negligible mass."""
    ends = np.arcsinh(density.grid)
    edges = np.sinh(np.linspace(0.0, ends[-1], 10 * len(ends) + 1))
    if density.height == 0:
        return edges
    return np.append(edges, np.geomspace(density.grid[-1], _MAX_TABULATED_FREQUENCY, 1001)[1:])


def _profile(kappa: Kappa, total: float, t: F64) -> F64:
    """Return f(t), computed from kappa(1, e^-t) by homogeneity."""
    y = np.exp(-t)
    return np.exp(t / 2) * (total * (1 + y) - evaluate(kappa, np.ones_like(y), y)) / 2


def _is_smooth(kappa: Kappa) -> bool:
    """Return whether kappa(1, e^-t) / t^2 converges as t -> 0, so that mu has a second moment."""
    t = np.array([1e-2, 1e-3])
    curvature = evaluate(kappa, np.ones(2), np.exp(-t)) / t**2
    return bool(curvature[1] < 1.1 * curvature[0])


def _tail_columns(t: F64, rate: float, with_level: bool) -> F64:
    """Return the columns 1 (or 0), e^(-rate tau), tau e^(-rate tau) and e^(-tau/2); the last comes from Z cosh(t/2)."""
    tau = t - _TAIL_START
    decay = np.exp(-rate * tau)
    return np.stack([np.full_like(t, float(with_level)), decay, tau * decay, np.exp(-tau / 2)], axis=1)


def _fit_tail(kappa: Kappa, total: float) -> tuple[ExponentialTail, float]:
    """Fit f at large t; return the tail, whose level is the atom of mu at 0, and the largest residual."""
    t = np.linspace(_TAIL_FIT_START, _TAIL_START, 241)
    f = _profile(kappa, total, t)
    scale = 1 / (4 * _EPS * total * np.exp(t / 2))

    def solve(rate: float, with_level: bool) -> tuple[float, F64]:
        columns = _tail_columns(t, rate, with_level)
        coefficients = np.linalg.lstsq(columns * scale[:, None], f * scale, rcond=1e-13)[0]
        return float(np.sum(((columns @ coefficients - f) * scale) ** 2)), np.asarray(
            coefficients, dtype=np.float64
        )

    def best_rate(with_level: bool) -> float:
        rates = np.geomspace(0.01, 4.0, 60)
        best = int(np.argmin([solve(r, with_level)[0] for r in rates]))
        bracket = rates[max(best - 1, 0)], rates[min(best + 1, 59)]
        return float(minimize_scalar(lambda r: solve(r, with_level)[0], bounds=bracket, method="bounded").x)

    with_level = True
    rate = best_rate(with_level)
    squares, coefficients = solve(rate, with_level)
    if coefficients[0] < _DENSITY_RTOL * total:
        with_level, level = False, coefficients[0]
        rate = best_rate(with_level)
        squares_without, coefficients = solve(rate, with_level)
        # A slow decay resembles a small negative level. The level is real if no decay fits equally well.
        if level < -_DENSITY_RTOL * total and squares_without > 10 * max(squares, len(t)):
            raise ValueError(
                f"kappa must be of negative type; its spectral measure has the negative mass {level:.3g} at l = 0. "
                "Use another divergence."
            )
    misfit = float(np.abs(_tail_columns(t, rate, with_level) @ coefficients - f).max())
    if misfit > 1e-4 * total:
        raise ValueError(
            f"f(t) = Z cosh(t/2) - kappa(e^(t/2), e^(-t/2))/2 is {f[0]:.4g} at t = {t[0]:g} and {f[-1]:.4g} "
            f"at t = {t[-1]:g}, but must converge to a limit >= 0. kappa is not of negative type, or "
            "its spectral measure has point masses at l > 0, which are not supported."
        )
    atom, amplitude, slope, half = (float(c) for c in coefficients)
    return ExponentialTail(_TAIL_START, atom, amplitude, slope, half, rate), misfit


def _check_bounded(t: F64, f: F64, total: float) -> None:
    """Raise if |f| exceeds Z = f(0), which is impossible for a non-negative measure."""
    worst = np.unravel_index(int(np.argmax(np.abs(f))), f.shape)
    if np.abs(f[worst]) > total * (1 + _DENSITY_RTOL):
        raise ValueError(
            f"kappa must be of negative type; |Z cosh(t/2) - kappa(e^(t/2), e^(-t/2))/2| exceeds Z = kappa(1, 0) = "
            f"{total:.6g}, with the value {f[worst]:.6g} at t = {t[worst]:.3g}. Use another divergence."
        )


def _density(transform: CosineTransform, noise_level: float, smooth: bool) -> TabulatedDensity:
    """Return the density on a grid, with its continuation; raise ValueError if it is negative."""
    grid = np.sinh(np.linspace(0.0, np.arcsinh(_MAX_FREQUENCY), _N_GRID))
    values = transform(grid)
    noise = noise_level / (1 + grid)
    worst = int(np.argmin(values / noise))
    if values[worst] < -noise[worst]:
        raise ValueError(
            f"kappa must be of negative type; its spectral density is negative, {values[worst]:.3g} at l = "
            f"{grid[worst]:.3g} (numerical noise {noise[worst]:.1g}). Use another divergence."
        )
    if not smooth:
        return TabulatedDensity(grid, values, *_power_law(transform))
    clear = np.flatnonzero(values > noise / 10)
    if len(clear) == 0:
        return TabulatedDensity(grid, np.zeros_like(grid), 0.0, 0.0)
    stop = max(int(clear[-1]) + 1, 8)
    return TabulatedDensity(grid[:stop], values[:stop], 0.0, 0.0)


def _power_law(transform: CosineTransform) -> tuple[float, float]:
    """Return height and power of the density at the end of the grid."""
    window = np.geomspace(_MAX_FREQUENCY / 4, _MAX_FREQUENCY, 40)
    values = np.log(np.maximum(transform(window), 1e-300))
    height, slope = np.polynomial.polynomial.polyfit(np.log(window / window[-1]), values, 1)
    if not -4.0 < slope < -1.0:
        raise ValueError(
            "the spectral density of a kappa that is not smooth at x = y must decay with a power of l between -4 and "
            f"-1; got {slope:.3g} near l = {_MAX_FREQUENCY:g}. kappa is too rough or too noisy near x = y."
        )
    return float(np.exp(height)), -float(slope)
