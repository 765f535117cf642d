"""First pass over a table: ids, sizes and targets of its sets.

Only the columns of ids and targets are read. Consecutive rows with equal values are a run. Memory holds one entry per
run; equal entries are merged when there are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkdist._numba.arrays import I64, Array
from dkdist.io.readers.table_source import (
    INDEX,
    IndexDetector,
    Piece,
    TableSource,
    TableValueError,
    infer_ids,
    infer_values,
)

MAX_HELD_RUNS = 2**21  # runs held before equal ones are merged; tests/store/test_long_tables.py
# Rows of Parquet files per piece: ids and targets are narrow, so large pieces amortize the overhead
# (python benchmarks/tables.py)
PIECE_ROWS = 2**19
MAX_NAMED_SETS = 5  # sets listed in a message; tests/store/test_long_tables.py
MISSING_VALUES_HINT = "Remove or fill such rows, or drop them (missing_points='drop', --missing-points drop)."
ROWS, FIRST = "number of rows", "first row"


class SetIndex(NamedTuple):
    """The sets of a table, in the order of the store, without dropped sets.

    ``in_order``: whether the rows of the table are in this order. ``runs``: sizes of all sets, and whether each has all
    targets. ``counts_rows``: whether the column ``index`` only numbers the rows. ``dropped_rows``: number of rows
    without a required value.
    """

    ids: Array
    sizes: I64
    targets: dict[str, Array]
    in_order: bool
    runs: tuple[I64, NDArray[np.bool_]]
    counts_rows: bool
    dropped_rows: int


def build_set_index(
    source: TableSource, columns: Any, *, check_index: bool = False, required: Sequence[str] = ()
) -> SetIndex:
    """Read ids and targets; raise for missing ids, targets that vary within a set, and missing targets (by option)."""
    collector = _RunCollector(source, columns, check_index)
    for piece in source.pieces(collector.column_names, PIECE_ROWS, required):
        collector.add(piece)
    entries = collector.entries()
    ids, targets = entries[0].combine_chunks(), {name: entries[name] for name in columns.targets}
    missing = np.zeros(len(ids), bool)
    for column in targets.values():
        missing |= pc.is_null(column).to_numpy()
    if missing.any() and columns.missing_targets == "raise":
        raise _missing_target_error(source.label, targets, ids)
    order = pc.sort_indices(ids).to_numpy().astype(np.int64) if columns.sort else np.arange(len(ids))
    stored, sizes = order[~missing[order]], entries[ROWS].to_numpy()
    return SetIndex(
        _array(ids.take(pa.array(stored))),
        sizes[stored],
        {name: _array(column.take(pa.array(stored))) for name, column in targets.items()},
        collector.n_runs == len(ids) and not (np.diff(order) < 0).any(),
        (sizes, ~missing),
        collector.index_detector is not None and collector.index_detector.is_index(),
        collector.n_dropped,
    )


class _RunCollector:
    """Entries of the rows read so far, the number of runs of ids, and the first row of each file."""

    def __init__(self, source: TableSource, columns: Any, check_index: bool) -> None:
        self._keys = list(dict.fromkeys([columns.set_id, *columns.targets]))
        self._decimal = source.decimal
        self._inferred = source.as_text - set(columns.text)  # names of text columns whose type is inferred
        self.column_names = [*self._keys, INDEX] if check_index else self._keys
        self.index_detector = IndexDetector() if check_index else None
        self.files: list[tuple[int, str]] = []
        self.n_runs = self.n_dropped = 0
        self._tables = [_entries(source.schema.empty_table().select(self._keys), 0, 0)]
        self._n_entries = 0
        self._last_id: Any = None

    def add(self, piece: Piece) -> None:
        if not self.files or self.files[-1][1] != piece.file:
            self.files.append((piece.offset - piece.row + 1, piece.file))
        self.n_dropped += len(piece.full_batch) - len(piece.batch)
        if self.index_detector is not None:
            self.index_detector.add(piece)
        ids, *targets = (piece.batch.column(name) for name in self._keys)
        begins = starts_of_runs(ids)
        self.n_runs += int(begins.sum()) - (piece.start > 0 and ids[0].as_py() == self._last_id)
        self._last_id = ids[-1].as_py()
        for column in targets:
            begins |= starts_of_runs(column)
        starts = np.flatnonzero(begins)
        runs = piece.batch.select(self._keys).take(pa.array(starts))
        runs = pa.table([decode_dictionary(column) for column in runs.columns], self._keys)
        _require_ids(piece, runs[0], starts)
        positions = starts if piece.selected_rows is None else piece.selected_rows[starts]
        self._append(_entries(runs, np.diff(np.append(starts, len(begins))), positions + piece.offset))

    def _append(self, entries: pa.Table) -> None:
        self._tables.append(entries)
        self._n_entries += len(entries)
        if self._n_entries > MAX_HELD_RUNS:
            self._tables, self._n_entries = [_merge_runs(self._tables)], 0
            if len(self._tables[0]) > MAX_HELD_RUNS:
                self.entries()  # raises for varying targets before they fill the memory

    def entries(self) -> pa.Table:
        """Return one entry per set, in the order of first rows; raise for targets that vary within a set."""
        result = _merge_runs(self._tables)
        columns = [
            _infer_values(result[name], name in self._inferred, self._decimal, is_id=name == self._keys[0])
            for name in self._keys
        ]
        result = pa.table([*columns, result[ROWS], result[FIRST]], result.column_names)
        result = result if self._inferred.isdisjoint(self._keys) else _merge_runs([result])
        numbered = pc.dictionary_encode(result[0].combine_chunks())
        if len(result) > len(numbered.dictionary):
            targets = {name: result[name] for name in self._keys[1:]}
            raise _varying_target_error(targets, numbered, result[FIRST], self.files)
        return result


def _entries(runs: pa.Table, counts: Any, starts: Any) -> pa.Table:
    counted = pa.array(np.broadcast_to(counts, len(runs)), pa.int64())
    first = pa.array(np.broadcast_to(starts, len(runs)), pa.int64())
    return runs.append_column(ROWS, counted).append_column(FIRST, first)


def _merge_runs(parts: list[pa.Table]) -> pa.Table:
    """Merge entries with equal ids and targets, in the order of first rows; the input has this order too."""
    table = pa.concat_tables(parts)
    keys = table.column_names[:-2]
    for i, name in enumerate(keys):
        if pa.types.is_floating(table[name].type):  # NaN counts as null
            table = table.set_column(i, name, pc.if_else(pc.is_nan(table[name]), None, table[name]))
    numbered = pc.dictionary_encode(table[keys[0]].combine_chunks())
    codes, n_sets = numbered.indices.to_numpy(), len(numbered.dictionary)
    firsts = _first_indices(codes, n_sets)
    if all(_is_constant(table[name].combine_chunks(), firsts, codes) for name in keys[1:]):
        counts = np.bincount(codes, table[ROWS].to_numpy(), n_sets).astype(np.int64)
        return table.take(pa.array(firsts)).set_column(len(keys), ROWS, pa.array(counts))
    result = table.group_by(keys).aggregate([(ROWS, "sum"), (FIRST, "min")])
    return result.rename_columns([*keys, ROWS, FIRST]).sort_by(FIRST)


def _first_indices(codes: I64, n_sets: int) -> I64:
    """Return the first position of each code."""
    firsts = np.empty(n_sets, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    return firsts


def _is_constant(column: Any, firsts: I64, codes: I64) -> bool:
    """Whether each value equals the first value with the same code."""
    expected = column.take(pa.array(firsts)).take(pa.array(codes))
    is_equal = pc.fill_null(pc.equal(column, expected), pc.and_(pc.is_null(column), pc.is_null(expected)))
    return bool(pc.all(is_equal, min_count=0).as_py())


def _infer_values(column: Any, as_text: bool, decimal: str, *, is_id: bool) -> Any:
    """Return a column with its inferred type; integer ids become int64."""
    if as_text:
        return infer_ids(column) if is_id else infer_values(column, decimal=decimal)
    if is_id and pa.types.is_integer(column.type) and column.type != pa.uint64():
        return column.cast(pa.int64())
    return column


def _require_ids(piece: Piece, ids: Any, rows: I64) -> None:
    """Raise for runs without an id; ``rows`` are the first rows of the runs in the piece."""
    missing = pc.is_null(ids)
    if pa.types.is_string(ids.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), True))
    if pc.any(missing).as_py():
        row_name = piece.row_name(int(rows[np.argmax(missing.to_numpy())]))
        raise TableValueError(
            f"column {piece.batch.schema.names[0]!r} has no value in {row_name}. Every row needs an id. "
            f"{MISSING_VALUES_HINT}"
        )


def decode_dictionary(column: Any) -> Any:
    """Return a column without dictionary encoding."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def starts_of_runs(column: Any) -> NDArray[np.bool_]:
    """Return a mask (n,) of the first value and of values that differ from the previous one."""
    column = column.indices if pa.types.is_dictionary(column.type) else column
    if pa.types.is_primitive(column.type) and not column.null_count and column.type != pa.bool_():
        values, begins = column.to_numpy(), np.ones(len(column), bool)
        np.not_equal(values[1:], values[:-1], out=begins[1:])
        return begins
    differs = pc.not_equal(column[1:], column[:-1])
    if differs.null_count:
        differs = pc.fill_null(differs, True)
    return np.concatenate([[True], differs.to_numpy(zero_copy_only=False)])


