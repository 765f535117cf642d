"""What medians are taken of: rows drawn at random from a seed.

Evenly spaced rows beat with whatever has a period: pixels of a grid, repeated columns, sets in turns.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._params import draw_seed

I64 = NDArray[np.int64]

ROLE = 0x4D454449  # keeps these random numbers apart from others of the same seed


def median_seed(random_state: Any) -> int:
    """The seed that ``random_state`` is, or will give next; 0 for None, so that medians are the same every time."""
    moves = isinstance(random_state, (np.random.Generator, np.random.RandomState))
    return 0 if random_state is None else draw_seed(copy.deepcopy(random_state) if moves else random_state)


def some(n: int, count: int, *key: int) -> I64:
    """``count`` of n positions at random, or all; sorted."""
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng([*key, ROLE]).choice(n, count, replace=False, shuffle=False))


def some_runs(n: int, n_runs: int, length: int, seed: int) -> I64:
    """Positions below n in runs of neighbours, so that few blocks are read: one at random in each of equal parts."""
    if n <= n_runs * length:
        return np.arange(n)
    edges = n * np.arange(n_runs + 1) // n_runs
    starts = np.random.default_rng([seed, ROLE]).integers(edges[:-1], edges[1:] - length, endpoint=True)
    return np.asarray((starts[:, None] + np.arange(length)).ravel())


def row_keys(first: int, count: int, seed: int) -> NDArray[np.float64]:
    """Random numbers in [0, 1) of rows ``first`` and after, the same in whatever pieces rows are looked at."""
    bits = np.random.PCG64([seed, ROLE])
    bits.advance(first)
    return np.random.Generator(bits).random(count)


def least_keys(keys: NDArray[np.float64], count: int) -> I64:
    """Positions of the least keys, ``count`` or all; sorted."""
    return np.arange(len(keys)) if len(keys) <= count else np.sort(np.argpartition(keys, count)[:count])
