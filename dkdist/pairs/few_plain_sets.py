"""The matrix of few plain sets, at once: what checks, plans and threads cost would be most of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.parameter_checks import draw_seed
from dkdist.distances import Distance
from dkdist.distances.distance_choices import as_distance
from dkdist.distances.few_points import few_sets
from dkdist.distances.single_pair import compare, require_one_part
from dkdist.loops.array_types import F64
from dkdist.pairs.tiles import are_few


def few_plain_sets(distance: Any, sets: Any, other: Any) -> F64 | None:
    """The matrix of distances, or None where the ordinary way is taken: its values are the same."""
    rows = few_sets(sets)
    columns = rows if other is None else few_sets(other)
    if rows is None or columns is None or columns.n_dims != rows.n_dims or not are_few(rows, columns):
        return None
    measure = as_distance(distance, rows.n_dims, draw_seed(None) if isinstance(distance, str) else 0)
    if not isinstance(measure, Distance) or measure.codes or measure.by_function:
        return None
    require_one_part(measure)
    out = compare(measure, rows, columns).astype(np.float64)
    for i in range(1, len(out) if other is None and measure.symmetric else 0):
        out[i, :i] = out[:i, i]
    return out
