"""Dask DataFrames: their partitions, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dkdist.plain.ahead import ahead


def is_dask_frame(frame: Any) -> bool:
    """Whether this is a Dask DataFrame; dask.dataframe is not imported to find out."""
    return type(frame).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(frame, "partitions")


def first_partition(frame: Any) -> Any:
    """The first partition, in memory."""
    return frame.partitions[0].compute()


def partitions(frame: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Some columns of each partition in turn, in memory, on the active client's cluster or this machine's threads.

    The next one is computed while the last one is used.
    """
    chosen = frame[list(columns)]
    return ahead(chosen.partitions[i].compute() for i in range(chosen.npartitions))
