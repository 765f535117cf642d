"""The edit distance with costs of any size: differences of neighbouring cells, omegas side by side in lanes.

With v = D_ij - D_{i-1,j} and h = D_ij - D_{i,j-1}, both between -w and w, kept as v + w and h + w (Suzuki and Kasahara
2018 for the idea), a cell is

    z = D_ij - D_{i-1,j-1} = min(v + w of the column before, h + w of the row above, cost of x_j for y_i)
    v' = z - h,   h' = z - v,      and with swaps  z = min(.., t - z_{i-1,j-1})

so that numbers stay small however long strings are: int8 for costs of few units, else int32, and exact in both. Rows
are those of the omegas, four columns of the object at once.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import max_set_size
from dkdist.distances.strings._banded_numba import THREE, TWO, u64

STRINGS_PER_TILE = 128  # two 512-bit vectors of int8 (python benchmarks/distance_peers.py edits)


@inline_jit()
def _cell_minimum(v, h, x, y, price):  # type: ignore[no-untyped-def]
    """What a cell is above the one before it in its diagonal; the types of all are those of the table."""
    return np.minimum(np.minimum(v, h), np.subtract(price, price) if x == y else price)


@inline_jit()
def _cell_with_swap(z, before, x, y, x_old, y_old, swap, never):  # type: ignore[no-untyped-def]
    """The same where two neighbours may be swapped, after a cell ``before`` in the diagonal."""
    return np.minimum(z, np.subtract(swap, before) if (x == y_old) & (x_old == y) else never)


@jit()
def _four_columns(V, h, codes, lanes, steps, x0, x1, x2, x3, price, twice):  # type: ignore[no-untyped-def]
    """Four columns, where all substitutions cost the same: v in V (steps * lanes,), h (4 * lanes,) of each column."""
    for i in range(steps):
        at = i * lanes
        for r in range(lanes):
            y, a = codes[at + r], V[at + r]
            b, c, d, e = h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes]
            z = np.add(_cell_minimum(a, b, x0, y, price), twice)
            a, b = np.subtract(z, b), np.subtract(z, a)
            z = np.add(_cell_minimum(a, c, x1, y, price), twice)
            a, c = np.subtract(z, c), np.subtract(z, a)
            z = np.add(_cell_minimum(a, d, x2, y, price), twice)
            a, d = np.subtract(z, d), np.subtract(z, a)
            z = np.add(_cell_minimum(a, e, x3, y, price), twice)
            a, e = np.subtract(z, e), np.subtract(z, a)
            V[at + r], h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = a, b, c, d, e


@jit()
def _four_columns_of_pairs(V, h, codes, lanes, steps, x0, x1, x2, x3, prices, p0, p1, p2, p3, twice):  # type: ignore[no-untyped-def]
    """The same with a price for each lane and row, from p0, .. on."""
    for i in range(steps):
        at = i * lanes
        for r in range(lanes):
            k = at + r
            y, a = codes[k], V[k]
            b, c, d, e = h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes]
            z = np.add(_cell_minimum(a, b, x0, y, prices[p0 + k]), twice)
            a, b = np.subtract(z, b), np.subtract(z, a)
            z = np.add(_cell_minimum(a, c, x1, y, prices[p1 + k]), twice)
            a, c = np.subtract(z, c), np.subtract(z, a)
            z = np.add(_cell_minimum(a, d, x2, y, prices[p2 + k]), twice)
            a, d = np.subtract(z, d), np.subtract(z, a)
            z = np.add(_cell_minimum(a, e, x3, y, prices[p3 + k]), twice)
            a, e = np.subtract(z, e), np.subtract(z, a)
            V[k], h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = a, b, c, d, e


@jit()
def _column_with_swaps(  # type: ignore[no-untyped-def]
    V, left, h, codes, lanes, steps, x_old, x, prices, p, step, twice, swap, never
):
    """One column: ``h`` (2 * lanes,) has z of the row above and the column before, too; ``left`` z of that column.

    ``codes`` begin with the row above the first; ``x_old`` is the symbol of the column before.
    """
    for i in range(steps):
        at = i * lanes
        for r in range(lanes):
            k = at + r
            a, b, y, y_old = V[k], h[r], codes[k + lanes], codes[k]
            z = _cell_minimum(a, b, x, y, prices[p + r])
            z = _cell_with_swap(z, h[r + lanes], x, y, x_old, y_old, swap, never)
            h[r + lanes], left[k] = left[k], z
            z = np.add(z, twice)
            V[k], h[r] = np.subtract(z, b), np.subtract(z, a)
        p += step


@jit()
def _fill_columns(codes, lanes, text, prices, rows, step, numbers, state):  # type: ignore[no-untyped-def]
    """All symbols of a string, so that ``state`` begins with v + w (steps, lanes) of the last column.

    ``codes`` (1 + steps, lanes) begin with what is before the beginning. The prices of symbol j are at ``rows[j]``, and
    those of the next row ``step`` after them.
    """
    steps = len(codes) // lanes - 1
    cells, n = steps * lanes, len(text)
    price, twice, swap, never, outside = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    V, left, h, symbols = state[:cells], state[cells : 2 * cells], state[2 * cells :], codes[lanes:]
    V[:] = twice
    size = u64(lanes), u64(steps)
    fours = n - n % 4 if swap == never else 0
    for j in range(0, fours, 4):
        h[: 4 * lanes] = twice
        four = text[j], text[j + 1], text[j + 2], text[j + 3]
        if step:
            first = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            _four_columns_of_pairs(V, h, symbols, *size, *four, prices, *first, twice)
        else:
            _four_columns(V, h, symbols, *size, *four, price, twice)
    for j in range(fours, n):
        h[: 2 * lanes] = twice
        x_old = text[j - 1] if j and swap != never else outside
        _column_with_swaps(
            V, left, h, codes, *size, x_old, text[j], prices, rows[j], u64(step), twice, swap, never
        )


@inline_jit()
def _distance_of_height(height, n, m, scale):  # type: ignore[no-untyped-def]
    """The distance of strings of n and m symbols whose table ends with ``height``."""
    unit, slant, most, normalize, insertion, deletion, dearest = scale
    result = min(max(height * unit + slant * (n - m), 0.0), most)
    if normalize == 0:
        return result
    apart = min(n, m) * dearest + max(n - m, 0) * deletion + max(m - n, 0) * insertion
    apart = min(apart, n * deletion + m * insertion)
    return min(result / apart, 1.0) if apart > 0 else 0.0


@jit()
def scale_heights(offsets, sizes, scale, out):  # type: ignore[no-untyped-def]
    """Heights ``out`` (n, R) of objects and omegas of ``sizes`` become distances."""
    for s in range(len(offsets) - 1):
        n = offsets[s + 1] - offsets[s]
        for k in range(len(sizes)):
            out[s, k] = np.float32(_distance_of_height(np.float64(out[s, k]), n, sizes[k], scale))


@jit()
def fill_costs(tiles, codes, offsets, scale, out):  # type: ignore[no-untyped-def]
    """Fill the columns of all omegas; ``tiles`` are those of `costs.CostTiles`, in order."""
    symbols_of, lanes_of, starts, numbers_of, classes, prices, price_starts, numbers, columns, lengths = tiles
    n_most, cells = max_set_size(offsets), 0
    for tile in range(len(lanes_of)):
        cells = max(cells, starts[tile + 1] - starts[tile])
    state = np.empty(2 * cells + 4 * STRINGS_PER_TILE, symbols_of.dtype)
    text, rows = np.empty(n_most, symbols_of.dtype), np.zeros(n_most, u64)
    sums = np.empty(STRINGS_PER_TILE, np.int64)
    w = np.int64(numbers[1]) // 2
    for tile in range(len(lanes_of)):
        lanes, symbols = lanes_of[tile], symbols_of[starts[tile] : starts[tile + 1]]
        steps = len(symbols) // lanes - 1
        step = lanes if len(classes) else 0
        own = prices[price_starts[tile] : price_starts[tile + 1]] if step else prices
        mine, sizes = columns[tile], lengths[tile]
        for s in range(len(offsets) - 1):
            start, n = offsets[s], offsets[s + 1] - offsets[s]
            for i in range(n):
                code = np.int64(codes[start + i])
                text[i] = numbers_of[tile, min(code, numbers_of.shape[1] - 1)]
                if step:
                    rows[i] = u64(classes[min(code, len(classes) - 1)] * steps * lanes)
            _fill_columns(symbols, lanes, text[:n], own, rows[:n], step, numbers, state)
            sums[:] = 0
            live = lanes
            for i in range(steps):
                while live and sizes[live - 1] <= i:
                    live -= 1
                _add_rows(state[i * lanes : i * lanes + live], sums)
            for r in range(lanes):
                if mine[r] >= 0:
                    height = n * w + sums[r] - sizes[r] * w
                    out[s, mine[r]] = np.float32(_distance_of_height(np.float64(height), n, sizes[r], scale))


@jit()
def _add_rows(v, sums):  # type: ignore[no-untyped-def]
    """sums += v."""
    for r in range(len(v)):
        sums[r] += np.int64(v[r])
