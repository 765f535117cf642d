"""Tables on disk, read in pieces by pyarrow: schema, types of text columns, roles of columns, hints for CSV files.

A table is a file, or a folder of files with Hive partitions. CSV columns that are not coordinates, and partitions, are
read as text; `infer_values` determines one type for the whole column, independent of the division into files: integer
if all values are canonical integers (``7``, not ``007`` or ``+7``), float if all are numbers without leading zeros,
boolean if all are true or false, otherwise text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
from numpy.typing import NDArray

from dkdist._numba.arrays import I64
from dkdist.io.readers.files import DEFAULT_ENCODING, CsvOptions, TableFiles

CSV_SAMPLE_BYTES = 2**16  # contains the header row; tests/store/test_table_options.py
NAME_BY_DELIMITER = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
LATIN_1 = "It is not UTF-8 text, perhaps Latin-1: set encoding='latin-1' (--encoding latin-1)"
UTF_16 = "It is UTF-16 text: set encoding='utf-16' (--encoding utf-16)"


def csv_hint(path: str, delimiter: str | None, error: Exception | None = None) -> str:
    """Return a hint, after ". ", for a file that is unreadable or lacks a column; "" if there is none."""
    if is_encoding_error(error):
        advice = LATIN_1
    elif path.lower().endswith((".csv", ".tsv")):
        advice = _hint_from_sample(path, delimiter)
    else:
        advice = ""
    return advice and f". {advice}"


def is_encoding_error(error: Exception | None) -> bool:
    """Whether the error reports invalid UTF-8."""
    return isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)


def _hint_from_sample(path: str, requested_delimiter: str | None) -> str:
    with open(path, "rb") as file:
        sample = file.read(CSV_SAMPLE_BYTES)
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in sample:
        return UTF_16
    header = sample.partition(b"\n")[0].decode("latin-1")
    expected = requested_delimiter or ("\t" if path.lower().endswith(".tsv") else ",")
    delimiter = max(NAME_BY_DELIMITER, key=header.count)
    if header.count(delimiter) <= header.count(expected):
        return ""
    return (
        f"Its columns are separated by {NAME_BY_DELIMITER[delimiter]}, expected "
        f"{NAME_BY_DELIMITER.get(expected, repr(expected))}: set delimiter={delimiter!r} (--delimiter), and "
        "decimal=',' (--decimal) for decimal commas"
    )


NULL_TEXTS = pa.array(sorted(pyarrow.csv.ConvertOptions().null_values))
INTEGER_PATTERN = r"^(0|-?[1-9][0-9]{0,18})$"
PADDED_PATTERN = r"^[+-]?0[0-9]"
BOOLEAN_TEXTS = pa.array(["true", "false"])


def infer_ids(text: Any) -> Any:
    """Return ids as int64 if all are canonical integers, otherwise the text unchanged."""
    return _to_int64(text) if _all_match(pc.match_substring_regex(text, INTEGER_PATTERN)) else text


def infer_values(text: Any, *, padded: bool = False, decimal: str = ".") -> Any:
    """Return integers, floats, booleans or text; empty text (for numbers also NA, NaN, null, ...) is missing.

    With ``padded``, numbers may have leading zeros; ``decimal`` is the decimal mark.
    """
    text = _nullify(text, pa.array([""]))
    non_null = _nullify(text, NULL_TEXTS)
    if non_null.null_count == len(non_null):
        return text
    if _all_match(pc.match_substring_regex(non_null, INTEGER_PATTERN)):
        return _to_int64(non_null)
    if padded or not pc.any(pc.match_substring_regex(non_null, PADDED_PATTERN)).as_py():
        try:
            return _to_decimal_point(non_null, decimal).cast(pa.float64())
        except pa.ArrowInvalid:
            pass
    lower = pc.utf8_lower(non_null)
    if _all_match(pc.is_in(lower, value_set=BOOLEAN_TEXTS, skip_nulls=True), lower):
        return pc.equal(lower, "true")
    return text


def _to_decimal_point(text: Any, decimal: str) -> Any:
    """Replace the decimal mark by a point; invalidate numbers with a point if the mark differs."""
    if decimal == ".":
        return text
    marked = pc.replace_substring(text, ".", "no number")
    return pc.replace_substring(marked, decimal, ".")


def _all_match(fits: Any, known: Any = None) -> bool:
    """Whether the column is nonempty and all known values match."""
    if known is not None:
        fits = pc.or_(fits, pc.is_null(known))
    return bool(len(fits) and pc.all(fits).as_py())


def _to_int64(text: Any) -> Any:
    """Return int64, or the text if a value is out of range."""
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return text


def _nullify(text: Any, missing: pa.Array) -> Any:
    """Replace some words by null."""
    return pc.if_else(pc.is_in(text, value_set=missing), pa.scalar(None, pa.string()), text)


# Sizes of reads: larger pieces amortize overhead but exceed the CPU cache (python benchmarks/tables.py)
PIECE_BYTES = 2 * 2**20  # bytes per piece of a CSV file (python benchmarks/tables.py)
PIECE_ROWS = 2**17  # rows per piece of a Parquet file (python benchmarks/tables.py)
BUFFER_BYTES = 2**18  # bytes per column of a Parquet file, in reused memory (python benchmarks/tables.py)
PREFETCH_PIECES, PREFETCH_FILES = 4, 2  # overlap reading with decoding (python benchmarks/tables.py)
DICTIONARY_TYPE = pa.dictionary(pa.int32(), pa.string())


class Piece(NamedTuple):
    """Consecutive rows of a file: ``full_batch``, and ``batch`` without dropped rows.

    The first row of ``full_batch`` has the number ``row`` in the file (from 1) and ``offset`` in the table (from 0).
    ``start`` is the number of rows in earlier batches. ``selected_rows`` are the indices of the rows of ``batch`` in
    ``full_batch``; None for all.
    """

    file: str
    row: int
    start: int
    batch: pa.RecordBatch
    offset: int
    full_batch: pa.RecordBatch
    selected_rows: I64 | None

    def row_name(self, i: int) -> str:
        """Return the name of row i of ``batch`` for messages."""
        position = i if self.selected_rows is None else int(self.selected_rows[i])
        return f"row {self.row + position} of {self.file}"


class TableValueError(ValueError):
    """Error for missing, non-finite or inconsistent values of a table."""


class TableSource:
    """Files of a table with one schema of plain types.

    ``text`` columns are read as text, dictionary-encoded for Parquet files. ``numbers`` are columns of CSV files
    that are numeric even with leading zeros. ``numeric``: names of columns that can be coordinates; ``as_text``: names
    of columns read as text; ``nonnumeric``: content of each other column, for messages.
    """

    def __init__(
        self, files: TableFiles, text: Sequence[str], numbers: Sequence[str], options: CsvOptions
    ) -> None:
        self.decimal, self._delimiter = options.decimal, options.delimiter
        self.label, self._is_csv = files.label, files.is_csv
        self._first, self._is_utf8 = files.paths[0], options.encoding == DEFAULT_ENCODING
        fields, self.nonnumeric = (
            _csv_columns(files, text, numbers, options) if files.is_csv else _parquet_columns(files)
        )
        self.numeric = [name for name in fields if name not in self.nonnumeric]
        self.as_text = {name for name, kind in fields.items() if kind == pa.string() and files.is_csv}
        partitions = [name for name in files.partitions if name not in fields]
        self.nonnumeric |= dict.fromkeys(partitions, "a partition")
        self.as_text |= set(partitions)
        hive = [(name, pa.string()) for name in partitions]
        self.schema = pa.schema([*fields.items(), *hive])
        numbered = [] if files.is_csv else [name for name in text if fields.get(name) == pa.string()]
        kinds = {**fields, **dict.fromkeys(numbered, DICTIONARY_TYPE)}
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
        """Iterate over pieces with some columns, in order, without rows that lack a ``required`` value."""
        names = list(dict.fromkeys([*names, *required]))
        scanner = self._dataset.scanner(
            columns=names,
            batch_size=rows or PIECE_ROWS,
            batch_readahead=PREFETCH_PIECES,
            fragment_readahead=PREFETCH_FILES,
            cache_metadata=False,
        )
        file, row, start, offset = "", 1, 0, 0
        try:
            for tagged in scanner.scan_batches():
                full_batch, path = tagged.record_batch, tagged.fragment.path
                file, row = path, row if path == file else 1
                selected = _complete_rows(full_batch, required)
                batch = full_batch if selected is None else full_batch.take(pa.array(selected))
                if len(batch):
                    yield Piece(file, row, start, batch, offset, full_batch, selected)
                row, start, offset = row + len(full_batch), start + len(batch), offset + len(full_batch)
        except (pa.ArrowException, OSError) as error:
            if not self._is_csv:
                raise self._damaged(names, error) from error
            if is_encoding_error(error) and self._is_utf8:
                raise ValueError(f"{self.label}: {error}. {LATIN_1}") from error
            raise ValueError(
                f"{self.label}: {error}. Column types are inferred from the first rows. Pass the coordinates as "
                "points, or correct the value"
            ) from error

    def missing_column_hint(self) -> str:
        """Return a hint for a missing column."""
        return csv_hint(self._first, self._delimiter) if self._is_csv else ""

    def _damaged(self, names: list[str], error: Exception) -> Exception:
        """Return the error of the first unreadable Parquet file."""
        for fragment in self._dataset.get_fragments():
            try:
                for _ in fragment.scanner(schema=self._dataset.schema, columns=names).to_reader():
                    pass
            except (pa.ArrowException, OSError) as reason:
                return _parquet_error(fragment.path, reason)
        return _parquet_error(self.label, error)


def _complete_rows(batch: pa.RecordBatch, required: Sequence[str]) -> I64 | None:
    """Return the rows whose required values are neither null, NaN nor empty; None for all rows."""
    missing = np.zeros(len(batch), bool)
    for name in required:
        missing |= missing_values(batch.column(name))
    return np.flatnonzero(~missing) if missing.any() else None


def missing_values(column: Any) -> NDArray[np.bool_]:
    """Return (n,) whether a value is null, NaN or empty text."""
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


def _parquet_columns(files: TableFiles) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the plain types of the columns of Parquet files, and the content of columns that are not numeric."""
    schemas = []
    for path in files.paths:
        try:
            schema = pyarrow.parquet.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise _parquet_error(path, error) from error
        _require_distinct(path, schema.names)
        schemas.append(pa.schema([(field.name, _plain_type(field.type)) for field in schema]))
    try:
        joint = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"the files of {files.label} have incompatible types: {error}. Convert them"
        ) from error
    fields = {field.name: field.type for field in joint}
    nonnumeric = {name: kind for name, kind in fields.items() if not _is_number(kind)}
    return fields, {name: _type_name(kind) for name, kind in nonnumeric.items()}


