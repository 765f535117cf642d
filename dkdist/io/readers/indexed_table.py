"""A table whose sets are known, and the second reading: its coordinates, put together set by set.

If the rows of the table are in the order of the sets, they are cut where the sets end; else each goes to its place.
Batches depend on the sizes of the sets alone, never on files or pieces.

All problems of the values of a table in one error, for which the whole table is read once more.
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
from dkdist.io.readers.gathered_rows import Part, Rows, SourceChangedError, group_rows, split_rows
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


def describe_invalid_values(where: str, name: str, n_rows: int, what: str) -> str:
    """What is wrong with a column of which some rows are refused; ``where`` is the first of them."""
    return f"column {name!r} {what} in {where} ({n_rows} such rows)"


def table_error(
    source: TableSource, columns: Any, points: Sequence[str], required: Sequence[str], first: TableValueError
) -> TableValueError:
    """The error with all problems of a table: ids, coordinates, weights, and each target; ``first`` if none shows."""
    problems = [
        *_value_problems(source, columns, points, required),
        *_target_problems(source, columns, required),
    ]
    return TableValueError("; ".join(problems) or str(first))


def _value_problems(
    source: TableSource, columns: Any, points: Sequence[str], required: Sequence[str]
) -> list[str]:
    numbers = [*points, *([] if columns.weight is None else [columns.weight])]
    result: dict[tuple[str, str], tuple[str, int]] = {}
    for piece in source.pieces([columns.set_id, *numbers], required=required):
        for name in [columns.set_id, *numbers]:
            column = piece.batch.column(name)
            empty = missing_values(column) if name == columns.set_id else np.asarray(column.is_null())
            rows = {NO_VALUE: empty}
            if name != columns.set_id:
                values = column.to_numpy(zero_copy_only=False).astype(np.float64)
                rows[NOT_FINITE] = ~empty & ~(np.abs(values) <= MAX_FLOAT32)
            for what, bad in rows.items():
                if bad.any():
                    where, count = result.get((name, what), (piece.row_name(int(np.argmax(bad))), 0))
                    result[name, what] = where, count + int(bad.sum())
    texts = [describe_invalid_values(where, name, n, what) for (name, what), (where, n) in result.items()]
    return [*texts[:-1], f"{texts[-1]}. {MISSING_VALUES_HINT}"] if texts else []


def _target_problems(source: TableSource, columns: Any, required: Sequence[str]) -> list[str]:
    """What is wrong with each target, among the rows that have an id."""
    problems = []
    for name in columns.targets:
        try:
            build_set_index(source, replace(columns, targets=(name,)), required=[columns.set_id, *required])
        except TableValueError as error:
            problems.append(str(error))
    return problems


MAX_BATCH_BYTES = 2**24  # points per batch, bounds memory; tests/store/test_long_tables.py
PREFETCH_BATCHES = 2  # overlap reading with writing (python benchmarks/tables.py)
SCATTER_PIECE_ROWS = 2**19  # amortizes the lookup of ids per piece (python benchmarks/tables.py)

BatchArrays = tuple[SampleSets, dict[str, Array], Array]


@dataclass(frozen=True)
class IndexedTable:
    """A table after its first reading; small to send, for it holds ids, sizes and targets alone."""

    source: Any
    columns: Any
    points: tuple[str, ...]
    index: SetIndex
    as_text: frozenset[str]
    told: str
    required: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Any, columns: Any) -> IndexedTable:
        """Choose the columns of a `TableReader` and read ids and targets."""
        opened = _open_table(source, columns)
        chosen = choose_columns(opened, columns)
        looked_at = columns.points is None and INDEX in chosen.points
        required: tuple[str, ...] = ()
        if columns.missing_points == "drop":
            coordinates = [name for name in chosen.points if not (looked_at and name == INDEX)]
            required = (columns.set_id, *coordinates, *_weight(columns))
        try:
            index = build_set_index(opened, columns, look_at_index=looked_at, required=required)
        except TableValueError as error:
            raise table_error(opened, columns, chosen.points, required, error) from error
        if looked_at and index.counts_rows and len(chosen.points) > 1:
            points = tuple(name for name in chosen.points if name != INDEX)
            chosen = ColumnChoice(points, {**chosen.left_out, INDEX: "an index"})
        message = chosen.told()
        if index.dropped_rows:
            message += f"; dropped rows with missing values: {index.dropped_rows:,}"
        return cls(source, columns, chosen.points, index, frozenset(opened.as_text), message, required)

    def __repr__(self) -> str:
        return find_table_files(self.source).label

    def outline(self) -> Outline:
        """Sizes, ids, form and names; the origin too, where the first batch is gathered from all of the table."""
        table = _open_table(self.source, self.columns)
        form = self._form(table.schema)
        origin = sample = None
        if self._like(table.schema).points.dtype == np.float32:
            origin = np.zeros(len(self.points))  # which holds such points as they are
            sample = np.empty((0, len(self.points)))
        elif len(self.index.ids) and not self.index.in_order and form["points"][0] == "float32":
            first = self._first_sets(table)
            origin, sample = first.origin, rows_of_source(first.relative) + first.origin
        sizes, ids = self.index.sizes, self.index.ids
        return Outline(sizes, ids, form, origin, self.points, self, self.told, self.dropped, sample)

    @property
    def dropped(self) -> int:
        """How many sets were left out, which have no target."""
        return len(self.index.runs[0]) - len(self.index.sizes)

    def batches(self) -> Iterator[BatchArrays]:
        """The sets of the table with their targets and ids; some batches are made ahead."""
        return prefetch(self._batches(), PREFETCH_BATCHES)

    def _batches(self) -> Iterator[BatchArrays]:
        try:
            done, origin = 0, None
            try:
                for batch in self._read(0, None, shortly=self.index.in_order):
                    done, origin = done + 1, batch[0].origin if origin is None else origin
                    yield batch
            except _UnusualError:  # read again from there, by who knows what to say
                yield from self._read(done, origin, shortly=False)
        except SourceChangedError:
            raise ValueError(
                "its rows changed between the two readings: import it when nobody writes to it"
            ) from None
        except TableValueError as error:
            table = _open_table(self.source, self.columns)
            raise table_error(table, self.columns, self.points, self.required, error) from error

    def _read(self, first: int, origin: F64 | None, *, shortly: bool) -> Iterator[BatchArrays]:
        """The batches from the first on; shortly: no column is kept longer than it takes to round it."""
        table, room = _open_table(self.source, self.columns), BufferPool() if shortly else None
        cuts = self._cuts(table.schema)
        lengths = np.add.reduceat(self.index.sizes, cuts[:-1]) if len(cuts) > 1 else cuts[:0]
        if self.index.in_order:
            batches = split_rows(self._columns_in_order(table, checked=not shortly), lengths)
        else:
            like = self._like(table.schema)
            batches = map(iter, group_rows(self._coded_columns(table), self.index.sizes, lengths, like))
        for k, ((a, b), parts) in enumerate(zip(itertools.pairwise(cuts.tolist()), batches, strict=True)):
            if k < first:
                deque(parts, maxlen=0)
                continue
            batch = self._batch(a, b, parts, origin, room)
            origin = batch[0].origin if origin is None else origin
            yield batch

    def _batch(
        self, a: int, b: int, parts: Iterator[Part], origin: F64 | None, room: BufferPool | None = None
    ) -> BatchArrays:
        """Sets a .. b - 1; where there is room, their rows are rounded into it as they come."""
        offsets = np.concatenate([[0], np.cumsum(self.index.sizes[a:b])])
        targets = {name: values[a:b] for name, values in self.index.targets.items()}
        if room is not None and origin is not None:
            sets = self._as_they_come(parts, offsets, origin, room)
        else:
            listed = list(parts)
            if room is not None:
                _require_usual(listed)
            points = [Columns(part[: len(self.points)]) for part in listed]
            weights = np.concatenate([part[-1] for part in listed]) if self._weight else None
            sets = sets_from_parts(points, offsets, weights, origin)
        return sets.labelled(names=self.points), targets, self.index.ids[a:b]

    def _as_they_come(self, parts: Iterator[Part], offsets: I64, origin: F64, room: BufferPool) -> SampleSets:
        """The sets of a batch; raises `_UnusualError` for any that `StreamedRows` does not know."""
        rows = StreamedRows(int(offsets[-1]), len(self.points), origin, room)
        masses = StreamedRows(int(offsets[-1]), 1, None, room) if self._weight else None
        for part in parts:
            if not rows.add(part[: len(self.points)]) or (masses and not masses.add(part[-1:])):
                raise _UnusualError
        points, weights = rows.result(), masses.result() if masses else None
        if points is None or (masses and weights is None):
            raise _UnusualError
        mass = None if weights is None else weights[:, 0]
        return SampleSets._trusted(points, offsets, mass, None, rows.origin)

    def _cuts(self, schema: pa.Schema) -> I64:
        """Where batches begin and end: at most BATCH_BYTES each, or one set."""
        like = self._like(schema)
        most = max(1, MAX_BATCH_BYTES // (like.points.dtype.itemsize * like.points.shape[1]))
        ends, cuts = np.cumsum(self.index.sizes), [0]
        while cuts[-1] < len(ends):
            before = ends[cuts[-1] - 1] if cuts[-1] else 0
            cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + most, side="right"))))
        return np.array(cuts)

    def _columns_in_order(self, table: TableSource, *, checked: bool) -> Iterator[Part]:
        sizes, kept = self.index.runs
        ends = np.cumsum(sizes)
        for piece in table.pieces(self._names, required=self.required):
            columns = self._numbers(piece, checked=checked)
            if not kept.all():
                rows = np.arange(piece.start, piece.start + len(piece.batch))
                owners = np.minimum(np.searchsorted(ends, rows, side="right"), len(kept) - 1)
                columns = [column[kept[owners]] for column in columns]
            yield columns

    def _coded_columns(self, table: TableSource, below: int | None = None) -> Iterator[tuple[I64, Part]]:
        """Columns with the number of each row's set; of the first sets alone, if ``below`` is given."""
        name = self.columns.set_id
        ids = pa.array(self.index.ids[:below]).cast(table.schema.field(name).type)
        for piece in table.pieces([name, *self._names], SCATTER_PIECE_ROWS, self.required):
            codes = _places(piece.batch.column(name), ids)
            columns = self._numbers(piece)
            if codes.null_count:
                known = codes.is_valid().to_numpy(zero_copy_only=False)
                columns = [column[known] for column in columns]
            yield codes.drop_null().to_numpy(), columns

    def _first_sets(self, table: TableSource) -> SampleSets:
        """The sets of the first batch, for which the table is read and its rows are chosen."""
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
        """Coordinates, and weights if there are any; refuses what is missing or (if ``checked``) no finite number."""
        columns = []
        for name in self._names:
            column = piece.batch.column(name)
            if column.null_count:
                missing = pc.is_null(column).to_numpy(zero_copy_only=False)
                where = piece.row_name(int(np.argmax(missing)))
                raise TableValueError(describe_invalid_values(where, name, int(missing.sum()), NO_VALUE))
            values = column.to_numpy(zero_copy_only=False)
            if checked and not _is_held(values):
                bad = ~(np.abs(values) <= MAX_FLOAT32)
                where = piece.row_name(int(np.argmax(bad)))
                raise TableValueError(describe_invalid_values(where, name, int(bad.sum()), NOT_FINITE))
            columns.append(values)
        return columns

    def _like(self, schema: pa.Schema) -> Rows:
        """No rows, of the right kinds."""
        kinds = [np.dtype(schema.field(name).type.to_pandas_dtype()) for name in self.points]
        codes = len(kinds) == 1 and kinds[0] in CODE_DTYPES  # of strings
        dtype = kinds[0] if codes else np.result_type(np.float32, *kinds)
        return Rows.empty(0, len(kinds), dtype, self.columns.weight is not None)

    def _form(self, schema: pa.Schema) -> Form:
        none = self._like(schema)
        targets = {name: values[:0] for name, values in self.index.targets.items()}
        return form_of(SampleSets(none.points, [0], none.weights), as_columns(targets, self.index.ids[:0], 0))


