"""Optimal string alignment by columns of bits: edit distance with a swap of neighbours as one edit (Hyyro 2003).

A swap of symbols i - 1 and i saves an edit if the two symbols of both strings are equal crosswise and
D_{i-1,j-1} > D_{i-2,j-2}, that is, if D0 of the previous column has no bit in row i - 1:

    TR = ((~D0 & Eq) << 1) & Eq of the previous symbol,   D0' = D0 of `_bit_parallel_numba.py` | TR

Everything else is as in that module. In a chain of words, TR needs a carry: the last row of the word below, in
the current column.
"""

from __future__ import annotations

from dkdist._numba.compilation import inline_jit, jit
from dkdist.distances.strings._banded_numba import N_CHAINS, N_WORDS, ONE, THREE, TOP_BIT, TWO, ZERO, u64

N_NUMBERS = 6  # state per word of a chain: HP, HN and TR from the word below, VP, VN, D0 (Hyyro 2003)


@inline_jit()
def _next_column(eq, previous_eq, vp, vn, d0, rows):  # type: ignore[no-untyped-def]
    """Return the next column (VP, VN, D0) of words; bits outside ``rows`` are guard bits."""
    swap = ((~d0 & eq) << ONE) & previous_eq
    d0 = ((((((eq & vp) + vp) ^ vp) | eq) | vn) | swap) & rows
    hp, hn = (vn | ~(d0 | vp)) << ONE, (d0 & vp) << ONE
    return (hn | ~(d0 | hp)) & rows, hp & d0, d0


@jit()
def short_with_swaps(table, bases, state):  # type: ignore[no-untyped-def]
    """Process all symbols of a string, with Eq from ``bases`` on; ``state`` (4 * N_WORDS,) is VP, VN, rows, D0."""
    previous_base = ZERO  # row of zeros: there is no previous symbol
    for base in bases:
        for r in range(N_WORDS):
            eq, previous_eq = table[base + u64(r)], table[previous_base + u64(r)]
            vp, vn, rows, d0 = state[r], state[r + N_WORDS], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            vp, vn, d0 = _next_column(eq, previous_eq, vp, vn, d0, rows)
            state[r], state[r + N_WORDS], state[r + 3 * N_WORDS] = vp, vn, d0
        previous_base = base


@inline_jit()
def _next_in_chain(eq, previous_eq, vp, vn, d0, hp_in, hn_in, tr_in, hp_out, hn_out, tr_out, k):  # type: ignore[no-untyped-def]
    """Return the next column of a word in a chain; bit k of the carries links it to the words below and above."""
    swap = ~d0 & eq
    tr_out = tr_out | ((swap >> TOP_BIT) << k)
    swap = ((swap | ((tr_in >> k) & ONE)) << ONE) & previous_eq
    eq = eq | (((hp_in >> k) & ONE) ^ ONE)
    vp = vp | ((hn_in >> k) & ONE)
    d0 = (((((eq & vp) + vp) ^ vp) | eq) | vn) | swap
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp_out | ((hp >> TOP_BIT) << k), hn_out | ((hn >> TOP_BIT) << k)
    hp, hn = hp << ONE, hn << ONE
    return (hn | ~(d0 | hp)) & ~ONE, hp & d0, d0, hp_out, hn_out, tr_out


@jit()
def _long_one(table, previous_base, base, state):  # type: ignore[no-untyped-def]
    """Process one symbol; ``state`` (9 * N_CHAINS,) is three carries in, VP, VN, D0, three carries out."""
    for r in range(N_CHAINS):
        k = u64(r)
        hp, hn, tr = state[r], state[r + N_CHAINS], state[r + 2 * N_CHAINS]
        vp, vn, d0 = state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS]
        eq, previous_eq = table[base + k], table[previous_base + k]
        vp, vn, d0, up, un, ut = _next_in_chain(
            eq, previous_eq, vp, vn, d0, hp, hn, tr, ZERO, ZERO, ZERO, ZERO
        )
        state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS] = vp, vn, d0
        state[r + 6 * N_CHAINS], state[r + 7 * N_CHAINS], state[r + 8 * N_CHAINS] = up, un, ut


@jit()
def _long_four(table, previous_base, base0, base1, base2, base3, state):  # type: ignore[no-untyped-def]
    """Process four symbols; their carries are bits 0 to 3."""
    for r in range(N_CHAINS):
        k = u64(r)
        hp, hn, tr = state[r], state[r + N_CHAINS], state[r + 2 * N_CHAINS]
        vp, vn, d0 = state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS]
        previous_eq, a, b, c, d = (
            table[previous_base + k],
            table[base0 + k],
            table[base1 + k],
            table[base2 + k],
            table[base3 + k],
        )
        vp, vn, d0, up, un, ut = _next_in_chain(
            a, previous_eq, vp, vn, d0, hp, hn, tr, ZERO, ZERO, ZERO, ZERO
        )
        vp, vn, d0, up, un, ut = _next_in_chain(b, a, vp, vn, d0, hp, hn, tr, up, un, ut, ONE)
        vp, vn, d0, up, un, ut = _next_in_chain(c, b, vp, vn, d0, hp, hn, tr, up, un, ut, TWO)
        vp, vn, d0, up, un, ut = _next_in_chain(d, c, vp, vn, d0, hp, hn, tr, up, un, ut, THREE)
        state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS] = vp, vn, d0
        state[r + 6 * N_CHAINS], state[r + 7 * N_CHAINS], state[r + 8 * N_CHAINS] = up, un, ut


@jit()
def long_with_swaps(table, bases, words, state):  # type: ignore[no-untyped-def]
    """Process all symbols of a string in chains of words, which are consecutive in ``state``."""
    tail, previous_base = len(bases) - len(bases) % 4, ZERO
    for i in range(0, tail, 4):
        a, b, c, d = bases[i], bases[i + 1], bases[i + 2], bases[i + 3]
        for w in range(words):
            word, offset = state[N_NUMBERS * w * N_CHAINS : (N_NUMBERS * w + 9) * N_CHAINS], u64(w * N_CHAINS)
            _long_four(table, previous_base + offset, a + offset, b + offset, c + offset, d + offset, word)
        previous_base = d
    for base in bases[tail:]:
        for w in range(words):
            word, offset = state[N_NUMBERS * w * N_CHAINS : (N_NUMBERS * w + 9) * N_CHAINS], u64(w * N_CHAINS)
            _long_one(table, previous_base + offset, base + offset, word)
        previous_base = base
