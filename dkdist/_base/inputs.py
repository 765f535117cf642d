"""Inputs of embeddings: collections in memory, lists of arrays and stores, cut into blocks of sets.

`check_sets` validates X, `summarize` scans it in one pass (bounds, invalid sets, a sample of points), and samples of
sets are used to choose parameters. A stored set that is too large to be read at once is checked, summarized and
embedded in pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base._tuning import (
    BYTES_PER_SAMPLED_COORDINATE,
    COPIES_PER_BLOCK,
    MAX_SAMPLE_POINTS,
    MAX_SAMPLE_SETS,
    N_PAIRED_POINTS,
    N_SAMPLE_RUNS,
)
from dkdist._base.invalid_sets import (
    negative_weight_error,
    require_nonnegative_weights,
    run_skipping_invalid,
    zero_weight_error,
)
from dkdist._base.parameter_checks import round_to_float32
from dkdist._base.params import AdditiveParameters, Domain
from dkdist._base.sampling import (
    PointWeights,
    PooledSample,
    concatenate_samples,
    draw_sample,
    empty_sample,
    moments,
    point_weights,
    random_runs,
    random_subset,
    sample_size,
    sampling_fraction,
)
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import column_bounds
from dkdist._runtime.blocks import Blocks, BlockSource, DaskArray, require_known_chunks, source_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.run import resources
from dkdist._utils.validation import require_same_names
from dkdist.io.as_sets import as_sets, is_foreign
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_pieces import MAX_WHOLE_SET_BYTES, read_pieces, read_weights
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.sets.origins import common_origin


def embed_in_pieces(
    parameters: AdditiveParameters, view: LazySets, first: int, inspect: Callable[[F32], None]
) -> F32:
    """Return the row (1, m) of the only set of a view, at position ``first``; call ``inspect`` for each piece."""
    total = _total_weight(view, first)
    row = parameters.row_sum(view.n_points, total)
    for points, weights in read_pieces(view):
        inspect(points)
        row.add(points, weights)
    return row.row()[None]


def summarize_pieces(
    fraction: float | None, view: LazySets, first: int
) -> tuple[F32, F32, PooledSample | None]:
    """Check the weights of the only set of a view; return bounds (low, high) and a sample of ``fraction`` of it."""
    mean = np.array([_total_weight(view, first) / view.n_points])
    lows, highs, samples, start = list[F32](), list[F32](), list[PooledSample](), 0
    for points, weights in read_pieces(view):
        low, high = column_bounds(points)
        lows.append(low)
        highs.append(high)
        if fraction is not None:
            rows = np.array([0, len(points)])
            piece_weights = None if weights is None else PointWeights(weights, mean)
            samples.append(draw_sample(fraction, points, rows, piece_weights, first, start))
        start += len(points)
    return np.min(lows, axis=0), np.max(highs, axis=0), concatenate_samples(samples) if samples else None


def sample_pieces(n_each: int, seed: int, view: LazySets, first: int) -> F32:
    """Return up to ``n_each`` random points of positive weight of the only set of a view, at position ``first``."""
    n = view.n_points if view.weights_shape is None else sum(int((w > 0).sum()) for w in read_weights(view))
    selected = random_subset(n, n_each, seed, first)
    start, parts = 0, []
    for points, weights in read_pieces(view):
        x = points if weights is None else points[weights > 0]
        rows = selected[(selected >= start) & (selected < start + len(x))]
        parts.append(x[rows - start])
        start += len(x)
    return np.concatenate(parts)


def _total_weight(view: LazySets, first: int) -> float:
    """Return the sum of all weights; raise `SampleSetError` if one is negative or the sum is 0."""
    if view.weights_shape is None:
        return float(view.n_points)
    total, start = 0.0, 0
    for w in read_weights(view):
        if w.min() < 0:
            row = int(np.argmax(w < 0))
            raise negative_weight_error(start + row, first, w[row])
        # same order of additions as one sum over the whole set
        total = float(np.cumsum(np.append(total, w))[-1])
        start += len(w)
    if total <= 0:
        raise zero_weight_error(first)
    return total


NO_POSITIONS = np.empty(0, np.int64)
Sets = SampleSets | LazySets
SetsInMemory = SampleSets | Sequence[Any] | NDArray[Any]
"""Collections whose rows are NumPy arrays: sets, a list of arrays or of strings, or an array (N, n, d)."""
LazySetsLike = LazySets | DaskArray
"""Collections whose rows are Dask arrays: stores, other lazy sets, or a Dask array (N, n, d)."""
SetsLike = SetsInMemory | LazySetsLike
"""Collections of sets that estimators and functions accept; see `as_sets` for those of other libraries."""


def check_sets(X: Any, n_dims: int | None = None, *, text: bool = False, origin: F64 | None = None) -> Sets:
    """Return X as `SampleSets`, or as `LazySets` if it is a store or another lazy collection.

    X must contain at least one set, of ``n_dims`` dimensions unless that is None. Points are relative to ``origin`` (of
    a fitted estimator), by default to their own origin. Strings raise an error unless ``text`` is true.
    """
    sets = as_sets(X) if isinstance(X, LazySets) or is_foreign(X) else as_sample_sets(X, origin)
    if sets.alphabet is not None and not text:
        raise SampleSetError(
            "all sets are strings, which have no coordinates. Embed them with "
            "DistanceEmbedding('levenshtein')."
        )
    if len(sets) == 0:
        raise SampleSetError("X must contain at least 1 set; got 0 sets")
    if n_dims is not None and sets.n_dims != n_dims:
        raise SampleSetError(
            f"all sets must have {n_dims} dimension(s), as in fit; got {sets.n_dims}. Pass sets "
            "of the same kind or fit again."
        )
    _require_one_channel(sets)
    return sets if origin is None else sets.rebased(origin)


def check_two_collections(
    sets: Any, other: Any, call: str, *, text: bool = False
) -> tuple[Sets, Sets | None]:
    """Return two collections of the same dimension relative to one origin; ``other`` may be None.

    A string in place of a collection, such as a misplaced name of a distance, raises an error that shows the correct
    ``call``.
    """
    for argument, value in (("sets", sets), ("other", other)):
        if isinstance(value, str):
            raise SampleSetError(
                f"{argument} must be a collection of sets; got {value!r}. Write {call}; use open_sets(path) for a "
                "store and [string] for a single string."
            )
    rows = check_sets(sets, text=text)
    if other is None:
        return rows, None
    with error_context("one of other"):
        columns = check_sets(other, text=text)
    if columns.n_dims != rows.n_dims:
        raise SampleSetError(
            f"all sets of other must have {rows.n_dims} dimension(s), as sets; got {columns.n_dims}. "
            "Compare sets of the same kind."
        )
    require_same_names(SampleSetError, sets=rows, other=columns)
    origin = common_origin(rows.origin, columns.origin)
    return rows.rebased(origin), columns.rebased(origin)


@contextmanager
def error_context(which: str) -> Iterator[None]:
    """Add a note that names the collection to errors about a set."""
    try:
        yield
    except SampleSetError as error:
        error.add_note(f"The set is {which}.")
        raise


def weighted_context(used: I64, n_sets: int) -> AbstractContextManager[None]:
    """Return a context for work on the sets ``used`` of n: errors note that positions count only these sets."""
    return (
        nullcontext() if len(used) == n_sets else error_context("counted among those with a weight above 0")
    )


def _require_one_channel(sets: Sets) -> None:
    # Checked for the whole collection, so that on_error="skip" does not skip every set.
    if isinstance(sets, LazySets):
        shape = sets.weights_shape or ()
    else:
        shape = () if sets.weights is None else sets.weights.shape[1:]
    if int(np.prod(shape)) > 1:
        raise SampleSetError(
            f"weights must have 1 channel per point; got {shape[0]} in all sets. Select one column."
        )


def block_views(sets: LazySets, row_bytes: int, max_sets: int | None = None) -> tuple[BlockSource, I64, int]:
    """Return blocks of whole sets of a lazy collection, their bounds, and the bytes that one pass reads."""
    bounds = sets.block_bounds(row_bytes, max_sets)
    return sets.block_source(bounds), bounds, sets.n_points * 4 * sets.read_dims


def lazy_blocks(sets: LazySets, row_bytes: int = 0, max_sets: int | None = None) -> Blocks:
    """Return blocks of up to ``max_sets`` sets of a lazy collection; tasks load them and can skip invalid sets."""
    source, bounds, read_bytes = block_views(sets, row_bytes, max_sets)
    return source_blocks(source, bounds, read_bytes, load=False)


def map_set_blocks(work: Callable[[Any, int], Any], sets: Sets, label: str) -> list[Any]:
    """Call ``work(sets, position of the first set)`` on sets in memory, or on a view of each block of a store."""
    if isinstance(sets, SampleSets):
        return [work(sets, 0)]
    blocks = lazy_blocks(sets)
    return map_blocks(blocks, work, blocks.bounds[:-1].tolist(), label=label)


@dataclass(frozen=True)
class DataSummary:
    """Results of one pass over sets.

    Bounds (low, high), each (d,), of the points of valid sets relative to the origin; positions of invalid sets
    (``bad``) with the first error message; and a sample of the points, if requested.
    """

    low: F32
    high: F32
    bad: I64
    reason: str
    sample: PooledSample | None = None


_SUMMARY_CACHE: ContextVar[dict[Any, DataSummary] | None] = ContextVar("summaries", default=None)


@contextmanager
def cached_summaries() -> Iterator[None]:
    """Cache summaries inside the context, so that several embeddings of the same sets share one pass."""
    token = _SUMMARY_CACHE.set({})
    try:
        yield
    finally:
        _SUMMARY_CACHE.reset(token)


def summarize(sets: Sets, domain: Domain | None, *, skip: bool, sampled: bool = False) -> DataSummary:
    """Read and check every set in one pass, and draw a sample of the points if ``sampled``.

    Sets that cannot be read, have invalid weights, or have points outside a fixed domain are skipped with ``skip``;
    otherwise the first one raises `StoreFormatError` or `SampleSetError`. See `cached_summaries`.
    """
    cache, key = _SUMMARY_CACHE.get(), (id(sets), domain, skip)
    if cache is not None and key in cache and not (sampled and cache[key].sample is None):
        return cache[key]
    fraction = sampling_fraction(sets.n_points, sets.n_dims) if sampled else None
    work = partial(_summarize_valid_sets, skip, domain, fraction)
    parts: list[DataSummary] = map_set_blocks(work, sets, "validate_sets")
    bad = np.concatenate([part.bad for part in parts])
    reason = next((part.reason for part in parts if part.reason), "")
    require_valid_sets(sets, bad, reason)
    summary = _merge_summaries(parts, bad, reason)
    if cache is not None:
        cache[key] = summary
    return summary


def summary_bytes(sets: LazySets) -> int:
    """Return the memory of `summarize` on a store in this process: blocks in flight and a sample of points."""
    n_dims = sets.n_dims
    bounds = sets.block_bounds()
    ends = np.concatenate([[0], np.cumsum(sets.sizes)])[bounds]
    block_bytes = 4 * sets.read_dims * int(np.diff(ends).max())
    n_threads = min(resources().threads, len(bounds) - 1)
    n_coordinates = n_dims * min(sets.n_points, sample_size(n_dims))
    return (
        COPIES_PER_BLOCK * n_threads * min(block_bytes, MAX_WHOLE_SET_BYTES)
        + BYTES_PER_SAMPLED_COORDINATE * n_coordinates
    )


def require_valid_sets(sets: Sets, bad: I64, reason: str) -> None:
    """Raise if every set is invalid."""
    if len(bad) == len(sets):
        raise SampleSetError(f"none of the {len(sets)} sets can be embedded. First error: {reason}")


def _summarize_valid_sets(
    skip: bool, domain: Domain | None, fraction: float | None, sets: Sets, first: int
) -> DataSummary:
    infinity = np.full(sets.n_dims, np.inf, np.float32)
    sample = None if fraction is None else empty_sample(sets.n_dims)
    empty = DataSummary(infinity, -infinity, NO_POSITIONS, "", sample)
    positions = range(first, first + len(sets))
    pieces = partial(_summarize_pieces, fraction) if domain is None else None
    result = run_skipping_invalid(
        partial(_summarize_block, domain, fraction), sets, positions, empty, skip=skip, pieces=pieces
    )
    return _merge_summaries(result.results, np.array(result.bad, np.int64), result.reason)


def _merge_summaries(parts: Sequence[DataSummary], bad: I64, reason: str) -> DataSummary:
    if len(parts) == 1:
        return replace(parts[0], bad=bad, reason=reason)
    low, high = np.min([part.low for part in parts], axis=0), np.max([part.high for part in parts], axis=0)
    samples = [part.sample for part in parts if part.sample is not None]
    return DataSummary(low, high, bad, reason, concatenate_samples(samples) if samples else None)


def _summarize_block(
    domain: Domain | None, fraction: float | None, sets: SampleSets, first: int
) -> DataSummary:
    require_nonnegative_weights(sets, first)
    low, high = sets.relative_bounds
    if domain is not None and ((low < domain.arrays[0]).any() or (high > domain.arrays[1]).any()):
        raise outside_error(sets, domain, first)
    if fraction is None:
        return DataSummary(low, high, NO_POSITIONS, "")
    weights = point_weights(sets.weights, sets.offsets)
    sample = draw_sample(fraction, sets.relative, sets.offsets, weights, first)
    return DataSummary(low, high, NO_POSITIONS, "", sample)


def _summarize_pieces(fraction: float | None, view: LazySets, first: int) -> DataSummary:
    low, high, sample = summarize_pieces(fraction, view, first)
    return DataSummary(low, high, NO_POSITIONS, "", sample)


def outside_error(sets: SampleSets, domain: Domain, first: int) -> SampleSetError:
    """Return the error for the first point outside a fixed domain; ``first`` is the position of set 0."""
    low, high = domain.arrays
    is_outside = (sets.relative < low) | (sets.relative > high)
    row = int(np.argmax(is_outside.any(axis=1)))
    j = int(np.argmax(is_outside[row]))
    i = int(np.searchsorted(sets.offsets, row, side="right")) - 1
    value, lower, upper = (
        x if sets.origin[j] == 0 else x + sets.origin[j] for x in (sets.relative[row, j], low[j], high[j])
    )
    return SampleSetError(
        f"point {row - sets.offsets[i]} of set {first + i} is {value} in column {j}, outside the given "
        f"domain [{lower}, {upper}]. Pass a larger domain, outside='clip' or domain='robust'."
    )


def sample_moments(sets: Sets, bad: I64, domain: Domain | None = None) -> tuple[F64, F64, F64]:
    """Return means relative to the origin and variances (n, d) of sampled sets, and their effective sizes (n,).

    Points outside the ``domain``, if given, are clipped.
    """
    blocks = _map_sample(partial(_moments, domain), sets, _sample_positions(sets, bad))
    mean, variance, size = zip(*blocks, strict=True)
    return np.concatenate(mean), np.concatenate(variance), np.concatenate(size)


def common_units(sets: Sets, bad: I64) -> tuple[F64, F64]:
    """Return the mean relative to the origin and the standard deviation (d,) of the points of sampled sets.

    Sets have equal weight. The scale of a constant dimension is 1.
    """
    mean, variance, _ = sample_moments(sets, bad)
    middle = mean.mean(axis=0)
    spread = np.sqrt((variance + (mean - middle) ** 2).mean(axis=0))
    scale = np.array([round_to_float32(s) if s > 0 else 1.0 for s in spread])
    return np.round(middle / scale, 3) * scale, scale  # further digits are sampling noise


def sample_sets(sets: Sets, bad: I64, n_sets: int, n_points: int) -> SampleSets:
    """Load a sample: up to ``n_sets`` sets with about ``n_points`` points in all, but at least one set."""
    positions = _sample_positions(sets, bad, n_sets=n_sets, n_points=n_points)
    sample: SampleSets
    (sample,) = _map_sample(lambda loaded, first: loaded, sets, positions)
    return sample


def load_points(sets: Sets) -> SampleSets:
    """Load the points of sets; ids and targets of stored sets are not read."""
    return sets.points_alone() if isinstance(sets, LazySets) else sets


def sample_points(sets: Sets, bad: I64, seed: int) -> F32:
    """Return about 1,024 random points of positive weight of sampled sets, relative to the origin."""
    n_each = -(-N_PAIRED_POINTS // min(MAX_SAMPLE_SETS, len(sets) - len(bad)))
    positions = _sample_positions(sets, bad, seed)
    draw = partial(_sample_points, n_each, seed, positions)
    return np.concatenate(_map_sample(draw, sets, positions, partial(sample_pieces, n_each, seed)))


def _sample_positions(
    sets: Sets, bad: I64, seed: int = 0, n_sets: int = MAX_SAMPLE_SETS, n_points: int = MAX_SAMPLE_POINTS
) -> I64:
    """Return positions of valid sets in random runs: up to ``n_sets`` sets with about ``n_points`` points."""
    valid = np.setdiff1d(np.arange(len(sets)), bad)
    n_valid_points = sets.n_points if len(bad) == 0 else sets[valid].n_points
    count = int(np.clip(n_points // max(1, n_valid_points // len(valid)), 1, min(n_sets, len(valid))))
    return valid[random_runs(len(valid), min(N_SAMPLE_RUNS, count), -(-count // N_SAMPLE_RUNS), seed)]


def _map_sample(
    work: Callable[[SampleSets, int], Any],
    sets: Sets,
    positions: I64,
    pieces: Callable[[LazySets, int], Any] | None = None,
) -> list[Any]:
    sample = sets if len(positions) == len(sets) else sets[positions]
    return run_skipping_invalid(work, sample, positions, None, skip=False, pieces=pieces).results


def _moments(domain: Domain | None, sets: SampleSets, first: int) -> tuple[F64, F64, F64]:
    points = sets.relative if domain is None else sets.relative.clip(*domain.arrays)
    return moments(points, sets.offsets, sets.weights)


def _sample_points(n_each: int, seed: int, positions: I64, sets: SampleSets, first: int) -> F32:
    parts, begin = [], int(np.searchsorted(positions, first))
    for i, (start, stop) in enumerate(itertools.pairwise(sets.offsets.tolist())):
        points, weights = sets.relative[start:stop], sets.weights_of(i)
        x = points if weights is None else points[weights.reshape(-1) > 0]
        parts.append(x[random_subset(len(x), n_each, seed, int(positions[begin + i]))])
    return np.concatenate(parts).astype(np.float32)


def require_feature_rows(estimator: Any, X: Any) -> None:
    """Raise unless X is a 2-D array-like of features: sets, paths and masked arrays are not."""
    if isinstance(X, (SampleSets, LazySets)):
        raise ValueError(
            f"X of {type(estimator).__name__} must be rows of features; got sample sets ({type(X).__name__}). Put an "
            "embedding such as DivergenceEmbedding before it in a pipeline."
        )
    require_known_chunks(X)
    if np.ma.is_masked(X):
        raise ValueError("X must not contain masked values. Fill them or drop their rows.")
    if isinstance(X, (str, bytes, PathLike)):
        raise ValueError(
            f"X of {type(estimator).__name__} must be rows of features; got {type(X).__name__}. For the path of a "
            "store, pass dk.open_sets(path) to an embedding, or dk.open_features(path)."
        )


@contextmanager
def reject_float_overflow() -> Iterator[None]:
    """Replace `OverflowError` of integers beyond the range of floats by a `ValueError` that names X and y."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"X and y must be in the range of float64 ({error}). Rescale them.") from error
