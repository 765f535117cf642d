"""A table as it lies on disk: one file, or a folder of files with Hive partitions, read in pieces by pyarrow.

Columns of CSV files that are no coordinates, and partitions, come as text; what it stands for is decided for the
whole table (`text_values`). Pieces come in the order of the files, and each knows where it is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from dkdist.store.importing.files_of_table import TableFiles
from dkdist.store.importing.tables.csv_advice import LATIN_1, csv_advice, is_encoding_error
from dkdist.store.importing.tables.text_values import values_of

PIECE_BYTES = 2 * 2**20  # of a CSV file
PIECE_ROWS = 2**17  # of a Parquet file
BUFFER_BYTES = 2**18  # of a column of a Parquet file, read at once into memory that serves again
PIECES_AHEAD, FILES_AHEAD = 4, 2
NUMBERED = pa.dictionary(pa.int32(), pa.string())


class Piece(NamedTuple):
    """Some rows of a table: the file they are from, the first one's number in it (from 1) and in the table (from 0)."""

    file: str
    row: int
    start: int
    batch: pa.RecordBatch


class TableSource:
    """The files of a table under one schema of plain types.

    ``text`` columns of Parquet files come as numbers of the values in a dictionary, as they lie there. Of CSV files
    they are read as they stand, and ``numbers`` as numbers, even if they begin with zeros.
    ``numeric`` names the columns that can be coordinates, ``as_text`` those that came as text, ``others`` says why
    the rest are no coordinates.
    """

    def __init__(self, files: TableFiles, text: Sequence[str], numbers: Sequence[str]) -> None:
        self.label = files.label
        self.first_csv = files.paths[0] if files.is_csv else None
        fields, self.others = _csv(files, text, numbers) if files.is_csv else _parquet(files)
        self.numeric = [name for name in fields if name not in self.others]
        self.as_text = {name for name, kind in fields.items() if kind == pa.string() and files.is_csv}
        partitions = [name for name in files.partitions if name not in fields]
        self.others |= dict.fromkeys(partitions, "a partition")
        self.as_text |= set(partitions)
        hive = [(name, pa.string()) for name in partitions]
        self.schema = pa.schema([*fields.items(), *hive])
        numbered = [] if files.is_csv else [name for name in text if fields.get(name) == pa.string()]
        kinds = {**fields, **dict.fromkeys(numbered, NUMBERED)}
        self._dataset = pyarrow.dataset.dataset(
            files.paths,
            schema=pa.schema([*kinds.items(), *hive]),
            format=_csv_format(files.suffix) if files.is_csv else _parquet_format(numbered),
            partitioning=pyarrow.dataset.partitioning(pa.schema(hive), flavor="hive") if partitions else None,
            partition_base_dir=files.root,
        )

    def pieces(self, names: Sequence[str], rows: int | None = None) -> Iterator[Piece]:
        """Some columns of the table, in order, some rows at a time."""
        scanner = self._dataset.scanner(
            columns=list(dict.fromkeys(names)),
            batch_size=rows or PIECE_ROWS,
            batch_readahead=PIECES_AHEAD,
            fragment_readahead=FILES_AHEAD,
            cache_metadata=False,
        )
        file, row, start = "", 1, 0
        try:
            for tagged in scanner.scan_batches():
                batch, path = tagged.record_batch, tagged.fragment.path
                file, row = path, row if path == file else 1
                if len(batch):
                    yield Piece(file, row, start, batch)
                row, start = row + len(batch), start + len(batch)
        except pa.ArrowInvalid as error:
            if is_encoding_error(error):
                raise ValueError(f"{self.label}: {error}. {LATIN_1}") from error
            raise ValueError(
                f"{self.label}: {error}. Which columns hold numbers is taken from the first rows: name the coordinates "
                "as points, or repair the value"
            ) from error


def _parquet_format(numbered: Sequence[str]) -> Any:
    reading = pyarrow.dataset.ParquetReadOptions(dictionary_columns=numbered)
    scanning = pyarrow.dataset.ParquetFragmentScanOptions(
        use_buffered_stream=True, buffer_size=BUFFER_BYTES, pre_buffer=False
    )
    return pyarrow.dataset.ParquetFileFormat(read_options=reading, default_fragment_scan_options=scanning)


def _parquet(files: TableFiles) -> tuple[dict[str, Any], dict[str, str]]:
    """The plain types of the columns of Parquet files, and why some are no coordinates."""
    schemas = []
    for path in files.paths:
        schema = pyarrow.parquet.read_schema(path)
        _require_distinct(path, schema.names)
        schemas.append(pa.schema([(field.name, _plain(field.type)) for field in schema]))
    try:
        joint = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the files of {files.label} do not fit together: {error}. Convert them") from error
    fields = {field.name: field.type for field in joint}
    others = {name: kind for name, kind in fields.items() if not _is_number(kind)}
    return fields, {name: _called(kind) for name, kind in others.items()}


def _plain(kind: Any) -> Any:
    """The type in whose place another stands: its values' for a dictionary, text, numbers of at least 32 bits."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_decimal(kind):
        return pa.float64()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _called(kind: Any) -> str:
    """What a column that holds no numbers holds."""
    return "text" if pa.types.is_string(kind) else f"values of type {kind}"


def _is_number(kind: Any) -> bool:
    """Whether values can be coordinates; booleans are 0 and 1."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _csv(
    files: TableFiles, text: Sequence[str], numbers: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The types of the columns of CSV files, by the first rows there are: numbers, or text; and why not numbers."""
    head = next(filter(len, (_head(path, files.suffix) for path in files.paths)), None)
    if head is None:
        raise ValueError(
            f"{files.label} has no rows: expected one point a row below the names of the columns"
        )
    fields, others = {}, {}
    for name, column in zip(head.schema.names, head.columns, strict=True):
        values = values_of(column, padded=name in numbers)
        empty = values.null_count == len(values)
        number = _is_number(values.type)
        kind = values.type if pa.types.is_boolean(values.type) else pa.float64()
        fields[name] = kind if number and name not in text else pa.string()
        if not number:
            others[name] = "no values" if empty else _called(values.type)
    return fields, others


def _head(path: str, suffix: str) -> pa.RecordBatch:
    """The first rows of a file, all of them text."""
    try:
        schema = _opened(path, suffix, {}).schema
        _require_distinct(path, schema.names)
        texts = pa.schema([(name, pa.string()) for name in schema.names])
        given = iter(_opened(path, suffix, dict.fromkeys(schema.names, pa.string())))
        return next(given, pa.RecordBatch.from_pylist([], texts))
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}{csv_advice(path, error)}") from error


def _opened(path: str, suffix: str, types: dict[str, Any]) -> Any:
    return pyarrow.csv.open_csv(
        path,
        pyarrow.csv.ReadOptions(block_size=PIECE_BYTES, use_threads=False),
        _parsing(suffix),
        pyarrow.csv.ConvertOptions(column_types=types),
    )


def _parsing(suffix: str) -> Any:
    return pyarrow.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")


def _csv_format(suffix: str) -> Any:
    reading = pyarrow.csv.ReadOptions(block_size=PIECE_BYTES)
    return pyarrow.dataset.CsvFileFormat(parse_options=_parsing(suffix), read_options=reading)


def _require_distinct(path: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has two columns {twice[0]!r}: give every column a name of its own")
