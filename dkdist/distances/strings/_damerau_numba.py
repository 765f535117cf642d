"""Damerau's distance without restrictions, omegas side by side in lanes: Lowrance and Wagner 1975, by rows.

Symbols that are swapped may have others inserted between them, or some deleted. With x_k = y_j and y_l = x_i the last
such row and column before cell (i, j)

    D_ij = min(D_{i-1,j} + 1, D_{i,j-1} + 1, D_{i-1,j-1} + [x_i != y_j], D_{k-1,l-1} + (i - k) + (j - l) - 1)

and of the last only k = i - 1 or l = j - 1 matter: to delete and to insert between the same two costs as much without a
swap (Zhao and Sahinalp 2019). In E_ij = D_ij - i - j, at least -2 min(i, j) and at most 0, that is

    E_ij = min(E_{i-1,j}, E_{i,j-1}, E_{i-1,j-1} - 1 - [x_i = y_j], F_j - 3 if l = j - 1, T - 3 if x_{i-1} = y_j)

with F_j = E_{k-1,j-2} of the last row that had y_j, and T = E_{i-2,l-1} of the last column that had x_i. All numbers
fit in int8 for omegas of up to 62 symbols, in int16 up to 16,000. Integers throughout, so all is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist._numba.compilation import jit
from dkdist._numba.elementary import max_set_size
from dkdist.distances.strings._banded_numba import ONE, THREE, TWO, u64

FOUR, FIVE = u64(4), u64(5)  # (tests/distances/test_damerau_levenshtein.py)
# Strings per tile; constants at compile time, so that loops are vectorized (python benchmarks/distance_peers.py edits).
WIDE_LANES, NARROW_LANES = 64, 16
NUMBERS_PER_LANE = 6  # kept between cells: E of four neighbours, a flag and T (Lowrance and Wagner 1975)


def _compile_row(lanes: Any) -> Any:
    """The loop for so many lanes, a number that its compiled code holds."""

    @jit()
    def row(Y, cells, h, x, x_old, numbers):  # type: ignore[no-untyped-def]
        """A row of all cells: ``cells`` (steps, 3, lanes) are E of the row above, E of the one above that, and F.

        ``h`` (6 * lanes,) are E_{i,j-1}, E_{i-1,j-1}, E_{i-1,j-2}, E_{i-2,j-1}, [x_i = y_{j-1}] and T; all of one type,
        and so are the ``numbers`` from 0 to 3.
        """
        zero, one, two, three = numbers[0], numbers[1], numbers[2], numbers[3]
        for r in range(lanes):
            h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = zero, zero, zero, zero
            h[r + FOUR * lanes], h[r + FIVE * lanes] = zero, three  # no column had x_i
        for j in range(u64(len(Y)) // lanes):
            own, symbols = (
                cells[THREE * j * lanes : THREE * (j + ONE) * lanes],
                Y[j * lanes : (j + ONE) * lanes],
            )
            for r in range(lanes):
                y, up, old, f = symbols[r], own[r], own[r + lanes], own[r + TWO * lanes]
                corner, further, T = h[r + lanes], h[r + TWO * lanes], h[r + FIVE * lanes]
                same = y == x
                z = np.minimum(np.minimum(h[r], up), np.subtract(corner, two if same else one))
                z = np.minimum(z, np.subtract(f, three) if h[r + FOUR * lanes] == one else zero)
                z = np.minimum(z, np.subtract(T, three) if y == x_old else zero)
                own[r], own[r + lanes], own[r + TWO * lanes] = z, up, further if same else f
                h[r + FIVE * lanes] = h[r + THREE * lanes] if same else T
                h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = z, up, corner, old
                h[r + FOUR * lanes] = one if same else zero

    return row


_wide_row, _narrow_row = _compile_row(u64(WIDE_LANES)), _compile_row(u64(NARROW_LANES))


@jit()
def fill_lanes(Y, symbols, columns, lengths, codes, offsets, most, normalize, out):  # type: ignore[no-untyped-def]
    """Fill the columns of up to as many omegas as ``Y`` (steps, lanes) has lanes, `WIDE_LANES` or `NARROW_LANES`.

    ``Y`` are numbers of symbols, 0 behind the end; ``symbols`` (S + 1,) the numbers of codes, 0 for what no omega has.
    """
    steps, lanes = Y.shape
    flat, cells = Y.ravel(), np.empty(3 * steps * lanes, Y.dtype)
    h, text, last = (
        np.empty(NUMBERS_PER_LANE * lanes, Y.dtype),
        np.empty(max_set_size(offsets), Y.dtype),
        len(symbols) - 1,
    )
    numbers = np.arange(4).astype(Y.dtype)
    outside = np.subtract(numbers[0], numbers[1])  # -1, that no omega has
    for s in range(len(offsets) - 1):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        for i in range(n):
            text[i] = symbols[min(np.int64(codes[start + i]), last)]
        cells[:] = numbers[0]
        for j in range(steps):
            cells[(3 * j + 2) * lanes : (3 * j + 3) * lanes] = numbers[3]  # F: no row had y_j
        x_old = outside
        for i in range(n):
            if lanes == WIDE_LANES:
                _wide_row(flat, cells, h, text[i], x_old, numbers)
            else:
                _narrow_row(flat, cells, h, text[i], x_old, numbers)
            x_old = text[i]
        for k in range(len(columns)):
            m = lengths[k]
            result = n + m + (np.int64(cells[3 * (m - 1) * lanes + k]) if m else 0)
            result = np.float32(min(result, most + 1))
            out[s, columns[k]] = result / np.float32(max(n, m, 1)) if normalize else result
