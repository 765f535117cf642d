"""Where coordinates are counted from: an origin for each column, so that float32 holds differences far from zero.

float32 has 24 bits. A column of 1e9 + N(0, 1) keeps none of its differences in them, and counted from 1e9 all of
them. Columns that float32 holds as they are have the origin 0; others that lie `FAR` times their spread from zero
have a number of few bits near their middle. The middle and the spread are medians of a sample: one outlier, or a
missing value written as 0, moves neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

FAR = 64  # spreads (median distances from the middle) from zero: six of 24 bits, and 16 widths of an even column
LEAST_STEPS = 16  # of float32 in a spread: fewer hold no differences
NOISE = 2.0**-46  # of a value: what differs by less (128 steps of float64) is equal but for rounding
SAMPLE_VALUES, SAMPLE_ROWS, LEAST_ROWS = 2**18, 4096, 256  # that are looked at
SLAB = 2**16  # rows that are float64 at a time


def settled_origin(origin: Any) -> F64 | None:
    """An origin as collections keep it: (d,) float64, read-only; None if it is 0 in every column."""
    if origin is None or not np.any(origin):
        return None
    kept: F64 = np.array(origin, np.float64) + 0.0  # no negative zeros
    kept.flags.writeable = False
    return kept


def natural_origin(parts: Sequence[NDArray[Any]]) -> F64 | None:
    """The origin of points that are given as (n_i, d) arrays; None where float32 holds them as they are.

    A few thousand rows are looked at, drawn with a fixed seed.
    """
    if all(_is_kept(part.dtype) for part in parts):
        return None
    X = _sample(parts)
    lossy = _lossy(X, X)
    if not lossy.any():
        return None
    middle, spread = _middle_and_spread(X)
    least = 0 if all(part.dtype.kind in "iu" for part in parts) else NOISE * np.abs(middle)
    with np.errstate(over="ignore"):
        far = lossy & (spread > least) & (np.abs(middle) >= FAR * spread)
    unit = np.exp2(np.ceil(np.log2(np.where(far, spread, 1))))
    return settled_origin(np.where(far, np.round(middle / unit) * unit, 0))


def crowded_column(parts: Sequence[NDArray[Any]], origin: F64 | None) -> int | None:
    """The first column whose different values float32, counted from the origin, takes for a few equal ones."""
    if all(_is_kept(part.dtype) for part in parts):
        return None
    X = _sample(parts)
    if len(X) == 0:
        return None
    rest = X if origin is None else X - origin
    lossy = _lossy(rest, X)
    if not lossy.any():
        return None
    middle, spread = _middle_and_spread(rest)
    with np.errstate(over="ignore"):
        steps = spread / np.spacing(np.abs(middle).astype(np.float32))
        kept = rest.astype(np.float32)
    for j in np.flatnonzero(lossy & (spread > NOISE * np.abs(np.median(X, axis=0)))):
        if steps[j] < LEAST_STEPS or 4 * _n_different(kept[:, j]) < 3 * _n_different(X[:, j]):
            return int(j)
    return None


def relative(part: NDArray[Any], origin: F64 | None, out: F32) -> None:
    """``out[:] = part - origin``, subtracted in float64 (64-bit integers exactly): a row depends on itself alone."""
    with np.errstate(over="ignore"):  # an overflow becomes inf, and is reported with its set
        if origin is None:
            out[:] = part
            return
        whole = _as_integers(part, origin)
        for a in range(0, len(part), SLAB):
            rows = slice(a, a + SLAB)
            out[rows] = part[rows] - origin if whole is None else part[rows].astype(np.int64) - whole


def moved(points: F32, shift: F64) -> F32:
    """Points + shift, added in float64."""
    out = np.empty_like(points)
    with np.errstate(over="ignore"):
        for a in range(0, len(points), SLAB):
            out[a : a + SLAB] = points[a : a + SLAB] + shift
    return out


def common_origin(first: F64 | None, second: F64 | None) -> F64 | None:
    """The origin of two collections that are compared: that of the first, or of the second where it has none."""
    if first is None or second is None:
        return second if first is None else first
    return settled_origin(np.where(first != 0, first, second))


def _is_kept(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "b" or dtype.itemsize <= (4 if dtype.kind == "f" else 2)


def _sample(parts: Sequence[NDArray[Any]]) -> F64:
    """Rows of the parts, float64, in which all is finite."""
    ends = np.cumsum([len(part) for part in parts])
    total, d = int(ends[-1]), parts[0].shape[1]
    count = int(np.clip(SAMPLE_VALUES // max(1, d), LEAST_ROWS, SAMPLE_ROWS))
    if total <= count:
        X = np.concatenate(parts, dtype=np.float64, casting="unsafe")
    else:
        rows = np.random.default_rng(0).integers(0, total, count)
        owner = np.searchsorted(ends, rows, side="right")
        within = rows - (ends - [len(part) for part in parts])[owner]
        X = np.empty((count, d))
        for i, (k, r) in enumerate(zip(owner.tolist(), within.tolist(), strict=True)):
            X[i] = parts[k][r]
    kept: F64 = X[np.isfinite(X).all(axis=1)]
    return kept


def _lossy(rest: F64, X: F64) -> NDArray[np.bool_]:
    """The columns in which float32 changes what is left of X."""
    with np.errstate(over="ignore"):
        return np.asarray((rest.astype(np.float32) != rest).any(axis=0) & (len(X) > 0))


def _middle_and_spread(X: F64) -> tuple[F64, F64]:
    """The median of each column, and the median distance from it; of columns mostly equal a larger part of it."""
    middle = np.median(X, axis=0)
    with np.errstate(over="ignore"):
        levels = np.quantile(np.abs(X - middle), [0.5, 0.95, 1], axis=0)
    return middle, levels[np.argmax(levels > 0, axis=0), np.arange(X.shape[1])]


def _n_different(values: NDArray[Any]) -> int:
    ordered = np.sort(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return 1 + int(np.count_nonzero(ordered[1:] - ordered[:-1] > NOISE * np.abs(ordered[1:])))


def _as_integers(part: NDArray[Any], origin: F64) -> NDArray[np.int64] | None:
    """The origin as integers, where the difference to 64-bit integers is one too."""
    if part.dtype.kind not in "iu" or part.dtype.itemsize < 8 or len(part) == 0:
        return None
    most = 2**62
    whole = (origin == np.rint(origin)).all() and (np.abs(origin) < most).all()
    return origin.astype(np.int64) if whole and -most < int(part.min()) and int(part.max()) < most else None
