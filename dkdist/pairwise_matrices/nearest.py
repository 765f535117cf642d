"""`NearestSets`: the nearest rows of features, in memory or block by block from a store; exactly, or most of them.

Rows of features that are searched, whether in memory or made block by block: the nearest, some, or all.

Rows in cells around centres, so that a search need not look at all of them: faiss's inverted lists.

    rows ──> cells, of which each has the rows nearest to its centre
    query ──> its nearest cells ──> their rows alone

The more cells are looked at, the more of the true neighbours are found and the longer it takes. How many follows from
the share that is asked for: a sample of the rows is searched exactly too, and the fewest cells are taken that find it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dkdist._base.inputs import within_floats
from dkdist._base.parameter_checks import draw_seed, one_of, positive, whole
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.top_k import merged_nearest, nearest_rows
from dkdist._runtime.blocks import is_lazy, local_blocks, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.run import n_cores
from dkdist._utils.validation import check_bool
from dkdist.linear.rows import checked

PIECES = 2  # for each core of this machine, that rows in memory are searched in
AT_ONCE = 64  # blocks of lazy rows that are in this process together


class SearchedRows:
    """The rows of X (n, D), ndarray or dask array, in blocks."""

    def __init__(self, X: Any) -> None:
        self.n_columns = int(X.shape[1])
        self.blocks = (
            row_blocks(X) if is_lazy(X) else local_blocks(X, -(-len(X) // (PIECES * n_cores(local=True))))
        )
        self.starts = [int(a) for a in self.blocks.bounds[:-1]]

    def nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        """Squared distances and positions of the k nearest rows to each query, nearest first, exactly."""
        work = partial(_block_nearest, self.n_columns, queries, k)
        return merged_nearest(map_blocks(self.blocks, work, self.starts, label="nearest"), k)

    def at(self, places: I64) -> F32:
        """Some rows, by their sorted places: only these leave their block."""
        work = partial(_block_at, self.n_columns, places)
        return np.concatenate(map_blocks(self.blocks, work, self.starts, label="rows"))

    def __iter__(self) -> Iterator[F32]:
        """All rows, block after block, of which a few are in memory at a time."""
        work = partial(_block, self.n_columns)
        for a in range(0, len(self.blocks), AT_ONCE):
            group = range(a, min(a + AT_ONCE, len(self.blocks)))
            yield from map_blocks(self.blocks, work, self.starts, only=group, label="rows")


def _block(n_columns: int, block: Any, start: int) -> F32:
    rows: F32
    rows, _ = checked(block, np.dtype(np.float32), start, (len(block), n_columns), skip=False)
    return rows


def _block_nearest(n_columns: int, queries: F32, k: int, block: Any, start: int) -> tuple[F64, I64]:
    return nearest_rows(_block(n_columns, block, start), queries, k, start)


def _block_at(n_columns: int, places: I64, block: Any, start: int) -> F32:
    inside = places[np.searchsorted(places, start) : np.searchsorted(places, start + len(block))]
    return _block(n_columns, block, start)[inside - start]


CELLS = (
    2.0  # times the root of the number of rows: as many cells to compare with as rows of the cells looked at
)
TRAINED = 40  # rows of a cell that its centre is the mean of
TURNS = 10  # of k-means
TRIED = 256  # rows whose true neighbours are found: the share is then known to .02 or better
UNIT = 2.0**-24  # of float32


class Recall(NamedTuple):
    """The share of true neighbours that is found, and its standard error over the rows that were tried."""

    share: float
    std_error: float


def library() -> Any:
    """The faiss library, or what to install."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError(
            "engines 'faiss' and 'approximate' need faiss: pip install 'dkdist[neighbors]', or take engine='exact'"
        ) from error


def n_trained(n_rows: int) -> int:
    """How many rows the centres are found from."""
    return min(n_rows, TRAINED * _n_cells(n_rows))


