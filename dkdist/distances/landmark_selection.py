"""Landmarks given by the user, as a collection or a function, and landmarks selected by targets.

Forward selection adds one object at a time. Each added object minimizes the objective of ridge regression

    |T - F_S W|^2 + penalty |W|^2,    S the selected objects,

of centred targets or class indicators T on centred features F of sampled objects, which are also the candidates
(orthogonal least squares of radial basis functions: Chen, Cowan and Grant 1991; with a penalty: Orr 1995).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist._base.inputs import Sets, check_sets, error_context
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import read_only
from dkdist.distances._landmark_selection_numba import select_columns
from dkdist.distances._tuning import DEFAULT_N_LANDMARKS, RELATIVE_PENALTY
from dkdist.distances.base import Distance, require_kind, require_squares
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets


def select_landmarks(F: F64, T: F64, n_landmarks: int) -> I64:
    """Return the indices of the columns of F (n, C) that explain targets T (n, k) best, in selection order."""
    F, T = F - F.mean(axis=0), T - T.mean(axis=0)
    penalty = RELATIVE_PENALTY * max(float((F**2).sum(axis=0).mean()), np.finfo(np.float64).tiny)
    selected = np.empty(n_landmarks, np.int64)
    select_columns(read_only(F), read_only(T), penalty, selected)
    return selected


def target_matrix(sets: Sets, y: Any) -> F64:
    """Return targets (n, k) in the order of the sets: values scaled to standard deviation 1, or class indicators.

    Floats and two-dimensional y are regression targets; integers, booleans and text are classes.
    """
    if y is None:
        raise ValueError(
            "y must not be None for sampler='supervised'. Call fit(sets, y), or use another sampler."
        )
    _, y = align_to_index(sets, y=y)
    values, n_sets = np.asarray(y), len(sets)
    if len(values) != n_sets or values.ndim > 2:
        raise ValueError(
            f"y must have one target, or one row of targets, for each of {n_sets} sets; got shape {values.shape}."
        )
    values = values[:, 0] if values.shape[1:] == (1,) else values
    if values.ndim == 2 or values.dtype.kind == "f":
        numbers = values.astype(np.float64).reshape(n_sets, -1)
        is_invalid = ~np.isfinite(numbers).all(axis=1)
        if is_invalid.any():
            i = int(np.argmax(is_invalid))
            raise ValueError(
                f"y must be finite for sampler='supervised'; got {values[i]} as the target of set {i}. Drop the set."
            )
        deviation = numbers.std(axis=0)
        T = numbers / np.where(deviation > 0, deviation, 1)
    else:
        classes, index = np.unique(values, return_inverse=True)
        T = (index.reshape(-1, 1) == np.arange(len(classes))).astype(np.float64)
    if not (T[0] != T).any():
        raise ValueError(
            "y must have at least 2 distinct values for sampler='supervised'; got equal values. Use another sampler."
        )
    return T


def user_landmarks(
    sampler: Any, n_components: int | None, sets: Sets, distance: Distance, seed: int
) -> SampleSets:
    """Return the objects of a collection, or ``n_components`` results of ``sampler(rng)``, relative to ``sets.origin``.

    Raises SampleSetError for objects that cannot be compared with the sets, and ValueError for a wrong number of
    objects. Strings may contain symbols that do not occur in the sets.
    """
    if callable(sampler):
        rng = np.random.default_rng([seed, RngStream.OBJECTS])
        sampler = [sampler(rng) for _ in range(n_components or DEFAULT_N_LANDMARKS)]
    with error_context("one of the random objects of sampler"):
        objects = check_sets(sampler, text=True, origin=sets.origin)
        objects = objects.load() if isinstance(objects, LazySets) else objects
        _require_same_kind(objects, sets)
        if sets.alphabet is not None:
            objects = SampleSets.from_strings(objects.strings(), sets.alphabet)
        require_kind(distance, objects)
        require_nonnegative_weights(objects)
        require_squares(distance, objects, 0)
    if n_components not in (None, len(objects)):
        raise ValueError(
            f"n_components must be {len(objects)}, the number of random objects of sampler; got {n_components}. Omit "
            "n_components."
        )
    return objects


def _require_same_kind(objects: SampleSets, sets: Sets) -> None:
    if _kind_name(objects) != _kind_name(sets):
        raise SampleSetError(
            f"the random objects of sampler must be {_kind_name(sets)}, like the sets; got {_kind_name(objects)}."
        )
    if objects.names and sets.names and objects.names != sets.names:
        raise SampleSetError(
            f"the random objects of sampler must have the columns {', '.join(sets.names)}, like the sets; got "
            f"{', '.join(objects.names)}."
        )


def _kind_name(sets: Sets) -> str:
    if sets.alphabet is not None:
        return "strings of characters"
    return f"points of {sets.n_dims} dimension(s)" if sets.points_dtype == np.float32 else "codes"
