"""What embeddings accept: collections in memory, lists of arrays, and stores; and how they are cut into blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.execution.arrays import cut
from dkdist.execution.blocks import Blocks, source_blocks
from dkdist.execution.mapping import collect
from dkdist.parameters.domain import Domain
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets, require_nonnegative_weights
from dkdist.store import SetStore

SAMPLE_SETS = 256  # sets that data-driven choices look at
SAMPLE_RUNS = 8
SAMPLE_POINTS = 2**22

Sets = SampleSets | SetStore


def check_sets(X: Any, n_dims: int | None = None) -> Sets:
    """X as `SampleSets`, or the store it is; with real-valued points of ``n_dims`` dimensions, at least one set."""
    sets = X if isinstance(X, SetStore) else as_sample_sets(X)
    if len(sets) == 0:
        raise SampleSetError("expected at least one sample set, found a collection of 0 sets")
    if n_dims is not None and sets.n_dims != n_dims:
        raise SampleSetError(
            f"the sets (set 0 and all others) have {sets.n_dims} dimension(s), but this embedding was fitted on "
            f"sets of {n_dims}: embed sets of the same kind, or fit again"
        )
    return sets


def block_views(sets: SetStore, row_bytes: int) -> tuple[list[SetStore], NDArray[np.int64], int]:
    """(views, bounds, bytes that one pass reads) of a store cut into blocks of whole sets."""
    point_bytes = 4 * sets.n_dims
    bounds = cut(sets.sizes, point_bytes, row_bytes, sets.block_sets)
    views = [sets[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    return views, bounds, sets.n_points * point_bytes


def survey(sets: Sets, domain: Domain | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(low, high) of all points, after every set was checked: one pass over the data, in blocks.

    Raises `SampleSetError` naming the first set found with negative weights or with points outside a fixed
    domain.
    """
    if isinstance(sets, SampleSets):
        return _survey_block(sets, (0, domain))
    views, bounds, read_bytes = block_views(sets, row_bytes=0)
    blocks: Blocks = source_blocks(views, bounds, read_bytes)
    extras = [(int(a), domain) for a in bounds[:-1]]
    lows, highs = zip(*collect(blocks, _survey_block, extras, label="survey"), strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _survey_block(sets: SampleSets, extra: tuple[int, Domain | None]) -> tuple[Any, Any]:
    first, domain = extra
    require_nonnegative_weights(sets)
    low, high = sets.bounds
    if domain is not None and ((low < domain.arrays[0]).any() or (high > domain.arrays[1]).any()):
        raise outside_error(sets, domain, first)
    return low, high


def outside_error(sets: SampleSets, domain: Domain, first: int) -> SampleSetError:
    """The error that names the first point outside a fixed domain; ``first`` is the position of set 0."""
    low, high = domain.arrays
    bad = (sets.points < low) | (sets.points > high)
    row = int(np.argmax(bad.any(axis=1)))
    j = int(np.argmax(bad[row]))
    i = int(np.searchsorted(sets.offsets, row, side="right")) - 1
    return SampleSetError(
        f"point {row - sets.offsets[i]} of set {first + i} is {sets.points[row, j]} in column {j}, outside the given "
        f"domain [{low[j]}, {high[j]}]: give a larger domain, clip the points, or use domain='data'"
    )


def spread_runs(n: int, n_runs: int, length: int) -> NDArray[np.int64]:
    """Positions below n in evenly spaced runs of neighbours, so that few chunks of a store are read."""
    starts = np.linspace(0, max(0, n - length), n_runs).round().astype(np.int64)
    return np.unique((starts[:, None] + np.arange(min(n, length))).ravel())


def sample_of(sets: Sets) -> SampleSets:
    """Up to 256 sets in 8 evenly spaced runs, with about 4 million points at most: what data-driven choices look at."""
    mean_size = max(1, sets.n_points // len(sets))
    count = int(np.clip(SAMPLE_POINTS // mean_size, 1, min(SAMPLE_SETS, len(sets))))
    chosen = sets[spread_runs(len(sets), min(SAMPLE_RUNS, count), -(-count // SAMPLE_RUNS))]
    return chosen if isinstance(chosen, SampleSets) else chosen.load()
