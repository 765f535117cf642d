"""Few short strings, compared at once where they are: what a collection and threads cost would be most of the call."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from dkdist.distances.strings.banded_loops import fill_few
from dkdist.distances.strings.levenshtein import MOST, Levenshtein
from dkdist.loops.array_types import F64

PAIRS = 16  # of more, those that share words are faster
SYMBOLS = 2**15  # in all: of more, a call costs little beside its loops, which threads share


def few_strings(distance: Any, sets: Any, other: Any) -> F64 | None:
    """The matrix of edit distances, or None where the ordinary way is taken: for all but few short texts.

    The values are those of the ordinary way, and so is every refusal, which is left to it.
    """
    named = isinstance(distance, str) and distance == "levenshtein"
    if not (named or (type(distance) is Levenshtein and distance.plain)):
        return None
    same = other is None
    sides = (sets,) if same else (sets, other)
    if not all(type(side) in (list, tuple) and 0 < len(side) <= PAIRS for side in sides):
        return None
    texts = [text for side in sides for text in side]
    shape = len(sets), len(sides[-1])
    if shape[0] * shape[1] > PAIRS or not all(type(text) is str and text for text in texts):
        return None
    sizes = [len(text) for text in texts]
    symbols = sum(sizes)
    if symbols > SYMBOLS:
        return None
    codes = np.frombuffer("".join(texts).encode("utf-16-le", "surrogatepass"), np.uint16)
    if len(codes) != symbols:  # symbols of two codes
        return None
    asked = Levenshtein() if named else distance
    most = MOST if asked.cutoff is None else asked.cutoff
    out = np.zeros(shape)
    fill_few(codes, np.array([0, *accumulate(sizes)]), same, most, asked.normalize, out)
    return out
