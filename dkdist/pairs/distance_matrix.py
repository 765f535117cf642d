"""`distance_matrix`: all pairs of objects, for nearest neighbours and kernels on precomputed distances."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.bad_sets import naming
from dkdist.base.embedding import warn_if_coarse
from dkdist.base.inputs import Sets, check_both, survey
from dkdist.base.parameter_checks import draw_seed
from dkdist.distances import Distance, traits
from dkdist.distances.distance_choices import as_distance, require_kind, require_units
from dkdist.distances.distance_embedding import CHECKED, loaded
from dkdist.distances.single_pair import compare, require_alike, require_one_part
from dkdist.distances.strings.few_strings import few_strings
from dkdist.execution.arrays import cut
from dkdist.execution.pairs import Pairs, Tile
from dkdist.execution.run import only_planned
from dkdist.loops.array_types import F64, I64
from dkdist.pairs.matrix_frames import as_asked, require_frames
from dkdist.pairs.tiles import Block, all_pairs, are_few, in_one_tile
from dkdist.plain.flags import as_verbose
from dkdist.sets import SampleSets

TILE_SETS = 512  # a side: objects are made ready again in every tile


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
        if few is not None:
            return few
    as_verbose(verbose)
    require_frames(as_frame)
    rows, columns = check_both(sets, other, "distance_matrix(sets, distance='hausdorff')", text=True)
    measure = as_distance(distance, rows.n_dims, draw_seed(random_state))
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
    work = DistanceTile(measure)
    if not (verbose or only_planned() or traits(measure).by_function) and are_few(rows, columns):
        return as_asked(in_one_tile(work, rows, columns), rows, columns, as_frame)
    pairs = Pairs(_bounds(rows), None if columns is None else _bounds(columns))
    sample = (0.0, _seconds(work, rows, columns)) if verbose else None
    matrix = all_pairs(
        work, pairs, rows, columns, what="distance matrix", label="distances", sample=sample, verbose=verbose
    )
    return as_asked(matrix, rows, columns, as_frame)


def _bounds(sets: Sets) -> I64:
    return cut(sets.sizes, 4 * sets.n_dims, 0, min(TILE_SETS, max(1, -(-len(sets) // 4))))


@dataclass(frozen=True)
class DistanceTile:
    """Compares all pairs of a tile; sent to every worker once."""

    distance: Distance

    def __call__(self, tile: tuple[Block, ...]) -> Tile:
        """The distances of a tile, and of the one opposite to it."""
        symmetric = traits(self.distance).symmetric
        a, first = _read(tile[0]), tile[0].first
        if len(tile) == 1:
            with naming(lambda i, j: f"set {first + i} to set {first + j}"):
                made = self.compare(a, a)
            return (np.triu(made) + np.triu(made, 1).T if symmetric else made), None
        b, second, of = _read(tile[1]), tile[1].first, " of other" * tile[1].other
        with naming(lambda i, j: f"set {first + i} to set {second + j}{of}"):
            here = self.compare(a, b)
        if tile[1].other:
            return here, None
        if symmetric:
            return here, here.T
        with naming(lambda i, j: f"set {second + i} to set {first + j}"):
            return here, self.compare(b, a)

    def compare(self, a: SampleSets, b: SampleSets) -> F64:
        """(len(a), len(b)) distances."""
        return compare(self.distance, a, b).astype(np.float64, copy=False)


def _read(block: Block) -> SampleSets:
    return loaded(block.sets, np.arange(block.first, block.first + len(block.sets)))


def _seconds(work: DistanceTile, rows: Sets, columns: Sets | None) -> float:
    """Seconds a pair takes, from up to 16 objects of each side."""
    across = rows if columns is None else columns
    a, b = (loaded(side[:16], np.arange(min(16, len(side)))) for side in (rows, across))
    work.compare(a, b)  # compiled code is made once, not for each pair
    started = time.perf_counter()
    work.compare(a, b)
    return (time.perf_counter() - started) / (len(a) * len(b))
