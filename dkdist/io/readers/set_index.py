"""The first reading of a table: which sets are in it, how large they are, and their targets.

Only the columns of ids and targets are read. Neighbouring rows that agree in all of them are a run; what is held is
one entry a run, joined (one entry for equal ones) whenever there are many.
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
    """The sets of a table, in their order in the store; ``sizes`` without those that were dropped.

    ``in_order`` says that the rows of the table are in that order too; ``runs`` are then the sizes of all sets and
    which of them were kept. ``counts_rows`` says that the column called index does nothing else. ``dropped_rows``
    counts rows without a required value.
    """

    ids: Array
    sizes: I64
    targets: dict[str, Array]
    in_order: bool
    runs: tuple[I64, NDArray[np.bool_]]
    counts_rows: bool
    dropped_rows: int


def build_set_index(
    source: TableSource, columns: Any, *, look_at_index: bool = False, required: Sequence[str] = ()
) -> SetIndex:
    """Read ids and targets. Refuses rows without an id, and targets that vary within a set or (unless dropped) miss."""
    tally = _RunCollector(source, columns, look_at_index)
    for piece in source.pieces(tally.needed, PIECE_ROWS, required):
        tally.add(piece)
    entries = tally.entries()
    ids, targets = entries[0].combine_chunks(), {name: entries[name] for name in columns.targets}
    missing = np.zeros(len(ids), bool)
    for column in targets.values():
        missing |= pc.is_null(column).to_numpy()
    if missing.any() and columns.missing_targets == "raise":
        raise _missing_target_error(source.label, targets, ids)
    order = pc.sort_indices(ids).to_numpy().astype(np.int64) if columns.sort else np.arange(len(ids))
    kept, sizes = order[~missing[order]], entries[ROWS].to_numpy()
    return SetIndex(
        _array(ids.take(pa.array(kept))),
        sizes[kept],
        {name: _array(column.take(pa.array(kept))) for name, column in targets.items()},
        tally.n_runs == len(ids) and not (np.diff(order) < 0).any(),
        (sizes, ~missing),
        tally.sums is not None and tally.sums.is_index(),
        tally.n_dropped,
    )


class _RunCollector:
    """What was read so far: the entries, how many runs of ids there were, and where files begin.

    ``sums`` are those of the column called index, if it is looked at.
    """

    def __init__(self, source: TableSource, columns: Any, look_at_index: bool) -> None:
        self._keys = list(dict.fromkeys([columns.set_id, *columns.targets]))
        self._decimal = source.decimal
        self._meant = source.as_text - set(columns.text)
        self.needed = [*self._keys, INDEX] if look_at_index else self._keys
        self.sums = IndexDetector() if look_at_index else None
        self.files: list[tuple[int, str]] = []
        self.n_runs = self.n_dropped = 0
        self._held = [_entries(source.schema.empty_table().select(self._keys), 0, 0)]
        self._n_held = 0
        self._last: Any = None

    def add(self, piece: Piece) -> None:
        """Take the next rows."""
        if not self.files or self.files[-1][1] != piece.file:
            self.files.append((piece.offset - piece.row + 1, piece.file))
        self.n_dropped += len(piece.whole) - len(piece.batch)
        if self.sums is not None:
            self.sums.add(piece)
        ids, *targets = (piece.batch.column(name) for name in self._keys)
        begins = starts_of_runs(ids)
        self.n_runs += int(begins.sum()) - (piece.start > 0 and ids[0].as_py() == self._last)
        self._last = ids[-1].as_py()
        for column in targets:
            begins |= starts_of_runs(column)
        starts = np.flatnonzero(begins)
        runs = piece.batch.select(self._keys).take(pa.array(starts))
        runs = pa.table([decode_dictionary(column) for column in runs.columns], self._keys)
        _require_ids(piece, runs[0], starts)
        places = starts if piece.kept is None else piece.kept[starts]
        self._hold(_entries(runs, np.diff(np.append(starts, len(begins))), places + piece.offset))

    def _hold(self, entries: pa.Table) -> None:
        self._held.append(entries)
        self._n_held += len(entries)
        if self._n_held > MAX_HELD_RUNS:
            self._held, self._n_held = [_merge_runs(self._held)], 0
            if len(self._held[0]) > MAX_HELD_RUNS:
                self.entries()  # targets that vary are refused before they fill the memory

    def entries(self) -> pa.Table:
        """One entry a set, in the order of their first rows; refuses targets that vary within a set."""
        result = _merge_runs(self._held)
        settled = [
            _infer_values(result[name], name in self._meant, self._decimal, is_id=name == self._keys[0])
            for name in self._keys
        ]
        result = pa.table([*settled, result[ROWS], result[FIRST]], result.column_names)
        result = result if self._meant.isdisjoint(self._keys) else _merge_runs([result])
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
    """One entry for all that agree in ids and targets, in the order of their first rows, in which they are given."""
    whole = pa.concat_tables(parts)
    keys = whole.column_names[:-2]
    for i, name in enumerate(keys):
        if pa.types.is_floating(whole[name].type):  # one kind of missing
            whole = whole.set_column(i, name, pc.if_else(pc.is_nan(whole[name]), None, whole[name]))
    numbered = pc.dictionary_encode(whole[keys[0]].combine_chunks())
    codes, n_sets = numbered.indices.to_numpy(), len(numbered.dictionary)
    firsts = _first_indices(codes, n_sets)
    if all(_is_constant(whole[name].combine_chunks(), firsts, codes) for name in keys[1:]):
        counts = np.bincount(codes, whole[ROWS].to_numpy(), n_sets).astype(np.int64)
        return whole.take(pa.array(firsts)).set_column(len(keys), ROWS, pa.array(counts))
    result = whole.group_by(keys).aggregate([(ROWS, "sum"), (FIRST, "min")])
    return result.rename_columns([*keys, ROWS, FIRST]).sort_by(FIRST)


def _first_indices(codes: I64, n_sets: int) -> I64:
    """Where each code comes first."""
    firsts = np.empty(n_sets, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    return firsts


def _is_constant(column: Any, firsts: I64, codes: I64) -> bool:
    """Whether all values are those that come first for their code."""
    expected = column.take(pa.array(firsts)).take(pa.array(codes))
    same = pc.fill_null(pc.equal(column, expected), pc.and_(pc.is_null(column), pc.is_null(expected)))
    return bool(pc.all(same, min_count=0).as_py())


def _infer_values(column: Any, as_text: bool, decimal: str, *, is_id: bool) -> Any:
    """What a column means: its text by the rule of text, whole ids in 64 bits."""
    if as_text:
        return infer_ids(column) if is_id else infer_values(column, decimal=decimal)
    if is_id and pa.types.is_integer(column.type) and column.type != pa.uint64():
        return column.cast(pa.int64())
    return column


def _require_ids(piece: Piece, ids: Any, rows: I64) -> None:
    """Refuse runs of rows without an id; ``rows`` are their first ones in the piece."""
    missing = pc.is_null(ids)
    if pa.types.is_string(ids.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), True))
    if pc.any(missing).as_py():
        where = piece.row_name(int(rows[np.argmax(missing.to_numpy())]))
        raise TableValueError(
            f"column {piece.batch.schema.names[0]!r} has no value in {where}. Every row needs an id. "
            f"{MISSING_VALUES_HINT}"
        )


def decode_dictionary(column: Any) -> Any:
    """A column whose values are no numbers in a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def starts_of_runs(column: Any) -> NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
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
    """The first row at which a set has another target than before, in words."""
    codes = numbered.indices.to_numpy()
    firsts = _first_indices(codes, len(numbered.dictionary))[codes]
    entry = int(np.argmax(firsts != np.arange(len(codes))))
    before = int(firsts[entry])
    values = {name: [column[e].as_py() for e in (before, entry)] for name, column in targets.items()}
    name, result = next((name, pair) for name, pair in values.items() if pair[0] != pair[1])
    row = first[entry].as_py()
    start, file = max(pair for pair in files if pair[0] <= row)
    message = ["missing" if value is None else repr(value) for value in result]
    one = numbered.dictionary[int(codes[entry])].as_py()
    return TableValueError(
        f"target {name!r} is {message[0]} and then {message[1]} within set {one} (row {row - start + 1} of "
        f"{file}): a target has one value a set. Repair the table, or make it a coordinate"
    )


def _missing_target_error(label: str, targets: dict[str, Any], ids: Any) -> TableValueError:
    name, column = next((n, c) for n, c in targets.items() if c.null_count)
    result = [repr(one) for one in ids.filter(pc.is_null(column).combine_chunks()).to_pylist()]
    more = ", ..." if len(result) > MAX_NAMED_SETS else ""
    return TableValueError(
        f"target {name!r} is missing for {len(result)} of {len(ids)} sets of {label}: "
        f"{', '.join(result[:MAX_NAMED_SETS])}{more}. Fill it in, or drop these sets (missing_targets='drop', "
        "--missing-targets drop)."
    )


def _array(column: Any) -> NDArray[Any]:
    """A column without missing values as NumPy keeps it."""
    values = np.asarray(
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )
    return values.astype(np.str_) if pa.types.is_string(column.type) else values
