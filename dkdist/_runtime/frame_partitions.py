"""Dask DataFrames: their partitions in memory, one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

from dask.system import CPU_COUNT

from dkdist._runtime.process import keep_freed_memory
from dkdist._runtime.run import active_client, n_concurrent_blocks
from dkdist._utils.concurrency import Crew
from dkdist.sets import SampleSetError

BATCH_ROWS = 2**18  # at once: few enough to stay in a cache, and many beside what a batch costs
BUFFER_BYTES = 2**18  # of a column that are read at once, into memory that serves again


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
        wanted = set(columns)  # in the order of the files: Dask says of no other that it only reads
        self._columns, self._set_id = [name for name in frame.columns if name in wanted], set_id
        self._chosen = frame[self._columns]
        here = active_client() is None and set_id in self._columns
        self._files = find_parquet_parts(self._chosen) if here else None

    @property
    def at_once(self) -> int:
        """How many are made at once. Those that pyarrow reads here wait for nobody: a thread a core, none to spare."""
        return n_concurrent_blocks() if self._files is None else min(n_concurrent_blocks(), CPU_COUNT)

    def crew(self) -> AbstractContextManager[Crew | None]:
        """Threads, one a core, to make partitions and do other work; none where whoever makes them waits for others."""
        return nullcontext() if self._files is None else closing(Crew(CPU_COUNT))

    @cached_property
    def _delayed(self) -> Any:
        return self._chosen.to_delayed()

    def first_with_rows(self) -> tuple[int, Any]:
        """The first partition that has rows; the last one, if none has."""
        for number in range(self._chosen.npartitions):
            if self._files is not None:
                piece = self._table(number, use_threads=True)  # nobody else is at work
            else:
                piece = self._chosen.partitions[number].compute()
            if len(piece):
                break
        return number, piece

    def __getitem__(self, number: int) -> Any:
        return self._delayed[number].compute() if self._files is None else self._table(number)

    def _table(self, number: int, *, use_threads: bool = False) -> Any:
        """What pyarrow reads of a partition."""
        import pyarrow as pa

        tables = []
        for part in self._parts(number):
            with self._opened(part) as (file, groups):
                tables.append(file.read_row_groups(groups, columns=self._columns, use_threads=use_threads))
        return pa.concat_tables(tables)

    def batches(self, number: int) -> tuple[int, Iterator[Any]] | None:
        """The number of rows of a partition, and they themselves, some at a time; None if it is not read here."""
        if self._files is None:
            return None
        n_rows = 0
        for part in self._parts(number):
            with self._opened(part) as (file, groups):
                n_rows += sum(file.metadata.row_group(group).num_rows for group in groups)
        return n_rows, self._batches(number)

    def _batches(self, number: int) -> Iterator[Any]:
        for part in self._parts(number):
            with self._opened(part) as (file, groups):
                yield from file.iter_batches(BATCH_ROWS, groups, self._columns, use_threads=False)

    def _parts(self, number: int) -> list[FilePart]:
        assert self._files is not None
        return self._files[number]

    @contextmanager
    def _opened(self, part: FilePart) -> Iterator[tuple[Any, list[int]]]:
        """A file of a partition, and which row groups of it; SampleSetError with its path if it cannot be read."""
        import pyarrow as pa
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(
                part.path,
                read_dictionary=[self._set_id],
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file:
                there = file.schema_arrow.names
                missing = [name for name in self._columns if name not in there]
                if missing:  # which pyarrow would leave out without a word
                    raise SampleSetError(
                        f"{part.path} has no column {missing[0]!r}, and the frame has: write its files anew"
                    )
                yield file, list(range(file.num_row_groups)) if part.groups is None else part.groups
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # whose words name the path
                raise
            raise SampleSetError(
                f"{part.path} cannot be read: {str(error).strip()}. Write it again"
            ) from error


class FilePart(NamedTuple):
    """Row groups of a Parquet file; all of them for None."""

    path: str
    groups: list[int] | None


def find_parquet_parts(frame: Any) -> list[list[FilePart]] | None:
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
        if asked.pop("kwargs") != {"dtype_backend": None} or any(map(_is_set, asked.values())):
            return None
        pieces = [part if isinstance(part, list) else [part] for part in expr._plan["parts"]]
        parts = [[_file_part(*one["piece"]) for one in some] for some in pieces]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return parts if all(os.path.isfile(part.path) for some in parts for part in some) else None


def _is_set(asked: Any) -> bool:
    return asked is not None and asked is not False and asked != []


def _file_part(path: str, groups: Any, keys: Any) -> FilePart:
    if keys:
        raise ValueError("columns that are names of folders")
    return FilePart(path, None if groups in (None, [None]) else [int(group) for group in groups])
