"""Where coordinates are counted from: an origin for each column, so that float32 holds differences far from zero.

float32 has 24 bits. A column of 1e9 + N(0, 1) keeps none of its differences in them, and counted from 1e9 all of
them. Columns that float32 holds as they are have the origin 0; others that lie `MIN_OFFSET_RATIO` times their spread from zero
have a number of few bits near their middle. The middle and the spread are medians of a sample: one outlier, or a
missing value written as 0, moves neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.validation import Columns

MIN_OFFSET_RATIO = 64  # spreads (median distances from the middle) from zero: six of 24 bits, and 16 widths of an even column
MIN_FLOAT32_STEPS = 16  # of float32 in a spread: fewer hold no differences
ROUNDING_RTOL = 2.0**-46  # of a value: what differs by less (128 steps of float64) is equal but for rounding
MAX_SAMPLE_VALUES, MAX_SAMPLE_ROWS, MIN_SAMPLE_ROWS = 2**16, 1024, 128  # that are looked at
MAX_SOURCE_ROWS = 64  # of one source among many: 64 x 8 bytes a column for each of some thousand sources
FLOAT64_BLOCK_ROWS = 2**16  # rows that are float64 at a time
TILE_ROWS = 2**13  # rows that stay in a cache until all their columns have come

Part = NDArray[Any] | Columns
"""(n_i, d) points as they are given: row by row, or column by column."""


def normalize_origin(origin: Any) -> F64 | None:
    """An origin as collections keep it: (d,) float64, read-only; None if it is 0 in every column."""
    if origin is None or not np.any(origin):
        return None
    kept: F64 = np.array(origin, np.float64) + 0.0  # no negative zeros
    kept.flags.writeable = False
    return kept


@dataclass(frozen=True)
class SortedSample:
    """Some finite rows of points, each column in its own order, with its median and the median distance from it."""

    X: F64
    middle: F64
    spread: F64
    whole: bool
    """Whether the points are integers."""

    @classmethod
    def at(cls, X: F64, whole: bool = False) -> SortedSample:
        """Those of some rows."""
        X = np.sort(_finite_rows(X), axis=0)
        return cls(X, *_median_and_spread(X), whole)

    @classmethod
    def of(cls, parts: Sequence[Part]) -> SortedSample | None:
        """A thousand of all rows, drawn with a fixed seed; None where float32 holds all values of such dtypes."""
        if fits_float32(parts, None):
            return None
        return cls.at(_sample(parts), all(part.dtype.kind in "iu" for part in parts))

    def natural_origin(self) -> F64 | None:
        """The origin of such points; None where float32 holds them as they are."""
        with np.errstate(over="ignore"):
            lossy = (self.X.astype(np.float32) != self.X).any(axis=0)
            if not lossy.any():
                return None
            least = 0 if self.whole else ROUNDING_RTOL * np.abs(self.middle)
            far = lossy & (self.spread > least) & (np.abs(self.middle) >= MIN_OFFSET_RATIO * self.spread)
        return self._rounded_middle(far)

    def joint_origin(self, origins: Sequence[F64 | None]) -> F64 | None:
        """The origin of several sources, of all of which the sample has rows, from the origins that each would have.

        A column that is far from zero in all of them, or in one of them, is counted from the middle of all.
        """
        natural = self.natural_origin()
        for origin in origins:
            natural = common_origin(natural, origin)
        if natural is None:
            return None
        middle = self._rounded_middle((natural != 0) & (self.spread > 0))
        return natural if middle is None else normalize_origin(np.where(middle != 0, middle, natural))

    def _rounded_middle(self, chosen: NDArray[np.bool_]) -> F64 | None:
        """The middle of the chosen columns, a multiple of a power of two that is near their spread."""
        if not chosen.any():
            return None
        unit = np.exp2(np.ceil(np.log2(np.where(chosen, self.spread, 1))))
        return normalize_origin(np.where(chosen, np.round(self.middle / unit) * unit, 0))

    def crowded(self, origin: F64 | None) -> int | None:
        """The first column whose different values float32, counted from the origin, takes for a few equal ones."""
        X = self.X
        if len(X) == 0:
            return None
        rest, middle, spread = X, self.middle, self.spread
        with np.errstate(over="ignore", invalid="ignore"):
            if origin is not None:
                rest = X - origin
                middle, spread = _median_and_spread(rest)
            kept = rest.astype(np.float32)
            coarse = spread < MIN_FLOAT32_STEPS * np.spacing(np.abs(middle).astype(np.float32))
            n_different = (X[1:] - X[:-1] > ROUNDING_RTOL * np.abs(X[1:])).sum(axis=0)
            coarse |= 4 * (kept[1:] != kept[:-1]).sum(axis=0) < 3 * n_different
        if not coarse.any():
            return None
        coarse &= (kept != rest).any(axis=0) & (spread > ROUNDING_RTOL * np.abs(X[len(X) // 2]))
        return int(np.argmax(coarse)) if coarse.any() else None


def infer_origin(parts: Sequence[Part]) -> F64 | None:
    """The origin of points that are given in parts (n_i, d); None where float32 holds them as they are."""
    sample = SortedSample.of(parts)
    return None if sample is None else sample.natural_origin()


def infer_joint_origin(samples: Sequence[F64], origins: Sequence[F64 | None]) -> F64 | None:
    """The origin of several sources with some rows (m_i, d) of each; None where float32 holds them as they are."""
    return SortedSample.at(np.concatenate(samples)).joint_origin(origins)


def rows_of_source(part: Part) -> F64:
    """Up to SOURCE_ROWS rows of a source, evenly spaced, float64."""
    return np.asarray(part[:: max(1, -(-len(part) // MAX_SOURCE_ROWS))], np.float64)


def find_lossy_column(parts: Sequence[Part], origin: F64 | None) -> int | None:
    """The first column that float32, counted from the origin, does not tell apart: see `OrderedSample.crowded`."""
    return None if fits_float32(parts, origin) else SortedSample.at(_sample(parts)).crowded(origin)


def subtract_origin(part: Part, origin: F64 | None, out: NDArray[Any]) -> None:
    """``out[:] = part - origin``, subtracted in float64 (64-bit integers exactly): a row depends on itself alone."""
    with np.errstate(over="ignore"):  # an overflow becomes inf, and is reported with its set
        if not isinstance(part, Columns):
            _subtract(part, origin, out)
            return
        for a in range(0, len(part), TILE_ROWS):
            for j, column in enumerate(part.columns):
                _subtract(
                    column[a : a + TILE_ROWS],
                    None if origin is None else origin[j],
                    out[a : a + TILE_ROWS, j],
                )


def _subtract(part: NDArray[Any], origin: Any, out: NDArray[Any]) -> None:
    if origin is None:
        out[:] = part
        return
    whole = _as_integers(part, origin)
    for a in range(0, len(part), FLOAT64_BLOCK_ROWS):
        rows = slice(a, a + FLOAT64_BLOCK_ROWS)
        out[rows] = part[rows] - origin if whole is None else part[rows].astype(np.int64) - whole


def translate(points: F32, shift: F64) -> F32:
    """Points + shift, added in float64."""
    out = np.empty_like(points)
    with np.errstate(over="ignore"):
        for a in range(0, len(points), FLOAT64_BLOCK_ROWS):
            out[a : a + FLOAT64_BLOCK_ROWS] = points[a : a + FLOAT64_BLOCK_ROWS] + shift
    return out


def common_origin(first: F64 | None, second: F64 | None) -> F64 | None:
    """The origin of two collections that are compared: that of the first, or of the second where it has none."""
    if first is None or second is None:
        return second if first is None else first
    return normalize_origin(np.where(first != 0, first, second))


def origin_text(origin: F64 | None) -> str:
    """The origin as the last words of a repr; nothing if it is 0."""
    if origin is None:
        return ""
    return (
        f", origin={origin.tolist()}"
        if len(origin) <= 4
        else f", origin of {np.count_nonzero(origin)} columns"
    )


def fits_float32(parts: Sequence[Part], origin: F64 | None) -> bool:
    """Whether float32 holds all values of such dtypes where they are counted from."""
    dtypes = {part.dtype for part in parts}
    return (origin is None or not origin.any()) and all(
        dtype.kind == "b" or dtype.itemsize <= (4 if dtype.kind == "f" else 2) for dtype in dtypes
    )


def sample_row_indices(total: int, d: int) -> I64:
    """Which of some rows are looked at, drawn with a fixed seed; all of few."""
    count = min(max(MAX_SAMPLE_VALUES // max(1, d), MIN_SAMPLE_ROWS), MAX_SAMPLE_ROWS)
    return np.arange(total) if total <= count else np.random.default_rng(0).integers(0, total, count)


def _sample(parts: Sequence[Part]) -> F64:
    """Rows of the parts that are looked at, float64."""
    ends = np.cumsum([len(part) for part in parts])
    total, d = int(ends[-1]), parts[0].shape[1]
    rows = sample_row_indices(total, d)
    if len(rows) == total:
        return np.concatenate(parts, dtype=np.float64, casting="unsafe")
    if len(parts) == 1:
        return parts[0][rows].astype(np.float64)
    owner = np.searchsorted(ends, rows, side="right")
    within = rows - (ends - [len(part) for part in parts])[owner]
    X, order = np.empty((len(rows), d)), np.argsort(owner, kind="stable")
    of_part, firsts = np.unique(owner[order], return_index=True)
    for k, drawn in zip(of_part.tolist(), np.split(order, firsts[1:]), strict=True):
        X[drawn] = parts[k][within[drawn]]
    return X


def _finite_rows(X: F64) -> F64:
    """The rows in which all is finite."""
    finite = np.isfinite(X)
    return X if finite.all() else np.asarray(X[finite.all(axis=1)])


def _median_and_spread(X: F64) -> tuple[F64, F64]:
    """The median of each column, and the median distance from it; of columns mostly equal a larger part of it."""
    if len(X) == 0:
        return np.full(X.shape[1], np.nan), np.full(X.shape[1], np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        middle: F64 = np.median(X, axis=0)
        apart = np.abs(X - middle)
        spread: F64 = np.median(apart, axis=0)
    for j in np.flatnonzero(spread == 0):
        levels = np.quantile(apart[:, j], [0.95, 1])
        spread[j] = levels[0] or levels[1]
    return middle, spread


def _as_integers(part: NDArray[Any], origin: Any) -> Any:
    """The origin as integers, where the difference to 64-bit integers is one too."""
    if part.dtype.kind not in "iu" or part.dtype.itemsize < 8 or len(part) == 0:
        return None
    most = 2**62
    whole = (origin == np.rint(origin)).all() and (np.abs(origin) < most).all()
    return origin.astype(np.int64) if whole and -most < int(part.min()) and int(part.max()) < most else None
