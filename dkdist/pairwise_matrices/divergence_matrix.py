"""`divergence_matrix`: divergences of all pairs of sample sets, for learners with precomputed kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from dkdist._base.inputs import SetsLike, check_two_collections
from dkdist._numba.arrays import F64
from dkdist._runtime.pairs import PairTiles, plan_pairs
from dkdist._utils.validation import check_verbose
from dkdist.embeddings.divergences import canonical_name, normalization
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
    symmetric: bool | None = ..., normalized: bool = ..., verbose: bool | int = ..., as_frame: Literal[False] = ...,
) -> F64: ...  # fmt: skip
@overload
def divergence_matrix(
    sets: SetsLike, divergence: str | Kappa = ..., other: SetsLike | None = ..., *,
    estimator: str | PairEstimator = ..., k: int | None = ..., alpha: float | None = ...,
    symmetric: bool | None = ..., normalized: bool = ..., verbose: bool | int = ..., as_frame: Literal[True],
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
    normalized: bool = False,
    verbose: bool | int = False,
    as_frame: bool = False,
) -> Any:
    """Return estimated divergences of all pairs of sample sets, D[i, j] = d(p_i, p_j).

    A baseline for small N: convert the matrix to a kernel for ``SVC(kernel="precomputed")`` or ``KernelRidge``. The
    cost grows with N^2; `DivergenceEmbedding` learns in linear time.

    Parameters
    ----------
    sets : collection of sets, see `as_sets`
        Sets of the rows.
    divergence : str or callable, default="jensen-shannon"
        Name or function; logarithmic divergences are in nats. "entropy" and "held-out" estimate "jensen-shannon"; "knn"
        estimates "kullback-leibler", "renyi" and "hellinger"; "plugin" estimates "jensen-shannon", "hellinger",
        "total-variation", "chi2", "kullback-leibler", "renyi" and a vectorised kappa(p, q) of densities; "gaussian"
        estimates "jensen-shannon", "hellinger", "kullback-leibler", "renyi", "bhattacharyya" and "wasserstein" (the
        squared 2-Wasserstein distance, in squared units of the points). Short names are "js", "kl" and "tv".
    other : as sets, optional
        Sets of the columns; default: ``sets``. Then a symmetric divergence is computed only once per pair, and the
        diagonal is zero. A set and its copy in ``other`` are not independent samples; their divergence by "entropy"
        or "knn" differs from zero.
    estimator : {"entropy", "knn", "plugin", "held-out", "gaussian"} or object, default="entropy"
        An `EntropyDivergence`, `KNNDivergence`, `PluginDivergence`, `HeldOutDivergence` or `GaussianDivergence`, or the
        name of an estimator with default options. "entropy" and "knn" are nearly unbiased and may be slightly negative
        (use ``np.maximum(D, 0)`` if necessary). Only "plugin" and "gaussian" accept weights.
    k : int, optional
        Option ``k`` of the estimator, for estimator="entropy" or "knn".
    alpha : float, default=0.5
        Order of the Renyi divergence, above 0 and not 1; with "knn" |alpha - 1| < k.
    symmetric : bool, optional
        For "kullback-leibler", "renyi" and a callable: whether to return the mean of both directions. Default: D[i, j]
        is d(p_i || p_j).
    normalized : bool, default=False
        For "total-variation": return the integral of |p - q| / 2, from 0 to 1.
    verbose : bool, default=False
        Print a plan on standard error (pairs, bytes, expected time from a sample of pairs), and progress.
    as_frame : bool, default=False
        Return a pandas DataFrame with the ids of the sets as index and columns.

    Returns
    -------
    (N, N) or (N, M) float64 ndarray, or DataFrame

    Raises
    ------
    SampleSetError
        For empty sets, NaN, too few points for k neighbours, different dimensions, duplicates, and weights with an
        estimator that does not accept weights. The message names the set.
    StoreFormatError
        If a set of a store cannot be read. The message names the set.
    ValueError
        For unknown names and for options without effect.
    MemoryError
        If the N x M matrix does not fit in memory; raised before any computation.

    Notes
    -----
    On one CPU type, a value depends only on its two sets and the options (domain and bandwidth of "plugin", seed and
    positions for halves); it is bitwise identical for any tiles, threads and scheduler. Sets in memory are compared on
    local threads. Sets of a store are read tile by tile, on the active Dask cluster if there is one; a thread holds at
    most two blocks of sets. ``open_sets(..., block_sets=)`` determines the side of a tile; each set is read, and its
    tree built, once for every tile in its row and column.

    Cost in two dimensions at 2,500 points per set: about 4 ms of one core per pair for "entropy" and "knn", growing as
    n log n; above about ten dimensions trees give no speed-up (n^2 d). "plugin": about 0.1 ms per pair, growing with
    the number of nodes n_basis^d. "gaussian": about 5 us per pair in d = 2, 0.2 ms in d = 50
    and 5 ms in d = 200; for Jensen-Shannon 0.1 ms, 2 ms and 30 ms.

    "plugin" is biased: for two samples of 20 points from one distribution, the Hellinger divergence is about 0.03, 0.07
    and 0.15 in d = 1, 2, 3, and decreases as 1 / n (`DivergenceEmbedding.noise` estimates it). The bias depends on the
    sizes of the sets. The other estimates scatter around the divergence and may be negative.

    docs/benchmarks.md compares exp(-D / (2 sigma^2)) with the true kernel of mixtures of Gaussians.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider 2016 ("held-out", with the factor 1 / n that is missing in its formula);
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
    factor = normalization(divergence, normalized)
    config = resolve_estimator(divergence, estimator, k)
    order, is_symmetric = resolve_order_and_symmetry(divergence, alpha, symmetric)
    fitted = config.measure(divergence, order, is_symmetric, rows, columns)
    sample = time_sample(fitted, rows, columns) if verbose else None
    work, what = CompareTile(fitted), "divergence matrix"
    matrix = fill_matrix(work, pairs, rows, columns, what=what, label="pairs", sample=sample, verbose=verbose)
    matrix *= factor
    return format_matrix(matrix, rows, columns, as_frame)
