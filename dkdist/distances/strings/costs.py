"""Validation of edit costs, reduction to the simplest equivalent table, and strings packed for `_costs_numba.py`.

Except for |n - m| of them, deletions and insertions occur in pairs, so only the sum of their costs matters:

    d = min of w (deletions + insertions) + s substitutions + t swaps,  + (deletion - insertion) (n - m) / 2

with w = (deletion + insertion) / 2. For s >= 2 w the minimum is w times the distance of insertions and deletions. For
s = w it is w times the Levenshtein distance, and with swaps of cost t = w the distance of optimal string alignment.
These have bit-parallel algorithms. Other costs need a table whose neighbouring cells differ by integer multiples of one
unit, or of 2^-28 w if the costs have no common unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import check_real_array, check_scale
from dkdist._numba.arrays import F64, I64
from dkdist.distances.strings._banded_numba import INDEL, LEVENSHTEIN, OSA
from dkdist.distances.strings._costs_numba import STRINGS_PER_TILE

WEIGHTED = 3  # needs a table of numbers; other kinds are in dkdist/distances/strings/_banded_numba.py
MAX_INT8_UNITS = 31  # maximum w for int8: cells are at most 4 w (tests/distances/test_edit_costs.py)
# Value of w for costs without a common unit; 4 w fits in int32 (tests/distances/test_edit_costs.py).
MAX_UNITS = 2**28
MAX_DENOMINATOR = 1000  # maximum denominator of a common unit (tests/distances/test_edit_costs.py)
N_CODES = 2**16  # codes are uint16 (dkdist/sets/strings.py)
MAX_COST = 2**24  # edits; smaller integers are exact in float32 (IEEE 754-2019)

Symbols = str | tuple[int, ...]
PairCosts = tuple[Symbols, tuple[tuple[float, ...], ...]]


class TablePlan(NamedTuple):
    """Parameters of a table: distances are height * ``unit`` + ``slant`` (n - m) for integer heights.

    For a `WEIGHTED` table, ``w`` and ``t`` are costs in units of height. ``pairs`` (K + 1, K + 1) are the costs of
    substitutions between classes of symbols; the last class holds all other symbols. It is (1, 1) for equal costs.
    ``t`` is -1 without swaps. ``narrow`` is True if all cells fit in int8.
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
        """Whether heights equal distances."""
        return self.kind != WEIGHTED and self.unit == 1 and self.slant == 0


def check_cost(name: str, param: Any) -> float:
    """Return a cost as float; raise ValueError unless it is finite and >= 0."""
    number: Any = param
    if isinstance(param, bool) or not isinstance(param, Real) or not number >= 0:
        raise ValueError(f"{name} must be a finite number >= 0; got {param!r:.200}.")
    return check_scale(name, param) if param else 0.0


def check_pair_costs(param: Any, default: float) -> PairCosts:
    """Return (symbols, costs of all pairs) from a dict of pairs, or from (symbols, matrix).

    A pair given in only one order has the same cost in the other order; pairs that are not given cost ``default``.
    """
    if isinstance(param, Mapping):
        return _from_pairs(param, default)
    if not (isinstance(param, (tuple, list)) and len(param) == 2):
        raise ValueError(
            "substitution_costs must be a dict of pairs, {('a', 'b'): 0.5}, or (symbols, matrix), such as ('ACGT', "
            f"costs); got {param!r:.200}."
        )
    symbols = param[0] if isinstance(param[0], str) else tuple(param[0])
    if len(symbols) == 0 or len(set(symbols)) < len(symbols):
        raise ValueError(f"the symbols of substitution_costs must be distinct; got {symbols!r:.200}.")
    matrix = check_real_array("the matrix of substitution_costs", param[1])
    if matrix.shape != (len(symbols), len(symbols)):
        raise ValueError(
            f"substitution_costs must have a row and a column for each of {len(symbols)} symbols; got shape "
            f"{matrix.shape}."
        )
    rows = tuple(
        tuple(
            check_cost(f"the cost of {a!r} for {b!r}", value) for b, value in zip(symbols, row, strict=True)
        )
        for a, row in zip(symbols, matrix.tolist(), strict=True)
    )
    changed = next((i for i, row in enumerate(rows) if row[i] != 0), None)
    if changed is not None:
        raise ValueError(
            f"substitution_costs must be 0 for equal symbols; got {rows[changed][changed]:g} for {symbols[changed]!r}."
        )
    return _check_symbols(symbols), rows


