"""The command line: ``dkdist COMMAND ...``.

The parser is all that ``--help`` needs; a command's own file, and with it NumPy and the rest, is imported
when the command runs. An expected failure is one line on standard error and exit code 2.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from dkdist.cli.parser import build_parser, option_names
from dkdist.cli.streams import has_reader, output_failure, usable_streams
from dkdist.cli.text import error_line

PATHS = (
    "store", "output", "model", "to", "checkpoint", "scheduler_file", "performance_report", "source",
    "tls_ca_file", "tls_cert", "tls_key",
)  # fmt: skip
EXPECTED = (ValueError, OSError, ImportError, MemoryError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (0, 2 for an expected failure, 130 after Ctrl-C)."""
    with usable_streams():
        if sys.stdout is None:
            return _report("error: standard output is closed: redirect it to a file, or to /dev/null", 2)
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    args, options = Namespace(debug=False), dict[str, str]()
    try:
        args = build_parser().parse_args(argv)
        _expand_home(args)
        options = option_names(args.command)
        from dkdist.cli.console import print_short_warnings, report_compilation

        module, function = args.run.split(":")
        with print_short_warnings(options), report_compilation():
            getattr(importlib.import_module(module), function)(args)
    except KeyboardInterrupt:
        return _report("interrupted", 130, start="\n")
    except SystemExit:  # of --help, and of arguments that are refused
        failure = output_failure()
        if failure is None or not has_reader(failure):
            raise
    except EXPECTED as error:
        failure = output_failure()
        if failure is None:
            if args.debug:
                raise
            return _report(f"error: {error_line(error, args, options)}", 2)
    else:
        failure = output_failure()
    if failure is None or not has_reader(failure):
        return 0
    return _report(f"error: standard output cannot be written: {failure.strerror}", 2)


def _expand_home(args: Namespace) -> None:
    """Expand ~ at the start of paths: shells do so at the start of a word alone, not in --model=~/m.npz."""
    for name in PATHS:
        given = getattr(args, name, None)
        if isinstance(given, list):
            setattr(args, name, [os.path.expanduser(path) for path in given])
        elif isinstance(given, str):
            setattr(args, name, os.path.expanduser(given))


def _report(message: str, status: int, start: str = "") -> int:
    """Print a message on standard error, if that can be written; returns the exit code."""
    with contextlib.suppress(OSError):
        print(f"{start}dkdist: {message}", file=sys.stderr)
    return status
