"""Jaro-Winkler similarity: strings of one word in SIMD lanes, longer ones one by one.

A symbol of the object matches the first equal, unmatched symbol of the landmark at most w = max(n, m) // 2 - 1
positions away. There are c matches; k of them differ when the matched symbols of both strings are compared in order.
With a common prefix of p <= 4 symbols,

    J = (c / n + c / m + (c - k // 2) / c) / 3,      J + p prefix_weight (1 - J) if J > 0.7

Each landmark of one word has a SIMD lane. The bits of P and T mark matched symbols of the landmark and of the object,
the bits of B the symbols of the landmark within the window. For longer strings, each symbol has a list of its positions
in the landmark, and positions before the window are never read again: n + m steps.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist.distances.strings._banded_numba import N_WORDS, ONE, ZERO, popcount, u64
from dkdist.distances.strings._bit_parallel_numba import find_bases

MAX_WORD_SYMBOLS = 63  # bits of a word except its guard bit (dkdist/distances/strings/tiles.py)
MAX_PREFIX_SYMBOLS = 4  # Winkler (1990)
MIN_BOOSTED_SIMILARITY = 0.7  # a common prefix counts above this similarity (Winkler 1990)
N_CODES = 2**16  # codes are uint16 (dkdist/sets/strings.py)


@inline_jit()
def _match_symbol(eq, window, P, T, reach, j):  # type: ignore[no-untyped-def]
    """Match symbol j; return the window of the next symbol, P and T."""
    x = eq & window & ~P
    return (window << ONE) | u64(j < reach), P | (x & (ZERO - x)), T | (u64(x != ZERO) << j)


@jit()
def _match_symbols(table, bases, state):  # type: ignore[no-untyped-def]
    """Match all symbols of an object; ``state`` (4 * N_WORDS,) is B, P, T and w."""
    n_grouped = len(bases) - len(bases) % 4
    for j in range(0, n_grouped, 4):
        a, b, c, d, k = bases[j], bases[j + 1], bases[j + 2], bases[j + 3], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            window, P, T, reach = state[r], state[r + N_WORDS], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            window, P, T = _match_symbol(table[a + r], window, P, T, reach, k)
            window, P, T = _match_symbol(table[b + r], window, P, T, reach, k + u64(1))
            window, P, T = _match_symbol(table[c + r], window, P, T, reach, k + u64(2))
            window, P, T = _match_symbol(table[d + r], window, P, T, reach, k + u64(3))
            state[r], state[r + N_WORDS], state[r + 2 * N_WORDS] = window, P, T
    for j in range(n_grouped, len(bases)):
        a, k = bases[j], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            window, P, T, reach = state[r], state[r + N_WORDS], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            window, P, T = _match_symbol(table[a + r], window, P, T, reach, k)
            state[r], state[r + N_WORDS], state[r + 2 * N_WORDS] = window, P, T


@inline_jit()
def _compare_match(eq, remaining, T, misses, j):  # type: ignore[no-untyped-def]
    """If symbol j is matched, compare it with the next matched symbol of the landmark and count a difference."""
    lowest = remaining & (ZERO - remaining) & (ZERO - ((T >> j) & ONE))
    return remaining ^ lowest, misses + u64((lowest & ~eq) != ZERO)


@jit()
def _count_transpositions(table, bases, state):  # type: ignore[no-untyped-def]
    """Count differences in the order of matches, from P and T; B is overwritten with the counts, and w is lost."""
    for lane in range(N_WORDS):
        state[lane], state[lane + 3 * N_WORDS] = ZERO, state[lane + N_WORDS]
    n_grouped = len(bases) - len(bases) % 4
    for j in range(0, n_grouped, 4):
        a, b, c, d, k = bases[j], bases[j + 1], bases[j + 2], bases[j + 3], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            misses, T, remaining = state[r], state[r + 2 * N_WORDS], state[r + 3 * N_WORDS]
            remaining, misses = _compare_match(table[a + r], remaining, T, misses, k)
            remaining, misses = _compare_match(table[b + r], remaining, T, misses, k + u64(1))
            remaining, misses = _compare_match(table[c + r], remaining, T, misses, k + u64(2))
            remaining, misses = _compare_match(table[d + r], remaining, T, misses, k + u64(3))
            state[r], state[r + 3 * N_WORDS] = misses, remaining
    for j in range(n_grouped, len(bases)):
        a, k = bases[j], u64(j)
        for i in range(N_WORDS):
            r = u64(i)
            remaining, misses = _compare_match(
                table[a + r], state[r + 3 * N_WORDS], state[r + 2 * N_WORDS], state[r], k
            )
            state[r], state[r + 3 * N_WORDS] = misses, remaining


@inline_jit()
def _distance(common, misses, n, m, head, weight):  # type: ignore[no-untyped-def]
    """Return 1 - similarity; n, m and ``common`` are floats, and ``misses`` is k // 2."""
    c = max(common, 1.0)
    jaro = (c / max(n, 1.0) + c / max(m, 1.0) + (c - misses) / c) / 3.0
    result = 1.0 - min(jaro + head * weight * (1.0 - jaro) if jaro > MIN_BOOSTED_SIMILARITY else jaro, 1.0)
    return result if common > 0.0 else (0.0 if n + m == 0.0 else 1.0)


