"""How far sets are from the training sets of an automatic model: clipped points, and distances between rows.

The distance of a set is the smallest Euclidean distance between its row and a training row, in the representation of
the member with the largest weight. Its p-value compares it with the distances of the training rows to each other,

    p = (1 + #{j : d_j >= d}) / (n + 1),   d_j = min over k != j of |x_j - x_k|,

which is at most 0.05 for about 5 % of new sets of the same distribution (conformal p-value; Bates, Candès, Lei, Romano,
Sesia: Testing for outliers with conformal p-values, 2023).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base.inputs import Sets, map_set_blocks
from dkdist._numba.arrays import F32, F64
from dkdist._runtime.map_reduce import map_blocks
from dkdist.auto.ensemble import Ensemble, KernelMember, block_columns
from dkdist.auto.study_design import remove
from dkdist.linear.kernel_ridge import squared_distances
from dkdist.sets import SampleSets

DOMAIN_SHIFT_DTYPE = np.dtype([("clipped", np.float64), ("distance", np.float64), ("p_value", np.float64)])


def domain_shift(machine: Ensemble, sets: Sets, Z: F64 | None = None) -> NDArray[Any]:
    """Return clipped fractions, distances and p-values (n,) of sets; distances are NaN without training rows.

    ``Z`` (n, q) are the columns of the design of the model, if any.
    """
    result = np.full(len(sets), np.nan, DOMAIN_SHIFT_DTYPE)
    result["clipped"] = np.concatenate(map_set_blocks(partial(_clipped, machine), sets, "clipped points"))
    members = [part for part in machine.parts if isinstance(part, KernelMember)]
    if not members:
        return result
    member = max(members, key=lambda part: abs(part.share))
    data = machine.data(sets)
    blocks = data.blocks([member.leaf], simultaneous=True)
    coefficients = None if Z is None else machine.coefficients[member.leaf]
    work = partial(_nearest_of_block, data.features([member.leaf]), member, coefficients)
    extras = block_columns(blocks.bounds, Z)
    parts = map_blocks(blocks, work, extras, label="distances to the training sets")
    result["distance"] = np.concatenate(parts)
    known = np.sort(_nearest(member.rows[0], member.rows[0], is_same=True))
    n_as_far = len(known) - np.searchsorted(known, result["distance"])
    result["p_value"] = (1 + n_as_far) / (len(known) + 1)
    return result


def _clipped(machine: Ensemble, sets: Sets, first: int) -> F64:
    """Return the largest fraction of points outside the domain of a representation, (n,)."""
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone(first)
    domains = dict.fromkeys(getattr(root.spec, "domain", None) for root in machine.trees.roots)
    counts = [one.count_outside(loaded) for one in domains if one is not None]
    return np.asarray(np.max(counts, axis=0) / loaded.sizes if counts else np.zeros(len(loaded)))


def _nearest_of_block(
    features: Any, member: KernelMember, coefficients: F64 | None, block: Any, columns: tuple[int, F64 | None]
) -> F64:
    first, Z = columns
    ((_, X),) = features(block, first, None)
    if Z is not None and coefficients is not None:
        X = remove(X, Z, coefficients)
    return _nearest(X, member.rows[0])


def _nearest(X: F32, Y: F32, *, is_same: bool = False) -> F64:
    """Return the distance (n,) of each row of X to the nearest row of Y, or to the nearest other one."""
    d2 = squared_distances(X.astype(np.float64), Y.astype(np.float64))
    if is_same:
        np.fill_diagonal(d2, np.inf)
    return np.asarray(np.sqrt(d2.min(axis=1)))
