"""Sets from a long table, one point a row: read in pieces, cut where the set id changes, and checked.

A piece is a few megabytes; what is held is a few pieces, the rows of the set that is still open, and the ids seen
so far (an id that comes back after other sets is an error; its rows would be a second set otherwise).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkdist.loops.array_types import F32, I64
from dkdist.sets import SampleSets
from dkdist.sets.point_checks import CODE_DTYPES
from dkdist.store.format.batches import Form, Outline, as_columns, form_of
from dkdist.store.importing.table_pieces import Csv, Parquet, begins_of, whole_sets, without_dictionaries

Given = tuple[SampleSets, dict[str, NDArray[Any]], NDArray[Any]]


class Table:
    """One file that is read once, and which of its ``columns`` mean what, as a `TableReader` says.

    Remembers the ids and counts the rows of the pieces of whole sets that it checks and converts.
    """

    def __init__(self, path: Path, suffix: str, columns: Any) -> None:
        self._path, self._columns = path, columns
        kind = Parquet if suffix in (".parquet", ".pq") else Csv
        self._source: Parquet | Csv = kind(path, suffix, columns.text)
        self._coordinates = _coordinates(path, self._source.schema, columns)
        self._seen = set[Any]()
        self._row = 1

    def batches(self) -> Iterator[Given]:
        """The whole sets of the table with their targets and ids, piece by piece."""
        weight = [] if self._columns.weight is None else [self._columns.weight]
        names = [*self._coordinates, self._columns.set_id, *self._columns.targets, *weight]
        yield from map(self._batch, self._whole_sets(names))

    def outline(self) -> Outline:
        """Sizes and ids, from the column of ids alone; the form, from the schema."""
        sizes, ids = [np.empty(0, np.int64)], []
        for table in self._whole_sets([self._columns.set_id]):
            counted, found = self._sizes(table)
            sizes.append(counted)
            ids.append(found)
        empty = without_dictionaries(self._source.schema.empty_table())
        return Outline(np.concatenate(sizes), np.concatenate(ids) if ids else None, self._form(empty))

    def _whole_sets(self, names: list[str]) -> Iterator[pa.Table]:
        set_id = self._columns.set_id
        pieces: Iterator[pa.Table] = self._source.pieces(names, self._coordinates)
        if self._columns.sort:
            whole = pa.concat_tables(pieces)
            pieces = iter([whole.take(pc.sort_indices(whole[set_id]))])  # equal ids keep their order
        return whole_sets(pieces, set_id)

    def _batch(self, table: pa.Table) -> Given:
        """The sets of a piece."""
        for name in table.column_names:
            self._refuse_rows(pc.is_null(table[name]), name, "has no value")
        begins, ids = self._sets(table)
        starts = np.flatnonzero(begins)
        first_rows = table.take(starts)
        targets = {name: self._target(table, first_rows, name, begins, ids) for name in self._columns.targets}
        sets = SampleSets(self._points(table), np.append(starts, len(table)), self._weights(table))
        self._row += len(table)
        return sets, targets, ids

    def _sizes(self, table: pa.Table) -> tuple[I64, NDArray[Any]]:
        """(sizes, ids) of the sets of a piece, of which only the ids are needed."""
        set_id = self._columns.set_id
        self._refuse_rows(pc.is_null(table[set_id]), set_id, "has no value")
        begins, ids = self._sets(table)
        self._row += len(table)
        return np.diff(np.append(np.flatnonzero(begins), len(table))), ids

    def _sets(self, table: pa.Table) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Where sets begin, and their ids."""
        begins = begins_of(table[self._columns.set_id])
        starts = np.flatnonzero(begins)
        ids = _column(table.select([self._columns.set_id]).take(starts), self._columns.set_id)
        self._note(ids.tolist(), starts)
        return begins, ids

    def _form(self, empty: pa.Table) -> Form:
        """The form of all pieces, from a table without rows."""
        sets = SampleSets(self._points(empty), [0], self._weights(empty))
        targets = {name: _column(empty, name) for name in self._columns.targets}
        return form_of(sets, as_columns(targets, _column(empty, self._columns.set_id), 0))

    def _weights(self, table: pa.Table) -> F32 | None:
        name = self._columns.weight
        return None if name is None else self._floats(_column(table, name), name)

    def _note(self, ids: list[Any], starts: I64) -> None:
        for one, start in zip(ids, starts.tolist(), strict=True):
            if one in self._seen:
                raise ValueError(
                    f"set {one!r} comes back in row {self._row + start} of {self._path}, after rows of other "
                    "sets: the rows of a set must stand together. Sort the table by "
                    f"{self._columns.set_id!r}, or have it sorted in memory (sort=True, --sort)"
                )
            self._seen.add(one)

    def _points(self, table: pa.Table) -> NDArray[Any]:
        columns = [_column(table, name) for name in self._coordinates]
        if len(columns) == 1 and columns[0].dtype in CODE_DTYPES:
            return columns[0][:, None]  # codes of strings keep their type
        points = np.empty((len(table), len(columns)), np.result_type(np.float32, *columns))
        for j, (name, values) in enumerate(zip(self._coordinates, columns, strict=True)):
            self._floats(values, name)
            points[:, j] = values
        return points

    def _floats(self, given: NDArray[Any], name: str) -> F32:
        with np.errstate(over="ignore"):  # an infinity is refused by name
            values = given.astype(np.float32)
        self._refuse_rows(~np.isfinite(values), name, "is not a finite number (of 32 bits)")
        return values

    def _target(
        self, table: pa.Table, first_rows: pa.Table, name: str, begins: NDArray[np.bool_], ids: NDArray[Any]
    ) -> NDArray[Any]:
        changes = np.flatnonzero(begins_of(table[name]) & ~begins)
        if len(changes):
            row = int(changes[0])
            found = table[name][row - 1].as_py(), table[name][row].as_py()
            raise ValueError(
                f"target {name!r} is {found[0]!r} and then {found[1]!r} within set "
                f"{ids[np.count_nonzero(begins[:row]) - 1]!s} (row {self._row + row} of {self._path}): "
                "a target has one value a set. Repair the table, or make it a coordinate"
            )
        return _column(first_rows, name)

    def _refuse_rows(self, bad: Any, name: str, what: str) -> None:
        where = np.flatnonzero(np.asarray(bad))
        if len(where):
            raise ValueError(
                f"column {name!r} {what} in row {self._row + int(where[0])} of {self._path} "
                f"({len(where)} such rows in this part): remove the rows or fill them in"
            )


def _coordinates(path: Path, schema: pa.Schema, columns: Any) -> list[str]:
    numeric = [f.name for f in schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    weight = () if columns.weight is None else (columns.weight,)
    named = [*(columns.points or ()), columns.set_id, *columns.targets, *weight, *columns.text]
    for name in named:
        if name not in schema.names:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}")
    chosen = list(columns.points or [name for name in numeric if name not in named])
    if not chosen:
        raise ValueError(f"{path} has no numeric columns left to be coordinates: name some as points")
    for name in [*chosen, *weight]:
        if name not in numeric:
            raise ValueError(
                f"column {name!r} of {path} has type {schema.field(name).type}: expected numbers"
            )
    return chosen


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    values = np.asarray(table[name].to_numpy())
    kind = table.schema.field(name).type
    return values.astype(np.str_) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else values
