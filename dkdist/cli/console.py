"""How commands speak: aligned lines on standard output; warnings and progress on standard error."""

from __future__ import annotations

import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

MOST_WARNINGS = 5


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Names and values in two aligned columns."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print(f"{name:<{width}}  {value}")


def bytes_text(n: float) -> str:
    """A number of bytes as people read it: 532 B, 1.4 MB, 20 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def wants_progress(args: Namespace) -> bool:
    """Whether to show progress: as the user said, else where standard error is a terminal."""
    return bool(sys.stderr.isatty() if args.progress is None else args.progress)


def scheduler(args: Namespace) -> AbstractContextManager[object]:
    """The user's cluster, or this machine."""
    tls = (args.tls_ca_file, args.tls_cert, args.tls_key)
    if args.scheduler is not None or args.scheduler_file is not None:
        return _on_cluster(args.scheduler, args.scheduler_file, tls, args.performance_report)
    if args.performance_report is not None:
        raise ValueError(
            "--performance-report is about a cluster's run: give --scheduler or --scheduler-file"
        )
    if any(tls):
        raise ValueError("certificates are for a cluster: give --scheduler or --scheduler-file as well")
    return nullcontext()


@contextmanager
def _on_cluster(
    address: str | None, file: str, tls: tuple[str | None, ...], report: str | None
) -> Iterator[None]:
    from dkdist.execution.cluster import address_in, connect
    from dkdist.execution.report import reported
    from dkdist.execution.tls import credentials

    with connect(address or address_in(file), credentials(*tls)) as found:
        print(f"dkdist: running on {found}", file=sys.stderr)
        with reported(report):
            yield


@contextmanager
def calm_warnings() -> Iterator[None]:
    """Show warnings as single lines, the first few of them."""
    shown = 0

    def show(message: Warning | str, *_: object, **__: object) -> None:
        nonlocal shown
        shown += 1
        if shown <= MOST_WARNINGS:
            print(f"dkdist: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        finally:
            if shown > MOST_WARNINGS:
                print(f"dkdist: {shown - MOST_WARNINGS} more warnings like these", file=sys.stderr)


class Stopwatch:
    """Seconds since it was made, or since it was last asked."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        lap, self._start = now - self._start, now
        return lap
