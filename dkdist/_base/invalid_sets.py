"""Invalid sets: located by splitting blocks, then reported by position or skipped.

If the work on a block raises an error, the block is split recursively into eighths until the invalid sets are
isolated; blocks without invalid sets are processed once. Errors about pairs of objects are reported with the positions
of the objects in the user's collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from dkdist._base.parameter_checks import check_choice
from dkdist._numba.arrays import I64, Array
from dkdist._runtime.outcomes import MAX_LISTED_POSITIONS, SetWarning, WarningStep, issue
from dkdist._runtime.set_warnings import warn_of_sets
from dkdist.io import StoreFormatError
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_pieces import in_pieces
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.point_checks import locate

T = TypeVar("T")
Positions = Sequence[int] | I64

# Parts of a split: more parts need fewer attempts if most sets are invalid, fewer parts repeat fewer reads if only one
# is: python -m pytest tests/base/test_bad_sets.py counts the reads.
N_SPLIT_PARTS = 8


@dataclass
class PartialResult(Generic[T]):
    """Results of parts of a collection in order, positions of invalid sets, and the first error message."""

    results: list[T] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    reason: str = ""


def run_skipping_invalid(
    work: Callable[[SampleSets, int], T],
    sets: SampleSets | LazySets,
    positions: Positions,
    fill_value: T,
    *,
    skip: bool,
    pieces: Callable[[LazySets, int], T] | None = None,
) -> PartialResult[T]:
    """Call ``work(sets, position of the first set)`` on all sets, or on the parts without invalid sets.

    ``pieces`` replaces ``work`` for a single set that is too large to be read at once. ``positions`` are positions
    of the sets in the user's collection. With ``skip``, the result of an invalid set is ``fill_value``; otherwise the
    first invalid set raises an error. Errors of the whole store are always raised.
    """
    output: PartialResult[T] = PartialResult()
    parts = [(sets, positions)]  # a stack: the first part is on top
    while parts:
        part, part_positions = parts.pop()
        first = int(part_positions[0])
        try:
            if not isinstance(part, LazySets):
                result = work(part, first)
            elif pieces is not None and len(part) == 1 and in_pieces(part):
                result = pieces(part, first)
            else:
                result = work(part.points_alone(first), first)
        except (SampleSetError, StoreFormatError) as error:
            if len(part) > 1:
                size = -(-len(part) // N_SPLIT_PARTS)
                starts = range(0, len(part), size)
                parts += [(part[a : a + size], part_positions[a : a + size]) for a in reversed(starts)]
                continue
            if not skip:
                _raise_named(error, part, first)
            output.bad.append(first)
            output.reason = output.reason or str(error)
            result = fill_value
        output.results.append(result)
    if output.bad and isinstance(sets, LazySets):
        sets.require_current()  # if the store was replaced, its sets did not cause the error
    return output


def _raise_named(error: ValueError, sets: SampleSets | LazySets, position: int) -> None:
    """Raise the error with the position of the set in the user's collection, which may be a view of the store."""
    if isinstance(sets, LazySets) and isinstance(error, StoreFormatError):
        sets.require_current()
        raise StoreFormatError(f"set {position} cannot be read: {error}") from error
    raise error


def should_skip(estimator: Any) -> bool:
    """Return whether ``on_error`` of the estimator is "skip"; raise if it is invalid."""
    return bool(check_choice("on_error", estimator.on_error, ("raise", "skip")) == "skip")


def format_positions(positions: Positions) -> str:
    """Return the first positions as text for a message."""
    more = ", ..." if len(positions) > MAX_LISTED_POSITIONS else ""
    return ", ".join(str(int(i)) for i in positions[:MAX_LISTED_POSITIONS]) + more


def warn_skipped_sets(bad: Positions, reason: str) -> None:
    """Warn about invalid sets that ``fit`` leaves out, if any."""
    _warn_invalid_sets(bad, reason, "left out of fit (see skipped_)", WarningStep.FIT)


def warn_skipped_rows(bad: Positions, reason: str, *, workers_warn: bool = True) -> None:
    """Warn about invalid sets that have rows of NaN, if any, once per run."""
    fate = "cannot be embedded and have rows of NaN, which learners leave out"
    _warn_invalid_sets(bad, reason, fate, WarningStep.ROWS, workers_warn)


def _warn_invalid_sets(
    bad: Positions, reason: str, fate: str, step: WarningStep, workers_warn: bool = True
) -> None:
    if len(bad):
        text = f"{{n_sets}} invalid set(s) {fate}: {{positions}}. First error: {{reason}}"
        warn_of_sets(SetWarning.of(text, bad, reason, step=step), workers_warn=workers_warn)


