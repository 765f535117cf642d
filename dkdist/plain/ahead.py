"""The next item is made while the last one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

Item = TypeVar("Item")
END: Any = object()


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, each made by a thread of its own while the one before is used: two are alive at a time."""
    context = copy_context()  # the client that is active here is active there

    def following() -> Item:
        return context.run(next, items, END)

    with ThreadPoolExecutor(1, thread_name_prefix="dkdist-ahead") as thread:
        coming = thread.submit(following)
        while (item := coming.result()) is not END:
            coming = thread.submit(following)
            yield item
