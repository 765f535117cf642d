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

from dkdist.loops.array_types import I64, Array
from dkdist.store.importing.tables.table_columns import INDEX, IndexSums
from dkdist.store.importing.tables.table_source import Piece, TableSource
from dkdist.store.importing.tables.text_values import ids_of, values_of

MOST_ENTRIES = 2**21
NAMED = 5  # sets that a message names
ROWS, FIRST = "number of rows", "first row"


class SetIndex(NamedTuple):
    """The sets of a table, in their order in the store; ``sizes`` without those that were dropped.

    ``in_order`` says that the rows of the table are in that order too; ``runs`` are then the sizes of all sets and
    which of them were kept. ``counts_rows`` says that the column called index does nothing else.
    """

    ids: Array
    sizes: I64
    targets: dict[str, Array]
    in_order: bool
    runs: tuple[I64, NDArray[np.bool_]]
    counts_rows: bool


def index_of(source: TableSource, columns: Any, *, look_at_index: bool) -> SetIndex:
    """Read ids and targets. Refuses rows without an id, and targets that vary within a set or (unless dropped) miss."""
    keys = [columns.set_id, *columns.targets]
    entries, n_runs, sums, files = _read(source, keys, source.as_text - set(columns.text), look_at_index)
    ids = entries[0].combine_chunks()
    numbered = pc.dictionary_encode(ids)
    codes = numbered.indices.to_numpy()
    targets = {name: entries[name] for name in columns.targets}
    if len(codes) > len(numbered.dictionary):
        raise _varying(columns.set_id, targets, codes, numbered.dictionary, entries[FIRST], files)
    missing = np.zeros(len(codes), bool)
    for column in targets.values():
        missing |= pc.is_null(column).to_numpy()
    if missing.any() and columns.missing_targets == "raise":
        raise _missing(source.label, targets, ids)
    sizes = entries[ROWS].to_numpy()
    order = pc.sort_indices(ids).to_numpy() if columns.sort else np.arange(len(ids))
    moved = bool((np.diff(order.astype(np.int64)) < 0).any())
    kept = order[~missing[order]]
    return SetIndex(
        _array(ids.take(pa.array(kept))),
        sizes[kept],
        {name: _array(column.take(pa.array(kept))) for name, column in targets.items()},
        n_runs == len(ids) and not moved,
        (sizes, ~missing),
        sums is not None and sums.is_index(),
    )


def _read(
    source: TableSource, keys: Sequence[str], meant: set[str], look_at_index: bool
) -> tuple[pa.Table, int, IndexSums | None, list[tuple[int, str]]]:
    """(entries in the order of their first rows, runs of ids, sums of the column called index, where files begin)."""
    names = list(dict.fromkeys(keys))
    sums = IndexSums() if look_at_index else None
    held, files = [_entries(source.schema.empty_table().select(names), 0, 0)], list[tuple[int, str]]()
    n_held = n_runs = 0
    last: Any = None
    for piece in source.pieces([*names, INDEX] if look_at_index else names):
        if piece.row == 1:
            files.append((piece.start, piece.file))
        if sums is not None:
            sums.add(piece)
        begins = begins_of(piece.batch.column(names[0]))
        first = piece.batch.column(names[0])[0]
        n_runs += int(begins.sum()) - (last is not None and first.equals(last))
        last = piece.batch.column(names[0])[-1]
        for name in names[1:]:
            begins |= begins_of(piece.batch.column(name))
        starts = np.flatnonzero(begins)
        runs = pa.Table.from_batches([piece.batch.select(names).take(pa.array(starts))])
        _require_ids(piece, runs[names[0]], starts)
        held.append(_entries(runs, np.diff(np.append(starts, len(begins))), starts + piece.start))
        n_held += len(starts)
        if n_held > MOST_ENTRIES:
            held = [_joined(held)]
            n_held = 0
    entries = _joined(held)
    settled = [_settled(entries[name], name in meant, is_id=name == names[0]) for name in names]
    entries = pa.table([*settled, entries[ROWS], entries[FIRST]], [*names, ROWS, FIRST])
    return entries if meant.isdisjoint(names) else _joined([entries]), n_runs, sums, files


def _entries(runs: pa.Table, counts: Any, starts: Any) -> pa.Table:
    counted = pa.array(np.broadcast_to(counts, len(runs)), pa.int64())
    first = pa.array(np.broadcast_to(starts, len(runs)), pa.int64())
    return runs.append_column(ROWS, counted).append_column(FIRST, first)


