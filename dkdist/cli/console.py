"""Output of the commands.

Results go to standard output, as aligned lines or as one JSON document; warnings and progress go to standard error.
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

from dkdist._numba.compilation import COMPILE_WATCH
from dkdist.cli._tuning import MAX_SHOWN_WARNINGS
from dkdist.cli.output import require_output_file
from dkdist.cli.text import escape_controls, with_options


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names and values in two aligned columns."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print(f"{escape_controls(name, ''):<{width}}  {escape_controls(value, '')}")


def is_progress_shown(args: Namespace) -> bool:
    """Return whether to show progress: as requested, by default if standard error is a terminal."""
    return bool(sys.stderr.isatty() if args.progress is None else args.progress)


@contextmanager
def scheduler_session(args: Namespace) -> Iterator[None]:
    """Connect to the cluster of the options, if any; otherwise commands run on this machine."""
    tls = (args.tls_ca_file, args.tls_cert, args.tls_key)
    if args.scheduler is None and args.scheduler_file is None:
        if args.performance_report is not None:
            raise ValueError(
                "--performance-report requires a cluster. Pass --scheduler or --scheduler-file, or omit it"
            )
        if any(tls):
            raise ValueError("--tls options require a cluster. Pass --scheduler or --scheduler-file as well")
        yield
        return
    if args.performance_report is not None:
        require_output_file("--performance-report", args.performance_report, overwrite=True)
    from dkdist._runtime.cluster import connect, credentials, read_scheduler_file
    from dkdist._runtime.dashboard import write_performance_report

    with connect(args.scheduler or read_scheduler_file(args.scheduler_file), credentials(*tls)) as cluster:
        print(f"dkdist: running on {cluster}", file=sys.stderr)
        with write_performance_report(args.performance_report):
            yield


@contextmanager
def print_short_warnings(option_by_name: Mapping[str, str]) -> Iterator[None]:
    """Print the first warnings as one line each, and count the others."""
    n_warnings = 0

    def print_warning(message: Warning | str, *_: object, **__: object) -> None:
        nonlocal n_warnings
        n_warnings += 1
        if n_warnings <= MAX_SHOWN_WARNINGS:
            print(
                f"dkdist: warning: {with_options(escape_controls(message), option_by_name)}", file=sys.stderr
            )

    with warnings.catch_warnings():
        warnings.showwarning = print_warning
        # scikit-learn's StandardScaler calls np.may_share_memory on Dask arrays; the result False is correct
        warnings.filterwarnings("ignore", "The `numpy.may_share_memory`", FutureWarning)
        try:
            yield
        finally:
            if n_warnings > MAX_SHOWN_WARNINGS:
                print(f"dkdist: {n_warnings - MAX_SHOWN_WARNINGS} more warnings", file=sys.stderr)


def report_compilation() -> AbstractContextManager[None]:
    """Print a line on standard error while functions are compiled."""

    def print_line() -> None:
        from dkdist._numba.compilation import compiling_text

        print(f"dkdist: {compiling_text()}", file=sys.stderr, flush=True)

    return COMPILE_WATCH.telling(print_line)


def stopwatch() -> Callable[[], float]:
    """Return a callable that gives the seconds elapsed since this call."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


def print_result(
    args: Namespace, document: Mapping[str, Any], result: str | Sequence[tuple[str, object]]
) -> None:
    """Print the document as one line with ``--json``, otherwise a text or pairs of names and values."""
    if args.json:
        print(json.dumps(to_json_value(document), allow_nan=False))
    elif isinstance(result, str):
        print(escape_controls(result))
    else:
        print_pairs(result)


def to_json_value(value: Any) -> Any:
    """Convert NumPy scalars and arrays to Python values; NaN and infinities become None."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return to_json_value(value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    if isinstance(value, np.generic):
        return to_json_value(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
