"""Sets of a table whose rows come in batches, set after set: no batch is kept longer than it takes to look at it.

Of ids and targets the rows are kept where they change, of coordinates and weights what sets keep. This is the short
road of `frames.parts_of_frame`, for what most tables are: ids that are numbers or in a dictionary, targets that are
numbers, coordinates that are numbers of up to 32 bits or float64, nothing missing. It says None where anything is
unusual, and then the other road looks at the whole table and finds the words.

Rows that come column by column, some at a time, and are kept as sets keep them; what they came in is forgotten.

A piece of some ten thousand rows is rounded and put in its place while it is in a cache, and its memory serves the
next one. Whatever is unusual - values that are not finite, that float32 does not hold where they are counted from, or
of other dtypes - is not settled here: `kept` says None, and who asks looks at all rows again, and knows what to say.
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
    """Places for n rows of d columns, counted from an origin (None for 0), in a room that others share perhaps.

    The rows are those that `kept_points` gives of all that came, bit for bit.
    """

    def __init__(self, n: int, d: int, origin: F64 | None, room: BufferPool | None = None) -> None:
        self.origin = normalize_origin(origin)
        self._start = np.zeros(d) if self.origin is None else self.origin
        self._rows, self._n, self._fits = (room or BufferPool()).empty((n, d), np.float32), 0, True
        drawn = sample_row_indices(n, d)  # in which order they are looked at changes nothing
        self._drawn = np.sort(drawn)
        self._sample: F64 | None = None
        self._dtypes: list[np.dtype[Any]] = []

    def add(self, columns: Sequence[Array]) -> bool:
        """Take the next rows; whether they, and those before, are as usual."""
        a, b = self._n, self._n + len(columns[0])
        self._n = b
        self._fits = self._fits and b <= len(self._rows) and self._knows([column.dtype for column in columns])
        if self._fits:
            self._note(a, b, columns)
            self._fits = fill_rows(columns, self._start, self._rows[a:b])
        return self._fits

    def kept(self) -> F32 | None:
        """(n, d) the rows; None if anything is unusual."""
        if not self._fits or self._n < len(self._rows):
            return None
        if self._sample is not None and SortedSample.at(self._sample).crowded(self.origin) is not None:
            return None
        nothing = self.origin is None and not self._rows[:1].any() and not self._rows.any()
        return None if nothing else self._rows

    def _knows(self, dtypes: list[np.dtype[Any]]) -> bool:
        self._dtypes = self._dtypes or dtypes
        codes = len(dtypes) == 1 and dtypes[0] in CODE_DTYPES
        return dtypes == self._dtypes and EXACT_DTYPES.issuperset(dtypes) and not codes

    def _note(self, a: int, b: int, columns: Sequence[Array]) -> None:
        """Keep those of rows a .. b - 1 that are looked at, if float32 may not hold them."""
        given = Columns(columns)
        if self._sample is None and fits_float32([given], self.origin):
            return
        if self._sample is None:
            self._sample = np.full((len(self._drawn), len(columns)), np.nan)
        first, last = np.searchsorted(self._drawn, [a, b])
        if first < last:
            self._sample[first:last] = given[self._drawn[first:last] - a]


class ColumnSelection(NamedTuple):
    """Which columns mean what: ids, coordinates, weights if any; targets that are columns, or else a frame by id."""

    set_id: str
    points: Sequence[str]
    targets: Any
    weights: str | None
    own_targets: Sequence[str]


def sets_from_batches(
    n_rows: int, batches: Iterable[Any], wanted: ColumnSelection, origin: F64 | None, room: BufferPool
) -> tuple[SampleSets, Any] | None:
    """(sets, id of the last row) of n_rows rows in record batches of pyarrow; None if anything is unusual."""
    points = StreamedRows(n_rows, len(wanted.points), origin, room)
    weights = None if wanted.weights is None else StreamedRows(n_rows, 1, None, room)
    changes = {name: _ColumnRuns(name) for name in (wanted.set_id, *wanted.own_targets)}
    start = 0
    for batch in batches:
        if not all(change.add(start, batch.column(name)) for name, change in changes.items()):
            return None
        if not _add_columns(points, batch, wanted.points):
            return None
        if weights is not None and not _add_columns(weights, batch, [wanted.weights]):
            return None
        start += len(batch)
    rows, masses = points.kept(), None if weights is None else weights.kept()
    if rows is None or (masses is None and weights is not None):
        return None
    try:
        groups = changes[wanted.set_id].grouped(n_rows)
        if not groups.in_order:
            return None
        targets = {name: changes[name].constant(groups) for name in wanted.own_targets}
        if wanted.targets is not None and not wanted.own_targets:
            targets = targets_by_id(wanted.targets, wanted.set_id, groups.ids)
    except SampleSetError:
        return None
    mass = None if masses is None else masses[:, 0]
    sets = SampleSets._trusted(rows, groups.offsets, mass, None, points.origin)
    return sets.labelled(groups.ids, tuple(wanted.points), targets), groups.ids[int(groups.runs[-1])]


def _add_columns(rows: StreamedRows, batch: Any, names: Sequence[Any]) -> bool:
    """Whether some columns could be added to the rows."""
    columns = [_plain_array(batch.column(name)) for name in names]
    known = [column for column in columns if column is not None]
    return len(known) == len(columns) and rows.add(known)


class _ColumnRuns:
    """Where a column changes, and to what; the first row of each batch counts as a change."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._starts: list[I64] = []
        self._values: list[Any] = []

    def add(self, start: int, column: Any) -> bool:
        """Look at the next rows, the first of which is given; whether they are of a kind that is known."""
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
        """(r,) the rows."""
        return np.concatenate(self._starts)

    @property
    def column(self) -> Any:
        """The values there."""
        import pyarrow as pa

        table = pa.table({self.name: pa.chunked_array(self._values)})
        return columns_of_frame(open_frame(table, "frame"), "frame")[self.name]

    def grouped(self, n_rows: int) -> RowGroups:
        """The sets of the rows, whose ids these are."""
        return group_runs(self.starts, self.column, n_rows)

    def constant(self, groups: RowGroups) -> Array:
        """The value of every set."""
        starts = self.starts
        rows = np.union1d(groups.starts, starts)
        values = self.column.values(groups.name, missing=True)
        return require_constant(
            self.name, rows, values[np.searchsorted(starts, rows, side="right") - 1], groups
        )


def _plain_array(column: Any) -> Array | None:
    """The numbers of an array of pyarrow as they lie there; None where one is missing, or for what are no numbers."""
    import pyarrow as pa

    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values: Array = column.to_numpy()
    return values if values.dtype in EXACT_DTYPES or values.dtype.kind in "iu" else None
