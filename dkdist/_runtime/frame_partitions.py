"""Partitions of Dask DataFrames in memory, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

from dask.system import CPU_COUNT

from dkdist._runtime._tuning import BATCH_ROWS, BUFFER_BYTES
from dkdist._runtime.process import active_client, keep_freed_memory
from dkdist._runtime.run import n_concurrent_blocks
from dkdist._utils.concurrency import ThreadPool
from dkdist.sets import SampleSetError


def is_dask_frame(frame: Any) -> bool:
    """Return whether this is a Dask DataFrame, without importing dask.dataframe."""
    package = type(frame).__module__.partition(".")[0]
    return package in ("dask", "dask_expr") and type(frame).__name__ == "DataFrame"


class Partitions:
    """Columns of each partition of a Dask DataFrame, computed by the active client or threads of this machine.

    If the frame only reads local Parquet files and there is no client, pyarrow reads them in this process; the rows are
    equal, and ids are dictionary-encoded.
    """

    def __init__(self, frame: Any, columns: Sequence[str], set_id: str) -> None:
        keep_freed_memory()
        requested = set(columns)  # in file order, because Dask adds a step for any other order
        self._columns, self._set_id = [name for name in frame.columns if name in requested], set_id
        self._frame = frame[self._columns]
        is_local = active_client() is None and set_id in self._columns
        self._files = find_parquet_parts(self._frame) if is_local else None

    @property
    def n_concurrent(self) -> int:
        """Number of partitions computed concurrently; one per core if pyarrow reads them, without I/O threads."""
        return n_concurrent_blocks() if self._files is None else min(n_concurrent_blocks(), CPU_COUNT)

    def thread_pool(self) -> AbstractContextManager[ThreadPool | None]:
        """Return a pool of one thread per core, shared with other work; None if Dask computes the partitions."""
        return nullcontext() if self._files is None else closing(ThreadPool(CPU_COUNT))

    @cached_property
    def _delayed(self) -> Any:
        return self._frame.to_delayed()

    def first_with_rows(self) -> tuple[int, Any]:
        """Return the number and rows of the first partition with rows, or of the last one if all are empty."""
        for number in range(self._frame.npartitions):
            if self._files is not None:
                piece = self._table(number, use_threads=True)  # no other thread is active yet
            else:
                piece = self._frame.partitions[number].compute()
            if len(piece):
                break
        return number, piece

    def __getitem__(self, number: int) -> Any:
        return self._delayed[number].compute() if self._files is None else self._table(number)

    def _table(self, number: int, *, use_threads: bool = False) -> Any:
        """Return a partition that pyarrow reads."""
        import pyarrow as pa

        tables = []
        for part in self._parts(number):
            with self._opened(part) as (file, groups):
                tables.append(file.read_row_groups(groups, columns=self._columns, use_threads=use_threads))
        return pa.concat_tables(tables)

    def batches(self, number: int) -> tuple[int, Iterator[Any]] | None:
        """Return the number of rows of a partition and an iterator of batches; None if Dask computes it."""
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
        """Open a file of a partition; yield it and its row groups. SampleSetError names a file that cannot be read."""
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
                names = file.schema_arrow.names
                missing = [name for name in self._columns if name not in names]
                if missing:  # pyarrow would omit it silently
                    raise SampleSetError(
                        f"{part.path} has no column {missing[0]!r} of the frame. Write the files again."
                    )
                yield file, list(range(file.num_row_groups)) if part.groups is None else part.groups
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the message already names the path
                raise
            raise SampleSetError(
                f"{part.path} cannot be read: {str(error).strip()}. Write it again."
            ) from error


class FilePart(NamedTuple):
    """Row groups of a Parquet file; None for all."""

    path: str
    groups: list[int] | None


def find_parquet_parts(frame: Any) -> list[list[FilePart]] | None:
    """Return the files of each partition of a frame that only reads local Parquet files; None for other frames.

    This uses private attributes of Dask. If another version of Dask has other attributes, Dask computes the frame.
    """
    expr = frame.optimize(fuse=False).expr
    if type(expr).__name__ != "ReadParquetFSSpec":
        return None
    try:
        options = {
            name: expr.operand(name) for name in ("filters", "categories", "kwargs", "_partitions", "_series")
        }
        if options.pop("kwargs") != {"dtype_backend": None} or any(map(_is_set, options.values())):
            return None
        pieces = [part if isinstance(part, list) else [part] for part in expr._plan["parts"]]
        parts = [[_file_part(*part["piece"]) for part in piece] for piece in pieces]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return parts if all(os.path.isfile(part.path) for piece in parts for part in piece) else None


def _is_set(option: Any) -> bool:
    return option is not None and option is not False and option != []


def _file_part(path: str, groups: Any, keys: Any) -> FilePart:
    if keys:
        raise ValueError("partition columns are in folder names, not in the file")
    return FilePart(path, None if groups in (None, [None]) else [int(group) for group in groups])
