"""Origins of columns: float64 offsets that are subtracted before points are stored as float32.

float32 has a significand of 24 bits, so a column of 1e9 + N(0, 1) loses all differences, but none relative to 1e9.
Columns that float32 represents well have origin 0. Columns whose median is at least `MIN_OFFSET_RATIO` times their
spread have an origin of few bits near the median. Median and spread (median absolute deviation) come from a sample of
rows, so one outlier, or a missing value coded as 0, changes neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.validation import Columns

# Columns with at least this |median| / spread have an origin; a ratio of 64 loses 6 bits (tests/sets/test_origin.py)
MIN_OFFSET_RATIO = 64
# Columns with fewer float32 steps per spread are reported as lossy (tests/sets/test_origin.py)
MIN_FLOAT32_STEPS = 16
# Values within 128 float64 steps (2^-53 each) are equal up to rounding errors (tests/sets/test_origin.py)
ROUNDING_RTOL = 2.0**-46
# Sizes of row samples: the standard error of the rank of a median of 1,024 rows is 1.6 % (tests/sets/test_origin.py)
MAX_SAMPLE_VALUES, MAX_SAMPLE_ROWS, MIN_SAMPLE_ROWS = 2**16, 1024, 128
# 512 bytes per column and source, because an import holds samples of thousands of sources (tests/store/test_origin.py)
MAX_SOURCE_ROWS = 64
# Rows converted at a time; larger blocks need larger temporary float64 arrays (python benchmarks/memory.py)
FLOAT64_BLOCK_ROWS = 2**16
# Rows per tile, which fit the L2 cache while columns are interleaved (edge cases: tests/plain/test_columns.py)
TILE_ROWS = 2**13

Part = NDArray[Any] | Columns
"""(n_i, d) points of a caller: an array of rows, or columns."""


def normalize_origin(origin: Any) -> F64 | None:
    """Convert an origin to read-only (d,) float64; None if it is 0 in every column."""
    if origin is None or not np.any(origin):
        return None
    normalized: F64 = np.array(origin, np.float64) + 0.0  # replaces -0.0 by 0.0
    normalized.flags.writeable = False
    return normalized


@dataclass(frozen=True)
class SortedSample:
    """Finite sample rows, each column sorted, with medians and median absolute deviations."""

    X: F64
    median: F64
    spread: F64
    is_integer: bool

    @classmethod
    def from_rows(cls, X: F64, is_integer: bool = False) -> SortedSample:
        """Sort the finite rows and compute their medians."""
        X = np.sort(_finite_rows(X), axis=0)
        return cls(X, *_median_and_spread(X), is_integer)

    @classmethod
    def of(cls, parts: Sequence[Part]) -> SortedSample | None:
        """Sample up to 1,024 rows with a fixed seed; None if the dtypes fit float32 exactly."""
        if fits_float32(parts, None):
            return None
        return cls.from_rows(_sample(parts), all(part.dtype.kind in "iu" for part in parts))

    def infer_origin(self) -> F64 | None:
        """Return the origin for points with this sample; None if it is 0."""
        with np.errstate(over="ignore"):
            lossy = (self.X.astype(np.float32) != self.X).any(axis=0)
            if not lossy.any():
                return None
            min_spread = 0 if self.is_integer else ROUNDING_RTOL * np.abs(self.median)
            is_far = np.abs(self.median) >= MIN_OFFSET_RATIO * self.spread
            needs_origin = lossy & (self.spread > min_spread) & is_far
        return self._rounded_median(needs_origin)

    def infer_joint_origin(self, origins: Sequence[F64 | None]) -> F64 | None:
        """Return one origin for several sources, from a sample of all and the origin of each.

        A column that needs an origin in the joint sample or in any source uses the median of the joint sample.
        """
        joint = self.infer_origin()
        for origin in origins:
            joint = common_origin(joint, origin)
        if joint is None:
            return None
        median = self._rounded_median((joint != 0) & (self.spread > 0))
        return joint if median is None else normalize_origin(np.where(median != 0, median, joint))

    def _rounded_median(self, mask: NDArray[np.bool_]) -> F64 | None:
        """Round the medians of some columns to a multiple of a power of two near their spread."""
        if not mask.any():
            return None
        unit = np.exp2(np.ceil(np.log2(np.where(mask, self.spread, 1))))
        return normalize_origin(np.where(mask, np.round(self.median / unit) * unit, 0))

    def find_lossy_column(self, origin: F64 | None) -> int | None:
        """Return the first column with distinct values that are equal in float32 relative to the origin."""
        X = self.X
        if len(X) == 0:
            return None
        relative, median, spread = X, self.median, self.spread
        with np.errstate(over="ignore", invalid="ignore"):
            if origin is not None:
                relative = X - origin
                median, spread = _median_and_spread(relative)
            stored = relative.astype(np.float32)
            coarse = spread < MIN_FLOAT32_STEPS * np.spacing(np.abs(median).astype(np.float32))
            n_distinct = (X[1:] - X[:-1] > ROUNDING_RTOL * np.abs(X[1:])).sum(axis=0)
            coarse |= 4 * (stored[1:] != stored[:-1]).sum(axis=0) < 3 * n_distinct
        if not coarse.any():
            return None
        coarse &= (stored != relative).any(axis=0) & (spread > ROUNDING_RTOL * np.abs(X[len(X) // 2]))
        return int(np.argmax(coarse)) if coarse.any() else None


def infer_origin(parts: Sequence[Part]) -> F64 | None:
    """Return the origin of points in parts (n_i, d); None if it is 0."""
    sample = SortedSample.of(parts)
    return None if sample is None else sample.infer_origin()


def infer_joint_origin(samples: Sequence[F64], origins: Sequence[F64 | None]) -> F64 | None:
    """Return one origin for sources with sample rows (m_i, d) each; None if it is 0."""
    return SortedSample.from_rows(np.concatenate(samples)).infer_joint_origin(origins)


def rows_of_source(part: Part) -> F64:
    """Return up to `MAX_SOURCE_ROWS` evenly spaced rows of a source, float64."""
    return np.asarray(part[:: max(1, -(-len(part) // MAX_SOURCE_ROWS))], np.float64)


def find_lossy_column(parts: Sequence[Part], origin: F64 | None) -> int | None:
    """Return the first column with distinct values that are equal in float32 relative to the origin."""
    if fits_float32(parts, origin):
        return None
    return SortedSample.from_rows(_sample(parts)).find_lossy_column(origin)


def subtract_origin(part: Part, origin: F64 | None, out: NDArray[Any]) -> None:
    """Compute ``out[:] = part - origin`` row by row in float64 (64-bit integers exactly)."""
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
    integer_origin = _as_integer_origin(part, origin)
    for a in range(0, len(part), FLOAT64_BLOCK_ROWS):
        rows = slice(a, a + FLOAT64_BLOCK_ROWS)
        if integer_origin is None:
            out[rows] = part[rows] - origin
        else:
            out[rows] = part[rows].astype(np.int64) - integer_origin


def translate(points: F32, shift: F64) -> F32:
    """Return points + shift, added in float64 and rounded to float32."""
    out = np.empty_like(points)
    with np.errstate(over="ignore"):
        for a in range(0, len(points), FLOAT64_BLOCK_ROWS):
            out[a : a + FLOAT64_BLOCK_ROWS] = points[a : a + FLOAT64_BLOCK_ROWS] + shift
    return out


def common_origin(first: F64 | None, second: F64 | None) -> F64 | None:
    """Return the origin for comparing two collections: the first, or the second in columns where the first is 0."""
    if first is None or second is None:
        return second if first is None else first
    return normalize_origin(np.where(first != 0, first, second))


def origin_text(origin: F64 | None) -> str:
    """Format the origin for a repr; empty if it is 0."""
    if origin is None:
        return ""
    return (
        f", origin={origin.tolist()}"
        if len(origin) <= 4
        else f", origin of {np.count_nonzero(origin)} columns"
    )


def fits_float32(parts: Sequence[Part], origin: F64 | None) -> bool:
    """Whether float32 represents all values of the dtypes exactly, relative to the origin."""
    dtypes = {part.dtype for part in parts}
    return (origin is None or not origin.any()) and all(
        dtype.kind == "b" or dtype.itemsize <= (4 if dtype.kind == "f" else 2) for dtype in dtypes
    )


def sample_row_indices(total: int, d: int) -> I64:
    """Return row indices to inspect: all of a small table, else a sample with a fixed seed."""
    count = min(max(MAX_SAMPLE_VALUES // max(1, d), MIN_SAMPLE_ROWS), MAX_SAMPLE_ROWS)
    return np.arange(total) if total <= count else np.random.default_rng(0).integers(0, total, count)


def _sample(parts: Sequence[Part]) -> F64:
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
    for k, selected in zip(of_part.tolist(), np.split(order, firsts[1:]), strict=True):
        X[selected] = parts[k][within[selected]]
    return X


def _finite_rows(X: F64) -> F64:
    finite = np.isfinite(X)
    return X if finite.all() else np.asarray(X[finite.all(axis=1)])


def _median_and_spread(X: F64) -> tuple[F64, F64]:
    """Return medians and median absolute deviations; a deviation of 0 is replaced by a higher quantile."""
    if len(X) == 0:
        return np.full(X.shape[1], np.nan), np.full(X.shape[1], np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        median: F64 = np.median(X, axis=0)
        deviations = np.abs(X - median)
        spread: F64 = np.median(deviations, axis=0)
    for j in np.flatnonzero(spread == 0):
        levels = np.quantile(deviations[:, j], [0.95, 1])
        spread[j] = levels[0] or levels[1]
    return median, spread


def _as_integer_origin(part: NDArray[Any], origin: Any) -> Any:
    """Return the origin as int64 if differences of 64-bit integers from it cannot overflow; else None."""
    if part.dtype.kind not in "iu" or part.dtype.itemsize < 8 or len(part) == 0:
        return None
    limit = 2**62  # differences of two such values stay below 2^63
    is_integer = (origin == np.rint(origin)).all() and (np.abs(origin) < limit).all()
    fits = is_integer and -limit < int(part.min()) and int(part.max()) < limit
    return origin.astype(np.int64) if fits else None
