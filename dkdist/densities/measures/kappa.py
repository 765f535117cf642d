"""A user's own kappa(x, y): what it must satisfy, and its spectral measure.

With Z = kappa(1, 0), the function

    f(t) = Z cosh(t / 2) - kappa(e^(t/2), e^(-t/2)) / 2 = int_0^inf cos(l t) dmu(l)

gives the measure mu. Rounding in kappa grows like e^(t/2) while f settles, so f is used up to t = 32 only and
continued from there by an exponential fitted where it is still clean. kappa is a squared distance in a
Hilbert space exactly when mu is non-negative (Fuglede, Spirals in Hilbert space, 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from dkdist.densities.measures.kappa_checks import Kappa, check_laws, evaluate
from dkdist.densities.measures.spectral_measures import (
    CosineTransform,
    ExponentialTail,
    TabulatedDensity,
    TabulatedMeasure,
    panel_nodes,
)
from dkdist.loops.array_types import F64

_EPS = float(np.finfo(np.float64).eps)
_TAIL_START, _TAIL_FIT_FROM = 32.0, 20.0  # in t
_LARGEST_FREQUENCY, _GRID_SIZE = 300.0, 1201
_FAR_END = 1e16  # past this l nothing is tabulated
_NOISE = 1e-6  # accuracy of the density, in units of Z / (1 + l)


@dataclass(frozen=True)
class DerivedMeasure:
    """The measure of a kappa: density(l), quantile(u), total Z, atom at 0; smooth: a finite second moment."""

    density: Callable[[F64], F64]
    quantile: Callable[[F64], F64]
    total: float
    atom: float
    smooth: bool


def derive_measure(kappa: Kappa) -> DerivedMeasure:
    """Check a kappa and derive its spectral measure (P1, where mu defines kappa; Fuglede 2005 for the converse).

    kappa takes float64 arrays of one shape, zeros included. Density and atom are right to about 1e-6 of Z; measures
    with a power tail (total variation) are continued by that power past l = 300. `ValueError`, one message for each
    law that kappa can break, with the numbers that break it. About 0.2 s: some thousand evaluations of kappa and one
    transform at 1,200 frequencies.

    >>> measure = derive_measure(lambda x, y: np.abs(x - y))
    >>> round(float(measure.density(np.array([0.5]))[0]) * np.pi / 2, 5)
    1.0
    """
    check_laws(kappa)
    total = float(evaluate(kappa, np.array([1.0]), np.array([0.0]))[0])
    if total <= 0:
        raise ValueError(
            f"kappa(1, 0) = {total:g}: expected a positive number, the divergence of densities apart. This "
            "kappa separates nothing."
        )
    edges = np.concatenate([[0.0], 2.0 ** np.arange(-30, 0), np.arange(1.0, _TAIL_START + 0.5)])
    t = panel_nodes(edges)
    f = _profile(kappa, total, t)
    _check_bounded(t, f, total)
    tail, misfit = _fit_tail(kappa, total)
    transform = CosineTransform(edges, f, tail)
    smooth = _is_smooth(kappa)
    density = _density(transform, _NOISE * total + 2 * misfit, smooth)
    table = TabulatedMeasure.from_density(density, _table_edges(density), tail.level)
    if abs(table.total - total) > 1e-4 * total:
        raise ValueError(
            f"the measure of kappa could not be resolved: its mass comes out as {table.total:.6g}, expected "
            f"kappa(1, 0) = {total:.6g}. kappa is too rough away from x = y, or too noisy; write it without "
            "cancellation."
        )
    atom = tail.level if density.values.any() else total
    return DerivedMeasure(density, table.quantile, total, atom, smooth)


def _table_edges(density: TabulatedDensity) -> F64:
    """Ten edges a grid step, continued to where nothing counts if the density goes on past the grid."""
    ends = np.arcsinh(density.grid)
    edges = np.sinh(np.linspace(0.0, ends[-1], 10 * len(ends) + 1))
    if density.height == 0:
        return edges
    return np.append(edges, np.geomspace(density.grid[-1], _FAR_END, 1001)[1:])


def _profile(kappa: Kappa, total: float, t: F64) -> F64:
    """f(t), by homogeneity from kappa(1, e^-t)."""
    y = np.exp(-t)
    return np.exp(t / 2) * (total * (1 + y) - evaluate(kappa, np.ones_like(y), y)) / 2


def _is_smooth(kappa: Kappa) -> bool:
    """Whether kappa(1, e^-t) / t^2 settles as t -> 0, that is whether mu has a second moment."""
    t = np.array([1e-2, 1e-3])
    curvature = evaluate(kappa, np.ones(2), np.exp(-t)) / t**2
    return bool(curvature[1] < 1.1 * curvature[0])


def _tail_columns(t: F64, rate: float, with_level: bool) -> F64:
    """1, e^(-rate t), t e^(-rate t), and the e^(-t/2) that Z cosh(t/2) always leaves, as columns."""
    tau = t - _TAIL_START
    decay = np.exp(-rate * tau)
    return np.stack([np.full_like(t, float(with_level)), decay, tau * decay, np.exp(-tau / 2)], axis=1)


def _fit_tail(kappa: Kappa, total: float) -> tuple[ExponentialTail, float]:
    """The behaviour of f at large t, whose level is the atom of mu at 0, and its misfit."""
    t = np.linspace(_TAIL_FIT_FROM, _TAIL_START, 241)
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
    if coefficients[0] < _NOISE * total:
        with_level, level = False, coefficients[0]
        rate = best_rate(with_level)
        squares_without, coefficients = solve(rate, with_level)
        # A slow decay can pass for a small negative level; a level that the decay cannot mimic is real.
        if level < -_NOISE * total and squares_without > 10 * max(squares, len(t)):
            raise ValueError(
                f"kappa is not of negative type: its spectral measure has the mass {level:.3g} at l = 0, "
                "expected >= 0. No embedding reproduces it; take another divergence."
            )
    misfit = float(np.abs(_tail_columns(t, rate, with_level) @ coefficients - f).max())
    if misfit > 1e-4 * total:
        raise ValueError(
            f"f(t) = Z cosh(t/2) - kappa(e^(t/2), e^(-t/2))/2 is {f[0]:.4g} at t = {t[0]:g} and {f[-1]:.4g} "
            f"at t = {t[-1]:g}: expected it to settle at a level >= 0. kappa is not of negative type, or "
            "its measure has point masses at l > 0, which are not supported."
        )
    atom, amplitude, slope, half = (float(c) for c in coefficients)
    return ExponentialTail(_TAIL_START, atom, amplitude, slope, half, rate), misfit


def _check_bounded(t: F64, f: F64, total: float) -> None:
    """A cosine integral of a non-negative measure never exceeds its value Z at t = 0."""
    worst = np.unravel_index(int(np.argmax(np.abs(f))), f.shape)
    if np.abs(f[worst]) > total * (1 + _NOISE):
        raise ValueError(
            f"kappa is not of negative type: Z cosh(t/2) - kappa(e^(t/2), e^(-t/2))/2 is {f[worst]:.6g} at "
            f"t = {t[worst]:.3g}, expected at most Z = kappa(1, 0) = {total:.6g}. No embedding reproduces "
            "it; take another divergence."
        )


def _density(transform: CosineTransform, noise_level: float, smooth: bool) -> TabulatedDensity:
    """The density on a grid, with its continuation; refuses negative ones."""
    grid = np.sinh(np.linspace(0.0, np.arcsinh(_LARGEST_FREQUENCY), _GRID_SIZE))
    values = transform(grid)
    noise = noise_level / (1 + grid)
    worst = int(np.argmin(values / noise))
    if values[worst] < -noise[worst]:
        raise ValueError(
            f"kappa is not of negative type: its spectral density is {values[worst]:.3g} at l = "
            f"{grid[worst]:.3g}, expected >= 0 (numerical noise {noise[worst]:.1g}). No embedding "
            "reproduces it; take another divergence."
        )
    if not smooth:
        return TabulatedDensity(grid, values, *_power_law(transform))
    clear = np.flatnonzero(values > noise / 10)
    if len(clear) == 0:
        return TabulatedDensity(grid, np.zeros_like(grid), 0.0, 0.0)
    stop = max(int(clear[-1]) + 1, 8)
    return TabulatedDensity(grid[:stop], values[:stop], 0.0, 0.0)


def _power_law(transform: CosineTransform) -> tuple[float, float]:
    """Height and power of the density at the end of the grid."""
    window = np.geomspace(_LARGEST_FREQUENCY / 4, _LARGEST_FREQUENCY, 40)
    values = np.log(np.maximum(transform(window), 1e-300))
    height, slope = np.polynomial.polynomial.polyfit(np.log(window / window[-1]), values, 1)
    if not -4.0 < slope < -1.0:
        raise ValueError(
            f"the spectral density of kappa goes like l^{slope:.3g} near l = {_LARGEST_FREQUENCY:g}: "
            "expected a power between -4 and -1 for a kappa that is not smooth at x = y. It is too rough "
            "or too noisy there."
        )
    return float(np.exp(height)), -float(slope)
