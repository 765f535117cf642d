"""`distance_matrix`: all pairs of objects, for nearest neighbours and kernels on precomputed distances.

The matrix of few plain sets, at once: what checks, plans and threads cost would be most of it.

All pairs of a tile, some rows at a time: slow distances take minutes, and nobody may wait for them any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.embedding import warn_if_coarse
from dkdist._base.inputs import Sets, check_both, summarize
from dkdist._base.invalid_sets import naming
from dkdist._base.parameter_checks import draw_seed
from dkdist._numba.arrays import F64, Array
from dkdist._runtime.pairs import Tile
from dkdist._runtime.run import is_dry_run, require_running
from dkdist._utils.validation import as_verbose
from dkdist.distances.base import (
    Comparing,
    Distance,
    capabilities,
    compare,
    few_sets,
    points_for,
    require_alike,
    require_kind,
    require_one_part,
    require_units,
)
from dkdist.distances.distance_embedding import CHECKED
from dkdist.distances.registry import as_distance
from dkdist.distances.scales import loaded
from dkdist.distances.strings._fast_path import few_strings
from dkdist.pairwise_matrices.matrix_frames import as_asked, require_frames
from dkdist.pairwise_matrices.symmetric_tiling import SymmetricTile, cut_pairs, needed
from dkdist.pairwise_matrices.tiles import Block, all_pairs, are_few, in_one_tile
from dkdist.sets import SampleSets


def few_plain_sets(distance: Any, sets: Any, other: Any) -> F64 | None:
    """The matrix of distances, or None where the ordinary way is taken: its values are the same."""
    rows = few_sets(sets)
    columns = rows if other is None else few_sets(other)
    if rows is None or columns is None or columns.n_dims != rows.n_dims:
        return None
    measure = as_distance(distance, rows.n_dims, draw_seed(None) if isinstance(distance, str) else 0)
    if not isinstance(measure, Distance) or measure.codes or measure.by_function:
        return None
    require_one_part(measure)
    slow = measure.grain(columns.sizes, columns.n_dims).ahead == 0  # a pair costs more than any bookkeeping
    few = are_few(rows, columns) and not (slow and other is None and measure.symmetric)
    if not few and not _in_one_square(measure, rows, None if other is None else columns):
        return None
    out = compare(measure, rows, columns).astype(np.float64)
    for i in range(1, len(out) if other is None and measure.symmetric else 0):
        out[i, :i] = out[:i, i]
    return out


def _in_one_square(measure: Distance, rows: SampleSets, columns: SampleSets | None) -> bool:
    """Whether the ordinary way would make all pairs at once, too, and not one of two that are the same."""
    across = rows if columns is None else columns
    first, *others = cut_pairs(measure, rows, columns).steps
    halved = columns is None and measure.symmetric
    return not others and (not halved or needed(first, measure.grain(across.sizes, across.n_dims)) == [first])


FIRST_PRODUCTS = 2**26  # of coordinates in the first run: a twentieth of a second by quick distances
TARGET_SECONDS = 0.5  # of a run of rows: how long Ctrl-C waits
LEAST_ROWS = 4  # that distances with lanes compare side by side


def compare_paced(distance: Distance, a: SampleSets, b: SampleSets, name: Callable[[int, int], str]) -> Array:
    """(len(a), len(b)) distances, as `compare` has them; ``name(i, j)`` says which pair of the user's a pair is."""
    comparing = Comparing(distance, b.alphabet)
    packed = comparing.prepare(
        points_for(distance, b), b.offsets, None if b.weights is None else b.weights.reshape(-1)
    )
    out = np.empty((len(a), len(b) * distance.n_parts), comparing.dtype)
    a_row = max(1, a.n_points * b.n_points * b.n_dims // max(1, len(a)))
    least = LEAST_ROWS if capabilities(distance).grain(b.sizes, b.n_dims).lanes > 1 else 1
    for rows in paced(len(a), FIRST_PRODUCTS // a_row, least):
        first = rows.start
        with naming(lambda i, j, first=first: name(first + i, j)):  # type: ignore[misc]
            comparing.fill(packed, a[rows], out[rows])
    return out


def paced(n: int, first: int, least: int) -> Iterator[slice]:
    """Rows 0 .. n - 1 in runs of about half a second, the first of ``first`` rows; a run that failed ends between two.

    None has fewer than ``least`` rows but the last.
    """
    start, size = 0, max(first, least)
    while start < n:
        require_running()
        begun = time.monotonic()
        yield slice(start, min(start + size, n))
        start, seconds = start + size, time.monotonic() - begun
        if seconds < TARGET_SECONDS / 2:
            size *= 2
        elif seconds > 2 * TARGET_SECONDS:
            size = max(least, size // 2)


def distance_matrix(
    sets: Any,
    other: Any = None,
    distance: Any = "dtw",
    *,
    random_state: Any = None,
    verbose: bool | int = False,
    as_frame: bool = False,
) -> Any:
    """Distances between all pairs of objects, D[i, j] = d(x_i, y_j): for small N, at the price of N^2.

    For ``KNeighborsClassifier(metric="precomputed")``, and through `project_psd` for ``SVC(kernel="precomputed")``.
    `DistanceEmbedding` learns from the same distances in linear time.

    Parameters
    ----------
    sets : SampleSets, SetStore, list of (n_i, d) arrays or of strings, or (N, n, d) array
        The rows.
    other : as sets, optional
        The columns; by default ``sets`` again, where only one of (i, j) and (j, i) is computed if the distance is
        symmetric.
    distance : str or object
        As for `DistanceEmbedding`; not one with several parts.
    random_state : int, Generator or None
        Seed of the directions of "sliced-wasserstein"; other distances draw nothing.
    verbose : bool or int, default=False
        Print what the matrix will cost before it starts, and progress.
    as_frame : bool, default=False
        Give a pandas DataFrame with the ids of the sets as index and columns.

    Returns
    -------
    (N, M) float64 array, or DataFrame
        Of values of float32 precision, but for those of `pairwise`, which are kept as the function gives them.

    Raises
    ------
    SampleSetError
        Naming the set, for objects that cannot be compared and weights that are no measure.
    ValueError
        For an unknown distance, or a function of yours that is no distance on a sample.
    MemoryError
        If the matrix does not fit, with its size.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.distance_matrix(["GATTACA", "CAT"], ["TACT"], distance="levenshtein")
    array([[4.],
           [2.]])
    """
    if random_state is None and verbose is False and as_frame is False and not is_dry_run():
        few = few_strings(distance, sets, other)
        few = few_plain_sets(distance, sets, other) if few is None else few
        if few is not None:
            return few
    as_verbose(verbose)
    require_frames(as_frame)
    rows, columns = check_both(sets, other, "distance_matrix(sets, distance='hausdorff')", text=True)
    draws = isinstance(distance, str) or random_state is not None  # an object has drawn before
    measure = as_distance(distance, rows.n_dims, draw_seed(random_state) if draws else 0)
    require_one_part(measure)
    for side in (rows, columns):
        if side is not None:
            require_kind(measure, side)
            found = summarize(side, None, skip=False)
            require_units(measure, found)
            if side.points_dtype == np.float32:
                warn_if_coarse(found, side.origin)
    require_alike(rows, columns)
    if capabilities(measure).by_function:
        first = np.arange(min(CHECKED, len(rows)))
        measure.validate_on(loaded(rows[:CHECKED], first), first)
    work, in_memory = (
        DistanceTile(measure),
        isinstance(rows, SampleSets) and isinstance(columns, SampleSets | None),
    )
    at_once = in_memory and not (verbose or is_dry_run() or capabilities(measure).by_function)
    if at_once and are_few(rows, columns):
        return as_asked(in_one_tile(work, rows, columns), rows, columns, as_frame)
    pairs = cut_pairs(measure, rows, columns)
    if at_once and pairs.n_tiles == 1:
        return as_asked(in_one_tile(work, rows, columns), rows, columns, as_frame)
    sample = (0.0, _seconds(work, rows, columns)) if verbose else None
    matrix = all_pairs(
        work, pairs, rows, columns, what="distance matrix", label="distances", sample=sample, verbose=verbose
    )
    return as_asked(matrix, rows, columns, as_frame)


@dataclass(frozen=True)
class DistanceTile:
    """Compares all pairs of a tile; sent to every worker once."""

    distance: Distance

    def __call__(self, tile: tuple[Block, ...]) -> Tile:
        """The distances of a tile, and of the one opposite to it.

        Of a symmetric distance only D[i, j] for i <= j are needed, and others made where lanes have room for them.
        """
        a, first, left = _read(tile[0]), tile[0].first, tile[-1].first
        b = a if len(tile) == 1 else _read(tile[1])
        other, step = tile[-1].other, SymmetricTile(first, first + len(a), left, left + len(b))
        halved = capabilities(self.distance).symmetric and not other
        parts = [step]
        if halved:
            parts = needed(step, capabilities(self.distance).grain(b.sizes, b.n_dims))
        out = np.empty((len(a), len(b)), capabilities(self.distance).dtype)
        for part in parts:
            rows = slice(part.first - first, part.last - first)
            columns = slice(part.left - left, part.right - left)
            out[rows, columns] = compare_paced(self.distance, a[rows], b[columns], _names(part, other))
        if not halved:
            return out, None
        if (meet := max(first, left)) < step.last:
            square = out[meet - first :, meet - left : step.last - left]
            np.copyto(square, square.T, where=np.tri(len(square), k=-1, dtype=bool))
        return out, out.T


def _names(part: SymmetricTile, other: bool) -> Callable[[int, int], str]:
    of = " of other" * other
    return lambda i, j: f"set {part.first + i} to set {part.left + j}{of}"


def _read(block: Block) -> SampleSets:
    return loaded(block.sets, np.arange(block.first, block.first + len(block.sets)))


def _seconds(work: DistanceTile, rows: Sets, columns: Sets | None) -> float:
    """Seconds a pair takes, from up to 16 objects of each side."""
    across = rows if columns is None else columns
    a, b = (loaded(side[:16], np.arange(min(16, len(side)))) for side in (rows, across))
    compare(work.distance, a, b)  # compiled code is made once, not for each pair
    started = time.perf_counter()
    compare(work.distance, a, b)
    return (time.perf_counter() - started) / (len(a) * len(b))
