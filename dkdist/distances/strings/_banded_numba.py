"""The edit distance of one pair of long strings: columns as bits, in a band that widens until it holds the best way.

A way of at most k edits from corner to corner of the m x n table keeps within (k - |m - n|) / 2 of the cells between
them (Ukkonen 1985). What lies outside is replaced by ways that exist - another insertion above, another deletion below
- so that values are never too small, and right if they are at most k. A band whose cells are all above k is given up at
once, and the next is made as wide as the edits so far foretell, at least twice as wide. So it is where neighbours may
be swapped (`transposition_loops`): both ends of a swap are on one diagonal, and a row more on each side tells of it.
Common beginnings and ends cost a comparison. Columns are bits (`bit_parallel_loops`; the form of Hyyro 2003 for chains
of words); four go through the chain together, which keeps a processor's units busy. Cost: some n d / 64 words for a
distance d, and n.

Words of 64 bits, which edit distances keep their columns in.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit

u64 = np.uint64
ZERO, ONE, TWO, THREE, TOP_BIT = u64(0), u64(1), u64(2), u64(3), u64(63)
N_WORDS = 128  # words at a time, each with one or more strings
N_CHAINS = 32  # chains of words at a time
LEVENSHTEIN, OSA, INDEL = (
    0,
    1,
    2,
)  # kinds: Levenshtein's, with swaps of neighbours, of insertions and deletions alone


@inline_jit()
def popcount(x):  # type: ignore[no-untyped-def]
    """The number of bits that are set; compilers know this form."""
    x = x - ((x >> ONE) & u64(0x5555555555555555))
    x = (x & u64(0x3333333333333333)) + ((x >> TWO) & u64(0x3333333333333333))
    x = (x + (x >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return (x * u64(0x0101010101010101)) >> u64(56)


WORD_BITS = 64  # rows of a word
COLUMNS_PER_CHECK = 64  # columns from one look at the whole band to the next
FIRST_BAND_EDITS = 31  # edits that the first band is for
MAX_UNBANDED_WORDS = 2  # words of a column that is not worth a band
N_ASCII_CODES = 128  # codes
MAX_UNBANDED_SYMBOLS = 256  # symbols: columns of four words
ALL_BITS = ~ZERO


@inline_jit()
def _next_column(eq, vp, vn, hp_in, hn_in):  # type: ignore[no-untyped-def]
    """The next column of a word, and what its last row grew by, from what the row above its first grew by."""
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x | vn
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp >> TOP_BIT, hn >> TOP_BIT
    hp, hn = (hp << ONE) | hp_in, (hn << ONE) | hn_in
    return hn | ~(d0 | hp), hp & d0, hp_out, hn_out


@inline_jit()
def _next_column_with_swaps(eq, before, vp, vn, d0, hp_in, hn_in, tr_in):  # type: ignore[no-untyped-def]
    """The same where neighbours may be swapped; ``before`` are the rows with the symbol before."""
    swap = ~d0 & eq
    tr_out = swap >> TOP_BIT
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x | vn | (((swap << ONE) | tr_in) & before)
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp >> TOP_BIT, hn >> TOP_BIT
    hp, hn = (hp << ONE) | hp_in, (hn << ONE) | hn_in
    return hn | ~(d0 | hp), hp & d0, d0, hp_out, hn_out, tr_out


@inline_jit()
def _four_columns(table, s0, s1, s2, s3, first, last, vp, vn):  # type: ignore[no-untyped-def]
    """Four columns of words from ``first`` to before ``last``, and what their last row grew by."""
    p0 = p1 = p2 = p3 = ONE  # a row of insertions above the band
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
    """The same where neighbours may be swapped; the column before had symbol s, and ``ends`` is its D0.

    Words from ``new`` on had no column before: its symbol was equal to none of theirs.
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
    """(a bound below all cells of a column, the least of those in the last rows of words); ``bottom`` is the lowest."""
    bound, least = bottom, bottom
    w = last
    while w >= first:
        up = np.int64(popcount(vp[w]))
        bound, least = min(bound, bottom - up), min(least, bottom)
        bottom -= up - np.int64(popcount(vn[w]))
        w -= 1
    return bound, least


