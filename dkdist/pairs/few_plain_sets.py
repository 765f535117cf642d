"""The matrix of few plain sets, at once: what checks, plans and threads cost would be most of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.parameter_checks import draw_seed
from dkdist.distances.distance import Distance, compare, require_one_part
from dkdist.distances.distance_choices import as_distance
from dkdist.distances.few_points import few_sets
from dkdist.loops.array_types import F64
from dkdist.pairs.staircase import cut_pairs, needed
from dkdist.pairs.tiles import are_few
from dkdist.sets import SampleSets


def few_plain_sets(distance: Any, sets: Any, other: Any) -> F64 | None:
    """The matrix of distances, or None where the ordinary way is taken: its values are the same."""
    rows = few_sets(sets)
    columns = rows if other is None else few_sets(other)
    if rows is None or columns is None or columns.n_dims != rows.n_dims:
        return None
    measure = as_distance(distance, rows.n_dims, draw_seed(None) if isinstance(distance, str) else 0)
    if not isinstance(measure, Distance) or measure.codes or measure.by_function:
        return None
    require_one_part(measure)
    slow = measure.grain(columns.sizes, columns.n_dims).ahead == 0  # a pair costs more than any bookkeeping
    few = are_few(rows, columns) and not (slow and other is None and measure.symmetric)
    if not few and not _in_one_square(measure, rows, None if other is None else columns):
        return None
    out = compare(measure, rows, columns).astype(np.float64)
    for i in range(1, len(out) if other is None and measure.symmetric else 0):
        out[i, :i] = out[:i, i]
    return out


def _in_one_square(measure: Distance, rows: SampleSets, columns: SampleSets | None) -> bool:
    """Whether the ordinary way would make all pairs at once, too, and not one of two that are the same."""
    across = rows if columns is None else columns
    first, *others = cut_pairs(measure, rows, columns).steps
    halved = columns is None and measure.symmetric
    return not others and (not halved or needed(first, measure.grain(across.sizes, across.n_dims)) == [first])
