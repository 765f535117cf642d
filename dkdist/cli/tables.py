"""Sets from a long table, one point a row: read in pieces, cut where the set id changes, and checked.

A piece is a few megabytes; what is held is a few pieces, the rows of the set that is still open, and the ids seen
so far (an id that comes back after other sets is an error; its rows would be a second set otherwise).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from dkdist import SampleSets
from dkdist.cli.batches import Batch

PIECE_BYTES = 2 * 2**20  # of a CSV file, which pyarrow reads some thirty pieces ahead
PIECE_ROWS = 2**17  # of a Parquet file


@dataclass(frozen=True)
class Columns:
    """Which columns mean what; ``points`` None is every other numeric column."""

    set_id: str
    points: tuple[str, ...] | None
    weight: str | None
    targets: tuple[str, ...]
    text: tuple[str, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """All that are named, but the points."""
        return (self.set_id, *self.targets, *([] if self.weight is None else [self.weight]))


def table_batches(
    path: Path, suffix: str, columns: Columns, *, sort: bool, taken: Iterable[Any] = ()
) -> Iterator[Batch]:
    """The whole sets of a table, piece by piece; ``taken`` ids are in the store already."""
    source = _Parquet(path, columns) if suffix in (".parquet", ".pq") else _Csv(path, columns, suffix)
    coordinates = _coordinates(path, source.schema, columns)
    pieces: Iterator[pa.Table] = source.pieces([*coordinates, *columns.others], coordinates)
    if sort:
        whole = pa.concat_tables(pieces)
        pieces = iter([whole.take(pc.sort_indices(whole[columns.set_id]))])  # equal ids keep their order
    reader = _Reader(path, columns, coordinates, set(taken))
    yield from map(reader.batch, _whole_sets(pieces, columns.set_id))


class _Csv:
    """Pieces of a CSV file, types taken from its first two megabytes."""

    def __init__(self, path: Path, columns: Columns, suffix: str) -> None:
        self._path, self._text = path, dict.fromkeys(columns.text, pa.string())
        self._parse = pyarrow.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        with self._open(pyarrow.csv.ConvertOptions(column_types=self._text)) as reader:
            self.schema = reader.schema

    def pieces(self, names: list[str], coordinates: list[str]) -> Iterator[pa.Table]:
        types = dict.fromkeys(coordinates, pa.float64()) | self._text
        options = pyarrow.csv.ConvertOptions(column_types=types, include_columns=names)
        try:
            with self._open(options) as reader:
                for piece in reader:
                    yield pa.Table.from_batches([piece])
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{self._path}: {error}. The type of a column is taken from the first rows: name columns of "
                "ids or labels with --text, or repair the value"
            ) from error

    def _open(self, options: Any) -> Any:
        reading = pyarrow.csv.ReadOptions(block_size=PIECE_BYTES, use_threads=False)
        return pyarrow.csv.open_csv(
            self._path, read_options=reading, parse_options=self._parse, convert_options=options
        )


class _Parquet:
    """Pieces of a Parquet file."""

    def __init__(self, path: Path, columns: Columns) -> None:
        if columns.text:
            raise ValueError("--text is for CSV files; a Parquet file has types of its own. Leave it out")
        self._file = pyarrow.parquet.ParquetFile(path)
        self.schema = self._file.schema_arrow

    def pieces(self, names: list[str], _: list[str]) -> Iterator[pa.Table]:
        for piece in self._file.iter_batches(PIECE_ROWS, columns=names):
            yield _without_dictionaries(pa.Table.from_batches([piece]))


def _without_dictionaries(table: pa.Table) -> pa.Table:
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table[i].cast(field.type.value_type))
    return table


def _coordinates(path: Path, schema: pa.Schema, columns: Columns) -> list[str]:
    numeric = [f.name for f in schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    named = [*(columns.points or ()), *columns.others, *columns.text]
    for name in named:
        if name not in schema.names:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}")
    chosen = list(columns.points or [name for name in numeric if name not in named])
    if not chosen:
        raise ValueError(f"{path} has no numeric columns left to be coordinates: name some with --points")
    for name in [*chosen, *([] if columns.weight is None else [columns.weight])]:
        if name not in numeric:
            raise ValueError(
                f"column {name!r} of {path} has type {schema.field(name).type}: expected numbers"
            )
    return chosen


def _whole_sets(pieces: Iterable[pa.Table], set_id: str) -> Iterator[pa.Table]:
    """The same rows, cut so that no set is divided."""
    held: list[pa.Table] = []
    for piece in pieces:
        if not len(piece):
            continue
        last = int(np.flatnonzero(_begins(piece[set_id]))[-1])
        if last == 0 and held and held[-1][set_id][-1].equals(piece[set_id][0]):
            held.append(piece)
            continue
        if held or last:
            yield pa.concat_tables([*held, piece[:last]]).combine_chunks()
        held = [piece[last:]]
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _begins(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
    differs = pc.fill_null(pc.not_equal(column[1:], column[:-1]), True)
    return np.concatenate([[True], np.asarray(differs, dtype=bool)])


class _Reader:
    """Checks and converts pieces of whole sets; remembers the ids and counts the rows."""

    def __init__(self, path: Path, columns: Columns, coordinates: list[str], taken: set[Any]) -> None:
        self._path, self._columns, self._coordinates = path, columns, coordinates
        self._taken, self._seen = taken, set[Any]()
        self._row = 1

    def batch(self, table: pa.Table) -> Batch:
        """The sets of a piece."""
        for name in table.column_names:
            self._refuse_rows(pc.is_null(table[name]), name, "has no value")
        begins = _begins(table[self._columns.set_id])
        starts = np.flatnonzero(begins)
        first_rows = table.take(starts)
        ids = _column(first_rows, self._columns.set_id)
        self._note(ids.tolist(), starts)
        targets = {name: self._target(table, first_rows, name, begins, ids) for name in self._columns.targets}
        points = self._points(table)
        weights = None if self._columns.weight is None else self._floats(table, self._columns.weight)
        self._row += len(table)
        return Batch(SampleSets(points, np.append(starts, len(table)), weights), targets, ids)

    def _note(self, ids: list[Any], starts: NDArray[np.int64]) -> None:
        for one, start in zip(ids, starts.tolist(), strict=True):
            if one in self._seen:
                raise ValueError(
                    f"set {one!r} comes back in row {self._row + start} of {self._path}, after rows of other "
                    "sets: the rows of a set must stand together. Sort the table by "
                    f"{self._columns.set_id!r}, or give --sort to sort it in memory"
                )
            if one in self._taken:
                raise ValueError(
                    f"set {one!r} (row {self._row + start} of {self._path}) is in the store already"
                )
            self._seen.add(one)

    def _points(self, table: pa.Table) -> NDArray[Any]:
        if len(self._coordinates) == 1 and table.schema.field(self._coordinates[0]).type in (
            pa.uint8(),
            pa.uint16(),
        ):
            return _column(table, self._coordinates[0])[:, None]  # codes of strings keep their type
        points = np.empty((len(table), len(self._coordinates)), np.float32)
        for j, name in enumerate(self._coordinates):
            points[:, j] = self._floats(table, name)
        return points

    def _floats(self, table: pa.Table, name: str) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # an infinity is refused by name
            values = _column(table, name).astype(np.float32)
        self._refuse_rows(~np.isfinite(values), name, "is not a finite number (of 32 bits)")
        return values

    def _target(
        self, table: pa.Table, first_rows: pa.Table, name: str, begins: NDArray[np.bool_], ids: NDArray[Any]
    ) -> NDArray[Any]:
        changes = np.flatnonzero(_begins(table[name]) & ~begins)
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


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(table[name].to_numpy())
