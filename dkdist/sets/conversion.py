"""The one door through which what users give becomes `SampleSets`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._numba.arrays import F64
from dkdist._utils.validation import Columns
from dkdist.sets.origins import Part, find_lossy_column, infer_origin, normalize_origin
from dkdist.sets.point_checks import (
    Points,
    SampleSetError,
    as_offsets,
    as_weights,
    convert_points,
    require_finite,
)
from dkdist.sets.sample_sets import SampleSets
from dkdist.sets.strings import is_list_of_strings


def as_sample_sets(X: Any, origin: F64 | None = None) -> SampleSets:
    """Return X as `SampleSets`: a collection itself, a list of (n_i, d) arrays or of strings, or an (N, n, d) array.

    With an ``origin``, the points are counted from there: those of arrays directly, so that a set depends on itself
    alone; those of a collection from what it keeps.

    Raises
    ------
    SampleSetError
        If X is none of these (a 2-D array could mean one set or N sets of one point) or holds an invalid set.

    Examples
    --------
    >>> as_sample_sets(np.zeros((4, 3, 2)))
    SampleSets(n_sets=4, n_points=12, n_dims=2)
    """
    if isinstance(X, SampleSets):
        return X if origin is None else X.rebased(origin)
    if isinstance(X, (list, tuple)):
        return (
            SampleSets.from_strings(X)
            if is_list_of_strings(X)
            else SampleSets.from_arrays(X, origin=_origin_if_same_dims(origin, X))
        )
    if isinstance(X, np.ndarray) and X.ndim == 3:
        n_sets, n, d = X.shape
        return SampleSets(
            X.reshape(n_sets * n, d), np.arange(n_sets + 1) * n, origin=_origin_if_same_dims(origin, X)
        )
    if isinstance(X, np.ndarray):
        raise SampleSetError(
            f"expected sample sets, found an array of shape {X.shape}: its rows could be the points of one "
            "set or the only points of many. Give [X] for one set, X[:, None, :] for one point a set, "
            "list(X) for an array of arrays, or (n_sets, n_points, n_dims)"
        )
    found = f"expected SampleSets, a list of (n_i, d) arrays or an (N, n, d) array, found {type(X).__name__}"
    if isinstance(X, (str, os.PathLike)):
        raise SampleSetError(f"{found}: if it is the path of a store, give open_sets of it")
    if hasattr(X, "columns"):
        raise SampleSetError(
            f"{found}. Of a frame with one row a point make SampleSets.from_frame(X, set_id=...)"
        )
    if hasattr(X, "load"):
        raise SampleSetError(f"{found}. For a store of sets, call its load() first")
    raise SampleSetError(
        f"{found}. Give list(...) of a generator or a set of arrays, [x] for the points of one set"
    )


def sets_from_parts(
    parts: Sequence[Part], offsets: ArrayLike, weights: ArrayLike | None, origin: F64 | None
) -> SampleSets:
    """Sets whose points are given in parts one after another, column by column: each number is read once.

    They are counted from the origin if there is one and float32 holds them there, and else from their own.
    """
    start = infer_origin(parts) if origin is None else normalize_origin(origin)
    rows = _convert_plain_columns(parts, start)
    if rows is None:
        held = origin is not None and find_lossy_column(parts, origin) is None
        rows, start = convert_points(parts, origin if held else None, held=held)
        edges = as_offsets(offsets, len(rows))
        require_finite(rows, edges)
    else:
        edges = as_offsets(offsets, len(rows))
    masses = None if weights is None else as_weights(weights, edges)
    return SampleSets._trusted(rows, edges, masses, None, start)


def _convert_plain_columns(parts: Sequence[Part], origin: F64 | None) -> Points | None:
    """The points as they are kept, if nothing about them is unusual."""
    from dkdist.sets.streams import StreamedRows  # for columns alone

    coming = StreamedRows(sum(map(len, parts)), parts[0].shape[1], origin)
    usual = all(isinstance(part, Columns) and coming.add(part.columns) for part in parts)
    return coming.kept() if usual else None


def concatenate_parts(parts: Sequence[SampleSets]) -> SampleSets:
    """One set with an id, of parts that are collections of one set with one origin; refuses targets that differ."""
    first = parts[0]
    if len(parts) == 1:
        return first
    ids = [] if first.ids is None else first.ids.tolist()
    for name, (value,) in first.targets.items():
        for part in parts[1:]:
            (other,) = part.targets[name]
            if value != other and (value == value or other == other):  # NaN is as NaN
                raise SampleSetError(
                    f"target {name!r} is {value!s} and then {other!s} in set {ids[0]!r}: a target has "
                    "one value a set. Repair the frame, or make it one of the points"
                )
    rows = np.concatenate([part.relative for part in parts])
    edges = np.array([0, len(rows)])
    masses = None if first.weights is None else np.concatenate([part.weights for part in parts])
    joined = SampleSets._trusted(rows, edges, masses, None, first.origin)
    return joined.labelled(first.ids, first.names, first.targets)


def _origin_if_same_dims(origin: F64 | None, X: Any) -> F64 | None:
    """The origin, if the first set has as many columns: what has others is refused by who knows why."""
    try:
        fits = origin is not None and np.shape(X[0])[1:] == origin.shape
    except (ValueError, IndexError):
        return None
    return origin if fits else None
