"""`distance_matrix`: all pairs of objects, for nearest neighbours and kernels on precomputed distances."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding import warn_if_coarse
from dkdist.base.inputs import Sets, check_both, survey
from dkdist.base.parameter_checks import draw_seed
from dkdist.distances.distance import (
    Distance,
    compare,
    require_alike,
    require_kind,
    require_one_part,
    require_units,
    traits,
)
from dkdist.distances.distance_choices import as_distance
from dkdist.distances.distance_embedding import CHECKED
from dkdist.distances.distance_scales import loaded
from dkdist.distances.strings.few_strings import few_strings
from dkdist.execution.pairs import Tile
from dkdist.execution.run import only_planned
from dkdist.pairs.few_plain_sets import few_plain_sets
from dkdist.pairs.matrix_frames import as_asked, require_frames
from dkdist.pairs.paced_comparing import compare_paced
from dkdist.pairs.staircase import Step, cut_pairs, needed
from dkdist.pairs.tiles import Block, all_pairs, are_few, in_one_tile
from dkdist.plain.validation import as_verbose
from dkdist.sets import SampleSets


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
    if random_state is None and verbose is False and as_frame is False and not only_planned():
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
            found = survey(side, None, skip=False)
            require_units(measure, found)
            if side.points_dtype == np.float32:
                warn_if_coarse(found, side.origin)
    require_alike(rows, columns)
    if traits(measure).by_function:
        first = np.arange(min(CHECKED, len(rows)))
        measure.try_on(loaded(rows[:CHECKED], first), first)
    work, in_memory = (
        DistanceTile(measure),
        isinstance(rows, SampleSets) and isinstance(columns, SampleSets | None),
    )
    at_once = in_memory and not (verbose or only_planned() or traits(measure).by_function)
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
        other, step = tile[-1].other, Step(first, first + len(a), left, left + len(b))
        halved = traits(self.distance).symmetric and not other
        parts = [step]
        if halved:
            parts = needed(step, traits(self.distance).grain(b.sizes, b.n_dims))
        out = np.empty((len(a), len(b)), traits(self.distance).dtype)
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


def _names(part: Step, other: bool) -> Callable[[int, int], str]:
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
