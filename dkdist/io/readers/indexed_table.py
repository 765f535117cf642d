"""Second pass over a table: coordinates, grouped by the sets that the first pass indexed.

Rows in the order of the sets are split at the ends of the sets; other rows are sorted. Batches depend only on the
sizes of the sets, not on files or pieces. One error lists all invalid values of a table, which requires another pass.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dkdist._numba.arrays import F64, I64, Array
from dkdist._utils.concurrency import BufferPool, prefetch
from dkdist._utils.validation import Columns
from dkdist.io._zarr.batches import Form, Outline, as_columns, form_of
from dkdist.io.readers.files import find_table_files
from dkdist.io.readers.gathered_rows import (
    Part,
    Rows,
    SourceChangedError,
    batch_bounds,
    group_rows,
    split_rows,
)
from dkdist.io.readers.set_index import MISSING_VALUES_HINT, SetIndex, build_set_index
from dkdist.io.readers.table_source import (
    INDEX,
    ColumnChoice,
    Piece,
    TableSource,
    TableValueError,
    choose_columns,
    missing_values,
)
from dkdist.sets import SampleSets
from dkdist.sets.conversion import sets_from_parts
from dkdist.sets.origins import rows_of_source
from dkdist.sets.point_checks import CODE_DTYPES
from dkdist.sets.streams import StreamedRows

MAX_FLOAT32 = float(np.finfo(np.float32).max)
NO_VALUE, NOT_FINITE = "has no value", "is not a finite number (of 32 bits)"


def describe_invalid_values(row_name: str, column: str, n_rows: int, problem: str) -> str:
    """Return the message for invalid rows of a column; ``row_name`` names the first."""
    return f"column {column!r} {problem} in {row_name} ({n_rows} such rows)"


def table_error(
    source: TableSource, columns: Any, points: Sequence[str], required: Sequence[str], first: TableValueError
) -> TableValueError:
    """Return an error that lists all invalid ids, coordinates, weights and targets; by default ``first``."""
    problems = [
        *_value_problems(source, columns, points, required),
        *_target_problems(source, columns, required),
    ]
    return TableValueError("; ".join(problems) or str(first))


def _value_problems(
    source: TableSource, columns: Any, points: Sequence[str], required: Sequence[str]
) -> list[str]:
    numbers = [*points, *([] if columns.weight is None else [columns.weight])]
    first_and_count: dict[tuple[str, str], tuple[str, int]] = {}
    for piece in source.pieces([columns.set_id, *numbers], required=required):
        for name in [columns.set_id, *numbers]:
            column = piece.batch.column(name)
            empty = missing_values(column) if name == columns.set_id else np.asarray(column.is_null())
            rows = {NO_VALUE: empty}
            if name != columns.set_id:
                values = column.to_numpy(zero_copy_only=False).astype(np.float64)
                rows[NOT_FINITE] = ~empty & ~(np.abs(values) <= MAX_FLOAT32)
            for problem, invalid in rows.items():
                if invalid.any():
                    first_row = piece.row_name(int(np.argmax(invalid)))
                    first_row, count = first_and_count.get((name, problem), (first_row, 0))
                    first_and_count[name, problem] = first_row, count + int(invalid.sum())
    texts = [
        describe_invalid_values(first_row, name, n, problem)
        for (name, problem), (first_row, n) in first_and_count.items()
    ]
    return [*texts[:-1], f"{texts[-1]}. {MISSING_VALUES_HINT}"] if texts else []


def _target_problems(source: TableSource, columns: Any, required: Sequence[str]) -> list[str]:
    """Return the problems of each target, in rows with an id."""
    problems = []
    for name in columns.targets:
        try:
            build_set_index(source, replace(columns, targets=(name,)), required=[columns.set_id, *required])
        except TableValueError as error:
            problems.append(str(error))
    return problems


MAX_BATCH_BYTES = 2**24  # maximum bytes of points per batch; tests/store/test_long_tables.py
PREFETCH_BATCHES = 2  # overlap reading with writing (python benchmarks/tables.py)
SCATTER_PIECE_ROWS = 2**19  # amortizes the lookup of ids per piece (python benchmarks/tables.py)

BatchArrays = tuple[SampleSets, dict[str, Array], Array]


@dataclass(frozen=True)
class IndexedTable:
    """A table after the first pass; small to pickle: ids, sizes and targets without points."""

    source: Any
    columns: Any
    points: tuple[str, ...]
    index: SetIndex
    as_text: frozenset[str]
    summary: str
    required: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Any, columns: Any) -> IndexedTable:
        """Choose the columns of a `TableReader` and read ids and targets."""
        table = _open_table(source, columns)
        choice = choose_columns(table, columns)
        check_index = columns.points is None and INDEX in choice.points
        required: tuple[str, ...] = ()
        if columns.missing_points == "drop":
            coordinates = [name for name in choice.points if not (check_index and name == INDEX)]
            required = (columns.set_id, *coordinates, *_weight(columns))
        try:
            index = build_set_index(table, columns, check_index=check_index, required=required)
        except TableValueError as error:
            raise table_error(table, columns, choice.points, required, error) from error
        if check_index and index.counts_rows and len(choice.points) > 1:
            points = tuple(name for name in choice.points if name != INDEX)
            choice = ColumnChoice(points, {**choice.excluded, INDEX: "an index"})
        message = choice.summary()
        if index.dropped_rows:
            message += f"; dropped rows with missing values: {index.dropped_rows:,}"
        return cls(source, columns, choice.points, index, frozenset(table.as_text), message, required)

    def __repr__(self) -> str:
        return find_table_files(self.source).label

    def outline(self) -> Outline:
        """Return sizes, ids, form and names of the sets; also the origin, if it takes a pass of its own."""
        table = _open_table(self.source, self.columns)
        form = self._form(table.schema)
        origin = sample = None
        if self._like(table.schema).points.dtype == np.float32:
            origin = np.zeros(len(self.points))  # stores float32 points exactly
            sample = np.empty((0, len(self.points)))
        elif len(self.index.ids) and not self.index.in_order and form["points"][0] == "float32":
            first = self._first_sets(table)
            origin, sample = first.origin, rows_of_source(first.relative) + first.origin
        sizes, ids = self.index.sizes, self.index.ids
        return Outline(sizes, ids, form, origin, self.points, self, self.summary, self.dropped, sample)

    @property
    def dropped(self) -> int:
        """Number of sets dropped because a target is missing."""
        return len(self.index.runs[0]) - len(self.index.sizes)

    def batches(self) -> Iterator[BatchArrays]:
        """Iterate over (sets, targets, ids), with prefetching."""
        return prefetch(self._batches(), PREFETCH_BATCHES)

    def _batches(self) -> Iterator[BatchArrays]:
        try:
            n_batches, origin = 0, None
            try:
                for batch in self._read(0, None, streamed=self.index.in_order):
                    n_batches, origin = n_batches + 1, batch[0].origin if origin is None else origin
                    yield batch
            except _UnusualError:  # repeat this batch with full checks and error messages
                yield from self._read(n_batches, origin, streamed=False)
        except SourceChangedError:
            raise ValueError(
                "its rows changed between two passes. Import it while no process writes to it"
            ) from None
        except TableValueError as error:
            table = _open_table(self.source, self.columns)
            raise table_error(table, self.columns, self.points, self.required, error) from error

    def _read(self, first: int, origin: F64 | None, *, streamed: bool) -> Iterator[BatchArrays]:
        """Iterate over batches from number ``first``; ``streamed`` rounds and frees each column immediately."""
        table, buffers = _open_table(self.source, self.columns), BufferPool() if streamed else None
        cuts = self._cuts(table.schema)
        lengths = np.add.reduceat(self.index.sizes, cuts[:-1]) if len(cuts) > 1 else cuts[:0]
        if self.index.in_order:
            batches = split_rows(self._columns_in_order(table, checked=not streamed), lengths)
        else:
            like = self._like(table.schema)
            batches = map(iter, group_rows(self._coded_columns(table), self.index.sizes, lengths, like))
        for k, ((a, b), parts) in enumerate(zip(itertools.pairwise(cuts.tolist()), batches, strict=True)):
            if k < first:
                deque(parts, maxlen=0)
                continue
            batch = self._batch(a, b, parts, origin, buffers)
            origin = batch[0].origin if origin is None else origin
            yield batch

    def _batch(
        self, a: int, b: int, parts: Iterator[Part], origin: F64 | None, buffers: BufferPool | None = None
    ) -> BatchArrays:
        """Return sets a .. b - 1; with ``buffers``, stream their rows into a buffer."""
        offsets = np.concatenate([[0], np.cumsum(self.index.sizes[a:b])])
        targets = {name: values[a:b] for name, values in self.index.targets.items()}
        if buffers is not None and origin is not None:
            sets = self._stream(parts, offsets, origin, buffers)
        else:
            all_parts = list(parts)
            if buffers is not None:
                _require_usual(all_parts)
            points = [Columns(part[: len(self.points)]) for part in all_parts]
            weights = np.concatenate([part[-1] for part in all_parts]) if self._weight else None
            sets = sets_from_parts(points, offsets, weights, origin)
        return sets.labelled(names=self.points), targets, self.index.ids[a:b]

    def _stream(self, parts: Iterator[Part], offsets: I64, origin: F64, buffers: BufferPool) -> SampleSets:
        """Return the sets of a batch; raise `_UnusualError` for values that `StreamedRows` does not support."""
        rows = StreamedRows(int(offsets[-1]), len(self.points), origin, buffers)
        masses = StreamedRows(int(offsets[-1]), 1, None, buffers) if self._weight else None
        for part in parts:
            if not rows.add(part[: len(self.points)]) or (masses and not masses.add(part[-1:])):
                raise _UnusualError
        points, weights = rows.result(), masses.result() if masses else None
        if points is None or (masses and weights is None):
            raise _UnusualError
        mass = None if weights is None else weights[:, 0]
        return SampleSets._trusted(points, offsets, mass, None, rows.origin)

    def _cuts(self, schema: pa.Schema) -> I64:
        """Return the bounds of batches in sets: at most MAX_BATCH_BYTES each, or one set."""
        like = self._like(schema)
        max_rows = max(1, MAX_BATCH_BYTES // (like.points.dtype.itemsize * like.points.shape[1]))
        return batch_bounds(self.index.sizes, max_rows)

    def _columns_in_order(self, table: TableSource, *, checked: bool) -> Iterator[Part]:
        sizes, has_targets = self.index.runs
        ends = np.cumsum(sizes)
        for piece in table.pieces(self._names, required=self.required):
            columns = self._numbers(piece, checked=checked)
            if not has_targets.all():
                rows = np.arange(piece.start, piece.start + len(piece.batch))
                owners = np.minimum(np.searchsorted(ends, rows, side="right"), len(has_targets) - 1)
                columns = [column[has_targets[owners]] for column in columns]
            yield columns

    def _coded_columns(self, table: TableSource, below: int | None = None) -> Iterator[tuple[I64, Part]]:
        """Iterate over (set of each row, columns); only of sets below ``below``."""
        name = self.columns.set_id
        ids = pa.array(self.index.ids[:below]).cast(table.schema.field(name).type)
        for piece in table.pieces([name, *self._names], SCATTER_PIECE_ROWS, self.required):
            codes = _positions(piece.batch.column(name), ids)
            columns = self._numbers(piece)
            if codes.null_count:
                is_known = codes.is_valid().to_numpy(zero_copy_only=False)
                columns = [column[is_known] for column in columns]
            yield codes.drop_null().to_numpy(), columns

    def _first_sets(self, table: TableSource) -> SampleSets:
        """Read the sets of the first batch, in a pass over the whole table."""
        first = int(self._cuts(table.schema)[1])
        sizes = self.index.sizes[:first]
        lengths = np.array([sizes.sum()])
        (parts,) = group_rows(self._coded_columns(table, first), sizes, lengths, self._like(table.schema))
        return self._batch(0, first, iter(parts), None)[0]

    @property
    def _names(self) -> list[str]:
        return [*self.points, *self._weight]

    @property
    def _weight(self) -> list[str]:
        return _weight(self.columns)

    def _numbers(self, piece: Piece, *, checked: bool = True) -> list[Array]:
        """Return coordinates and weights; raise for missing and (if ``checked``) non-finite values."""
        columns = []
        for name in self._names:
            column = piece.batch.column(name)
            if column.null_count:
                missing = pc.is_null(column).to_numpy(zero_copy_only=False)
                row_name = piece.row_name(int(np.argmax(missing)))
                raise TableValueError(describe_invalid_values(row_name, name, int(missing.sum()), NO_VALUE))
            values = column.to_numpy(zero_copy_only=False)
            if checked and not _is_finite_float32(values):
                invalid = ~(np.abs(values) <= MAX_FLOAT32)
                row_name = piece.row_name(int(np.argmax(invalid)))
                raise TableValueError(describe_invalid_values(row_name, name, int(invalid.sum()), NOT_FINITE))
            columns.append(values)
        return columns

    def _like(self, schema: pa.Schema) -> Rows:
        """Return an empty buffer with the dtypes of the table."""
        dtypes = [np.dtype(schema.field(name).type.to_pandas_dtype()) for name in self.points]
        has_codes = len(dtypes) == 1 and dtypes[0] in CODE_DTYPES  # codes of strings
        dtype = dtypes[0] if has_codes else np.result_type(np.float32, *dtypes)
        return Rows.empty(0, len(dtypes), dtype, self.columns.weight is not None)

    def _form(self, schema: pa.Schema) -> Form:
        empty = self._like(schema)
        targets = {name: values[:0] for name, values in self.index.targets.items()}
        return form_of(
            SampleSets(empty.points, [0], empty.weights), as_columns(targets, self.index.ids[:0], 0)
        )


class _UnusualError(Exception):
    """Signal that rows need the slow path."""


def _is_finite_float32(values: Array) -> bool:
    return values.dtype.kind != "f" or bool(values.min() >= -MAX_FLOAT32 and values.max() <= MAX_FLOAT32)


def _require_usual(parts: Sequence[Part]) -> None:
    """Raise `_UnusualError` for non-finite values."""
    if not all(_is_finite_float32(column) for part in parts for column in part):
        raise _UnusualError


def _positions(column: Any, ids: Any) -> Any:
    """Return the position of each value in the ids; values of a dictionary are looked up once."""
    if not pa.types.is_dictionary(column.type):
        return pc.index_in(column, value_set=ids)
    return pc.index_in(column.dictionary, value_set=ids).take(column.indices)


def _open_table(source: Any, columns: Any) -> TableSource:
    files = find_table_files(source)
    if columns.text and not files.is_csv:
        raise ValueError(f"text applies to CSV files only; {files.suffix} files store types. Omit text")
    for name, default in (("delimiter", None), ("decimal", "."), ("encoding", "utf-8")):
        if getattr(columns, name) != default and not files.is_csv:
            raise ValueError(
                f"{name} applies to CSV files only; {files.label} has {files.suffix} files. Omit {name}"
            )
    text = [columns.set_id, *columns.targets, *columns.text]
    return TableSource(files, text, [*(columns.points or ()), *_weight(columns)], columns.csv_options())


def _weight(columns: Any) -> list[str]:
    return [] if columns.weight is None else [columns.weight]
