"""One stored set that is too large to be read at once: checked, looked at and embedded piece by piece."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dkdist.base.bad_sets import negative_weight, weightless
from dkdist.base.drawn_samples import PooledSample, Weighing, drawn_sample, joined, some
from dkdist.base.embedding_spec import Additive
from dkdist.loops.array_types import F32
from dkdist.loops.points import column_bounds
from dkdist.store import SetStore
from dkdist.store.set_pieces import read_pieces, read_weights


def embed_in_pieces(parameters: Additive, view: SetStore, first: int, look: Callable[[F32], None]) -> F32:
    """The row (1, m) of the set of a view, whose position is ``first``; ``look`` sees the points of every piece."""
    total = _total_weight(view, first)
    row = parameters.row_sum(view.n_points, total)
    for points, weights in read_pieces(view):
        look(points)
        row.add(points, weights)
    return row.row()[None]


def look_in_pieces(share: float | None, view: SetStore, first: int) -> tuple[F32, F32, PooledSample | None]:
    """Bounds (low, high) of the points of the set of a view, whose weights are checked; and what a sample takes of
    them, if it takes a ``share`` of all points.
    """
    mean = np.array([_total_weight(view, first) / view.n_points])
    lows, highs, samples, start = list[F32](), list[F32](), list[PooledSample](), 0
    for points, weights in read_pieces(view):
        low, high = column_bounds(points)
        lows.append(low)
        highs.append(high)
        if share is not None:
            rows = np.array([0, len(points)])
            weighing = None if weights is None else Weighing(weights, mean)
            samples.append(drawn_sample(share, points, rows, weighing, first, start))
        start += len(points)
    return np.min(lows, axis=0), np.max(highs, axis=0), joined(samples) if samples else None


def drawn_in_pieces(each: int, seed: int, view: SetStore, first: int) -> F32:
    """Up to ``each`` points of the set of a view, drawn at random, none of weight zero; ``first`` is its position."""
    n = view.n_points if view.weights_shape is None else sum(int((w > 0).sum()) for w in read_weights(view))
    chosen = some(n, each, seed, first)
    start, parts = 0, []
    for points, weights in read_pieces(view):
        x = points if weights is None else points[weights > 0]
        here = chosen[(chosen >= start) & (chosen < start + len(x))]
        parts.append(x[here - start])
        start += len(x)
    return np.concatenate(parts)


def _total_weight(view: SetStore, first: int) -> float:
    """The sum of all weights, added one after the other; `SampleSetError` if they are no measure."""
    if view.weights_shape is None:
        return float(view.n_points)
    total, start = 0.0, 0
    for w in read_weights(view):
        if w.min() < 0:
            row = int(np.argmax(w < 0))
            raise negative_weight(start + row, first, w[row])
        total = float(np.cumsum(np.append(total, w))[-1])  # the order, and so the bits, of all at once
        start += len(w)
    if total <= 0:
        raise weightless(first)
    return total
