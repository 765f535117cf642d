"""The answer of a command on standard output: lines for people, or one JSON document for scripts.

How commands speak: aligned lines on standard output; warnings and progress on standard error.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from dkdist._numba.compilation import WATCH
from dkdist.cli.output import require_output_file
from dkdist.cli.text import escape_controls, with_options

MOST_WARNINGS = 5


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Names and values in two aligned columns."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print(f"{escape_controls(name, ''):<{width}}  {escape_controls(value, '')}")


def is_progress_shown(args: Namespace) -> bool:
    """Whether to show progress: as the user said, else where standard error is a terminal."""
    return bool(sys.stderr.isatty() if args.progress is None else args.progress)


@contextmanager
def scheduler_session(args: Namespace) -> Iterator[None]:
    """The user's cluster, or this machine."""
    tls = (args.tls_ca_file, args.tls_cert, args.tls_key)
    if args.scheduler is None and args.scheduler_file is None:
        if args.performance_report is not None:
            raise ValueError(
                "--performance-report is about a cluster's run: give --scheduler or --scheduler-file"
            )
        if any(tls):
            raise ValueError("certificates are for a cluster: give --scheduler or --scheduler-file as well")
        yield
        return
    if args.performance_report is not None:
        require_output_file("--performance-report", args.performance_report, overwrite=True)
    from dkdist._runtime.cluster import connect, credentials, read_scheduler_file
    from dkdist._runtime.dashboard import write_performance_report

    with connect(args.scheduler or read_scheduler_file(args.scheduler_file), credentials(*tls)) as found:
        print(f"dkdist: running on {found}", file=sys.stderr)
        with write_performance_report(args.performance_report):
            yield


@contextmanager
def print_short_warnings(option_by_name: Mapping[str, str]) -> Iterator[None]:
    """Show warnings as single lines, the first few of them."""
    shown = 0

    def show(message: Warning | str, *_: object, **__: object) -> None:
        nonlocal shown
        shown += 1
        if shown <= MOST_WARNINGS:
            print(
                f"dkdist: warning: {with_options(escape_controls(message), option_by_name)}", file=sys.stderr
            )

    with warnings.catch_warnings():
        warnings.showwarning = show
        # scikit-learn's StandardScaler asks that of lazy rows, and is right
        warnings.filterwarnings("ignore", "The `numpy.may_share_memory`", FutureWarning)
        try:
            yield
        finally:
            if shown > MOST_WARNINGS:
                print(f"dkdist: {shown - MOST_WARNINGS} more warnings like these", file=sys.stderr)


def report_compilation() -> AbstractContextManager[None]:
    """Within it, a line on standard error tells of loops that are compiled."""

    def tell() -> None:
        from dkdist._numba.compilation import compiling_text  # whose numba is there by now

        print(f"dkdist: {compiling_text()}", file=sys.stderr, flush=True)

    return WATCH.telling(tell)


def stopwatch() -> Callable[[], float]:
    """What tells the seconds since it was made."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


def print_result(
    args: Namespace, document: Mapping[str, Any], told: str | Sequence[tuple[str, object]]
) -> None:
    """Print the document if ``--json`` asks for it, else a text or names and values."""
    if args.json:
        print_json(document)
    elif isinstance(told, str):
        print(escape_controls(told))
    else:
        print_pairs(told)


def print_json(document: Mapping[str, Any]) -> None:
    """Print the document as one line of JSON."""
    print(json.dumps(to_json_value(document), allow_nan=False))


def to_json_value(value: Any) -> Any:
    """A value as JSON has it: numbers and arrays of NumPy as Python's; what is no number (NaN, infinity) is null."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return to_json_value(value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    if isinstance(value, np.generic):
        return to_json_value(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