@dataclass(frozen=True)
class IVFIndex:
    """An index of rows, and how many cells a query looks at."""

    index: Any
    looked_at: int = 1

    def nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        """Squared distances and positions of the k nearest rows that are found, nearest first.

        Queries whose cells have fewer than k rows look at twice as many until they have.
        """
        squares, places = self._search(queries, k, self.looked_at)
        looked_at, short = self.looked_at, np.flatnonzero(places[:, -1] < 0)
        while len(short):
            looked_at = min(2 * looked_at, self.index.nlist)
            squares[short], places[short] = self._search(queries[short], k, looked_at)
            short = short[places[short, -1] < 0]
        return np.maximum(squares.astype(np.float64), 0), places.astype(np.int64)

    def that_find(self, queries: F32, truth: F64, recall: float) -> tuple[IVFIndex, Recall]:
        """The same with the fewest cells that find a share ``recall`` of the true neighbours, by one standard error.

        ``truth`` are the squared distances (m, k + 1) of the nearest rows to ``queries``, which are rows themselves:
        the first is the query's own, and does not count. A row as near as the k-th is found, whichever it is.
        """
        k = truth.shape[1] - 1
        near = truth[:, -1:] * (
            1 + (queries.shape[1] + 8) * UNIT
        )  # float32 sums the squares of the found ones

        def found(looked_at: int) -> Recall:
            squares, _ = self._search(queries, k + 1, looked_at)
            shares = ((squares <= near).sum(axis=1) - 1.0).clip(0, k) / k
            return Recall(float(shares.mean()), float(shares.std() / np.sqrt(len(shares))))

        def enough(looked_at: int) -> bool:
            share, std_error = found(looked_at)
            return share - std_error >= recall

        fewest = _fewest(enough, self.index.nlist)
        return replace(self, looked_at=fewest), found(fewest)

    def _search(self, queries: F32, k: int, looked_at: int) -> tuple[F32, I64]:
        how = library().SearchParametersIVF(nprobe=looked_at)
        found: tuple[F32, I64] = self.index.search(queries, k, params=how)
        return found


def filled_cells(some: F32, blocks: Iterable[F32], n_rows: int, seed: int) -> IVFIndex:
    """All rows, that come block by block, around centres of ``some`` of them, n_trained(n_rows)."""
    faiss = library()
    count, D = _n_cells(n_rows), some.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(D), D, count)
    index.cp.seed, index.cp.niter, index.cp.min_points_per_centroid = seed % 2**31, TURNS, 1
    index.train(some)
    for rows in blocks:
        index.add(rows)
    return IVFIndex(index)


def _n_cells(n_rows: int) -> int:
    return min(n_rows, round(CELLS * math.sqrt(n_rows)))


