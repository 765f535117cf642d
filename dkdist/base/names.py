"""Names of dimensions, as scikit-learn has them: learnt in fit, and compared with those of other sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.execution.processes.warn import warn
from dkdist.sets import SampleSetError

MAX_NAMES_CHARACTERS = 200  # of a list of names in a message


def dimension_names(points: Any) -> list[Any] | None:
    """Names of the columns of a data frame, or of the dimensions of sets, shapes and coresets; None without any."""
    names = getattr(points, "column_names", None)  # pyarrow, whose ``columns`` are the values
    if not isinstance(names, list):
        names = getattr(points, "columns", None)
    if names is None:
        names = getattr(points, "names", None)
    return None if names is None else list(names)


def require_same_names(**points_by_argument: Any) -> None:
    """Refuse points whose columns have other names than those of the first named argument, or another order.

    Points without names are compared by position. So are those whose names are numbers, as pandas numbers columns,
    unless they are the same numbers in another order.
    """
    first, expected = "", None
    for argument, points in points_by_argument.items():
        names = dimension_names(points)
        if expected is None:
            first, expected = argument, names
        elif names is not None and names != expected:
            _refuse_names(first, expected, argument, names)


def _refuse_names(first: str, expected: list[Any], argument: str, names: list[Any]) -> None:
    found = f"expected {_listed(expected)}; got {_listed(names)}"
    if len(names) == len(expected) and set(names) == set(expected):
        raise SampleSetError(
            f"the columns of {argument} must be in the order of those of {first}: {found}. Reorder the columns of "
            f"{argument}, or pass arrays to compare columns by position"
        )
    if all(isinstance(name, str) for name in (*expected, *names)):
        raise SampleSetError(
            f"the columns of {argument} must have the names of those of {first}: {found}. Select or rename columns, or "
            "pass arrays to compare columns by position"
        )


def _listed(names: list[Any]) -> str:
    text = ", ".join(map(repr, names))
    return (
        text
        if len(text) <= MAX_NAMES_CHARACTERS
        else f"{text[:MAX_NAMES_CHARACTERS]}... ({len(names)} names)"
    )


def learn_names(estimator: Any, sets: Any) -> None:
    """Keep the names of the dimensions of the sets of ``fit`` as ``feature_names_in_``; none if they have none."""
    if sets.names is not None:
        estimator.feature_names_in_ = np.array(sets.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def require_names(estimator: Any, sets: Any) -> None:
    """Refuse sets whose dimensions have other names than those of ``fit``, or the same in another order.

    One of both has names at least; where the other has none, a warning says so.
    """
    kind = type(estimator).__name__
    given, known = sets.names, getattr(estimator, "feature_names_in_", None)
    if known is None:
        warn(f"X has feature names, but {kind} was fitted without feature names")
    elif given is None:
        warn(f"X does not have valid feature names, but {kind} was fitted with feature names")
    elif list(given) != list(known):
        how = (
            "be in the same order as they were"
            if sorted(given) == sorted(known)
            else "match those that were passed"
        )
        raise SampleSetError(
            f"the sets have the dimensions {', '.join(given)}, but {kind} was fitted with {', '.join(known)}: feature "
            f"names must {how} in fit. Give the columns of fit, in their order"
        )
