"""Jaro-Winkler distance, for names and other short texts (formulas: `_jaro_winkler_numba.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.strings._banded_numba import N_WORDS
from dkdist.distances.strings._jaro_winkler_numba import fill_long, fill_short
from dkdist.distances.strings.costs import check_cost
from dkdist.distances.strings.tiles import (
    MAX_WORD_SYMBOLS,
    Codes,
    PackedStrings,
    check_codes,
    pack_single_words,
)

MAX_PREFIX_WEIGHT = 0.25  # at this weight, a common prefix of four symbols gives distance 0 (Winkler 1990)


@serializable("JaroWinkler")
@dataclass(frozen=True)
class JaroWinkler(Distance):
    """Jaro-Winkler distance, from 0 for equal strings to 1 for strings without common symbols; for names.

    It is 1 - J, where the similarity J is the mean of three fractions: for each string, the symbols that match a symbol
    of the other string within half the longer length; and the matches that are in the same order. If J > 0.7, each of
    up to four symbols of a common prefix reduces the distance by the fraction ``prefix_weight`` (0 to 0.25); 0 gives
    the Jaro distance. Symmetric, but not a metric: the triangle inequality fails.

    Cost: n steps of about 20 instructions for 8 pairs of up to 63 symbols, n + m steps per pair of longer strings.

    Winkler, String comparator metrics and enhanced decision rules in the Fellegi-Sunter model of record linkage (1990);
    values are identical to rapidfuzz.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.distance_matrix(["MARTHA"], ["MARHTA", "MARTHA", "ULF"], distance="jaro-winkler").round(4)
    array([[0.0389, 0.    , 1.    ]])
    """

    prefix_weight: float = 0.1

    ordered = codes = True

    def __post_init__(self) -> None:
        if check_cost("prefix_weight", self.prefix_weight) > MAX_PREFIX_WEIGHT:
            raise ValueError(
                f"prefix_weight must be from 0 to {MAX_PREFIX_WEIGHT}; got {self.prefix_weight!r}."
            )
        object.__setattr__(self, "prefix_weight", float(self.prefix_weight))

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs of comparisons."""
        return CostModel(N_WORDS if sizes.mean() <= MAX_WORD_SYMBOLS else 1, 600 / sizes.mean())

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedStrings:
        """Pack the landmarks; those of at most 63 symbols become bits of a word. Empty strings are allowed."""
        self.reject_weights(weights)
        return pack_single_words(check_codes(points), offsets)

    def fill(self, packed: PackedStrings, points: Codes, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of string i to landmark j. Empty strings are allowed."""
        self.reject_weights(weights)
        codes = check_codes(points)[:, 0]
        arrays = packed.texts, packed.edges, codes, offsets
        fill_short(packed.short, *arrays, np.float64(self.prefix_weight), out)
        fill_long(*arrays, np.float64(self.prefix_weight), out)