@inline_jit()
def _band_distance(bases, table, m, words, most, vp, vn, ends, swaps):  # type: ignore[no-untyped-def]
    """(the distance or more than ``most``, what the whole distance may be): of n >= m > 0 symbols, n in fours."""
    n = len(bases)
    spare = (most - (n - m)) // 2
    above, below = (
        n - m + spare + swaps,
        spare + swaps,
    )  # rows i of column j are done from j - above to j + below
    last, bottom = -1, np.int64(0)
    for j in range(0, n, 4):
        first = max(0, j - above) // WORD_BITS
        done, last = last, min(words - 1, (j + 3 + below) // WORD_BITS)
        bottom += (last - done) * WORD_BITS
        for w in range(done + 1, last + 1):
            vp[w], vn[w] = ALL_BITS, ZERO
        s0, s1, s2, s3 = bases[j], bases[j + 1], bases[j + 2], bases[j + 3]
        if swaps:
            before = bases[j - 1] if j else ZERO  # no symbol has bits in the first rows
            bottom += _four_columns_with_swaps(
                table, before, s0, s1, s2, s3, u64(first), u64(done + 1), u64(last + 1), vp, vn, ends
            )
        else:
            bottom += _four_columns(table, s0, s1, s2, s3, u64(first), u64(last + 1), vp, vn)
        if j % COLUMNS_PER_CHECK == 0 and j:
            bound, least = _column_minimum(vp, vn, first, last, bottom)
            if bound > most:
                return most + 1, least * n // j
    beyond = ALL_BITS << u64(m % WORD_BITS) if m % WORD_BITS else ZERO  # rows of the last word
    w = words - 1
    found = bottom - np.int64(popcount(vp[w] & beyond)) + np.int64(popcount(vn[w] & beyond))
    return found, found


@inline_jit()
def strip_common(a, b):  # type: ignore[no-untyped-def]
    """Where two strings begin to differ, and where each ends to."""
    n, m, begin = len(a), len(b), 0
    while begin < min(n, m) and a[begin] == b[begin]:
        begin += 1
    while n > begin and m > begin and a[n - 1] == b[m - 1]:
        n, m = n - 1, m - 1
    return begin, n, m


@inline_jit()
def match_table(x, y, bits, numbers):  # type: ignore[no-untyped-def]
    """(Eq of every symbol of y in words of so many rows, where those of x start there, the number of words).

    Both end with as many symbols of their own as make the length of x a multiple of four.
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
        symbol = max(numbers[x[i]], 0) if i < n else n_symbols  # 0 for what y has not
        bases[i] = u64(symbol * words)
    for i in range(m):
        numbers[y[i]] = -1
    return table, bases, words


@inline_jit()
def banded_distance(a, b, most, only, numbers, swaps):  # type: ignore[no-untyped-def]
    """The distance of two strings if it is at most ``most``, else ``most`` + 1; with ``only`` one band is tried.

    ``numbers`` (2^16,) int32 are -1, and so again at the end. ``swaps`` of neighbours may count as one edit.
    """
    begin, n, m = strip_common(a, b)
    x, y = (a[begin:n], b[begin:m]) if n >= m else (b[begin:m], a[begin:n])
    n, m = len(x), len(y)
    if m == 0 or n - m > most:
        return min(n, most + 1)
    table, bases, words = match_table(x, y, WORD_BITS, numbers)
    vp, vn, pad = np.empty(words, u64), np.empty(words, u64), len(bases) - n
    ends = np.empty(words if swaps else 0, u64)
    only = only or words <= MAX_UNBANDED_WORDS
    k, found, foretold = -1, 0, 0
    while found > k and k < most:
        k = most if only else min(most, max(n - m + FIRST_BAND_EDITS, 2 * k, foretold + foretold // 16))
        found, foretold = _band_distance(bases, table, m + pad, words, k, vp, vn, ends, swaps)
    return min(found, most + 1)


@jit()
def unbanded_distance(text, n):  # type: ignore[no-untyped-def]
    """The distance of the first n of some bytes below `N_ASCII_CODES` and all others, all columns whole.

    Of columns of up to four words, where one has `MAX_UNBANDED_SYMBOLS` symbols at most, a band is not worth it.
    """
    codes = np.frombuffer(text, np.uint8)
    a, b = codes[:n], codes[n:]
    begin, n, m = strip_common(a, b)
    x, y = (a[begin:n], b[begin:m]) if n >= m else (b[begin:m], a[begin:n])
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
