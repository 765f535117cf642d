"""Ids of sets that are whole files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dkdist.plain.files import path_name


def file_id(path: Any, n_parts: int) -> str:
    """The last parts of a path, joined by ``/``, without the suffix."""
    full = Path(os.path.abspath(path_name(path)))
    return "/".join([*full.parts[-n_parts:-1], full.stem])


def require_id_parts(n_parts: Any) -> None:
    """Refuse a number of parts that no id can have."""
    if type(n_parts) is not int or n_parts < 1:
        raise ValueError(f"id_parts must be an int of at least 1; got {n_parts!r:.200}")
