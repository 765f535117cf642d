"""Work in forked children under a limit of memory and of time: what was imported is paid for once.

A child answers one line of text through a pipe and ends; it may crash, hang or fill its memory and hurts nobody.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

GIGABYTE = 2**30
CPU_SECONDS = 5
SECONDS = 40.0  # of a clock on the wall: others may use the processor


def in_child(work: Callable[[], str], *, more_bytes: int = GIGABYTE, seconds: float = SECONDS) -> str:
    """What ``work`` returns, or "CRASH ...", "HANG", "MEMORY", "BUG ..." with the end of a traceback."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(work, writing, more_bytes)
    os.close(writing)
    said = _listen(reading, time.monotonic() + seconds)
    if said is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    if said is None:
        return "HANG"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) and not said:
        return "HANG"
    return said if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0 else f"CRASH {status} {said}"


def _answer(work: Callable[[], str], writing: int, more_bytes: int) -> None:
    """The child's whole life."""
    try:
        if more_bytes:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, used + more_bytes))
        own = int(time.process_time() + CPU_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (own, own))
        try:
            text = work()
        except MemoryError:
            text = "MEMORY " + "".join(traceback.format_exc().splitlines(keepends=True)[-8:])
        except BaseException:
            text = "BUG " + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
        os.write(writing, text.encode(errors="replace")[:60_000])
    finally:
        os._exit(0)


def _listen(reading: int, until: float) -> str | None:
    """What the child says until it ends; None if it does not end in time."""
    parts = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, 65_536)
        if not part:
            return b"".join(parts).decode(errors="replace")
        parts.append(part)


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process that has no threads yet, so that it may fork."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