def _fewest(enough: Callable[[int], bool], most: int) -> int:
    """The least number that is enough, of those that are twice a smaller one or between the last two; else ``most``."""
    high = 1
    while high < most and not enough(high):
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class NearestSets(BaseEstimator):
    """Find the nearest sets by the Euclidean distance of their features, for collections of any size.

    Rows of an embedding whose squared distances are divergences, or squared kernel distances, make this a search by
    that divergence.

    Parameters
    ----------
    n_neighbors : int, default=10
        How many of them `kneighbors` gives.
    engine : {"exact", "faiss", "approximate"}, default="exact"
        "exact": products in float32 over tiles, the nearest few again by differences in float64; lazy features are made
        block by block and never held. "faiss": an exact flat index (``pip install 'dkdist[neighbors]'``), for features
        in memory; distances are those of float32 products. "approximate": rows in cells, of which a query looks at the
        nearest alone (the same library), for many queries among very many rows; all rows are held, 4 D + 8 bytes each.
    recall : float, default=0.95
        For "approximate": the share of the true neighbours that is to be found. `fit` looks for the fewest cells that
        find it, by one standard error, for 256 of the rows, whose true neighbours are searched too.
    random_state : int, Generator or None, default=None
        For "approximate": which rows cells are made and tried with.

    Attributes
    ----------
    n_features_in_ : int
        The length of a row.
    n_samples_fit_ : int
        The number of rows to search.
    recall_ : Recall or None
        For "approximate": the share of the ``n_neighbors`` true neighbours that was found for rows of `fit`, and its
        standard error. Queries that are unlike all rows may find fewer.

    Raises
    ------
    ValueError
        For more neighbours than rows, rows that are not finite, rows of another length, a recall outside (0, 1].
    ImportError
        If faiss is asked for and not installed.

    Notes
    -----
    Cost of m queries among n rows of length D: 2 m n D flops, near the speed of the matrix product. Lazy features are
    made once for all queries of a call: ask for many at a time. Equal distances keep the order of the rows. Queries
    whose neighbours float32 cannot tell from other rows (tight groups that are far apart) take products in float64, at
    twice the cost. "approximate": cells for n rows cost some 160 n D sqrt(n) flops and the true neighbours 512 n D;
    then a query looks at its cells, which are 2 sqrt(n) altogether. The lists are those of faiss (Douze et al. 2024).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> features = np.eye(4, dtype="f4")
    >>> distances, indices = dk.NearestSets(2).fit(features).kneighbors(features[2:3] * 0.9)
    >>> indices, distances.round(2)
    (array([[2, 0]]), array([[0.1 , 1.35]]))
    """

    def __init__(
        self, n_neighbors: int = 10, engine: str = "exact", recall: float = 0.95, random_state: Any = None
    ) -> None:
        self.n_neighbors = n_neighbors
        self.engine = engine
        self.recall = recall
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> NearestSets:
        """Take the features X (n, D), ndarray or dask array, to search among. ``y`` is not used."""
        whole("n_neighbors", self.n_neighbors)
        one_of("engine", self.engine, ("exact", "faiss", "approximate"))
        if positive("recall", self.recall) > 1:
            raise ValueError(f"recall must be a share above 0 and at most 1, found {self.recall!r:.200}")
        seed = draw_seed(self.random_state)
        if is_lazy(X):
            row_blocks(X)  # refuses what is no matrix, or of unknown size
            validate_data(self, X, skip_check_array=True)
            if self.engine == "faiss":
                raise ValueError(
                    "engine='faiss' holds all rows in memory, found a dask array: give X.compute()"
                )
        else:
            with within_floats():
                X = validate_data(self, X, dtype=np.float32, order="C")
        self.n_samples_fit_ = int(X.shape[0])
        self._fit_X, self._index, self.recall_ = X, None, None
        if self.engine == "faiss":
            self._index = library().IndexFlatL2(X.shape[1])
            self._index.add(X)
        elif self.engine == "approximate":
            self._index, self.recall_ = self._in_cells(np.random.default_rng([seed, RngStream.CELLS]))
        return self

    def _in_cells(self, rng: np.random.Generator) -> tuple[IVFIndex, Recall]:
        library()  # asked for before rows are made
        n, rows = self.n_samples_fit_, SearchedRows(self._fit_X)
        trained, tried = (
            np.sort(rng.choice(n, count, replace=False)) for count in (n_trained(n), min(n, TRIED))
        )
        cells = filled_cells(rows.at(trained), rows, n, int(rng.integers(2**31)))
        queries = rows.at(tried)
        truth, _ = rows.nearest(queries, min(self.n_neighbors + 1, n))
        return cells.that_find(queries, truth, self.recall)

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[F64, I64] | I64:
        """The nearest rows to each row of X, nearest first: (distances, indices), each (m, n_neighbors).

        Parameters
        ----------
        X : (m, D) array, optional
            The queries; by default the rows of `fit` themselves, none of them its own neighbour.
        n_neighbors : int, optional
            Instead of the constructor's.
        return_distance : bool, default=True
            Whether to give (distances, indices), or indices alone.
        """
        check_is_fitted(self)
        check_bool("return_distance", return_distance)
        own = X is None
        k = whole("n_neighbors", self.n_neighbors if n_neighbors is None else n_neighbors)
        if k + own > self.n_samples_fit_:
            raise ValueError(
                f"expected n_neighbors <= {self.n_samples_fit_ - own}, as there are {self.n_samples_fit_} rows; "
                f"found {k}"
            )
        given = self._fit_X if own else X
        given = given.compute() if is_lazy(given) else given  # a data frame keeps the names of its columns
        with within_floats():
            if own:
                queries = check_array(given, dtype=np.float32, order="C")
            else:
                queries = validate_data(self, given, reset=False, dtype=np.float32, order="C")
        squares, places = self._nearest(queries, k + own)
        if own:
            squares, places = _without_itself(squares, places)
        return (np.sqrt(squares), places) if return_distance else places

    def _nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        if isinstance(self._index, IVFIndex):
            return self._index.nearest(queries, k)
        if self._index is not None:
            squares, places = self._index.search(queries, k)
            return np.maximum(squares.astype(np.float64), 0), places.astype(np.int64)
        return SearchedRows(self._fit_X).nearest(queries, k)


def _without_itself(squares: F64, places: I64) -> tuple[F64, I64]:
    """Without each row's own position, or without the last neighbour where copies of the row came before it."""
    mine = places == np.arange(len(places))[:, None]
    mine[~mine.any(axis=1), -1] = True
    shape = len(places), places.shape[1] - 1
    return squares[~mine].reshape(shape), places[~mine].reshape(shape)
