"""Edit distance with arbitrary costs, from differences of neighbouring cells, with landmarks in SIMD lanes.

With v = D_ij - D_{i-1,j} and h = D_ij - D_{i,j-1}, both between -w and w and stored as v + w and h + w (idea of Suzuki
and Kasahara 2018), a cell is

    z = D_ij - D_{i-1,j-1} = min(v + w of the previous column, h + w of the row above, cost of x_j for y_i)
    v' = z - h,   h' = z - v,      and with swaps  z = min(.., t - z_{i-1,j-1})

so values stay small for strings of any length: int8 for costs of a few units, else int32, both exact. Rows are symbols
of the landmarks, columns are symbols of the object; four columns are processed at a time.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import max_set_size
from dkdist.distances.strings._banded_numba import THREE, TWO, u64

STRINGS_PER_TILE = 128  # two 512-bit vectors of int8 (python benchmarks/distance_peers.py edits)


@inline_jit()
def _cell_minimum(v, h, x, y, price):  # type: ignore[no-untyped-def]
    """Return a cell minus its diagonal predecessor; all values have the dtype of the table."""
    return np.minimum(np.minimum(v, h), np.subtract(price, price) if x == y else price)


@inline_jit()
def _cell_with_swap(z, previous, x, y, x_old, y_old, swap, no_swap):  # type: ignore[no-untyped-def]
    """Return the minimum of z and the cost of a swap of neighbours; ``previous`` is z of the diagonal predecessor."""
    return np.minimum(z, np.subtract(swap, previous) if (x == y_old) & (x_old == y) else no_swap)


@jit()
def _four_columns(V, h, codes, lanes, steps, x0, x1, x2, x3, price, twice):  # type: ignore[no-untyped-def]
    """Compute four columns for a single substitution cost; v is V (steps * lanes,), h (4 * lanes,) of each column."""
    for i in range(steps):
        first = i * lanes
        for r in range(lanes):
            y, a = codes[first + r], V[first + r]
            b, c, d, e = h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes]
            z = np.add(_cell_minimum(a, b, x0, y, price), twice)
            a, b = np.subtract(z, b), np.subtract(z, a)
            z = np.add(_cell_minimum(a, c, x1, y, price), twice)
            a, c = np.subtract(z, c), np.subtract(z, a)
            z = np.add(_cell_minimum(a, d, x2, y, price), twice)
            a, d = np.subtract(z, d), np.subtract(z, a)
            z = np.add(_cell_minimum(a, e, x3, y, price), twice)
            a, e = np.subtract(z, e), np.subtract(z, a)
            V[first + r], h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = a, b, c, d, e


@jit()
def _four_columns_of_pairs(V, h, codes, lanes, steps, x0, x1, x2, x3, prices, p0, p1, p2, p3, twice):  # type: ignore[no-untyped-def]
    """Compute four columns with prices for each row and lane, which start at p0, .., p3."""
    for i in range(steps):
        first = i * lanes
        for r in range(lanes):
            k = first + r
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
    V, left, h, codes, lanes, steps, x_old, x, prices, p, step, twice, swap, no_swap
):
    """Compute a column with swaps; ``h`` (2 * lanes,) has h and z of the row above, ``left`` z of the last column.

    ``codes`` start with a row before the first symbols; ``x_old`` is the symbol of the previous column.
    """
    for i in range(steps):
        first = i * lanes
        for r in range(lanes):
            k = first + r
            a, b, y, y_old = V[k], h[r], codes[k + lanes], codes[k]
            z = _cell_minimum(a, b, x, y, prices[p + r])
            z = _cell_with_swap(z, h[r + lanes], x, y, x_old, y_old, swap, no_swap)
            h[r + lanes], left[k] = left[k], z
            z = np.add(z, twice)
            V[k], h[r] = np.subtract(z, b), np.subtract(z, a)
        p += step


@jit()
def _fill_columns(codes, lanes, text, prices, rows, step, numbers, state):  # type: ignore[no-untyped-def]
    """Process all symbols of a string; afterwards ``state`` starts with v + w (steps, lanes) of the last column.

    ``codes`` (1 + steps, lanes) start with a row before the first symbols. The prices of symbol j start at ``rows[j]``,
    with ``step`` values per row.
    """
    steps = len(codes) // lanes - 1
    cells, n = steps * lanes, len(text)
    price, twice, swap, no_swap, outside = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    V, left, h, symbols = state[:cells], state[cells : 2 * cells], state[2 * cells :], codes[lanes:]
    V[:] = twice
    size = u64(lanes), u64(steps)
    n_grouped = n - n % 4 if swap == no_swap else 0
    for j in range(0, n_grouped, 4):
        h[: 4 * lanes] = twice
        group = text[j], text[j + 1], text[j + 2], text[j + 3]
        if step:
            group_rows = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            _four_columns_of_pairs(V, h, symbols, *size, *group, prices, *group_rows, twice)
        else:
            _four_columns(V, h, symbols, *size, *group, price, twice)
    for j in range(n_grouped, n):
        h[: 2 * lanes] = twice
        x_old = text[j - 1] if j and swap != no_swap else outside
        _column_with_swaps(
            V, left, h, codes, *size, x_old, text[j], prices, rows[j], u64(step), twice, swap, no_swap
        )


@inline_jit()
def _distance_of_height(height, n, m, scale):  # type: ignore[no-untyped-def]
    """Return the distance of strings of n and m symbols from the last cell ``height`` of their table."""
    unit, slant, max_distance, normalize, insertion, deletion, max_substitution = scale
    result = min(max(height * unit + slant * (n - m), 0.0), max_distance)
    if normalize == 0:
        return result
    upper_bound = min(n, m) * max_substitution + max(n - m, 0) * deletion + max(m - n, 0) * insertion
    upper_bound = min(upper_bound, n * deletion + m * insertion)
    return min(result / upper_bound, 1.0) if upper_bound > 0 else 0.0


@jit()
def scale_heights(offsets, sizes, scale, out):  # type: ignore[no-untyped-def]
    """Convert heights ``out`` (n, R), for landmarks of ``sizes``, to distances in place."""
    for s in range(len(offsets) - 1):
        n = offsets[s + 1] - offsets[s]
        for k in range(len(sizes)):
            out[s, k] = np.float32(_distance_of_height(np.float64(out[s, k]), n, sizes[k], scale))


@jit()
def fill_costs(tiles, codes, offsets, scale, out):  # type: ignore[no-untyped-def]
    """Fill the columns of all landmarks; ``tiles`` is a `costs.CostTiles`."""
    symbols_of, lanes_of, starts, numbers_of, classes, prices, price_starts, numbers, columns, lengths = tiles
    max_length, cells = max_set_size(offsets), 0
    for tile in range(len(lanes_of)):
        cells = max(cells, starts[tile + 1] - starts[tile])
    state = np.empty(2 * cells + 4 * STRINGS_PER_TILE, symbols_of.dtype)
    text, rows = np.empty(max_length, symbols_of.dtype), np.zeros(max_length, u64)
    sums = np.empty(STRINGS_PER_TILE, np.int64)
    w = np.int64(numbers[1]) // 2
    for tile in range(len(lanes_of)):
        lanes, symbols = lanes_of[tile], symbols_of[starts[tile] : starts[tile + 1]]
        steps = len(symbols) // lanes - 1
        step = lanes if len(classes) else 0
        tile_prices = prices[price_starts[tile] : price_starts[tile + 1]] if step else prices
        tile_columns, sizes = columns[tile], lengths[tile]
        for s in range(len(offsets) - 1):
            start, n = offsets[s], offsets[s + 1] - offsets[s]
            for i in range(n):
                code = np.int64(codes[start + i])
                text[i] = numbers_of[tile, min(code, numbers_of.shape[1] - 1)]
                if step:
                    rows[i] = u64(classes[min(code, len(classes) - 1)] * steps * lanes)
            _fill_columns(symbols, lanes, text[:n], tile_prices, rows[:n], step, numbers, state)
            sums[:] = 0
            n_active = lanes
            for i in range(steps):
                while n_active and sizes[n_active - 1] <= i:
                    n_active -= 1
                _add_rows(state[i * lanes : i * lanes + n_active], sums)
            for r in range(lanes):
                if tile_columns[r] >= 0:
                    height = n * w + sums[r] - sizes[r] * w
                    out[s, tile_columns[r]] = np.float32(
                        _distance_of_height(np.float64(height), n, sizes[r], scale)
                    )


@jit()
def _add_rows(v, sums):  # type: ignore[no-untyped-def]
    for r in range(len(v)):
        sums[r] += np.int64(v[r])
