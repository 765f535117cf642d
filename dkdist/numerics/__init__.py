"""Arrays in, arrays out: one file for each idea, formulas in the symbols of the papers.

Compiled loops are kept in the user's own cache folder (``NUMBA_CACHE_DIR`` if it is set, else below
``XDG_CACHE_HOME`` or ``~/.cache``), because an installed package may be read-only. Where nothing can be written they
are compiled anew in each process. Processes and hosts may share the folder: numba writes whole files, and its index
tells CPUs apart. But it numbers the files of code, so that two processes that compile at once could both write number
1, and an index could name the code of other types or of an older source; here every file has a name of its own.

Loops that other loops call are forced inline: as functions of their own they would be compiled once alone and once
within their caller, and which of the two runs, with other last bits, would depend on what is cached.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import IndexDataCacheFile


def _cache_folder() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "dkdist" / "numba"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return tempfile.mkdtemp(prefix="dkdist-numba-")  # private, so never somebody else's code
    return str(folder) if os.access(folder, os.W_OK) else tempfile.mkdtemp(prefix="dkdist-numba-")


if not config.CACHE_DIR:  # type: ignore[attr-defined]
    config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]


def _name_of_its_own(cache_file: Any, number: int) -> str:
    return f"{cache_file._index_name}.{uuid.uuid4().hex}.nbc"


IndexDataCacheFile._data_name = _name_of_its_own  # type: ignore[method-assign]
