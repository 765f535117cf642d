"""One small result for every block, in order: surveys of a collection, predictions, rows written to a store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dask._task_spec import GraphNode
from dask.typing import Key

from dkdist.execution.blocks import Blocks
from dkdist.execution.fold import SEGMENT, Recipes, make_task
from dkdist.execution.progress import Progress
from dkdist.execution.run import run


def collect(
    blocks: Blocks,
    function: Callable[[Any, Any], Any],
    extras: Sequence[Any] | None = None,
    *,
    only: Sequence[int] | None = None,
    label: str = "map",
    progress: Progress | None = None,
    on_segment: Callable[[int], None] | None = None,
) -> list[Any]:
    """``[function(block, extra) for every block]``; a block lives only as long as its own task runs."""
    which = list(range(len(blocks))) if only is None else list(only)
    results: list[Any] = []
    for start in range(0, len(which), SEGMENT):
        segment = which[start : start + SEGMENT]
        name = f"{label}-{uuid.uuid4().hex}"
        graph: dict[Key, GraphNode] = dict(blocks.shared)
        for i in segment:
            extra = (function, None if extras is None else extras[i])
            graph[(name, i)] = make_task((name, i), _apply, Recipes((blocks.recipes[i],)), extra)
        results += run(graph, [(name, i) for i in segment], local=blocks.local)
        if progress is not None:
            progress.advance(len(segment))
        if on_segment is not None:
            on_segment(start + len(segment))
    return results


def _apply(made: Iterator[Any], extra: tuple[Callable[[Any, Any], Any], Any]) -> Any:
    function, rest = extra
    return function(next(made), rest)
