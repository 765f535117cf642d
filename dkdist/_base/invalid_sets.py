"""Bad sets: what cannot be read or used is found by division, and named by its position or left out.

Work on a block of sets fails as a whole. Its eighths are then worked on by themselves, and theirs, until the bad
sets stand alone; where nothing fails nothing is done twice. Pairs of objects whose distance is of no use are named by
their places in the user's collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from dkdist._base.parameter_checks import one_of
from dkdist._numba.arrays import I64, Array
from dkdist._runtime.process import warn
from dkdist.io import SetStore, StoreFormatError
from dkdist.io._zarr.reading import CommitReader
from dkdist.io.set_pieces import in_pieces
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.point_checks import locate

T = TypeVar("T")
Positions = Sequence[int] | I64

PARTS = 8  # eighths: where most sets are bad, fewer failures than halves; where one is, less is read again
LISTED = 10  # positions that a message names


@dataclass
class PartialResult(Generic[T]):
    """What work gave for the parts of some sets, in order; and the positions of bad ones, with the first reason."""

    results: list[T] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    reason: str = ""


def run_skipping_invalid(
    work: Callable[[SampleSets, int], T],
    sets: SampleSets | SetStore,
    positions: Positions,
    lost: T,
    *,
    skip: bool,
    pieces: Callable[[SetStore, int], T] | None = None,
) -> PartialResult[T]:
    """``work(sets, position of the first)`` on all sets at once, or on the parts of them that hold no bad set.

    ``pieces`` does the same for one set that is too large to be read at once, where that is possible.

    ``positions`` are the sets' places in the collection that the user gave. With ``skip`` the result for a bad
    set is ``lost``; without, the first one raises. What is wrong with a store as a whole raises in any case.
    """
    made: PartialResult[T] = PartialResult()
    parts = [(sets, positions)]  # the first ones last
    while parts:
        part, places = parts.pop()
        first = int(places[0])
        try:
            if not isinstance(part, SetStore):
                result = work(part, first)
            elif pieces is not None and len(part) == 1 and in_pieces(part):
                result = pieces(part, first)
            else:
                result = work(part.points_alone(), first)
        except (SampleSetError, StoreFormatError) as error:
            if len(part) > 1:
                size = -(-len(part) // PARTS)
                starts = range(0, len(part), size)
                parts += [(part[a : a + size], places[a : a + size]) for a in reversed(starts)]
                continue
            if not skip:
                _raise_named(error, part, first)
            made.bad.append(first)
            made.reason = made.reason or str(error)
            result = lost
        made.results.append(result)
    if made.bad and isinstance(sets, SetStore):
        _require_current(sets)  # of a store that was replaced, no set is bad
    return made


def _raise_named(error: ValueError, sets: SampleSets | SetStore, position: int) -> None:
    """Raise the error with the set's position in it: a store's own message counts from the store's beginning."""
    if isinstance(sets, SetStore) and isinstance(error, StoreFormatError):
        _require_current(sets)
        raise StoreFormatError(f"set {position} cannot be read: {error}") from error
    raise error


def _require_current(sets: SetStore) -> None:
    """Raise unless the store is still there, whole at its root, and the one that this view was made from."""
    CommitReader(sets._address, sets._commit)


def skips(estimator: Any) -> bool:
    """Whether the estimator leaves out what is bad: its parameter ``on_error``, checked."""
    return bool(one_of("on_error", estimator.on_error, ("raise", "skip")) == "skip")


def listed(positions: Positions) -> str:
    """Positions for a message: the first ten."""
    more = ", ..." if len(positions) > LISTED else ""
    return ", ".join(str(int(i)) for i in positions[:LISTED]) + more


def warn_skipped_sets(bad: Positions, reason: str, fate: str) -> None:
    """Warn about bad sets, if there are any: how many, what becomes of them, which they are, and why."""
    if len(bad):
        warn(f"{len(bad)} bad set(s) {fate}: {listed(bad)}. The first because: {reason}")


def warn_nonfinite_rows(bad: I64, n_rows: int, fate: str) -> None:
    """Warn about rows of features that are not finite, if there are any."""
    if len(bad):
        warn(f"{len(bad)} of {n_rows} rows of X are not finite and were {fate}: {listed(bad)}")


