"""The command line: ``dkdist COMMAND ...``.

``--help`` imports the parser only. The module of a command, and with it NumPy and Dask, is imported when the command
runs. An expected error prints one line on standard error, with exit code 2.
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

PATH_ARGUMENTS = (
    "store", "output", "model", "to", "checkpoint", "scheduler_file", "performance_report", "source",
    "tls_ca_file", "tls_cert", "tls_key",
)  # fmt: skip
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0, 2 for an expected error, 130 after Ctrl-C."""
    with usable_streams():
        if sys.stdout is None:
            return _print_message(
                "error: standard output is closed. Redirect it to a file or to /dev/null", 2
            )
        return _run_command(argv)


def _run_command(argv: Sequence[str] | None) -> int:
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
        return _print_message("interrupted", 130, start="\n")
    except SystemExit:  # raised by --help and by invalid arguments
        failure = output_failure()
        if failure is None or not has_reader(failure):
            raise
    except EXPECTED_ERRORS as error:
        failure = output_failure()
        if failure is None:
            if args.debug:
                raise
            return _print_message(f"error: {error_line(error, args, options)}", 2)
    else:
        failure = output_failure()
    if failure is None or not has_reader(failure):
        return 0
    return _print_message(f"error: standard output cannot be written: {failure.strerror}", 2)


def _expand_home(args: Namespace) -> None:
    """Expand ~ in paths: shells expand it at the start of a word only, not in --model=~/m.npz."""
    for name in PATH_ARGUMENTS:
        value = getattr(args, name, None)
        if isinstance(value, list):
            setattr(args, name, [os.path.expanduser(path) for path in value])
        elif isinstance(value, str):
            setattr(args, name, os.path.expanduser(value))


def _print_message(message: str, status: int, start: str = "") -> int:
    """Print a message on standard error, if that can be written, and return the exit code."""
    with contextlib.suppress(OSError):
        print(f"{start}dkdist: {message}", file=sys.stderr)
    return status
