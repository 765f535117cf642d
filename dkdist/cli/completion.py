"""``dkdist --print-completion bash``: a script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

SHELLS = ("bash", "zsh")
FILE_METAVARS = {"FILE", "STORE", "OTHER", "OUTPUT", "SOURCE"}
FOLDER_METAVARS = {"DIR"}


class PrintCompletion(argparse.Action):
    """Option that prints the script, which shtab generates, and exits."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the completion script of the parser for one shell, and exit."""
        try:
            import shtab
        except ImportError:
            parser.error("--print-completion needs shtab: pip install 'dkdist[completion]'")
        _mark_paths(parser, shtab)
        print(shtab.complete(parser, str(values)))
        parser.exit()


def _mark_paths(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Mark the arguments of all commands that are files or folders."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_paths(command, shtab)
        elif action.metavar in FILE_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in FOLDER_METAVARS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
