"""The similarity of Jaro and Winkler: symbols in common, strings of one word side by side, longer ones one by one.

A symbol of the object matches the first equal one of the omega that is not matched and at most w = max(n, m) // 2 - 1
places away. With c matches, of which k stand at other symbols when both are read in order, and a common beginning of p
symbols, 4 at most,

    J = (c / n + c / m + (c - k // 2) / c) / 3,      J + p prefix_weight (1 - J) where J > 0.7

Landmarks of one word have a lane each, in which P, T and B are the bits of the landmark's and the object's matched
symbols, and of the landmark's symbols within the window. For longer strings, each symbol has a list of its positions in
the landmark, and positions before the window are never read again: n + m steps.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist.distances.strings._banded_numba import N_WORDS, ONE, ZERO, popcount, u64
from dkdist.distances.strings._bit_parallel_numba import find_bases

MAX_WORD_SYMBOLS = 63  # bits of a word without its guard bit (dkdist/distances/strings/tiles.py)
MAX_PREFIX_SYMBOLS = 4  # Winkler (1990)
MIN_BOOSTED_SIMILARITY = 0.7  # above it a common prefix counts (Winkler 1990)
N_CODES = 2**16  # codes are uint16 (dkdist/sets/strings.py)


@inline_jit()
def _match_symbol(eq, near, P, T, reach, j):  # type: ignore[no-untyped-def]
    """The match of symbol j, and what is near the next one."""
    x = eq & near & ~P
    return (near << ONE) | u64(j < reach), P | (x & (ZERO - x)), T | (u64(x != ZERO) << j)


@jit()
def _match_symbols(table, bases, state):  # type: ignore[no-untyped-def]
    """All symbols of an object: state (5 * N_WORDS,) of B, P, T, w, and what is left for later."""
    fours = len(bases) - len(bases) % 4
    for j in range(0, fours, 4):
        a, b, c, d, k = bases[j], bases[j + 1], bases[j + 2], bases[j + 3], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            near, P, T, reach = state[r], state[r + N_WORDS], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            near, P, T = _match_symbol(table[a + r], near, P, T, reach, k)
            near, P, T = _match_symbol(table[b + r], near, P, T, reach, k + u64(1))
            near, P, T = _match_symbol(table[c + r], near, P, T, reach, k + u64(2))
            near, P, T = _match_symbol(table[d + r], near, P, T, reach, k + u64(3))
            state[r], state[r + N_WORDS], state[r + 2 * N_WORDS] = near, P, T
    for j in range(fours, len(bases)):
        a, k = bases[j], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            near, P, T, reach = state[r], state[r + N_WORDS], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            near, P, T = _match_symbol(table[a + r], near, P, T, reach, k)
            state[r], state[r + N_WORDS], state[r + 2 * N_WORDS] = near, P, T


@inline_jit()
def _compare_match(eq, left, T, misses, j):  # type: ignore[no-untyped-def]
    """Whether symbol j, if it is matched, is another than the next matched one of the omega."""
    low = left & (ZERO - left) & (ZERO - ((T >> j) & ONE))
    return left ^ low, misses + u64((low & ~eq) != ZERO)


@jit()
def _count_transpositions(table, bases, state):  # type: ignore[no-untyped-def]
    """What stands at other symbols: from state's P and T, in place of B; ``w`` is overwritten."""
    for lane in range(N_WORDS):
        state[lane], state[lane + 3 * N_WORDS] = ZERO, state[lane + N_WORDS]
    fours = len(bases) - len(bases) % 4
    for j in range(0, fours, 4):
        a, b, c, d, k = bases[j], bases[j + 1], bases[j + 2], bases[j + 3], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            misses, T, left = state[r], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            left, misses = _compare_match(table[a + r], left, T, misses, k)
            left, misses = _compare_match(table[b + r], left, T, misses, k + u64(1))
            left, misses = _compare_match(table[c + r], left, T, misses, k + u64(2))
            left, misses = _compare_match(table[d + r], left, T, misses, k + u64(3))
            state[r], state[r + 3 * N_WORDS] = misses, left
    for j in range(fours, len(bases)):
        a, k = bases[j], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            left, misses = _compare_match(
                table[a + r], state[r + 3 * N_WORDS], state[r + 2 * N_WORDS], state[r], k
            )
            state[r], state[r + 3 * N_WORDS] = misses, left


@inline_jit()
def _distance(common, misses, n, m, head, weight):  # type: ignore[no-untyped-def]
    """1 - the similarity; n, m and common are floats, and ``misses`` is halved already."""
    c = max(common, 1.0)
    jaro = (c / max(n, 1.0) + c / max(m, 1.0) + (c - misses) / c) / 3.0
    result = 1.0 - min(jaro + head * weight * (1.0 - jaro) if jaro > MIN_BOOSTED_SIMILARITY else jaro, 1.0)
    return result if common > 0.0 else (0.0 if n + m == 0.0 else 1.0)


@jit()
def _fill_distances(state, heads, first, n, lengths, weight, result):  # type: ignore[no-untyped-def]
    """Distances of all lanes: ``heads`` (HEAD * N_WORDS,) are first symbols of the omegas, ``first`` of the object."""
    for i in range(N_WORDS):
        r = u64(i)
        equal = u64(heads[r] == first[0])
        head = equal
        equal = equal & u64(heads[r + N_WORDS] == first[1])
        head = head + equal
        equal = equal & u64(heads[r + 2 * N_WORDS] == first[2])
        head = head + equal
        head = head + (equal & u64(heads[r + 3 * N_WORDS] == first[3]))
        common, misses = (
            np.float64(np.int64(popcount(state[r + N_WORDS]))),
            np.float64(np.int64(state[r] >> ONE)),
        )
        m = np.float64(lengths[r])
        result[r] = np.float32(_distance(common, misses, n, m, np.float64(np.int64(head)), weight))


