"""Unrestricted Damerau-Levenshtein distance, with landmarks in SIMD lanes: Lowrance and Wagner 1975, by rows.

Symbols may be inserted or deleted between swapped symbols. Let k and l be the last row and column before cell (i, j)
with x_k = y_j and y_l = x_i. Then

    D_ij = min(D_{i-1,j} + 1, D_{i,j-1} + 1, D_{i-1,j-1} + [x_i != y_j], D_{k-1,l-1} + (i - k) + (j - l) - 1)

where only swaps with k = i - 1 or l = j - 1 matter: with deletions and insertions between the same two symbols, edits
without a swap cost the same (Zhao and Sahinalp 2019). For E_ij = D_ij - i - j, between -2 min(i, j) and 0, this is

    E_ij = min(E_{i-1,j}, E_{i,j-1}, E_{i-1,j-1} - 1 - [x_i = y_j], F_j - 3 if l = j - 1, T - 3 if x_{i-1} = y_j)

with F_j = E_{k-1,j-2} of the last row with y_j, and T = E_{i-2,l-1} of the last column with x_i. All values fit in
int8 for landmarks of up to 62 symbols, in int16 up to 16,000. They are integers, so results are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist._numba.compilation import jit
from dkdist._numba.elementary import max_set_size
from dkdist.distances.strings._banded_numba import ONE, THREE, TWO, u64

FOUR, FIVE = u64(4), u64(5)  # constants of type uint64 (tests/distances/test_damerau_levenshtein.py)
# Strings per tile; compile-time constants let LLVM vectorize loops (python benchmarks/distance_peers.py edits).
WIDE_LANES, NARROW_LANES = 64, 16
NUMBERS_PER_LANE = 6  # E of four neighbouring cells, a flag and T (Lowrance and Wagner 1975)


def _compile_row(lanes: Any) -> Any:
    """Compile the function that computes a row, for a constant number of lanes."""

    @jit()
    def row(Y, cells, h, x, x_old, numbers):  # type: ignore[no-untyped-def]
        """Compute a row; ``cells`` (steps, 3, lanes) are E of the two previous rows, and F.

        ``h`` (6 * lanes,) are E_{i,j-1}, E_{i-1,j-1}, E_{i-1,j-2}, E_{i-2,j-1}, [x_i = y_{j-1}] and T. All arrays and
        ``numbers`` (0, 1, 2, 3) have the same dtype.
        """
        zero, one, two, three = numbers[0], numbers[1], numbers[2], numbers[3]
        for r in range(lanes):
            h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = zero, zero, zero, zero
            h[r + FOUR * lanes], h[r + FIVE * lanes] = zero, three  # no column has contained x_i yet
        for j in range(u64(len(Y)) // lanes):
            row_cells, symbols = (
                cells[THREE * j * lanes : THREE * (j + ONE) * lanes],
                Y[j * lanes : (j + ONE) * lanes],
            )
            for r in range(lanes):
                y, up, older, f = symbols[r], row_cells[r], row_cells[r + lanes], row_cells[r + TWO * lanes]
                corner, corner_left, T = h[r + lanes], h[r + TWO * lanes], h[r + FIVE * lanes]
                is_equal = y == x
                z = np.minimum(np.minimum(h[r], up), np.subtract(corner, two if is_equal else one))
                z = np.minimum(z, np.subtract(f, three) if h[r + FOUR * lanes] == one else zero)
                z = np.minimum(z, np.subtract(T, three) if y == x_old else zero)
                row_cells[r], row_cells[r + lanes], row_cells[r + TWO * lanes] = (
                    z,
                    up,
                    corner_left if is_equal else f,
                )
                h[r + FIVE * lanes] = h[r + THREE * lanes] if is_equal else T
                h[r], h[r + lanes], h[r + TWO * lanes], h[r + THREE * lanes] = z, up, corner, older
                h[r + FOUR * lanes] = one if is_equal else zero

    return row


_wide_row, _narrow_row = _compile_row(u64(WIDE_LANES)), _compile_row(u64(NARROW_LANES))


@jit()
def fill_lanes(Y, symbols, columns, lengths, codes, offsets, max_edits, normalize, out):  # type: ignore[no-untyped-def]
    """Fill the columns of the landmarks in ``Y`` (steps, lanes), with `WIDE_LANES` or `NARROW_LANES` lanes.

    ``Y`` are symbol numbers, 0 after the end; ``symbols`` (S + 1,) maps codes to symbol numbers, 0 for codes that occur
    in no landmark.
    """
    steps, lanes = Y.shape
    flat, cells = Y.ravel(), np.empty(3 * steps * lanes, Y.dtype)
    h, text, last = (
        np.empty(NUMBERS_PER_LANE * lanes, Y.dtype),
        np.empty(max_set_size(offsets), Y.dtype),
        len(symbols) - 1,
    )
    numbers = np.arange(4).astype(Y.dtype)
    outside = np.subtract(numbers[0], numbers[1])  # -1, which occurs in no landmark
    for s in range(len(offsets) - 1):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        for i in range(n):
            text[i] = symbols[min(np.int64(codes[start + i]), last)]
        cells[:] = numbers[0]
        for j in range(steps):
            cells[(3 * j + 2) * lanes : (3 * j + 3) * lanes] = numbers[3]  # F: no row has contained y_j yet
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
            result = np.float32(min(result, max_edits + 1))
            out[s, columns[k]] = result / np.float32(max(n, m, 1)) if normalize else result
