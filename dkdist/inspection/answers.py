"""Contributions of points, dimensions and places, set by set and block by block, as arrays or data frames."""

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
from dkdist.inspection._tuning import MAX_BACKGROUND_SETS
from dkdist.inspection.contributions import dimension_contributions, influence_at, point_contributions
from dkdist.inspection.fitted_pipeline import Subject
from dkdist.inspection.set_function import PathBackground
from dkdist.io.lazy_sets import LazySets
from dkdist.pairwise_matrices.matrix_frames import require_frames
from dkdist.sets import SampleSetError, SampleSets


def contribution_frame(
    contributions: Sequence[F64], sets: Sets, part: str, part_labels: Any, value: str, outputs: Sequence[Any]
) -> Any:
    """Return a frame with the columns "set", ``part`` and ``value``, in the order of the sets.

    ``contributions`` has an array (n_i,) for each set, or (n_i, k) with a column ``value``_OUTPUT for each of the
    ``outputs``. Sets are labelled by ids or positions, parts by ``part_labels`` (n_i labels, the same for every set) or
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
    value_columns = {f"{value}_{output}": values[:, j] for j, output in enumerate(outputs)}
    return pd.DataFrame({**columns, **value_columns})


Work = Callable[[SampleSets, int], list[F64]]


def answer(
    subject: Subject, X: Any, by: str, at: ArrayLike | None, reference: ArrayLike | None, background: Any, seed: int,
    as_frame: bool,
) -> Any:  # fmt: skip
    """Return the result of `explain`."""
    _check_options(by, at, reference, background)
    require_frames(as_frame)
    sets = subject.transform_sets(X)
    if at is not None:
        result: Any = _stack_all(subject, partial(influence_at, subject.function, _places(subject, at)), sets)
        part, labels, value = "place", None, "influence"
    elif by == "dimension":
        background_sets = _background(subject, background, sets, seed)
        result = _stack_all(
            subject, partial(dimension_contributions, subject.function, background_sets, seed), sets
        )
        part, labels, value = "dimension", sets.names, "contribution"
    else:
        start_sets = _path_background(subject, background, seed)
        work = partial(point_contributions, subject.function, _reference(subject, reference), start_sets)
        result = [subject.to_prediction(c) for c in _map_sets(work, sets)]
        part, labels, value = "point", None, "contribution"
    return contribution_frame(result, sets, part, labels, value, subject.outputs) if as_frame else result


def _path_background(subject: Subject, background: Any, seed: int) -> PathBackground | None:
    """Return start sets of paths: ``background``, training sets stored by all terms, or the background of the model.

    None if there are none; the derivative of a term at the set then replaces the average.
    """
    background_sets = background
    if background is None:
        training = subject.function.training_background
        is_complete = training is not None and all(rows is not None for rows in training.rows)
        if is_complete or subject.background is None:
            return training
        background_sets = subject.background
    with _error_context("the set is one of background"):
        return subject.function.background(_sample_background(subject, background_sets, seed))


def _check_options(by: str, at: Any, reference: Any, background: Any) -> None:
    """Raise ValueError for options that have no effect on the requested explanation."""
    check_choice("by", by, ("point", "dimension"))
    if at is not None and by == "dimension":
        raise ValueError("at requires by='point'; got by='dimension'. Omit by or at.")
    if reference is not None and (at is not None or by == "dimension"):
        raise ValueError(
            "reference requires contributions of points; got at or by='dimension'. Omit reference."
        )
    if background is not None and at is not None:
        raise ValueError("background= has no effect with at=. Omit one of them.")


def _map_sets(work: Work, sets: Sets) -> list[F64]:
    return list(chain.from_iterable(map_set_blocks(partial(_map_block, work), sets, "explain")))


def _map_block(work: Work, sets: Sets, first: int) -> list[F64]:
    """Return the results of every set of a block; errors name invalid sets."""
    no_results: list[F64] = []
    partial_result = run_skipping_invalid(work, sets, range(first, first + len(sets)), no_results, skip=False)
    return list(chain.from_iterable(partial_result.results))


def _stack_all(subject: Subject, work: Work, sets: Sets) -> F64:
    return subject.to_prediction(np.stack(_map_sets(work, sets)))


def _reference(subject: Subject, reference: ArrayLike | None) -> F64:
    """Return the reference prediction of contributions, in units of the function."""
    if reference is None:
        return subject.to_function(subject.reference)
    values, k = check_real_array("reference", reference), subject.n_outputs
    if values.size not in (1, k) or values.ndim > 1 or not np.isfinite(values).all():
        raise ValueError(
            f"reference must be a finite number or {k} finite numbers; got shape {values.shape}."
        )
    return subject.to_function(np.broadcast_to(values.ravel(), (k,)))


def _places(subject: Subject, at: ArrayLike) -> F32:
    """Return places (q, d), transformed like the points of sets."""
    if subject.scales_each_set:
        raise ValueError(
            "at requires a model with a derivative with respect to points; got a SetScaler with per_set=True, which "
            "scales each set by its own points. Use per_set=False."
        )
    places = check_real_array("at", at)
    if places.ndim != 2 or len(places) == 0:
        raise ValueError(f"at must have shape (q, {subject.first.n_features_in_}); got {places.shape}.")
    with _error_context("at: its places are the points of set 0"):
        feature_names = getattr(subject.first, "feature_names_in_", None)
        require_same_names(
            SampleSetError, **{"the sets of fit": SimpleNamespace(names=feature_names), "at": at}
        )
        has_names = feature_names is not None and len(feature_names) == places.shape[1]
        place_sets = subject.transform_sets(
            SampleSets.from_arrays([places], names=feature_names if has_names else None)
        )
    return load_points(place_sets).relative


def _background(subject: Subject, background: Any, sets: Sets, seed: int) -> SampleSets:
    """Return the background sets of explanations by dimension, in memory."""
    if sets.alphabet is not None or sets.points_dtype.kind == "u":
        raise ValueError("by must be 'point' for strings, which have no dimensions; got 'dimension'.")
    background_sets = subject.background if background is None else background
    if background_sets is None:
        raise ValueError(
            "by='dimension' requires background. Pass background=, for example some training sets."
        )
    with _error_context("the set is one of background"):
        return _sample_background(subject, background_sets, seed)


def _sample_background(subject: Subject, background: Any, seed: int) -> SampleSets:
    sets = subject.transform_sets(background)
    if len(sets) > MAX_BACKGROUND_SETS:
        rng = np.random.default_rng([seed, RngStream.BACKGROUND])
        sets = sets[np.sort(rng.choice(len(sets), MAX_BACKGROUND_SETS, replace=False))]
    loaded = sets.load() if isinstance(sets, LazySets) else sets  # with targets, which some models use
    subject.function.require(loaded, 0)
    return loaded


@contextmanager
def _error_context(argument: str) -> Iterator[None]:
    """Add the name of an argument to errors about one of its sets."""
    try:
        yield
    except SampleSetError as error:
        raise SampleSetError(f"{error} ({argument})") from error
