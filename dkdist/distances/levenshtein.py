"""The edit distance of Levenshtein, a block of strings against all random strings at once.

The least number of insertions, deletions and substitutions of single symbols that turn one string into the other
(`bit_parallel` has the formulas). Omegas of at most 63 symbols share 64-bit words, m + 1 bits each, filled from the
longest down; longer ones take ceil(m / 63) words. Cost of a pair: about 11 vector instructions for every symbol of
the object and 8 words, 17 in chains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist.distances import Distance
from dkdist.distances.bit_parallel_loops import LONG, SHORT, fill_long, fill_short
from dkdist.loops.array_types import F32, I64
from dkdist.plain.flags import as_flag
from dkdist.plain.kept import kept

Codes = NDArray[np.uint8] | NDArray[np.uint16]
U64 = NDArray[np.uint64]

BITS = 63  # symbols of a word beside its guard bit


class Tiles(NamedTuple):
    """Words side by side. A field is a part of every word: what a string of a tile has, or a word of its chains.

    ``tables`` holds, tile after tile from ``starts`` on, the rows of Eq: one of zeros for symbols that no string of
    the tile has, then one for each that some has. ``symbols`` (n_tiles, S + 1) are the numbers of these rows, the last
    for all symbols from S on. The fields of tile t are ``fields[t]`` to ``fields[t + 1]``, with their ``rows``
    (n_fields, lanes) in the words. Its strings are ``ends[t]`` to ``ends[t + 1]``: their ``places`` (field * lanes +
    lane of the first symbol, from the tile's first field on), ``columns`` in the result, and ``lengths``.
    """

    tables: U64
    starts: I64
    symbols: NDArray[np.int32]
    fields: I64
    rows: U64
    ends: I64
    places: I64
    columns: I64
    lengths: I64


class PackedStrings(NamedTuple):
    """What `Levenshtein.prepare` gives: strings of at most 63 symbols, and longer ones."""

    n_omegas: int
    short: Tiles
    long: Tiles


@kept
@dataclass(frozen=True)
class Levenshtein(Distance):
    """Levenshtein's edit distance, exact for strings of fewer than 2^24 symbols.

    ``normalize`` divides it by the length of the longer string (0 for two empty ones).

    Examples
    --------
    >>> import dkdist as dk
    >>> round(float(dk.distance_matrix(["kitten", "sitting"], distance=dk.Levenshtein())[0, 1]), 4)
    3.0
    """

    normalize: bool = False

    ordered = codes = True

    def __post_init__(self) -> None:
        as_flag("normalize", self.normalize)

    def prepare(self, points: Codes, offsets: I64, weights: F32 | None = None) -> PackedStrings:
        """The omegas as bits. Empty ones are allowed.

        A tile of 128 words takes 1 KiB for every symbol that its omegas have: little for alphabets up to a few
        hundred symbols, at most 8 MiB when all differ.
        """
        self.refuse_weights(weights)
        codes = _codes(points)
        sizes = np.diff(offsets)
        order = np.argsort(-sizes, kind="stable")
        n_long = int(np.count_nonzero(sizes > BITS))
        return PackedStrings(
            len(sizes),
            _tiles(codes, offsets, _words(sizes, order[n_long:]), SHORT, False),
            _tiles(codes, offsets, _chains(sizes, order[:n_long]), LONG, True),
        )

    def fill(self, packed: PackedStrings, points: Codes, offsets: I64, weights: F32 | None, out: F32) -> None:
        """out[i, j] = distance of string i to omega j; see the package for the contract. Empty strings are allowed."""
        self.refuse_weights(weights)
        codes = _codes(points)
        for fill, tiles in ((fill_short, packed.short), (fill_long, packed.long)):
            fill(tiles, codes[:, 0], offsets, self.normalize, out)


def _codes(points: Codes) -> NDArray[np.uint16]:
    if points.dtype not in (np.uint8, np.uint16) or points.shape[1:] != (1,):
        raise ValueError(
            f"expected codes of symbols, (T, 1) uint8 or uint16, found {points.shape} {points.dtype}"
        )
    return np.ascontiguousarray(points, np.uint16)


# omega, its first symbol here, word (or chain), field, bit of the first symbol
Part = tuple[int, int, int, int, int]


def _words(sizes: I64, order: I64) -> list[list[Part]]:
    """Strings to words by best fit, the longest first; words with many strings first, so that fields are full."""
    words: list[list[tuple[int, int]]] = []
    with_room: list[list[int]] = [[] for _ in range(BITS + 2)]
    for j in order.tolist():
        bits = int(sizes[j]) + 1
        room = next((r for r in range(bits, BITS + 2) if with_room[r]), 0)
        if room:
            word = with_room[room].pop()
        else:
            room, word = BITS + 1, len(words)
            words.append([])
        words[word].append((j, BITS + 1 - room + 1))
        with_room[room - bits].append(word)
    words.sort(key=len, reverse=True)
    return [[(j, 0, w, field, bit) for field, (j, bit) in enumerate(word)] for w, word in enumerate(words)]


def _chains(sizes: I64, order: I64) -> list[list[Part]]:
    """Each string in words of its own, the longest first."""
    return [
        [(j, first, w, first // BITS, 1) for first in range(0, int(sizes[j]), BITS)]
        for w, j in enumerate(order.tolist())
    ]


def _tiles(
    codes: NDArray[np.uint16], offsets: I64, words: list[list[Part]], lanes: int, chained: bool
) -> Tiles:
    """Tiles of so many words or chains."""
    n_symbols = int(codes.max()) + 1 if codes.size else 0
    groups = [words[k : k + lanes] for k in range(0, len(words), lanes)]
    depths = [max(len(word) for word in group) for group in groups]
    fields = np.cumsum([0, *depths])
    rows = np.zeros((int(fields[-1]), lanes), np.uint64)
    symbols, tables = np.zeros((len(groups), n_symbols + 1), np.int32), [np.zeros(0, np.uint64)]
    heads = [[part for word in group for part in word if part[1] == 0] for group in groups]
    for tile, group in enumerate(groups):
        parts = [part for word in group for part in word]
        own = [codes[offsets[j] + first : offsets[j + 1]][:BITS, 0] for j, first, *_ in parts]
        found = np.unique(np.concatenate(own))
        symbols[tile, found] = np.arange(1, len(found) + 1)
        table = np.zeros((len(found) + 1, depths[tile] if chained else 1, lanes), np.uint64)
        for (_, _, w, field, bit), string in zip(parts, own, strict=True):
            marks = np.uint64(1) << np.arange(bit, bit + len(string), dtype=np.uint64)
            rows[fields[tile] + field, w % lanes] = marks.sum(dtype=np.uint64)
            np.bitwise_or.at(table, (symbols[tile, string], field if chained else 0, w % lanes), marks)
        tables.append(table.ravel())
    all_heads = np.array([part for tile_heads in heads for part in tile_heads], np.int64).reshape(-1, 5)
    columns, _, lane, slot, _ = all_heads.T
    return Tiles(
        tables=np.concatenate(tables),
        starts=np.cumsum([table.size for table in tables]),
        symbols=symbols,
        fields=fields,
        rows=rows,
        ends=np.cumsum([0, *(len(tile_heads) for tile_heads in heads)]),
        places=slot * lanes + lane % lanes,
        columns=columns.copy(),
        lengths=np.diff(offsets)[columns],
    )
