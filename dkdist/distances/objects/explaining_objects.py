"""Random objects chosen by what their features say of targets: forward selection.

One object after the other is taken, each the one with which ridge regression of targets on features leaves least,

    |T - F_S W|^2 + penalty |W|^2,    S the objects that were taken,

T centred targets, or class indicators, and F centred features of some objects of the data, which are the candidates too
(orthogonal least squares of radial basis functions: Chen, Cowan and Grant 1991; with a penalty: Orr 1995).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.inputs import Sets
from dkdist.base.row_ids import in_row_order
from dkdist.distances.objects.explaining_objects_loops import select
from dkdist.loops.array_types import F64, I64
from dkdist.loops.points import read_only

PENALTY = 1e-3  # of the mean square length of a feature's column
CANDIDATES = 512  # at least, and twice as many as are taken


def chosen_objects(F: F64, T: F64, n_chosen: int) -> I64:
    """The candidates (columns of F (n, C)) that explain targets T (n, k), the best first."""
    F, T = F - F.mean(axis=0), T - T.mean(axis=0)
    penalty = PENALTY * max(float((F**2).sum(axis=0).mean()), np.finfo(np.float64).tiny)
    chosen = np.empty(n_chosen, np.int64)
    select(read_only(F), read_only(T), penalty, chosen)
    return chosen


def targets_of(sets: Sets, y: Any) -> F64:
    """(n, k) targets in the order of the sets: numbers in units of their deviation, or a column for each class.

    Floating-point numbers are numbers, and so are two-dimensional y; whole numbers, booleans and text are classes.
    """
    if y is None:
        raise ValueError(
            "sampler='supervised' chooses random objects by targets, and y is None: give fit(sets, y), or take another "
            "sampler"
        )
    _, y = in_row_order(sets, y=y)
    values, n_sets = np.asarray(y), len(sets)
    if len(values) != n_sets or values.ndim > 2:
        raise ValueError(
            f"expected y of one target, or one row of them, for each of {n_sets} sets, found shape {values.shape}: "
            "give as many"
        )
    values = values[:, 0] if values.shape[1:] == (1,) else values
    if values.ndim == 2 or values.dtype.kind == "f":
        numbers = values.astype(np.float64).reshape(n_sets, -1)
        bad = ~np.isfinite(numbers).all(axis=1)
        if bad.any():
            raise ValueError(
                f"the target of set {int(np.argmax(bad))} is {values[np.argmax(bad)]}: sampler='supervised' needs "
                "finite ones. Leave the set out"
            )
        deviation = numbers.std(axis=0)
        T = numbers / np.where(deviation > 0, deviation, 1)
    else:
        classes, index = np.unique(values, return_inverse=True)
        T = (index.reshape(-1, 1) == np.arange(len(classes))).astype(np.float64)
    if not (T[0] != T).any():
        raise ValueError(
            "sampler='supervised' needs targets that differ, and all of y are equal: take another sampler"
        )
    return T
