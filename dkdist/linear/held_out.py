"""Selection of held-out rows and of random samples by row index and seed.

The selection does not depend on blocks, workers or the order of passes. `held_out_in_stream` and `keys_in_stream` do
not need the number of rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64

Mask = NDArray[np.bool_]


def choose_held_out(
    n_rows: int, fraction: float, seed: tuple[int, ...], groups: I64 | None = None
) -> NDArray[np.bool_]:
    """Return a mask (n,) of a ``fraction`` of the rows of each group, rounded up, but never a whole group.

    ``groups`` (n,) are class indices; None means one group.
    """
    mask: NDArray[np.bool_] = np.zeros(n_rows, dtype=np.bool_)
    if fraction == 0.0:
        return mask
    if groups is None:
        groups = np.zeros(n_rows, np.int64)
    order = np.random.default_rng(seed).permutation(n_rows)
    order = order[np.argsort(groups[order], kind="stable")]
    edges = np.append(0, np.cumsum(np.bincount(groups)))
    n_total = 0
    for a, b in pairwise(edges.tolist()):
        due = _n_of_fraction(fraction, b) - n_total  # includes the remainder of earlier groups
        n_taken = max(0, min(due, _n_of_fraction(fraction, b - a), b - a - 1))
        mask[order[a : a + n_taken]] = True
        n_total += n_taken
    if n_total == 0:
        raise ValueError(
            f"validation_fraction must hold out at least 1 row; got {fraction} of n_samples={n_rows}. Increase the "
            "fraction or the number of rows."
        )
    return mask


def _n_of_fraction(fraction: float, n: int) -> int:
    return int(np.ceil(fraction * n - 1e-9))


def choose_held_out_present(
    present: Mask, fraction: float, seed: tuple[int, ...], groups: I64 | None = None
) -> Mask:
    """Apply `choose_held_out` to the present rows; the mask has an entry for every row."""
    mask = np.zeros(len(present), np.bool_)
    present_mask = choose_held_out(
        int(present.sum()), fraction, seed, None if groups is None else groups[present]
    )
    mask[present] = present_mask
    return mask


def held_out_in_stream(first: int, n_rows: int, fraction: float, seed: tuple[int, ...]) -> Mask:
    """Return the mask of held-out rows among rows ``first`` to ``first + n_rows - 1`` of a stream.

    In each range of 1 / fraction consecutive rows one random row is held out; it depends only on row indices.
    """
    if fraction > 0.5:
        return ~held_out_in_stream(first, n_rows, 1.0 - fraction, seed)
    window = int(first * fraction)
    last = int((first + n_rows) * fraction) + 1
    positions = (np.arange(window, last) + keys_in_stream(window, last - window, seed)) / fraction
    index = positions.astype(np.int64) - first
    mask = np.zeros(n_rows, np.bool_)
    mask[index[(index >= 0) & (index < n_rows)]] = True
    return mask


def keys_in_stream(first: int, n_rows: int, seed: tuple[int, ...]) -> F64:
    """Return random sampling keys of rows ``first`` to ``first + n_rows - 1``; the smallest keys define the sample."""
    bits = np.random.PCG64(seed)
    bits.advance(first)
    return np.random.Generator(bits).random(n_rows)
