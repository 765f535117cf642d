"""What a cluster's dashboard calls a run: a span ("dkdist", what) for it, and which tasks stand for its blocks.

Both travel as annotations of the tasks, with the graph itself: names and numbers. All runs of a client are spans below
one span "dkdist", which itself is below the user's own span where there is one. Dask keeps every span and its groups of
tasks for as long as the scheduler lives, so that one that serves runs for months would fill up: at the end of every run
the scheduler forgets all but the last of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dask.base import annotate, get_annotations

from dkdist.execution.progress import ANNOTATION, Progress

SPAN = "dkdist"
KEPT = 64  # runs
LATE = 60.0  # seconds in which a worker may still report: a heartbeat that tells of a span that is gone would fail


@contextmanager
def stage(client: Any, name: str, blocks_a_task: float, progress: Progress | None) -> Iterator[None]:
    """Name the tasks that ``client`` is given inside the ``with``: a run, counted by its tasks called ``name``."""
    from dkdist.execution.dashboard.curves_page import add_to_own  # needs distributed, as a client does

    add_to_own(client)
    try:
        with annotate(span=_span(client.id, name, progress)), stage_of(name, blocks_a_task):
            yield
    finally:
        with suppress(Exception):  # a scheduler that is gone, or runs no functions, remembers what it likes
            if client.status == "running":
                client.run_on_scheduler(forget_old_spans)


def stage_of(name: str, blocks_a_task: float) -> Any:
    """A context in which tasks called ``name`` are each counted as so many blocks."""
    return annotate(**{ANNOTATION: {"stage": name, "blocks": blocks_a_task}})


def _span(client_id: str, stage: str, progress: Progress | None) -> dict[str, tuple[str, ...]]:
    """The annotation that ``distributed.span`` makes, with one id for all graphs of a run.

    ``span`` itself would make a new one for every graph, hundreds for a long run.
    """
    outer = get_annotations().get("span", {"name": (), "ids": ()})
    root = str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((SPAN, client_id, *outer["ids"]))))
    what, run = (stage, str(uuid.uuid4())) if progress is None else (progress.label, progress.run_id)
    return {"name": (*outer["name"], SPAN, what), "ids": (*outer["ids"], root, run)}


def forget_old_spans(dask_scheduler: Any) -> None:
    """Forget our spans but the last `KEPT`: those whose tasks are forgotten and of which no worker will still tell."""
    extension = dask_scheduler.extensions.get("spans")
    if extension is None:
        return
    ours = [span for span in extension.spans.values() if span.name[-2:-1] == (SPAN,)]
    heard = min((worker.last_seen for worker in dask_scheduler.workers.values()), default=float("inf"))
    for span in ours[:-KEPT]:
        known = any(group.name in dask_scheduler.task_groups for group in span.groups)
        if not span.children and not known and span.done and span.stop + LATE < heard:
            _forget(extension, span)
            root = span.parent
            if root is not None and not root.children and not root.groups:
                _forget(extension, root)


def _forget(extension: Any, span: Any) -> None:
    """Take a span without children out of all of Dask's indexes."""
    del extension.spans[span.id]
    for index, keys in (
        (extension.spans_search_by_name, [span.name]),
        (extension.spans_search_by_tag, span.name),
    ):
        for key in keys:
            index[key].remove(span)
            if not index[key]:
                del index[key]
    (extension.root_spans if span.parent is None else span.parent.children).remove(span)
