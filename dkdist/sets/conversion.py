"""Conversion of user input and of table columns to `SampleSets`."""

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
    """Convert X to `SampleSets`.

    X is `SampleSets`, a list of (n_i, d) arrays or of strings, or an (N, n, d) array. Arrays (n_i,) of floats are one
    column; of integers, codes of strings. With an ``origin``, points are relative to it: arrays are converted
    directly, so that a set does not depend on the others, and `SampleSets` are shifted.

    Raises
    ------
    SampleSetError
        If X has another type (a 2-D array could be one set or N sets of one point) or contains an invalid set.

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
            f"X must be sample sets; got an array of shape {X.shape}, which could be one set or sets of one point. "
            "Pass [X] for one set, X[:, None, :] for one point per set, or dk.as_sets(X, offsets) for the points of "
            "all sets."
        )
    if isinstance(X, (str, os.PathLike)):
        hint = "For the path of a store, pass dk.open_sets(path)."
    elif hasattr(X, "columns"):
        hint = (
            "For one row per point, use SampleSets.from_frame(X, set_id=...), or import_frame for a Dask frame. For "
            "one set per row, pass its column, such as X['cells'] ('cells' in ColumnTransformer, not ['cells'])."
        )
    elif hasattr(X, "load"):
        hint = "For a store of sets, call its load() first."
    else:
        hint = "For a generator pass list(X), for the points of one set [X]."
    raise SampleSetError(
        "X must be SampleSets, a list of (n_i, d) arrays or an (N, n, d) array; "
        f"got {type(X).__name__}. {hint}"
    )


def sets_from_parts(
    parts: Sequence[Part], offsets: ArrayLike, weights: ArrayLike | None, origin: F64 | None
) -> SampleSets:
    """Make sets from consecutive parts of points; each value of a column is read once.

    Points are relative to ``origin`` if float32 can represent the differences, else to their own origin.
    """
    start = infer_origin(parts) if origin is None else normalize_origin(origin)
    rows = _convert_plain_columns(parts, start)
    if rows is None:
        representable = origin is not None and find_lossy_column(parts, origin) is None
        rows, start = convert_points(parts, origin if representable else None, is_representable=representable)
        edges = as_offsets(offsets, len(rows))
        require_finite(rows, edges)
    else:
        edges = as_offsets(offsets, len(rows))
    point_weights = None if weights is None else as_weights(weights, edges)
    return SampleSets._trusted(rows, edges, point_weights, None, start)


def _convert_plain_columns(parts: Sequence[Part], origin: F64 | None) -> Points | None:
    """Convert plain numeric columns in one pass; None for input that needs the full checks."""
    from dkdist.sets.streams import StreamedRows  # avoids an import cycle

    rows = StreamedRows(sum(map(len, parts)), parts[0].shape[1], origin)
    is_plain = all(isinstance(part, Columns) and rows.add(part.columns) for part in parts)
    return rows.result() if is_plain else None


def concatenate_parts(parts: Sequence[SampleSets]) -> SampleSets:
    """Join collections of one set each, with one origin, into a single set; targets must be equal."""
    first = parts[0]
    if len(parts) == 1:
        return first
    ids = [] if first.ids is None else first.ids.tolist()
    for name, (value,) in first.targets.items():
        for part in parts[1:]:
            (other_value,) = part.targets[name]
            # two NaN count as equal
            if value != other_value and (value == value or other_value == other_value):
                raise SampleSetError(
                    f"target {name!r} must have one value per set; got {value!s} and {other_value!s} in set {ids[0]!r}"
                    ". Correct the frame or use the column as a coordinate."
                )
    rows = np.concatenate([part.relative for part in parts])
    edges = np.array([0, len(rows)])
    point_weights = None if first.weights is None else np.concatenate([part.weights for part in parts])
    merged = SampleSets._trusted(rows, edges, point_weights, None, first.origin)
    return merged.labelled(first.ids, first.names, first.targets)


def _origin_if_same_dims(origin: F64 | None, X: Any) -> F64 | None:
    """Return the origin if the first set has the same number of columns; other input raises an error later."""
    try:
        fits = origin is not None and (np.shape(X[0])[1:] or (1,)) == origin.shape
    except (ValueError, IndexError):
        return None
    return origin if fits else None
