"""Penalised Cox regression (proportional hazards) from passes over blocks of rows, in bounded memory.

A set with row x has the hazard (rate of the event among sets still without it) h(t | x) = h0(t) exp(w.x). With events
at times u_1 < .. < u_K, weights m_i of the rows, f_i = w.x_i and Breslow's treatment of equal times,

    minimise  -l(w) + alpha / 2 |w|^2,    l = sum_(events i) m_i f_i - sum_k d_k log S_k,
    S_k = sum over rows with t_i >= u_k of m_i exp(f_i),    d_k = sum of the m_i of events at u_k

(Cox 1972; Breslow 1974; ridge penalty: Verweij, van Houwelingen 1994). Divided by n this is the objective of
scikit-survival. Times, events and f are n numbers each, so the gradient is exact and needs one pass over the rows:

    gradient of l = sum_i x_i r_i,    r_i = m_i (event_i - exp(f_i) L(t_i)),    L(t) = sum_(u_k <= t) d_k / S_k,

with the martingale residuals r (Therneau, Grambsch, Fleming 1990, Biometrika 77, 147) and the Breslow estimate L of
the cumulative hazard. The Hessian is sum_i x_i x_i' v_i L(t_i) - sum_k d_k mu_k mu_k', with v_i = m_i exp(f_i) and
the means mu_k of the rows at risk. Here the K means are replaced by their d_k-weighted means in up to 64 intervals of
time, which need one pass and 64 p numbers. By Jensen's inequality that matrix is at least the Hessian: every step is
a descent direction, the minimum is unchanged, and with at most 64 event times the steps are Newton's. f is linear
along a step, so the line search needs no pass. A step takes two passes, and n p^2 operations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64
from dkdist.linear._tuning import CG_RTOL, COX_RTOL, MAX_CG_STEPS, MAX_COX_STEPS, MAX_TIME_INTERVALS

# Backtracking with the condition of Armijo (Nocedal, Wright, Numerical optimization, 2006, algorithm 3.1). Steps below
# 1e-9 differ from none by rounding errors only.
STEP_SIZES, ARMIJO_RATIO = 0.5 ** np.arange(30), 1e-4


@dataclass(frozen=True)
class Survival:
    """Events (n,), times (n,) and positive weights (n,) of rows; an event at time t precedes censoring at t."""

    event: NDArray[np.bool_]
    time: F64
    weights: F64

    def take(self, rows: I64) -> Survival:
        """Return the rows with these indices."""
        return Survival(self.event[rows], self.time[rows], self.weights[rows])

    @property
    def event_fraction(self) -> float:
        """Weighted fraction of rows with an event."""
        return float(self.weights @ self.event / self.weights.sum())

    @cached_property
    def event_times(self) -> F64:
        """Distinct event times (K,), ascending."""
        return np.unique(self.time[self.event])

    @cached_property
    def _n_reached(self) -> I64:
        """Number of event times up to the time of each row."""
        return np.searchsorted(self.event_times, self.time, side="right")

    @cached_property
    def _event_weights(self) -> F64:
        at = self._n_reached[self.event] - 1
        return np.bincount(at, self.weights[self.event], len(self.event_times)).astype(np.float64)

    @cached_property
    def _descending(self) -> tuple[I64, I64]:
        """Order of the rows by falling time, and the last position in it that is at risk at each event time."""
        order = np.argsort(-self.time, kind="stable")
        return order, np.searchsorted(-self.time[order], -self.event_times, side="right") - 1

    def _log_risk_sums(self, f: F64) -> F64:
        """Return log S_k (K,); logarithms do not overflow."""
        order, last = self._descending
        return np.logaddexp.accumulate(f[order] + np.log(self.weights[order]))[last]

    def log_likelihood(self, f: F64) -> float:
        """Return the log partial likelihood of log hazards f (n,)."""
        of_events = (self.weights * f)[self.event].sum()
        return float(of_events - self._event_weights @ self._log_risk_sums(f))

    def baseline(self, f: F64) -> F64:
        """Return the Breslow estimate (K,) of the cumulative hazard of f = 0 at the event times."""
        return np.asarray(np.exp(self._log_baseline(f)))

    def _log_baseline(self, f: F64) -> F64:
        return np.logaddexp.accumulate(np.log(self._event_weights) - self._log_risk_sums(f))

    def cumulative_hazards(self, f: F64) -> F64:
        """Return the estimated cumulative hazard exp(f_i) L(t_i) (n,) of each row at its time."""
        log_baseline = np.append(self._log_baseline(f), -np.inf)  # the last is that before the first event
        return np.asarray(np.exp(f + log_baseline[self._n_reached - 1]))

    def residuals(self, f: F64) -> F64:
        """Return martingale residuals (n,) times weights; they sum to 0."""
        return self.weights * (self.event - self.cumulative_hazards(f))

    def null_residuals(self, f: F64 | None = None) -> F64:
        """Return martingale residuals (n,) without weights of log hazards f; None: of equal hazards.

        Those of equal hazards are events minus Nelson-Aalen estimates.
        """
        if not self.event.any():
            return np.zeros(len(self.time))
        return np.asarray(self.event - self.cumulative_hazards(np.zeros(len(self.time)) if f is None else f))

    def hessian(self, f: F64) -> Hessian:
        """Return the Hessian (n, n) of -l with respect to f, as a linear map."""
        f = f - f.max()
        order, last = self._descending
        jumps = self._event_weights * np.exp(-2 * self._log_risk_sums(f))
        return Hessian(
            self.weights * np.exp(f),
            self.weights * self.cumulative_hazards(f),
            jumps,
            self._n_reached,
            order,
            last,
        )

    def curvature(self, f: F64) -> Curvature:
        """Return the coefficients of the sums over rows that bound the Hessian."""
        f = f - f.max()
        baseline = np.append(0.0, self.baseline(f))
        edges = np.searchsorted(
            np.cumsum(self._event_weights) / self._event_weights.sum(),
            np.arange(1, MAX_TIME_INTERVALS) / MAX_TIME_INTERVALS,
        )
        edges = np.unique(np.concatenate([[0], edges + 1, [len(self.event_times)]]))
        if len(self.event_times) <= MAX_TIME_INTERVALS:
            edges = np.arange(len(self.event_times) + 1)
        sums = np.add.reduceat(self._event_weights, edges[:-1])
        return Curvature(self.weights * np.exp(f), baseline[self._n_reached], baseline[edges], sums)


@dataclass(frozen=True)
class Hessian:
    """diag(``diagonal``) minus the sum over event times of jump_k (v 1_k) (v 1_k)', with the indicator 1_k of risk."""

    v: F64
    diagonal: F64
    jumps: F64
    n_reached: I64
    order: I64
    last: I64

    def times(self, u: F64) -> F64:
        """Return the product (n,) with u (n,)."""
        at_risk = np.cumsum((self.v * u)[self.order])[self.last]
        reached: F64 = np.append(0.0, np.cumsum(self.jumps * at_risk))[self.n_reached]
        return self.diagonal * u - self.v * reached


