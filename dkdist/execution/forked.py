"""What a forked process must not take over: threads that are not there, a client without them, half-done work.

A fork copies memory and one thread. Pools and connections go on looking alive, and who asks them waits for ever. Dask's
pools are forgotten, so that new ones are made, and so are locks; what cannot be made anew is refused by name.
"""

from __future__ import annotations

import os
import sys
from threading import Lock, RLock, get_ident
from typing import Any

import dask.threaded

from dkdist.execution.blas import runs_under_way

INSTEAD = "start processes with 'spawn' or 'forkserver' (multiprocessing.get_context('spawn')), or with joblib's 'loky'"

LOCKS = (("zarr.core.sync", "_lock", Lock), ("dask.tokenize", "tokenize_lock", RLock))
"""Locks of other libraries that a thread may have held which is not in the child."""

_born_at_work = False
_inherited: set[str] = set()  # ids of clients
_was_at_work = False


def require_whole_process() -> None:
    """Raise RuntimeError in a process that was forked in the middle of a run: locks may be held by nobody."""
    if _born_at_work:
        raise RuntimeError(
            f"process {os.getpid()} was forked while another thread was at work in dkdist, and has none of that "
            f"thread's work to end. To fix: fork before or after a run, or {INSTEAD}"
        )


def require_own(client: Any) -> None:
    """Raise RuntimeError for a client of the process that this one was forked from."""
    if client.id in _inherited:
        raise RuntimeError(
            f"process {os.getpid()} was forked from one with a Dask client, whose connection does not work here. "
            f"To fix: {INSTEAD}; or make a Client of the same address here; or compute on this process's own threads, "
            "with dask.config.set(scheduler='threads')"
        )


def _before_fork() -> None:
    global _was_at_work
    _was_at_work = runs_under_way() > 0 or any(_is_at_work(thread) for thread in sys._current_frames())


def _is_at_work(thread: int) -> bool:
    """Whether another thread is anywhere within dkdist: before and after its runs it may hold locks, too."""
    frame = None if thread == get_ident() else sys._current_frames().get(thread)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("dkdist."):
            return True
        frame = frame.f_back
    return False


def _after_fork() -> None:
    global _born_at_work
    _born_at_work = _born_at_work or _was_at_work
    dask.threaded.pools.clear()
    dask.threaded.default_pool, dask.threaded.pools_lock = None, Lock()
    for module, name, lock in LOCKS:
        if hasattr(sys.modules.get(module), name):
            setattr(sys.modules[module], name, lock())
    distributed: Any = sys.modules.get("distributed.client")
    if distributed is not None:
        _inherited.update(client.id for client in list(distributed.Client._instances))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
