"""Bad sets: what cannot be read or used is found by division, and named by its position or left out.

Work on a block of sets fails as a whole. Its eighths are then worked on by themselves, and theirs, until the bad
sets stand alone; where nothing fails nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._params import one_of
from dkdist.execution.warn import warn
from dkdist.sets import SampleSetError, SampleSets
from dkdist.store import SetStore, StoreFormatError
from dkdist.store.committed import Committed
from dkdist.store.rows import in_pieces

T = TypeVar("T")
Positions = Sequence[int] | NDArray[np.int64]

PARTS = 8  # eighths: where most sets are bad, fewer failures than halves; where one is, less is read again
LISTED = 10  # positions that a message names


@dataclass
class Attempt(Generic[T]):
    """What work gave for the parts of some sets, in order; and the positions of bad ones, with the first reason."""

    results: list[T] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    reason: str = ""


def attempt(
    work: Callable[[SampleSets, int], T],
    sets: SampleSets | SetStore,
    positions: Positions,
    lost: T,
    *,
    skip: bool,
    pieces: Callable[[SetStore, int], T] | None = None,
) -> Attempt[T]:
    """``work(sets, position of the first)`` on all sets at once, or on the parts of them that hold no bad set.

    ``pieces`` does the same for one set that is too large to be read at once, where that is possible.

    ``positions`` are the sets' places in the collection that the user gave. With ``skip`` the result for a bad
    set is ``lost``; without, the first one raises. What is wrong with a store as a whole raises in any case.
    """
    made: Attempt[T] = Attempt()
    _work_on_parts(made, partial(_read_and_work, work, pieces), sets, positions, lost, skip)
    if made.bad and isinstance(sets, SetStore):
        _require_current(sets)  # of a store that was replaced, no set is bad
    return made


def _work_on_parts(
    made: Attempt[T],
    work: Callable[[SampleSets | SetStore, int], T],
    sets: SampleSets | SetStore,
    positions: Positions,
    lost: T,
    skip: bool,
) -> None:
    first = int(positions[0])
    try:
        made.results.append(work(sets, first))
        return
    except (SampleSetError, StoreFormatError) as error:
        if len(sets) == 1:
            if not skip:
                _raise_named(error, sets, first)
            made.results.append(lost)
            made.bad.append(first)
            made.reason = made.reason or str(error)
            return
    size = -(-len(sets) // PARTS)
    for a in range(0, len(sets), size):
        _work_on_parts(made, work, sets[a : a + size], positions[a : a + size], lost, skip)


def _read_and_work(
    work: Callable[[SampleSets, int], T],
    pieces: Callable[[SetStore, int], T] | None,
    sets: SampleSets | SetStore,
    first: int,
) -> T:
    if not isinstance(sets, SetStore):
        return work(sets, first)
    return pieces(sets, first) if pieces is not None and in_pieces(sets) else work(sets.load(), first)


def _raise_named(error: ValueError, sets: SampleSets | SetStore, position: int) -> None:
    """Raise the error with the set's position in it: a store's own message counts from the store's beginning."""
    if isinstance(sets, SetStore) and isinstance(error, StoreFormatError):
        _require_current(sets)
        raise StoreFormatError(f"set {position} cannot be read: {error}") from error
    raise error


def _require_current(sets: SetStore) -> None:
    """Raise unless the store is still there, whole at its root, and the one that this view was made from."""
    Committed(sets._address, sets._commit)


def skips(estimator: Any) -> bool:
    """Whether the estimator leaves out what is bad: its parameter ``on_error``, checked."""
    return bool(one_of("on_error", estimator.on_error, ("raise", "skip")) == "skip")


def listed(positions: Positions) -> str:
    """Positions for a message: the first ten."""
    more = ", ..." if len(positions) > LISTED else ""
    return ", ".join(str(int(i)) for i in positions[:LISTED]) + more


def tell_skipped(bad: Positions, reason: str, fate: str) -> None:
    """Warn about bad sets, if there are any: how many, what becomes of them, which they are, and why."""
    if len(bad):
        warn(f"{len(bad)} bad set(s) {fate}: {listed(bad)}. The first because: {reason}")


def tell_skipped_rows(bad: NDArray[np.int64], n_rows: int, fate: str) -> None:
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