def warn_nonfinite_rows(bad: I64, n_rows: int, fate: str, reason: str = "") -> None:
    """Warn about rows of features that are not finite, if any; ``reason`` is the error of the first, if known."""
    if len(bad):
        text = f"{{n_sets}} of {n_rows} rows of X are not finite and were {fate}: {{positions}}"
        text = f"{text}. First error: {{reason}}" if reason else text
        issue(SetWarning.of(text, bad, reason, step=WarningStep.LEARNER))


def require_rows(n: int) -> None:
    """Raise if there are no rows to fit or score on."""
    if n == 0:
        raise no_finite_rows_error()


def no_finite_rows_error() -> ValueError:
    """Return the error for features without a finite row."""
    return ValueError(
        "X must contain at least one row with finite features; on_error='skip' has skipped all of them. Correct the "
        "step that computes the features."
    )


class PairError(SampleSetError):
    """Error for a pair of objects with an invalid distance, by their indices in two blocks; see `name_pair_errors`."""

    def __init__(self, row: int, column: int, problem: str) -> None:
        super().__init__(f"the distance of object {row} of a block to random object {column} {problem}")
        self.row, self.column, self.problem = row, column, problem

    def __reduce__(self) -> tuple[Any, ...]:
        return PairError, (self.row, self.column, self.problem)


@contextmanager
def name_pair_errors(name: Callable[[int, int], str]) -> Iterator[None]:
    """Replace the block indices in a `PairError` by ``name(row, column)``."""
    try:
        yield
    except PairError as error:
        raise SampleSetError(
            f"the distance of {name(error.row, error.column)} {error.problem}"
        ) from error.__cause__


class RowError(SampleSetError):
    """Error for a set with invalid features, by its index in a block; see `name_set_errors`."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"set {row} of a block {reason}")
        self.row, self.reason = row, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError, (self.row, self.reason)


def require_finite_distances(out: Array, n_parts: int) -> None:
    """Raise `PairError` for distances (n, R n_parts) that exceed float32."""
    finite = np.isfinite(out)
    if not finite.all():
        i, j = divmod(int(np.argmin(finite)), out.shape[1])
        raise PairError(i, j // n_parts, f"is {out[i, j]}: it exceeds float32. Rescale the points")


def require_finite_rows(rows: Array) -> None:
    """Raise `RowError` for features (n, m) that are not finite."""
    finite = np.isfinite(rows)
    if not finite.all():
        i, j = divmod(int(np.argmin(finite)), rows.shape[1])
        raise RowError(
            i, f"has the value {rows[i, j]} in feature {j}: its coordinates are too large. Rescale the points"
        )


@contextmanager
def name_set_errors(positions: Positions) -> Iterator[None]:
    """Replace block indices in a `PairError` or `RowError` by positions in the collection."""
    try:
        with name_pair_errors(lambda i, j: f"set {positions[i]} to random object {j}"):
            yield
    except RowError as error:
        raise SampleSetError(f"set {positions[error.row]} {error.reason}") from error.__cause__


def require_nonnegative_weights(sets: SampleSets, first_set: int = 0) -> None:
    """Raise `SampleSetError` for negative weights, sets of total weight 0 and multiple weight channels.

    Embeddings of distributions use this check; the kernel distance accepts signed weights. ``first_set`` is the
    position of set 0 in the collection.
    """
    w = sets.weights
    if w is None or len(sets) == 0:
        return
    if w.ndim == 2 and w.shape[1] > 1:
        raise SampleSetError(f"weights must have 1 channel per point; got {w.shape[1]}. Select one column.")
    w = w.reshape(-1)
    if w.min() < 0:
        row = int(np.argmax(w < 0))
        i, r = locate(sets.offsets, row)
        raise negative_weight_error(r, first_set + i, w[row])
    totals = np.add.reduceat(w, sets.offsets[:-1], dtype=np.float64)
    if totals.min() <= 0:
        raise zero_weight_error(first_set + int(np.argmin(totals)))


def negative_weight_error(point: int, i: int, weight: float) -> SampleSetError:
    return SampleSetError(
        f"weight of point {point} of set {i} is {weight}, but weights must be >= 0. Clip the weights or drop the "
        "points."
    )


def zero_weight_error(i: int) -> SampleSetError:
    return SampleSetError(
        f"the weights of set {i} must have a positive sum; got 0. Drop the set or correct its weights."
    )
