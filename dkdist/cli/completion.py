"""``dkdist --print-completion bash``: a script that lets a shell complete commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

SHELLS = ("bash", "zsh")
FILES = {"FILE", "STORE", "OTHER", "OUTPUT", "SOURCE"}  # what is completed by names of files
FOLDERS = {"DIR"}


class PrintCompletion(argparse.Action):
    """Prints the script and ends; shtab, which writes it, is imported then."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the completion of the parser for the shell that was named."""
        try:
            import shtab
        except ImportError:
            parser.error("completion is written by shtab: pip install 'dkdist[completion]'")
        _name_files(parser, shtab)
        print(shtab.complete(parser, str(values)))
        parser.exit()


def _name_files(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Tell which arguments are files or folders, of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _name_files(command, shtab)
        elif action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
