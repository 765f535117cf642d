"""Labels of a stream: all classes are named in the first call, and later ones hold no other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist.linear.problems import as_classes
from dkdist.loops.array_types import I64


def classes_of_stream(given: ArrayLike | None, before: NDArray[Any] | None) -> NDArray[Any]:
    """The sorted classes of a call of ``partial_fit``; ``before`` are those of the first call, None in it."""
    if given is None:
        if before is None:
            raise ValueError("the first call of partial_fit needs classes: all labels that will ever occur")
        return before
    classes, _ = as_classes(np.asarray(given))
    if before is not None and not np.array_equal(classes, before):
        raise ValueError(f"classes={classes} differ from those of the first call, {before}")
    return classes


def index_among(classes: NDArray[Any], y: NDArray[Any]) -> I64:
    """Each target's place among the classes; ValueError naming the first that is none of them."""
    if (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(f"y holds {y.dtype}, but the classes are {classes}: give targets of their kind")
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    if np.any(unknown := classes[index] != y):
        row = int(np.argmax(unknown))
        raise ValueError(
            f"target {y.tolist()[row]!r} in row {row} is not one of the classes {classes}: "
            "name all classes in the first call of partial_fit"
        )
    return np.asarray(index, np.int64)