def _varying_target_error(
    targets: dict[str, Any], numbered: Any, first: Any, files: list[tuple[int, str]]
) -> TableValueError:
    """Return the error for the first row whose target differs from earlier rows of its set."""
    codes = numbered.indices.to_numpy()
    firsts = _first_indices(codes, len(numbered.dictionary))[codes]
    entry = int(np.argmax(firsts != np.arange(len(codes))))
    before = int(firsts[entry])
    values = {name: [column[e].as_py() for e in (before, entry)] for name, column in targets.items()}
    name, differing = next((name, pair) for name, pair in values.items() if pair[0] != pair[1])
    row = first[entry].as_py()
    start, file = max(pair for pair in files if pair[0] <= row)
    first_value, second_value = ("missing" if value is None else repr(value) for value in differing)
    set_id = numbered.dictionary[int(codes[entry])].as_py()
    return TableValueError(
        f"target {name!r} is {first_value} and then {second_value} within set {set_id} (row {row - start + 1} of "
        f"{file}). A target must have one value per set. Repair the table, or use the column as a coordinate"
    )


def _missing_target_error(label: str, targets: dict[str, Any], ids: Any) -> TableValueError:
    name, column = next((n, c) for n, c in targets.items() if c.null_count)
    missing_ids = [repr(set_id) for set_id in ids.filter(pc.is_null(column).combine_chunks()).to_pylist()]
    more = ", ..." if len(missing_ids) > MAX_NAMED_SETS else ""
    return TableValueError(
        f"target {name!r} is missing for {len(missing_ids)} of {len(ids)} sets of {label}: "
        f"{', '.join(missing_ids[:MAX_NAMED_SETS])}{more}. Fill it in, or drop these sets (missing_targets='drop', "
        "--missing-targets drop)."
    )


def _array(column: Any) -> NDArray[Any]:
    """Convert a column without missing values to NumPy."""
    values = np.asarray(
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )
    return values.astype(np.str_) if pa.types.is_string(column.type) else values
