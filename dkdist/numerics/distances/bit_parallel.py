"""Columns of the edit distance table as bits of 64-bit words: Myers 1999, in the form of Hyyro 2003.

A column of D differs from cell to cell by -1, 0 or 1, which two bits a row hold: VP (+1) and VN (-1). A symbol of the
object makes the next column of all rows at once, where Eq has the bits of the rows with that symbol:

    D0 = (((Eq & VP) + VP) ^ VP) | Eq | VN,   HP = VN | ~(D0 | VP),   HN = D0 & VP,
    VP' = (HN << 1) | ~(D0 | (HP << 1)),      VN' = (HP << 1) & D0

and at the end D_mn = n + |VP| - |VN|. Strings stand side by side in a word, each above a guard bit that stands for row
0 of its table: kept at VP = VN = Eq = D0 = 0 it stops the carry of the sum and hands HP = 1 to row 1. A string of more
than 63 symbols takes a chain of words, where the guard bit stands for the last row of the word below: its VP is that
row's HN, its Eq the complement of that row's HP.

Words are lanes. Integers throughout, so all is exact.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SHORT = 128  # words at a time, each with one or more strings
LONG = 32  # chains of words at a time

u64 = np.uint64
ZERO, ONE, TWO, THREE, TOP = u64(0), u64(1), u64(2), u64(3), u64(63)


@njit(nogil=True, forceinline=True)
def _next(eq, vp, vn, rows):  # type: ignore[no-untyped-def]
    """The next column of words whose guard bits are those that are not in ``rows``."""
    d0 = (((((eq & vp) + vp) ^ vp) | eq) | vn) & rows
    hp, hn = (vn | ~(d0 | vp)) << ONE, (d0 & vp) << ONE
    return (hn | ~(d0 | hp)) & rows, hp & d0


@njit(nogil=True, cache=True)
def _short(eq, state):  # type: ignore[no-untyped-def]
    """One symbol: eq (SHORT,), state (3 * SHORT,) of VP, VN and the rows."""
    for r in range(SHORT):
        vp, vn = _next(eq[r], state[r], state[r + SHORT], state[r + 2 * SHORT])
        state[r], state[r + SHORT] = vp, vn


@njit(nogil=True, forceinline=True)
def _next_in_chain(eq, vp, vn, hp_in, hn_in, hp_out, hn_out, k):  # type: ignore[no-untyped-def]
    """The next column of one word of a chain; bit k of ``hp_in`` and ``hn_in`` comes from below, of the others goes up."""
    eq = eq | (((hp_in >> k) & ONE) ^ ONE)
    vp = vp | ((hn_in >> k) & ONE)
    d0 = ((((eq & vp) + vp) ^ vp) | eq) | vn
    hp, hn = vn | ~(d0 | vp), d0 & vp
    hp_out, hn_out = hp_out | ((hp >> TOP) << k), hn_out | ((hn >> TOP) << k)
    hp, hn = hp << ONE, hn << ONE
    return (hn | ~(d0 | hp)) & ~ONE, hp & d0, hp_out, hn_out


@njit(nogil=True, cache=True)
def _long_one(eq, state):  # type: ignore[no-untyped-def]
    """One symbol: eq (LONG,), state (6 * LONG,) of HP and HN from below, VP, VN, HP and HN from here."""
    for r in range(LONG):
        hp, hn, vp, vn = state[r], state[r + LONG], state[r + 2 * LONG], state[r + 3 * LONG]
        vp, vn, up, un = _next_in_chain(eq[r], vp, vn, hp, hn, ZERO, ZERO, ZERO)
        state[r + 2 * LONG], state[r + 3 * LONG], state[r + 4 * LONG], state[r + 5 * LONG] = vp, vn, up, un


@njit(nogil=True, cache=True)
def _long_four(eq0, eq1, eq2, eq3, state):  # type: ignore[no-untyped-def]
    for r in range(LONG):
        hp, hn, vp, vn = state[r], state[r + LONG], state[r + 2 * LONG], state[r + 3 * LONG]
        vp, vn, up, un = _next_in_chain(eq0[r], vp, vn, hp, hn, ZERO, ZERO, ZERO)
        vp, vn, up, un = _next_in_chain(eq1[r], vp, vn, hp, hn, up, un, ONE)
        vp, vn, up, un = _next_in_chain(eq2[r], vp, vn, hp, hn, up, un, TWO)
        vp, vn, up, un = _next_in_chain(eq3[r], vp, vn, hp, hn, up, un, THREE)
        state[r + 2 * LONG], state[r + 3 * LONG], state[r + 4 * LONG], state[r + 5 * LONG] = vp, vn, up, un


@njit(nogil=True, forceinline=True)
def _ones(x):  # type: ignore[no-untyped-def]
    """The number of bits that are set; compilers know this form."""
    x = x - ((x >> ONE) & u64(0x5555555555555555))
    x = (x & u64(0x3333333333333333)) + ((x >> TWO) & u64(0x3333333333333333))
    x = (x + (x >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return (x * u64(0x0101010101010101)) >> u64(56)


@njit(nogil=True, cache=True)
def _add_heights(vp, vn, rows, heights):  # type: ignore[no-untyped-def]
    """heights += |VP| - |VN| of these rows, for each lane."""
    for r in range(len(heights)):
        heights[r] += np.int64(_ones(vp[r] & rows[r])) - np.int64(_ones(vn[r] & rows[r]))


@njit(nogil=True, cache=True)
def _write(heights, columns, lengths, n, normalize, out):  # type: ignore[no-untyped-def]
    for r in range(len(columns)):
        if columns[r] >= 0:
            distance = np.float32(heights[r])
            out[columns[r]] = distance / np.float32(max(n, lengths[r], 1)) if normalize else distance


@njit(nogil=True, cache=True)
def fill_short(tables, starts, symbols, fields, rows, columns, lengths, points, offsets, normalize, out):  # type: ignore[no-untyped-def]
    """Fill the columns of strings of at most 63 symbols; arguments are those of `levenshtein.Tiles`."""
    state, heights = np.empty(3 * SHORT, u64), np.empty(SHORT, np.int64)
    last = symbols.shape[1] - 1
    for tile in range(len(symbols)):
        table, place = tables[starts[tile] : starts[tile + 1]].reshape(-1, SHORT), symbols[tile]
        used = np.zeros(SHORT, u64)
        for field in range(fields[tile], fields[tile + 1]):
            used |= rows[field]
        for s in range(len(offsets) - 1):
            start, stop = offsets[s], offsets[s + 1]
            state[:SHORT] = used
            state[SHORT : 2 * SHORT] = ZERO
            state[2 * SHORT :] = used
            for i in range(start, stop):
                _short(table[place[min(points[i, 0], last)]], state)
            for field in range(fields[tile], fields[tile + 1]):
                heights[:] = stop - start
                _add_heights(state[:SHORT], state[SHORT : 2 * SHORT], rows[field], heights)
                _write(heights, columns[field], lengths[field], stop - start, normalize, out[s])


@njit(nogil=True, cache=True)
def fill_long(tables, starts, symbols, fields, rows, columns, lengths, points, offsets, normalize, out):  # type: ignore[no-untyped-def]
    """Fill the columns of longer strings, whose fields are the words of a chain from the first symbols on."""
    heights, last = np.empty(LONG, np.int64), symbols.shape[1] - 1
    for tile in range(len(symbols)):
        first, words = fields[tile], fields[tile + 1] - fields[tile]
        table, place = tables[starts[tile] : starts[tile + 1]].reshape(-1, words, LONG), symbols[tile]
        state = np.zeros((4 * words + 2) * LONG, u64)  # HP, HN, VP, VN, HP, HN, VP, VN ... HP, HN
        for s in range(len(offsets) - 1):
            start, stop = offsets[s], offsets[s + 1]
            state[:LONG] = ~ZERO  # row 0 of the table grows by one a symbol
            for w in range(words):
                state[(4 * w + 2) * LONG : (4 * w + 3) * LONG] = ~ONE
                state[(4 * w + 3) * LONG : (4 * w + 4) * LONG] = ZERO
            for i in range(start, stop - 3, 4):
                a, b = table[place[min(points[i, 0], last)]], table[place[min(points[i + 1, 0], last)]]
                c, d = table[place[min(points[i + 2, 0], last)]], table[place[min(points[i + 3, 0], last)]]
                for w in range(words):
                    _long_four(a[w], b[w], c[w], d[w], state[4 * w * LONG : (4 * w + 6) * LONG])
            for i in range(stop - (stop - start) % 4, stop):
                a = table[place[min(points[i, 0], last)]]
                for w in range(words):
                    _long_one(a[w], state[4 * w * LONG : (4 * w + 6) * LONG])
            heights[:] = stop - start
            for w in range(words):
                at = (4 * w + 2) * LONG
                _add_heights(state[at : at + LONG], state[at + LONG : at + 2 * LONG], rows[first + w], heights)
            _write(heights, columns[first], lengths[first], stop - start, normalize, out[s])
