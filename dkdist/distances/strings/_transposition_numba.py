"""Columns of optimal string alignment as bits: the edit distance with swaps of neighbours at one edit (Hyyro 2003).

A swap of symbols i - 1 and i is worth its edit where D_{i-1,j-1} is above D_{i-2,j-2}, that is where D0 of the column
before has no bit in row i - 1, if both pairs of symbols are equal crosswise:

    TR = ((~D0 & Eq) << 1) & Eq of the symbol before,   D0' = D0 of `_bit_parallel_numba.py` | TR

all else is as it is there. In a chain of words TR has a carry, the last row of the word below, in the column of today.
"""

from __future__ import annotations

from dkdist._numba.compilation import inline_jit, jit
from dkdist.distances.strings._banded_numba import N_CHAINS, N_WORDS, ONE, THREE, TOP_BIT, TWO, ZERO, u64

N_NUMBERS = 6  # per word of a chain: HP, HN and TR from the word below, VP, VN, D0 (Hyyro 2003)


@inline_jit()
def _next_column(eq, before, vp, vn, d0, rows):  # type: ignore[no-untyped-def]
    """The next column of words whose guard bits are those that are not in ``rows``."""
    swap = ((~d0 & eq) << ONE) & before
    d0 = ((((((eq & vp) + vp) ^ vp) | eq) | vn) | swap) & rows
    hp, hn = (vn | ~(d0 | vp)) << ONE, (d0 & vp) << ONE
    return (hn | ~(d0 | hp)) & rows, hp & d0, d0


@jit()
def short_with_swaps(table, bases, state):  # type: ignore[no-untyped-def]
    """All symbols of a string, whose Eq start at ``bases``: state (4 * N_WORDS,) of VP, VN, the rows, and D0."""
    last = ZERO  # no symbol has bits in the first rows
    for base in bases:
        for r in range(N_WORDS):
            eq, before = table[base + u64(r)], table[last + u64(r)]
            vp, vn, rows, d0 = state[r], state[r + N_WORDS], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            vp, vn, d0 = _next_column(eq, before, vp, vn, d0, rows)
            state[r], state[r + N_WORDS], state[r + 3 * N_WORDS] = vp, vn, d0
        last = base


@inline_jit()
def _next_in_chain(eq, before, vp, vn, d0, hp_in, hn_in, tr_in, hp_out, hn_out, tr_out, k):  # type: ignore[no-untyped-def]
    """The next column of a word in a chain; bit k of what comes in is from below, of the others goes up."""
    swap = ~d0 & eq
    tr_out = tr_out | ((swap >> TOP_BIT) << k)
    swap = ((swap | ((tr_in >> k) & ONE)) << ONE) & before
    eq = eq | (((hp_in >> k) & ONE) ^ ONE)
    vp = vp | ((hn_in >> k) & ONE)
    d0 = (((((eq & vp) + vp) ^ vp) | eq) | vn) | swap
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp_out | ((hp >> TOP_BIT) << k), hn_out | ((hn >> TOP_BIT) << k)
    hp, hn = hp << ONE, hn << ONE
    return (hn | ~(d0 | hp)) & ~ONE, hp & d0, d0, hp_out, hn_out, tr_out


@jit()
def _long_one(table, last, base, state):  # type: ignore[no-untyped-def]
    """One symbol: state (9 * N_CHAINS,) of what comes from below, VP, VN, D0, and what goes up from here."""
    for r in range(N_CHAINS):
        k = u64(r)
        hp, hn, tr = state[r], state[r + N_CHAINS], state[r + 2 * N_CHAINS]
        vp, vn, d0 = state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS]
        eq, old = table[base + k], table[last + k]
        vp, vn, d0, up, un, ut = _next_in_chain(eq, old, vp, vn, d0, hp, hn, tr, ZERO, ZERO, ZERO, ZERO)
        state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS] = vp, vn, d0
        state[r + 6 * N_CHAINS], state[r + 7 * N_CHAINS], state[r + 8 * N_CHAINS] = up, un, ut


@jit()
def _long_four(table, last, base0, base1, base2, base3, state):  # type: ignore[no-untyped-def]
    """Four symbols: their carries are bits 0 to 3."""
    for r in range(N_CHAINS):
        k = u64(r)
        hp, hn, tr = state[r], state[r + N_CHAINS], state[r + 2 * N_CHAINS]
        vp, vn, d0 = state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS]
        old, a, b, c, d = (
            table[last + k],
            table[base0 + k],
            table[base1 + k],
            table[base2 + k],
            table[base3 + k],
        )
        vp, vn, d0, up, un, ut = _next_in_chain(a, old, vp, vn, d0, hp, hn, tr, ZERO, ZERO, ZERO, ZERO)
        vp, vn, d0, up, un, ut = _next_in_chain(b, a, vp, vn, d0, hp, hn, tr, up, un, ut, ONE)
        vp, vn, d0, up, un, ut = _next_in_chain(c, b, vp, vn, d0, hp, hn, tr, up, un, ut, TWO)
        vp, vn, d0, up, un, ut = _next_in_chain(d, c, vp, vn, d0, hp, hn, tr, up, un, ut, THREE)
        state[r + 3 * N_CHAINS], state[r + 4 * N_CHAINS], state[r + 5 * N_CHAINS] = vp, vn, d0
        state[r + 6 * N_CHAINS], state[r + 7 * N_CHAINS], state[r + 8 * N_CHAINS] = up, un, ut


@jit()
def long_with_swaps(table, bases, words, state):  # type: ignore[no-untyped-def]
    """All symbols of a string through chains of so many words; as words follow each other in ``state``."""
    tail, last = len(bases) - len(bases) % 4, ZERO
    for i in range(0, tail, 4):
        a, b, c, d = bases[i], bases[i + 1], bases[i + 2], bases[i + 3]
        for w in range(words):
            word, at = state[N_NUMBERS * w * N_CHAINS : (N_NUMBERS * w + 9) * N_CHAINS], u64(w * N_CHAINS)
            _long_four(table, last + at, a + at, b + at, c + at, d + at, word)
        last = d
    for base in bases[tail:]:
        for w in range(words):
            word, at = state[N_NUMBERS * w * N_CHAINS : (N_NUMBERS * w + 9) * N_CHAINS], u64(w * N_CHAINS)
            _long_one(table, last + at, base + at, word)
        last = base
