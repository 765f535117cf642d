"""Few short strings, compared at once where they are: what a collection and threads cost would be most of the call.

A call of a compiled loop costs half a microsecond, twice what rapidfuzz, written in C++, takes for two words in all.
Where it is installed, short strings are its; the distances are whole numbers, so the bits are the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist.distances.strings._banded_numba import COMMON, EDITS, SHORT_TEXT, SWAPS, edits_of_short
from dkdist.distances.strings._bit_parallel_numba import edits_of_two, fill_few
from dkdist.distances.strings.costs import MAX_COST

PAIRS = 16  # of more, those that share words are faster
SYMBOLS = 2**15  # in all: of more, a call costs little beside its loops, which threads share
BRIEF = 100  # symbols of the shorter string: of fewer, rapidfuzz takes less than a call of a compiled loop
WIDE = 500  # symbols in all, the same where some are beyond ASCII, whose codes take longer to find
NAMED = {  # ours, and rapidfuzz's modules
    "levenshtein": "Levenshtein",
    "osa": "OSA",
    "indel": "Indel",
    "damerau-levenshtein": "DamerauLevenshtein",
}
WAYS = {
    "Levenshtein": (EDITS, 0, SHORT_TEXT),
    "OSA": (SWAPS, 500, 0),
    "Indel": (COMMON, 4000, 0),
    "DamerauLevenshtein": (None, SYMBOLS, 0),
}
"""Kinds of our loops; symbols in all up to which rapidfuzz takes less than these, whatever the shorter string has; and
symbols of the shorter string up to which all columns are made whole."""

PEERS: dict[str, Callable[[str, str], int] | None] = {"": None, **dict.fromkeys(NAMED.values())}
"""rapidfuzz's functions, once they were looked for and found."""


@cache
def _peer(name: str) -> Callable[[str, str], int] | None:
    try:
        PEERS[name] = getattr(importlib.import_module("rapidfuzz.distance"), name).distance
    except ImportError:
        return None
    return PEERS[name]


def pair_of_texts(name: str, x: Any, y: Any) -> float | None:
    """The distance of two str, or None where the ordinary way is taken: for empty and very long ones, too."""
    if type(x) is not str or type(y) is not str or not x or not y:
        return None
    n, m = len(x), len(y)
    kind, left, whole = WAYS[name]
    if n + m > SYMBOLS:
        return None
    if (n <= BRIEF or m <= BRIEF or n + m <= left) and (function := _peer(name)):
        return float(function(x, y))
    text = x + y
    if kind is not None and text.isascii():
        codes = text.encode()
        short = n <= whole or m <= whole
        edits: float = edits_of_short(codes, n) if short else edits_of_two(codes, n, kind)
        return edits
    if n + m <= WIDE and (function := _peer(name)):
        return float(function(x, y))
    if kind is None:
        return None
    found = _by_loops([x, y], (1, 1), False, kind, MAX_COST, False)
    return None if found is None else float(found[0, 0])


def few_strings(distance: Any, sets: Any, other: Any) -> F64 | None:
    """The matrix of edit distances, or None where the ordinary way is taken: for all but few short texts.

    The values are those of the ordinary way, and so is every refusal, which is left to it.
    """
    name, most, normalize = _asked(distance)
    columns = sets if other is None else other
    if not name or type(sets) not in (list, tuple) or type(columns) not in (list, tuple):
        return None
    n, m, plain = len(sets), len(columns), most == MAX_COST and not normalize
    if n == m == 1 and plain and other is not None:
        found = pair_of_texts(name, sets[0], columns[0])
        return None if found is None else np.array([[found]])
    if not 0 < n * m <= PAIRS:
        return None
    texts = [*sets] if other is None else [*sets, *columns]
    symbols = 0
    for text in texts:
        if type(text) is not str or not text:
            return None
        symbols += len(text)
    if symbols > SYMBOLS:
        return None
    if not plain:  # of Levenshtein's
        return _by_loops(texts, (n, m), other is None, EDITS, most, normalize)
    out = np.zeros((n, m))
    for i, x in enumerate(sets):
        for j in range(i + 1 if other is None else 0, m):
            found = pair_of_texts(name, x, columns[j])
            if found is None:
                return None
            out[i, j] = found
            if other is None:
                out[j, i] = found
    return out


def _asked(distance: Any) -> tuple[str, int, bool]:
    """(the name of what is fast for few or "", the cutoff, whether to normalise)."""
    if isinstance(distance, str):
        return NAMED.get(distance, ""), MAX_COST, False
    name = getattr(distance, "like", "")
    if not name or (distance.cutoff is None and not distance.normalize):
        return name, MAX_COST, False
    cutoff = MAX_COST if distance.cutoff is None else distance.cutoff
    return (name if name == "Levenshtein" else ""), cutoff, distance.normalize


def _by_loops(
    texts: list[str], shape: tuple[int, int], same: bool, kind: int, most: int, normalize: bool
) -> F64 | None:
    """The matrix by compiled loops; None if a symbol takes two codes."""
    sizes = [len(text) for text in texts]
    codes = np.frombuffer("".join(texts).encode("utf-16-le", "surrogatepass"), np.uint16)
    if len(codes) != sum(sizes):
        return None
    out = np.zeros(shape)
    fill_few(codes, np.array([0, *accumulate(sizes)]), same, kind, most, normalize, out)
    return out
