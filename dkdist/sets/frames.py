"""Sets from data frames with one row per point (pandas, polars, pyarrow), in any order of rows.

`Column` converts a narwhals Series to NumPy arrays and names the rows of missing or invalid values. `RowGroups` maps
rows to sets by runs of equal ids. `parts_from_frame` combines both into the arguments of `SampleSets`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
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
    """A named column of a frame (narwhals Series)."""

    name: str
    series: Any

    def exclusion_reason(self) -> str | None:
        """Return the reason why the column is not a default coordinate; None if it is."""
        if not self._is_numeric():
            return f"{self.series.dtype}, not numeric"
        if self.name.startswith("Unnamed: "):
            return "a saved index"
        counts = self.name in ("index", "level_0") and self.series.dtype.is_integer()
        if counts and np.array_equal(self.series.to_numpy(), np.arange(len(self.series))):
            return "a row counter"
        return None

    def starts(self) -> I64:
        """Return the first rows of runs of equal values; a missing value is a run by itself."""
        if (values := self._plain_values()) is not None:
            return run_starts(values)
        differs = np.ones(len(self.series), bool)
        if len(differs) > 1:
            differs[1:] = self._differs_from_previous()
        return np.flatnonzero(differs)

    def _differs_from_previous(self) -> NDArray[np.bool_]:
        """Return, for rows 1 to T - 1, whether a value is missing or differs from the previous one: (T - 1,)."""
        arrow = self._arrow()
        if arrow is None:
            is_equal = (self.series[1:] == self.series[:-1]).fill_null(False)
            return ~np.asarray(is_equal.to_numpy(), bool)
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(arrow.type):  # comparing indices is faster than comparing values
            arrow = arrow.unify_dictionaries().combine_chunks().indices
        differs = pc.not_equal(arrow[1:], arrow[:-1])
        differs = pc.fill_null(differs, True) if differs.null_count else differs
        return np.asarray(differs.to_numpy(zero_copy_only=False), bool)

    def _arrow(self) -> Any:
        """Return the underlying pyarrow array, if there is one."""
        native = self.series.to_native()
        if type(native).__module__.partition(".")[0] == "pyarrow":
            return native
        is_arrow_backed = has_index(native) and getattr(native.dtype, "storage", None) == "pyarrow"
        return native.array.__arrow_array__() if is_arrow_backed else None

    def _plain_values(self) -> Array | None:
        """Return the values without conversion if they are a numeric array without nulls; else None."""
        native, arrow = self.series.to_native(), self._arrow()
        if arrow is not None and self.series.dtype.is_numeric() and not arrow.null_count:
            values = np.asarray(arrow.to_numpy(zero_copy_only=False))
        elif has_index(native) and isinstance(native.dtype, np.dtype):
            values = native.to_numpy()
        else:
            return None
        return values if values.dtype.kind in "iuf" else None

    def take(self, rows: I64) -> Column:
        """Return selected rows of the column."""
        return Column(self.name, self.series[rows])

    def numbers(self, name_of_row: RowFormatter) -> Array:
        """Return (T,) finite numbers, booleans as 0 and 1; raises for other types and missing values."""
        if not self._is_numeric():
            raise SampleSetError(
                f"column {self.name!r} must be numeric; got {self.series.dtype}. Omit it, or encode it as columns of 0 "
                "and 1 (pandas.get_dummies)."
            )
        if (values := self._plain_values()) is not None and _is_finite(values):
            return values
        self._require_known(name_of_row)
        values = np.asarray(self.series.to_numpy())
        values = values.astype(np.float32) if values.dtype.kind == "b" else values
        if values.dtype.kind not in "iuf":
            values = values.astype(np.float64)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise SampleSetError(
                f"column {self.name!r} must be finite; got {values[row]} in {name_of_row(row)}. Drop the row or fill "
                "in a value."
            )
        return values

    def values(self, name_of_row: RowFormatter, *, missing: bool = False) -> Array:
        """Return (T,) numbers, booleans or str; with ``missing`` numbers may be NaN."""
        if missing and self._is_numeric() and self.series.is_null().any():
            return np.asarray(self.series.cast(_narwhals().Float64).to_numpy(), np.float64)
        self._require_known(name_of_row)
        values = np.asarray(self.series.to_numpy())
        is_text = self.series.dtype == _narwhals().String
        if is_text or (values.dtype.kind in "OT" and set(map(type, values)) <= {str, np.str_}):
            return values.astype(object, copy=False)
        if values.dtype.kind == "O":  # Python numbers; mixtures with text stay objects and raise below
            kinds = {type(value) for value in values.tolist()}
            values = np.array(values.tolist()) if kinds <= {int, float} or kinds == {bool} else values
        if values.dtype.kind not in "biufU":
            raise SampleSetError(
                f"column {self.name!r} must contain numbers, booleans or str; got {self.series.dtype}. Convert it."
            )
        return values

    def _is_numeric(self) -> bool:
        dtype = self.series.dtype
        return bool(dtype.is_numeric() or dtype == _narwhals().Boolean)

    def _require_known(self, name_of_row: RowFormatter) -> None:
        missing = np.flatnonzero(np.asarray(self.series.is_null().to_numpy(), bool))
        if len(missing):
            raise SampleSetError(
                f"column {self.name!r} has no value in {name_of_row(int(missing[0]))} ({len(missing)} such rows). Drop "
                "them or fill them in."
            )


def _is_finite(values: Array) -> bool:
    if values.dtype.kind != "f" or not len(values):
        return True
    if values.dtype in EXACT_DTYPES and values.flags.c_contiguous:
        return all_finite(values)
    return bool(np.isfinite([values.min(), values.max()]).all())  # needs no temporary array


def columns_of_frame(frame: Any, what: str) -> dict[str, Column]:
    """Return the columns of a narwhals frame by name; names must be str."""
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise SampleSetError(f"column names of {what} must be str; got {name!r}. Rename it.")
    return {name: Column(name, frame[name]) for name in names}


def open_frame(frame: Any, what: str) -> Any:
    """Wrap a pandas, polars or pyarrow frame in memory as a narwhals frame."""
    if type(frame).__module__.partition(".")[0] in ("dask", "dask_expr"):
        kind = type(frame).__name__
        raise TypeError(
            f"{what} must be in memory; got a Dask {kind}. Use import_frame, which writes a store of a Dask DataFrame."
        )
    names = list(frame.columns if has_index(frame) else getattr(frame, "column_names", ()))
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise SampleSetError(
            f"column names of {what} must be unique; got {duplicates[0]!r} twice. Rename one."
        )
    wrapped = _narwhals().from_native(frame, eager_only=True, pass_through=True)
    if wrapped is frame:
        raise TypeError(
            f"{what} must be a pandas or polars DataFrame or a pyarrow Table in memory; got {type(frame).__name__}. "
            "Call collect() on a lazy frame."
        )
    return wrapped


def open_series(series: Any) -> Any:
    """Wrap a pandas Series as a narwhals Series."""
    return _narwhals().from_native(series, series_only=True)


def _narwhals() -> Any:
    for name in ("narwhals", "pandas"):
        if find_spec(name) is None:
            raise ImportError(f"data frames require {name}. Install it: pip install 'dkdist[frames]'")
    import narwhals.stable.v2

    return narwhals.stable.v2


LOG = logging.getLogger("dkdist.importing")  # logger of all imports


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Assignment of T rows to N sets, by runs of consecutive rows of one set.

    ``starts`` (r,) are the first rows of the runs, ``runs`` (r,) their set numbers (sets are numbered by first
    appearance), and ``ids`` (N,) the set ids.
    """

    starts: I64
    runs: I64
    ids: Array
    n_rows: int

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the rows of every set are contiguous."""
        return len(self.runs) == len(self.ids)

    @cached_property
    def lengths(self) -> I64:
        """(r,) rows per run."""
        return np.diff(self.starts, append=self.n_rows)

    @cached_property
    def order(self) -> I64:
        """(T,) row indices that sort rows by set, stably."""
        sorted_runs = np.argsort(self.runs, kind="stable")
        lengths = self.lengths[sorted_runs]
        shifts = self.starts[sorted_runs] - (np.cumsum(lengths) - lengths)
        return np.repeat(shifts, lengths) + np.arange(self.n_rows)

    def sort(self, values: Array) -> Array:
        """Sort values (T,) of rows by set; the same array if rows are sorted."""
        return values if self.is_sorted else values[self.order]

    @cached_property
    def offsets(self) -> I64:
        """(N + 1,) first row of each set after sorting."""
        sizes = np.zeros(len(self.ids), np.int64)
        np.add.at(sizes, self.runs, self.lengths)
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def first_rows(self) -> I64:
        """(N,) first row of each set before sorting."""
        firsts = np.empty(len(self.ids), np.int64)
        firsts[self.runs[::-1]] = self.starts[::-1]
        return firsts

    def set_of(self, rows: Any) -> Any:
        """Return the set numbers of rows."""
        return self.runs[np.searchsorted(self.starts, rows, side="right") - 1]

    def describe_row(self, row: int) -> str:
        """Format a row and its set for messages."""
        return f"row {row} (set {self.ids[self.set_of(row)].item()!r})"


class SetParts(NamedTuple):
    """Arguments of `SampleSets` and `labelled`; ``last`` is the index of the set that contains the last row."""

    points: Array | Columns
    offsets: I64
    ids: Array
    names: Names
    targets: dict[str, Any]
    weights: Array | None
    last: int


class ColumnRoles(NamedTuple):
    """Column names by role: coordinates, targets in the frame, and all required columns."""

    points: list[str]
    targets: list[str]
    required: list[str]


def parts_from_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> SetParts:
    """Convert a frame to the arguments of `SampleSets`."""
    try:
        with panics_as_errors():
            return _parts_of_frame(frame, set_id, points, targets, weights)
    except RustPanicError as error:  # polars is written in Rust
        raise SampleSetError(f"frame cannot be read ({error}). Convert it to a pandas DataFrame.") from error


def _parts_of_frame(frame: Any, set_id: str, points: Any, targets: Any, weights: str | None) -> SetParts:
    columns = columns_of_frame(open_frame(frame, "frame"), "frame")
    roles = assign_roles(frame, columns, set_id, points, targets, weights)
    groups = group_rows(columns[set_id])
    set_targets = join_targets(targets, roles.targets, set_id, columns, groups)
    point_weights = None
    if weights is not None:
        point_weights = np.array(groups.sort(columns[weights].numbers(groups.describe_row)))
    rows = Columns([groups.sort(columns[name].numbers(groups.describe_row)) for name in roles.points])
    names, last = tuple(roles.points), int(groups.runs[-1])
    return SetParts(rows, groups.offsets, groups.ids, names, set_targets, point_weights, last)


def assign_roles(
    frame: Any, columns: dict[str, Column], set_id: str, points: Any, targets: Any, weights: str | None
) -> ColumnRoles:
    """Assign the columns of a frame to roles; warns about omitted columns."""
    target_names = frame_target_names(targets)
    reserved = [set_id, *target_names, *([] if weights is None else [weights])]
    if set_id not in columns and has_index(frame) and set_id in frame.index.names:
        raise SampleSetError(
            f"set_id must be a column; {set_id!r} is an index of frame. Pass frame.reset_index()."
        )
    require_columns("frame", columns, reserved)
    joined_names = [] if targets is None or target_names else target_columns(targets)
    coordinates = _choose_coordinates(columns, points, reserved, [*reserved, *joined_names])
    return ColumnRoles(coordinates, target_names, [*reserved, *coordinates])


def group_rows(column: Column) -> RowGroups:
    """Group rows by the ids in a column."""
    starts = column.starts()
    if not len(starts):
        raise SampleSetError("frame must have at least one row; got none.")
    return group_runs(starts, column.take(starts), len(column.series))


def group_runs(starts: I64, column: Column, n_rows: int) -> RowGroups:
    """Group ``n_rows`` rows by the ids (r,) of their runs; adjacent runs of one set are merged."""
    import pandas as pd

    values = column.values(lambda k: f"row {starts[k]}")
    runs, ids = pd.factorize(values)
    begins = np.append(True, runs[1:] != runs[:-1])
    return RowGroups(starts[begins], runs[begins].astype(np.int64), as_ids(np.asarray(ids), len(ids)), n_rows)


def constant_per_set(column: Column, groups: RowGroups) -> Array:
    """Return the value of a column for each set (N,); raises if it changes within a set."""
    rows = np.union1d(groups.starts, column.starts())  # a value can change only there
    values = column.take(rows).values(lambda k: groups.describe_row(int(rows[k])), missing=True)
    return require_constant(column.name, rows, values, groups)


def require_constant(name: str, rows: I64, values: Array, groups: RowGroups) -> Array:
    """Return the value of each set (N,) from values of rows, which include the first row of each run."""
    first_values: Array = values[np.searchsorted(rows, groups.first_rows)]
    expected = first_values[groups.set_of(rows)]
    # two NaN count as equal
    differs = (values != expected) & ~((values != values) & (expected != expected))
    if differs.any():
        k = int(np.argmax(differs))
        raise SampleSetError(
            f"target {name!r} must have one value per set; got {expected[k]!s} and {values[k]!s} in "
            f"{groups.describe_row(int(rows[k]))}. Correct the frame or use the column as a coordinate."
        )
    return first_values


def targets_by_id(targets: Any, set_id: str, ids: Array) -> dict[str, Array]:
    """Join targets of a frame or Series to the ids, (N,) each, by its index or its column ``set_id``."""
    import pandas as pd

    columns = target_columns(targets)
    by_index = has_index(targets) and (set_id not in columns or targets.index.name == set_id)
    if not by_index and set_id not in columns:
        raise SampleSetError(
            f"targets must contain the column {set_id!r} to be joined to the sets; got {', '.join(columns)}. Add "
            "the ids."
        )

    def describe_row(row: int) -> str:
        return f"row {row} of targets"

    index = targets.index if by_index else pd.Index(columns.pop(set_id).values(describe_row))
    positions = positions_of_ids(ids, index, "targets")
    return {name: column.values(describe_row, missing=True)[positions] for name, column in columns.items()}


def frame_target_names(targets: Any) -> list[str]:
    """Return the target names if they are columns of the frame; else an empty list."""
    return as_column_names("targets", targets) if isinstance(targets, (str, list, tuple)) else []


def join_targets(
    targets: Any, names: Sequence[str], set_id: str, columns: dict[str, Column], groups: RowGroups
) -> dict[str, Array]:
    """Return targets (N,) by name: the named columns, or a frame or Series joined by id."""
    if targets is None or names:
        return {name: constant_per_set(columns[name], groups) for name in names}
    return targets_by_id(targets, set_id, groups.ids)


def target_columns(targets: Any) -> dict[str, Column]:
    """Return the columns of targets; an unnamed Series becomes the column "y"."""
    if has_index(targets) and targets.ndim == 1:
        targets = targets.to_frame("y" if targets.name is None else targets.name)
    return columns_of_frame(open_frame(targets, "targets"), "targets")


def _choose_coordinates(
    columns: dict[str, Column], points: Any, reserved: Sequence[str], excluded: Sequence[str]
) -> list[str]:
    """Return the coordinate names: ``points``, or all numeric columns without another role."""
    if points is not None:
        names = as_column_names("points", points)
        for name in names:
            require_columns("frame", columns, [name])
            if name in reserved:
                raise SampleSetError(f"points must not contain {name!r}, which has another role. Remove it.")
        if not names or len(set(names)) < len(names):
            raise SampleSetError(f"points must name at least one column, each once; got {names}.")
        return names
    reason_by_name = {
        name: column.exclusion_reason() for name, column in columns.items() if name not in excluded
    }
    coordinates = [name for name, reason in reason_by_name.items() if reason is None]
    if omitted := [f"{name!r} ({reason})" for name, reason in reason_by_name.items() if reason is not None]:
        warnings.warn(
            f"columns omitted from the coordinates: {', '.join(omitted)}", stacklevel=find_stacklevel()
        )
    if not coordinates:
        raise SampleSetError("frame has no numeric columns for coordinates. Select columns with points.")
    LOG.info("points: %s", ", ".join(coordinates))
    return coordinates


def as_column_names(what: str, value: Any) -> list[str]:
    """Convert a name or a sequence of names to a list; raises TypeError for anything else."""
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be column names; got {value!r:.200}.")
    return names


def require_columns(what: str, columns: dict[str, Column], names: Sequence[Any]) -> None:
    """Raise for names without a column."""
    for name in names:
        if name not in columns:
            raise SampleSetError(f"{what} has no column {name!r}; its columns are {', '.join(columns)}.")
