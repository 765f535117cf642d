"""The edit distance of Damerau and Levenshtein without restrictions: swapped neighbours may be edited again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import whole
from dkdist._numba.arrays import F32, I64
from dkdist._numba.points import read_only
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.strings._damerau_numba import NARROW, WIDE, fill_lanes
from dkdist.distances.strings._fast_path import pair_of_texts
from dkdist.distances.strings.costs import MAX_COST
from dkdist.distances.strings.tiles import Codes, codes_of

SIZES = ((np.int8, 62, 126), (np.int16, 16_000, 32_766), (np.int32, MAX_COST, MAX_COST))
"""Types, for omegas of so many symbols at most, of which a tile has so many kinds."""


FEW = 2  # narrow tiles that take less than a wide one


class Tile(NamedTuple):
    """Omegas side by side: ``Y`` (steps, lanes) numbers of symbols, 0 behind the end; see `damerau_loops`."""

    Y: NDArray[Any]
    symbols: NDArray[np.int32]
    columns: I64
    lengths: I64


class PackedDamerau(NamedTuple):
    """Prepared strings."""

    n_omegas: int
    tiles: tuple[Tile, ...]


@serializable("DamerauLevenshtein")
@dataclass(frozen=True)
class DamerauLevenshtein(Distance):
    """The least insertions, deletions, substitutions and swaps of neighbours that turn one string into another.

    A metric, where optimal string alignment (`Levenshtein` with ``transposition=1``) is none: here symbols may be
    inserted between two that are swapped, and some between them deleted ("ca" to "abc" takes 2 edits there 3). Exact
    for strings of fewer than 2^24 symbols.

    ``cutoff`` gives distances above it as ``cutoff`` + 1, a metric still; ``normalize`` divides by the length of the
    longer string (0 for two empty ones), and is none.

    Called with two str it takes some microseconds if rapidfuzz is there (``pip install 'dkdist[strings]'``), whose
    whole numbers are the same. Cost of a pair in a matrix: n m cells of some 30 instructions for 64 strings, twice
    as many beyond 62 symbols.

    Lowrance and Wagner, An extension of the string-to-string correction problem (1975); Zhao and Sahinalp,
    String correction using the Damerau-Levenshtein distance (2019).

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.distance_matrix(["ca"], ["abc", "ac", "ca"], distance="damerau-levenshtein")
    array([[2., 1., 0.]])
    >>> dk.distance_matrix(["ca"], ["abc", "ac", "ca"], distance="osa")
    array([[3., 1., 0.]])
    """

    normalize: bool = False
    cutoff: int | None = None

    ordered = codes = True
    like = "DamerauLevenshtein"

    def __post_init__(self) -> None:
        check_bool("normalize", self.normalize)
        if self.cutoff is not None:
            whole("cutoff", self.cutoff, 0, MAX_COST)

    def __call__(self, x: Any, y: Any) -> float:
        """The distance of two objects, bit for bit as `distance_matrix` has it; two str are compared at once."""
        found = None if self.normalize or self.cutoff is not None else pair_of_texts(self.like, x, y)
        return super().__call__(x, y) if found is None else found

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """Tiles are filled with symbols by whole arrays."""
        return CostModel(WIDE, 300 / sizes.mean())

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedDamerau:
        """The omegas in lanes, the longest first. Empty ones are allowed."""
        self.refuse_weights(weights)
        codes, sizes = codes_of(points)[:, 0], np.diff(offsets)
        order, tiles = np.argsort(-sizes, kind="stable"), []
        while len(order):
            lanes = WIDE if len(order) > FEW * NARROW else NARROW
            tiles.append(_tile(codes, offsets, order[:lanes], lanes))
            order = order[lanes:]
        return PackedDamerau(len(sizes), tuple(tiles))

    def fill(self, packed: PackedDamerau, points: Codes, offsets: I64, weights: F32 | None, out: F32) -> None:
        """out[i, j] = distance of string i to omega j; see the package for the contract. Empty strings are allowed."""
        self.refuse_weights(weights)
        most = MAX_COST if self.cutoff is None else self.cutoff
        text = read_only(codes_of(points)[:, 0]), read_only(offsets)
        for tile in packed.tiles:
            fill_lanes(*(read_only(array) for array in tile), *text, most, self.normalize, out)


def _tile(codes: NDArray[np.uint16], offsets: I64, columns: I64, lanes: int) -> Tile:
    """Strings side by side, the longest first, in the narrowest numbers that hold their tables."""
    lengths = offsets[columns + 1] - offsets[columns]
    own = np.repeat(np.arange(len(columns)), lengths)
    place = np.arange(len(own)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    symbol = codes[offsets[columns][own] + place]
    found = np.zeros(int(symbol.max(initial=0)) + 2, np.bool_)
    found[symbol] = True
    numbers = (np.cumsum(found, dtype=np.int32) * found).astype(np.int32)
    steps, kinds = int(lengths[0]), int(numbers.max())
    dtype = next(dtype for dtype, longest, most in SIZES if steps <= longest and kinds <= most)
    Y = np.zeros((steps, lanes), dtype)
    Y[place, own] = numbers[symbol]
    return Tile(Y, numbers, columns.astype(np.int64), lengths.astype(np.int64))