class _UnusualError(Exception):
    """Some rows are not as most are."""


def _is_held(values: Array) -> bool:
    """Whether all are finite numbers of 32 bits."""
    return values.dtype.kind != "f" or bool(values.min() >= -MAX_FLOAT32 and values.max() <= MAX_FLOAT32)


def _require_usual(parts: Sequence[Part]) -> None:
    """Raise `_UnusualError` for what is no finite number."""
    if not all(_is_held(column) for part in parts for column in part):
        raise _UnusualError


def _places(column: Any, ids: Any) -> Any:
    """Where the value of each row is among the ids; a value that a dictionary holds is looked up once."""
    if not pa.types.is_dictionary(column.type):
        return pc.index_in(column, value_set=ids)
    return pc.index_in(column.dictionary, value_set=ids).take(column.indices)


def _open_table(source: Any, columns: Any) -> TableSource:
    files = find_table_files(source)
    if columns.text and not files.is_csv:
        raise ValueError(
            f"text columns are for CSV files; {files.suffix} files have types of their own. Leave them out"
        )
    for name, default in (("delimiter", None), ("decimal", "."), ("encoding", "utf-8")):
        if getattr(columns, name) != default and not files.is_csv:
            raise ValueError(
                f"{name} is for CSV files, and {files.label} has {files.suffix} files: leave it out"
            )
    text = [columns.set_id, *columns.targets, *columns.text]
    return TableSource(files, text, [*(columns.points or ()), *_weight(columns)], columns.csv_options())


def _weight(columns: Any) -> list[str]:
    return [] if columns.weight is None else [columns.weight]
