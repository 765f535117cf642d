"""Columns of the edit distance table as bits of 64-bit words: Myers 1999, in the form of Hyyro 2003.

Neighbouring cells of a column of D differ by -1, 0 or 1, stored as two bits per row: VP (+1) and VN (-1). Each symbol
of the object gives the next column; Eq has a bit for each row with that symbol:

    D0 = (((Eq & VP) + VP) ^ VP) | Eq | VN,   HP = VN | ~(D0 | VP),   HN = D0 & VP,
    VP' = (HN << 1) | ~(D0 | (HP << 1)),      VN' = (HP << 1) & D0

and at the end D_mn = n + |VP| - |VN|. Several strings share a word. Below each string is a guard bit for row 0 of its
table: with VP = VN = Eq = D0 = 0 it stops the carry of the sum and passes HP = 1 to row 1. A string of more than 63
symbols has a chain of words, in which the guard bit represents the last row of the word below: its VP is that row's HN,
and its Eq the complement of that row's HP.

Words are SIMD lanes. All values are integers, so results are exact. Other kinds of distances compute other columns
(`_transposition_numba.py`, `_subsequence_numba.py`) and use the functions of this module.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import max_set_size
from dkdist._numba.simd import CACHE_LINE_FLOATS, offset_to_cache_line
from dkdist.distances._tuning import (
    MAX_BANDED_CHAINS,
    MIN_BANDED_CELLS,
    MIN_LENGTH_PER_EDIT,
    PAIR_OVERHEAD_CELLS,
)
from dkdist.distances.strings._banded_numba import (
    INDEL,
    N_ASCII_CODES,
    N_CHAINS,
    N_WORDS,
    ONE,
    OSA,
    THREE,
    TOP_BIT,
    TWO,
    ZERO,
    banded_distance,
    popcount,
    u64,
)
from dkdist.distances.strings._subsequence_numba import banded_indel_distance, long_common, short_common
from dkdist.distances.strings._transposition_numba import N_NUMBERS, long_with_swaps, short_with_swaps

N_CODES = 2**16  # codes are uint16 (dkdist/sets/strings.py)
WORDS_PER_CACHE_LINE = CACHE_LINE_FLOATS // 2  # dkdist/_numba/simd.py


@inline_jit()
def _next_column(eq, vp, vn, rows):  # type: ignore[no-untyped-def]
    """Return the next column (VP, VN) of words; bits outside ``rows`` are guard bits."""
    d0 = (((((eq & vp) + vp) ^ vp) | eq) | vn) & rows
    hp, hn = (vn | ~(d0 | vp)) << ONE, (d0 & vp) << ONE
    return (hn | ~(d0 | hp)) & rows, hp & d0


@jit()
def _short_columns(table, bases, state):  # type: ignore[no-untyped-def]
    """Process all symbols of a string, with Eq from ``bases`` on; ``state`` (3 * N_WORDS,) is VP, VN and rows."""
    for base in bases:
        for r in range(N_WORDS):
            eq = table[base + u64(r)]
            vp, vn = _next_column(eq, state[r], state[r + N_WORDS], state[r + 2 * N_WORDS])
            state[r], state[r + N_WORDS] = vp, vn


@inline_jit()
def _next_in_chain(eq, vp, vn, hp_in, hn_in, hp_out, hn_out, k):  # type: ignore[no-untyped-def]
    """Return the next column of a word in a chain; bit k of the carries links it to the words below and above."""
    eq = eq | (((hp_in >> k) & ONE) ^ ONE)
    vp = vp | ((hn_in >> k) & ONE)
    d0 = ((((eq & vp) + vp) ^ vp) | eq) | vn
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp_out | ((hp >> TOP_BIT) << k), hn_out | ((hn >> TOP_BIT) << k)
    hp, hn = hp << ONE, hn << ONE
    return (hn | ~(d0 | hp)) & ~ONE, hp & d0, hp_out, hn_out


@jit()
def _long_one(table, base, state):  # type: ignore[no-untyped-def]
    """Process one symbol; ``state`` (6 * N_CHAINS,) is HP, HN of the word below, then VP, VN, HP, HN of this word."""
    for r in range(N_CHAINS):
        hp, hn, vp, vn = state[r], state[r + N_CHAINS], state[r + 2 * N_CHAINS], state[r + 3 * N_CHAINS]
        vp, vn, up, un = _next_in_chain(table[base + u64(r)], vp, vn, hp, hn, ZERO, ZERO, ZERO)
        (
            state[r + 2 * N_CHAINS],
            state[r + 3 * N_CHAINS],
            state[r + 4 * N_CHAINS],
            state[r + 5 * N_CHAINS],
        ) = vp, vn, up, un


@jit()
def _long_four(table, base0, base1, base2, base3, state):  # type: ignore[no-untyped-def]
    """Process four symbols; their carries are bits 0 to 3."""
    for r in range(N_CHAINS):
        k = u64(r)
        hp, hn, vp, vn = state[r], state[r + N_CHAINS], state[r + 2 * N_CHAINS], state[r + 3 * N_CHAINS]
        vp, vn, up, un = _next_in_chain(table[base0 + k], vp, vn, hp, hn, ZERO, ZERO, ZERO)
        vp, vn, up, un = _next_in_chain(table[base1 + k], vp, vn, hp, hn, up, un, ONE)
        vp, vn, up, un = _next_in_chain(table[base2 + k], vp, vn, hp, hn, up, un, TWO)
        vp, vn, up, un = _next_in_chain(table[base3 + k], vp, vn, hp, hn, up, un, THREE)
        (
            state[r + 2 * N_CHAINS],
            state[r + 3 * N_CHAINS],
            state[r + 4 * N_CHAINS],
            state[r + 5 * N_CHAINS],
        ) = vp, vn, up, un


@jit()
def _long_columns(table, bases, words, state):  # type: ignore[no-untyped-def]
    """Process all symbols of a string in chains of words; ``state`` is HP, HN, then VP, VN, HP, HN of each word."""
    tail = len(bases) - len(bases) % 4
    for i in range(0, tail, 4):
        a, b, c, d = bases[i], bases[i + 1], bases[i + 2], bases[i + 3]
        for w in range(words):
            word, offset = state[4 * w * N_CHAINS : (4 * w + 6) * N_CHAINS], u64(w * N_CHAINS)
            _long_four(table, a + offset, b + offset, c + offset, d + offset, word)
    for base in bases[tail:]:
        for w in range(words):
            _long_one(table, base + u64(w * N_CHAINS), state[4 * w * N_CHAINS : (4 * w + 6) * N_CHAINS])


@jit()
def _add_heights(vp, vn, rows, heights):  # type: ignore[no-untyped-def]
    """Add |VP| - |VN| of the rows of each lane to ``heights``."""
    for r in range(len(heights)):
        heights[r] += np.float32(np.int64(popcount(vp[r] & rows[r])) - np.int64(popcount(vn[r] & rows[r])))


@inline_jit()
def _max_distance(n, m, kind):  # type: ignore[no-untyped-def]
    """Return the distance of strings of n and m symbols that have no symbols in common."""
    return n + m if kind == INDEL else max(n, m)


@jit()
def _write_distances(heights, positions, columns, lengths, n, kind, max_edits, normalize, out):  # type: ignore[no-untyped-def]
    """Write distances to their columns, clipped to ``max_edits`` + 1 and optionally normalized."""
    for k in range(len(positions)):
        distance = min(heights[positions[k]], np.float32(max_edits + 1))
        out[columns[k]] = (
            distance / np.float32(max(_max_distance(n, lengths[k], kind), 1)) if normalize else distance
        )


@jit()
def find_bases(codes, rows_of_symbols, row_words, bases):  # type: ignore[no-untyped-def]
    """Fill ``bases`` with the table positions of the Eq rows for the symbols of a string."""
    last = len(rows_of_symbols) - 1
    for i in range(len(bases)):
        bases[i] = u64(rows_of_symbols[min(np.int64(codes[i]), last)] * row_words)


@inline_jit()
def _aligned_zeros(n):  # type: ignore[no-untyped-def]
    """Allocate zeros aligned to cache lines; otherwise half of the vectors would span two lines."""
    buffer = np.zeros(n + WORDS_PER_CACHE_LINE, u64)
    offset = offset_to_cache_line(buffer) // 2  # offset_to_cache_line counts float32 values, two per word
    return buffer[offset : offset + n]


@jit()
def fill_short(tiles, codes, offsets, kind, max_edits, normalize, out):  # type: ignore[no-untyped-def]
    """Fill the columns of strings of at most 63 symbols; ``tiles`` is a `tiles.Tiles`."""
    tables, starts, symbols, fields, rows, ends, positions, columns, lengths = tiles
    state, bases = _aligned_zeros(4 * N_WORDS), np.empty(max_set_size(offsets), u64)
    for tile in range(len(symbols)):
        table, tile_rows = tables[starts[tile] : starts[tile + 1]], rows[fields[tile] : fields[tile + 1]]
        heights = np.empty(tile_rows.shape, np.float32)
        span = slice(ends[tile], ends[tile + 1])
        for field in range(len(tile_rows)):
            for lane in range(N_WORDS):
                previous = ZERO if field == 0 else state[2 * N_WORDS + lane]
                state[2 * N_WORDS + lane] = previous | tile_rows[field, lane]
        for s in range(len(offsets) - 1):
            start, n = offsets[s], offsets[s + 1] - offsets[s]
            find_bases(codes[start : start + n], symbols[tile], N_WORDS, bases[:n])
            for lane in range(N_WORDS):
                state[lane], state[N_WORDS + lane] = state[2 * N_WORDS + lane], ZERO
            if kind == OSA:
                short_with_swaps(table, bases[:n], state)
            elif kind == INDEL:
                short_common(table, bases[:n], state)
            else:
                _short_columns(table, bases[:n], state)
            heights[:] = np.float32(n)
            for field in range(len(tile_rows)):
                _add_heights(state[:N_WORDS], state[N_WORDS : 2 * N_WORDS], tile_rows[field], heights[field])
            _write_distances(
                heights.ravel(),
                positions[span],
                columns[span],
                lengths[span],
                n,
                kind,
                max_edits,
                normalize,
                out[s],
            )


@inline_jit()
def _pair_distance(a, b, kind, max_edits, single_band, numbers):  # type: ignore[no-untyped-def]
    """Return the distance of one pair, in bands."""
    if kind == INDEL:
        return banded_indel_distance(a, b, max_edits, single_band, numbers)
    return banded_distance(a, b, max_edits, single_band, numbers, kind == OSA)


@jit()
def _fill_by_bands(a, texts, edges, columns, kind, max_edits, normalize, numbers, out):  # type: ignore[no-untyped-def]
    """Fill distances of a string in bands: to all other strings if they are few, else only to nearly equal ones.

    Return whether all distances were filled.
    """
    cells = len(a) * (edges[columns[0] + 1] - edges[columns[0]])  # table size for the longest string
    is_small, is_complete = len(columns) * (cells + PAIR_OVERHEAD_CELLS) < MAX_BANDED_CHAINS * cells, True
    for j in columns:
        b = texts[edges[j] : edges[j + 1]]
        max_distance = _max_distance(len(a), len(b), kind)
        if not is_small and len(a) * len(b) < MIN_BANDED_CELLS:
            return False
        k = min(max_edits, max_distance if is_small else max_distance // MIN_LENGTH_PER_EDIT)
        result = _pair_distance(a, b, kind, k, not is_small, numbers)
        if result > k and k < max_edits:
            is_complete = False
            continue
        out[j] = np.float32(result) / np.float32(max_distance) if normalize else np.float32(result)
    return is_complete


@jit()
def _init_chains(state, words, kind):  # type: ignore[no-untyped-def]
    """Set the state of chains before the first symbol."""
    if kind == INDEL:
        state[: 2 * words * N_CHAINS] = ~(ONE << TOP_BIT)
        return
    n_numbers = N_NUMBERS if kind == OSA else 4
    state[:N_CHAINS] = ~ZERO  # HP = 1: row 0 of the table increases by one per symbol
    for w in range(words):
        vp = (n_numbers * (w + 1) - 2 - (kind == OSA)) * N_CHAINS
        state[vp : vp + N_CHAINS] = ~ONE
        state[vp + N_CHAINS : vp + 2 * N_CHAINS] = ZERO


@jit()
def fill_long(tiles, texts, edges, codes, offsets, kind, max_edits, normalize, out):  # type: ignore[no-untyped-def]
    """Fill the columns of longer strings, whose fields are the consecutive words of a chain.

    ``texts`` and ``edges`` are the codes and offsets of the strings, for comparisons in bands.
    """
    tables, starts, symbols, fields, rows, ends, positions, columns, lengths = tiles
    heights, bases = np.empty(N_CHAINS, np.float32), np.empty(max_set_size(offsets), u64)
    numbers = np.full(N_CODES if len(symbols) else 0, -1, np.int32)
    # State values per word, and the position of VP among them.
    n_numbers, vp_position = (2, 0) if kind == INDEL else (N_NUMBERS, 3) if kind == OSA else (4, 2)
    for tile in range(len(symbols)):
        table, tile_rows = tables[starts[tile] : starts[tile + 1]], rows[fields[tile] : fields[tile + 1]]
        words = len(tile_rows)
        state = _aligned_zeros((n_numbers * words + 3) * N_CHAINS)
        span = slice(ends[tile], ends[tile + 1])
        for s in range(len(offsets) - 1):
            start, n = offsets[s], offsets[s + 1] - offsets[s]
            string = codes[start : start + n]
            if _fill_by_bands(
                string, texts, edges, columns[span], kind, max_edits, normalize, numbers, out[s]
            ):
                continue
            find_bases(string, symbols[tile], words * N_CHAINS, bases[:n])
            _init_chains(state, words, kind)
            if kind == OSA:
                long_with_swaps(table, bases[:n], words, state)
            elif kind == INDEL:
                long_common(table, bases[:n], words, state)
            else:
                _long_columns(table, bases[:n], words, state)
            heights[:] = np.float32(n)
            for w in range(words):
                vp = (n_numbers * w + vp_position) * N_CHAINS
                _add_heights(
                    state[vp : vp + N_CHAINS], state[vp + N_CHAINS : vp + 2 * N_CHAINS], tile_rows[w], heights
                )
            _write_distances(
                heights, positions[span], columns[span], lengths[span], n, kind, max_edits, normalize, out[s]
            )


@inline_jit()
def _empty_symbol_table(codes):  # type: ignore[no-untyped-def]
    """Return a table that maps each of these symbols to -1."""
    largest = codes[0]
    for code in codes:
        largest = max(largest, code)
    return np.full(np.int64(largest) + 1, -1, np.int32)


@jit()
def text_pair_distance(text, n, kind):  # type: ignore[no-untyped-def]
    """Return the distance of the first n ASCII bytes of a text to the rest."""
    codes = np.frombuffer(text, np.uint8)
    a, b = codes[:n], codes[n:]
    return float(
        _pair_distance(
            a, b, kind, _max_distance(len(a), len(b), kind), False, np.full(N_ASCII_CODES, -1, np.int32)
        )
    )


@jit()
def fill_small_matrix(codes, edges, same, kind, max_edits, normalize, out):  # type: ignore[no-untyped-def]
    """Fill distances of the first n strings to the next m, or with ``same`` of n strings to each other."""
    numbers = _empty_symbol_table(codes)
    n, m = out.shape
    for i in range(n):
        a = codes[edges[i] : edges[i + 1]]
        for j in range(i + 1 if same else 0, m):
            k = j if same else n + j
            b = codes[edges[k] : edges[k + 1]]
            max_distance = _max_distance(len(a), len(b), kind)
            result = _pair_distance(a, b, kind, min(max_edits, max_distance), False, numbers)
            out[i, j] = np.float32(result) / np.float32(max_distance) if normalize else np.float32(result)
            if same:
                out[j, i] = out[i, j]