def _joined(parts: list[pa.Table]) -> pa.Table:
    """One entry for all that agree in ids and targets, in the order of their first rows, in which they are given."""
    whole = pa.concat_tables(parts)
    keys = whole.column_names[:-2]
    for i, name in enumerate(keys):
        if pa.types.is_floating(whole[name].type):  # one kind of missing
            whole = whole.set_column(i, name, pc.if_else(pc.is_nan(whole[name]), None, whole[name]))
    numbered = pc.dictionary_encode(whole[keys[0]].combine_chunks())
    codes, n_sets = numbered.indices.to_numpy(), len(numbered.dictionary)
    firsts = np.empty(n_sets, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    if all(_constant(whole[name].combine_chunks(), firsts, codes) for name in keys[1:]):
        counts = np.bincount(codes, whole[ROWS].to_numpy(), n_sets).astype(np.int64)
        return whole.take(pa.array(firsts)).set_column(len(keys), ROWS, pa.array(counts))
    found = whole.group_by(keys).aggregate([(ROWS, "sum"), (FIRST, "min")])
    return found.rename_columns([*keys, ROWS, FIRST]).sort_by(FIRST)


def _constant(column: Any, firsts: I64, codes: I64) -> bool:
    """Whether all values are those that come first for their code."""
    expected = column.take(pa.array(firsts)).take(pa.array(codes))
    same = pc.fill_null(pc.equal(column, expected), pc.and_(pc.is_null(column), pc.is_null(expected)))
    return bool(pc.all(same, min_count=0).as_py())


def _settled(column: Any, as_text: bool, *, is_id: bool) -> Any:
    """What a column means: its text by the rule of text, whole ids in 64 bits."""
    if as_text:
        return (ids_of if is_id else values_of)(column)
    if is_id and pa.types.is_integer(column.type) and column.type != pa.uint64():
        return column.cast(pa.int64())
    return column


def _require_ids(piece: Piece, ids: Any, rows: I64) -> None:
    """Refuse runs of rows without an id; ``rows`` are their first ones in the piece."""
    missing = pc.is_null(ids)
    if pa.types.is_string(ids.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), True))
    if pc.any(missing).as_py():
        row = piece.row + int(rows[np.argmax(missing.to_numpy())])
        raise ValueError(
            f"column {piece.batch.schema.names[0]!r} has no value in row {row} of {piece.file}: every point belongs to "
            "a set. Remove such rows or fill them in"
        )


def begins_of(column: Any) -> NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
    differs = pc.not_equal(column[1:], column[:-1])
    if differs.null_count:
        differs = pc.fill_null(differs, True)
    return np.concatenate([[True], differs.to_numpy(zero_copy_only=False)])


def _varying(
    set_id: str, targets: dict[str, Any], codes: I64, ids: Any, first: Any, files: list[tuple[int, str]]
) -> ValueError:
    """The first row at which a set has another target than before, in words."""
    entry = next(e for e in range(len(codes)) if (codes[:e] == codes[e]).any())
    before = int(np.argmax(codes == codes[entry]))
    values = {name: [column[e].as_py() for e in (before, entry)] for name, column in targets.items()}
    name, found = next((name, pair) for name, pair in values.items() if pair[0] != pair[1])
    row = first[entry].as_py()
    start, file = max(pair for pair in files if pair[0] <= row)
    told = ["missing" if value is None else repr(value) for value in found]
    return ValueError(
        f"target {name!r} is {told[0]} and then {told[1]} within set {ids[int(codes[entry])].as_py()} (row "
        f"{row - start + 1} of {file}): a target has one value a set. Repair the table, or make it a coordinate"
    )


def _missing(label: str, targets: dict[str, Any], ids: Any) -> ValueError:
    name, column = next((n, c) for n, c in targets.items() if c.null_count)
    found = [repr(one) for one in ids.filter(pc.is_null(column).combine_chunks()).to_pylist()]
    more = ", ..." if len(found) > NAMED else ""
    return ValueError(
        f"target {name!r} is missing for {len(found)} of the {len(ids)} sets of {label}: {', '.join(found[:NAMED])}"
        f"{more}. Fill it in, or leave these sets out (missing_targets='drop', --missing-targets drop)"
    )


def _array(column: Any) -> NDArray[Any]:
    """A column without missing values as NumPy keeps it."""
    values = np.asarray(
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )
    return values.astype(np.str_) if pa.types.is_string(column.type) else values
