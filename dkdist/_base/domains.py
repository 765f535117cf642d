"""`DomainEmbedding`: embeddings on a box, a given one, the bounds of the data, or where the body of the data lies.

The robust box reaches from the median m of each column, to either side by itself, over

    max(q_90, min(5.93 q_50, 2.43 q_90, 1.55 q_99)),    q_k = the k % quantile of |x - m| on that side,

points at m left out, but no farther than the data. The three are 4 standard deviations of a Gaussian (6 of 100,000
points lie beyond); for a uniform column the box is that of the data, for a Cauchy one some six quartiles, whatever
its farthest point. At most a tenth of either side lies outside; of mostly equal values (zeros of counts) those that
differ set the box.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import DataSummary, Sets
from dkdist._base.parameter_checks import is_word, one_of
from dkdist._base.params import LEAST_WIDTH, MOST_WIDTH, Domain
from dkdist._base.sampling import PooledSample, quantiles, weighted_columns
from dkdist._numba.arrays import F64
from dkdist.sets import SampleSetError

CHOSEN = ("robust", "data")  # from what is seen in fit
LEVELS = np.array([0.5, 0.9, 0.99])  # of the distances on one side
REACH = 4 / ndtri(0.5 + LEVELS / 2)  # of a Gaussian's box, over its quantiles: 4 standard deviations
LEAST_ORDINARY, MORE_THAN_SEEN = 0.05, 3  # that may lie outside unsaid: a share, a multiple of that in fit


class DomainEmbedding(SetEmbedding):
    """Base of embeddings on a box, with the parameters ``domain`` and ``outside``."""

    domain: Any
    outside: Any

    def _look_in_domain(self, sets: Sets) -> tuple[DataSummary, Domain]:
        """One look at the sets of ``fit``, as `_look`, and the domain: as given, or chosen from what was seen."""
        given = given_domain(self.domain, sets.origin, self.outside)
        refusing = given is not None and given.fixed
        found = self._look(sets, given if refusing else None, sampled=not refusing)
        chosen = data_domain if is_word(self.domain, "data") else robust_domain
        domain = given or chosen(found)
        self.outside_share_ = 0.0 if found.sample is None else found.sample.outside(*domain.arrays)
        return found, domain


def given_domain(given: Any, origin: F64, outside: Any = "raise") -> Domain | None:
    """The domain that was asked for, counted from the origin (d,); None where the data decide."""
    d = len(origin)
    clips = one_of("outside", outside, ("raise", "clip")) == "clip"
    if isinstance(given, str) and one_of("domain", given, (*CHOSEN, "unit")) in CHOSEN:
        return None
    try:
        sides = (0.0, 1.0) if isinstance(given, str) else given
        low, high = (np.broadcast_to(np.asarray(side, np.float64), (d,)) for side in sides)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"domain must be 'robust', 'data', 'unit' or (low, high) with one number or {d} on each side; "
            f"found {given!r}"
        ) from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"domain must have finite low < high in every dimension; found {given!r}")
    _require_widths(low, high)
    return _box(low - origin, high - origin, fixed=not clips, ordinary=float(clips))


def data_domain(found: DataSummary) -> Domain:
    """The bounds of the data as a domain: points outside count at its wall."""
    low, high = found.low.astype(np.float64), found.high.astype(np.float64)
    _require_widths(low, high)
    return _box(low, high)


def robust_domain(found: DataSummary) -> Domain:
    """Where the body of the data lies, as a domain: points outside count at its wall, and some may do so unsaid.

    Its survey holds a sample.
    """
    sample: PooledSample = found.sample  # type: ignore[assignment]
    columns = enumerate(weighted_columns(sample))
    walls = np.array([_walls(x, w, float(found.low[j]), float(found.high[j])) for j, (x, w) in columns])
    low, high = walls.astype(np.float32).astype(np.float64).T
    _require_widths(low, high)
    ordinary = max(
        LEAST_ORDINARY, MORE_THAN_SEEN * sample.outside(low.astype(np.float32), high.astype(np.float32))
    )
    return _box(low, high, ordinary=ordinary)


def _walls(x: F64, w: F64, low: float, high: float) -> tuple[float, float]:
    if len(x) == 0:  # of a sample in which no point has weight
        return low, high
    middle = float(quantiles(x, w, 0.5))
    below, above = x < middle, x > middle
    down = min(_reach(middle - x[below], w[below]), middle - low)
    up = min(_reach(x[above] - middle, w[above]), high - middle)
    return middle - down, middle + up


def _reach(distance: F64, w: F64) -> float:
    """How far the box reaches on one side, of points that lie there; to the farthest if none was drawn."""
    if len(distance) == 0:
        return np.inf
    q = quantiles(distance, w, LEVELS)
    return float(max(q[1], (REACH * q).min()))


def _box(low: F64, high: F64, *, fixed: bool = False, ordinary: float = 0.0) -> Domain:
    return Domain(tuple(map(float, low)), tuple(map(float, high)), fixed, ordinary)


def _require_widths(low: F64, high: F64) -> None:
    """Refuse a box that float32 cannot scale to the unit cube; flat dimensions may be."""
    width = high - low
    bad = (width > MOST_WIDTH) | ((width > 0) & (width < LEAST_WIDTH))
    if bad.any():
        j = int(np.argmax(bad))
        raise SampleSetError(
            f"the domain, or the points (of set 0 and all others), are {width[j]:.3g} wide in column {j}: float32 "
            f"scales widths of 0 or {LEAST_WIDTH:g} to {MOST_WIDTH:g}. Give the points in other units"
        )
