"""Sorting network for short columns, one column per SIMD lane, compared in vector registers.

Bitonic merge sort (Batcher 1968) with all comparators in ascending order: the first level that merges two sorted runs
of p rows compares rows i and 2 p - 1 - i, the next levels rows i and i + k for k = p / 2, p / 4, ..., 1. Missing rows
are infinite. Runs of 32 rows are sorted, and the last four levels of a merge are done, in registers; other passes
over memory take two levels each. Cost: about n log2(n)^2 / 4 comparators, each a minimum and a maximum of vectors.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit
from dkdist._numba.elementary import f32
from dkdist._numba.simd import SIMD_WIDTH, comparators, full, larger, load, part, smaller, store

INF = f32(np.inf)  # IEEE 754-2019
BLOCK_ROWS = 16  # rows in registers: all of AVX2, half of AVX-512 (tests/loops/test_sorting.py)
RUN_ROWS = 32  # rows that are sorted in registers at first (tests/loops/test_sorting.py)


def _odd_even_merge_sort(n: int) -> list[tuple[int, int]]:
    """Return the comparators of Batcher's odd-even merge sort of n rows, a power of two."""
    powers = [1 << s for s in range(n.bit_length() - 1)]
    return [
        (i, i + k)
        for p in powers
        for k in reversed(powers)
        if k <= p
        for j in range(k % p, n - k, 2 * k)
        for i in range(j, min(j + k, n - k))
        if i // (2 * p) == (i + k) // (2 * p)
    ]


_sort_run = comparators(_odd_even_merge_sort(RUN_ROWS))
_merge_block = comparators([(i, i + k) for k in (8, 4, 2, 1) for i in range(BLOCK_ROWS) if not i & k])


def padded_rows(n: int) -> int:
    """Return the rows of the buffer that sorts n rows: a power of two."""
    return max(RUN_ROWS, 1 << (n - 1).bit_length())


@inline_jit(early=False)
def sort_blocks(x, n):  # type: ignore[no-untyped-def]
    """Sort the rows inside the blocks of 16 that `sort_columns` leaves in another order."""
    for i in range(0, n, BLOCK_ROWS):
        rows = load(x, i * SIMD_WIDTH, SIMD_WIDTH, BLOCK_ROWS, SIMD_WIDTH)
        store(_merge_block(rows), x, i * SIMD_WIDTH, SIMD_WIDTH)


@inline_jit()
def sort_columns(x, n):  # type: ignore[no-untyped-def]
    """Sort columns of x, (rows * SIMD_WIDTH,) float32 or float64, except that blocks of 16 rows are in another order.

    Of at least `padded_rows` (n) rows the first n are sorted; `row_at_rank` returns rows in order.
    """
    p = RUN_ROWS
    while p < n:
        p *= 2
    for i in range(n, p):
        store(full(x.dtype.type(INF), 1, SIMD_WIDTH), x, i * SIMD_WIDTH, 0)
    for i in range(0, n, RUN_ROWS):
        rows = load(x, i * SIMD_WIDTH, SIMD_WIDTH, RUN_ROWS, SIMD_WIDTH)
        store(_sort_run(rows), x, i * SIMD_WIDTH, SIMD_WIDTH)
    p, is_even = RUN_ROWS, True
    while p < n:
        for first in range(0, n - p, 2 * p):
            size = min(n - first, 2 * p) * SIMD_WIDTH
            _merge(x, first * SIMD_WIDTH, p * SIMD_WIDTH, size, is_even)
        p, is_even = 2 * p, not is_even
        sort_blocks(x, n if p < n else 0)


@inline_jit()
def _merge(x, first, p, size, is_even):  # type: ignore[no-untyped-def]
    """Merge two runs of p numbers from ``first`` on, in an even number of levels; after ``size`` they are infinite."""
    k = p // 2
    if is_even:  # the first level and that of p / 2
        for i in range(first, first + k, SIMD_WIDTH):
            j = 2 * first + 2 * p - SIMD_WIDTH - i
            a, b = load(x, i, 0, 1, SIMD_WIDTH), load(x, i + k, 0, 1, SIMD_WIDTH)
            c, d = load(x, j - k, 0, 1, SIMD_WIDTH), load(x, j, 0, 1, SIMD_WIDTH)
            a, d, b, c = smaller(a, d), larger(a, d), smaller(b, c), larger(b, c)
            store(smaller(a, b), x, i, 0)
            store(larger(a, b), x, i + k, 0)
            store(smaller(c, d), x, j - k, 0)
            store(larger(c, d), x, j, 0)
        k //= 2
    else:
        for i in range(first, first + p, SIMD_WIDTH):
            j = 2 * first + 2 * p - SIMD_WIDTH - i
            a, b = load(x, i, 0, 1, SIMD_WIDTH), load(x, j, 0, 1, SIMD_WIDTH)
            store(smaller(a, b), x, i, 0)
            store(larger(a, b), x, j, 0)
    while k >= BLOCK_ROWS * SIMD_WIDTH:  # the levels of k and k / 2
        h = k // 2
        for block in range(first, first + size, 2 * k):
            for i in range(block, block + h, SIMD_WIDTH):
                low, high = load(x, i, h, 2, SIMD_WIDTH), load(x, i + k, h, 2, SIMD_WIDTH)
                store(_order_two(smaller(low, high)), x, i, h)
                store(_order_two(larger(low, high)), x, i + k, h)
        k //= 4


@inline_jit()
def row_at_rank(x, rank):  # type: ignore[no-untyped-def]
    """Return the row with the numbers of this rank as a tile, by those comparators of the last merge that decide it."""
    first = rank // BLOCK_ROWS * BLOCK_ROWS * SIMD_WIDTH
    low = load(x, first, SIMD_WIDTH, 8, SIMD_WIDTH)
    high = load(x, first + 8 * SIMD_WIDTH, SIMD_WIDTH, 8, SIMD_WIDTH)
    eight = _decide(rank & 8, low, high)
    four = _decide(rank & 4, part(eight, 0, 4), part(eight, 4, 4))
    two = _decide(rank & 2, part(four, 0, 2), part(four, 2, 2))
    return _decide(rank & 1, part(two, 0, 1), part(two, 1, 1))


@inline_jit()
def _decide(is_high, low, high):  # type: ignore[no-untyped-def]
    return larger(low, high) if is_high else smaller(low, high)


_order_two = comparators([(0, 1)])
