"""Edit distances of one pair of long strings: bit-parallel columns in a band around the diagonal.

A path of at most k edits through the m x n table stays within (k - |m - n|) / 2 cells of the diagonals between its
corners (Ukkonen 1985). Cells outside the band are replaced by valid paths (insertions above, deletions below), so
values are never too small, and correct if they are at most k. A band whose cells all exceed k is abandoned. The next
band has the width predicted from the edits so far, and at least twice the previous width. With swaps
(`_transposition_numba.py`) the band has one more row on each side. Common prefixes and suffixes are skipped. Columns
are bits of 64-bit words (`_bit_parallel_numba.py`; Hyyro 2003 for chains of words); four columns are computed together
for each word, for instruction-level parallelism. Cost: about n d / 64 words for a distance d, and n.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist.distances._tuning import COLUMNS_PER_CHECK, FIRST_BAND_EDITS, MAX_UNBANDED_WORDS

u64 = np.uint64
# Constants of type uint64 (tests/distances/test_levenshtein.py).
ZERO, ONE, TWO, THREE, TOP_BIT = u64(0), u64(1), u64(2), u64(3), u64(63)
# Words and chains of words per tile: multiples of eight 64-bit lanes (python benchmarks/sequence_distances.py).
N_WORDS = 128
N_CHAINS = 32  # python benchmarks/sequence_distances.py
# Kinds: edits of single symbols; also swaps of neighbours; only insertions and deletions
# (tests/distances/test_levenshtein.py).
LEVENSHTEIN, OSA, INDEL = 0, 1, 2


@inline_jit()
def popcount(x):  # type: ignore[no-untyped-def]
    """Return the number of set bits; LLVM compiles this form to one instruction."""
    x = x - ((x >> ONE) & u64(0x5555555555555555))
    x = (x & u64(0x3333333333333333)) + ((x >> TWO) & u64(0x3333333333333333))
    x = (x + (x >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return (x * u64(0x0101010101010101)) >> u64(56)


WORD_BITS = 64  # bits of a uint64, one per row of a column (Myers 1999)
N_ASCII_CODES = 128  # ASCII codes have 7 bits (RFC 20, 1969)
ALL_BITS = ~ZERO  # (Myers 1999)


@inline_jit()
def _next_column(eq, vp, vn, hp_in, hn_in):  # type: ignore[no-untyped-def]
    """Return the next column of a word and the carries of its last row, given the carries of the word above."""
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x | vn
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp >> TOP_BIT, hn >> TOP_BIT
    hp, hn = (hp << ONE) | hp_in, (hn << ONE) | hn_in
    return hn | ~(d0 | hp), hp & d0, hp_out, hn_out


@inline_jit()
def _next_column_with_swaps(eq, previous_eq, vp, vn, d0, hp_in, hn_in, tr_in):  # type: ignore[no-untyped-def]
    """Like `_next_column`, with swaps of neighbours; ``previous_eq`` has the rows with the previous symbol."""
    swap = ~d0 & eq
    tr_out = swap >> TOP_BIT
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x | vn | (((swap << ONE) | tr_in) & previous_eq)
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp >> TOP_BIT, hn >> TOP_BIT
    hp, hn = (hp << ONE) | hp_in, (hn << ONE) | hn_in
    return hn | ~(d0 | hp), hp & d0, d0, hp_out, hn_out, tr_out


@inline_jit()
def _four_columns(table, s0, s1, s2, s3, first, last, vp, vn):  # type: ignore[no-untyped-def]
    """Compute four columns of the words ``first`` to ``last`` - 1; return the growth of their last row."""
    p0 = p1 = p2 = p3 = ONE  # cells above the band are reached by insertions
    q0 = q1 = q2 = q3 = ZERO
    for w in range(first, last):
        x, y = vp[w], vn[w]
        x, y, p0, q0 = _next_column(table[s0 + w], x, y, p0, q0)
        x, y, p1, q1 = _next_column(table[s1 + w], x, y, p1, q1)
        x, y, p2, q2 = _next_column(table[s2 + w], x, y, p2, q2)
        vp[w], vn[w], p3, q3 = _next_column(table[s3 + w], x, y, p3, q3)
    return np.int64(p0 + p1 + p2 + p3) - np.int64(q0 + q1 + q2 + q3)


@inline_jit()
def _four_columns_with_swaps(table, s, s0, s1, s2, s3, first, new, last, vp, vn, ends):  # type: ignore[no-untyped-def]
    """Like `_four_columns`, with swaps of neighbours; the previous column had symbol s, and ``ends`` is its D0.

    Words from ``new`` on have no previous column.
    """
    p0 = p1 = p2 = p3 = ONE
    q0 = q1 = q2 = q3 = t0 = t1 = t2 = t3 = ZERO
    for w in range(first, last):
        x, y, d0 = vp[w], vn[w], ends[w]
        a, b, c, d = table[s0 + w], table[s1 + w], table[s2 + w], table[s3 + w]
        old = table[s + w] if w < new else ZERO
        x, y, d0, p0, q0, t0 = _next_column_with_swaps(a, old, x, y, d0, p0, q0, t0)
        x, y, d0, p1, q1, t1 = _next_column_with_swaps(b, a, x, y, d0, p1, q1, t1)
        x, y, d0, p2, q2, t2 = _next_column_with_swaps(c, b, x, y, d0, p2, q2, t2)
        vp[w], vn[w], ends[w], p3, q3, t3 = _next_column_with_swaps(d, c, x, y, d0, p3, q3, t3)
    return np.int64(p0 + p1 + p2 + p3) - np.int64(q0 + q1 + q2 + q3)


@inline_jit()
def _column_minimum(vp, vn, first, last, bottom):  # type: ignore[no-untyped-def]
    """Return (lower bound on a column, minimum over the last rows of its words); ``bottom`` is the last cell."""
    bound, minimum = bottom, bottom
    w = last
    while w >= first:
        up = np.int64(popcount(vp[w]))
        bound, minimum = min(bound, bottom - up), min(minimum, bottom)
        bottom -= up - np.int64(popcount(vn[w]))
        w -= 1
    return bound, minimum


@inline_jit()
def _band_distance(bases, table, m, words, max_edits, vp, vn, ends, swaps):  # type: ignore[no-untyped-def]
    """Return (distance or a value > ``max_edits``, estimate of the distance), for n >= m > 0, n a multiple of 4."""
    n = len(bases)
    spare = (max_edits - (n - m)) // 2
    above, below = n - m + spare + swaps, spare + swaps  # column j has the rows j - above to j + below
    last, bottom = -1, np.int64(0)
    for j in range(0, n, 4):
        first = max(0, j - above) // WORD_BITS
        previous_last, last = last, min(words - 1, (j + 3 + below) // WORD_BITS)
        bottom += (last - previous_last) * WORD_BITS
        for w in range(previous_last + 1, last + 1):
            vp[w], vn[w] = ALL_BITS, ZERO
        s0, s1, s2, s3 = bases[j], bases[j + 1], bases[j + 2], bases[j + 3]
        if swaps:
            previous_base = bases[j - 1] if j else ZERO  # row of zeros: there is no previous symbol
            bottom += _four_columns_with_swaps(
                table,
                previous_base,
                s0,
                s1,
                s2,
                s3,
                u64(first),
                u64(previous_last + 1),
                u64(last + 1),
                vp,
                vn,
                ends,
            )
        else:
            bottom += _four_columns(table, s0, s1, s2, s3, u64(first), u64(last + 1), vp, vn)
        if j % COLUMNS_PER_CHECK == 0 and j:
            bound, minimum = _column_minimum(vp, vn, first, last, bottom)
            if bound > max_edits:
                return max_edits + 1, minimum * n // j
    unused_rows = ALL_BITS << u64(m % WORD_BITS) if m % WORD_BITS else ZERO  # bits after the last row
    w = words - 1
    result = bottom - np.int64(popcount(vp[w] & unused_rows)) + np.int64(popcount(vn[w] & unused_rows))
    return result, result


@inline_jit()
def strip_common(a, b):  # type: ignore[no-untyped-def]
    """Return the length of the common prefix, and the ends of both strings without their common suffix."""
    n, m, n_prefix = len(a), len(b), 0
    while n_prefix < min(n, m) and a[n_prefix] == b[n_prefix]:
        n_prefix += 1
    while n > n_prefix and m > n_prefix and a[n - 1] == b[m - 1]:
        n, m = n - 1, m - 1
    return n_prefix, n, m


@inline_jit()
def match_table(x, y, bits, numbers):  # type: ignore[no-untyped-def]
    """Return (table of Eq by symbol of y in words of ``bits`` rows, offsets of the symbols of x, number of words).

    Both strings are padded with an extra symbol, so that the length of x is a multiple of four.
    """
    n, m, n_symbols = len(x), len(y), 1
    for i in range(m):
        if numbers[y[i]] < 0:
            numbers[y[i]] = n_symbols
            n_symbols += 1
    pad = -n % 4
    words = -(-(m + pad) // bits)
    table, bases = np.zeros((n_symbols + 1) * words, u64), np.empty(n + pad, u64)
    for i in range(m + pad):
        symbol = numbers[y[i]] if i < m else n_symbols
        table[symbol * words + i // bits] |= ONE << u64(i % bits)
    for i in range(n + pad):
        symbol = max(numbers[x[i]], 0) if i < n else n_symbols  # 0 for symbols that do not occur in y
        bases[i] = u64(symbol * words)
    for i in range(m):
        numbers[y[i]] = -1
    return table, bases, words


@inline_jit()
def banded_distance(a, b, max_edits, single_band, numbers, swaps):  # type: ignore[no-untyped-def]
    """Return the distance of two strings, at most ``max_edits`` + 1; with ``single_band``, only one band is tried.

    ``numbers`` (2^16,) int32 is a buffer of -1, which is restored. With ``swaps``, a swap of neighbours is one edit.
    """
    n_prefix, n, m = strip_common(a, b)
    x, y = (a[n_prefix:n], b[n_prefix:m]) if n >= m else (b[n_prefix:m], a[n_prefix:n])
    n, m = len(x), len(y)
    if m == 0 or n - m > max_edits:
        return min(n, max_edits + 1)
    table, bases, words = match_table(x, y, WORD_BITS, numbers)
    vp, vn, pad = np.empty(words, u64), np.empty(words, u64), len(bases) - n
    ends = np.empty(words if swaps else 0, u64)
    single_band = single_band or words <= MAX_UNBANDED_WORDS
    k, result, predicted = -1, 0, 0
    while result > k and k < max_edits:
        k = (
            max_edits
            if single_band
            else min(max_edits, max(n - m + FIRST_BAND_EDITS, 2 * k, predicted + predicted // 16))
        )
        result, predicted = _band_distance(bases, table, m + pad, words, k, vp, vn, ends, swaps)
    return min(result, max_edits + 1)


@jit()
def unbanded_distance(text, n):  # type: ignore[no-untyped-def]
    """Return the distance of the first n ASCII bytes of a text to the rest, without a band.

    For up to `MAX_UNBANDED_SYMBOLS` symbols, columns have up to four words, and a band would not be faster.
    """
    codes = np.frombuffer(text, np.uint8)
    a, b = codes[:n], codes[n:]
    n_prefix, n, m = strip_common(a, b)
    x, y = (a[n_prefix:n], b[n_prefix:m]) if n >= m else (b[n_prefix:m], a[n_prefix:n])
    n, m = len(x), len(y)
    words = -(-m // WORD_BITS)
    table, vp, vn = np.zeros(N_ASCII_CODES * words, u64), np.full(words, ALL_BITS), np.zeros(words, u64)
    for i in range(m):
        table[y[i] * words + i // WORD_BITS] |= ONE << u64(i % WORD_BITS)
    for j in range(0, n - n % 4, 4):
        s0, s1, s2, s3 = x[j] * words, x[j + 1] * words, x[j + 2] * words, x[j + 3] * words
        _four_columns(table, u64(s0), u64(s1), u64(s2), u64(s3), u64(0), u64(words), vp, vn)
    for j in range(n - n % 4, n):
        hp, hn = ONE, ZERO
        for w in range(words):
            vp[w], vn[w], hp, hn = _next_column(table[x[j] * words + w], vp[w], vn[w], hp, hn)
    if m % WORD_BITS:
        vp[words - 1] &= ~(ALL_BITS << u64(m % WORD_BITS))
        vn[words - 1] &= ~(ALL_BITS << u64(m % WORD_BITS))
    for w in range(words):
        n += np.int64(popcount(vp[w])) - np.int64(popcount(vn[w]))
    return float(n)
