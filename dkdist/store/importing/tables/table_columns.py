"""Which columns of a table mean what: coordinates, weight, set id, targets; and what is left out, said in one line."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dkdist.store.importing.tables.table_source import Piece, TableSource

WRITTEN_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # how pandas calls the index that it writes
INDEX = "index"
TOLD = 12  # names that a message shows


class Chosen(NamedTuple):
    """Names of the coordinates, and of each column that is left out, why."""

    points: tuple[str, ...]
    left_out: dict[str, str]

    def told(self) -> str:
        """What was taken and left out, in one line."""
        said = f"points: {_listed(list(self.points))}"
        left = [f"{name or 'the unnamed column'} ({why})" for name, why in self.left_out.items()]
        return f"{said}; left out: {_listed(left)}" if left else said


def chosen_columns(source: TableSource, columns: Any) -> Chosen:
    """The coordinates that are named, or all numbers that are nothing else and no index that pandas wrote."""
    weight = () if columns.weight is None else (columns.weight,)
    named = [columns.set_id, *columns.targets, *weight]
    _require_there(source, [*(columns.points or ()), *named, *columns.text])
    rest = [name for name in source.schema.names if name not in named]
    if columns.points is not None:
        chosen, left = list(columns.points), {}
    else:
        why = {name: source.others.get(name) or _why(name, columns.text) for name in rest}
        chosen = [name for name in rest if not why[name]]
        left = {name: reason for name, reason in why.items() if reason}
    if not chosen:
        raise ValueError(f"{source.label} has no numeric columns left to be coordinates: name some as points")
    problems = [
        f"column {name!r} of {source.label} holds {source.others.get(name, 'text')}: expected numbers"
        for name in [*chosen, *weight]
        if name not in source.numeric
    ]
    problems += filter(None, (_unkept(source, name) for name in named[: 1 + len(columns.targets)]))
    if problems:
        raise ValueError("; ".join(problems))
    return Chosen(tuple(chosen), left)


def _why(name: str, text: Any) -> str:
    """Why a column of numbers is no coordinate, unless it is named as one."""
    return "an index" if WRITTEN_INDEX.fullmatch(name) else "text" if name in text else ""


def _require_there(source: TableSource, names: list[str]) -> None:
    missing = [repr(name) for name in dict.fromkeys(names) if name not in source.schema.names]
    if missing:
        raise ValueError(
            f"{source.label} has no column {', '.join(missing)}; it has {', '.join(source.schema.names)}"
            f"{source.advice()}"
        )


def _unkept(source: TableSource, name: str) -> str | None:
    """Why an id or a target has a type that no store keeps; None if one does."""
    kind = source.schema.field(name).type
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numbers and not pa.types.is_string(kind):
        return f"column {name!r} of {source.label} has type {kind}: expected numbers, booleans or text. Convert it"
    return None


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"{', '.join(names[:TOLD])}{more}"


class IndexSums:
    """Whether a column counts rows: whole numbers that add up, and whose squares do, as 0 to n - 1 in any order.

    It may count the rows of the table, or those of each file. Sums are taken modulo 2^64.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}
        self._whole = True

    def add(self, piece: Piece) -> None:
        """Look at some rows."""
        values = piece.whole.column(INDEX).to_numpy(zero_copy_only=False)
        if not self._whole or (values.dtype.kind == "f" and not (values == np.rint(values)).all()):
            self._whole = False
            return
        counted = values.astype(np.int64).astype(np.uint64)
        sums = self._sums.setdefault(piece.file, [0, 0, 0])
        for i, added in enumerate((len(counted), counted.sum(), np.dot(counted, counted))):
            sums[i] = (sums[i] + int(added)) % 2**64

    def is_index(self) -> bool:
        """Whether all that was seen fits."""
        total = [sum(parts) % 2**64 for parts in zip(*self._sums.values(), strict=True)]
        return self._whole and bool(total) and (_counts(total) or all(map(_counts, self._sums.values())))


def _counts(sums: list[int]) -> bool:
    n = sums[0]
    return sums[1:] == [n * (n - 1) // 2 % 2**64, (n - 1) * n * (2 * n - 1) // 6 % 2**64]
