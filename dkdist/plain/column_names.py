"""Names of the columns of points, and the comparison of those of several."""

from __future__ import annotations

from typing import Any

MAX_NAMES_CHARACTERS = 200  # of a list of names in a message


def dimension_names(points: Any) -> list[Any] | None:
    """Names of the columns of a data frame, or of the dimensions of sets, shapes and coresets; None without any."""
    names = getattr(points, "column_names", None)  # pyarrow, whose ``columns`` are the values
    if not isinstance(names, list):
        names = getattr(points, "columns", None)
    if names is None:
        names = getattr(points, "names", None)
    return None if names is None else list(names)


def require_same_names(error: type[ValueError] = ValueError, /, **points_by_argument: Any) -> None:
    """Raise ``error`` for points whose columns differ in name or order from those of the first argument with names.

    Points without names are compared by position. So are those whose names are numbers, as pandas numbers columns,
    unless they are the same numbers in another order.
    """
    first, expected = "", None
    for argument, points in points_by_argument.items():
        names = dimension_names(points)
        if expected is None:
            first, expected = argument, names
        elif names and names != expected and (message := _difference(first, expected, argument, names)):
            raise error(message)


def _difference(first: str, expected: list[Any], argument: str, names: list[Any]) -> str | None:
    found = f"expected {_listed(expected)}; got {_listed(names)}"
    if len(names) == len(expected) and set(names) == set(expected):
        return (
            f"the columns of {argument} must be in the order of those of {first}: {found}. Reorder the columns of "
            f"{argument}, or pass arrays to compare columns by position"
        )
    if all(isinstance(name, str) for name in (*expected, *names)):
        return (
            f"the columns of {argument} must have the names of those of {first}: {found}. Select or rename columns, or "
            "pass arrays to compare columns by position"
        )
    return None


def _listed(names: list[Any]) -> str:
    text = ", ".join(map(repr, names))
    if len(text) <= MAX_NAMES_CHARACTERS:
        return text
    return f"{text[:MAX_NAMES_CHARACTERS]}... ({len(names)} names)"
