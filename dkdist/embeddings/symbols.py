"""Symbols of strings: code points of characters, or codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.strings import code_points


def symbols_of(sets: SampleSets) -> NDArray[np.uint64]:
    """Return the code points (T,) of characters; without an alphabet, the codes."""
    codes = sets.relative[:, 0]
    points = codes if sets.alphabet is None else code_points(sets.alphabet)[codes]
    return points.astype(np.uint64)


def require_symbols(name: str, sets: Any) -> None:
    """Raise SampleSetError for real-valued points or weights; ``name`` is the estimator."""
    if sets.points_dtype.kind != "u":
        raise SampleSetError(
            f"{name} takes strings, but all sets are real-valued points of "
            f"{sets.n_dims} dimension(s). Pass a list of str, of bytes, or of integer sequences"
        )
    if (sets.weights_shape if hasattr(sets, "weights_shape") else sets.weights) is not None:
        raise SampleSetError(f"{name} takes no weights, but all sets have weights. Remove them")
