"""Opened commits, kept per process: a view that comes back from a pickle costs a dictionary look-up."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from dkdist.store.address import Address
from dkdist.store.committed import Committed
from dkdist.store.layout import Commit

STORES_KEPT = 8

_kept: OrderedDict[tuple[str, Commit], Committed] = OrderedDict()
_lock = threading.Lock()


def open_committed(address: Address, commit: Commit) -> Committed:
    """The opened commit, from this process's cache if it is there."""
    key = (address.label, commit)
    with _lock:
        found = _kept.get(key)
        if found is not None and found.address == address:  # labels show no options, and may be shared
            _kept.move_to_end(key)
            return found
    return keep(Committed(address, commit))


def keep(opened: Committed) -> Committed:
    """Remember an opened commit, and forget the one that was used longest ago."""
    with _lock:
        _kept[opened.address.label, opened.commit] = opened
        while len(_kept) > STORES_KEPT:
            _kept.popitem(last=False)
    return opened


def _after_fork() -> None:
    """Forget what the parent opened: it shares a zip file's position, and has a remote client's threads."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