def _from_pairs(param: Mapping[Any, Any], default: float) -> PairCosts:
    for key in param:
        if not (isinstance(key, (tuple, str)) and len(key) == 2 and type(key[0]) is type(key[1])):
            raise ValueError(
                f"the keys of substitution_costs must be pairs of symbols, such as ('a', 'b'); got {key!r:.200}."
            )
    symbol_list = sorted({symbol for pair in param for symbol in pair})
    if not symbol_list:
        raise ValueError("substitution_costs must not be an empty dict. Omit it.")
    symbols = "".join(symbol_list) if isinstance(symbol_list[0], str) else tuple(symbol_list)
    index = {symbol: i for i, symbol in enumerate(symbol_list)}
    matrix = np.full((len(symbol_list), len(symbol_list)), float(default))
    np.fill_diagonal(matrix, 0)
    for (a, b), value in param.items():
        if (b, a) not in param and b + a not in param if isinstance(a, str) else (b, a) not in param:
            matrix[index[b], index[a]] = value
        matrix[index[a], index[b]] = value
    return check_pair_costs((symbols, matrix), default)


def _check_symbols(symbols: Symbols) -> Symbols:
    if isinstance(symbols, str):
        return symbols
    codes: tuple[Any, ...] = symbols
    if not all((type(v) is int or isinstance(v, np.integer)) and 0 <= v < N_CODES for v in codes):
        raise ValueError(
            f"the symbols of substitution_costs must be a str of characters, or codes from 0 to {N_CODES - 1}; got "
            f"{symbols!r:.200}."
        )
    return tuple(int(v) for v in symbols)


def plan_table(
    insertion: float, deletion: float, substitution: float, transposition: float | None, pairs: F64 | None
) -> TablePlan:
    """Choose the simplest table; ``pairs`` (K, K) are costs of substitutions by classes of symbols."""
    pair_cost, slant = deletion + insertion, (deletion - insertion) / 2
    s = min(substitution, pair_cost)
    swap = transposition
    if swap is not None and swap >= (pair_cost if pairs is not None else min(pair_cost, 2 * s)):
        swap = None  # a swap is not cheaper than other edits
    if pairs is None:
        if s == pair_cost and swap is None:
            return TablePlan(INDEL, pair_cost / 2, slant)
        if 2 * s == pair_cost and swap in (None, s):
            return TablePlan(LEVENSHTEIN if swap is None else OSA, s, slant)
    k = 0 if pairs is None else len(pairs)
    costs = np.full((k + 1, k + 1), s)
    if pairs is not None:
        costs[:k, :k] = np.minimum(pairs, pair_cost)
    units = _in_common_units(
        [
            pair_cost,
            2 * substitution if s < pair_cost else pair_cost,
            *(2 * costs).ravel().tolist(),
            2 * (swap or 0),
        ]
    )
    if units is None:
        unit = pair_cost / 2 / MAX_UNITS
        unit_costs, t = np.rint(costs / unit).astype(np.int64), -1 if swap is None else round(swap / unit)
        return TablePlan(WEIGHTED, unit, slant, MAX_UNITS, t, unit_costs, False)
    w, t = units[0], -1 if swap is None else units[-1]
    unit_costs = np.array(units[2:-1], np.int64).reshape(costs.shape)
    return TablePlan(WEIGHTED, pair_cost / 2 / w, slant, w, t, unit_costs, w <= MAX_INT8_UNITS)


