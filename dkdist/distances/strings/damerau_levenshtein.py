"""Unrestricted Damerau-Levenshtein distance, with edits between swapped symbols."""

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
    """Landmarks in SIMD lanes: ``Y`` (steps, lanes) are symbol numbers, 0 after the end; see `_damerau_numba.py`."""

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
    """Minimal number of insertions, deletions, substitutions and swaps of neighbours between two strings.

    A metric, unlike optimal string alignment (`Levenshtein` with ``transposition=1``): symbols between two swapped ones
    may be inserted or deleted ("ca" to "abc" needs 2 edits instead of 3). Exact for strings of fewer than 2^24 symbols.

    ``cutoff`` replaces larger distances by ``cutoff`` + 1, which is still a metric; ``normalize`` divides by the length
    of the longer string (0 for two empty strings), which is not a metric.

    A call with two str takes a few microseconds if rapidfuzz is installed (``pip install 'dkdist[strings]'``), with the
    same results. Cost per pair in a matrix: n m cells of about 30 instructions for 64 strings, twice as many for more
    than 62 symbols.

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
        """Return the distance of two objects, bitwise identical to `distance_matrix`; two str skip most checks."""
        has_options = self.normalize or self.cutoff is not None
        distance = None if has_options else text_distance(self.peer_name, x, y)
        return super().__call__(x, y) if distance is None else distance

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs of comparisons with tiles."""
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
        max_edits = MAX_COST if self.cutoff is None else self.cutoff
        text = read_only(check_codes(points)[:, 0]), read_only(offsets)
        for tile in packed.tiles:
            fill_lanes(*(read_only(array) for array in tile), *text, max_edits, self.normalize, out)


def _build_tile(codes: NDArray[np.uint16], offsets: I64, columns: I64, lanes: int) -> Tile:
    """Pack strings in lanes, the longest first, in the narrowest type that holds their tables."""
    lengths = offsets[columns + 1] - offsets[columns]
    lane = np.repeat(np.arange(len(columns)), lengths)
    position = np.arange(len(lane)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    symbol = codes[offsets[columns][lane] + position]
    is_present = np.zeros(int(symbol.max(initial=0)) + 2, np.bool_)
    is_present[symbol] = True
    numbers = (np.cumsum(is_present, dtype=np.int32) * is_present).astype(np.int32)
    steps, n_symbols = int(lengths[0]), int(numbers.max())
    dtype = next(
        dtype
        for dtype, max_steps, max_symbols in DTYPE_LIMITS
        if steps <= max_steps and n_symbols <= max_symbols
    )
    Y = np.zeros((steps, lanes), dtype)
    Y[position, lane] = numbers[symbol]
    return Tile(Y, numbers, columns.astype(np.int64), lengths.astype(np.int64))
