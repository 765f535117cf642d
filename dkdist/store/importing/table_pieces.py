"""Pieces of a table: some megabytes of rows at a time, and cut so that no set is divided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

PIECE_BYTES = 2 * 2**20  # of a CSV file, which pyarrow reads some thirty pieces ahead
PIECE_ROWS = 2**17  # of a Parquet file


class Csv:
    """Pieces of a CSV file, types taken from its first two megabytes."""

    def __init__(self, path: Path, suffix: str, text: tuple[str, ...]) -> None:
        self._path, self._text = path, dict.fromkeys(text, pa.string())
        self._parse = pyarrow.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        with self._open(pyarrow.csv.ConvertOptions(column_types=self._text)) as reader:
            self.schema = reader.schema

    def pieces(self, names: list[str], coordinates: list[str]) -> Iterator[pa.Table]:
        """Some columns of the table, of which the coordinates are floats."""
        types = {name: pa.float64() for name in coordinates if name in names} | self._text
        options = pyarrow.csv.ConvertOptions(column_types=types, include_columns=names)
        try:
            with self._open(options) as reader:
                for piece in reader:
                    yield pa.Table.from_batches([piece])
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{self._path}: {error}. The type of a column is taken from the first rows: name columns of "
                "ids or labels as text (--text), or repair the value"
            ) from error

    def _open(self, options: Any) -> Any:
        reading = pyarrow.csv.ReadOptions(block_size=PIECE_BYTES, use_threads=False)
        return pyarrow.csv.open_csv(
            self._path, read_options=reading, parse_options=self._parse, convert_options=options
        )


class Parquet:
    """Pieces of a Parquet file."""

    def __init__(self, path: Path, suffix: str, text: tuple[str, ...]) -> None:
        if text:
            raise ValueError(
                f"text columns are for CSV files; {suffix} files have types of their own. Leave them out"
            )
        self._file = pyarrow.parquet.ParquetFile(path)
        self.schema = self._file.schema_arrow

    def pieces(self, names: list[str], _: list[str]) -> Iterator[pa.Table]:
        """Some columns of the table."""
        for piece in self._file.iter_batches(PIECE_ROWS, columns=names):
            yield without_dictionaries(pa.Table.from_batches([piece]))


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The table with plain columns in place of dictionaries."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table[i].cast(field.type.value_type))
    return table


def whole_sets(pieces: Iterable[pa.Table], set_id: str) -> Iterator[pa.Table]:
    """The same rows, cut so that no set is divided."""
    held: list[pa.Table] = []
    for piece in pieces:
        if not len(piece):
            continue
        last = int(np.flatnonzero(begins_of(piece[set_id]))[-1])
        if last == 0 and held and held[-1][set_id][-1].equals(piece[set_id][0]):
            held.append(piece)
            continue
        if held or last:
            yield pa.concat_tables([*held, piece[:last]]).combine_chunks()
        held = [piece[last:]]
    if held:
        yield pa.concat_tables(held).combine_chunks()


def begins_of(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
    differs = pc.fill_null(pc.not_equal(column[1:], column[:-1]), True)
    return np.concatenate([[True], np.asarray(differs, dtype=bool)])
