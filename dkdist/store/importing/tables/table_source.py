"""A table as it lies on disk: one file, or a folder of files with Hive partitions, read in pieces by pyarrow.

Columns of CSV files that are no coordinates, and partitions, come as text; what it stands for is decided for the
whole table (`text_values`). Pieces come in the order of the files, and each knows where it is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
from numpy.typing import NDArray

from dkdist.loops.array_types import I64
from dkdist.store.importing.files_of_table import DEFAULT_ENCODING, CsvOptions, TableFiles
from dkdist.store.importing.tables.csv_advice import LATIN_1, csv_advice, is_encoding_error
from dkdist.store.importing.tables.text_values import values_of

PIECE_BYTES = 2 * 2**20  # of a CSV file
PIECE_ROWS = 2**17  # of a Parquet file
BUFFER_BYTES = 2**18  # of a column of a Parquet file, read at once into memory that serves again
PIECES_AHEAD, FILES_AHEAD = 4, 2
NUMBERED = pa.dictionary(pa.int32(), pa.string())


class Piece(NamedTuple):
    """Some rows of a table, and where they are from; rows that are dropped are in ``whole`` alone.

    ``row`` is the number in the file (from 1) and ``offset`` that in the table (from 0) of the first row of ``whole``;
    ``start`` counts the rows of earlier pieces that were not dropped.
    """

    file: str
    row: int
    start: int
    batch: pa.RecordBatch
    offset: int
    whole: pa.RecordBatch
    kept: I64 | None

    def place(self, i: int) -> int:
        """The number in ``whole`` of row i of ``batch``."""
        return i if self.kept is None else int(self.kept[i])

    def row_name(self, i: int) -> str:
        """Row i of ``batch``, for messages."""
        return f"row {self.row + self.place(i)} of {self.file}"


class TableValueError(ValueError):
    """Values of a table are missing, not finite or contradict each other."""


class TableSource:
    """The files of a table under one schema of plain types.

    ``text`` columns of Parquet files come as numbers of the values in a dictionary, as they lie there. Of CSV files
    they are read as they stand, and ``numbers`` as numbers, even if they begin with zeros.
    ``numeric`` names the columns that can be coordinates, ``as_text`` those that came as text, ``others`` says why
    the rest are no coordinates.
    """

    def __init__(
        self, files: TableFiles, text: Sequence[str], numbers: Sequence[str], options: CsvOptions
    ) -> None:
        self.decimal, self._delimiter = options.decimal, options.delimiter
        self.label, self._is_csv = files.label, files.is_csv
        self._first, self._is_utf8 = files.paths[0], options.encoding == DEFAULT_ENCODING
        fields, self.others = _csv(files, text, numbers, options) if files.is_csv else _parquet(files)
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
            format=_csv_format(files.suffix, options) if files.is_csv else _parquet_format(numbered),
            partitioning=pyarrow.dataset.partitioning(pa.schema(hive), flavor="hive") if partitions else None,
            partition_base_dir=files.root,
        )

    def pieces(
        self, names: Sequence[str], rows: int | None = None, required: Sequence[str] = ()
    ) -> Iterator[Piece]:
        """Some columns of the table, in order, some rows at a time; without rows that lack a ``required`` value."""
        names = list(dict.fromkeys([*names, *required]))
        scanner = self._dataset.scanner(
            columns=names,
            batch_size=rows or PIECE_ROWS,
            batch_readahead=PIECES_AHEAD,
            fragment_readahead=FILES_AHEAD,
            cache_metadata=False,
        )
        file, row, start, offset = "", 1, 0, 0
        try:
            for tagged in scanner.scan_batches():
                whole, path = tagged.record_batch, tagged.fragment.path
                file, row = path, row if path == file else 1
                kept = _complete_rows(whole, required)
                batch = whole if kept is None else whole.take(pa.array(kept))
                if len(batch):
                    yield Piece(file, row, start, batch, offset, whole, kept)
                row, start, offset = row + len(whole), start + len(batch), offset + len(whole)
        except (pa.ArrowException, OSError) as error:
            if not self._is_csv:
                raise self._damaged(names, error) from error
            if is_encoding_error(error) and self._is_utf8:
                raise ValueError(f"{self.label}: {error}. {LATIN_1}") from error
            raise ValueError(
                f"{self.label}: {error}. Which columns hold numbers is taken from the first rows: name the coordinates "
                "as points, or repair the value"
            ) from error

    def advice(self) -> str:
        """What to do about a column that is not there."""
        return csv_advice(self._first, self._delimiter) if self._is_csv else ""

    def _damaged(self, names: list[str], error: Exception) -> Exception:
        """The error of reading Parquet files, with the name of the first file that cannot be read."""
        for fragment in self._dataset.get_fragments():
            try:
                for _ in fragment.scanner(schema=self._dataset.schema, columns=names).to_reader():
                    pass
            except (pa.ArrowException, OSError) as reason:
                return _unreadable(fragment.path, reason)
        return _unreadable(self.label, error)


def _complete_rows(batch: pa.RecordBatch, required: Sequence[str]) -> I64 | None:
    """The rows that have all required values, which are neither null, NaN nor empty; None for all rows."""
    missing = np.zeros(len(batch), bool)
    for name in required:
        missing |= missing_values(batch.column(name))
    return np.flatnonzero(~missing) if missing.any() else None


def missing_values(column: Any) -> NDArray[np.bool_]:
    """(n,) whether a value is null, NaN or empty text."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    missing = pc.is_null(column, nan_is_null=True)
    if pa.types.is_string(column.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(column, ""), True))
    return np.asarray(missing.to_numpy(zero_copy_only=False), bool)


