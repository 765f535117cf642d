"""Sets from a data frame with one row a point: pandas, polars or pyarrow, in whatever order its rows are."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dkdist.loops.array_types import I64, Array
from dkdist.plain.libraries.rust_panics import RustPanicError, panics_as_errors
from dkdist.plain.user_line import user_level
from dkdist.plain.validation import Columns
from dkdist.sets.frame_columns import Column, columns_of_frame, opened_frame
from dkdist.sets.indexing import has_index, places_of
from dkdist.sets.labels import Names, as_ids
from dkdist.sets.point_checks import SampleSetError

LOG = logging.getLogger("dkdist.importing")  # as imports of tables do


@dataclass(frozen=True, eq=False)
class Grouped:
    """Which set each of T rows belongs to, by runs of neighbours of one set.

    ``starts`` (r,) are their first rows, ``runs`` (r,) the numbers of their sets in the order in which these appear,
    and ``ids`` (N,) those of the sets.
    """

    starts: I64
    runs: I64
    ids: Array
    n_rows: int

    @cached_property
    def in_order(self) -> bool:
        """Whether the rows stand set after set as they are."""
        return len(self.runs) == len(self.ids)

    @cached_property
    def lengths(self) -> I64:
        """(r,) the rows of each run."""
        return np.diff(self.starts, append=self.n_rows)

    @cached_property
    def order(self) -> I64:
        """The rows, set after set; those of a set keep their order."""
        sorted_runs = np.argsort(self.runs, kind="stable")
        lengths = self.lengths[sorted_runs]
        shifts = self.starts[sorted_runs] - (np.cumsum(lengths) - lengths)
        return np.repeat(shifts, lengths) + np.arange(self.n_rows)

    def sorted(self, values: Array) -> Array:
        """The values of the rows (T,), set after set; they themselves, if they stand so."""
        return values if self.in_order else values[self.order]

    @cached_property
    def offsets(self) -> I64:
        """(N + 1,) where each set begins."""
        sizes = np.zeros(len(self.ids), np.int64)
        np.add.at(sizes, self.runs, self.lengths)
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def firsts(self) -> I64:
        """(N,) the first row of each set."""
        firsts = np.empty(len(self.ids), np.int64)
        firsts[self.runs[::-1]] = self.starts[::-1]
        return firsts

    def of(self, rows: Any) -> Any:
        """The numbers of the sets of some rows."""
        return self.runs[np.searchsorted(self.starts, rows, side="right") - 1]

    def name(self, row: int) -> str:
        """A row and its set, for messages."""
        return f"row {row} (set {self.ids[self.of(row)].item()!r})"


class Parts(NamedTuple):
    """What sets are made of: points (T, d), their offsets (N + 1,), ids, names, targets and weights.

    ``last`` is the number of the set that the last row belongs to.
    """

    points: Array | Columns
    offsets: I64
    ids: Array
    names: Names
    targets: dict[str, Any]
    weights: Array | None
    last: int


class Roles(NamedTuple):
    """Which columns of a frame mean what: coordinates, targets that are columns of it, and all that are needed."""

    points: list[str]
    targets: list[str]
    needed: list[str]


def parts_of_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> Parts:
    """What `SampleSets.from_frame` makes sets of."""
    try:
        with panics_as_errors():
            return _parts_of_frame(frame, set_id, points, targets, weights)
    except RustPanicError as error:  # of polars
        raise SampleSetError(f"frame cannot be read ({error}): convert it to a pandas DataFrame") from error


def _parts_of_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> Parts:
    columns = columns_of_frame(opened_frame(frame, "frame"), "frame")
    roles = roles_of(frame, columns, set_id, points, targets, weights)
    groups = grouped(columns[set_id])
    joined = joined_targets(targets, roles.targets, set_id, columns, groups)
    mass = None if weights is None else np.array(groups.sorted(columns[weights].numbers(groups.name)))
    rows = _points([columns[name] for name in roles.points], groups)
    return Parts(rows, groups.offsets, groups.ids, tuple(roles.points), joined, mass, int(groups.runs[-1]))


def roles_of(
    frame: Any, columns: dict[str, Column], set_id: str, points: Any, targets: Any, weights: str | None
) -> Roles:
    """What each column means, as the arguments of `SampleSets.from_frame` say; a warning tells of what is left out."""
    own = own_targets(targets)
    taken = [set_id, *own, *([] if weights is None else [weights])]
    if set_id not in columns and has_index(frame) and set_id in frame.index.names:
        raise SampleSetError(f"{set_id!r} is an index of the frame: give frame.reset_index()")
    require_columns("frame", columns, taken)
    beside = [] if targets is None or own else target_columns(targets)
    chosen = _chosen(columns, points, taken, [*taken, *beside])
    return Roles(chosen, own, [*taken, *chosen])


def grouped(column: Column) -> Grouped:
    """The sets of the rows, by their ids; neighbours of one set are looked at once."""
    starts = column.starts()
    if not len(starts):
        raise SampleSetError("the frame has no rows: give at least one point")
    return grouped_runs(starts, column.taken(starts), len(column.series))


def grouped_runs(starts: I64, column: Column, n_rows: int) -> Grouped:
    """The sets of ``n_rows`` rows, by the ids of those where runs start; neighbouring runs of one set are one."""
    import pandas as pd

    values = column.values(lambda k: f"row {starts[k]}")
    runs, ids = pd.factorize(values)
    begins = np.append(True, runs[1:] != runs[:-1])
    return Grouped(starts[begins], runs[begins].astype(np.int64), as_ids(np.asarray(ids), len(ids)), n_rows)


def constant(column: Column, groups: Grouped) -> Array:
    """The value of every set in a column; refuses one that changes within a set.

    Looked at are the rows where a run of a set begins, or a run of equal values.
    """
    rows = np.union1d(groups.starts, column.starts())
    values = column.taken(rows).values(lambda k: groups.name(int(rows[k])), missing=True)
    return constant_values(column.name, rows, values, groups)


def constant_values(name: str, rows: I64, values: Array, groups: Grouped) -> Array:
    """The same, of the values of some rows, among which are the first of each run of a set."""
    firsts: Array = values[np.searchsorted(rows, groups.firsts)]
    expected = firsts[groups.of(rows)]
    differs = (values != expected) & ~((values != values) & (expected != expected))  # NaN is as NaN
    if differs.any():
        k = int(np.argmax(differs))
        raise SampleSetError(
            f"target {name!r} is {expected[k]!s} and then {values[k]!s} in {groups.name(int(rows[k]))}: a "
            "target has one value a set. Repair the frame, or make it one of the points"
        )
    return firsts


def targets_by_id(targets: Any, set_id: str, ids: Array) -> dict[str, Array]:
    """Targets of a frame or Series, (N,) each, joined to the ids by its index or by its column ``set_id``."""
    import pandas as pd

    columns = target_columns(targets)
    by_index = has_index(targets) and (set_id not in columns or targets.index.name == set_id)
    if not by_index and set_id not in columns:
        raise SampleSetError(
            f"targets have no column {set_id!r} by which they could be joined to the sets; they have "
            f"{', '.join(columns)}: add the ids"
        )

    def name_of(row: int) -> str:
        return f"row {row} of targets"

    index = targets.index if by_index else pd.Index(columns.pop(set_id).values(name_of))
    places = places_of(ids, index, "targets")
    return {name: column.values(name_of, missing=True)[places] for name, column in columns.items()}


def own_targets(targets: Any) -> list[str]:
    """The names of targets that are columns of the frame."""
    return as_column_names("targets", targets) if isinstance(targets, (str, list, tuple)) else []


def joined_targets(
    targets: Any, own: Sequence[str], set_id: str, columns: dict[str, Column], groups: Grouped
) -> dict[str, Array]:
    """Targets (N,) each: the columns ``own``, or those of a frame or Series joined by id."""
    if targets is None or own:
        return {name: constant(columns[name], groups) for name in own}
    return targets_by_id(targets, set_id, groups.ids)


def target_columns(targets: Any) -> dict[str, Column]:
    """The columns of targets by id; those of a Series are one, "y" if it has no name."""
    if has_index(targets) and targets.ndim == 1:
        targets = targets.to_frame("y" if targets.name is None else targets.name)
    return columns_of_frame(opened_frame(targets, "targets"), "targets")


def _chosen(
    columns: dict[str, Column], points: Any, taken: Sequence[str], targets: Sequence[str]
) -> list[str]:
    """The names of the coordinates: those given, or all numeric columns that are nothing else."""
    if points is not None:
        names = as_column_names("points", points)
        for name in names:
            require_columns("frame", columns, [name])
            if name in taken:
                raise SampleSetError(
                    f"column {name!r} is a coordinate and something else: leave it out of one"
                )
        if not names or len(set(names)) < len(names):
            raise SampleSetError(f"points must name one column or more, each once; found {names}")
        return names
    others = {name: column for name, column in columns.items() if name not in targets}
    left = {name: column.unfit() for name, column in others.items()}
    chosen = [name for name, reason in left.items() if reason is None]
    if told := [f"{name!r} ({reason})" for name, reason in left.items() if reason is not None]:
        warnings.warn(
            f"columns that are no coordinates are left out: {', '.join(told)}", stacklevel=user_level()
        )
    if not chosen:
        raise SampleSetError("frame has no numeric columns left to be coordinates: name some as points")
    LOG.info("points: %s", ", ".join(chosen))
    return chosen


def _points(columns: Sequence[Column], groups: Grouped) -> Columns:
    """(T, d), set after set."""
    return Columns([groups.sorted(column.numbers(groups.name)) for column in columns])


def as_column_names(what: str, given: Any) -> list[str]:
    """Names of columns: one, or several; TypeError for anything else."""
    names = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} is {given!r:.200}: give names of columns")
    return names


def require_columns(what: str, columns: dict[str, Column], names: Sequence[Any]) -> None:
    """Refuse a name that no column has."""
    for name in names:
        if name not in columns:
            raise SampleSetError(f"{what} has no column {name!r}; it has {', '.join(columns)}")