def _in_common_units(doubled: list[float]) -> list[int] | None:
    """Return half of these values as integers in their largest common unit, or None if there is none."""
    fractions = [Fraction(value).limit_denominator(MAX_DENOMINATOR) for value in doubled]
    if any(float(fraction) != value for fraction, value in zip(fractions, doubled, strict=True)):
        return None
    denominator = math.lcm(*(fraction.denominator for fraction in fractions))
    units = [int(fraction * denominator) for fraction in fractions]
    divisor = math.gcd(*units) or 1
    units = [unit // divisor for unit in units]
    return units if max(units) <= MAX_UNITS else None


LANES_MULTIPLE = 16  # a full 512-bit vector of int32 (python benchmarks/distance_peers.py edits)
MAX_INT8_SYMBOLS = (
    126  # maximum distinct symbols of a tile with int8, without 0 and -1 (tests/distances/test_edit_costs.py)
)


class CostTiles(NamedTuple):
    """Tiles of up to 128 strings in lanes, the longest first.

    ``symbols`` concatenates, from ``starts`` on, codes (1 + steps, lanes) that are numbered within each tile: -1 before
    the first symbol, 0 after the end. ``codes`` (n_tiles, S + 1) maps symbols to these codes: the last entry is for all
    symbols from S on, and 0 means that the symbol does not occur in the tile. ``classes`` maps symbols to classes, the
    last entry for all others; it is empty if all substitutions cost the same. ``prices`` (classes, steps, lanes) of
    each tile, from ``price_starts`` on, are the costs of substituting a symbol of the class by the string's symbol; a
    single price per lane if ``classes`` is empty. ``numbers`` are the price of a substitution, 2 w, the price of a swap
    (the largest number without swaps), the largest number, and -1. ``columns`` and ``lengths`` (n_tiles, 128) belong to
    lanes; -1 and 0 for unused lanes.
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


def pack_costs(codes: NDArray[np.uint16], offsets: I64, plan: TablePlan, classes: I64) -> PackedCosts:
    """Pack strings of codes (T, 1); ``classes`` maps codes (last entry: all others) to indices of the plan's pairs."""
    sizes, R = np.diff(offsets), len(offsets) - 1
    order = np.argsort(-sizes, kind="stable")
    n_tiles, n_symbols = -(-R // STRINGS_PER_TILE), int(codes.max(initial=0)) + 1
    columns = np.full((n_tiles, STRINGS_PER_TILE), -1, np.int64)
    columns.flat[:R] = order
    lengths = np.where(columns >= 0, sizes[columns] if R else 0, 0)
    lanes = -(-(columns >= 0).sum(axis=1) // LANES_MULTIPLE) * LANES_MULTIPLE
    steps = lengths.max(axis=1, initial=0)
    starts = np.concatenate([[0], np.cumsum((steps + 1) * lanes)])

    tile, lane = np.divmod(np.argsort(order, kind="stable"), STRINGS_PER_TILE)  # tile and lane of each string
    string = np.repeat(np.arange(R), sizes)
    position = np.arange(len(string)) - offsets[string]
    symbol = codes[:, 0].astype(np.int64)
    is_present = np.zeros((n_tiles, n_symbols + 1), np.bool_)
    is_present[tile[string], symbol] = True
    numbers_of = (np.cumsum(is_present, axis=1, dtype=np.int32) * is_present).astype(np.int32)
    narrow = plan.narrow and int(numbers_of.max(initial=0)) <= MAX_INT8_SYMBOLS
    dtype = np.int8 if narrow else np.int32
    symbols = np.zeros(int(starts[-1]), dtype)
    for t in range(n_tiles):
        symbols[starts[t] : starts[t] + lanes[t]] = -1
    cell = (position + 1) * lanes[tile[string]] + lane[string]
    symbols[starts[tile[string]] + cell] = numbers_of[tile[string], symbol]

    k = len(plan.pairs)
    n_prices = (k if len(classes) else 0) * steps * lanes
    price_starts = np.concatenate([[0], np.cumsum(n_prices)])
    prices = np.full(max(int(price_starts[-1]), STRINGS_PER_TILE), plan.pairs[-1, -1], dtype)
    if len(classes):
        symbol_class = classes[np.minimum(symbol, len(classes) - 1)]
        first_price, class_stride = (
            price_starts[tile[string]] + cell - lanes[tile[string]],
            (steps * lanes)[tile[string]],
        )
        for c in range(k):
            prices[first_price + c * class_stride] = plan.pairs[c, symbol_class]
    largest = np.iinfo(dtype).max
    numbers = [plan.pairs[-1, -1], 2 * plan.w, largest if plan.t < 0 else plan.t, largest, -1]
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
