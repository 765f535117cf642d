"""Random objects of the user's own: a collection of sets, or a function that draws one after the other.

Random objects chosen by what their features say of targets: forward selection.

One object after the other is taken, each the one with which ridge regression of targets on features leaves least,

    |T - F_S W|^2 + penalty |W|^2,    S the objects that were taken,

T centred targets, or class indicators, and F centred features of some objects of the data, which are the candidates too
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
from dkdist.distances._landmark_selection_numba import select
from dkdist.distances.base import Distance, require_kind, require_squares
from dkdist.io import SetStore
from dkdist.sets import SampleSetError, SampleSets

PENALTY = 1e-3  # of the mean square length of a feature's column
CANDIDATES = 512  # at least, and twice as many as are taken


def chosen_objects(F: F64, T: F64, n_chosen: int) -> I64:
    """The candidates (columns of F (n, C)) that explain targets T (n, k), the best first."""
    F, T = F - F.mean(axis=0), T - T.mean(axis=0)
    penalty = PENALTY * max(float((F**2).sum(axis=0).mean()), np.finfo(np.float64).tiny)
    chosen = np.empty(n_chosen, np.int64)
    select(read_only(F), read_only(T), penalty, chosen)
    return chosen


def targets_of(sets: Sets, y: Any) -> F64:
    """(n, k) targets in the order of the sets: numbers in units of their deviation, or a column for each class.

    Floating-point numbers are numbers, and so are two-dimensional y; whole numbers, booleans and text are classes.
    """
    if y is None:
        raise ValueError(
            "sampler='supervised' chooses random objects by targets, and y is None: give fit(sets, y), or take another "
            "sampler"
        )
    _, y = align_to_index(sets, y=y)
    values, n_sets = np.asarray(y), len(sets)
    if len(values) != n_sets or values.ndim > 2:
        raise ValueError(
            f"expected y of one target, or one row of them, for each of {n_sets} sets, found shape {values.shape}: "
            "give as many"
        )
    values = values[:, 0] if values.shape[1:] == (1,) else values
    if values.ndim == 2 or values.dtype.kind == "f":
        numbers = values.astype(np.float64).reshape(n_sets, -1)
        bad = ~np.isfinite(numbers).all(axis=1)
        if bad.any():
            raise ValueError(
                f"the target of set {int(np.argmax(bad))} is {values[np.argmax(bad)]}: sampler='supervised' needs "
                "finite ones. Leave the set out"
            )
        deviation = numbers.std(axis=0)
        T = numbers / np.where(deviation > 0, deviation, 1)
    else:
        classes, index = np.unique(values, return_inverse=True)
        T = (index.reshape(-1, 1) == np.arange(len(classes))).astype(np.float64)
    if not (T[0] != T).any():
        raise ValueError(
            "sampler='supervised' needs targets that differ, and all of y are equal: take another sampler"
        )
    return T


DRAWN = 1024  # random objects, unless asked for otherwise


def given_objects(
    given: Any, n_components: int | None, sets: Sets, distance: Distance, seed: int
) -> SampleSets:
    """The objects that are given, or ``n_components`` drawn by ``given(rng)``, counted from where the sets are.

    Raises `SampleSetError`, with a note that it is about a random object, for one that cannot be compared with the
    sets; ValueError if there are not as many as were asked for. Strings may have symbols that the sets have not.
    """
    if callable(given):
        rng = np.random.default_rng([seed, RngStream.OBJECTS])
        given = [given(rng) for _ in range(n_components or DRAWN)]
    with error_context("one of the random objects that sampler gives"):
        objects = check_sets(given, text=True, origin=sets.origin)
        objects = objects.load() if isinstance(objects, SetStore) else objects
        _require_like(objects, sets)
        if sets.alphabet is not None:
            objects = SampleSets.from_strings(objects.strings(), sets.alphabet)
        require_kind(distance, objects)
        require_nonnegative_weights(objects)
        require_squares(distance, objects, 0)
    if n_components not in (None, len(objects)):
        raise ValueError(
            f"n_components={n_components}, but sampler gives {len(objects)} random objects: leave n_components out, or "
            "give as many"
        )
    return objects


def _require_like(objects: SampleSets, sets: Sets) -> None:
    """Refuse objects of another kind than the sets."""
    if _kind(objects) != _kind(sets):
        raise SampleSetError(
            f"the random objects (set 0 and all others) are {_kind(objects)}, but the sets are {_kind(sets)}: give "
            "sampler objects of the same kind"
        )
    if objects.names and sets.names and objects.names != sets.names:
        raise SampleSetError(
            f"the random objects have the dimensions {', '.join(objects.names)}, but the sets have "
            f"{', '.join(sets.names)}: give the same columns in the same order"
        )


def _kind(sets: Sets) -> str:
    if sets.alphabet is not None:
        return "strings of characters"
    return f"points of {sets.n_dims} dimension(s)" if sets.points_dtype == np.float32 else "codes"