def _parquet_format(numbered: Sequence[str]) -> Any:
    reading = pyarrow.dataset.ParquetReadOptions(dictionary_columns=numbered)
    scanning = pyarrow.dataset.ParquetFragmentScanOptions(
        use_buffered_stream=True,
        buffer_size=BUFFER_BYTES,
        pre_buffer=False,
        page_checksum_verification=True,
    )
    return pyarrow.dataset.ParquetFileFormat(read_options=reading, default_fragment_scan_options=scanning)


def _parquet(files: TableFiles) -> tuple[dict[str, Any], dict[str, str]]:
    """The plain types of the columns of Parquet files, and why some are no coordinates."""
    schemas = []
    for path in files.paths:
        try:
            schema = pyarrow.parquet.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from error
        _require_distinct(path, schema.names)
        schemas.append(pa.schema([(field.name, _plain(field.type)) for field in schema]))
    try:
        joint = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the files of {files.label} do not fit together: {error}. Convert them") from error
    fields = {field.name: field.type for field in joint}
    others = {name: kind for name, kind in fields.items() if not _is_number(kind)}
    return fields, {name: _called(kind) for name, kind in others.items()}


def _unreadable(path: str, error: Exception) -> Exception:
    """The error of a Parquet file that pyarrow cannot read."""
    reason = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno is not None:  # of the system, not of the format
        return OSError(error.errno, reason)
    return ValueError(
        f"{path} cannot be read as Parquet ({reason}): it is damaged or cut short. Write it again"
    )


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
    files: TableFiles, text: Sequence[str], numbers: Sequence[str], options: CsvOptions
) -> tuple[dict[str, Any], dict[str, str]]:
    """The types of the columns of CSV files, by the first rows there are: numbers, or text; and why not numbers."""
    head = next(filter(len, (_head(path, files.suffix, options) for path in files.paths)), None)
    if head is None:
        raise ValueError(
            f"{files.label} has no rows: expected one point a row below the names of the columns"
        )
    fields, others = {}, {}
    for name, column in zip(head.schema.names, head.columns, strict=True):
        values = values_of(column, padded=name in numbers, decimal=options.decimal)
        empty = values.null_count == len(values)
        number = _is_number(values.type)
        kind = values.type if pa.types.is_boolean(values.type) else pa.float64()
        fields[name] = kind if number and name not in text else pa.string()
        if not number:
            others[name] = "no values" if empty else _called(values.type)
    return fields, others


def _head(path: str, suffix: str, options: CsvOptions) -> pa.RecordBatch:
    """The first rows of a file, all of them text."""
    try:
        return _first_rows(path, suffix, options)
    except (pa.ArrowInvalid, UnicodeError) as error:
        delimiter = options.delimiter or _delimiter(suffix)
        advice = options.encoding == DEFAULT_ENCODING and csv_advice(path, options.delimiter, error)
        advice = advice or (
            f". Check delimiter={delimiter!r} (--delimiter) and encoding={options.encoding!r} (--encoding), or repair "
            "the file"
        )
        raise ValueError(f"{path} cannot be read as CSV ({str(error)!r:.200}){advice}") from error


def _first_rows(path: str, suffix: str, options: CsvOptions) -> pa.RecordBatch:
    schema = _opened(path, suffix, {}, options).schema
    _require_distinct(path, schema.names)
    texts = pa.schema([(name, pa.string()) for name in schema.names])
    given = iter(_opened(path, suffix, dict.fromkeys(schema.names, pa.string()), options))
    return next(given, pa.RecordBatch.from_pylist([], texts))


def _opened(path: str, suffix: str, types: dict[str, Any], options: CsvOptions) -> Any:
    return pyarrow.csv.open_csv(
        path,
        pyarrow.csv.ReadOptions(block_size=PIECE_BYTES, use_threads=False, encoding=options.encoding),
        _parsing(suffix, options),
        pyarrow.csv.ConvertOptions(column_types=types, decimal_point=options.decimal),
    )


def _delimiter(suffix: str) -> str:
    return "\t" if suffix == ".tsv" else ","


def _parsing(suffix: str, options: CsvOptions) -> Any:
    return pyarrow.csv.ParseOptions(delimiter=options.delimiter or _delimiter(suffix))


def _csv_format(suffix: str, options: CsvOptions) -> Any:
    reading = pyarrow.csv.ReadOptions(block_size=PIECE_BYTES, encoding=options.encoding)
    converting = pyarrow.csv.ConvertOptions(decimal_point=options.decimal)
    scanning = pyarrow.dataset.CsvFragmentScanOptions(converting, reading)
    return pyarrow.dataset.CsvFileFormat(
        parse_options=_parsing(suffix, options), default_fragment_scan_options=scanning
    )


def _require_distinct(path: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has two columns {twice[0]!r}: give every column a name of its own")