@jit()
def _fill_distances(state, heads, first, n, lengths, weight, result):  # type: ignore[no-untyped-def]
    """Fill the distances of all lanes; ``heads`` are prefixes of the landmarks, ``first`` the prefix of the object."""
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
    """Fill the distances of strings of at most 63 symbols (`tiles.pack_single_words`)."""
    tables, starts, symbols, _, _, ends, positions, columns, lengths = tiles
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
        table, span = tables[starts[tile] : starts[tile + 1]], slice(ends[tile], ends[tile + 1])
        heads[:] = -1
        sizes[:] = 0
        for k in range(span.start, span.stop):
            lane, start = positions[k], edges[columns[k]]
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
            for k in range(span.start, span.stop):
                out[s, columns[k]] = result[positions[k]]


@inline_jit()
def _pair_distance(a, b, ids, n_ids, following, firsts, numbers, next_positions, matched, flags, weight):  # type: ignore[no-untyped-def]
    """Return the distance of an object to a landmark with symbols ids[i], whose next occurrence is at following[i]."""
    n, m, common, misses, head = len(a), len(b), 0, 0, 0
    reach = max(max(n, m) // 2 - 1, 0)
    for symbol in range(n_ids):
        next_positions[symbol] = firsts[symbol]
    for j in range(n):
        symbol = numbers[a[j]]
        if symbol < 0:
            continue
        position = next_positions[symbol]
        while position < j - reach:
            position = following[position]
        if position <= j + reach and position < m:
            flags[position] = 1
            matched[common] = symbol
            common += 1
            position = following[position]
        next_positions[symbol] = position
    n_compared = 0
    for i in range(m):
        flag = flags[i]
        misses += flag & (ids[i] != matched[n_compared])
        n_compared += flag
        flags[i] = 0
    while head < min(MAX_PREFIX_SYMBOLS, n, m) and a[head] == b[head]:
        head += 1
    floats = np.float64(common), np.float64(misses // 2), np.float64(n), np.float64(m), np.float64(head)
    return _distance(floats[0], floats[1], floats[2], floats[3], floats[4], weight)


@jit()
def fill_long(texts, edges, codes, offsets, weight, out):  # type: ignore[no-untyped-def]
    """Fill the distances of all other pairs, one landmark at a time."""
    max_length, max_landmark_length = 0, 0
    for s in range(len(offsets) - 1):
        max_length = max(max_length, offsets[s + 1] - offsets[s])
    for k in range(len(edges) - 1):
        max_landmark_length = max(max_landmark_length, edges[k + 1] - edges[k])
    if max(max_length, max_landmark_length) <= MAX_WORD_SYMBOLS:
        return
    numbers = np.full(N_CODES, -1, np.int32)
    ids, following, flags = (
        np.empty(max_landmark_length, np.int32),
        np.empty(max_landmark_length, np.int64),
        np.zeros(max_landmark_length, np.int64),
    )
    firsts, lasts, next_positions = (
        np.empty(max_landmark_length, np.int64),
        np.empty(max_landmark_length, np.int64),
        np.empty(max_landmark_length, np.int64),
    )
    matched = np.empty(max_landmark_length + 1, np.int32)
    no_position = 2 * (max_length + max_landmark_length)
    for k in range(len(edges) - 1):
        b = texts[edges[k] : edges[k + 1]]
        if len(b) <= MAX_WORD_SYMBOLS and max_length <= MAX_WORD_SYMBOLS:
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
            ids[i], lasts[symbol], following[i] = symbol, i, no_position
        for s in range(len(offsets) - 1):
            a = codes[offsets[s] : offsets[s + 1]]
            if max(len(a), len(b)) > MAX_WORD_SYMBOLS:
                out[s, k] = np.float32(
                    _pair_distance(
                        a, b, ids, n_ids, following, firsts, numbers, next_positions, matched, flags, weight
                    )
                )
        for i in range(len(b)):
            numbers[b[i]] = -1
