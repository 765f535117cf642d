"""The command line: ``dkdist COMMAND ...``.

The parser is all that ``--help`` needs; a command's own file, and with it NumPy and the rest, is imported
when the command runs. An expected failure is one line on standard error and exit code 2.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from dkdist.cli.parser import build_parser

PATHS = (
    "store", "output", "model", "to", "checkpoint", "scheduler_file", "performance_report", "source",
    "tls_ca_file", "tls_cert", "tls_key",
)  # fmt: skip
EXPECTED = (ValueError, OSError, ImportError, MemoryError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (0, 2 for an expected failure, 130 after Ctrl-C)."""
    args = build_parser().parse_args(argv)
    for name in PATHS:  # shells expand ~ at the start of a word alone, not in --model=~/m.npz
        given = getattr(args, name, None)
        if isinstance(given, list):
            setattr(args, name, [os.path.expanduser(path) for path in given])
        elif isinstance(given, str):
            setattr(args, name, os.path.expanduser(given))
    try:
        from dkdist.cli.console import calm_warnings, told_of_compiling

        module, function = args.run.split(":")
        with calm_warnings(), told_of_compiling():
            getattr(importlib.import_module(module), function)(args)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\ndkdist: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except EXPECTED as error:
        if args.debug:
            raise
        from dkdist.cli.console import escape_controls

        print(f"dkdist: error: {escape_controls(error)}", file=sys.stderr)
        return 2
    return 0
