"""The edit distance of Damerau and Levenshtein without restrictions: swapped neighbours may be edited again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import check_int
from dkdist._numba.arrays import F32, I64
from dkdist._numba.points import read_only
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances._tuning import MAX_NARROW_TILES
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.strings._damerau_numba import NARROW_LANES, WIDE_LANES, fill_lanes
from dkdist.distances.strings._fast_path import text_distance
from dkdist.distances.strings.costs import MAX_COST
from dkdist.distances.strings.tiles import Codes, check_codes

DTYPE_LIMITS = (np.int8, 62, 126), (np.int16, 16_000, 32_766), (np.int32, MAX_COST, MAX_COST)
"""(type, maximum length, maximum number of different symbols) of tiles; derived in `_damerau_numba.py`."""


class Tile(NamedTuple):
    """Landmarks in lanes: ``Y`` (steps, lanes) numbers of symbols, 0 after the end; see `_damerau_numba.py`."""

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
    peer_name = "DamerauLevenshtein"

    def __post_init__(self) -> None:
        check_bool("normalize", self.normalize)
        if self.cutoff is not None:
            check_int("cutoff", self.cutoff, 0, MAX_COST)

    def __call__(self, x: Any, y: Any) -> float:
        """Return the distance of two objects, with the bits of `distance_matrix`; two str skip most checks."""
        has_options = self.normalize or self.cutoff is not None
        distance = None if has_options else text_distance(self.peer_name, x, y)
        return super().__call__(x, y) if distance is None else distance

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs: tiles are filled by whole arrays."""
        return CostModel(WIDE_LANES, 300 / sizes.mean())

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedDamerau:
        """Pack the landmarks in lanes, the longest first. Empty strings are allowed."""
        self.reject_weights(weights)
        codes, sizes = check_codes(points)[:, 0], np.diff(offsets)
        order, tiles = np.argsort(-sizes, kind="stable"), []
        while len(order):
            lanes = WIDE_LANES if len(order) > MAX_NARROW_TILES * NARROW_LANES else NARROW_LANES
            tiles.append(_build_tile(codes, offsets, order[:lanes], lanes))
            order = order[lanes:]
        return PackedDamerau(len(sizes), tuple(tiles))

    def fill(self, packed: PackedDamerau, points: Codes, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of string i to landmark j. Empty strings are allowed."""
        self.reject_weights(weights)
        most = MAX_COST if self.cutoff is None else self.cutoff
        text = read_only(check_codes(points)[:, 0]), read_only(offsets)
        for tile in packed.tiles:
            fill_lanes(*(read_only(array) for array in tile), *text, most, self.normalize, out)


def _build_tile(codes: NDArray[np.uint16], offsets: I64, columns: I64, lanes: int) -> Tile:
    """Pack strings in lanes, the longest first, in the narrowest type that holds their tables."""
    lengths = offsets[columns + 1] - offsets[columns]
    own = np.repeat(np.arange(len(columns)), lengths)
    place = np.arange(len(own)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    symbol = codes[offsets[columns][own] + place]
    result = np.zeros(int(symbol.max(initial=0)) + 2, np.bool_)
    result[symbol] = True
    numbers = (np.cumsum(result, dtype=np.int32) * result).astype(np.int32)
    steps, kinds = int(lengths[0]), int(numbers.max())
    dtype = next(dtype for dtype, longest, most in DTYPE_LIMITS if steps <= longest and kinds <= most)
    Y = np.zeros((steps, lanes), dtype)
    Y[place, own] = numbers[symbol]
    return Tile(Y, numbers, columns.astype(np.int64), lengths.astype(np.int64))
