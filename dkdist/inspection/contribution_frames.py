"""Contributions as a data frame, with one row for each point, dimension or place of each set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist.base.inputs import Sets
from dkdist.loops.array_types import F64


def contribution_frame(
    contributions: Sequence[F64], sets: Sets, part: str, part_labels: Any, value: str, outputs: Sequence[Any]
) -> Any:
    """Return a frame with the columns "set", ``part`` and ``value``, in the order of the sets.

    ``contributions`` has an array (n_i,) for each set, or (n_i, k) with a column ``value``_OUTPUT for each of the
    ``outputs``. Sets have their ids, or positions. Parts have the labels given (n_i of them for every set), or
    positions.
    """
    import pandas as pd

    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    sizes = [len(c) for c in contributions]
    positions = np.concatenate([np.arange(n) for n in sizes])
    columns = {
        "set": np.repeat(ids, sizes),
        part: positions if part_labels is None else np.asarray(part_labels)[positions],
    }
    values = np.concatenate(list(contributions))
    if values.ndim == 1:
        return pd.DataFrame({**columns, value: values})
    named = {f"{value}_{output}": values[:, j] for j, output in enumerate(outputs)}
    return pd.DataFrame({**columns, **named})
