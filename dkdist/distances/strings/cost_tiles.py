"""Strings side by side in lanes, with what it costs to substitute their symbols, for `cost_loops`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist.distances.strings.cost_loops import LANES
from dkdist.distances.strings.edit_costs import Plan
from dkdist.loops.array_types import I64

STEP = 16  # lanes come in so many
MAX_NARROW_SYMBOLS = 126  # symbols of a tile whose codes are int8


class CostTiles(NamedTuple):
    """Up to 128 strings a tile, the longest first, in lanes.

    ``symbols`` holds, tile after tile from ``starts`` on, (1 + steps, lanes) codes within the tile: -1 before the
    beginning, 0 after the end. ``codes`` (n_tiles, S + 1) are these codes by symbol, the last for all from S on: 0 for
    those that the tile lacks. ``classes`` are the classes of symbols, the last for all others, or empty where all
    substitutions cost the same. ``prices`` (classes, steps, lanes) of each tile, from ``price_starts`` on, say what it
    costs that a symbol of the class becomes a string's; or the same is said for each lane. ``numbers`` are the price of
    a substitution, 2 w, the price of a swap (the largest number for none), the largest number, and -1. ``columns`` and
    ``lengths`` (n_tiles, 128) are of each lane, -1 and 0 for none.
    """

    symbols: Any
    lanes: I64
    starts: I64
    codes: NDArray[np.int32]
    classes: I64
    prices: Any
    price_starts: I64
    numbers: Any
    columns: I64
    lengths: I64


class PackedCosts(NamedTuple):
    """Prepared strings and the unit of their tables."""

    n_omegas: int
    tiles: CostTiles


def packed_costs(codes: NDArray[np.uint16], offsets: I64, plan: Plan, classes: I64) -> PackedCosts:
    """Strings of codes (T, 1); ``classes`` by code, the last for all others, are those of the plan's pairs."""
    sizes, R = np.diff(offsets), len(offsets) - 1
    order = np.argsort(-sizes, kind="stable")
    n_tiles, n_symbols = -(-R // LANES), int(codes.max(initial=0)) + 1
    columns = np.full((n_tiles, LANES), -1, np.int64)
    columns.flat[:R] = order
    lengths = np.where(columns >= 0, sizes[columns] if R else 0, 0)
    lanes = -(-(columns >= 0).sum(axis=1) // STEP) * STEP
    steps = lengths.max(axis=1, initial=0)
    starts = np.concatenate([[0], np.cumsum((steps + 1) * lanes)])

    tile, lane = np.divmod(np.argsort(order, kind="stable"), LANES)  # of each string
    own = np.repeat(np.arange(R), sizes)
    place = np.arange(len(own)) - offsets[own]
    symbol = codes[:, 0].astype(np.int64)
    found = np.zeros((n_tiles, n_symbols + 1), np.bool_)
    found[tile[own], symbol] = True
    numbers_of = (np.cumsum(found, axis=1, dtype=np.int32) * found).astype(np.int32)
    narrow = plan.narrow and int(numbers_of.max(initial=0)) <= MAX_NARROW_SYMBOLS
    dtype = np.int8 if narrow else np.int32
    symbols = np.zeros(int(starts[-1]), dtype)
    for t in range(n_tiles):
        symbols[starts[t] : starts[t] + lanes[t]] = -1
    at = (place + 1) * lanes[tile[own]] + lane[own]
    symbols[starts[tile[own]] + at] = numbers_of[tile[own], symbol]

    k = len(plan.pairs)
    sized = (k if len(classes) else 0) * steps * lanes
    price_starts = np.concatenate([[0], np.cumsum(sized)])
    prices = np.full(max(int(price_starts[-1]), LANES), plan.pairs[-1, -1], dtype)
    if len(classes):
        of_symbol = classes[np.minimum(symbol, len(classes) - 1)]
        first, depth = price_starts[tile[own]] + at - lanes[tile[own]], (steps * lanes)[tile[own]]
        for c in range(k):
            prices[first + c * depth] = plan.pairs[c, of_symbol]
    most = np.iinfo(dtype).max
    numbers = [plan.pairs[-1, -1], 2 * plan.w, most if plan.t < 0 else plan.t, most, -1]
    return PackedCosts(
        R,
        CostTiles(
            symbols=symbols,
            lanes=lanes.astype(np.int64),
            starts=starts.astype(np.int64),
            codes=numbers_of,
            classes=classes,
            prices=prices,
            price_starts=price_starts.astype(np.int64),
            numbers=np.array(numbers, dtype),
            columns=columns,
            lengths=lengths,
        ),
    )
