"""`NearestSets`: the nearest rows of features, in memory or block by block from a store."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dkdist.base.inputs import within_floats
from dkdist.base.parameter_checks import one_of, whole
from dkdist.execution.blocks import is_lazy, local_blocks, row_blocks
from dkdist.execution.passes import collect
from dkdist.learners.rows import checked
from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.top_k import merged_nearest, nearest_rows
from dkdist.plain.flags import as_flag

PIECES = 16  # that rows in memory are searched in, by this machine's threads


class NearestSets(BaseEstimator):
    """Find the nearest sets by the Euclidean distance of their features, exactly, for collections of any size.

    Rows of an embedding whose squared distances are divergences, or squared kernel distances, make this a search by
    that divergence.

    Parameters
    ----------
    n_neighbors : int, default=10
        How many of them `kneighbors` gives.
    engine : {"exact", "faiss"}, default="exact"
        "exact": products in float32 over tiles, the nearest few again by differences in float64; lazy features are made
        block by block and never held. "faiss": an exact flat index (``pip install 'dkdist[neighbors]'``), for features
        in memory; distances are those of float32 products.

    Attributes
    ----------
    n_features_in_ : int
        The length of a row.
    n_samples_fit_ : int
        The number of rows to search.

    Raises
    ------
    ValueError
        For more neighbours than rows, rows that are not finite, rows of another length.
    ImportError
        If faiss is asked for and not installed.

    Notes
    -----
    Cost of m queries among n rows of length D: 2 m n D flops, near the speed of the matrix product. Lazy features are
    made once for all queries of a call: ask for many at a time. Equal distances keep the order of the rows. Queries
    whose neighbours float32 cannot tell from other rows (tight groups that are far apart) take products in float64, at
    twice the cost.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> features = np.eye(4, dtype="f4")
    >>> distances, indices = dk.NearestSets(2).fit(features).kneighbors(features[2:3] * 0.9)
    >>> indices, distances.round(2)
    (array([[2, 0]]), array([[0.1 , 1.35]]))
    """

    def __init__(self, n_neighbors: int = 10, engine: str = "exact") -> None:
        self.n_neighbors = n_neighbors
        self.engine = engine

    def fit(self, X: Any, y: Any = None) -> NearestSets:
        """Take the features X (n, D), ndarray or dask array, to search among. ``y`` is not used."""
        whole("n_neighbors", self.n_neighbors)
        one_of("engine", self.engine, ("exact", "faiss"))
        if is_lazy(X):
            validate_data(self, X, skip_check_array=True)
            if self.engine == "faiss":
                raise ValueError(
                    "engine='faiss' holds all rows in memory, found a dask array: give X.compute()"
                )
        else:
            with within_floats():
                X = validate_data(self, X, dtype=np.float32, order="C")
        self.n_samples_fit_ = int(X.shape[0])
        self._fit_X, self._index = X, None
        if self.engine == "faiss":
            self._index = _faiss().IndexFlatL2(X.shape[1])
            self._index.add(X)
        return self

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
        given = np.asarray(given.compute() if is_lazy(given) else given)
        with within_floats():
            queries = validate_data(self, given, reset=False, dtype=np.float32, order="C")
        squares, places = self._nearest(queries, k + own)
        if own:
            squares, places = _without_itself(squares, places)
        return (np.sqrt(squares), places) if return_distance else places

    def _nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        if self._index is not None:
            squares, places = self._index.search(queries, k)
            return np.maximum(squares.astype(np.float64), 0), places.astype(np.int64)
        X = self._fit_X
        blocks = row_blocks(X) if is_lazy(X) else local_blocks(X, -(-len(X) // PIECES))
        starts = [int(a) for a in blocks.bounds[:-1]]
        parts = collect(blocks, partial(_block_nearest, queries, k), starts, label="nearest")
        return merged_nearest(parts, k)


def _block_nearest(queries: F32, k: int, block: Any, start: int) -> tuple[F64, I64]:
    rows, _ = checked(block, np.dtype(np.float32), start, (len(block), queries.shape[1]), skip=False)
    return nearest_rows(rows, queries, k, start)


def _without_itself(squares: F64, places: I64) -> tuple[F64, I64]:
    """Without each row's own position, or without the last neighbour where copies of the row came before it."""
    mine = places == np.arange(len(places))[:, None]
    mine[~mine.any(axis=1), -1] = True
    shape = len(places), places.shape[1] - 1
    return squares[~mine].reshape(shape), places[~mine].reshape(shape)


def _faiss() -> Any:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError(
            "engine='faiss' needs faiss: pip install 'dkdist[neighbors]', or take engine='exact'"
        ) from error
