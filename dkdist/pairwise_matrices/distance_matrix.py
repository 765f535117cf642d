"""`distance_matrix`: distances of all pairs of objects, for nearest neighbours and precomputed kernels.

For short lists of small arrays, checks, plans and threads are skipped, because they would take most of the time.
Otherwise the rows of a tile are computed in short runs, so that an interrupted or failed computation ends soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from dkdist._base.embedding import warn_coarse_columns
from dkdist._base.inputs import Sets, SetsLike, check_two_collections, summarize
from dkdist._base.invalid_sets import name_pair_errors
from dkdist._base.parameter_checks import RandomStateLike, draw_seed
from dkdist._numba.arrays import F64, Array
from dkdist._runtime.pairs import Tile
from dkdist._runtime.run import is_dry_run, require_running
from dkdist._utils.validation import check_verbose
from dkdist.distances._tuning import N_VALIDATED_OBJECTS
from dkdist.distances.base import (
    Distance,
    DistanceEvaluator,
    capabilities,
    compute_distances,
    points_for,
    require_kind,
    require_one_part,
    require_same_kind,
    require_units,
    small_sample_sets,
)
from dkdist.distances.registry import resolve_distance
from dkdist.distances.scales import load_sets
from dkdist.distances.strings._fast_path import small_string_matrix
from dkdist.pairwise_matrices._tuning import (
    FIRST_RUN_PRODUCTS,
    MIN_RUN_ROWS,
    N_TIMED_OBJECTS,
    TARGET_RUN_SECONDS,
)
from dkdist.pairwise_matrices.matrix_frames import format_matrix, require_frames
from dkdist.pairwise_matrices.symmetric_tiling import TileRange, split_at_diagonal, tile_pairs
from dkdist.pairwise_matrices.tiles import SetBlock, compute_single_tile, fill_matrix, is_small
from dkdist.sets import SampleSets


def small_point_matrix(distance: Any, sets: Any, other: Any) -> F64 | None:
    """Return the distance matrix of small inputs without checks and threads; None if they are required."""
    rows = small_sample_sets(sets)
    columns = rows if other is None else small_sample_sets(other)
    if rows is None or columns is None or columns.n_dims != rows.n_dims:
        return None
    resolved = resolve_distance(distance, rows.n_dims, draw_seed(None) if isinstance(distance, str) else 0)
    if not isinstance(resolved, Distance) or resolved.codes or resolved.is_user_function:
        return None
    require_one_part(resolved)
    is_symmetric = other is None and resolved.symmetric
    # Slow symmetric distances benefit from tiles, which compute only half of the pairs.
    is_slow = resolved.cost_model(columns.sizes, columns.n_dims).prepare_cost == 0
    needs_tiles = (is_slow and is_symmetric) or not is_small(rows, columns)
    if needs_tiles and not _is_single_tile(resolved, rows, None if other is None else columns):
        return None
    with name_pair_errors(_pair_namer(TileRange(0, len(rows), 0, len(columns)), other is not None)):
        out = compute_distances(resolved, rows, columns).astype(np.float64)
    for i in range(1, len(out) if is_symmetric else 0):
        out[i, :i] = out[:i, i]
    return out


def _is_single_tile(distance: Distance, rows: SampleSets, columns: SampleSets | None) -> bool:
    """Return whether tiling would give one tile that is not split at the diagonal."""
    across = rows if columns is None else columns
    first, *others = tile_pairs(distance, rows, columns).ranges
    if others or columns is not None or not distance.symmetric:
        return not others
    return split_at_diagonal(first, distance.cost_model(across.sizes, across.n_dims)) == [first]


def compute_interruptibly(
    distance: Distance, a: SampleSets, b: SampleSets, name: Callable[[int, int], str]
) -> Array:
    """Return distances (len(a), len(b)), computed in runs of rows; ``name(i, j)`` names a pair in errors."""
    evaluator = DistanceEvaluator(distance, b.alphabet)
    packed = evaluator.prepare(
        points_for(distance, b), b.offsets, None if b.weights is None else b.weights.reshape(-1)
    )
    out = np.empty((len(a), len(b) * distance.n_parts), evaluator.dtype)
    row_products = max(1, a.n_points * b.n_points * b.n_dims // max(1, len(a)))
    min_rows = MIN_RUN_ROWS if capabilities(distance).cost_model(b.sizes, b.n_dims).group_size > 1 else 1
    for rows in interruptible_runs(len(a), FIRST_RUN_PRODUCTS // row_products, min_rows):
        first = rows.start
        with name_pair_errors(lambda i, j, first=first: name(first + i, j)):  # type: ignore[misc]
            evaluator.fill(packed, a[rows], out[rows])
    return out


def interruptible_runs(n: int, first_size: int, min_size: int) -> Iterator[slice]:
    """Yield rows 0 .. n - 1 in runs of about 0.5 s; raise between two runs if the computation was stopped.

    All runs except the last have at least ``min_size`` rows.
    """
    start, size = 0, max(first_size, min_size)
    while start < n:
        require_running()
        started = time.monotonic()
        yield slice(start, min(start + size, n))
        start, seconds = start + size, time.monotonic() - started
        if seconds < TARGET_RUN_SECONDS / 2:
            size *= 2
        elif seconds > 2 * TARGET_RUN_SECONDS:
            size = max(min_size, size // 2)


@overload
def distance_matrix(
    sets: SetsLike, other: SetsLike | None = ..., distance: str | Distance = ..., *,
    random_state: RandomStateLike = ..., verbose: bool | int = ..., as_frame: Literal[False] = ...,
) -> F64: ...  # fmt: skip
@overload
def distance_matrix(
    sets: SetsLike, other: SetsLike | None = ..., distance: str | Distance = ..., *,
    random_state: RandomStateLike = ..., verbose: bool | int = ..., as_frame: Literal[True],
) -> pd.DataFrame: ...  # fmt: skip
def distance_matrix(
    sets: Any,
    other: Any = None,
    distance: Any = "dtw",
    *,
    random_state: RandomStateLike = None,
    verbose: bool | int = False,
    as_frame: bool = False,
) -> Any:
    """Return the distances of all pairs of objects, D[i, j] = d(x_i, y_j).

    Use it with ``KNeighborsClassifier(metric="precomputed")``, or with `project_psd` and ``SVC(kernel="precomputed")``.
    The cost grows with N^2; `DistanceEmbedding` learns from the same distances in linear time.

    Parameters
    ----------
    sets : collection of sets or strings, see `as_sets`
        Objects of the rows.
    other : as sets, optional
        Objects of the columns; default: ``sets``. Then a symmetric distance is computed only once per pair.
    distance : str or object
        As in `DistanceEmbedding`, except distances with several parts.
    random_state : int, Generator or None
        Seed of the directions of "sliced-wasserstein"; other distances are deterministic.
    verbose : bool or int, default=False
        Print a plan with the expected time and memory, and progress.
    as_frame : bool, default=False
        Return a pandas DataFrame with the ids of the sets as index and columns.

    Returns
    -------
    (N, M) float64 array, or DataFrame
        Values have float32 precision; `pairwise` returns float64 values of the function.

    Raises
    ------
    SampleSetError
        If objects cannot be compared, or weights are not a measure. The message names the set.
    ValueError
        For an unknown distance, or a user-defined function that is not a distance on a sample.
    MemoryError
        If the matrix does not fit in memory. The message gives its size.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.distance_matrix(["GATTACA", "CAT"], ["TACT"], distance="levenshtein")
    array([[4.],
           [2.]])
    """
    if random_state is None and verbose is False and as_frame is False and not is_dry_run():
        matrix = small_string_matrix(distance, sets, other)
        matrix = small_point_matrix(distance, sets, other) if matrix is None else matrix
        if matrix is not None:
            return matrix
    check_verbose(verbose)
    require_frames(as_frame)
    rows, columns = check_two_collections(
        sets, other, "distance_matrix(sets, distance='hausdorff')", text=True
    )
    needs_seed = isinstance(distance, str) or random_state is not None  # distance objects already have a seed
    distance = resolve_distance(distance, rows.n_dims, draw_seed(random_state) if needs_seed else 0)
    require_one_part(distance)
    for side in (rows, columns):
        if side is not None:
            require_kind(distance, side)
            summary = summarize(side, None, skip=False)
            require_units(distance, summary)
            if side.points_dtype == np.float32:
                warn_coarse_columns(summary, side.origin)
    require_same_kind(rows, columns)
    is_user_function = capabilities(distance).is_user_function
    if is_user_function:
        positions = np.arange(min(N_VALIDATED_OBJECTS, len(rows)))
        distance.validate_on(load_sets(rows[:N_VALIDATED_OBJECTS], positions), positions)
    work = DistanceTile(distance)
    in_memory = isinstance(rows, SampleSets) and isinstance(columns, SampleSets | None)
    needs_plan = not in_memory or verbose or is_dry_run() or is_user_function
    if not needs_plan and is_small(rows, columns):
        return format_matrix(compute_single_tile(work, rows, columns), rows, columns, as_frame)
    pairs = tile_pairs(distance, rows, columns)
    if not needs_plan and pairs.n_tiles == 1:
        return format_matrix(compute_single_tile(work, rows, columns), rows, columns, as_frame)
    sample = (0.0, _seconds_per_pair(work, rows, columns)) if verbose else None
    matrix = fill_matrix(
        work, pairs, rows, columns, what="distance matrix", label="distances", sample=sample, verbose=verbose
    )
    return format_matrix(matrix, rows, columns, as_frame)


if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class DistanceTile:
    """Callable that computes the distances of a tile; sent to every worker once."""

    distance: Distance

    def __call__(self, tile: tuple[SetBlock, ...]) -> Tile:
        """Return the distances of a tile, and of its transpose (None if not symmetric).

        For a symmetric distance, D[i, j] is computed for i <= j, and for i > j only to complete a group of columns.
        """
        a, first, left = _load_block(tile[0]), tile[0].first, tile[-1].first
        b = a if len(tile) == 1 else _load_block(tile[1])
        other, tile_range = tile[-1].other, TileRange(first, first + len(a), left, left + len(b))
        traits = capabilities(self.distance)
        is_symmetric = traits.symmetric and not other
        parts = [tile_range]
        if is_symmetric:
            parts = split_at_diagonal(tile_range, traits.cost_model(b.sizes, b.n_dims))
        out = np.empty((len(a), len(b)), traits.dtype)
        for part in parts:
            rows = slice(part.row_start - first, part.row_stop - first)
            columns = slice(part.col_start - left, part.col_stop - left)
            out[rows, columns] = compute_interruptibly(
                self.distance, a[rows], b[columns], _pair_namer(part, other)
            )
        if not is_symmetric:
            return out, None
        if (start := max(first, left)) < tile_range.row_stop:
            square = out[start - first :, start - left : tile_range.row_stop - left]
            np.copyto(square, square.T, where=np.tri(len(square), k=-1, dtype=bool))
        return out, out.T


def _pair_namer(part: TileRange, other: bool) -> Callable[[int, int], str]:
    suffix = " of other" * other
    return lambda i, j: f"set {part.row_start + i} to set {part.col_start + j}{suffix}"


def _load_block(block: SetBlock) -> SampleSets:
    return load_sets(block.sets, np.arange(block.first, block.first + len(block.sets)))


def _seconds_per_pair(work: DistanceTile, rows: Sets, columns: Sets | None) -> float:
    across = rows if columns is None else columns
    n = N_TIMED_OBJECTS
    a, b = (load_sets(side[:n], np.arange(min(n, len(side)))) for side in (rows, across))
    compute_distances(work.distance, a, b)  # warm-up: excludes compilation from the timing
    started = time.perf_counter()
    compute_distances(work.distance, a, b)
    return (time.perf_counter() - started) / (len(a) * len(b))
