"""Which rows are held out, and which are looked at closely: by row index, from a seed.

No block boundary, worker or order of passes can change them; `held_out_in_stream` and `keys_in_stream` do not even
need to know how many rows will follow.
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
    """A mask of fraction n rows, rounded up, but never a whole group; each group gives its share.

    ``groups`` (n,) are class indices; without them all rows are one group.
    """
    held: NDArray[np.bool_] = np.zeros(n_rows, dtype=np.bool_)
    if fraction == 0.0:
        return held
    if groups is None:
        groups = np.zeros(n_rows, np.int64)
    order = np.random.default_rng(seed).permutation(n_rows)
    order = order[np.argsort(groups[order], kind="stable")]
    edges = np.append(0, np.cumsum(np.bincount(groups)))
    total = 0
    for a, b in pairwise(edges.tolist()):
        owed = _share(fraction, b) - total  # with what rounding and groups of one row have left over
        take = max(0, min(owed, _share(fraction, b - a), b - a - 1))
        held[order[a : a + take]] = True
        total += take
    if total == 0:
        raise ValueError(
            f"validation_fraction={fraction} of n_samples={n_rows} holds out no row: "
            "give more rows, a larger fraction, or hold out nothing"
        )
    return held


def _share(fraction: float, n: int) -> int:
    return int(np.ceil(fraction * n - 1e-9))


def held_out_among(present: Mask, fraction: float, seed: tuple[int, ...], groups: I64 | None = None) -> Mask:
    """`choose_held_out` among the rows that are present; the mask is that of all rows."""
    held = np.zeros(len(present), np.bool_)
    chosen = choose_held_out(int(present.sum()), fraction, seed, None if groups is None else groups[present])
    held[present] = chosen
    return held


def held_out_in_stream(first: int, n_rows: int, fraction: float, seed: tuple[int, ...]) -> Mask:
    """Which of rows ``first`` to ``first + n_rows - 1`` of a stream are held out: one in every 1 / fraction.

    Where it stands among them is drawn from the seed and its number. ``first`` and ``n_rows`` cut the stream
    anywhere: a row's fate depends on its index alone.
    """
    if fraction > 0.5:
        return ~held_out_in_stream(first, n_rows, 1.0 - fraction, seed)
    window = int(first * fraction)
    last = int((first + n_rows) * fraction) + 1
    places = (np.arange(window, last) + keys_in_stream(window, last - window, seed)) / fraction
    index = places.astype(np.int64) - first
    held = np.zeros(n_rows, np.bool_)
    held[index[(index >= 0) & (index < n_rows)]] = True
    return held


def keys_in_stream(first: int, n_rows: int, seed: tuple[int, ...]) -> F64:
    """Uniform numbers of rows ``first`` to ``first + n_rows - 1``: those with the smallest are a random sample."""
    bits = np.random.PCG64(seed)
    bits.advance(first)
    return np.random.Generator(bits).random(n_rows)
