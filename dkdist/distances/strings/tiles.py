"""Strings side by side as bits of 64-bit words, in tiles of some words or chains of words.

Strings of at most 63 symbols share words, m + 1 bits each, filled from the longest down; longer ones take a chain of
ceil(m / 63) words. `_bit_parallel_numba.py` says what becomes of them.
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

MAX_WORD_SYMBOLS = 63  # bits of a uint64 without its guard bit (Hyyro 2003)
# Layouts of words: independent, chained, or chained with an even number (tests/distances/test_levenshtein.py).
SINGLE_WORDS, CHAINED_WORDS, PAIRED_WORDS = 0, 1, 2


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
    """Prepared strings: those of at most 63 symbols, longer ones, and all as they came."""

    n_omegas: int
    short: Tiles
    long: Tiles
    texts: NDArray[np.uint16]
    edges: I64


def check_codes(points: Codes) -> NDArray[np.uint16]:
    """Codes (T, 1) as the loops take them."""
    if points.dtype not in (np.uint8, np.uint16) or points.shape[1:] != (1,):
        raise ValueError(
            f"expected codes of symbols, (T, 1) uint8 or uint16, found {points.shape} {points.dtype}"
        )
    return np.ascontiguousarray(points, np.uint16)


def pack_strings(codes: NDArray[np.uint16], offsets: I64, low: int) -> PackedStrings:
    """Strings of codes (T, 1) as bits; words of a chain begin with bit ``low``, at 0 for two words at once."""
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
    """Strings of at most 63 symbols in a word each, from bit 0 on; longer ones as they are."""
    sizes = np.diff(offsets)
    order = np.argsort(-sizes, kind="stable")
    order = order[int(np.count_nonzero(sizes > MAX_WORD_SYMBOLS)) :]
    word, none = np.arange(len(order)), np.zeros(len(order), np.int64)
    parts = np.stack([order, none, word, none, none], axis=1)
    short = _build_tiles(codes, offsets, parts, N_WORDS, SINGLE_WORDS)
    empty = _build_tiles(codes, offsets, parts[:0], N_CHAINS, CHAINED_WORDS)
    return PackedStrings(len(sizes), short, empty, codes[:, 0], offsets.astype(np.int64))


def _assign_words(sizes: I64, order: I64) -> I64:
    """Strings to words by best fit, the longest first; words with many strings first, so that fields are full.

    The rows of what is given, one for each part of a string that is in one word, sorted by words: the string, its first
    symbol there, the word, the field, and the bit of that symbol.
    """
    words: list[list[tuple[int, int]]] = []
    with_room: list[list[int]] = [[] for _ in range(MAX_WORD_SYMBOLS + 2)]
    for j, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        bits = size + 1
        room = next((r for r in range(bits, MAX_WORD_SYMBOLS + 2) if with_room[r]), 0)
        if room:
            word = with_room[room].pop()
        else:
            room, word = MAX_WORD_SYMBOLS + 1, len(words)
            words.append([])
        words[word].append((j, MAX_WORD_SYMBOLS + 1 - room + 1))
        with_room[room - bits].append(word)
    words.sort(key=len, reverse=True)
    parts = [(j, 0, w, field, bit) for w, word in enumerate(words) for field, (j, bit) in enumerate(word)]
    return np.array(parts, np.int64).reshape(-1, 5)


def _assign_chains(sizes: I64, order: I64, low: int) -> I64:
    """Each string in words of its own, the longest first; parts as `_assign_words` gives them."""
    lengths = -(-sizes[order] // MAX_WORD_SYMBOLS)
    word = np.repeat(np.arange(len(order)), lengths)
    field = np.arange(len(word)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([order[word], MAX_WORD_SYMBOLS * field, word, field, np.full_like(word, low)], axis=1)


def _build_tiles(codes: NDArray[np.uint16], offsets: I64, parts: I64, lanes: int, chained: int) -> Tiles:
    """Tiles of so many words or chains."""
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
    marks = (np.uint64(1) << lengths.astype(np.uint64)) - np.uint64(1)
    rows[fields[tile] + field, lane] = marks << bit.astype(np.uint64)

    own = np.repeat(np.arange(len(parts)), lengths)  # the part of each symbol, and its place there
    place = np.arange(len(own)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    symbol = codes[(offsets[omega] + first)[own] + place, 0]
    result = np.zeros((n_tiles, n_symbols + 1), np.bool_)
    result[tile[own], symbol] = True
    symbols = np.cumsum(result, axis=1, dtype=np.int32) * result
    width = depths * lanes if chained else np.full_like(depths, lanes)
    starts = np.concatenate([[0], np.cumsum((result.sum(axis=1) + 1) * width)])
    within = (starts[tile] + (field * lanes if chained else 0) + lane)[own]
    table = cache_lines(2 * int(starts[-1]))[0].view(np.uint64)
    table[:] = 0
    at = within + symbols[tile[own], symbol].astype(np.int64) * width[tile][own]
    np.bitwise_or.at(table, at, np.uint64(1) << (bit[own] + place).astype(np.uint64))

    heads = np.flatnonzero(first == 0)
    columns = omega[heads]
    return Tiles(
        tables=table,
        starts=starts,
        symbols=symbols,
        fields=fields,
        rows=rows,
        ends=np.searchsorted(tile[heads], np.arange(n_tiles + 1)),
        places=field[heads] * lanes + lane[heads],
        columns=columns.copy(),
        lengths=sizes[columns],
    )
