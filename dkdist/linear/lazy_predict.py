"""`lazy_predict`: predictions of any fitted model as a dask array."""

from __future__ import annotations

import copy
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base.inputs import block_views, check_sets
from dkdist._runtime.arrays import lazy_from_model
from dkdist._runtime.blocks import chunk_source, is_lazy
from dkdist.io.lazy_sets import LazySets


def lazy_predict(model: Any, X: Any, method: str = "predict", *, meta: NDArray[Any] | None = None) -> Any:
    """Return ``model.method(X)`` as a dask array that calls the method on one block of X at a time.

    Nothing is computed now, except the method on one row to find the dtype and the shape of its results.

    Parameters
    ----------
    model : object
        Fitted model of any library, copied now: later fits do not change the result. On a cluster it is sent once to
        each worker and must be picklable.
    X : dask array of shape (n, ...), SetStore or LazySets
        Blocks are chunks along the first axis, as arrays (other axes are joined; lengths may be unknown), or
        `SampleSets` of the blocks of lazy sets. For X in memory the method is called on X.
    method : str, default="predict"
        Name of a method that returns one array with an entry for each row, computed independently of the other rows,
        such as "predict_proba", "decision_function" or "transform".
    meta : ndarray of shape (any, ...) or None, default=None
        Array with the dtype and, after the first axis, the shape of results, such as ``np.empty((0, 3), "f4")``. None
        calls the method on one row of ones, or on the first set.

    Returns
    -------
    result : dask array of shape (n,) or (n, ...)
        With the chunks of X along the first axis. If X is in memory: what the method returns.

    Raises
    ------
    TypeError
        If the model has no such method.
    ValueError
        If the result of the method is not one array with an entry for each row; when computed, for a block of other
        shape.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import dkdist as dk
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).standard_normal((300, 2)).astype("f4")
    >>> model = LogisticRegression().fit(X, X[:, 0] > 0)
    >>> lazy = da.from_array(X, chunks=(100, 2))
    >>> dk.lazy_predict(model, lazy)
    dask.array<predict, shape=(300,), dtype=bool, chunksize=(100,), chunktype=numpy.ndarray>
    """
    if not callable(getattr(model, method, None)):
        raise TypeError(
            f"model must have the method {method!r}; got {type(model).__name__}. Pass method= with one that it has."
        )
    first_row: Any
    if isinstance(X, LazySets):
        check_sets(X, text=True)
        source, bounds, _ = block_views(X, row_bytes=0)
        first_row, rows = X[:1], np.diff(bounds).tolist()
    elif is_lazy(X):
        source, rows = chunk_source(X), X.chunks[0]
        first_row = np.ones((1, *X.shape[1:]), X.dtype)
    elif hasattr(X, "__dask_graph__"):
        raise ValueError(
            f"X must be a dask array, lazy sets or in memory; got a {type(X).__name__}. For a data frame pass "
            "X.to_dask_array(lengths=True), for sets dk.as_sets(X)."
        )
    else:
        return getattr(model, method)(X)
    model = copy.deepcopy(model)
    if meta is None:
        meta = _call_on_row(model, method, first_row)
    call = partial(_call_on_block, method, np.empty((0, *meta.shape[1:]), meta.dtype))
    return lazy_from_model(call, model, source, rows, meta, method)


def _call_on_row(model: Any, method: str, row: Any) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the data are given for the blocks
        try:
            return _call(model, method, row)
        except Exception as error:
            error.add_note(
                f"lazy_predict called {method} on one row (of ones, or the first set) to find the dtype and "
                "shape of its results. If only this row is invalid, pass them as meta=."
            )
            raise


def _call_on_block(method: str, empty: NDArray[Any], model: Any, block: Any) -> NDArray[Any]:
    if block.shape[0] == 0:  # most models refuse arrays without rows
        return empty
    rows = _call(model, method, block)
    if rows.shape[1:] != empty.shape[1:]:
        raise ValueError(
            f"{method} must return rows of shape {empty.shape[1:]}, as for the first row; got {rows.shape[1:]}."
        )
    return rows


def _call(model: Any, method: str, block: Any) -> NDArray[Any]:
    result = getattr(model, method)(block.load() if isinstance(block, LazySets) else block)
    # a list has one array per output, and a sparse matrix becomes an array without axes
    rows = np.empty(()) if isinstance(result, list) else np.asarray(result)
    if rows.shape[:1] != block.shape[:1]:
        raise ValueError(
            f"{method} must return one dense array with {block.shape[0]} row(s); got a {type(result).__name__} of "
            f"shape {np.shape(result)}. Use another method."
        )
    return rows
