"""Ids of sets that are whole files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dkdist.plain.files import path_name


def file_id(path: Any) -> str:
    """The name of a file without its suffix."""
    return Path(path_name(path)).stem
