"""Results of pairwise matrices: arrays with a row index, or data frames labelled by the ids of the sets."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from dkdist._base.inputs import Sets
from dkdist._base.row_ids import attach_index
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool


def require_frames(as_frame: bool) -> None:
    """Check ``as_frame``; ImportError if pandas is missing."""
    if check_bool("as_frame", as_frame) and find_spec("pandas") is None:
        raise ImportError("as_frame=True needs pandas. Run pip install 'dkdist[frames]'.")


def format_matrix(matrix: F64, rows: Sets, columns: Sets | None, as_frame: bool) -> Any:
    """Return the matrix with its row index attached, or as a data frame; sets without ids are numbered from 0."""
    if not as_frame:
        return attach_index(matrix, rows)
    import pandas as pd

    return pd.DataFrame(matrix, index=rows.ids, columns=(rows if columns is None else columns).ids)
