"""Strings side by side in lanes, with what it costs to substitute their symbols, for `cost_loops`.

What edits cost: numbers checked, and brought to the plainest table that has the same distances.

Deletions and insertions come in pairs but for n - m of them, so that only their sum decides which edits are best:

    d = least of w (deletions + insertions) + s substitutions + t swaps,  + (deletion - insertion) (n - m) / 2

with w = (deletion + insertion) / 2. For s >= 2 w that is w times the distance of insertions and deletions alone, for
s = w w times Levenshtein's, with swaps at t = w that of optimal string alignment: bits do it. All else is a table whose
cells differ from their neighbours by whole multiples of one unit, or of 2^-28 w where costs have no such unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import real_matrix, within_float32
from dkdist._numba.arrays import F64, I64
from dkdist.distances.strings._banded_numba import COMMON, EDITS, SWAPS
from dkdist.distances.strings._costs_numba import LANES

COSTS = 3  # the kind of a table of numbers, beside those of bits
NARROW = 31  # units of w: four times that is an int8
FINE = 2**28  # units of w where costs have none
DIGITS = 1000  # denominators that are tried for a unit
CODES = 2**16
MAX_COST = 2**24  # edits

Symbols = str | tuple[int, ...]
PairCosts = tuple[Symbols, tuple[tuple[float, ...], ...]]


class Plan(NamedTuple):
    """How distances are found: height * ``unit`` + ``slant`` (n - m), where heights are whole numbers.

    ``w``, ``s``, ``t`` are costs in units of heights of a table of ``kind`` `COSTS`, and ``pairs`` (K + 1, K + 1) those
    of substitutions by classes of symbols, the last for all others; (1, 1) where all cost the same. ``t`` is -1 where
    nothing is swapped. ``narrow`` says that all of a table fits in int8.
    """

    kind: int
    unit: float
    slant: float
    w: int = 0
    t: int = -1
    pairs: NDArray[np.int64] = np.zeros((1, 1), np.int64)
    narrow: bool = True

    @property
    def plain(self) -> bool:
        """Whether heights are distances."""
        return self.kind != COSTS and self.unit == 1 and self.slant == 0


def cost(name: str, given: Any) -> float:
    """A cost: a finite number of at least zero."""
    number: Any = given
    if isinstance(given, bool) or not isinstance(given, Real) or not number >= 0:
        raise ValueError(f"{name} must be a cost, a finite number >= 0; found {given!r:.200}")
    return within_float32(name, given) if given else 0.0


def pair_costs(given: Any, usual: float) -> PairCosts:
    """(symbols, costs of all pairs of them) of a dict of pairs, or of (symbols, matrix).

    A pair that a dict has in one order alone costs the same in the other, one that it lacks the ``usual``.
    """
    if isinstance(given, Mapping):
        return _from_pairs(given, usual)
    if not (isinstance(given, (tuple, list)) and len(given) == 2):
        raise ValueError(
            "substitution_costs must be a dict of pairs, {('a', 'b'): 0.5}, or (symbols, matrix), such as ('ACGT', "
            f"costs); found {given!r:.200}"
        )
    symbols = given[0] if isinstance(given[0], str) else tuple(given[0])
    if len(symbols) == 0 or len(set(symbols)) < len(symbols):
        raise ValueError(f"the symbols of substitution_costs must be distinct; found {symbols!r:.200}")
    matrix = real_matrix("the matrix of substitution_costs", given[1])
    if matrix.shape != (len(symbols), len(symbols)):
        raise ValueError(
            f"substitution_costs must have a row and a column for each of {len(symbols)} symbols; found shape "
            f"{matrix.shape}"
        )
    rows = tuple(
        tuple(cost(f"the cost of {a!r} for {b!r}", value) for b, value in zip(symbols, row, strict=True))
        for a, row in zip(symbols, matrix.tolist(), strict=True)
    )
    changed = next((i for i, row in enumerate(rows) if row[i] != 0), None)
    if changed is not None:
        raise ValueError(
            f"substitution_costs has {rows[changed][changed]:g} for {symbols[changed]!r} and itself: to keep a symbol "
            "costs 0"
        )
    return _checked(symbols), rows


def _from_pairs(given: Mapping[Any, Any], usual: float) -> PairCosts:
    for key in given:
        if not (isinstance(key, (tuple, str)) and len(key) == 2 and type(key[0]) is type(key[1])):
            raise ValueError(
                f"substitution_costs must have pairs of symbols for keys, such as ('a', 'b'); found {key!r:.200}"
            )
    found = sorted({symbol for pair in given for symbol in pair})
    if not found:
        raise ValueError("substitution_costs is an empty dict: leave it out")
    symbols = "".join(found) if isinstance(found[0], str) else tuple(found)
    place = {symbol: i for i, symbol in enumerate(found)}
    matrix = np.full((len(found), len(found)), float(usual))
    np.fill_diagonal(matrix, 0)
    for (a, b), value in given.items():
        if (b, a) not in given and b + a not in given if isinstance(a, str) else (b, a) not in given:
            matrix[place[b], place[a]] = value
        matrix[place[a], place[b]] = value
    return pair_costs((symbols, matrix), usual)


def _checked(symbols: Symbols) -> Symbols:
    if isinstance(symbols, str):
        return symbols
    codes: tuple[Any, ...] = symbols
    if not all((type(v) is int or isinstance(v, np.integer)) and 0 <= v < CODES for v in codes):
        raise ValueError(
            f"the symbols of substitution_costs must be a str of characters, or codes from 0 to {CODES - 1}; found "
            f"{symbols!r:.200}"
        )
    return tuple(int(v) for v in symbols)


def plan(
    insertion: float, deletion: float, substitution: float, transposition: float | None, pairs: F64 | None
) -> Plan:
    """The plainest table; ``pairs`` (K, K) are costs of substitutions by classes of symbols."""
    both, slant = deletion + insertion, (deletion - insertion) / 2
    s = min(substitution, both)
    swap = transposition
    if swap is not None and swap >= (both if pairs is not None else min(both, 2 * s)):
        swap = None  # other edits are as good
    if pairs is None:
        if s == both and swap is None:
            return Plan(COMMON, both / 2, slant)
        if 2 * s == both and swap in (None, s):
            return Plan(EDITS if swap is None else SWAPS, s, slant)
    k = 0 if pairs is None else len(pairs)
    costs = np.full((k + 1, k + 1), s)
    if pairs is not None:
        costs[:k, :k] = np.minimum(pairs, both)
    units = _whole(
        [both, 2 * substitution if s < both else both, *(2 * costs).ravel().tolist(), 2 * (swap or 0)]
    )
    if units is None:
        unit = both / 2 / FINE
        whole, t = np.rint(costs / unit).astype(np.int64), -1 if swap is None else round(swap / unit)
        return Plan(COSTS, unit, slant, FINE, t, whole, False)
    w, t = units[0], -1 if swap is None else units[-1]
    whole = np.array(units[2:-1], np.int64).reshape(costs.shape)
    return Plan(COSTS, both / 2 / w, slant, w, t, whole, w <= NARROW)


def _whole(twice: list[float]) -> list[int] | None:
    """Half of these numbers in the largest unit that they are whole multiples of, or None if there is none."""
    parts = [Fraction(value).limit_denominator(DIGITS) for value in twice]
    if any(float(part) != value for part, value in zip(parts, twice, strict=True)):
        return None
    bottom = math.lcm(*(part.denominator for part in parts))
    units = [int(part * bottom) for part in parts]
    shared = math.gcd(*units) or 1
    units = [unit // shared for unit in units]
    return units if max(units) <= FINE else None


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
