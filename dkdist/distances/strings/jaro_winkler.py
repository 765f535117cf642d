"""The distance of Jaro and Winkler, for names and other short texts (`jaro_winkler_loops` has the formulas)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.strings._banded_numba import SHORT
from dkdist.distances.strings._jaro_winkler_numba import fill_places, fill_words
from dkdist.distances.strings.costs import cost
from dkdist.distances.strings.tiles import BITS, Codes, PackedStrings, codes_of, words_alone

MOST_WEIGHT = 0.25  # of a symbol: four of them make strings equal


@serializable("JaroWinkler")
@dataclass(frozen=True)
class JaroWinkler(Distance):
    """The distance of Jaro and Winkler, 0 for equal strings to 1 for strings without a common symbol: for names.

    1 - J, where the similarity J is the mean of three shares: of the symbols of each string that the other has near the
    same place, at most half the longer length away, and of those that are in the same order. Where J is above 0.7,
    each of up to four symbols of a common beginning takes ``prefix_weight`` (0 to 0.25) off the distance, as a share;
    with 0 that is the distance of Jaro. Symmetric, but no metric: the triangle inequality fails.

    Cost of a pair: n steps of some 20 instructions for 8 pairs up to 63 symbols, n + m steps beyond.

    Winkler, String comparator metrics and enhanced decision rules in the Fellegi-Sunter model of record linkage (1990);
    the values are those of rapidfuzz.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.distance_matrix(["MARTHA"], ["MARHTA", "MARTHA", "ULF"], distance="jaro-winkler").round(4)
    array([[0.0389, 0.    , 1.    ]])
    """

    prefix_weight: float = 0.1

    ordered = codes = True

    def __post_init__(self) -> None:
        if cost("prefix_weight", self.prefix_weight) > MOST_WEIGHT:
            raise ValueError(
                f"prefix_weight must lie between 0 and {MOST_WEIGHT}, lest four symbols more than make strings equal; "
                f"found {self.prefix_weight!r}"
            )
        object.__setattr__(self, "prefix_weight", float(self.prefix_weight))

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """How pairs are best cut into tasks."""
        return CostModel(SHORT if sizes.mean() <= BITS else 1, 600 / sizes.mean())

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedStrings:
        """The omegas as they are, and those of at most 63 symbols as bits, a word each. Empty ones are allowed."""
        self.refuse_weights(weights)
        return words_alone(codes_of(points), offsets)

    def fill(self, packed: PackedStrings, points: Codes, offsets: I64, weights: F32 | None, out: F32) -> None:
        """out[i, j] = distance of string i to omega j; see the package for the contract. Empty strings are allowed."""
        self.refuse_weights(weights)
        codes = codes_of(points)[:, 0]
        arrays = packed.texts, packed.edges, codes, offsets
        fill_words(packed.short, *arrays, np.float64(self.prefix_weight), out)
        fill_places(*arrays, np.float64(self.prefix_weight), out)
