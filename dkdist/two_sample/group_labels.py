"""Labels of groups and strata: what they must be, and whether they can be arranged otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.loops.array_types import I64


def group_codes(name: str, labels: Any, n_sets: int) -> I64:
    """(n_sets,) the number of each label among the sorted ones; ValueError for missing labels or another length."""
    try:
        given = np.asarray(labels)
    except Exception as error:  # other libraries' objects raise what they like
        raise ValueError(f"{name} cannot be made an array ({error}): give one label for each set") from error
    if given.shape != (n_sets,):
        raise ValueError(
            f"{name} must have one label for each of the {n_sets} sets; found shape {given.shape}: give a flat list"
        )
    missing = _missing(given)
    if missing.any():
        raise ValueError(f"{name} has no label for set {int(np.argmax(missing))}: leave out sets without one")
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise ValueError(f"{name} must be of one kind, numbers or text ({error}): convert them") from error


def require_arrangements(groups: I64, strata: I64) -> None:
    """Refuse a single group, groups of one set, and strata within which no two sets could change places."""
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise ValueError("groups holds a single label: a test compares two groups or more. Check the labels")
    if sizes.min() < 2:
        alone = int(np.flatnonzero(groups == np.argmin(sizes))[0])
        raise ValueError(
            f"groups gives set {alone} a label that no other set has: each group needs two sets or more, as one does "
            "not tell how sets of a group differ. Leave it out, or join groups"
        )
    pairs = np.unique(np.stack([strata, groups]), axis=1)
    if np.bincount(pairs[0]).max() < 2:
        raise ValueError(
            "blocks has sets of one group alone in every stratum, so that nothing can be permuted: groups and strata "
            "cannot be told apart. Take larger strata"
        )


def _missing(labels: Any) -> Any:
    """Which labels are None, NaN or another library's "missing", none of which equals itself."""
    if labels.dtype != object:
        return labels != labels
    return np.array([label is None or not _is_itself(label) for label in labels.tolist()], bool)


def _is_itself(label: Any) -> bool:
    try:
        return bool(label == label)
    except (TypeError, ValueError):  # pandas' NA is neither; an array is no label
        return False
