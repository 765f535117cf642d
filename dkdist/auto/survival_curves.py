"""Survival curves and conformal lower bounds on survival times, calibrated on held-out log hazards.

Curves are S(t | x) = exp(-L(t) exp(f(x))), with the Breslow estimate L of held-out sets.

Lower bounds B(x) with P(T >= B(X)) >= coverage for the uncensored time T invert the curves at a conformal level:

    B(x) = min {t: L(t) exp(f(x)) >= q},    so that    T < B(x)  if and only if  the score L(T) exp(f(x)) < q.

Without censoring q is the conformal quantile of the scores of n held-out sets. L is fitted to the same sets; scores
omit its jump at their own event, L(T-), so that this raises the coverage, by about 1 / n. With censoring, events
have the weights 1 / G(T_i - | x_i), one over the probability that a set with an event at T_i is not censored before
(inverse probability of censoring weighting; Robins, Rotnitzky 1992). q is the largest score with

    (sum over events with a score below q of 1 / G(T_i - | x_i)  +  largest of these weights) <= (n + 1) (1 - coverage).

Assumption: the censoring time is independent of the survival time, given the risk score f(x), with proportional
hazards of censoring in f. G is then a Cox regression of the censoring times. Under this assumption the coverage is
valid up to the errors of G, of order 1 / sqrt(n) (benchmarks/studies_survival.py). It needs neither proportional
hazards of the event nor a good model. Candès, Lei, Ren (2023), Conformalized survival analysis, JRSS B 85, 24, need
censoring times of all sets instead, which are unknown for sets with an event. Bounds are at most the last event
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._utils.serialization import serializable
from dkdist.auto.conformal import RANK_TOL, require_coverage
from dkdist.linear.cox import ArrayRows, Survival, fit_cox

HAZARD_RTOL = 1e-12  # rounding errors of products of hazards and exponentials


def fit_slope(f: F64, y: Survival) -> float:
    """Return the coefficient of one covariate f (n,), with a penalty of one event for its standard deviation."""
    spread = f.std()
    if not spread > 0 or not y.event.any():
        return 0.0
    w, _ = fit_cox(ArrayRows(((f - f.mean()) / spread)[:, None]), y, 1.0)
    return float(w[0]) / float(spread)


@serializable("SurvivalCurves")
@dataclass(frozen=True)
class SurvivalCurves:
    """Event times (K,) with cumulative hazards (K,) of a log hazard of 0, and sorted scores with their weights.

    ``scores`` (m,) of held-out events are ascending, ``weights`` (m,) are fractions of ``n_rows`` sets or groups.
    """

    times: F64
    hazards: F64
    scores: F64
    weights: F64
    n_rows: int

    def check_loaded(self) -> None:
        """Raise ValueError for arrays of inconsistent lengths or that are not ascending."""
        pairs = (self.times, self.hazards), (self.scores, self.weights)
        if any(a.shape != b.shape or a.ndim != 1 for a, b in pairs) or not len(self.times):
            raise ValueError(
                f"Survival curves must have hazards for all times and weights for all scores; got shapes "
                f"{[array.shape for pair in pairs for array in pair]}."
            )
        if any((np.diff(values) < 0).any() for values in (self.times, self.hazards, self.scores)):
            raise ValueError("Times, hazards and scores of survival curves must be ascending.")

    def survival(self, f: F64) -> F64:
        """Return the probabilities (n, K) of no event up to each time, for log hazards (n,)."""
        return np.asarray(np.exp(-np.exp(f)[:, None] * self.hazards))

    def lower_bounds(self, f: F64, coverage: float) -> F64:
        """Return lower bounds (n,); 0 with fewer than coverage / (1 - coverage) rows."""
        allowed = (1 - require_coverage(coverage)) * (self.n_rows + 1)
        below = np.append(0.0, np.cumsum(self.weights))  # weight of the scores below each score
        test = np.maximum.accumulate(np.maximum(self.weights, 1.0))
        # both sums ascend; the tolerances are of rounding errors
        n_below = int(np.sum(below[:-1] + test <= allowed + RANK_TOL))
        if n_below == 0:
            return np.zeros(len(f))
        q = self.scores[n_below - 1]
        first = np.searchsorted(np.append(0.0, self.hazards), q * np.exp(-f) * (1 - HAZARD_RTOL), side="left")
        bounds: F64 = np.append(0.0, self.times)[np.minimum(first, len(self.times))]
        return bounds


def fit_curves(f: F64, y: Survival, groups: Any = None) -> SurvivalCurves:
    """Fit curves to held-out log hazards f (n,), with at least one event; a group has the weight of one row."""
    times, hazards = y.event_times, y.baseline(f)
    events = np.flatnonzero(y.event)
    before = np.append(0.0, hazards)[
        np.searchsorted(times, y.time[events])
    ]  # without the jump of the event itself
    scores = before * np.exp(f[events])
    weights = 1 / _uncensored_probabilities(f, y)[events]
    n_rows = len(f)
    if groups is not None:
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        weights, n_rows = weights / sizes[group[events]], len(sizes)
    order = np.argsort(scores, kind="stable")
    return SurvivalCurves(times, hazards, scores[order], weights[order], n_rows)


def _uncensored_probabilities(f: F64, y: Survival) -> F64:
    """Return the probabilities (n,) of no censoring before the time of each row, from a Cox regression on f.

    Events precede censoring at equal times, so that rows with an event at a time are not at risk of censoring then.
    """
    if y.event.all():
        return np.ones(len(f))
    later = np.where(y.event, y.time, np.nextafter(y.time, np.inf))
    censoring = Survival(~y.event, later, y.weights)
    hazards: F64 = censoring.cumulative_hazards(fit_slope(f, censoring) * f)
    return np.exp(-hazards)
