"""Warnings if equal sets, or sets of one group, are both in the training and the test sets of a fold.

Scores of such folds are too high: the model has seen some of the test sets.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dkdist._base.inputs import Sets, map_set_blocks
from dkdist._base.set_digests import set_digests
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import find_stacklevel
from dkdist.auto._tuning import MAX_EXACT_SETS, MAX_EXPECTED_COINCIDENCES
from dkdist.sets import SampleSets


def warn_leakage(sets: Sets, groups: NDArray[Any] | None, test_rows: Sequence[I64], positions: I64) -> None:
    """Warn if groups, or equal sets, are on both sides of a split; ``positions`` (n,) name sets in messages.

    Sets are equal if they have the same points, in any order. Strings are not compared, because equal words are
    common, and neither are more than `MAX_EXACT_SETS` sets of a store, which would be read once more.
    """
    if groups is not None:
        divided = positions[_is_on_both_sides(groups, test_rows)]
        _warn_divided("the group of a set", divided, len(groups), "Use a splitter that keeps groups together")
    if sets.alphabet is None and (isinstance(sets, SampleSets) or len(sets) <= MAX_EXACT_SETS):
        divided = positions[_is_on_both_sides(label_equal_sets(sets), test_rows)]
        advice = "Remove the copies, or pass groups= with one label for equal sets"
        _warn_divided("the points of a set", divided, len(sets), advice)


def _warn_divided(what: str, divided: I64, n: int, advice: str) -> None:
    if not len(divided):
        return
    names = ", ".join(map(str, divided[:3].tolist())) + (", ..." if len(divided) > 3 else "")
    warnings.warn(
        f"{len(divided)} of {n} sets (sets {names}) have {what} on the other side of a split into training and test "
        f"sets, so scores and p-values are too optimistic (leakage). {advice}.",
        stacklevel=find_stacklevel(),
    )


def _is_on_both_sides(labels: NDArray[Any], test_rows: Sequence[I64]) -> NDArray[np.bool_]:
    """Return whether (n,) each row has the label of a row on the other side of a split."""
    code = np.unique(labels, return_inverse=True)[1]
    divided = np.zeros(len(code), np.bool_)
    for test in test_rows:
        is_test = np.zeros(len(code), np.bool_)
        is_test[test] = True
        n, n_test = np.bincount(code), np.bincount(code, is_test)
        divided |= ((n_test > 0) & (n_test < n))[code]
    return divided


def label_equal_sets(sets: Sets) -> I64:
    """Return labels (n,), equal for equal sets that are unlikely to be equal by coincidence.

    Only sets with the size and the bounds of another set are compared.
    """
    parts = map_set_blocks(_bounds, sets, "equal sets")
    keys, points = (np.concatenate(one) for one in zip(*parts, strict=True))
    _, code, n_equal = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    compared = np.flatnonzero((n_equal[code] > 1) & _is_unlikely(np.asarray(sets.sizes), points))
    labels = np.arange(len(sets))
    if len(compared):
        first, inverse = np.unique(set_digests(sets[compared]), return_index=True, return_inverse=True)[1:]
        labels[compared] = compared[first][inverse]
    return labels


def _is_unlikely(sizes: I64, points: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether (n,) coincidences of sets of each size are unlikely, from one random point of each set.

    If two points are equal with probability p, then two sets of k independent points are equal with a probability of at
    most k! p^k, which is multiplied by the number of pairs of sets.
    """
    counts = np.unique(points, axis=0, return_counts=True)[1].astype(np.float64)
    p = (counts * (counts - 1)).sum() / max(len(points) * (len(points) - 1), 1)
    with np.errstate(divide="ignore"):
        log_expected = 2 * np.log(len(points)) + gammaln(sizes + 1.0) + sizes * np.log(p)
    return np.asarray(log_expected < np.log(MAX_EXPECTED_COINCIDENCES))


def _bounds(sets: Sets, first: int) -> tuple[F64, NDArray[Any]]:
    """Return sizes and bounds (n, 1 + 2 d) of sets, and one random point (n, d) of each."""
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone(first)
    points, starts, sizes = loaded.relative, loaded.offsets[:-1], loaded.sizes
    low, high = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    chosen = starts + np.random.default_rng(first).integers(0, sizes)
    return np.column_stack([sizes, low, high]).astype(np.float64), points[chosen]
