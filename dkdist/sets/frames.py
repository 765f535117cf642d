"""Sets from a data frame with one row a point: pandas, polars or pyarrow, in whatever order its rows are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import I64, Array
from dkdist.sets.alignment import has_index, places_of
from dkdist.sets.frame_columns import Column, columns_of_frame, opened_frame
from dkdist.sets.labels import Names, as_ids
from dkdist.sets.point_checks import CODE_DTYPES, SampleSetError


@dataclass(frozen=True, eq=False)
class Grouped:
    """Which set each row belongs to: (T,) codes in the order in which sets appear, and their ids (N,)."""

    codes: I64
    ids: Array

    @cached_property
    def in_order(self) -> bool:
        """Whether the rows stand set after set as they are."""
        return not (np.diff(self.codes) < 0).any()

    @cached_property
    def order(self) -> I64:
        """The rows, set after set; those of a set keep their order."""
        return np.argsort(self.codes, kind="stable")

    def sorted(self, values: Array) -> Array:
        """The values of the rows (T,), set after set; they themselves, if they stand so."""
        return values if self.in_order else values[self.order]

    @cached_property
    def offsets(self) -> I64:
        """(N + 1,) where each set begins."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.codes, minlength=len(self.ids)))])

    @cached_property
    def firsts(self) -> I64:
        """(N,) the first row of each set."""
        return self.offsets[:-1] if self.in_order else self.order[self.offsets[:-1]]

    def name(self, row: int) -> str:
        """A row and its set, for messages."""
        return f"row {row} (set {self.ids[self.codes[row]].item()!r})"


class Parts(NamedTuple):
    """What sets are made of: points (T, d), their offsets (N + 1,), ids, names, targets and weights."""

    points: Array
    offsets: I64
    ids: Array
    names: Names
    targets: dict[str, Any]
    weights: Array | None


class Roles(NamedTuple):
    """Which columns of a frame mean what: coordinates, targets that are columns of it, and all that are needed."""

    points: list[str]
    targets: list[str]
    needed: list[str]


def parts_of_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> Parts:
    """What `SampleSets.from_frame` makes sets of."""
    columns = columns_of_frame(opened_frame(frame, "frame"), "frame")
    roles = roles_of(frame, columns, set_id, points, targets, weights)
    groups = grouped(columns[set_id])
    joined = {} if targets is None or roles.targets else targets_by_id(targets, set_id, groups.ids)
    joined |= {name: constant(columns[name], groups) for name in roles.targets}
    mass = None if weights is None else np.array(groups.sorted(columns[weights].numbers(groups.name)))
    rows = _points([columns[name] for name in roles.points], groups)
    return Parts(rows, groups.offsets, groups.ids, tuple(roles.points), joined, mass)


def roles_of(
    frame: Any, columns: dict[str, Column], set_id: str, points: Any, targets: Any, weights: str | None
) -> Roles:
    """What each column means, as the arguments of `SampleSets.from_frame` say; a warning tells of what is left out."""
    own = as_column_names("targets", targets) if isinstance(targets, (str, list, tuple)) else []
    taken = [set_id, *own, *([] if weights is None else [weights])]
    for name in taken:
        _require(columns, name, frame, set_id)
    beside = [] if targets is None or own else target_columns(targets)
    chosen = _chosen(columns, points, taken, [*taken, *beside])
    return Roles(chosen, own, [*taken, *chosen])


def grouped(column: Column) -> Grouped:
    """The sets of the rows, by their ids; neighbours of one set are looked at once."""
    import pandas as pd

    starts = column.starts()
    if not len(starts):
        raise SampleSetError("the frame has no rows: give at least one point")
    values = column.taken(starts).values(lambda k: f"row {starts[k]}")
    codes, ids = pd.factorize(values)
    lengths = np.diff(np.append(starts, len(column.series)))
    return Grouped(np.repeat(codes.astype(np.int64), lengths), as_ids(np.asarray(ids), len(ids)))


def constant(column: Column, groups: Grouped) -> Array:
    """The value of every set in a column; refuses one that changes within a set."""
    values = column.values(groups.name, missing=True)
    first = values[groups.firsts][groups.codes]
    differs = (values != first) & ~((values != values) & (first != first))  # NaN is as NaN
    if differs.any():
        row = int(np.argmax(differs))
        raise SampleSetError(
            f"target {column.name!r} is {first[row]!s} and then {values[row]!s} in {groups.name(row)}: a target has "
            "one value a set. Repair the frame, or make it one of the points"
        )
    return np.asarray(values[groups.firsts])


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
            if name not in columns:
                raise SampleSetError(f"frame has no column {name!r}; it has {', '.join(columns)}")
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
        warnings.warn(f"columns that are no coordinates are left out: {', '.join(told)}", stacklevel=4)
    if not chosen:
        raise SampleSetError("frame has no numeric columns left to be coordinates: name some as points")
    return chosen


def _points(columns: Sequence[Column], groups: Grouped) -> NDArray[Any]:
    """(T, d), set after set."""
    values = [column.numbers(groups.name) for column in columns]
    if len(values) == 1 and values[0].dtype in CODE_DTYPES:
        return groups.sorted(values[0])[:, None].copy()  # codes of strings keep their type
    rows = np.empty((len(groups.codes), len(values)), np.result_type(np.float32, *values))
    for j, column in enumerate(values):
        rows[:, j] = groups.sorted(column)
    return rows


def as_column_names(what: str, given: Any) -> list[str]:
    """Names of columns: one, or several; TypeError for anything else."""
    names = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} is {given!r:.200}: give names of columns")
    return names


def _require(columns: dict[str, Column], name: Any, frame: Any, set_id: str) -> None:
    if name in columns:
        return
    if name == set_id and has_index(frame) and set_id in frame.index.names:
        raise SampleSetError(f"{set_id!r} is an index of the frame: give frame.reset_index()")
    raise SampleSetError(f"frame has no column {name!r}; it has {', '.join(columns)}")
