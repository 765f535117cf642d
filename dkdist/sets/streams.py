"""Single-pass conversion of record batches and columns to sets, for common tables.

`StreamedRows` rounds rows to float32 while they are in the cache and reuses their buffers. `sets_from_batches` is the
fast path of `frames.parts_from_frame`: numeric or dictionary ids, numeric targets, coordinates of up to 32 bits or
float64, no missing values. Both return None for anything else; the caller then uses the general path, which also
produces the error messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._numba.points import EXACT_DTYPES, fill_rows, run_starts
from dkdist._utils.concurrency import BufferPool
from dkdist._utils.validation import Columns
from dkdist.sets.frames import (
    RowGroups,
    columns_of_frame,
    group_runs,
    open_frame,
    require_constant,
    targets_by_id,
)
from dkdist.sets.origins import SortedSample, fits_float32, normalize_origin, sample_row_indices
from dkdist.sets.point_checks import CODE_DTYPES, SampleSetError
from dkdist.sets.sample_sets import SampleSets


class StreamedRows:
    """Float32 rows (n, d) relative to an origin (None for 0), filled from columns of successive batches.

    The result is bitwise identical to that of `convert_points` on all rows.
    """

    def __init__(self, n: int, d: int, origin: F64 | None, buffers: BufferPool | None = None) -> None:
        self.origin = normalize_origin(origin)
        self._start = np.zeros(d) if self.origin is None else self.origin
        self._rows = (buffers or BufferPool()).empty((n, d), np.float32)
        self._n_added, self._is_plain = 0, True
        self._sampled = np.sort(sample_row_indices(n, d))
        self._sample: F64 | None = None
        self._dtypes: list[np.dtype[Any]] = []

    def add(self, columns: Sequence[Array]) -> bool:
        """Add the next rows; return whether all rows so far are supported."""
        a, b = self._n_added, self._n_added + len(columns[0])
        self._n_added = b
        self._is_plain = (
            self._is_plain and b <= len(self._rows) and self._accepts([column.dtype for column in columns])
        )
        if self._is_plain:
            self._update_sample(a, b, columns)
            self._is_plain = fill_rows(columns, self._start, self._rows[a:b])
        return self._is_plain

    def result(self) -> F32 | None:
        """Return the rows (n, d); None if any are unsupported."""
        if not self._is_plain or self._n_added < len(self._rows):
            return None
        if self._sample is not None:
            sample = SortedSample.from_rows(self._sample)
            if sample.find_lossy_column(self.origin) is not None:
                return None
        all_zero = self.origin is None and not self._rows[:1].any() and not self._rows.any()
        return None if all_zero else self._rows

    def _accepts(self, dtypes: list[np.dtype[Any]]) -> bool:
        self._dtypes = self._dtypes or dtypes
        codes = len(dtypes) == 1 and dtypes[0] in CODE_DTYPES
        return dtypes == self._dtypes and EXACT_DTYPES.issuperset(dtypes) and not codes

    def _update_sample(self, a: int, b: int, columns: Sequence[Array]) -> None:
        """Copy the sampled rows among a .. b - 1, unless float32 represents the dtypes exactly."""
        rows = Columns(columns)
        if self._sample is None and fits_float32([rows], self.origin):
            return
        if self._sample is None:
            self._sample = np.full((len(self._sampled), len(columns)), np.nan)
        first, last = np.searchsorted(self._sampled, [a, b])
        if first < last:
            self._sample[first:last] = rows[self._sampled[first:last] - a]


class ColumnSelection(NamedTuple):
    """Roles of columns: ids, coordinates, optional weights; targets as column names or as a frame indexed by id."""

    set_id: str
    points: Sequence[str]
    targets: Any
    weights: str | None
    target_columns: Sequence[str]


def sets_from_batches(
    n_rows: int, batches: Iterable[Any], columns: ColumnSelection, origin: F64 | None, buffers: BufferPool
) -> tuple[SampleSets, Any] | None:
    """Return (sets, id of the last row) of n_rows rows in pyarrow record batches; None if unsupported."""
    points = StreamedRows(n_rows, len(columns.points), origin, buffers)
    weights = None if columns.weights is None else StreamedRows(n_rows, 1, None, buffers)
    runs = {name: _ColumnRuns(name) for name in (columns.set_id, *columns.target_columns)}
    start = 0
    for batch in batches:
        if not all(run.add(start, batch.column(name)) for name, run in runs.items()):
            return None
        if not _add_columns(points, batch, columns.points):
            return None
        if weights is not None and not _add_columns(weights, batch, [columns.weights]):
            return None
        start += len(batch)
    rows = points.result()
    weight_rows = None if weights is None else weights.result()
    if rows is None or (weight_rows is None and weights is not None):
        return None
    try:
        groups = runs[columns.set_id].group_rows(n_rows)
        if not groups.is_sorted:
            return None
        targets = {name: runs[name].value_per_set(groups) for name in columns.target_columns}
        if columns.targets is not None and not columns.target_columns:
            targets = targets_by_id(columns.targets, columns.set_id, groups.ids)
    except SampleSetError:
        return None
    point_weights = None if weight_rows is None else weight_rows[:, 0]
    sets = SampleSets._trusted(rows, groups.offsets, point_weights, None, points.origin)
    return sets.labelled(groups.ids, tuple(columns.points), targets), groups.ids[int(groups.runs[-1])]


def _add_columns(rows: StreamedRows, batch: Any, names: Sequence[Any]) -> bool:
    """Add columns of a batch to the rows; return whether they are supported."""
    arrays = [_plain_array(batch.column(name)) for name in names]
    supported = [array for array in arrays if array is not None]
    return len(supported) == len(arrays) and rows.add(supported)


class _ColumnRuns:
    """Runs of equal values of a column; each batch starts a new run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._starts: list[I64] = []
        self._values: list[Any] = []

    def add(self, start: int, column: Any) -> bool:
        """Add rows from ``start`` on; return whether their type is supported."""
        import pyarrow as pa

        text = pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)
        plain = _plain_array(column.indices if text else column)
        if plain is None:
            return False
        starts = run_starts(plain)
        values = pa.array(plain[starts])
        self._starts.append(start + starts)
        self._values.append(column.dictionary.take(values) if text else values)
        return True

    @property
    def starts(self) -> I64:
        """(r,) first rows of the runs."""
        return np.concatenate(self._starts)

    @property
    def column(self) -> Any:
        """(r,) values of the runs."""
        import pyarrow as pa

        table = pa.table({self.name: pa.chunked_array(self._values)})
        return columns_of_frame(open_frame(table, "frame"), "frame")[self.name]

    def group_rows(self, n_rows: int) -> RowGroups:
        return group_runs(self.starts, self.column, n_rows)

    def value_per_set(self, groups: RowGroups) -> Array:
        starts = self.starts
        rows = np.union1d(groups.starts, starts)
        values = self.column.values(groups.describe_row, missing=True)
        return require_constant(
            self.name, rows, values[np.searchsorted(starts, rows, side="right") - 1], groups
        )


def _plain_array(column: Any) -> Array | None:
    """Return a numeric pyarrow array without nulls as a NumPy view; None for others."""
    import pyarrow as pa

    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values: Array = column.to_numpy()
    return values if values.dtype in EXACT_DTYPES or values.dtype.kind in "iu" else None
