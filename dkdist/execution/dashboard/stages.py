"""What a cluster's dashboard calls a run: a span ("dkdist", what) for it, and which tasks stand for its blocks.

Both travel as annotations of the tasks, with the graph itself: names and numbers. All runs of a client are spans below
one span "dkdist", which itself is below the user's own span where there is one. A scheduler keeps the last 64 of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dask.base import annotate, get_annotations

from dkdist.execution.cluster.spans import SPAN, forget_old_spans
from dkdist.execution.progress import ANNOTATION, Progress


@contextmanager
def stage(client: Any, name: str, blocks_a_task: float, progress: Progress | None) -> Iterator[None]:
    """Name the tasks that ``client`` is given inside the ``with``: a run, counted by its tasks called ``name``."""
    from dkdist.execution.dashboard.curves_page import add_to_own  # needs distributed, as a client does

    add_to_own(client)
    annotation = {ANNOTATION: {"stage": name, "blocks": blocks_a_task}}
    try:
        with annotate(span=_span(client.id, name, progress), **annotation):
            yield
    finally:
        with suppress(Exception):  # a scheduler that is gone, or runs no functions, remembers what it likes
            if client.status == "running":
                client.run_on_scheduler(forget_old_spans)


def _span(client_id: str, stage: str, progress: Progress | None) -> dict[str, tuple[str, ...]]:
    """The annotation that ``distributed.span`` makes, with one id for all graphs of a run.

    ``span`` itself would make a new one for every graph, hundreds for a long run.
    """
    outer = get_annotations().get("span", {"name": (), "ids": ()})
    root = str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((SPAN, client_id, *outer["ids"]))))
    what, run = (stage, str(uuid.uuid4())) if progress is None else (progress.label, progress.run_id)
    return {"name": (*outer["name"], SPAN, what), "ids": (*outer["ids"], root, run)}
