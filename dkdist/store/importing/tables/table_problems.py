"""All problems of the values of a table in one error, for which the whole table is read once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dkdist.store.importing.tables.set_index import FILL_IN, index_of
from dkdist.store.importing.tables.table_source import TableSource, TableValueError, missing_values

LARGEST = float(np.finfo(np.float32).max)
NO_VALUE, NOT_FINITE = "has no value", "is not a finite number (of 32 bits)"


def refused_values(where: str, name: str, n_rows: int, what: str) -> str:
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
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for piece in source.pieces([columns.set_id, *numbers], required=required):
        for name in [columns.set_id, *numbers]:
            column = piece.batch.column(name)
            empty = missing_values(column) if name == columns.set_id else np.asarray(column.is_null())
            rows = {NO_VALUE: empty}
            if name != columns.set_id:
                values = column.to_numpy(zero_copy_only=False).astype(np.float64)
                rows[NOT_FINITE] = ~empty & ~(np.abs(values) <= LARGEST)
            for what, bad in rows.items():
                if bad.any():
                    where, count = found.get((name, what), (piece.row_name(int(np.argmax(bad))), 0))
                    found[name, what] = where, count + int(bad.sum())
    texts = [refused_values(where, name, n, what) for (name, what), (where, n) in found.items()]
    return [*texts[:-1], f"{texts[-1]}. {FILL_IN}"] if texts else []


def _target_problems(source: TableSource, columns: Any, required: Sequence[str]) -> list[str]:
    """What is wrong with each target, among the rows that have an id."""
    problems = []
    for name in columns.targets:
        try:
            index_of(source, replace(columns, targets=(name,)), required=[columns.set_id, *required])
        except TableValueError as error:
            problems.append(str(error))
    return problems
