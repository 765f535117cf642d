"""Work in a process of its own, one piece after another, under limits of memory and of time for each.

What was imported, compiled and written is paid for once. The process may crash, hang or fill its memory and hurts
nobody: another one takes its place.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

GIGABYTE = 2**30
CPU_SECONDS = 5
SECONDS = 40.0  # of a clock on the wall: others may use the processor
GRACE = 60.0  # for a process that not even an alarm ends
BEGIN = 300.0  # to import, compile and write
TOO_LONG = (signal.SIGXCPU, signal.SIGALRM)

Answer = Callable[[Any], str]


class Child:
    """A process that answers questions with the function that ``prepare`` returns.

    Parameters
    ----------
    prepare : function of a module
        Called with ``arguments`` in the process, without limits; returns what answers a question with a text.
    arguments : objects that can be pickled
    more_bytes : int
        Memory that an answer may take beyond what the process has before it.
    seconds : float
        The longest that an answer may take on a clock on the wall.
    """

    def __init__(
        self,
        prepare: Callable[..., Answer],
        *arguments: Any,
        more_bytes: int = GIGABYTE,
        seconds: float = SECONDS,
    ) -> None:
        self._begin = partial(_serve, prepare, arguments, more_bytes, seconds)
        self._patience = seconds + GRACE
        self._process: Any = None
        self._pipe: Any = None

    def ask(self, question: Any) -> str:
        """The answer, or "HANG", "CRASH ...", "MEMORY ...", "BUG ..." with the end of a traceback."""
        if self._process is None:
            self._start()
        try:
            self._pipe.send(question)
            if self._pipe.poll(self._patience):
                return str(self._pipe.recv())
            self._process.kill()
        except (EOFError, OSError):
            pass
        self._process.join(GRACE)
        code = self._process.exitcode
        self.end()
        hung = code == -signal.SIGKILL or -(code or 0) in TOO_LONG
        return "HANG" if hung else f"CRASH with exit code {code}"

    def _start(self) -> None:
        context = get_context("spawn")  # a fork would inherit threads, and what they hold
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self._begin, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        assert self._pipe.poll(BEGIN), "the process does not begin"
        text = self._pipe.recv()
        assert text == "ready", text

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


def _serve(
    prepare: Callable[..., Answer], arguments: Any, more_bytes: int, seconds: float, pipe: Connection
) -> None:
    """The process's whole life."""
    try:
        answer = prepare(*arguments)
    except BaseException:
        pipe.send(traceback.format_exc())
        return
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            question = pipe.recv()
            pipe.send(_limited(partial(answer, question), more_bytes, seconds))


def _limited(work: Callable[[], str], more_bytes: int, seconds: float) -> str:
    """What the work says; the system ends the process where it takes too long."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    _, longest = resource.getrlimit(resource.RLIMIT_CPU)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + CPU_SECONDS + 1, longest))
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, most))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return work()
    except MemoryError:
        return "MEMORY " + "".join(traceback.format_exc().splitlines(keepends=True)[-8:])
    except BaseException:
        return "BUG " + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (longest, longest))
