"""What embeddings accept: collections in memory, lists of arrays, and stores; and how they are cut into blocks.

One stored set that is too large to be read at once: checked, looked at and embedded piece by piece.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from dkdist._base.invalid_sets import (
    negative_weight,
    require_nonnegative_weights,
    run_skipping_invalid,
    weightless,
)
from dkdist._base.parameter_checks import round_to_float32
from dkdist._base.params import Additive, Domain
from dkdist._base.sampling import (
    PooledSample,
    Weighing,
    drawn_sample,
    joined,
    moments,
    no_sample,
    sample_share,
    sample_size,
    some,
    some_runs,
    weighing_of,
)
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import column_bounds
from dkdist._runtime.arrays import block_bounds
from dkdist._runtime.blocks import Blocks, require_known_chunks, source_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.run import resources
from dkdist._utils.validation import require_same_names
from dkdist.io import SetStore
from dkdist.io.set_pieces import WHOLE_BYTES, read_pieces, read_weights
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.sets.origins import common_origin


def embed_in_pieces(parameters: Additive, view: SetStore, first: int, look: Callable[[F32], None]) -> F32:
    """The row (1, m) of the set of a view, whose position is ``first``; ``look`` sees the points of every piece."""
    total = _total_weight(view, first)
    row = parameters.row_sum(view.n_points, total)
    for points, weights in read_pieces(view):
        look(points)
        row.add(points, weights)
    return row.row()[None]


def look_in_pieces(share: float | None, view: SetStore, first: int) -> tuple[F32, F32, PooledSample | None]:
    """Bounds (low, high) of the points of the set of a view, whose weights are checked; and what a sample takes of
    them, if it takes a ``share`` of all points.
    """
    mean = np.array([_total_weight(view, first) / view.n_points])
    lows, highs, samples, start = list[F32](), list[F32](), list[PooledSample](), 0
    for points, weights in read_pieces(view):
        low, high = column_bounds(points)
        lows.append(low)
        highs.append(high)
        if share is not None:
            rows = np.array([0, len(points)])
            weighing = None if weights is None else Weighing(weights, mean)
            samples.append(drawn_sample(share, points, rows, weighing, first, start))
        start += len(points)
    return np.min(lows, axis=0), np.max(highs, axis=0), joined(samples) if samples else None


def drawn_in_pieces(each: int, seed: int, view: SetStore, first: int) -> F32:
    """Up to ``each`` points of the set of a view, drawn at random, none of weight zero; ``first`` is its position."""
    n = view.n_points if view.weights_shape is None else sum(int((w > 0).sum()) for w in read_weights(view))
    chosen = some(n, each, seed, first)
    start, parts = 0, []
    for points, weights in read_pieces(view):
        x = points if weights is None else points[weights > 0]
        here = chosen[(chosen >= start) & (chosen < start + len(x))]
        parts.append(x[here - start])
        start += len(x)
    return np.concatenate(parts)


def _total_weight(view: SetStore, first: int) -> float:
    """The sum of all weights, added one after the other; `SampleSetError` if they are no measure."""
    if view.weights_shape is None:
        return float(view.n_points)
    total, start = 0.0, 0
    for w in read_weights(view):
        if w.min() < 0:
            row = int(np.argmax(w < 0))
            raise negative_weight(start + row, first, w[row])
        total = float(np.cumsum(np.append(total, w))[-1])  # the order, and so the bits, of all at once
        start += len(w)
    if total <= 0:
        raise weightless(first)
    return total


SAMPLE_SETS = 256  # sets that data-driven choices look at
SAMPLE_RUNS = 8
SAMPLE_POINTS = 2**22
SAMPLE_PAIRED = 1024  # points whose distances are looked at
SURVEY_COPIES = 3  # of a block: as it is decoded, as points, and as the work on it keeps them
SAMPLE_BYTES = 28  # of a sampled coordinate: float32, and sorted float64 values with weights

NONE = np.empty(0, np.int64)

Sets = SampleSets | SetStore


def check_sets(X: Any, n_dims: int | None = None, *, text: bool = False, origin: F64 | None = None) -> Sets:
    """X as `SampleSets`, or the store it is; with points of ``n_dims`` dimensions, at least one set.

    Points are counted from the ``origin``, if one is given (that of what was fitted), else from their own. Strings of
    characters are refused unless ``text`` is expected.
    """
    sets = X if isinstance(X, SetStore) else as_sample_sets(X, origin)
    if sets.alphabet is not None and not text:
        raise SampleSetError(
            "the sets (set 0 and all others) are strings of characters, whose codes are no coordinates: embed them "
            "with DistanceEmbedding('levenshtein')"
        )
    if len(sets) == 0:
        raise SampleSetError("expected at least one sample set, found a collection of 0 sets")
    if n_dims is not None and sets.n_dims != n_dims:
        raise SampleSetError(
            f"the sets (set 0 and all others) have {sets.n_dims} dimension(s), but this embedding was fitted on "
            f"sets of {n_dims}: embed sets of the same kind, or fit again"
        )
    _require_one_channel(sets)
    return sets if origin is None else sets.rebased(origin)


def check_both(sets: Any, other: Any, call: str, *, text: bool = False) -> tuple[Sets, Sets | None]:
    """Two collections that are compared, of one dimension and counted from one origin; ``other`` may be None.

    A name where sets are expected is refused, that of a distance in the place of its neighbour: ``call`` is what to
    write instead.
    """
    for argument, value in (("sets", sets), ("other", other)):
        if isinstance(value, str):
            raise SampleSetError(
                f"{argument} must be a collection of sets, found {value!r}: write {call}, and open_sets(path) for a "
                "store; one string alone is [string]"
            )
    rows = check_sets(sets, text=text)
    if other is None:
        return rows, None
    with error_context("one of other"):
        columns = check_sets(other, text=text)
    if columns.n_dims != rows.n_dims:
        raise SampleSetError(
            f"the sets of other (set 0 and all others) have {columns.n_dims} dimension(s), but those of sets have "
            f"{rows.n_dims}: compare sets of the same kind"
        )
    require_same_names(SampleSetError, sets=rows, other=columns)
    origin = common_origin(rows.origin, columns.origin)
    return rows.rebased(origin), columns.rebased(origin)


@contextmanager
def error_context(which: str) -> Iterator[None]:
    """Say of an error which names a set, which of all collections the set is of."""
    try:
        yield
    except SampleSetError as error:
        error.add_note(f"The set is {which}.")
        raise


def _require_one_channel(sets: Sets) -> None:
    """Refuse weights of several channels here: it is the collection that does not fit, not one of its sets."""
    if isinstance(sets, SetStore):
        shape = sets.weights_shape or ()
    else:
        shape = () if sets.weights is None else sets.weights.shape[1:]
    if int(np.prod(shape)) > 1:
        raise SampleSetError(
            f"the weights (of set 0 and all others) have {shape[0]} channels a point; an embedding of distributions "
            "takes one. Keep one column"
        )


def block_views(sets: SetStore, row_bytes: int, most: int | None = None) -> tuple[list[SetStore], I64, int]:
    """(views, bounds, bytes that one pass reads) of a store cut into blocks of whole sets, ``most`` at most."""
    point_bytes, own = 4 * sets.read_dims, sets.block_sets
    bounds = block_bounds(
        sets.sizes, point_bytes, row_bytes, own if own is None or most is None else min(own, most)
    )
    views = [sets[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    return views, bounds, sets.n_points * point_bytes


def unread_blocks(sets: SetStore, row_bytes: int = 0, most: int | None = None) -> Blocks:
    """The blocks of a store, which whoever uses them reads: bad sets are found there; of up to ``most`` sets."""
    views, bounds, read_bytes = block_views(sets, row_bytes, most)
    return source_blocks(views, bounds, read_bytes, load=False)


def map_set_blocks(work: Callable[[Any, int], Any], sets: Sets, label: str) -> list[Any]:
    """``work(sets, position of the first)`` on sets in memory, or on each block of a store: a view that it reads."""
    if isinstance(sets, SampleSets):
        return [work(sets, 0)]
    blocks = unread_blocks(sets)
    return map_blocks(blocks, work, blocks.bounds[:-1].tolist(), label=label)


@dataclass(frozen=True)
class DataSummary:
    """What one pass over some sets has found: the bounds (low, high) of all points, from the sets' origin, and the bad
    sets; and a sample of the points of all others, if one was asked for.
    """

    low: F32
    high: F32
    bad: I64
    reason: str
    sample: PooledSample | None = None


_REMEMBERED: ContextVar[dict[Any, DataSummary] | None] = ContextVar("surveys", default=None)


@contextmanager
def remembered_surveys() -> Iterator[None]:
    """Within it, several embeddings of the same sets share one look at them."""
    token = _REMEMBERED.set({})
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


def summarize(sets: Sets, domain: Domain | None, *, skip: bool, sampled: bool = False) -> DataSummary:
    """Read and check every set, and draw a sample of the points if ``sampled``: one pass over the data, in blocks.

    Sets that cannot be read, have weights that are no measure, or have points outside a fixed domain are left out
    with ``skip``; without, the first one found is named by `StoreFormatError` or `SampleSetError`. What was found
    before is taken where that is remembered.
    """
    memory, key = _REMEMBERED.get(), (id(sets), domain, skip)
    if memory is not None and key in memory and not (sampled and memory[key].sample is None):
        return memory[key]
    share = sample_share(sets.n_points, sets.n_dims) if sampled else None
    found: list[DataSummary] = map_set_blocks(partial(_survey_block, skip, domain, share), sets, "survey")
    bad = np.concatenate([part.bad for part in found])
    reason = next((part.reason for part in found if part.reason), "")
    require_some(sets, bad, reason)
    result = _together(found, bad, reason)
    if memory is not None:
        memory[key] = result
    return result


def survey_bytes(sets: SetStore) -> int:
    """Memory of a survey of a store, in this process: blocks that are read at once, and a sample of the points."""
    there, n_dims = resources(), sets.n_dims
    bounds = block_bounds(sets.sizes, 4 * sets.read_dims, 0, sets.block_sets)
    ends = np.concatenate([[0], np.cumsum(sets.sizes)])[bounds]
    block_bytes = 4 * sets.read_dims * int(np.diff(ends).max())
    n_threads = min(there.threads, len(bounds) - 1)
    sample = n_dims * min(sets.n_points, sample_size(n_dims))
    return SURVEY_COPIES * n_threads * min(block_bytes, WHOLE_BYTES) + SAMPLE_BYTES * sample


def require_some(sets: Sets, bad: I64, reason: str) -> None:
    """Refuse collections of which every set is invalid."""
    if len(bad) == len(sets):
        raise SampleSetError(f"none of the {len(sets)} sets can be embedded. The first because: {reason}")


def _survey_block(
    skip: bool, domain: Domain | None, share: float | None, sets: Sets, first: int
) -> DataSummary:
    nothing = np.full(sets.n_dims, np.inf, np.float32)
    lost = DataSummary(nothing, -nothing, NONE, "", None if share is None else no_sample(sets.n_dims))
    positions = range(first, first + len(sets))
    pieces = partial(_summarize_pieces, share) if domain is None else None
    made = run_skipping_invalid(
        partial(_summarize_block, domain, share), sets, positions, lost, skip=skip, pieces=pieces
    )
    return _together(made.results, np.array(made.bad, np.int64), made.reason)


def _together(parts: Sequence[DataSummary], bad: I64, reason: str) -> DataSummary:
    """What was found of all sets, from what was found of some after the other."""
    if len(parts) == 1:
        return replace(parts[0], bad=bad, reason=reason)
    low, high = np.min([part.low for part in parts], axis=0), np.max([part.high for part in parts], axis=0)
    samples = [part.sample for part in parts if part.sample is not None]
    return DataSummary(low, high, bad, reason, joined(samples) if samples else None)


def _summarize_block(domain: Domain | None, share: float | None, sets: SampleSets, first: int) -> DataSummary:
    require_nonnegative_weights(sets, first)
    low, high = sets.relative_bounds
    if domain is not None and ((low < domain.arrays[0]).any() or (high > domain.arrays[1]).any()):
        raise outside_error(sets, domain, first)
    if share is None:
        return DataSummary(low, high, NONE, "")
    weighing = weighing_of(sets.weights, sets.offsets)
    return DataSummary(low, high, NONE, "", drawn_sample(share, sets.relative, sets.offsets, weighing, first))


def _summarize_pieces(share: float | None, view: SetStore, first: int) -> DataSummary:
    low, high, sample = look_in_pieces(share, view, first)
    return DataSummary(low, high, NONE, "", sample)


def outside_error(sets: SampleSets, domain: Domain, first: int) -> SampleSetError:
    """The error that names the first point outside a fixed domain; ``first`` is the position of set 0."""
    low, high = domain.arrays
    bad = (sets.relative < low) | (sets.relative > high)
    row = int(np.argmax(bad.any(axis=1)))
    j = int(np.argmax(bad[row]))
    i = int(np.searchsorted(sets.offsets, row, side="right")) - 1
    value, least, most = (
        x if sets.origin[j] == 0 else x + sets.origin[j] for x in (sets.relative[row, j], low[j], high[j])
    )
    return SampleSetError(
        f"point {row - sets.offsets[i]} of set {first + i} is {value} in column {j}, outside the given "
        f"domain [{least}, {most}]: give a larger domain, let outside='clip' count such points at the wall, or use "
        "domain='robust'"
    )


def sample_moments(sets: Sets, bad: I64, domain: Domain | None = None) -> tuple[F64, F64, F64]:
    """Means, counted from the origin, and variances (n, d) of sampled sets, and their effective sizes (n,).

    With a ``domain``, points outside it count at its wall.
    """
    found = _of_sample(partial(_moments, domain), sets, _sampled(sets, bad))
    mean, variance, size = zip(*found, strict=True)
    return np.concatenate(mean), np.concatenate(variance), np.concatenate(size)


def common_units(sets: Sets, bad: I64) -> tuple[F64, F64]:
    """Centre, counted from the origin, and scale (d,): mean and standard deviation of the points of sampled sets.

    Each set counts the same. The scale of a constant dimension is 1.
    """
    mean, variance, _ = sample_moments(sets, bad)
    middle = mean.mean(axis=0)
    spread = np.sqrt((variance + (mean - middle) ** 2).mean(axis=0))
    scale = np.array([round_to_float32(s) if s > 0 else 1.0 for s in spread])
    return np.round(middle / scale, 3) * scale, scale  # more digits would be noise of the sample


def sample_sets(sets: Sets, bad: I64, n_sets: int, n_points: int) -> SampleSets:
    """A sample of the sets, in memory: up to ``n_sets`` of about ``n_points`` points in all, or one set."""
    positions = _sampled(sets, bad, n_sets=n_sets, n_points=n_points)
    sample: SampleSets
    (sample,) = _of_sample(lambda loaded, first: loaded, sets, positions)
    return sample


def load_points(sets: Sets) -> SampleSets:
    """The sets in memory, without ids and targets if they are read from a store."""
    return sets.points_alone() if isinstance(sets, SetStore) else sets


def sample_points(sets: Sets, bad: I64, seed: int) -> F32:
    """About 1,024 points of the sampled sets, drawn at random from each, counted from the origin; none of weight 0."""
    each = -(-SAMPLE_PAIRED // min(SAMPLE_SETS, len(sets) - len(bad)))
    positions = _sampled(sets, bad, seed)
    draw = partial(_drawn, each, seed, positions)
    return np.concatenate(_of_sample(draw, sets, positions, partial(drawn_in_pieces, each, seed)))


def _sampled(
    sets: Sets, bad: I64, seed: int = 0, n_sets: int = SAMPLE_SETS, n_points: int = SAMPLE_POINTS
) -> I64:
    """Positions of the sets that data-driven choices look at: up to 256, not bad ones, in 8 runs drawn at random.

    They hold about 4 million points at most.
    """
    good = np.setdiff1d(np.arange(len(sets)), bad)
    every = sets.n_points if len(bad) == 0 else sets[good].n_points
    count = int(np.clip(n_points // max(1, every // len(good)), 1, min(n_sets, len(good))))
    return good[some_runs(len(good), min(SAMPLE_RUNS, count), -(-count // SAMPLE_RUNS), seed)]


def _of_sample(
    work: Callable[[SampleSets, int], Any],
    sets: Sets,
    positions: I64,
    pieces: Callable[[SetStore, int], Any] | None = None,
) -> list[Any]:
    """``work`` on the sets of these positions."""
    kept = sets if len(positions) == len(sets) else sets[positions]
    return run_skipping_invalid(work, kept, positions, None, skip=False, pieces=pieces).results


def _moments(domain: Domain | None, sets: SampleSets, first: int) -> tuple[F64, F64, F64]:
    points = sets.relative if domain is None else sets.relative.clip(*domain.arrays)
    return moments(points, sets.offsets, sets.weights)


def _drawn(each: int, seed: int, positions: I64, sets: SampleSets, first: int) -> F32:
    parts, begin = [], int(np.searchsorted(positions, first))
    for i, (start, stop) in enumerate(itertools.pairwise(sets.offsets.tolist())):
        points, weights = sets.relative[start:stop], sets.weights_of(i)
        x = points if weights is None else points[weights.reshape(-1) > 0]
        parts.append(x[some(len(x), each, seed, int(positions[begin + i]))])
    return np.concatenate(parts).astype(np.float32)


def require_rows_of_features(estimator: Any, X: Any) -> None:
    """Refuse sets, and paths of them, where rows of features are wanted."""
    if isinstance(X, (SampleSets, SetStore)):
        raise ValueError(
            f"{type(estimator).__name__} takes rows of features, found sample sets ({type(X).__name__}): put an "
            "embedding before it, such as DivergenceEmbedding, in a pipeline"
        )
    require_known_chunks(X)
    if np.ma.is_masked(X):
        raise ValueError("X is masked in part: fill the masked values, or drop their rows")
    if isinstance(X, (str, bytes, PathLike)):
        raise ValueError(
            f"{type(estimator).__name__} takes rows of features, found {type(X).__name__}: if it is the path of a "
            "store, give open_sets of it to an embedding, or open_features of it"
        )


@contextmanager
def within_floats() -> Iterator[None]:
    """Whole numbers that no float reaches are refused by name."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"X or y holds a whole number that no float reaches ({error}): scale it") from error
