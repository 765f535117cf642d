"""`NearestSets`: the nearest rows of features, in memory or block by block from a store; exactly, or most of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dkdist.base.inputs import within_floats
from dkdist.base.parameter_checks import draw_seed, one_of, positive, whole
from dkdist.base.roles import Role
from dkdist.execution.blocks import is_lazy, row_blocks
from dkdist.loops.array_types import F32, F64, I64
from dkdist.pairs.row_cells import TRIED, Recall, RowCells, filled_cells, library, n_trained
from dkdist.pairs.searched_rows import SearchedRows
from dkdist.plain.validation import as_flag


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
            self._index, self.recall_ = self._in_cells(np.random.default_rng([seed, Role.CELLS]))
        return self

    def _in_cells(self, rng: np.random.Generator) -> tuple[RowCells, Recall]:
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
        as_flag("return_distance", return_distance)
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
        if isinstance(self._index, RowCells):
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
