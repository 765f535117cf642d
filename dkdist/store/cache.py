"""Opened commits, kept per process: a view that comes back from a pickle costs a dictionary look-up."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from dkdist.store.address import Address
from dkdist.store.committed import Committed
from dkdist.store.layout import Commit

STORES_KEPT = 8

_kept: OrderedDict[Hashable, Committed] = OrderedDict()
_lock = threading.Lock()


def open_committed(address: Address, commit: Commit) -> Committed:
    """The opened commit, from this process's cache if it is there."""
    key = (address.key, commit)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    return keep(Committed(address, commit))


def keep(opened: Committed) -> Committed:
    """Remember an opened commit, and forget the one that was used longest ago."""
    with _lock:
        _kept[opened.address.key, opened.commit] = opened
        while len(_kept) > STORES_KEPT:
            _kept.popitem(last=False)
    return opened