def _parquet_error(path: str, error: Exception) -> Exception:
    """Return the error for a Parquet file that pyarrow cannot read."""
    reason = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno is not None:  # an error of the operating system
        return OSError(error.errno, reason)
    return ValueError(
        f"{path} cannot be read as Parquet ({reason}): it is damaged or cut short. Write it again"
    )


def _plain_type(kind: Any) -> Any:
    """Return the type to read as: value types for dictionaries, string for text, at least 32 bits for numbers."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_decimal(kind):
        return pa.float64()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _type_name(kind: Any) -> str:
    """Describe the content of a column that is not numeric."""
    return "text" if pa.types.is_string(kind) else f"values of type {kind}"


def _is_number(kind: Any) -> bool:
    """Whether values can be coordinates, with booleans as 0 and 1."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _csv_columns(
    files: TableFiles, text: Sequence[str], numbers: Sequence[str], options: CsvOptions
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the types of the columns of CSV files from the first rows, and what text columns hold."""
    head = next(filter(len, (_head(path, files.suffix, options) for path in files.paths)), None)
    if head is None:
        raise ValueError(f"{files.label} has no rows. It must have a header row, then one row per point")
    fields, nonnumeric = {}, {}
    for name, column in zip(head.schema.names, head.columns, strict=True):
        values = infer_values(column, padded=name in numbers, decimal=options.decimal)
        is_empty = values.null_count == len(values)
        is_number = _is_number(values.type)
        kind = values.type if pa.types.is_boolean(values.type) else pa.float64()
        fields[name] = kind if is_number and name not in text else pa.string()
        if not is_number:
            nonnumeric[name] = "no values" if is_empty else _type_name(values.type)
    return fields, nonnumeric


def _head(path: str, suffix: str, options: CsvOptions) -> pa.RecordBatch:
    """Return the first rows of a file as text."""
    try:
        return _first_rows(path, suffix, options)
    except (pa.ArrowInvalid, UnicodeError) as error:
        delimiter = options.delimiter or _delimiter(suffix)
        advice = options.encoding == DEFAULT_ENCODING and csv_hint(path, options.delimiter, error)
        advice = advice or (
            f". Check delimiter={delimiter!r} (--delimiter) and encoding={options.encoding!r} (--encoding), or repair "
            "the file"
        )
        raise ValueError(f"{path} cannot be read as CSV ({str(error)!r:.200}){advice}") from error


def _first_rows(path: str, suffix: str, options: CsvOptions) -> pa.RecordBatch:
    schema = _opened(path, suffix, {}, options).schema
    _require_distinct(path, schema.names)
    texts = pa.schema([(name, pa.string()) for name in schema.names])
    batches = iter(_opened(path, suffix, dict.fromkeys(schema.names, pa.string()), options))
    return next(batches, pa.RecordBatch.from_pylist([], texts))


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
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"{path} has two columns {duplicates[0]!r}. Column names must be unique")


WRITTEN_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # names of indices written by pandas
INDEX = "index"
MAX_LISTED_NAMES = 12  # names listed in a message; tests/cli/test_import.py


class ColumnChoice(NamedTuple):
    """Names of the coordinates, and the reason for each excluded column."""

    points: tuple[str, ...]
    excluded: dict[str, str]

    def summary(self) -> str:
        """Return one line with the coordinates and the excluded columns."""
        text = f"points: {_list_names(list(self.points))}"
        excluded = [f"{name or 'the unnamed column'} ({reason})" for name, reason in self.excluded.items()]
        return f"{text}; left out: {_list_names(excluded)}" if excluded else text


def choose_columns(source: TableSource, columns: Any) -> ColumnChoice:
    """Return ``columns.points``, or all numeric columns without another role, except indices written by pandas."""
    weight = () if columns.weight is None else (columns.weight,)
    named = [columns.set_id, *columns.targets, *weight]
    _require_columns(source, [*(columns.points or ()), *named, *columns.text])
    other_names = [name for name in source.schema.names if name not in named]
    if columns.points is not None:
        coordinates, excluded = list(columns.points), {}
    else:
        reasons = {
            name: source.nonnumeric.get(name) or _exclusion_reason(name, columns.text) for name in other_names
        }
        coordinates = [name for name in other_names if not reasons[name]]
        excluded = {name: reason for name, reason in reasons.items() if reason}
    if not coordinates:
        raise ValueError(
            f"{source.label} has no numeric columns for coordinates. Select columns with points=, --points"
        )
    problems = [
        f"column {name!r} of {source.label} must hold numbers; got {source.nonnumeric.get(name, 'text')}"
        for name in [*coordinates, *weight]
        if name not in source.numeric
    ]
    problems += filter(None, (_unsupported_type(source, name) for name in named[: 1 + len(columns.targets)]))
    if problems:
        raise ValueError("; ".join(problems))
    return ColumnChoice(tuple(coordinates), excluded)


def _exclusion_reason(name: str, text: Any) -> str:
    """Return the reason to exclude a numeric column; "" for a coordinate."""
    return "an index" if WRITTEN_INDEX.fullmatch(name) else "text" if name in text else ""


def _require_columns(source: TableSource, names: list[str]) -> None:
    missing = [repr(name) for name in dict.fromkeys(names) if name not in source.schema.names]
    if missing:
        raise ValueError(
            f"{source.label} has no column {', '.join(missing)}; it has {', '.join(source.schema.names)}"
            f"{source.missing_column_hint()}"
        )


def _unsupported_type(source: TableSource, name: str) -> str | None:
    """Return the problem of an id or a target whose type a store cannot hold; None if valid."""
    kind = source.schema.field(name).type
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numbers and not pa.types.is_string(kind):
        return (
            f"column {name!r} of {source.label} must hold numbers, booleans or text; got {kind}. Convert it"
        )
    return None


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return f"{', '.join(names[:MAX_LISTED_NAMES])}{more}"


class IndexDetector:
    """Test of whether a column numbers the rows of the table, or of each file, from 0 in any order.

    Compares the sum and the sum of squares, modulo 2^64, with those of 0 to n - 1.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}
        self._all_integers = True

    def add(self, piece: Piece) -> None:
        """Add the rows of a piece, including dropped ones."""
        values = piece.full_batch.column(INDEX).to_numpy(zero_copy_only=False)
        if not self._all_integers or (values.dtype.kind == "f" and not (values == np.rint(values)).all()):
            self._all_integers = False
            return
        integers = values.astype(np.int64).astype(np.uint64)
        sums = self._sums.setdefault(piece.file, [0, 0, 0])
        for i, term in enumerate((len(integers), integers.sum(), np.dot(integers, integers))):
            sums[i] = (sums[i] + int(term)) % 2**64

    def is_index(self) -> bool:
        """Whether the added rows are numbered from 0."""
        total = [sum(parts) % 2**64 for parts in zip(*self._sums.values(), strict=True)]
        return (
            self._all_integers
            and bool(total)
            and (_is_count_of_rows(total) or all(map(_is_count_of_rows, self._sums.values())))
        )


def _is_count_of_rows(sums: list[int]) -> bool:
    n = sums[0]
    return sums[1:] == [n * (n - 1) // 2 % 2**64, (n - 1) * n * (2 * n - 1) // 6 % 2**64]