def require_rows(n: int) -> None:
    """Refuse to learn, or to measure, from no rows."""
    if n == 0:
        raise no_rows_left()


def no_rows_left() -> ValueError:
    """The error for features of which no row is finite."""
    return ValueError(
        "no row to learn from, or none to measure on, is left: the features of all of them are not finite, and "
        "on_error='skip' leaves them out. Repair what makes them"
    )


class PairError(SampleSetError):
    """A pair of objects, by their places in two blocks, whose distance is of no use; `naming` tells where they are."""

    def __init__(self, row: int, column: int, found: str) -> None:
        super().__init__(f"the distance of object {row} of a block to random object {column} {found}")
        self.row, self.column, self.found = row, column, found

    def __reduce__(self) -> tuple[Any, ...]:
        return PairError, (self.row, self.column, self.found)


@contextmanager
def naming(name: Callable[[int, int], str]) -> Iterator[None]:
    """Turn a `PairError` into one that says ``name(row, column)``: which objects of the user's these are."""
    try:
        yield
    except PairError as error:
        raise SampleSetError(
            f"the distance of {name(error.row, error.column)} {error.found}"
        ) from error.__cause__


class RowError(SampleSetError):
    """A set without usable features, by its index in a block; `naming_random` names its position."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"set {row} of a block {reason}")
        self.row, self.reason = row, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError, (self.row, self.reason)


def require_finite_distances(out: Array, n_parts: int) -> None:
    """Refuse distances (n, R n_parts) that exceed float32; raise `PairError`."""
    finite = np.isfinite(out)
    if not finite.all():
        i, j = divmod(int(np.argmin(finite)), out.shape[1])
        raise PairError(i, j // n_parts, f"is {out[i, j]}: it exceeds float32. Rescale the points")


def require_finite_rows(rows: Array) -> None:
    """Refuse features (n, m) that are not finite; raise `RowError`."""
    finite = np.isfinite(rows)
    if not finite.all():
        i, j = divmod(int(np.argmin(finite)), rows.shape[1])
        raise RowError(
            i, f"has the value {rows[i, j]} in feature {j}: its coordinates are too large. Rescale the points"
        )


@contextmanager
def naming_random(positions: Positions) -> Iterator[None]:
    """Name the sets of a `PairError` (with random objects) or a `RowError` by their positions in the collection."""
    try:
        with naming(lambda i, j: f"set {positions[i]} to random object {j}"):
            yield
    except RowError as error:
        raise SampleSetError(f"set {positions[error.row]} {error.reason}") from error.__cause__


def require_nonnegative_weights(sets: SampleSets, first_set: int = 0) -> None:
    """Refuse weights that are not a measure: negative ones, a set that weighs nothing, or several channels.

    Embeddings of distributions call this; the kernel distance, which knows signed weights, does not. Without
    weights there is nothing to check. One pass over the weights. ``first_set`` is the position of set 0, for
    messages about a part of a collection.

    Raises
    ------
    SampleSetError
        Naming the first offending set.
    """
    w = sets.weights
    if w is None or len(sets) == 0:
        return
    if w.ndim == 2 and w.shape[1] > 1:
        raise SampleSetError(
            f"weights have {w.shape[1]} channels a point; an embedding of distributions takes one. "
            "Keep one column"
        )
    w = w.reshape(-1)
    if w.min() < 0:
        row = int(np.argmax(w < 0))
        i, r = locate(sets.offsets, row)
        raise negative_weight(r, first_set + i, w[row])
    totals = np.add.reduceat(w, sets.offsets[:-1], dtype=np.float64)
    if totals.min() <= 0:
        raise weightless(first_set + int(np.argmin(totals)))


def negative_weight(point: int, i: int, weight: float) -> SampleSetError:
    """The error for a point of set i whose weight is no part of a measure."""
    return SampleSetError(
        f"weight of point {point} of set {i} is {weight}: weights of a distribution must be >= 0. "
        "Clip them, or drop the points"
    )


def weightless(i: int) -> SampleSetError:
    """The error for set i, which weighs nothing."""
    return SampleSetError(
        f"the weights of set {i} sum to 0: a set needs at least one point of positive weight. "
        "Drop the set, or give it weights"
    )
