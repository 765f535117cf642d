"""Strings packed as bits of 64-bit words, in tiles of words or of chains of words, for `_bit_parallel_numba.py`.

Strings of at most 63 symbols share words, m + 1 bits each, the longest first; longer ones have a chain of ceil(m / 63)
words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import I64
from dkdist._numba.points import cache_lines
from dkdist.distances.strings._banded_numba import N_CHAINS, N_WORDS

Codes = NDArray[np.uint8] | NDArray[np.uint16]
U64 = NDArray[np.uint64]

MAX_WORD_SYMBOLS = 63  # bits of a uint64 except its guard bit (Hyyro 2003)
# Layouts of words: independent, chained, or in chains of an even number of words
# (tests/distances/test_levenshtein.py).
SINGLE_WORDS, CHAINED_WORDS, PAIRED_WORDS = 0, 1, 2


class Tiles(NamedTuple):
    """Tiles of words, one per SIMD lane. A field is the part of one string in every word, or one word of every chain.

    ``tables`` concatenates, from ``starts`` on, the rows of Eq of each tile: a row of zeros for symbols outside the
    tile, then one per symbol of the tile. ``symbols`` (n_tiles, S + 1) maps symbols to these rows; the last entry is
    for all symbols from S on. The fields of tile t are ``fields[t]`` to ``fields[t + 1]`` - 1, with their ``rows``
    (n_fields, lanes) as bits of the words. Its strings are ``ends[t]`` to ``ends[t + 1]`` - 1, with ``places`` (field *
    lanes + lane of the first symbol, relative to the tile's first field), ``columns`` in the result, and ``lengths``.
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
    """Prepared strings: tiles of strings of at most 63 symbols, tiles of longer strings, and all codes with offsets."""

    n_omegas: int
    short: Tiles
    long: Tiles
    texts: NDArray[np.uint16]
    edges: I64


def check_codes(points: Codes) -> NDArray[np.uint16]:
    """Return codes (T, 1) as contiguous uint16."""
    if points.dtype not in (np.uint8, np.uint16) or points.shape[1:] != (1,):
        raise ValueError(
            f"points must be codes of symbols, (T, 1) uint8 or uint16; got {points.dtype} of shape {points.shape}."
        )
    return np.ascontiguousarray(points, np.uint16)


def pack_strings(codes: NDArray[np.uint16], offsets: I64, low: int) -> PackedStrings:
    """Pack strings of codes (T, 1); words of a chain start at bit ``low`` (0 if words are processed in pairs)."""
    sizes = np.diff(offsets)
    order = np.argsort(-sizes, kind="stable")
    n_long = int(np.count_nonzero(sizes > MAX_WORD_SYMBOLS))
    return PackedStrings(
        len(sizes),
        _build_tiles(codes, offsets, _assign_words(sizes, order[n_long:]), N_WORDS, SINGLE_WORDS),
        _build_tiles(
            codes,
            offsets,
            _assign_chains(sizes, order[:n_long], low),
            N_CHAINS,
            CHAINED_WORDS if low else PAIRED_WORDS,
        ),
        codes[:, 0],
        offsets.astype(np.int64),
    )


def pack_single_words(codes: NDArray[np.uint16], offsets: I64) -> PackedStrings:
    """Pack strings of at most 63 symbols in one word each, from bit 0 on; longer ones are not packed."""
    sizes = np.diff(offsets)
    order = np.argsort(-sizes, kind="stable")
    order = order[int(np.count_nonzero(sizes > MAX_WORD_SYMBOLS)) :]
    word, zeros = np.arange(len(order)), np.zeros(len(order), np.int64)
    parts = np.stack([order, zeros, word, zeros, zeros], axis=1)
    short = _build_tiles(codes, offsets, parts, N_WORDS, SINGLE_WORDS)
    empty = _build_tiles(codes, offsets, parts[:0], N_CHAINS, CHAINED_WORDS)
    return PackedStrings(len(sizes), short, empty, codes[:, 0], offsets.astype(np.int64))


def _assign_words(sizes: I64, order: I64) -> I64:
    """Assign strings to words by best fit, the longest first; words with the most strings come first, to fill fields.

    Return a row for each part of a string in one word, sorted by word: the string, the part's first symbol, the word,
    the field, and the bit of that symbol.
    """
    words: list[list[tuple[int, int]]] = []
    words_by_free_bits: list[list[int]] = [[] for _ in range(MAX_WORD_SYMBOLS + 2)]
    for j, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        n_bits = size + 1
        n_free = next((r for r in range(n_bits, MAX_WORD_SYMBOLS + 2) if words_by_free_bits[r]), 0)
        if n_free:
            word = words_by_free_bits[n_free].pop()
        else:
            n_free, word = MAX_WORD_SYMBOLS + 1, len(words)
            words.append([])
        words[word].append((j, MAX_WORD_SYMBOLS + 1 - n_free + 1))
        words_by_free_bits[n_free - n_bits].append(word)
    words.sort(key=len, reverse=True)
    parts = [(j, 0, w, field, bit) for w, word in enumerate(words) for field, (j, bit) in enumerate(word)]
    return np.array(parts, np.int64).reshape(-1, 5)


def _assign_chains(sizes: I64, order: I64, low: int) -> I64:
    """Assign each string to a chain of words, the longest first; return parts like `_assign_words`."""
    lengths = -(-sizes[order] // MAX_WORD_SYMBOLS)
    word = np.repeat(np.arange(len(order)), lengths)
    field = np.arange(len(word)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([order[word], MAX_WORD_SYMBOLS * field, word, field, np.full_like(word, low)], axis=1)


def _build_tiles(codes: NDArray[np.uint16], offsets: I64, parts: I64, lanes: int, chained: int) -> Tiles:
    """Build tiles of ``lanes`` words or chains."""
    omega, first, word, field, bit = parts.T
    tile, lane, sizes = word // lanes, word % lanes, np.diff(offsets)
    n_tiles, n_symbols = int(tile.max(initial=-1)) + 1, int(codes.max(initial=0)) + 1
    depths = np.zeros(n_tiles, np.int64)
    np.maximum.at(depths, tile, field + 1)
    if chained == PAIRED_WORDS:
        depths += depths % 2
    fields = np.concatenate([[0], np.cumsum(depths)])
    lengths = np.minimum(sizes[omega] - first, MAX_WORD_SYMBOLS)
    rows = np.zeros((int(fields[-1]), lanes), np.uint64)
    ones = (np.uint64(1) << lengths.astype(np.uint64)) - np.uint64(1)
    rows[fields[tile] + field, lane] = ones << bit.astype(np.uint64)

    part = np.repeat(np.arange(len(parts)), lengths)  # part of each symbol, and its position within the part
    position = np.arange(len(part)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    symbol = codes[(offsets[omega] + first)[part] + position, 0]
    is_present = np.zeros((n_tiles, n_symbols + 1), np.bool_)
    is_present[tile[part], symbol] = True
    symbols = np.cumsum(is_present, axis=1, dtype=np.int32) * is_present
    width = depths * lanes if chained else np.full_like(depths, lanes)
    starts = np.concatenate([[0], np.cumsum((is_present.sum(axis=1) + 1) * width)])
    first_word = (starts[tile] + (field * lanes if chained else 0) + lane)[part]
    table = cache_lines(2 * int(starts[-1]))[0].view(np.uint64)
    table[:] = 0
    word_index = first_word + symbols[tile[part], symbol].astype(np.int64) * width[tile][part]
    np.bitwise_or.at(table, word_index, np.uint64(1) << (bit[part] + position).astype(np.uint64))

    first_parts = np.flatnonzero(first == 0)
    columns = omega[first_parts]
    return Tiles(
        tables=table,
        starts=starts,
        symbols=symbols,
        fields=fields,
        rows=rows,
        ends=np.searchsorted(tile[first_parts], np.arange(n_tiles + 1)),
        places=field[first_parts] * lanes + lane[first_parts],
        columns=columns.copy(),
        lengths=sizes[columns],
    )
