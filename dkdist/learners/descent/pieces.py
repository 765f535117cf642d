"""Steps by rows that are made when they are asked for: by who steps, a tile at a time, or ahead of him by others.

    rows in order    | piece 0 | piece 1 | piece 2 | ...        the first is the short one
    made by          | stepper | other   | other   |

Steps come one after another, features do not. Who has nothing else to do makes a piece, which stays in the last level
of the cache until the steps come to it; of what nobody has begun, the stepper makes a tile at a time in one loop with
its steps, where it is used in the second level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dkdist.learners.descent.descent_loops import Iterate, Looks, Steps
from dkdist.learners.rows import F, MadeRows
from dkdist.loops.array_types import I64

PIECE_TILES = 2  # of several pieces, which all stay in the last level

Ahead = Callable[[Callable[[int], F], int], Iterator[F | None]]
"""For each of n pieces: what a function makes of its number, if others have made it by now, or None."""


def descend_in_pieces(
    X: MadeRows,
    order: I64,
    steps: Steps,
    iterate: Iterate,
    looks: Looks | None,
    n_averaged: int,
    ahead: Ahead | None,
) -> int:
    """Steps by rows that are made: by this thread, a tile at a time, or ahead by others, a piece at a time.

    The rows after a piece are whole tiles, as `tile_steps` wants it: the bits are the same.
    """
    n, size = len(order), PIECE_TILES * X.tile
    ends = np.arange(n, 0, -size)[::-1].tolist() if ahead else [n]
    starts = [0, *ends[:-1]]

    def made(i: int) -> F:
        rows = np.empty((1, ends[i] - starts[i], X.shape[1]), X.dtype)
        X.fill(order[starts[i] : ends[i]], rows[0])
        return rows

    none = np.empty((0, 0, X.shape[1]), X.dtype)
    for first, last, there in zip(starts, ends, ahead(made, len(ends)) if ahead else [None], strict=True):
        there = none if there is None else there
        n_averaged = X.descend(order, first, last, there, steps, iterate, looks, n_averaged)
    return n_averaged
