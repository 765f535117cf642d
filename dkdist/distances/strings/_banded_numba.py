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

from dkdist._numba.compilation import inlined, loop

u64 = np.uint64
ZERO, ONE, TWO, THREE, TOP = u64(0), u64(1), u64(2), u64(3), u64(63)
SHORT = 128  # words at a time, each with one or more strings
LONG = 32  # chains of words at a time
EDITS, SWAPS, COMMON = (
    0,
    1,
    2,
)  # kinds: Levenshtein's, with swaps of neighbours, of insertions and deletions alone


@inlined()
def ones(x):  # type: ignore[no-untyped-def]
    """The number of bits that are set; compilers know this form."""
    x = x - ((x >> ONE) & u64(0x5555555555555555))
    x = (x & u64(0x3333333333333333)) + ((x >> TWO) & u64(0x3333333333333333))
    x = (x + (x >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return (x * u64(0x0101010101010101)) >> u64(56)


BITS = 64  # rows of a word
LOOK = 64  # columns from one look at the whole band to the next
FIRST = 31  # edits that the first band is for
NARROW = 2  # words of a column that is not worth a band
ASCII = 128  # codes
SHORT_TEXT = 256  # symbols: columns of four words
FULL = ~ZERO


@inlined()
def _next(eq, vp, vn, hp_in, hn_in):  # type: ignore[no-untyped-def]
    """The next column of a word, and what its last row grew by, from what the row above its first grew by."""
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x | vn
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp >> TOP, hn >> TOP
    hp, hn = (hp << ONE) | hp_in, (hn << ONE) | hn_in
    return hn | ~(d0 | hp), hp & d0, hp_out, hn_out


@inlined()
def _next_with_swaps(eq, before, vp, vn, d0, hp_in, hn_in, tr_in):  # type: ignore[no-untyped-def]
    """The same where neighbours may be swapped; ``before`` are the rows with the symbol before."""
    swap = ~d0 & eq
    tr_out = swap >> TOP
    x = eq | hn_in
    d0 = (((x & vp) + vp) ^ vp) | x | vn | (((swap << ONE) | tr_in) & before)
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp >> TOP, hn >> TOP
    hp, hn = (hp << ONE) | hp_in, (hn << ONE) | hn_in
    return hn | ~(d0 | hp), hp & d0, d0, hp_out, hn_out, tr_out


@inlined()
def _four(table, s0, s1, s2, s3, first, last, vp, vn):  # type: ignore[no-untyped-def]
    """Four columns of words from ``first`` to before ``last``, and what their last row grew by."""
    p0 = p1 = p2 = p3 = ONE  # a row of insertions above the band
    q0 = q1 = q2 = q3 = ZERO
    for w in range(first, last):
        x, y = vp[w], vn[w]
        x, y, p0, q0 = _next(table[s0 + w], x, y, p0, q0)
        x, y, p1, q1 = _next(table[s1 + w], x, y, p1, q1)
        x, y, p2, q2 = _next(table[s2 + w], x, y, p2, q2)
        vp[w], vn[w], p3, q3 = _next(table[s3 + w], x, y, p3, q3)
    return np.int64(p0 + p1 + p2 + p3) - np.int64(q0 + q1 + q2 + q3)


@inlined()
def _four_with_swaps(table, s, s0, s1, s2, s3, first, new, last, vp, vn, ends):  # type: ignore[no-untyped-def]
    """The same where neighbours may be swapped; the column before had symbol s, and ``ends`` is its D0.

    Words from ``new`` on had no column before: its symbol was equal to none of theirs.
    """
    p0 = p1 = p2 = p3 = ONE
    q0 = q1 = q2 = q3 = t0 = t1 = t2 = t3 = ZERO
    for w in range(first, last):
        x, y, d0 = vp[w], vn[w], ends[w]
        a, b, c, d = table[s0 + w], table[s1 + w], table[s2 + w], table[s3 + w]
        old = table[s + w] if w < new else ZERO
        x, y, d0, p0, q0, t0 = _next_with_swaps(a, old, x, y, d0, p0, q0, t0)
        x, y, d0, p1, q1, t1 = _next_with_swaps(b, a, x, y, d0, p1, q1, t1)
        x, y, d0, p2, q2, t2 = _next_with_swaps(c, b, x, y, d0, p2, q2, t2)
        vp[w], vn[w], ends[w], p3, q3, t3 = _next_with_swaps(d, c, x, y, d0, p3, q3, t3)
    return np.int64(p0 + p1 + p2 + p3) - np.int64(q0 + q1 + q2 + q3)


@inlined()
def _least(vp, vn, first, last, bottom):  # type: ignore[no-untyped-def]
    """(a bound below all cells of a column, the least of those in the last rows of words); ``bottom`` is the lowest."""
    bound, least = bottom, bottom
    w = last
    while w >= first:
        up = np.int64(ones(vp[w]))
        bound, least = min(bound, bottom - up), min(least, bottom)
        bottom -= up - np.int64(ones(vn[w]))
        w -= 1
    return bound, least


@inlined()
def _band(bases, table, m, words, most, vp, vn, ends, swaps):  # type: ignore[no-untyped-def]
    """(the distance or more than ``most``, what the whole distance may be): of n >= m > 0 symbols, n in fours."""
    n = len(bases)
    spare = (most - (n - m)) // 2
    above, below = (
        n - m + spare + swaps,
        spare + swaps,
    )  # rows i of column j are done from j - above to j + below
    last, bottom = -1, np.int64(0)
    for j in range(0, n, 4):
        first = max(0, j - above) // BITS
        done, last = last, min(words - 1, (j + 3 + below) // BITS)
        bottom += (last - done) * BITS
        for w in range(done + 1, last + 1):
            vp[w], vn[w] = FULL, ZERO
        s0, s1, s2, s3 = bases[j], bases[j + 1], bases[j + 2], bases[j + 3]
        if swaps:
            before = bases[j - 1] if j else ZERO  # no symbol has bits in the first rows
            bottom += _four_with_swaps(
                table, before, s0, s1, s2, s3, u64(first), u64(done + 1), u64(last + 1), vp, vn, ends
            )
        else:
            bottom += _four(table, s0, s1, s2, s3, u64(first), u64(last + 1), vp, vn)
        if j % LOOK == 0 and j:
            bound, least = _least(vp, vn, first, last, bottom)
            if bound > most:
                return most + 1, least * n // j
    beyond = FULL << u64(m % BITS) if m % BITS else ZERO  # rows of the last word
    w = words - 1
    found = bottom - np.int64(ones(vp[w] & beyond)) + np.int64(ones(vn[w] & beyond))
    return found, found


@inlined()
def stripped(a, b):  # type: ignore[no-untyped-def]
    """Where two strings begin to differ, and where each ends to."""
    n, m, begin = len(a), len(b), 0
    while begin < min(n, m) and a[begin] == b[begin]:
        begin += 1
    while n > begin and m > begin and a[n - 1] == b[m - 1]:
        n, m = n - 1, m - 1
    return begin, n, m


@inlined()
def words_of(x, y, bits, numbers):  # type: ignore[no-untyped-def]
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


@inlined()
def edits(a, b, most, only, numbers, swaps):  # type: ignore[no-untyped-def]
    """The distance of two strings if it is at most ``most``, else ``most`` + 1; with ``only`` one band is tried.

    ``numbers`` (2^16,) int32 are -1, and so again at the end. ``swaps`` of neighbours may count as one edit.
    """
    begin, n, m = stripped(a, b)
    x, y = (a[begin:n], b[begin:m]) if n >= m else (b[begin:m], a[begin:n])
    n, m = len(x), len(y)
    if m == 0 or n - m > most:
        return min(n, most + 1)
    table, bases, words = words_of(x, y, BITS, numbers)
    vp, vn, pad = np.empty(words, u64), np.empty(words, u64), len(bases) - n
    ends = np.empty(words if swaps else 0, u64)
    only = only or words <= NARROW
    k, found, foretold = -1, 0, 0
    while found > k and k < most:
        k = most if only else min(most, max(n - m + FIRST, 2 * k, foretold + foretold // 16))
        found, foretold = _band(bases, table, m + pad, words, k, vp, vn, ends, swaps)
    return min(found, most + 1)


@loop()
def edits_of_short(text, n):  # type: ignore[no-untyped-def]
    """The distance of the first n of some bytes below `ASCII` and all others, all columns whole.

    Of columns of up to four words, that is where one has `SHORT_TEXT` symbols at most, a band is not worth it.
    """
    codes = np.frombuffer(text, np.uint8)
    a, b = codes[:n], codes[n:]
    begin, n, m = stripped(a, b)
    x, y = (a[begin:n], b[begin:m]) if n >= m else (b[begin:m], a[begin:n])
    n, m = len(x), len(y)
    words = -(-m // BITS)
    table, vp, vn = np.zeros(ASCII * words, u64), np.full(words, FULL), np.zeros(words, u64)
    for i in range(m):
        table[y[i] * words + i // BITS] |= ONE << u64(i % BITS)
    for j in range(0, n - n % 4, 4):
        s0, s1, s2, s3 = x[j] * words, x[j + 1] * words, x[j + 2] * words, x[j + 3] * words
        _four(table, u64(s0), u64(s1), u64(s2), u64(s3), u64(0), u64(words), vp, vn)
    for j in range(n - n % 4, n):
        hp, hn = ONE, ZERO
        for w in range(words):
            vp[w], vn[w], hp, hn = _next(table[x[j] * words + w], vp[w], vn[w], hp, hn)
    if m % BITS:
        vp[words - 1] &= ~(FULL << u64(m % BITS))
        vn[words - 1] &= ~(FULL << u64(m % BITS))
    for w in range(words):
        n += np.int64(ones(vp[w])) - np.int64(ones(vn[w]))
    return float(n)
