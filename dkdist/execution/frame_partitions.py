"""Dask DataFrames: their partitions in memory, one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from dkdist.execution.processes.process import keep_freed_memory
from dkdist.execution.run import active_client


def is_dask_frame(frame: Any) -> bool:
    """Whether this is a Dask DataFrame; dask.dataframe is not imported to find out."""
    ours = type(frame).__module__.partition(".")[0] in ("dask", "dask_expr")
    return ours and type(frame).__name__ == "DataFrame"


class Partitions:
    """Some columns of each partition of a frame: made by the active client's cluster, or this machine's threads.

    If the frame does no more than to read Parquet files of this machine, and there is no client, pyarrow reads them
    here: the same rows, as a table, whose ids come as numbers of the values in a dictionary.
    """

    def __init__(self, frame: Any, columns: Sequence[str], set_id: str) -> None:
        keep_freed_memory()
        self._columns, self._set_id = list(columns), set_id
        self._chosen = frame[self._columns]
        here = active_client() is None and set_id in self._columns
        self._files = parquet_parts(self._chosen) if here else None

    @cached_property
    def _delayed(self) -> Any:
        return self._chosen.to_delayed()

    def first_with_rows(self) -> tuple[int, Any]:
        """The first partition that has rows; the last one, if none has."""
        for number in range(self._chosen.npartitions):
            piece = self[number] if self._files is not None else self._chosen.partitions[number].compute()
            if len(piece):
                break
        return number, piece

    def __getitem__(self, number: int) -> Any:
        if self._files is None:
            return self._delayed[number].compute()
        import pyarrow as pa
        import pyarrow.parquet

        tables = []
        for path, groups in self._files[number]:
            with pyarrow.parquet.ParquetFile(path, read_dictionary=[self._set_id]) as file:
                rows = range(file.num_row_groups) if groups is None else groups
                tables.append(file.read_row_groups(list(rows), columns=self._columns, use_threads=False))
        return pa.concat_tables(tables)


class FilePart(NamedTuple):
    """Row groups of a Parquet file; all of them for None."""

    path: str
    groups: list[int] | None


def parquet_parts(frame: Any) -> list[list[FilePart]] | None:
    """What each partition of a frame reads, if it reads local Parquet files as they are; None for any other frame.

    Dask does not say so in its public interface: where another version keeps it elsewhere, the frame is computed.
    """
    expr = frame.optimize(fuse=False).expr
    if type(expr).__name__ != "ReadParquetFSSpec":
        return None
    try:
        asked = {
            name: expr.operand(name) for name in ("filters", "categories", "kwargs", "_partitions", "_series")
        }
        if asked.pop("kwargs") != {"dtype_backend": None} or any(map(_is_given, asked.values())):
            return None
        pieces = [part if isinstance(part, list) else [part] for part in expr._plan["parts"]]
        parts = [[_file_part(*one["piece"]) for one in some] for some in pieces]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return parts if all(os.path.isfile(part.path) for some in parts for part in some) else None


def _is_given(asked: Any) -> bool:
    return asked is not None and asked is not False and asked != []


def _file_part(path: str, groups: Any, keys: Any) -> FilePart:
    if keys:
        raise ValueError("columns that are names of folders")
    return FilePart(path, None if groups in (None, [None]) else [int(group) for group in groups])
