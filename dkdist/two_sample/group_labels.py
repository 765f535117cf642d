"""Labels of groups and blocks of sets, and contrasts of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64, I64, Array

# Sum of the weights of a contrast / sum of their sizes; smaller sums are rounding errors
RELATIVE_SUM_TOL = 1e-9


def encode_labels(name: str, labels: Any, n_sets: int) -> tuple[Array, I64]:
    """Return the distinct labels, sorted, and the rank of each set's label; ValueError for missing labels."""
    try:
        array = np.asarray(labels)
    except Exception as error:  # objects of other libraries may raise any exception
        raise ValueError(
            f"{name} must be convertible to an array; got an error: {error}. Pass one label per set."
        ) from error
    if array.shape != (n_sets,):
        raise ValueError(
            f"{name} must have shape ({n_sets},); got {array.shape}. Pass a flat list of labels."
        )
    is_missing = _is_missing(array)
    if is_missing.any():
        raise ValueError(
            f"{name} must have a label for each set; got none for set {int(np.argmax(is_missing))}. Drop the set."
        )
    try:
        distinct, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{name} must hold labels of one type, numbers or text; got {error}. Convert them."
        ) from error
    return distinct, codes.astype(np.int64)


def ranks(codes: I64) -> I64:
    """Return the rank of each number among the distinct numbers."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def contrast_weights(contrast: Any, labels: Array) -> F64:
    """Return the weight of each distinct label (G,), NaN if it has none; ValueError naming what is invalid."""
    if not isinstance(contrast, Mapping):
        raise ValueError(
            "contrast must be a dict from labels of groups to weights, such as {'before': -1, 'after': 1}; got "
            f"{contrast!r:.200}."
        )
    position_by_label = {label: i for i, label in enumerate(labels)}
    weights = np.full(len(labels), np.nan)
    for label, weight in contrast.items():
        if label not in position_by_label:
            raise ValueError(
                f"contrast must have labels of groups, {labels.tolist()!r:.200}; got {label!r:.200}."
            )
        if not isinstance(weight, Real) or not np.isfinite(float(weight)):
            raise ValueError(
                f"contrast must have finite numbers as weights; got {weight!r:.200} for {label!r}."
            )
        weights[position_by_label[label]] = float(weight)
    size = np.nansum(np.abs(weights))
    if size == 0:
        raise ValueError(f"contrast must have weights other than 0; got {dict(contrast)!r:.200}.")
    if abs(np.nansum(weights)) > RELATIVE_SUM_TOL * size:
        raise ValueError(
            f"contrast must have weights that sum to 0; got a sum of {np.nansum(weights):g} for "
            f"{dict(contrast)!r:.200}."
        )
    return weights


def contrast_text(weights: F64, labels: Array) -> str:
    """Return weights and labels, such as "-1 before +1 after", without groups that have no weight."""
    return " ".join(f"{w:+g} {label}" for w, label in zip(weights, labels, strict=True) if not np.isnan(w))


@contextmanager
def note_positions(n_used: int, n_sets: int) -> Iterator[None]:
    """Add a note to errors if the positions in their messages do not count all sets."""
    try:
        yield
    except ValueError as error:
        if n_used < n_sets:
            error.add_note(
                "The positions of sets and blocks count only the groups with a weight in contrast."
            )
        raise


def _is_missing(labels: Any) -> Any:
    """Return a mask of missing labels: None, NaN, and other values that are not equal to themselves."""
    if labels.dtype != object:
        return labels != labels
    return np.array([label is None or not _equals_itself(label) for label in labels.tolist()], bool)


def _equals_itself(label: Any) -> bool:
    try:
        return bool(label == label)
    except (TypeError, ValueError):  # pandas.NA has no truth value, and arrays are not labels
        return False
