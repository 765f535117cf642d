"""Steps by rows of which others make some ahead of who steps.

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
from dkdist.learners.rows import F, MadeRows, nothing_made
from dkdist.loops.array_types import I64

PIECE_TILES = 2  # of several pieces, which all stay in the last level

Ahead = Callable[[Callable[[int], F], int], Iterator[F | None]]
"""For each of n pieces: what a function makes of its number, if others have made it by now, or None."""


def descend_by_pieces(
    X: MadeRows,
    order: I64,
    steps: Steps,
    iterate: Iterate,
    looks: Looks | None,
    n_averaged: int,
    ahead: Ahead,
) -> int:
    """Steps by rows of which others make pieces ahead; the number of terms of the average.

    The rows after a piece are whole tiles, as `MadeRows.descend` wants it: the bits are the same.
    """
    size = PIECE_TILES * X.tile
    ends = np.arange(len(order), 0, -size)[::-1].tolist()
    starts = [0, *ends[:-1]]

    def made(i: int) -> F:
        rows = np.empty((1, ends[i] - starts[i], X.shape[1]), X.dtype)
        X.fill(order[starts[i] : ends[i]], rows[0])
        return rows

    nothing = nothing_made(X)
    for first, last, piece in zip(starts, ends, ahead(made, len(ends)), strict=True):
        there = nothing if piece is None else piece
        n_averaged = X.descend(order, first, last, there, steps, iterate, looks, n_averaged)
    return n_averaged
