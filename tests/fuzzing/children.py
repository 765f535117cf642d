"""Calls in a separate process, with limits of memory and time for each call.

Imports, compilation and files are reused by later calls. If the process crashes, hangs or exhausts its memory, it is
replaced.
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
WALL_SECONDS = 40.0  # wall time: other processes may use the processor
GRACE_SECONDS = 60.0  # for a process that an alarm does not end
START_SECONDS = 300.0  # for imports, compilation and files
TIMEOUT_SIGNALS = (signal.SIGXCPU, signal.SIGALRM)

Answer = Callable[[Any], str]


class Child:
    """A process that answers questions with the function that ``prepare`` returns.

    Parameters
    ----------
    prepare : function of a module
        Called with ``arguments`` in the process, without limits; returns a function that answers questions.
    arguments : objects that can be pickled
    more_bytes : int
        Additional memory that an answer may use.
    seconds : float
        Maximum wall time of an answer.
    """

    def __init__(
        self,
        prepare: Callable[..., Answer],
        *arguments: Any,
        more_bytes: int = GIGABYTE,
        seconds: float = WALL_SECONDS,
    ) -> None:
        self._begin = partial(_serve, prepare, arguments, more_bytes, seconds)
        self._patience = seconds + GRACE_SECONDS
        self._process: Any = None
        self._pipe: Any = None

    def ask(self, question: Any) -> str:
        """Return the answer, or "HANG", "CRASH ...", "MEMORY ...", "BUG ..." with the end of a traceback."""
        if self._process is None:
            self._start()
        try:
            self._pipe.send(question)
            if self._pipe.poll(self._patience):
                return str(self._pipe.recv())
            self._process.kill()
        except (EOFError, OSError):
            pass
        self._process.join(GRACE_SECONDS)
        code = self._process.exitcode
        self.end()
        hung = code == -signal.SIGKILL or -(code or 0) in TIMEOUT_SIGNALS
        return "HANG" if hung else f"CRASH with exit code {code}"

    def _start(self) -> None:
        context = get_context("spawn")  # a fork would inherit threads and their locks
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(target=self._begin, args=(child_pipe,), daemon=True)
        self._process.start()
        child_pipe.close()
        assert self._pipe.poll(START_SECONDS), "the process does not begin"
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
    """Answer questions in the process until the pipe is closed."""
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
    """Run the work under limits; the system ends the process if it takes too long."""
    _, memory_limit = resource.getrlimit(resource.RLIMIT_AS)
    _, cpu_limit = resource.getrlimit(resource.RLIMIT_CPU)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + CPU_SECONDS + 1, cpu_limit))
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, memory_limit))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return work()
    except MemoryError:
        return "MEMORY " + "".join(traceback.format_exc().splitlines(keepends=True)[-8:])
    except BaseException:
        return "BUG " + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit))
