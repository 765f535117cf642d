"""Weights of rows and of classes: what users give, checked and multiplied.

A row of weight w counts as w equal rows, and one of weight 0 as none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight

from dkdist.loops.array_types import F64, I64
from dkdist.plain.validation import real_array

CLASS_WEIGHTS = [None, dict, StrOptions({"balanced"})]
"""What the parameter ``class_weight`` may be."""


def as_weights(sample_weight: Any, n_rows: int) -> F64 | None:
    """Weights (n,) as float64, or None; ValueError naming the first that is none, and for weights of another length."""
    if sample_weight is None:
        return None
    given = real_array("sample_weight", sample_weight)
    if given.ndim == 0:
        given = np.full(n_rows, given)
    if given.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {given.shape}, but X has {n_rows} rows: expected ({n_rows},), one for every row"
        )
    weights = given.astype(np.float64)
    if len(odd := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))):
        raise ValueError(
            f"sample_weight of row {odd[0]} is {weights[odd[0]]}: weights must be finite numbers >= 0. "
            "Give 0 to leave a row out"
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not 0 < total < np.inf:
        raise ValueError(
            f"sample_weight is zero in every row, or so large that its sum is no float ({total}): give at least one "
            "row a weight above 0"
        )
    return weights


def weights_of(
    sample_weight: Any, class_weight: Any, classes: NDArray[Any], index: I64, *, stream: bool = False
) -> F64 | None:
    """Weights of rows times those of their classes, (n,); None where all rows count one.

    The classes of a ``stream``, of which more rows follow, cannot be counted: ValueError for "balanced".
    """
    weights = as_weights(sample_weight, len(index))
    if stream and not isinstance(class_weight, Mapping | None):
        raise ValueError(
            f"class_weight={class_weight!r} needs to see all rows, and partial_fit does not: give a dict of weights, "
            "or sample_weight"
        )
    return times_factors(weights, class_factors(class_weight, classes, index, weights), index)


def class_factors(class_weight: Any, classes: NDArray[Any], index: I64, weights: F64 | None) -> F64 | None:
    """The weight of each class, (n_classes,): what ``class_weight`` says, 1 where it says nothing.

    "balanced" is total weight / (n_classes x weight of the class), as scikit-learn's.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, Mapping):
        return _named_factors(class_weight, classes)
    y, present = classes[index], np.unique(index if weights is None else index[weights > 0])
    factors = np.ones(len(classes))  # of classes all of whose rows have weight 0, nothing is learned
    kept = slice(None) if weights is None else weights > 0
    of_rows = None if weights is None else weights[kept]
    factors[present] = compute_class_weight(
        class_weight, classes=classes[present], y=y[kept], sample_weight=of_rows
    )
    return factors


def _named_factors(class_weight: Mapping[Any, Any], classes: NDArray[Any]) -> F64:
    labels = classes.tolist()
    if unknown := [label for label in class_weight if label not in labels]:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not one of the classes {labels}: name classes as y does"
        )
    given = [class_weight.get(label, 1.0) for label in labels]
    factors = real_array("class_weight", given).astype(np.float64)
    if factors.ndim != 1 or not (np.isfinite(factors) & (factors >= 0)).all() or not factors.any():
        raise ValueError(
            f"class_weight must give finite weights >= 0, one of them above 0; found {dict(class_weight)!r:.200}"
        )
    return factors


def times_factors(weights: F64 | None, factors: F64 | None, index: I64) -> F64 | None:
    """Weights of rows times those of their classes; ValueError if nothing is left of them."""
    if factors is None:
        return weights
    found = factors[index] if weights is None else weights * factors[index]
    if not found.any():
        raise ValueError(
            "class_weight and sample_weight leave no row of weight above 0: give some class more than 0"
        )
    return np.asarray(found)


def of_mean_one(weights: F64 | None) -> F64 | None:
    """Weights whose mean over rows that have any is 1."""
    if weights is None:
        return None
    largest = weights / weights.max()
    return np.asarray(largest * ((largest > 0).sum() / largest.sum()))