@jit()
def fill_short(tiles, texts, edges, codes, offsets, weight, out):  # type: ignore[no-untyped-def]
    """Pairs of at most 63 symbols: columns of omegas that have a word each (`tiles.pack_single_words`)."""
    tables, starts, symbols, _, _, ends, places, columns, lengths = tiles
    state, bases, result = (
        np.zeros(4 * N_WORDS, u64),
        np.empty(MAX_WORD_SYMBOLS, u64),
        np.empty(N_WORDS, np.float32),
    )
    heads, sizes, first = (
        np.empty(MAX_PREFIX_SYMBOLS * N_WORDS, np.int64),
        np.zeros(N_WORDS, np.int64),
        np.empty(MAX_PREFIX_SYMBOLS, np.int64),
    )
    for tile in range(len(symbols)):
        table, mine = tables[starts[tile] : starts[tile + 1]], slice(ends[tile], ends[tile + 1])
        heads[:] = -1
        sizes[:] = 0
        for k in range(mine.start, mine.stop):
            lane, start = places[k], edges[columns[k]]
            sizes[lane] = lengths[k]
            for i in range(min(MAX_PREFIX_SYMBOLS, lengths[k])):
                heads[lane + i * N_WORDS] = texts[start + i]
        for s in range(len(offsets) - 1):
            start, n = offsets[s], offsets[s + 1] - offsets[s]
            if n > MAX_WORD_SYMBOLS:
                continue
            find_bases(codes[start : start + n], symbols[tile], N_WORDS, bases[:n])
            for i in range(MAX_PREFIX_SYMBOLS):
                first[i] = codes[start + i] if i < n else -2
            for lane in range(N_WORDS):
                reach = max(max(n, sizes[lane]) // 2 - 1, 0)
                state[lane] = (ONE << u64(reach + 1)) - ONE
                state[lane + N_WORDS], state[lane + 2 * N_WORDS], state[lane + 3 * N_WORDS] = (
                    ZERO,
                    ZERO,
                    u64(reach),
                )
            _match_symbols(table, bases[:n], state)
            _count_transpositions(table, bases[:n], state)
            _fill_distances(state, heads, first, np.float64(n), sizes, weight, result)
            for k in range(mine.start, mine.stop):
                out[s, columns[k]] = result[places[k]]


@inline_jit()
def _pair_distance(a, b, ids, n_ids, following, firsts, numbers, heres, matched, flags, weight):  # type: ignore[no-untyped-def]
    """The distance of an object and an omega whose symbol i is number ids[i], the next of its kind at following[i]."""
    n, m, common, misses, head = len(a), len(b), 0, 0, 0
    reach = max(max(n, m) // 2 - 1, 0)
    for symbol in range(n_ids):
        heres[symbol] = firsts[symbol]
    for j in range(n):
        symbol = numbers[a[j]]
        if symbol < 0:
            continue
        here = heres[symbol]
        while here < j - reach:
            here = following[here]
        if here <= j + reach and here < m:
            flags[here] = 1
            matched[common] = symbol
            common += 1
            here = following[here]
        heres[symbol] = here
    at = 0
    for i in range(m):
        flag = flags[i]
        misses += flag & (ids[i] != matched[at])
        at += flag
        flags[i] = 0
    while head < min(MAX_PREFIX_SYMBOLS, n, m) and a[head] == b[head]:
        head += 1
    floats = np.float64(common), np.float64(misses // 2), np.float64(n), np.float64(m), np.float64(head)
    return _distance(floats[0], floats[1], floats[2], floats[3], floats[4], weight)


@jit()
def fill_long(texts, edges, codes, offsets, weight, out):  # type: ignore[no-untyped-def]
    """All other pairs, an omega at a time."""
    longest, most = 0, 0
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    for k in range(len(edges) - 1):
        most = max(most, edges[k + 1] - edges[k])
    if max(longest, most) <= MAX_WORD_SYMBOLS:
        return
    numbers = np.full(N_CODES, -1, np.int32)
    ids, following, flags = np.empty(most, np.int32), np.empty(most, np.int64), np.zeros(most, np.int64)
    firsts, lasts, heres = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    matched = np.empty(most + 1, np.int32)
    never = 2 * (longest + most)
    for k in range(len(edges) - 1):
        b = texts[edges[k] : edges[k + 1]]
        if len(b) <= MAX_WORD_SYMBOLS and longest <= MAX_WORD_SYMBOLS:
            continue
        n_ids = 0
        for i in range(len(b)):
            symbol = numbers[b[i]]
            if symbol < 0:
                symbol = n_ids
                numbers[b[i]], firsts[symbol] = symbol, i
                n_ids += 1
            else:
                following[lasts[symbol]] = i
            ids[i], lasts[symbol], following[i] = symbol, i, never
        for s in range(len(offsets) - 1):
            a = codes[offsets[s] : offsets[s + 1]]
            if max(len(a), len(b)) > MAX_WORD_SYMBOLS:
                out[s, k] = np.float32(
                    _pair_distance(
                        a, b, ids, n_ids, following, firsts, numbers, heres, matched, flags, weight
                    )
                )
        for i in range(len(b)):
            numbers[b[i]] = -1
