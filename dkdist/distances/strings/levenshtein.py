"""Edit distances, a block of strings against all random strings at once.

The least that insertions, deletions and substitutions of single symbols, and swaps of neighbours, cost that turn one
string into the other. Costs decide how (`edit_costs`): columns of bits (`bit_parallel_loops`, `transposition_loops`,
`subsequence_loops`), about 11, 15 and 5 vector instructions for every symbol of the object and 8 words, where omegas of
at most 63 symbols share words, m + 1 bits each, and longer ones take ceil(m / 63); or numbers in lanes (`cost_loops`).
Long strings that are nearly equal, or few, go one by one through bands that are as wide as they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dkdist._base.parameter_checks import whole
from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.strings._banded_numba import COMMON, EDITS, LONG, SHORT
from dkdist.distances.strings._bit_parallel_numba import fill_long, fill_short
from dkdist.distances.strings._costs_numba import LANES, fill_costs, scale_heights
from dkdist.distances.strings._fast_path import BRIEF, PEERS, pair_of_texts
from dkdist.distances.strings.costs import (
    COSTS,
    MAX_COST,
    PackedCosts,
    PairCosts,
    Plan,
    cost,
    packed_costs,
    pair_costs,
    plan,
)
from dkdist.distances.strings.tiles import BITS, Codes, PackedStrings, codes_of, packed_strings

FILLED = 0.92  # of the words of strings of many lengths
LIKE: dict[tuple[float | None, ...], str] = {
    (1, 1, 1, None): "Levenshtein",
    (1, 1, 1, 1): "OSA",
    (1, 1, 2, None): "Indel",
}
"""Costs of insertion, deletion, substitution and transposition whose distances have a name."""


@serializable("Levenshtein")
@dataclass(frozen=True)
class Levenshtein(Distance):
    """The edit distance: the least that edits cost which turn one string into the other; all cost 1 by default.

    Exact for strings of fewer than 2^24 symbols (together, where nothing is substituted) and costs that are multiples
    of one unit, to 2^-28 of a cost a symbol otherwise.

    ``insertion``, ``deletion`` and ``substitution`` are what these edits of a single symbol cost, >= 0;
    ``transposition`` what it costs to swap two neighbours between which nothing else is edited, None if that is no
    edit. At 1 that is optimal string alignment ("osa"; the restricted Damerau distance): not a metric, for the triangle
    inequality fails ("ca", "ac", "abc": 1 + 1 < 3). With ``substitution=2`` symbols are inserted and deleted alone
    ("indel"), which is what the longest common subsequence L leaves, n + m - 2 L.

    ``substitution_costs`` are costs of pairs of symbols: a dict, ``{("a", "e"): 0.5}``, where a pair in one order
    stands for both unless both are given, and others cost ``substitution``; or (symbols, matrix), such as ``("ACGT",
    matrix)``, of which row a, column b is for an a that becomes a b. Symbols are characters (of bytes those of that
    code), or whole numbers where sets are codes.

    D[i, j] is what turns x_i into y_j (the random object, in `DistanceEmbedding`). Where ``insertion`` and ``deletion``
    differ, or costs of pairs and of their reverse, it is not D[j, i]: `distance_matrix` computes both, and what needs a
    symmetric matrix refuses it.

    ``cutoff`` gives distances above it as ``cutoff`` + 1 at most, a metric if the distance is one: long strings are
    given up as soon as they are known to be further apart, where all edits cost 1.

    ``normalize`` divides by the largest distance of strings of these two lengths: that of the longer one by default,
    the sum of both of "indel" (0 for two empty ones).

    Called with two str of a few hundred symbols it takes some microseconds, half a one for words by plain edits if
    rapidfuzz is there (``pip install 'dkdist[strings]'``), whose whole numbers are the same; a matrix of many takes
    hundredths of that a pair.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.Levenshtein()("kitten", "sitting")
    3.0
    >>> typed = dk.Levenshtein(transposition=1, substitution_costs={("a", "s"): 0.5})  # neighbours on the keyboard
    >>> dk.distance_matrix(["first", "cat"], ["frist", "cst"], distance=typed).diagonal()
    array([1. , 0.5])
    """

    normalize: bool = False
    cutoff: int | None = None
    insertion: float = 1.0
    deletion: float = 1.0
    substitution: float = 1.0
    transposition: float | None = None
    substitution_costs: PairCosts | Mapping[Any, float] | tuple[Any, Any] | None = None

    ordered = codes = True
    like = ""  # the name of the distance that costs make it
    bare = ""  # that, if there are no cutoff and no normalising

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            whole("cutoff", self.cutoff, 0, MAX_COST)
        check_bool("normalize", self.normalize)
        for name in ("insertion", "deletion", "substitution"):
            object.__setattr__(self, name, cost(name, getattr(self, name)))
        if self.insertion + self.deletion == 0:
            raise ValueError(
                "insertion and deletion both cost 0, so that all distances are 0: give at least one of them a cost"
            )
        if self.transposition is not None:
            object.__setattr__(self, "transposition", cost("transposition", self.transposition))
        symmetric = self.insertion == self.deletion
        if self.substitution_costs is not None:
            pairs = pair_costs(self.substitution_costs, self.substitution)
            object.__setattr__(self, "substitution_costs", pairs)
            object.__setattr__(self, "symbols", pairs[0] if isinstance(pairs[0], str) else "")
            matrix = np.array(pairs[1])
            symmetric = symmetric and bool((matrix == matrix.T).all())
        object.__setattr__(self, "symmetric", symmetric)
        if self.substitution_costs is None and type(self) is Levenshtein:
            costs = self.insertion, self.deletion, self.substitution, self.transposition
            object.__setattr__(self, "like", LIKE.get(costs, ""))
            if self.cutoff is None and not self.normalize:
                object.__setattr__(self, "bare", self.like)

    def __call__(self, x: Any, y: Any) -> float:
        """The distance of two objects, bit for bit as `distance_matrix` has it; two str are compared at once."""
        function = PEERS[self.bare]  # as `pair_of_texts`, without a call
        if function and type(x) is str is type(y) and 0 < len(x) <= BRIEF and y:
            return float(function(x, y))
        found = pair_of_texts(self.bare, x, y) if self.bare else None
        return super().__call__(x, y) if found is None else found

    @property
    def plain(self) -> bool:
        """Whether it is Levenshtein's own: insertions, deletions and substitutions at 1."""
        found = _plan(self)
        return found.kind == EDITS and found.plain

    @property
    def _pairs(self) -> PairCosts | None:
        return cast("PairCosts | None", self.substitution_costs)  # which these are once they were checked

    def for_alphabet(self, alphabet: str | None) -> Levenshtein:
        """The same for codes in an alphabet that has all ``symbols``."""
        if self._pairs is None:
            return self
        symbols, rows = self._pairs
        if isinstance(symbols, str):
            place = (
                dict(zip(symbols, map(ord, symbols), strict=True))
                if alphabet is None
                else {symbol: code for code, symbol in enumerate(alphabet)}
            )
            return replace(self, substitution_costs=(tuple(place[symbol] for symbol in symbols), rows))
        if alphabet is not None:
            raise ValueError(
                f"substitution_costs are of codes ({symbols[0]!r}, ...), but the sets (set 0 and all others) are "
                "strings of characters: give costs of characters"
            )
        return self

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """Short strings share the words of a tile, which take long to fill with bits; long ones have chains."""
        mean = float(sizes.mean())
        if _plan(self).kind == COSTS:
            return CostModel(LANES, 1200 / mean)
        of_a_word = (BITS + 1) / (mean + 1)
        if of_a_word < 1:
            return CostModel(LONG, 5000 / mean)
        equal = sizes.min() == sizes.max()  # else some room is left
        return CostModel(SHORT * int(of_a_word) if equal else int(FILLED * SHORT * of_a_word), 10_000 / mean)

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedStrings | PackedCosts:
        """The omegas as bits, or in lanes. Empty ones are allowed.

        A tile of 128 words takes 1 KiB for every symbol that its omegas have: little for alphabets up to a few
        hundred symbols, at most 8 MiB when all differ. Costs of pairs of K symbols take K + 1 numbers (of one byte, or
        four) for every symbol of the omegas.
        """
        self.refuse_weights(weights)
        codes, found = codes_of(points), _plan(self)
        if found.kind == COSTS:
            return packed_costs(codes, offsets.astype(np.int64), found, _classes(self))
        return packed_strings(codes, offsets, 0 if found.kind == COMMON else 1)

    def fill(
        self, packed: PackedStrings | PackedCosts, points: Codes, offsets: I64, weights: F32 | None, out: F32
    ) -> None:
        """out[i, j] = distance of string i to omega j; see the package for the contract. Empty strings are allowed."""
        self.refuse_weights(weights)
        codes, found = codes_of(points)[:, 0], _plan(self)
        most = np.inf if self.cutoff is None else self.cutoff + 1.0
        dearest = self.substitution
        if self._pairs is not None:
            dearest = max(dearest, *(max(row) for row in self._pairs[1]))
        numbers = found.unit, found.slant, most, float(self.normalize), self.insertion, self.deletion, dearest
        if isinstance(packed, PackedCosts):
            fill_costs(packed.tiles, codes, offsets, numbers, out)
            return
        kept_most = MAX_COST if self.cutoff is None or not found.plain else self.cutoff
        options = found.kind, kept_most, self.normalize and found.plain
        fill_short(packed.short, codes, offsets, *options, out)
        if len(packed.long.columns):
            fill_long(packed.long, packed.texts, packed.edges, codes, offsets, *options, out)
        if not found.plain:
            scale_heights(offsets, np.diff(packed.edges), numbers, out)


@lru_cache(maxsize=64)
def _plan(distance: Levenshtein) -> Plan:
    pairs = None if distance._pairs is None else np.array(distance._pairs[1])
    costs = distance.insertion, distance.deletion, distance.substitution, distance.transposition
    return plan(*costs, pairs)


def _classes(distance: Levenshtein) -> I64:
    """The class of every code, the last for all codes beyond: those of the costs of pairs, then one for all others."""
    pairs = distance.for_alphabet(None)._pairs
    if pairs is None:
        return np.empty(0, np.int64)
    symbols = [int(symbol) for symbol in pairs[0]]
    classes = np.full(max(symbols) + 2, len(symbols), np.int64)
    classes[symbols] = np.arange(len(symbols))
    return classes
