"""The first pass over a set that is read piece by piece: what its coreset has to know before any point is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from dkdist.base.drawn_samples import least_keys, row_keys
from dkdist.execution.map_reduce import collect
from dkdist.kernel.coresets.coreset_choice import SAMPLE
from dkdist.kernel.coresets.pivotal_loops import certain, threshold
from dkdist.kernel.coresets.streamed_distance import Box
from dkdist.kernel.distance.lazy.lazy_points import LazyPoints, split_weights
from dkdist.loops.array_types import F64, I64, Array
from dkdist.sets import SampleSetError


@dataclass(frozen=True)
class Look:
    """What a piece holds: the bounds of its points of positive weight, their number and weight, and some of them.

    ``heaviest``: weights of those that may be heavy for the whole set too, and the weight of all ``others``; ``range``
    of the positive weights.
    """

    low: F64
    high: F64
    count: int
    weight: float
    heaviest: F64
    others: float
    range: tuple[float, float]
    keys: F64
    sample: F64


class Survey(NamedTuple):
    """What the first pass found of the whole set, and of every piece: its points below ``heavy``, and their weight."""

    box: Box
    n: int
    weight: float
    heavy: float
    equal: bool
    counts: I64
    weights: F64
    sample: F64


def survey_points(points: LazyPoints, size: int, seed: int) -> Survey:
    """The first pass, for a coreset of ``size`` points: checks every value."""
    most = 1.0 if points.weighted else 2 * SAMPLE / points.n_points  # keys beyond are not among the least
    extras = [(int(first), seed) for first in points.blocks.bounds[:-1]]
    look = partial(_look, points.weighted, size, most)
    looks: list[Look] = collect(points.blocks, look, extras, label="look_at_points")
    counts, weights = np.array([look.count for look in looks]), np.array([look.weight for look in looks])
    n, weight, heavy = int(counts.sum()), float(weights.sum()), np.inf
    if not weight > 0:
        raise SampleSetError("the weights sum to 0: at least one point must have a positive weight")
    low, high = np.min([look.low for look in looks], axis=0), np.max([look.high for look in looks], axis=0)
    least, largest = (side([look.range[i] for look in looks]) for i, side in ((0, min), (1, max)))
    if least < largest and size < n:
        tops, others = [look.heaviest for look in looks], np.array([look.others for look in looks])
        heavy = threshold(np.concatenate(tops), float(others.sum()), size)
        counts = counts - [int((mine >= heavy).sum()) for mine in tops]
        weights = others + [float(mine[mine < heavy].sum()) for mine in tops]
    keys, sample = (
        np.concatenate(parts) for parts in zip(*((look.keys, look.sample) for look in looks), strict=True)
    )
    sample = sample[least_keys(keys, SAMPLE)]
    return Survey(Box(low, high - low), n, weight, heavy, least == largest, counts, weights, sample)


def _look(weighted: bool, size: int, most: float, block: Array, extra: tuple[int, int]) -> Look:
    first, seed = extra
    x, p = split_weights(block, weighted, first)
    keys = row_keys(first, len(x), seed)
    counted, weight, heaviest, others, span = x, float(len(x)), np.empty(0), 0.0, (1.0, 1.0)
    if p is not None:
        weight, here = float(p.sum()), np.flatnonzero(p > 0)
        keys, counted, p = keys[here], x[here], p[here]
        top = np.arange(len(p)) if len(p) <= size else certain(p, size)
        heaviest, others = p[top], float(np.delete(p, top).sum())
        span = (float(p.min()), float(p.max())) if len(p) else (np.inf, -np.inf)
    drawn = np.flatnonzero(keys <= most)
    drawn = drawn[least_keys(keys[drawn], SAMPLE)]
    nothing = np.full(x.shape[1], np.inf)
    low, high = (counted.min(axis=0), counted.max(axis=0)) if len(counted) else (nothing, -nothing)
    return Look(low, high, len(counted), weight, heaviest, others, span, keys[drawn], counted[drawn])
