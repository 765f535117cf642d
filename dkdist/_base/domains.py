"""`DomainEmbedding`: embeddings of points in a box: explicit, the bounds of the data, or robust.

The robust box extends from the median m of each column, separately on each side, by

    max(q_90, min(5.93 q_50, 2.43 q_90, 1.55 q_99)),    q_k = the k % quantile of |x - m| > 0 on that side,

but not beyond the range of the data. The factors give 4 standard deviations for a Gaussian, with 6 of 100,000 points
outside. For a uniform column the box is the range of the data; for a Cauchy column it is about six quartiles wide,
independent of extreme values. On each side at most 10 % of the points are outside. If most values are equal (such as
zero counts), the others determine the box.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import DataSummary, Sets
from dkdist._base.parameter_checks import check_choice, is_literal
from dkdist._base.params import MAX_DOMAIN_WIDTH, MIN_DOMAIN_WIDTH, Domain
from dkdist._base.sampling import PooledSample, quantiles, sorted_columns
from dkdist._numba.arrays import F64
from dkdist.sets import SampleSetError, SampleSets

DATA_DRIVEN = ("robust", "data")
QUANTILE_LEVELS = np.array([0.5, 0.9, 0.99])  # levels for distances from the median on one side
# ratio of 4 standard deviations of a Gaussian to these quantiles
REACH_PER_QUANTILE = 4 / ndtri(0.5 + QUANTILE_LEVELS / 2)
# A warning is raised if the fraction of points outside a robust box exceeds both this minimum and this multiple of the
# fraction in fit. Lower values would warn about ordinary samples (tests/base/test_domains.py).
MIN_ORDINARY_FRACTION, ORDINARY_FRACTION_RATIO = 0.05, 3

# Width of a symmetric box relative to its maximum (tests/auto/test_rotation_candidates.py).
MIN_WIDTH_RATIO = 1e-3


class DomainEmbedding(SetEmbedding):
    """Base class of embeddings with the parameters ``domain`` and ``outside``."""

    domain: Any
    outside: Any

    def _summarize_in_domain(self, sets: Sets) -> tuple[DataSummary, Domain]:
        """Summarize the sets of ``fit`` in one pass; return the summary and the domain."""
        explicit = explicit_domain(self.domain, sets.origin, self.outside)
        is_fixed = explicit is not None and explicit.fixed
        summary = self._summarize_fit_sets(sets, explicit if is_fixed else None, sampled=not is_fixed)
        choose = data_domain if is_literal(self.domain, "data") else robust_domain
        domain = explicit or choose(summary)
        self.outside_share_ = (
            0.0 if summary.sample is None else summary.sample.outside_fraction(*domain.arrays)
        )
        return summary, domain


def explicit_domain(param: Any, origin: F64, outside: Any = "raise") -> Domain | None:
    """Return the domain of the parameter ``domain`` relative to the origin (d,); None if the data determine it."""
    d = len(origin)
    clips = check_choice("outside", outside, ("raise", "clip")) == "clip"
    if isinstance(param, str) and check_choice("domain", param, (*DATA_DRIVEN, "unit")) in DATA_DRIVEN:
        return None
    try:
        sides = (0.0, 1.0) if isinstance(param, str) else param
        low, high = (np.broadcast_to(np.asarray(side, np.float64), (d,)) for side in sides)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"domain must be 'robust', 'data', 'unit' or (low, high) with one number or {d} numbers each; got {param!r}"
        ) from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"domain must have finite low < high in every dimension; got {param!r}")
    _require_widths(low, high)
    return _make_domain(low - origin, high - origin, fixed=not clips, ordinary=float(clips))


def data_domain(summary: DataSummary) -> Domain:
    """Return the bounds of the data as a domain that clips points outside."""
    low, high = summary.low.astype(np.float64), summary.high.astype(np.float64)
    _require_widths(low, high)
    return _make_domain(low, high)


def robust_domain(summary: DataSummary) -> Domain:
    """Return the robust box as a domain that clips points outside; the summary must hold a sample."""
    sample: PooledSample = summary.sample  # type: ignore[assignment]
    columns = enumerate(sorted_columns(sample))
    bounds = [_robust_bounds(x, w, float(summary.low[j]), float(summary.high[j])) for j, (x, w) in columns]
    low, high = np.array(bounds).astype(np.float32).astype(np.float64).T
    _require_widths(low, high)
    ordinary = max(
        MIN_ORDINARY_FRACTION,
        ORDINARY_FRACTION_RATIO * sample.outside_fraction(low.astype(np.float32), high.astype(np.float32)),
    )
    return _make_domain(low, high, ordinary=ordinary)


def symmetric_bounds(sets: SampleSets) -> tuple[list[float], list[float]]:
    """Return low and high of a robust box about 0, with all points equally weighted."""
    x = np.abs(sets.relative.astype(np.float64))
    high = [min(_reach(column[column > 0], np.ones((column > 0).sum())), column.max()) for column in x.T]
    # Without a minimum, the rounding errors of flat dimensions would be spread over the box.
    width = [float(np.float32(max(h, MIN_WIDTH_RATIO * max(high)))) for h in high]
    return [-w for w in width], width


def _robust_bounds(x: F64, w: F64, low: float, high: float) -> tuple[float, float]:
    if len(x) == 0:  # all sampled points have weight 0
        return low, high
    median = float(quantiles(x, w, 0.5))
    below, above = x < median, x > median
    lower_reach = min(_reach(median - x[below], w[below]), median - low)
    upper_reach = min(_reach(x[above] - median, w[above]), high - median)
    return median - lower_reach, median + upper_reach


def _reach(distance: F64, w: F64) -> float:
    """Return the extent of the box on one side, from distances to the median; inf if there are none."""
    if len(distance) == 0:
        return np.inf
    q = quantiles(distance, w, QUANTILE_LEVELS)
    return float(max(q[1], (REACH_PER_QUANTILE * q).min()))


def _make_domain(low: F64, high: F64, *, fixed: bool = False, ordinary: float = 0.0) -> Domain:
    return Domain(tuple(map(float, low)), tuple(map(float, high)), fixed, ordinary)


def _require_widths(low: F64, high: F64) -> None:
    """Raise if float32 cannot scale the box to the unit cube; flat dimensions are allowed."""
    width = high - low
    is_invalid = (width > MAX_DOMAIN_WIDTH) | ((width > 0) & (width < MIN_DOMAIN_WIDTH))
    if is_invalid.any():
        j = int(np.argmax(is_invalid))
        raise SampleSetError(
            f"the width of the domain of all sets in column {j} must be 0 or {MIN_DOMAIN_WIDTH:g} to "
            f"{MAX_DOMAIN_WIDTH:g}; got {width[j]:.3g}. Rescale the points."
        )
