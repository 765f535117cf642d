"""Measures on l >= 0: from a function to its cosine measure, and from a density to its quantiles.

If f(t) = int_0^inf cos(l t) dmu(l), then mu has an atom f(inf) at 0 and the density

    mu'(l) = (2 / pi) int_0^inf (f(t) - f(inf)) cos(l t) dt.

`CosineTransform` evaluates the integral exactly for a piecewise Legendre expansion of f on [0, T] and an
exponential tail past T, so no l is too large for it; panels shrink geometrically towards t = 0, where f may
have a kink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import spherical_jn

from dkdist.loops.array_types import F64

_DEGREE = 16
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(_DEGREE)
# Row k takes the values of f at the nodes of a panel to its k-th Legendre coefficient.
_TO_LEGENDRE = (
    (np.arange(_DEGREE) + 0.5)[:, None]
    * np.polynomial.legendre.legvander(_NODES, _DEGREE - 1).T
    * _NODE_WEIGHTS
)


@dataclass(frozen=True)
class ExponentialTail:
    """f(t) = level + (amplitude + slope tau) exp(-rate tau) + half exp(-tau / 2) for tau = t - start >= 0."""

    start: float
    level: float
    amplitude: float
    slope: float
    half: float
    rate: float

    def cosine_integral(self, lam: F64) -> F64:
        """int_start^inf (f(t) - level) cos(lam t) dt."""
        pole = 1 / (self.rate - 1j * lam)
        terms = pole * (self.amplitude + self.slope * pole) + self.half / (0.5 - 1j * lam)
        return np.asarray(np.real(np.exp(1j * lam * self.start) * terms))


def panel_nodes(edges: F64) -> F64:
    """The (n_panels, 16) Gauss-Legendre nodes of the panels between consecutive edges."""
    half = np.diff(edges)[:, None] / 2
    return np.asarray(edges[:-1, None] + half * (1 + _NODES))


@dataclass(frozen=True, eq=False)  # hashable by identity
class CosineTransform:
    """(2 / pi) int_0^inf (f(t) - level) cos(l t) dt for f given at `panel_nodes(edges)`.

    ``values`` (n_panels, 16) are f at the nodes of the panels between ``edges`` (n_panels + 1,), which reach from 0 to
    ``tail.start``; ``tail`` is f past the last edge.
    """

    edges: F64
    values: F64
    tail: ExponentialTail

    def __call__(self, lam: F64) -> F64:
        """The density at an array of l >= 0. Cost: 16 spherical Bessel functions a panel and l."""
        lam = np.asarray(lam, dtype=np.float64)
        coefficients = (self.values - self.tail.level) @ _TO_LEGENDRE.T
        half = np.diff(self.edges) / 2
        middle = self.edges[:-1] + half
        argument = lam[..., None] * half
        # int_-1^1 P_k(s) exp(i z s) ds = 2 i^k j_k(z)
        inner = np.zeros(argument.shape, dtype=np.complex128)
        for k in range(_DEGREE):
            inner += 1j**k * coefficients[:, k] * spherical_jn(k, argument)
        panels = 2 * np.real(np.exp(1j * lam[..., None] * middle) * inner) @ half
        return np.asarray(2 / np.pi * (panels + self.tail.cosine_integral(lam)))


@dataclass(frozen=True, eq=False)  # hashable by identity
class TabulatedDensity:
    """A density given on a grid of l: a spline in asinh(l) inside, height (l / end)^-power past it.

    A height of 0 ends the density there.
    """

    grid: F64
    values: F64
    height: float
    power: float

    @cached_property
    def _spline(self) -> CubicSpline:
        return CubicSpline(np.arcsinh(self.grid), self.values)

    def __call__(self, lam: F64) -> F64:
        """The density at an array of l >= 0."""
        lam = np.asarray(lam, dtype=np.float64)
        end = self.grid[-1]
        inside = np.maximum(self._spline(np.arcsinh(np.minimum(lam, end))), 0.0)
        beyond = self.height * np.maximum(lam / end, 1.0) ** -self.power
        return np.asarray(np.where(lam > end, beyond, inside))


@dataclass(frozen=True, eq=False)  # hashable by identity
class TabulatedMeasure:
    """A density on l >= 0 plus an atom mu({0}), as masses (n,) of the intervals between edges (n + 1,), from 0."""

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
        """mu([0, inf))."""
        return self.atom + float(self.masses.sum())

    @cached_property
    def _inverse(self) -> PchipInterpolator | None:
        """asinh(l) as a monotone function of -log of the mass above l, in units of the total without "
        "the atom."""
        # Summed from the far end: the tail keeps its relative accuracy.
        above = np.cumsum(self.masses[::-1])[::-1]
        if above[0] <= 0:
            return None
        depth = -np.log(np.where(above > 0, above / above[0], 1.0))
        keep = np.flatnonzero((above > 0) & np.append(True, np.diff(above) < 0))
        depth, left = depth[keep], self.edges[:-1][keep]
        keep = np.flatnonzero(np.append(True, np.diff(depth) > 0))
        return PchipInterpolator(depth[keep], np.arcsinh(left[keep]))

    def quantile(self, u: F64) -> F64:
        """The l below which the share u of mu lies, for u in [0, 1); 0 while u is below the atom's share."""
        u = np.asarray(u, dtype=np.float64)
        if self._inverse is None:
            return np.zeros(u.shape)
        share = self.atom / self.total
        depth = -np.log1p(-np.clip((u - share) / (1 - share), 0.0, 1 - 2.0**-53))
        return np.asarray(np.sinh(self._inverse(np.minimum(depth, self._inverse.x[-1]))))
