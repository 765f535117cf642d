"""A matrix of all pairs as a data frame, whose rows and columns are named by the ids of the sets."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from dkdist._base.inputs import Sets
from dkdist._base.row_ids import attach_index
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool


def require_frames(as_frame: bool) -> None:
    """Refuse what is no boolean, and a frame where pandas is missing."""
    if check_bool("as_frame", as_frame) and find_spec("pandas") is None:
        raise ImportError("as_frame=True needs pandas: pip install 'dkdist[frames]'")


def as_asked(matrix: F64, rows: Sets, columns: Sets | None, as_frame: bool) -> Any:
    """The matrix, of which it is known whose its rows are, or a frame of it; sets without ids are counted from 0."""
    if not as_frame:
        return attach_index(matrix, rows)
    import pandas as pd

    return pd.DataFrame(matrix, index=rows.ids, columns=(rows if columns is None else columns).ids)