@dataclass(frozen=True)
class Curvature:
    """v (n,), L(t) (n,), L at the ends of B intervals of time (B + 1,), and event weights (B,) of the intervals."""

    v: F64
    hazard: F64
    edges: F64
    events: F64

    def take(self, rows: slice) -> Curvature:
        """Return the coefficients of some rows."""
        return replace(self, v=self.v[rows], hazard=self.hazard[rows])

    def sums(self, X: F64) -> tuple[F64, F64]:
        """Return sum_i v_i L(t_i) x_i x_i' (p, p), and the sums (B, p) of v_i x_i times increments of L."""
        increments = np.clip(self.hazard[:, None] - self.edges[:-1], 0, np.diff(self.edges)) * self.v[:, None]
        return (X * (self.v * self.hazard)[:, None]).T @ X, increments.T @ X

    def matrix(self, products: F64, means: F64) -> F64:
        """Return the bound (p, p) of the Hessian from the `sums` over all rows."""
        scaled = means / np.sqrt(self.events)[:, None]
        return products - scaled.T @ scaled


class Rows(Protocol):
    """Rows (n, p) that are read in passes."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    def products(self, w: F64) -> F64:
        """Return the products (n,) of all rows with w (p,)."""

    def sums(self, residuals: F64, curvature: Curvature) -> tuple[F64, F64, F64]:
        """Return sum_i x_i r_i (p,) and `Curvature.sums` over all rows."""


@dataclass(frozen=True)
class ArrayRows:
    """Rows of an array X (n, p)."""

    X: F64

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    def products(self, w: F64) -> F64:
        """Return the products (n,) of all rows with w (p,)."""
        return self.X @ w

    def sums(self, residuals: F64, curvature: Curvature) -> tuple[F64, F64, F64]:
        """Return sum_i x_i r_i (p,) and `Curvature.sums`."""
        return self.X.T @ residuals, *curvature.sums(self.X)


def fit_cox(
    rows: Rows, y: Survival, alpha: float, start: F64 | None = None, rtol: float = COX_RTOL
) -> tuple[F64, F64]:
    """Return coefficients w (p,) and log hazards f (n,) with the smallest -l + alpha / 2 |w|^2, alpha > 0.

    The iteration ends when a step would lower the objective by less than ``rtol`` times the sum of event weights.
    """
    w = np.zeros(rows.n_columns) if start is None else start
    f = np.zeros(len(y.time)) if start is None else rows.products(w)
    loss = alpha / 2 * w @ w - y.log_likelihood(f)
    min_decrease = rtol * y.weights[y.event].sum()
    for _ in range(MAX_COX_STEPS):
        curvature = y.curvature(f)
        gradient, products, means = rows.sums(y.residuals(f), curvature)
        H = curvature.matrix(products, means)
        H[np.diag_indices_from(H)] += alpha
        gradient -= alpha * w
        step = scipy.linalg.solve(H, gradient, assume_a="pos")
        decrease = gradient @ step  # twice the decrease of the quadratic model
        along = rows.products(step)
        for size in STEP_SIZES:
            new_w, new_f = w + size * step, f + size * along
            new_loss = alpha / 2 * new_w @ new_w - y.log_likelihood(new_f)
            if new_loss <= loss - ARMIJO_RATIO * size * decrease:
                break
        else:
            break  # rounding errors exceed the decrease
        w, f, loss = new_w, new_f, new_loss
        if decrease <= min_decrease:
            break
    return w, f


def fit_kernel_cox(
    K: F64, y: Survival, alpha: float, rtol: float = COX_RTOL, offset: F64 | None = None
) -> tuple[F64, F64]:
    """Return dual coefficients a (n,) and f = K a with the smallest -l + alpha / 2 a' K a.

    The log hazards are f, or f + ``offset`` (n,).

    Newton steps K b solve (H K + alpha) b = r - alpha a, with the exact Hessian H (n, n), by conjugate gradients in the
    inner product of K. Products with H take n operations. The preconditioner c K + alpha, with the mean c of the
    diagonal of the sum in H, is factorised once. Cost: n^3 / 3 operations, and 3 n^2 for each iteration.
    """
    n, events = len(K), y.weights[y.event].sum()
    M = events / n * K
    M[np.diag_indices(n)] += alpha
    factor = scipy.linalg.cho_factor(M, overwrite_a=True, check_finite=False)
    a, f, offset = np.zeros(n), np.zeros(n), np.zeros(n) if offset is None else offset
    loss = -y.log_likelihood(f + offset)
    for _ in range(MAX_COX_STEPS):
        gradient = y.residuals(f + offset) - alpha * a
        b, Kb = _conjugate_gradients(K, y.hessian(f + offset), alpha, factor, gradient)
        decrease = gradient @ Kb
        for size in STEP_SIZES:
            new_a, new_f = a + size * b, f + size * Kb
            new_loss = alpha / 2 * new_a @ new_f - y.log_likelihood(new_f + offset)
            if new_loss <= loss - ARMIJO_RATIO * size * decrease:
                break
        else:
            break  # rounding errors exceed the decrease
        a, f, loss = new_a, new_f, new_loss
        if decrease <= rtol * events:
            break
    return a, f


def _conjugate_gradients(K: F64, H: Hessian, alpha: float, factor: Any, gradient: F64) -> tuple[F64, F64]:
    """Return the solution b of (H K + alpha) b = gradient, and K b; matrices are self-adjoint in u' K v."""
    b, Kb, residual = np.zeros(len(K)), np.zeros(len(K)), gradient.copy()
    direction, K_direction, previous = np.zeros(len(K)), np.zeros(len(K)), np.inf
    first = np.inf
    for _ in range(MAX_CG_STEPS):
        z = scipy.linalg.cho_solve(factor, residual, check_finite=False)
        Kz = K @ z
        norm = residual @ Kz
        first = norm if np.isinf(first) else first
        if not norm > CG_RTOL**2 * first:
            break
        direction, K_direction = z + norm / previous * direction, Kz + norm / previous * K_direction
        product = H.times(K_direction) + alpha * direction
        size = norm / (product @ K_direction)
        b, Kb = b + size * direction, Kb + size * K_direction
        residual, previous = residual - size * product, norm
    return b, Kb
