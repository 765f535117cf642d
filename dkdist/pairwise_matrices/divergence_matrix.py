"""`divergence_matrix`: divergences of all pairs of sample sets, for learners on precomputed kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from dkdist._base.inputs import SetsLike, check_two_collections
from dkdist._numba.arrays import F64
from dkdist._runtime.pairs import PairTiles, plan_pairs
from dkdist._utils.validation import check_verbose
from dkdist.embeddings.divergences import canonical_name
from dkdist.pairwise_matrices.divergence_estimators import (
    PairEstimator,
    resolve_estimator,
    resolve_order_and_symmetry,
)
from dkdist.pairwise_matrices.matrix_frames import format_matrix, require_frames
from dkdist.pairwise_matrices.tiles import CompareTile, fill_matrix, tile_bounds_of, time_sample
from dkdist.sets import SampleSets

if TYPE_CHECKING:
    import pandas as pd

    from dkdist.embeddings.kappa import Kappa


@overload
def divergence_matrix(
    sets: SetsLike, divergence: str | Kappa = ..., other: SetsLike | None = ..., *,
    estimator: str | PairEstimator = ..., k: int | None = ..., alpha: float | None = ...,
    symmetric: bool | None = ..., verbose: bool | int = ..., as_frame: Literal[False] = ...,
) -> F64: ...  # fmt: skip
@overload
def divergence_matrix(
    sets: SetsLike, divergence: str | Kappa = ..., other: SetsLike | None = ..., *,
    estimator: str | PairEstimator = ..., k: int | None = ..., alpha: float | None = ...,
    symmetric: bool | None = ..., verbose: bool | int = ..., as_frame: Literal[True],
) -> pd.DataFrame: ...  # fmt: skip
def divergence_matrix(
    sets: Any,
    divergence: str | Callable[[Any, Any], Any] = "jensen-shannon",
    other: Any = None,
    *,
    estimator: str | PairEstimator = "entropy",
    k: int | None = None,
    alpha: float | None = None,
    symmetric: bool | None = None,
    verbose: bool | int = False,
    as_frame: bool = False,
) -> Any:
    """Estimate the divergences of all pairs of sample sets, D[i, j] = d(p_i, p_j).

    A baseline for small N: convert it to a kernel for ``SVC(kernel="precomputed")`` or ``KernelRidge``. Its cost
    grows with N^2; `DivergenceEmbedding` learns in linear time.

    Parameters
    ----------
    sets : SampleSets, SetStore, list of (n_i, d) arrays or (N, n, d) array
        The rows.
    divergence : str or callable, default="jensen-shannon"
        In nats where it has logarithms. "entropy" and "held-out" estimate "jensen-shannon"; "knn" estimates
        "kullback-leibler", "renyi" and "hellinger"; "plugin" estimates "jensen-shannon", "hellinger",
        "total-variation", "chi2", "kullback-leibler", "renyi" and a vectorised kappa(p, q) of densities. "js", "kl"
        and "tv" for short.
    other : as sets, optional
        The columns; by default ``sets``. Then only one of (i, j) and (j, i) is computed if the divergence is
        symmetric, and the diagonal is zero. A set and its copy in ``other`` are not independent samples: for them
        "entropy" and "knn" give a value below or above zero.
    estimator : {"entropy", "knn", "plugin", "held-out"} or object, default="entropy"
        An `EntropyDivergence`, `KNNDivergence`, `PluginDivergence` or `HeldOutDivergence`, or the name of one with
        default options. "entropy" and "knn" are nearly unbiased and may be slightly negative (use
        ``np.maximum(D, 0)`` where that matters). Only "plugin" takes weights.
    k : int, optional
        With the name "entropy" or "knn": the option ``k`` of its class.
    alpha : float, default=0.5
        For "renyi": its order, above 0 and not 1; with "knn" |alpha - 1| < k.
    symmetric : bool, optional
        For "kullback-leibler", "renyi" and a callable: the mean of both directions. By default D[i, j] is
        d(p_i || p_j).
    verbose : bool, default=False
        Print the plan on standard error (pairs, bytes, the expected time from a sample of pairs), and progress.
    as_frame : bool, default=False
        Return a pandas DataFrame with the ids of the sets as index and columns.

    Returns
    -------
    (N, N) or (N, M) float64 ndarray, or DataFrame

    Raises
    ------
    SampleSetError
        For empty sets, NaN, fewer points than k neighbours need, different dimensions, duplicates, and weights that
        the estimator does not use. The message names the set.
    StoreFormatError
        If a set of a store cannot be read. The message names the set.
    ValueError
        For unknown names, and options without effect.
    MemoryError
        If a matrix of N M numbers does not fit in memory; raised before any computation.

    Notes
    -----
    On one CPU type, the bits of a value depend on its two sets and the options alone (the domain and bandwidth of
    "plugin", the seed and positions for halves), not on tiles, threads or the scheduler. Sets in memory are compared
    on local threads. Those of a store are read tile by tile, on the active Dask cluster if there is one; a thread
    holds at most two blocks of sets. ``open_sets(..., block_sets=)`` sets the side of a tile; each set is read, and
    its tree built, once for every tile in its row and column.

    Cost in two dimensions at 2,500 points per set: about 4 ms of one core per pair for "entropy" and "knn", growing as
    n log n; beyond about ten dimensions trees give no speed-up (n^2 d). "plugin": about 0.1 ms per pair, growing with
    the number of nodes n_basis^d.

    "plugin" is biased: for two samples of one distribution, Hellinger is about 0.03, 0.07, 0.15 for 20 points each in
    d = 1, 2, 3, falling as 1 / n (`DivergenceEmbedding.noise` estimates it). Sets of different sizes differ by this
    bias. The other estimates scatter around the divergence and may be negative.

    docs/benchmarks.md compares exp(-D / (2 sigma^2)) with the true kernel of mixtures of Gaussians.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider 2016 ("held-out", with the mean over points that its formula lacks);
    Kozachenko, Leonenko 1987; Vasicek 1976; Ross 2014; Wang, Kulkarni, Verdu 2009; Poczos, Xiong, Schneider 2011.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from sklearn.svm import SVC
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(30) % 2
    >>> sets = [rng.normal(0, 1 + label, (60, 2)) for label in y]
    >>> D = dk.divergence_matrix(sets, "jensen-shannon")
    >>> sigma = np.sqrt(np.median(D[np.triu_indices(30, 1)]))
    >>> K = dk.project_psd(np.exp(-D / (2 * sigma**2)))
    >>> float(SVC(kernel="precomputed").fit(K, y).score(K, y))
    1.0
    """
    check_verbose(verbose)
    require_frames(as_frame)
    rows, columns = check_two_collections(sets, other, "divergence_matrix(sets, 'jensen-shannon', other)")
    pairs = PairTiles(tile_bounds_of(rows), None if columns is None else tile_bounds_of(columns))
    local = isinstance(rows, SampleSets) or isinstance(columns, SampleSets)
    plan_pairs(pairs, what="divergence matrix", read_bytes=0, sample=None, local=local).check()
    divergence = canonical_name(divergence)
    config = resolve_estimator(divergence, estimator, k)
    order, is_symmetric = resolve_order_and_symmetry(divergence, alpha, symmetric)
    fitted = config.measure(divergence, order, is_symmetric, rows, columns)
    sample = time_sample(fitted, rows, columns) if verbose else None
    work, what = CompareTile(fitted), "divergence matrix"
    matrix = fill_matrix(work, pairs, rows, columns, what=what, label="pairs", sample=sample, verbose=verbose)
    return format_matrix(matrix, rows, columns, as_frame)
