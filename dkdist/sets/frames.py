"""Sets from a data frame with one row a point: pandas, polars or pyarrow, in whatever order its rows are.

Columns of data frames as NumPy arrays, through narwhals: what is missing, or no number, is refused by row.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import I64, Array
from dkdist._numba.points import EXACT_DTYPES, all_finite, run_starts
from dkdist._utils.rust_panics import RustPanicError, panics_as_errors
from dkdist._utils.validation import Columns, find_stacklevel
from dkdist.sets.indexing import has_index, positions_of_ids
from dkdist.sets.labels import Names, as_ids
from dkdist.sets.point_checks import SampleSetError

RowFormatter = Callable[[int], str]


@dataclass(frozen=True)
class Column:
    """A column of a frame, a narwhals Series."""

    name: str
    series: Any

    def unfit(self) -> str | None:
        """Why it can be no coordinate that nobody has named; None if it can."""
        if not self._is_numeric():
            return f"{self.series.dtype} and no number"
        if self.name.startswith("Unnamed: "):
            return "the index of a table that was saved with it"
        counts = self.name in ("index", "level_0") and self.series.dtype.is_integer()
        if counts and np.array_equal(self.series.to_numpy(), np.arange(len(self.series))):
            return "it counts the rows"
        return None

    def starts(self) -> I64:
        """The rows whose value is not that of the row before; the first is one, and each that has no value."""
        if (values := self._plain()) is not None:
            return run_starts(values)
        differs = np.ones(len(self.series), bool)
        if len(differs) > 1:
            differs[1:] = self._differing()
        return np.flatnonzero(differs)

    def _differing(self) -> NDArray[np.bool_]:
        """Of each row but the first, whether its value is missing or not that of the row before."""
        arrow = self._arrow()
        if arrow is None:
            same = (self.series[1:] == self.series[:-1]).fill_null(False)
            return ~np.asarray(same.to_numpy(), bool)
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(arrow.type):  # its values are not looked at
            arrow = arrow.unify_dictionaries().combine_chunks().indices
        differs = pc.not_equal(arrow[1:], arrow[:-1])
        differs = pc.fill_null(differs, True) if differs.null_count else differs
        return np.asarray(differs.to_numpy(zero_copy_only=False), bool)

    def _arrow(self) -> Any:
        """The values as pyarrow keeps them, if it does; else None."""
        native = self.series.to_native()
        if type(native).__module__.partition(".")[0] == "pyarrow":
            return native
        kept = has_index(native) and getattr(native.dtype, "storage", None) == "pyarrow"
        return native.array.__arrow_array__() if kept else None

    def _plain(self) -> Array | None:
        """The values, if they are kept as an array of numbers in which none is missing, or is NaN then."""
        native, arrow = self.series.to_native(), self._arrow()
        if arrow is not None and self.series.dtype.is_numeric() and not arrow.null_count:
            values = np.asarray(arrow.to_numpy(zero_copy_only=False))
        elif has_index(native) and isinstance(native.dtype, np.dtype):
            values = native.to_numpy()
        else:
            return None
        return values if values.dtype.kind in "iuf" else None

    def taken(self, rows: I64) -> Column:
        """Some of the rows."""
        return Column(self.name, self.series[rows])

    def numbers(self, name_of_row: RowFormatter) -> Array:
        """(T,) finite numbers; booleans are 0 and 1. Refuses text and categories, and missing values by row."""
        if not self._is_numeric():
            raise SampleSetError(
                f"column {self.name!r} is {self.series.dtype}, and points are numbers: leave it out, or give a column "
                "of 0 and 1 for each of its values (pandas.get_dummies)"
            )
        if (values := self._plain()) is not None and _is_finite(values):
            return values
        self._require_known(name_of_row)
        values = np.asarray(self.series.to_numpy())
        values = values.astype(np.float32) if values.dtype.kind == "b" else values
        if values.dtype.kind not in "iuf":
            values = values.astype(np.float64)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise SampleSetError(
                f"column {self.name!r} is {values[row]} in {name_of_row(row)}: drop the row, or fill it in"
            )
        return values

    def values(self, name_of_row: RowFormatter, *, missing: bool = False) -> Array:
        """(T,) numbers, booleans or str, of categories their values; with ``missing`` numbers may be NaN."""
        if missing and self._is_numeric() and self.series.is_null().any():
            return np.asarray(self.series.cast(_narwhals().Float64).to_numpy(), np.float64)
        self._require_known(name_of_row)
        values = np.asarray(self.series.to_numpy())
        is_text = self.series.dtype == _narwhals().String
        if is_text or (values.dtype.kind in "OT" and set(map(type, values)) <= {str, np.str_}):
            return values.astype(object, copy=False)
        if values.dtype.kind == "O":  # numbers in Python objects; a mixture with text stays, and is refused
            kinds = {type(value) for value in values.tolist()}
            values = np.array(values.tolist()) if kinds <= {int, float} or kinds == {bool} else values
        if values.dtype.kind not in "biufU":
            raise SampleSetError(
                f"column {self.name!r} is {self.series.dtype}: ids and targets are numbers, booleans or str. Convert it"
            )
        return values

    def _is_numeric(self) -> bool:
        dtype = self.series.dtype
        return bool(dtype.is_numeric() or dtype == _narwhals().Boolean)

    def _require_known(self, name_of_row: RowFormatter) -> None:
        lost = np.flatnonzero(np.asarray(self.series.is_null().to_numpy(), bool))
        if len(lost):
            raise SampleSetError(
                f"column {self.name!r} has no value in {name_of_row(int(lost[0]))} ({len(lost)} such rows): drop "
                "them, or fill them in"
            )


def _is_finite(values: Array) -> bool:
    """Whether no number is NaN or infinite."""
    if values.dtype.kind != "f" or not len(values):
        return True
    if values.dtype in EXACT_DTYPES and values.flags.c_contiguous:
        return all_finite(values)
    return bool(np.isfinite([values.min(), values.max()]).all())  # without a temporary


def columns_of_frame(frame: Any, what: str) -> dict[str, Column]:
    """The columns of an opened frame by name; names are str, and differ."""
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise SampleSetError(f"column {name!r} of {what} has no str for a name: rename it")
    return {name: Column(name, frame[name]) for name in names}


def open_frame(frame: Any, what: str) -> Any:
    """A pandas, polars or pyarrow frame in memory, as narwhals has it."""
    if type(frame).__module__.partition(".")[0] in ("dask", "dask_expr"):
        kind = type(frame).__name__
        raise TypeError(
            f"{what} is a Dask {kind}, which may be larger than memory: import_frame writes a store of a Dask DataFrame"
        )
    given = list(frame.columns if has_index(frame) else getattr(frame, "column_names", ()))
    if twice := [name for name in given if given.count(name) > 1]:
        raise SampleSetError(f"column {twice[0]!r} of {what} is there twice: rename one")
    opened = _narwhals().from_native(frame, eager_only=True, pass_through=True)
    if opened is frame:
        raise TypeError(
            f"{what} is {type(frame).__name__}: expected a pandas or polars DataFrame or a pyarrow Table in memory "
            "(collect() one that is lazy)"
        )
    return opened


def _narwhals() -> Any:
    for name in ("narwhals", "pandas"):
        if find_spec(name) is None:
            raise ImportError(f"sets from data frames need {name}: pip install 'dkdist[frames]'")
    import narwhals.stable.v2

    return narwhals.stable.v2


LOG = logging.getLogger("dkdist.importing")  # as imports of tables do


@dataclass(frozen=True, eq=False)
class RowGroups:
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


class SetParts(NamedTuple):
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


class ColumnRoles(NamedTuple):
    """Which columns of a frame mean what: coordinates, targets that are columns of it, and all that are needed."""

    points: list[str]
    targets: list[str]
    needed: list[str]


def parts_from_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> SetParts:
    """What `SampleSets.from_frame` makes sets of."""
    try:
        with panics_as_errors():
            return _parts_of_frame(frame, set_id, points, targets, weights)
    except RustPanicError as error:  # of polars
        raise SampleSetError(f"frame cannot be read ({error}): convert it to a pandas DataFrame") from error


def _parts_of_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> SetParts:
    columns = columns_of_frame(open_frame(frame, "frame"), "frame")
    roles = assign_roles(frame, columns, set_id, points, targets, weights)
    groups = group_rows(columns[set_id])
    joined = join_targets(targets, roles.targets, set_id, columns, groups)
    mass = None if weights is None else np.array(groups.sorted(columns[weights].numbers(groups.name)))
    rows = _points([columns[name] for name in roles.points], groups)
    return SetParts(rows, groups.offsets, groups.ids, tuple(roles.points), joined, mass, int(groups.runs[-1]))


def assign_roles(
    frame: Any, columns: dict[str, Column], set_id: str, points: Any, targets: Any, weights: str | None
) -> ColumnRoles:
    """What each column means, as the arguments of `SampleSets.from_frame` say; a warning tells of what is left out."""
    own = frame_target_names(targets)
    taken = [set_id, *own, *([] if weights is None else [weights])]
    if set_id not in columns and has_index(frame) and set_id in frame.index.names:
        raise SampleSetError(f"{set_id!r} is an index of the frame: give frame.reset_index()")
    require_columns("frame", columns, taken)
    beside = [] if targets is None or own else target_columns(targets)
    chosen = _choose_coordinates(columns, points, taken, [*taken, *beside])
    return ColumnRoles(chosen, own, [*taken, *chosen])


def group_rows(column: Column) -> RowGroups:
    """The sets of the rows, by their ids; neighbours of one set are looked at once."""
    starts = column.starts()
    if not len(starts):
        raise SampleSetError("the frame has no rows: give at least one point")
    return group_runs(starts, column.taken(starts), len(column.series))


def group_runs(starts: I64, column: Column, n_rows: int) -> RowGroups:
    """The sets of ``n_rows`` rows, by the ids of those where runs start; neighbouring runs of one set are one."""
    import pandas as pd

    values = column.values(lambda k: f"row {starts[k]}")
    runs, ids = pd.factorize(values)
    begins = np.append(True, runs[1:] != runs[:-1])
    return RowGroups(starts[begins], runs[begins].astype(np.int64), as_ids(np.asarray(ids), len(ids)), n_rows)


def constant_per_set(column: Column, groups: RowGroups) -> Array:
    """The value of every set in a column; refuses one that changes within a set.

    Looked at are the rows where a run of a set begins, or a run of equal values.
    """
    rows = np.union1d(groups.starts, column.starts())
    values = column.taken(rows).values(lambda k: groups.name(int(rows[k])), missing=True)
    return require_constant(column.name, rows, values, groups)


def require_constant(name: str, rows: I64, values: Array, groups: RowGroups) -> Array:
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
    places = positions_of_ids(ids, index, "targets")
    return {name: column.values(name_of, missing=True)[places] for name, column in columns.items()}


def frame_target_names(targets: Any) -> list[str]:
    """The names of targets that are columns of the frame."""
    return as_column_names("targets", targets) if isinstance(targets, (str, list, tuple)) else []


def join_targets(
    targets: Any, own: Sequence[str], set_id: str, columns: dict[str, Column], groups: RowGroups
) -> dict[str, Array]:
    """Targets (N,) each: the columns ``own``, or those of a frame or Series joined by id."""
    if targets is None or own:
        return {name: constant_per_set(columns[name], groups) for name in own}
    return targets_by_id(targets, set_id, groups.ids)


def target_columns(targets: Any) -> dict[str, Column]:
    """The columns of targets by id; those of a Series are one, "y" if it has no name."""
    if has_index(targets) and targets.ndim == 1:
        targets = targets.to_frame("y" if targets.name is None else targets.name)
    return columns_of_frame(open_frame(targets, "targets"), "targets")


def _choose_coordinates(
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
            f"columns that are no coordinates are left out: {', '.join(told)}", stacklevel=find_stacklevel()
        )
    if not chosen:
        raise SampleSetError("frame has no numeric columns left to be coordinates: name some as points")
    LOG.info("points: %s", ", ".join(chosen))
    return chosen


def _points(columns: Sequence[Column], groups: RowGroups) -> Columns:
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
