"""Answers to why: of points, of dimensions, and of places; each set by itself, block by block for a store.

Contributions as a data frame, with one row for each point, dimension or place of each set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.inputs import Sets, load_points, map_set_blocks
from dkdist._base.invalid_sets import run_skipping_invalid
from dkdist._base.parameter_checks import check_choice, check_real_array
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64
from dkdist._utils.validation import require_same_names
from dkdist.inspection.contributions import dimension_contributions, influence_at, point_contributions
from dkdist.inspection.fitted_pipeline import Subject
from dkdist.inspection.set_function import PathBackground
from dkdist.pairwise_matrices.matrix_frames import require_frames
from dkdist.sets import SampleSetError, SampleSets


def contribution_frame(
    contributions: Sequence[F64], sets: Sets, part: str, part_labels: Any, value: str, outputs: Sequence[Any]
) -> Any:
    """Return a frame with the columns "set", ``part`` and ``value``, in the order of the sets.

    ``contributions`` has an array (n_i,) for each set, or (n_i, k) with a column ``value``_OUTPUT for each of the
    ``outputs``. Sets have their ids, or positions. Parts have the labels given (n_i of them for every set), or
    positions.
    """
    import pandas as pd

    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    sizes = [len(c) for c in contributions]
    positions = np.concatenate([np.arange(n) for n in sizes])
    columns = {
        "set": np.repeat(ids, sizes),
        part: positions if part_labels is None else np.asarray(part_labels)[positions],
    }
    values = np.concatenate(list(contributions))
    if values.ndim == 1:
        return pd.DataFrame({**columns, value: values})
    named = {f"{value}_{output}": values[:, j] for j, output in enumerate(outputs)}
    return pd.DataFrame({**columns, **named})


MOST_BACKGROUND = 32  # sets that dimensions are compared with

Work = Callable[[SampleSets, int], list[F64]]


def answer(
    subject: Subject, X: Any, by: str, at: ArrayLike | None, reference: ArrayLike | None, background: Any, seed: int,
    as_frame: bool,
) -> Any:  # fmt: skip
    """What `explain` gives, as its parameters say."""
    _require_question(by, at, reference, background)
    require_frames(as_frame)
    sets = subject.taken(X)
    if at is not None:
        result: Any = _stacked(subject, partial(influence_at, subject.function, _places(subject, at)), sets)
        part, labels, value = "place", None, "influence"
    elif by == "dimension":
        beside = _background(subject, background, sets, seed)
        result = _stacked(subject, partial(dimension_contributions, subject.function, beside, seed), sets)
        part, labels, value = "dimension", sets.names, "contribution"
    else:
        start_sets = _path_background(subject, background, seed)
        work = partial(point_contributions, subject.function, _reference(subject, reference), start_sets)
        result = [subject.told(c) for c in _of_all(work, sets)]
        part, labels, value = "point", None, "contribution"
    return contribution_frame(result, sets, part, labels, value, subject.outputs) if as_frame else result


def _path_background(subject: Subject, given: Any, seed: int) -> PathBackground | None:
    """Sets among which paths start: those given, the training sets that all terms hold, or those that the model keeps.

    Without any of them, a term's derivative at the set takes the place of the average.
    """
    chosen = given
    if given is None:
        held = subject.function.training_background
        complete = held is not None and all(rows is not None for rows in held.rows)
        if complete or subject.background is None:
            return held
        chosen = subject.background
    with _about("the set is one of background"):
        return subject.function.background(_few(subject, chosen, seed))


def _require_question(by: str, at: Any, reference: Any, background: Any) -> None:
    """Refuse options that belong to another question."""
    check_choice("by", by, ("point", "dimension"))
    if at is not None and by == "dimension":
        raise ValueError("at asks what points at other places would add: leave by='dimension' out, or at")
    if reference is not None and (at is not None or by == "dimension"):
        raise ValueError(
            "reference is what the contributions of a set's own points are counted from: leave it out"
        )
    if background is not None and at is not None:
        raise ValueError(
            "background has no effect on the influence of points at other places: omit background, or at"
        )


def _of_all(work: Work, sets: Sets) -> list[F64]:
    return list(chain.from_iterable(map_set_blocks(partial(_of_block, work), sets, "explain")))


def _of_block(work: Work, sets: Sets, first: int) -> list[F64]:
    """The answers for every set of a block; bad sets are named."""
    nothing: list[F64] = []
    made = run_skipping_invalid(work, sets, range(first, first + len(sets)), nothing, skip=False)
    return list(chain.from_iterable(made.results))


def _stacked(subject: Subject, work: Work, sets: Sets) -> F64:
    return subject.told(np.stack(_of_all(work, sets)))


def _reference(subject: Subject, given: ArrayLike | None) -> F64:
    """What contributions are counted from, in units of the function."""
    if given is None:
        return subject.in_function(subject.reference)
    numbers, k = check_real_array("reference", given), subject.n_outputs
    if numbers.size not in (1, k) or numbers.ndim > 1 or not np.isfinite(numbers).all():
        raise ValueError(f"reference must be a finite number, or {k} of them; found shape {numbers.shape}")
    return subject.in_function(np.broadcast_to(numbers.ravel(), (k,)))


def _places(subject: Subject, at: ArrayLike) -> F32:
    """Places (q, d), as the function takes points."""
    if subject.scales_each_set:
        raise ValueError(
            "at takes a model whose derivative is known: here a SetScaler with per_set=True scales each set by its "
            "own points, and nothing is known of other places"
        )
    places = check_real_array("at", at)
    if places.ndim != 2 or len(places) == 0:
        raise ValueError(f"at must be places (q, {subject.first.n_features_in_}); found shape {places.shape}")
    with _about("at: its places are taken for the points of set 0"):
        known = getattr(subject.first, "feature_names_in_", None)
        require_same_names(SampleSetError, **{"the sets of fit": SimpleNamespace(names=known), "at": at})
        fits = known is not None and len(known) == places.shape[1]
        taken = subject.taken(SampleSets.from_arrays([places], names=known if fits else None))
    return load_points(taken).relative


def _background(subject: Subject, given: Any, sets: Sets, seed: int) -> SampleSets:
    """The sets that dimensions are compared with, in memory."""
    if sets.alphabet is not None or sets.points_dtype.kind == "u":
        raise ValueError("strings have no dimensions: by='point' tells what each symbol adds")
    chosen = subject.background if given is None else given
    if chosen is None:
        raise ValueError(
            "by='dimension' compares a set with others: give some sets as background, such as those of the training"
        )
    with _about("the set is one of background"):
        return _few(subject, chosen, seed)


def _few(subject: Subject, given: Any, seed: int) -> SampleSets:
    beside = subject.taken(given)
    if len(beside) > MOST_BACKGROUND:
        rng = np.random.default_rng([seed, RngStream.BACKGROUND])
        beside = beside[np.sort(rng.choice(len(beside), MOST_BACKGROUND, replace=False))]
    loaded = load_points(beside)
    subject.function.require(loaded, 0)
    return loaded


@contextmanager
def _about(argument: str) -> Iterator[None]:
    """Say of an error which names a set that it is not one of those that are explained."""
    try:
        yield
    except SampleSetError as error:
        raise SampleSetError(f"{error} ({argument})") from error
