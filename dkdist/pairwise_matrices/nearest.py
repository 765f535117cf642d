"""`NearestSets`: exact and approximate nearest-neighbour search among rows of features.

Exact search reads rows in memory, or computes lazy rows block by block. Approximate search uses an inverted-file index
of faiss: each row is assigned to the cell of its nearest centre, and a query scans only the rows of its nearest cells.
`fit` chooses the smallest number of scanned cells (``nprobe`` of faiss) that reaches the requested recall on a sample
of rows, for which it computes the exact neighbours (`dkdist.pairwise_matrices.inverted_file`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dkdist._base.inputs import reject_float_overflow
from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_int, check_positive, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.top_k import merge_nearest, nearest_rows
from dkdist._runtime.blocks import is_lazy, local_blocks, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.run import n_cores
from dkdist._utils.validation import check_bool
from dkdist.linear.rows import check_block
from dkdist.pairwise_matrices._tuning import MAX_BLOCKS_IN_MEMORY, N_RECALL_QUERIES, PIECES_PER_CORE
from dkdist.pairwise_matrices.inverted_file import (
    IVFIndex,
    Recall,
    build_index,
    import_faiss,
    n_training_rows,
    require_float32_squares,
    require_nonzero_squares,
)


class SearchableRows:
    """Rows of X (n, D), an ndarray or dask array, in blocks."""

    def __init__(self, X: Any) -> None:
        self.n_columns = int(X.shape[1])
        self.blocks = (
            row_blocks(X)
            if is_lazy(X)
            else local_blocks(X, -(-len(X) // (PIECES_PER_CORE * n_cores(local=True))))
        )
        self.starts = [int(a) for a in self.blocks.bounds[:-1]]

    def nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        """Return exact squared distances and positions of the k nearest rows to each query, nearest first."""
        work = partial(_block_nearest, self.n_columns, queries, k)
        return merge_nearest(map_blocks(self.blocks, work, self.starts, label="nearest"), k)

    def at(self, positions: I64) -> F32:
        """Return the rows at sorted positions."""
        work = partial(_block_at, self.n_columns, positions)
        return np.concatenate(map_blocks(self.blocks, work, self.starts, label="rows"))

    def __iter__(self) -> Iterator[F32]:
        """Yield the blocks of rows, with at most `MAX_BLOCKS_IN_MEMORY` in memory."""
        work = partial(_block, self.n_columns)
        for a in range(0, len(self.blocks), MAX_BLOCKS_IN_MEMORY):
            group = range(a, min(a + MAX_BLOCKS_IN_MEMORY, len(self.blocks)))
            yield from map_blocks(self.blocks, work, self.starts, only=group, label="rows")


def _block(n_columns: int, block: Any, start: int) -> F32:
    rows: F32
    rows, _ = check_block(block, np.dtype(np.float32), start, (len(block), n_columns), skip=False)
    return rows


def _block_nearest(n_columns: int, queries: F32, k: int, block: Any, start: int) -> tuple[F64, I64]:
    return nearest_rows(_block(n_columns, block, start), queries, k, start)


def _block_at(n_columns: int, positions: I64, block: Any, start: int) -> F32:
    inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, start + len(block))]
    return _block(n_columns, block, start)[inside - start]


class NearestSets(BaseEstimator):
    """Nearest-neighbour search by the Euclidean distance of features.

    If squared distances of embedded rows are divergences or squared kernel distances, this searches by that divergence.
    Collections may be larger than memory.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbours that `kneighbors` returns.
    engine : {"exact", "faiss", "approximate"}, default="exact"
        "exact": float32 matrix products; distances of the nearest candidates are recomputed from differences in
        float64. Lazy features are computed block by block and not stored. "faiss": an exact flat index (``pip install
        'dkdist[neighbors]'``) for features in memory, with distances from float32 products. "approximate": an
        inverted-file index of faiss, for many queries and very large n; all rows are in memory, 4 D + 8 bytes each.
    recall : float, default=0.95
        For "approximate": fraction of the true neighbours to find. `fit` chooses the smallest number of cells whose
        recall on 256 sampled rows exceeds this fraction by one standard error.
    random_state : int, Generator or None, default=None
        For "approximate": seed of the training rows and of the sampled rows.
    epsilon : float or None, default=None
        For "approximate": each returned distance is at most 1 + epsilon times the true distance of its rank, guaranteed
        for every query. The scan starts with the cells for ``recall``, and adds cells until the triangle inequality
        proves the ratio. In the worst case it scans all cells, which takes longer than "exact"; this is usual if the
        rows vary along more than a few principal components. 0 gives exact neighbours. None: no guarantee.

    Attributes
    ----------
    n_features_in_ : int
        Number of features D.
    n_samples_fit_ : int
        Number of rows to search.
    recall_ : Recall or None
        For "approximate": recall of ``n_neighbors`` neighbours on sampled rows of `fit`, and its standard error.
        Queries far from all rows may have a lower recall; ``epsilon`` holds for them too.

    Raises
    ------
    ValueError
        For more neighbours than rows, rows that are not finite, a different number of features, a recall outside
        (0, 1], a negative epsilon, and an epsilon for another engine. With faiss also for coordinates whose squares
        leave the range of float32 (above about 9e18 / sqrt(D), or all below 1e-15).
    ImportError
        If the engine needs faiss, and faiss is not installed.

    Notes
    -----
    Cost of m queries among n rows of length D: 2 m n D flops, at about the speed of a matrix product. Lazy features are
    computed once per call, so pass many queries at a time. Rows at equal distances are in order of position. If float32
    cannot distinguish the neighbours of a query from other rows (tight groups that are far apart), float64 products are
    used, at twice the cost. "approximate": training 2 sqrt(n) cells costs about 160 n D sqrt(n) flops, and the exact
    neighbours of sampled rows cost 512 n D flops (faiss: Douze et al. 2024).

    Rows of `MeanEmbedding` have the kernel distances of the sets, up to ``error_bound_``: D^2 is off by at most
    delta = 4 ``error_bound_``. With ``epsilon``, the kernel distance D of a returned set and that of the true
    neighbour, t, satisfy D^2 <= (1 + epsilon)^2 (t^2 + delta) + delta: the (1 + eps)-approximate nearest neighbours of
    Joshi et al. (2011), with a certified embedding and cells instead of locality-sensitive hashing. Without a certified
    bound (random frequencies), epsilon holds for the distances of rows.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> features = np.eye(4, dtype="f4")
    >>> distances, indices = dk.NearestSets(2).fit(features).kneighbors(features[2:3] * 0.9)
    >>> indices, distances.round(2)
    (array([[2, 0]]), array([[0.1 , 1.35]]))
    """

    def __init__(
        self,
        n_neighbors: int = 10,
        engine: str = "exact",
        recall: float = 0.95,
        random_state: RandomStateLike = None,
        epsilon: float | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.engine = engine
        self.recall = recall
        self.random_state = random_state
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any = None) -> NearestSets:
        """Index the features X (n, D), an ndarray or dask array. ``y`` is not used."""
        check_int("n_neighbors", self.n_neighbors)
        check_choice("engine", self.engine, ("exact", "faiss", "approximate"))
        if check_positive("recall", self.recall) > 1:
            raise ValueError(f"recall must be above 0 and at most 1; got {self.recall!r:.200}.")
        epsilon = self._checked_epsilon()
        seed = draw_seed(self.random_state)
        if is_lazy(X):
            row_blocks(X)  # raises ValueError for invalid shapes and unknown chunk sizes
            validate_data(self, X, skip_check_array=True)
            if self.engine == "faiss":
                raise ValueError(
                    "X must be in memory for engine='faiss'; got a dask array. Pass X.compute()."
                )
        else:
            with reject_float_overflow():
                X = validate_data(self, X, dtype=np.float32, order="C")
        self.n_samples_fit_ = int(X.shape[0])
        self._fit_X, self._index, self.recall_ = X, None, None
        if self.engine == "faiss":
            self._index = import_faiss().IndexFlatL2(X.shape[1])
            require_nonzero_squares(require_float32_squares(X, "X"))
            self._index.add(X)
        elif self.engine == "approximate":
            rng = np.random.default_rng([seed, RngStream.CELLS])
            self._index, self.recall_ = self._build_index(rng, epsilon)
        return self

    def _checked_epsilon(self) -> float | None:
        epsilon: Any = self.epsilon
        if epsilon is None:
            return None
        if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not 0 <= float(epsilon) < np.inf:
            raise ValueError(f"epsilon must be None or a number >= 0; got {epsilon!r:.200}.")
        if self.engine != "approximate":
            raise ValueError(
                f"epsilon must be None for engine={self.engine!r}, whose neighbours are exact; got {epsilon!r}."
            )
        return float(epsilon)

    def _build_index(self, rng: np.random.Generator, epsilon: float | None) -> tuple[IVFIndex, Recall]:
        import_faiss()  # raise ImportError before rows are computed
        n, rows = self.n_samples_fit_, SearchableRows(self._fit_X)
        training, sample = (
            np.sort(rng.choice(n, size, replace=False))
            for size in (n_training_rows(n), min(n, N_RECALL_QUERIES))
        )
        index = build_index(rows.at(training), rows, n, int(rng.integers(2**31)), epsilon)
        queries = rows.at(sample)
        truth, _ = rows.nearest(queries, min(self.n_neighbors + 1, n))
        return index.with_recall(queries, truth, self.recall)

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[F64, I64] | I64:
        """Return (distances, indices) of the nearest rows to each row of X, each (m, n_neighbors), nearest first.

        Parameters
        ----------
        X : (m, D) array, optional
            Queries; default: the rows of `fit`, without each row itself among its neighbours.
        n_neighbors : int, optional
            Number of neighbours; default: ``n_neighbors`` of the constructor.
        return_distance : bool, default=True
            Whether to return (distances, indices) or only indices.
        """
        check_is_fitted(self)
        check_bool("return_distance", return_distance)
        is_self_query = X is None
        k = check_int("n_neighbors", self.n_neighbors if n_neighbors is None else n_neighbors)
        if k + is_self_query > self.n_samples_fit_:
            raise ValueError(
                f"n_neighbors must be at most {self.n_samples_fit_ - is_self_query} for {self.n_samples_fit_} rows; "
                f"got {k}."
            )
        rows = self._fit_X if is_self_query else X
        rows = rows.compute() if is_lazy(rows) else rows  # keep data frames, which have column names
        with reject_float_overflow():
            if is_self_query:
                queries = check_array(rows, dtype=np.float32, order="C")
            else:
                queries = validate_data(self, rows, reset=False, dtype=np.float32, order="C")
        squares, positions = self._nearest(queries, k + is_self_query)
        if is_self_query:
            squares, positions = drop_self(squares, positions, np.arange(len(queries)))
        return (np.sqrt(squares), positions) if return_distance else positions

    def _nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        if self._index is not None:
            require_float32_squares(queries, "queries")
        if isinstance(self._index, IVFIndex):
            return self._index.nearest(queries, k)
        if self._index is not None:
            squares, positions = self._index.search(queries, k)
            return np.maximum(squares.astype(np.float64), 0), positions.astype(np.int64)
        return SearchableRows(self._fit_X).nearest(queries, k)


def drop_self(distances: F64, positions: I64, rows: I64) -> tuple[F64, I64]:
    """Drop each of the queried ``rows`` itself, or the last neighbour if copies of the row have displaced it."""
    is_self = positions == rows[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    shape = len(positions), positions.shape[1] - 1
    return distances[~is_self].reshape(shape), positions[~is_self].reshape(shape)
