"""Random objects of the user's own: a collection of sets, or a function that draws one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.bad_sets import require_nonnegative_weights
from dkdist.base.inputs import Sets, about, check_sets
from dkdist.base.roles import Role
from dkdist.distances.distance import Distance, require_kind, require_squares
from dkdist.sets import SampleSetError, SampleSets
from dkdist.store import SetStore

DRAWN = 1024  # random objects, unless asked for otherwise


def given_objects(
    given: Any, n_components: int | None, sets: Sets, distance: Distance, seed: int
) -> SampleSets:
    """The objects that are given, or ``n_components`` drawn by ``given(rng)``, counted from where the sets are.

    Raises `SampleSetError`, with a note that it is about a random object, for one that cannot be compared with the
    sets; ValueError if there are not as many as were asked for. Strings may have symbols that the sets have not.
    """
    if callable(given):
        rng = np.random.default_rng([seed, Role.OBJECTS])
        given = [given(rng) for _ in range(n_components or DRAWN)]
    with about("one of the random objects that sampler gives"):
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
