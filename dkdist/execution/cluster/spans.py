"""What a scheduler remembers of runs that are over: the last of them, and no more.

Dask keeps every span and its groups of tasks for as long as the scheduler lives, so that one that serves runs for
months would fill up. This runs in the scheduler, at the end of every run.
"""

from __future__ import annotations

from typing import Any

SPAN = "dkdist"
KEPT = 64  # runs
LATE = 60.0  # seconds in which a worker may still report: a heartbeat that tells of a span that is gone would fail


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
