"""Longest common subsequence by columns of bits, for the edit distance with only insertions and deletions.

Neighbouring cells of a column of L differ by 0 or 1; S has a bit for each row where they are equal (Hyyro 2004). Each
symbol gives the next column:

    U = S & Eq,   S' = (S + U) | (S - U)

At the end the distance n + m - 2 L is n + |S| - |~S|, where |.| counts bits within the rows. Strings that share a word
have a guard bit of 0 below them, which absorbs the carry of the string below. In a chain, the guard bit is the top bit
of each word and passes its carry to the first row of the next word.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist.distances._tuning import FIRST_BAND_INDELS, MAX_UNBANDED_INDEL_WORDS
from dkdist.distances.strings._banded_numba import (
    N_CHAINS,
    N_WORDS,
    ONE,
    THREE,
    TOP_BIT,
    TWO,
    WORD_BITS,
    ZERO,
    match_table,
    popcount,
    strip_common,
    u64,
)

ROW_BITS = ~(ONE << TOP_BIT)  # all bits except the guard bit (Hyyro 2004)
NEXT_WORD = u64(N_CHAINS)  # offset of the next word of a chain in a table (dkdist/distances/strings/tiles.py)


@jit()
def short_common(table, bases, state):  # type: ignore[no-untyped-def]
    """Process all symbols of a string, with Eq from ``bases`` on; ``state`` (3 * N_WORDS,) is S, ~S and rows."""
    for base in bases:
        for r in range(N_WORDS):
            s = state[r]
            u = s & table[base + u64(r)]
            state[r] = ((s + u) | (s - u)) & state[r + 2 * N_WORDS]
    for r in range(N_WORDS):
        state[r + N_WORDS] = ~state[r] & state[r + 2 * N_WORDS]


@inline_jit()
def _next_in_chain(eq, s, up, out, k):  # type: ignore[no-untyped-def]
    """Return the next column of a word and its carry; bit k of ``up`` is the carry from the word below."""
    u = s & eq
    total = s + u + ((up >> k) & ONE)
    return (total | (s - u)) & ROW_BITS, out | ((total >> TOP_BIT) << k)


@inline_jit()
def _next_of_two(eq, eq_above, s, t, up, out, k):  # type: ignore[no-untyped-def]
    """Return the next columns of two consecutive words, and the carry."""
    u = s & eq
    low = s + u + ((up >> k) & ONE)
    s = (low | (s - u)) & ROW_BITS
    u = t & eq_above
    high = t + u + (low >> TOP_BIT)
    return s, (high | (t - u)) & ROW_BITS, out | ((high >> TOP_BIT) << k)


@jit()
def _long_four(table, base0, base1, base2, base3, up, state):  # type: ignore[no-untyped-def]
    """Process four symbols in two words of a chain; ``state`` (3 * N_CHAINS,) is S, ~S, and S of the second word.

    The carries are bits 0 to 3 of ``up`` (N_CHAINS,).
    """
    for r in range(N_CHAINS):
        k, s, t, below = u64(r), state[r], state[r + 2 * N_CHAINS], up[r]
        s, t, out = _next_of_two(table[base0 + k], table[base0 + k + NEXT_WORD], s, t, below, ZERO, ZERO)
        s, t, out = _next_of_two(table[base1 + k], table[base1 + k + NEXT_WORD], s, t, below, out, ONE)
        s, t, out = _next_of_two(table[base2 + k], table[base2 + k + NEXT_WORD], s, t, below, out, TWO)
        s, t, out = _next_of_two(table[base3 + k], table[base3 + k + NEXT_WORD], s, t, below, out, THREE)
        state[r], state[r + 2 * N_CHAINS], up[r] = s, t, out


@jit()
def _long_one(table, base, up, state):  # type: ignore[no-untyped-def]
    """Process one symbol in one word of a chain."""
    for r in range(N_CHAINS):
        state[r], up[r] = _next_in_chain(table[base + u64(r)], state[r], up[r], ZERO, ZERO)


@jit()
def long_common(table, bases, words, state):  # type: ignore[no-untyped-def]
    """Process all symbols in chains of an even number of words; ``state`` (2 * words * N_CHAINS,) is S and ~S."""
    tail, up = len(bases) - len(bases) % 4, np.empty(N_CHAINS, u64)
    for i in range(0, tail, 4):
        a, b, c, d = bases[i], bases[i + 1], bases[i + 2], bases[i + 3]
        up[:] = ZERO
        for w in range(0, words, 2):
            offset = u64(w * N_CHAINS)
            _long_four(
                table,
                a + offset,
                b + offset,
                c + offset,
                d + offset,
                up,
                state[2 * w * N_CHAINS : (2 * w + 3) * N_CHAINS],
            )
    for base in bases[tail:]:
        up[:] = ZERO
        for w in range(words):
            _long_one(table, base + u64(w * N_CHAINS), up, state[2 * w * N_CHAINS : (2 * w + 1) * N_CHAINS])
    for w in range(words):
        for r in range(2 * w * N_CHAINS, (2 * w + 1) * N_CHAINS):
            state[r + N_CHAINS] = ~state[r]


@inline_jit()
def _band_distance(bases, table, m, words, max_edits, S):  # type: ignore[no-untyped-def]
    """Return the minimal cost of paths in the band of ``max_edits``, an upper bound; n is a multiple of 4."""
    n = len(bases)
    above, below = (max_edits + n - m) // 2, (max_edits - n + m) // 2
    last = -1
    for j in range(0, n, 4):
        first = max(0, j - above) // (WORD_BITS - 1)
        previous_last, last = last, min(words - 1, (j + 3 + below) // (WORD_BITS - 1))
        for w in range(previous_last + 1, last + 1):
            S[w] = ROW_BITS
        s0, s1, s2, s3 = bases[j], bases[j + 1], bases[j + 2], bases[j + 3]
        up = ZERO
        for w in range(u64(first), u64(last + 1)):
            s = S[w]
            s, out = _next_in_chain(table[s0 + w], s, up, ZERO, ZERO)
            s, out = _next_in_chain(table[s1 + w], s, up, out, ONE)
            s, out = _next_in_chain(table[s2 + w], s, up, out, TWO)
            S[w], up = _next_in_chain(table[s3 + w], s, up, out, THREE)
    result = n + m
    for w in range(words):
        result -= 2 * np.int64(popcount(~S[w] & ROW_BITS))
    return result


@inline_jit()
def banded_indel_distance(a, b, max_edits, single_band, numbers):  # type: ignore[no-untyped-def]
    """Return the distance of two strings, at most ``max_edits`` + 1; see `banded_distance`."""
    n_prefix, n, m = strip_common(a, b)
    x, y = (a[n_prefix:n], b[n_prefix:m]) if n >= m else (b[n_prefix:m], a[n_prefix:n])
    n, m = len(x), len(y)
    if m == 0 or n - m > max_edits:
        return min(n, max_edits + 1)
    table, bases, words = match_table(x, y, WORD_BITS - 1, numbers)
    is_unbanded = single_band or words <= MAX_UNBANDED_INDEL_WORDS
    S, pad = np.empty(words, u64), len(bases) - n
    k, result = -1, 0
    while result > k and k < max_edits:
        next_edits = result if 0 < result <= 4 * k else 4 * k
        k = max_edits if is_unbanded else min(max_edits, max(n - m + FIRST_BAND_INDELS, next_edits))
        result = _band_distance(bases, table, m + pad, words, k, S)
    return min(result, max_edits + 1)
