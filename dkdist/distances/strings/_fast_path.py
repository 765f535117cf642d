"""Edit distances of a few short strings, without the overhead of a collection and threads.

A call of a compiled function takes half a microsecond, twice the time of rapidfuzz (C++) for two words. If rapidfuzz is
installed, it is used for short strings; results are identical, because distances are integers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist.distances._tuning import (
    MAX_PAIRS,
    MAX_PEER_SYMBOLS,
    MAX_PEER_UNICODE_SYMBOLS,
    MAX_SYMBOLS,
    MAX_UNBANDED_SYMBOLS,
)
from dkdist.distances.strings._banded_numba import INDEL, LEVENSHTEIN, OSA, unbanded_distance
from dkdist.distances.strings._bit_parallel_numba import fill_small_matrix, text_pair_distance
from dkdist.distances.strings.costs import MAX_COST

PEER_NAMES = {  # names of rapidfuzz modules by name of the distance
    "levenshtein": "Levenshtein",
    "osa": "OSA",
    "indel": "Indel",
    "damerau-levenshtein": "DamerauLevenshtein",
}
PATH_BY_PEER = {
    "Levenshtein": (LEVENSHTEIN, 0, MAX_UNBANDED_SYMBOLS),
    "OSA": (OSA, 500, 0),
    "Indel": (INDEL, 4000, 0),
    "DamerauLevenshtein": (None, MAX_SYMBOLS, 0),
}
"""By module of rapidfuzz: the kind of the compiled function; total symbols up to which rapidfuzz is faster; and symbols
of the shorter text up to which columns are computed without a band (python benchmarks/sequence_distances.py)."""

PEER_FUNCTIONS: dict[str, Callable[[str, str], int] | None] = {"": None, **dict.fromkeys(PEER_NAMES.values())}
"""Functions of rapidfuzz that `_load_peer` has imported."""


@cache
def _load_peer(name: str) -> Callable[[str, str], int] | None:
    try:
        PEER_FUNCTIONS[name] = getattr(importlib.import_module("rapidfuzz.distance"), name).distance
    except ImportError:
        return None
    return PEER_FUNCTIONS[name]


def text_distance(name: str, x: Any, y: Any) -> float | None:
    """Return the distance of two short, nonempty str; None for all other arguments."""
    if type(x) is not str or type(y) is not str or not x or not y:
        return None
    n, m = len(x), len(y)
    kind, max_peer_total, max_unbanded = PATH_BY_PEER[name]
    if n + m > MAX_SYMBOLS:
        return None
    if (n <= MAX_PEER_SYMBOLS or m <= MAX_PEER_SYMBOLS or n + m <= max_peer_total) and (
        function := _load_peer(name)
    ):
        return float(function(x, y))
    text = x + y
    if kind is not None and text.isascii():
        codes = text.encode()
        is_short = n <= max_unbanded or m <= max_unbanded
        edits: float = unbanded_distance(codes, n) if is_short else text_pair_distance(codes, n, kind)
        return edits
    if n + m <= MAX_PEER_UNICODE_SYMBOLS and (function := _load_peer(name)):
        return float(function(x, y))
    if kind is None:
        return None
    value = _compiled_matrix([x, y], (1, 1), False, kind, MAX_COST, False)
    return None if value is None else float(value[0, 0])


def small_string_matrix(distance: Any, sets: Any, other: Any) -> F64 | None:
    """Compute the matrix of edit distances of a few short texts; None for all other (even invalid) arguments."""
    name, cutoff, normalize = _fast_options(distance)
    columns = sets if other is None else other
    if not name or type(sets) not in (list, tuple) or type(columns) not in (list, tuple):
        return None
    n, m, is_plain = len(sets), len(columns), cutoff == MAX_COST and not normalize
    if n == m == 1 and is_plain and other is not None:
        value = text_distance(name, sets[0], columns[0])
        return None if value is None else np.array([[value]])
    if not 0 < n * m <= MAX_PAIRS:
        return None
    texts = [*sets] if other is None else [*sets, *columns]
    n_symbols = 0
    for text in texts:
        if type(text) is not str or not text:
            return None
        n_symbols += len(text)
    if n_symbols > MAX_SYMBOLS:
        return None
    if not is_plain:  # options are only supported for Levenshtein
        return _compiled_matrix(texts, (n, m), other is None, LEVENSHTEIN, cutoff, normalize)
    out = np.zeros((n, m))
    for i, x in enumerate(sets):
        for j in range(i + 1 if other is None else 0, m):
            value = text_distance(name, x, columns[j])
            if value is None:
                return None
            out[i, j] = value
            if other is None:
                out[j, i] = value
    return out


def _fast_options(distance: Any) -> tuple[str, int, bool]:
    """Return (name of the rapidfuzz module or "", cutoff, normalize)."""
    if isinstance(distance, str):
        return PEER_NAMES.get(distance, ""), MAX_COST, False
    name = getattr(distance, "peer_name", "")
    if not name or (distance.cutoff is None and not distance.normalize):
        return name, MAX_COST, False
    cutoff = MAX_COST if distance.cutoff is None else distance.cutoff
    return (name if name == "Levenshtein" else ""), cutoff, distance.normalize


def _compiled_matrix(
    texts: list[str], shape: tuple[int, int], same: bool, kind: int, cutoff: int, normalize: bool
) -> F64 | None:
    """Compute the matrix with compiled functions; return None if a symbol needs two UTF-16 codes."""
    sizes = [len(text) for text in texts]
    codes = np.frombuffer("".join(texts).encode("utf-16-le", "surrogatepass"), np.uint16)
    if len(codes) != sum(sizes):
        return None
    out = np.zeros(shape)
    fill_small_matrix(codes, np.array([0, *accumulate(sizes)]), same, kind, cutoff, normalize, out)
    return out
