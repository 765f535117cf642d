"""Edit distances: the minimal cost of insertions, deletions, substitutions and swaps that turn one string into another.

The costs determine the algorithm (`costs.py`). Columns of bits (`_bit_parallel_numba.py`, `_transposition_numba.py`,
`_subsequence_numba.py`) take about 11, 15 and 5 vector instructions per symbol of the object and 8 words. Landmarks of
at most 63 symbols share words, m + 1 bits each, and longer ones take ceil(m / 63) words. Other costs need numbers in
SIMD lanes (`_costs_numba.py`). Nearly equal long strings, and small numbers of long strings, are compared in bands
(`_banded_numba.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dkdist._base.parameter_checks import check_int
from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances._tuning import MAX_PEER_SYMBOLS, WORD_FILL_RATIO
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.strings._banded_numba import INDEL, LEVENSHTEIN, N_CHAINS, N_WORDS
from dkdist.distances.strings._bit_parallel_numba import fill_long, fill_short
from dkdist.distances.strings._costs_numba import STRINGS_PER_TILE, fill_costs, scale_heights
from dkdist.distances.strings._fast_path import PEER_FUNCTIONS, text_distance
from dkdist.distances.strings.costs import (
    MAX_COST,
    WEIGHTED,
    PackedCosts,
    PairCosts,
    TablePlan,
    check_cost,
    check_pair_costs,
    pack_costs,
    plan_table,
)
from dkdist.distances.strings.tiles import MAX_WORD_SYMBOLS, Codes, PackedStrings, check_codes, pack_strings

NAME_BY_COSTS: dict[tuple[float | None, ...], str] = {
    (1, 1, 1, None): "Levenshtein",
    (1, 1, 1, 1): "OSA",
    (1, 1, 2, None): "Indel",
}
"""Costs of insertion, deletion, substitution and transposition whose distances have a name."""


@serializable("Levenshtein")
@dataclass(frozen=True)
class Levenshtein(Distance):
    """Edit distance: minimal total cost of edits that turn one string into the other; by default every edit costs 1.

    Exact for strings of fewer than 2^24 symbols (for "indel", in total) and costs that are multiples of one unit;
    otherwise with an error of 2^-28 of a cost per symbol.

    ``insertion``, ``deletion`` and ``substitution`` are costs >= 0 of edits of a single symbol. ``transposition`` is
    the cost of a swap of two neighbours without other edits between them; None forbids swaps. 1 gives optimal string
    alignment ("osa", the restricted Damerau distance), which is not a metric: the triangle inequality fails ("ca",
    "ac", "abc": 1 + 1 < 3). ``substitution=2`` is equivalent to insertions and deletions only ("indel"): n + m - 2 L
    for a longest common subsequence of length L.

    ``substitution_costs`` are costs of pairs of symbols: a dict, ``{("a", "e"): 0.5}``, where a pair given in only one
    order applies to both orders, and other pairs cost ``substitution``; or (symbols, matrix), such as ``("ACGT",
    matrix)``, with the cost of replacing a by b in row a, column b. Symbols are characters (for bytes, the character
    with that code), or integers if sets are codes.

    D[i, j] is the cost of turning x_i into y_j (the random object in `DistanceEmbedding`). It is not symmetric if
    ``insertion`` and ``deletion`` differ, or if a pair of symbols and its reverse have different costs. Then
    `distance_matrix` computes both, and functions that need a symmetric matrix raise an error.

    ``cutoff`` replaces larger distances by at most ``cutoff`` + 1, which preserves a metric. If all edits cost 1, the
    comparison of long strings stops as soon as the cutoff is exceeded.

    ``normalize`` divides by the largest possible distance of strings of these lengths: by default the length of the
    longer string, for "indel" the sum of both lengths (0 for two empty strings).

    A call with two str of a few hundred symbols takes a few microseconds; for words with unit costs 0.5 us if rapidfuzz
    is installed (``pip install 'dkdist[strings]'``), with the same results. In a large matrix, a pair takes
    about a hundredth of that.

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
    peer_name = ""  # name of the rapidfuzz module with the same costs
    fast_name = ""  # ``peer_name`` without cutoff and normalize, else ""

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            check_int("cutoff", self.cutoff, 0, MAX_COST)
        check_bool("normalize", self.normalize)
        for name in ("insertion", "deletion", "substitution"):
            object.__setattr__(self, name, check_cost(name, getattr(self, name)))
        if self.insertion + self.deletion == 0:
            raise ValueError(
                "insertion and deletion must not both be 0; got 0 and 0, so that all distances are 0."
            )
        if self.transposition is not None:
            object.__setattr__(self, "transposition", check_cost("transposition", self.transposition))
        is_symmetric = self.insertion == self.deletion
        if self.substitution_costs is not None:
            pairs = check_pair_costs(self.substitution_costs, self.substitution)
            object.__setattr__(self, "substitution_costs", pairs)
            object.__setattr__(self, "symbols", pairs[0] if isinstance(pairs[0], str) else "")
            matrix = np.array(pairs[1])
            is_symmetric = is_symmetric and bool((matrix == matrix.T).all())
        object.__setattr__(self, "symmetric", is_symmetric)
        if self.substitution_costs is None and type(self) is Levenshtein:
            costs = self.insertion, self.deletion, self.substitution, self.transposition
            object.__setattr__(self, "peer_name", NAME_BY_COSTS.get(costs, ""))
            if self.cutoff is None and not self.normalize:
                object.__setattr__(self, "fast_name", self.peer_name)

    def __call__(self, x: Any, y: Any) -> float:
        """Return the distance between two objects, bitwise identical to `distance_matrix`.

        Most checks are skipped for two str.
        """
        function = PEER_FUNCTIONS[self.fast_name]  # inlined from `text_distance` to save a call
        if function and type(x) is str is type(y) and 0 < len(x) <= MAX_PEER_SYMBOLS and y:
            return float(function(x, y))
        distance = text_distance(self.fast_name, x, y) if self.fast_name else None
        return super().__call__(x, y) if distance is None else distance

    @property
    def plain(self) -> bool:
        """Whether insertions, deletions and substitutions cost 1."""
        plan = _plan(self)
        return plan.kind == LEVENSHTEIN and plan.plain

    @property
    def _pairs(self) -> PairCosts | None:
        return cast("PairCosts | None", self.substitution_costs)  # converted in __post_init__

    def for_alphabet(self, alphabet: str | None) -> Levenshtein:
        """Return the same distance for codes in an alphabet with all ``symbols``."""
        if self._pairs is None:
            return self
        symbols, rows = self._pairs
        if isinstance(symbols, str):
            code_by_symbol = (
                dict(zip(symbols, map(ord, symbols), strict=True))
                if alphabet is None
                else {symbol: code for code, symbol in enumerate(alphabet)}
            )
            return replace(
                self, substitution_costs=(tuple(code_by_symbol[symbol] for symbol in symbols), rows)
            )
        if alphabet is not None:
            raise ValueError(
                f"substitution_costs must be costs of characters; got costs of codes ({symbols[0]!r}, ...) but strings "
                "of characters in all sets."
            )
        return self

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs: short strings share the words of a tile, long ones have chains of words."""
        mean = float(sizes.mean())
        if _plan(self).kind == WEIGHTED:
            return CostModel(STRINGS_PER_TILE, 1200 / mean)
        strings_per_word = (MAX_WORD_SYMBOLS + 1) / (mean + 1)
        if strings_per_word < 1:
            return CostModel(N_CHAINS, 5000 / mean)
        has_equal_sizes = sizes.min() == sizes.max()  # different lengths leave bits of words unused
        return CostModel(
            N_WORDS * int(strings_per_word)
            if has_equal_sizes
            else int(WORD_FILL_RATIO * N_WORDS * strings_per_word),
            10_000 / mean,
        )

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedStrings | PackedCosts:
        """Pack the landmarks as bits, or in lanes. Empty strings are allowed.

        A tile of 128 words takes 1 KiB per distinct symbol of its landmarks: little for alphabets of up to a few
        hundred symbols, and at most 8 MiB. Costs of pairs of K symbols take K + 1 values of one or four bytes per
        symbol of the landmarks.
        """
        self.reject_weights(weights)
        codes, table_plan = check_codes(points), _plan(self)
        if table_plan.kind == WEIGHTED:
            return pack_costs(codes, offsets.astype(np.int64), table_plan, _classes(self))
        return pack_strings(codes, offsets, 0 if table_plan.kind == INDEL else 1)

    def fill(
        self, packed: PackedStrings | PackedCosts, points: Codes, offsets: I64, weights: F32 | None, out: F32
    ) -> None:
        """Compute out[i, j], the distance of string i to landmark j. Empty strings are allowed."""
        self.reject_weights(weights)
        codes, table_plan = check_codes(points)[:, 0], _plan(self)
        max_distance = np.inf if self.cutoff is None else self.cutoff + 1.0
        max_substitution = self.substitution
        if self._pairs is not None:
            max_substitution = max(max_substitution, *(max(row) for row in self._pairs[1]))
        numbers = (
            table_plan.unit,
            table_plan.slant,
            max_distance,
            float(self.normalize),
            self.insertion,
            self.deletion,
            max_substitution,
        )
        if isinstance(packed, PackedCosts):
            fill_costs(packed.tiles, codes, offsets, numbers, out)
            return
        max_edits = MAX_COST if self.cutoff is None or not table_plan.plain else self.cutoff
        options = table_plan.kind, max_edits, self.normalize and table_plan.plain
        fill_short(packed.short, codes, offsets, *options, out)
        if len(packed.long.columns):
            fill_long(packed.long, packed.texts, packed.edges, codes, offsets, *options, out)
        if not table_plan.plain:
            scale_heights(offsets, np.diff(packed.edges), numbers, out)


@lru_cache(maxsize=64)
def _plan(distance: Levenshtein) -> TablePlan:
    pairs = None if distance._pairs is None else np.array(distance._pairs[1])
    costs = distance.insertion, distance.deletion, distance.substitution, distance.transposition
    return plan_table(*costs, pairs)


def _classes(distance: Levenshtein) -> I64:
    """Return the class of every code: one per symbol of the pair costs, then one for all other codes."""
    pairs = distance.for_alphabet(None)._pairs
    if pairs is None:
        return np.empty(0, np.int64)
    symbols = [int(symbol) for symbol in pairs[0]]
    classes = np.full(max(symbols) + 2, len(symbols), np.int64)
    classes[symbols] = np.arange(len(symbols))
    return classes
