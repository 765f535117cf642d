"""Whether the points of a set have an order, as in a time series.

Points are ordered if points up to 8 apart are correlated, unless sets are scans of a grid (such as the pixels of an
image, row by row): then one column is sorted in every set, mostly with equal consecutive values, and the coordinates
determine the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets, load_points
from dkdist._base.parameter_checks import is_literal
from dkdist._base.random_streams import RngStream
from dkdist.auto import _tuning
from dkdist.auto.representations import ORDERED_FAMILIES, Omission, is_text
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class PointOrder:
    """Whether candidates may use the order of points, and a sentence for users that says why."""

    is_used: bool
    note: str


def check_ordered(ordered: Any) -> None:
    """Raise ValueError unless ``ordered`` is "auto", True or False."""
    if not (is_literal(ordered, "auto") or isinstance(ordered, bool | np.bool_)):
        raise ValueError(f"ordered must be 'auto', True or False; got {ordered!r:.80}.")


def find_point_order(ordered: Any, sets: Sets, candidates: Any, seed: int) -> PointOrder:
    """Return whether the order of points is used, from up to 64 sets if ``ordered`` is "auto"."""
    sample = _load_sample(sets, seed)
    if is_text(sample):
        if not ordered:
            raise ValueError("ordered must be True or 'auto' for strings; got False.")
        return PointOrder(True, "")
    if sample.weights is not None and ordered and not _requested(candidates):
        if not is_literal(ordered, "auto"):
            raise ValueError(
                "ordered must be False or 'auto' for weighted points; got True. Remove the weights."
            )
        return PointOrder(False, "The order of points is not used, because points have weights.")
    if not is_literal(ordered, "auto"):
        text = "Sets are treated as series" if ordered else "The order of points is not used"
        return PointOrder(bool(ordered), f"{text} (ordered={bool(ordered)}).")
    if requested := _requested(candidates):
        return PointOrder(True, f"Sets are treated as series, because {requested[0]!r} was requested.")
    if (column := grid_column(sample)) is not None:
        return PointOrder(
            False,
            f"The order of points is not used: dimension {column} is sorted, with repeated values, in every set, as in "
            "a scan of a grid. For series, pass ordered=True.",
        )
    correlation, limit = serial_correlation(sample), _tuning.MIN_SERIES_CORRELATION
    figure = f"the correlation of points up to {_tuning.SERIES_LAGS[-1]} apart is {correlation:.2f}"
    if correlation > limit:
        return PointOrder(
            True,
            f"Sets are treated as series: {figure}, above {limit:g}. If the order of points has no meaning, pass "
            "ordered=False.",
        )
    return PointOrder(
        False,
        f"The order of points is not used: {figure}, at most {limit:g}. For series, pass ordered=True.",
    )


def assumptions(order: PointOrder, omissions: Sequence[Omission]) -> tuple[str, ...]:
    """Return sentences for users: whether the order of points was used, and what was not tried."""
    reasons = {omission.family: omission.reason for omission in omissions}
    text = ", ".join(f"{family} ({reason})" for family, reason in reasons.items())
    return tuple(line for line in (order.note, f"Not tried: {text}." if text else "") if line)


def _load_sample(sets: Sets, seed: int) -> SampleSets:
    n_sets = int(
        np.clip(_tuning.MAX_FIT_POINTS // max(1, sets.n_points // len(sets)), 1, _tuning.MAX_ORDER_SETS)
    )
    rng = np.random.default_rng([seed, RngStream.POINT_ORDER])
    rows = (
        np.arange(len(sets)) if len(sets) <= n_sets else np.sort(rng.choice(len(sets), n_sets, replace=False))
    )
    return load_points(sets[rows])


def _requested(candidates: Any) -> list[str]:
    """Return the requested families that use the order of points."""
    names = () if isinstance(candidates, str) else candidates
    return [one for one in names if isinstance(one, str) and one in ORDERED_FAMILIES]


def serial_correlation(sample: SampleSets) -> float:
    """Return the maximum over dimensions and lags of the correlation between points of a set.

    Series of period 4, such as loads of appliances, have a negative correlation at lag 1, but a large one at lag 4.
    """
    x, offsets = sample.relative.astype(np.float64), sample.offsets
    group = np.repeat(np.arange(len(sample)), sample.sizes)
    x = x - (np.add.reduceat(x, offsets[:-1], axis=0) / sample.sizes[:, None])[group]
    squares = (x**2).sum(axis=0)
    lags = [lag for lag in _tuning.SERIES_LAGS if lag < sample.sizes.max()]
    products = [(x[lag:] * x[:-lag])[group[lag:] == group[:-lag]].sum(axis=0) for lag in lags]
    if not products:
        return 0.0
    largest = np.max(products, axis=0)
    return float(np.divide(largest, squares, out=np.zeros_like(squares), where=squares > 0).max())


def grid_column(sample: SampleSets) -> int | None:
    """Return the first dimension that is ascending (or descending) in every set with many equal values, or None."""
    x = sample.relative
    group = np.repeat(np.arange(len(sample)), sample.sizes)
    steps = np.diff(x.astype(np.float64), axis=0)[group[1:] == group[:-1]]
    if len(steps) == 0:
        return None
    is_sorted = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    tied_share = (steps == 0).mean(axis=0)
    is_grid = is_sorted & (tied_share >= _tuning.MIN_TIED_SHARE) & (tied_share < 1)
    return int(np.argmax(is_grid)) if is_grid.any() else None
