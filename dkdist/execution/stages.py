"""What a cluster's dashboard calls a run: a span ("dkdist", what) for it, and which tasks stand for its blocks.

Both travel as annotations of the tasks, with the graph itself: names and numbers, no further message. All runs of a
client are spans below one span "dkdist", which itself is below the user's own span where there is one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dask.base import annotate, get_annotations
from dask.typing import Key
from dask.utils import key_split

from dkdist.execution.curves import ANNOTATION
from dkdist.execution.progress import Progress

SPAN = "dkdist"


@contextmanager
def stage(client: Any, key: Key, watch: Mapping[Key, int], progress: Progress | None) -> Iterator[None]:
    """Name the tasks that ``client`` is given inside the ``with``, whose result is ``key``.

    The keys of ``watch`` are one stage, and their values the blocks that such a task uses up.
    """
    from dkdist.execution.curves_page import add_to_own  # needs distributed, which a client has imported

    add_to_own(client)
    counted = next(iter(watch), key)
    blocks = sum(watch.values()) / len(watch) if watch else 1.0
    start = 0 if progress is None else progress.done
    with annotate(
        span=_span(client.id, key_split(key), progress),
        **{ANNOTATION: {"stage": key_split(counted), "blocks": blocks}},
    ):
        yield
    if progress is not None and progress.show:
        progress.wait_for(start + sum(watch.values()))


def _span(client_id: str, stage: str, progress: Progress | None) -> dict[str, tuple[str, ...]]:
    """The annotation that ``distributed.span`` makes, with one id for all graphs of a run.

    ``span`` itself would make a new one for every graph, hundreds for a long run.
    """
    outer = get_annotations().get("span", {"name": (), "ids": ()})
    root = str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((SPAN, client_id, *outer["ids"]))))
    what, run = (stage, str(uuid.uuid4())) if progress is None else (progress.label, progress.run_id)
    return {"name": (*outer["name"], SPAN, what), "ids": (*outer["ids"], root, run)}
