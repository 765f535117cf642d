"""Errors of the library as one line that names options instead of parameters, and text that is safe on a terminal."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from dkdist._utils.memory_budget import LIMIT_KEY, LIMIT_VARIABLE

# C0 and C1 controls, bidirectional overrides and lone surrogates, which change the state of a terminal
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: object, keep: str = "\n\t") -> str:
    """Escape control characters, so that names and ids cannot control a terminal."""
    return CONTROL.sub(lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), str(text))


OPTION_BY_PARAMETER = {
    "alpha": "--alpha",
    "alphas": "--alpha",
    "bandwidth": "--bandwidth",
    "budget": "--budget",
    "chunk_rows": "--chunk-rows",
    "domain": "--domain",
    "n_basis": "--n-basis",
    "n_components": "--features",
    "n_epochs": "--epochs",
    "random_state": "--seed",
    "shards": "--shards",
    "sigma": "--sigma",
    "structure": "--structure",
}
"""Options by the parameter that messages of the library name."""

# Parameter names that are also English words match only before "=" or a requirement, or after "Increase". No name
# matches in quotes or paths. A "=" without a value is part of the match.
_PARAMETER = re.compile(
    r"(?<![\w'\"./=-])(?:n_basis|n_components|n_epochs|random_state|chunk_rows)(?![\w'\"./])"
    r"|(?<![\w'\"./=-])(?:alphas?|bandwidth|budget|domain|shards|sigma|structure)"
    r"(?:=(?=[\s,;:)]|\.(?!\d)|$)|(?==| must| needs| is \S+: give))"
    r"|(?<=Increase )(?:bandwidth|sigma)(?=[ ,.])"
    r"|(?<=The ')(?:\w+)(?=' parameter)"
)
_NO_COLUMN = re.compile(r"has no (?:column|array|channel|dimension) '(.*?)'")


def error_line(error: BaseException, args: Namespace, option_by_name: Mapping[str, str]) -> str:
    """Format an error in one line."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        text = _format_file_error(error, args, option_by_name)
    else:
        text = with_options(str(error) or type(error).__name__, option_by_name)
    if isinstance(error, MemoryError):
        problem, _, remedy = text.partition(" To fix: ")
        if "open_sets(" in remedy or not remedy:  # the remedy of a plan names Python functions, not commands
            problem += "" if remedy else ": not enough memory."
            text = f"{problem} {_memory_advice(option_by_name)}, or set {LIMIT_VARIABLE} if more memory is available"
        text = text.replace(f"dask.config {LIMIT_KEY!r}", LIMIT_VARIABLE)
    unknown = _NO_COLUMN.search(text)
    if unknown:
        options = [o for o, value in _text_arguments(args, option_by_name) if unknown[1] in value.split(",")]
        text += "".join(f" (see {option})" for option in options[:1])
    return escape_controls(" ".join(text.split()))


def with_options(text: str, option_by_name: Mapping[str, str]) -> str:
    """Replace the parameters in a text by options of the command."""
    options = set(option_by_name.values())

    def to_option(match: re.Match[str]) -> str:
        option = OPTION_BY_PARAMETER.get(match[0].removesuffix("="))
        return option if option in options else match[0]

    return _PARAMETER.sub(to_option, text)


def _format_file_error(error: OSError, args: Namespace, option_by_name: Mapping[str, str]) -> str:
    """Format the reason with the argument that names the file or folder, otherwise as Python does."""
    error_path = os.path.abspath(os.fsdecode(error.filename))
    for option, value in _text_arguments(args, option_by_name):
        path = os.path.abspath(value)
        if error_path == path or error_path.startswith(os.path.join(path, "")):
            inside = "" if error_path == path else f" ({error_path})"
            remedy = ""
            if isinstance(error, FileExistsError) and "overwrite" in option_by_name:
                remedy = ". Another process wrote it. Pass --overwrite or another name"
            return f"{option} {value}{inside}: {error.strerror}{remedy}"
    return str(error)


def _text_arguments(args: Namespace, option_by_name: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, option in option_by_name.items():
        value: Any = getattr(args, name, None)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield option, text


def _memory_advice(option_by_name: Mapping[str, str]) -> str:
    if "features" in option_by_name:
        return "Pass smaller --features or --n-basis, or run on a machine with more memory"
    return "Run on a machine with more memory"
