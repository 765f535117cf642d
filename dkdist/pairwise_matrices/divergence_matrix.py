"""`divergence_matrix`: all pairs of sample sets, for learners on precomputed kernels, at the price of N^2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dkdist._base.inputs import check_both
from dkdist._runtime.pairs import PairTiles, plan_pairs
from dkdist._utils.validation import as_verbose
from dkdist.pairwise_matrices.divergence_estimators import PairEstimator, estimator_for, order_and_symmetry
from dkdist.pairwise_matrices.matrix_frames import as_asked, require_frames
from dkdist.pairwise_matrices.tiles import CompareTile, all_pairs, tile_bounds_of, timed_sample
from dkdist.sets import SampleSets


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
    """Divergences between all pairs of sample sets, estimated pair by pair: D[i, j] = d(p_i, p_j).

    A baseline for small N, to be made a kernel and given to ``SVC(kernel="precomputed")`` or ``KernelRidge``. Its
    cost grows with N^2; `DivergenceEmbedding` does the same in linear time.

    Parameters
    ----------
    sets : SampleSets, SetStore, list of (n_i, d) arrays or (N, n, d) array
        The rows.
    divergence : str or callable, default="jensen-shannon"
        In nats where it has logarithms. "entropy" and "held-out" estimate "jensen-shannon"; "knn" estimates
        "kullback-leibler", "renyi" and "hellinger"; "plugin" estimates "jensen-shannon", "hellinger",
        "total-variation", "chi2", "kullback-leibler", "renyi" and a vectorised kappa(p, q) of densities.
    other : as sets, optional
        The columns; by default ``sets`` again, where only one of (i, j) and (j, i) is computed if the divergence
        is symmetric, and the diagonal is zero. A set against a copy of itself in ``other`` is no pair of
        independent samples: "entropy" and "knn" then give some value below or above zero.
    estimator : {"entropy", "knn", "plugin", "held-out"} or object, default="entropy"
        An `EntropyDivergence`, `KNNDivergence`, `PluginDivergence` or `HeldOutDivergence`, whose pages describe the
        estimates and their options; a name stands for one with default options. "entropy" and "knn" are nearly
        unbiased and may be slightly negative (take ``np.maximum(D, 0)`` where that matters). Only "plugin" takes
        weights.
    k : int, optional
        With the name "entropy" or "knn": the option ``k`` of its class.
    alpha : float, default=0.5
        For "renyi": its order, above 0 and not 1; with "knn" |alpha - 1| < k.
    symmetric : bool, optional
        For "kullback-leibler", "renyi" and a callable: the mean of both directions, instead of D[i, j] = d(p_i || p_j),
        the default.
    verbose : bool, default=False
        Print the plan on standard error (pairs, bytes, the time expected from a sample of pairs), and progress.
    as_frame : bool, default=False
        Give a pandas DataFrame with the ids of the sets as index and columns.

    Returns
    -------
    (N, N) or (N, M) float64 ndarray, or DataFrame

    Raises
    ------
    SampleSetError
        Naming the set: empty, NaN, with fewer points than k neighbours need, other dimensions, duplicates; or
        weights where the estimator counts points.
    StoreFormatError
        Naming the set of a store that cannot be read.
    ValueError
        For unknown names (with a list of the known ones), and options without effect.
    MemoryError
        If a matrix of N M numbers does not fit in memory; before anything is computed.

    Notes
    -----
    A pair's value depends, bit for bit on processors of one kind, on its two sets and on what is stated above (the
    domain and bandwidth of "plugin", the seed and positions for halves): on no tile, thread or scheduler. Sets in
    memory are compared on the threads of this machine. Those of a store are read tile by tile, in tasks on the active
    Dask cluster if there is one: never more than two blocks of sets in a thread. ``open_sets(..., block_sets=)`` sets
    the side of a tile; each set is read, and its tree built, once for every tile in its row and column.

    Cost in two dimensions at 2,500 points a set: about 4 ms of one core a pair for "entropy" and "knn", growing as
    n log n; trees give no speed beyond some ten dimensions (n^2 d). "plugin": about 0.1 ms a pair, growing with the
    number of nodes n_basis^d.

    "plugin" between two samples of one distribution is not 0: Hellinger is some 0.03, 0.07, 0.15 for 20 points each in
    d = 1, 2, 3, falling as 1 / n (`DivergenceEmbedding.noise` estimates it), and sets of different sizes differ by it.
    The others scatter around the divergence, below zero too.

    How near exp(-D / (2 sigma^2)) comes to the true kernel of mixtures of Gaussians: see docs/choosing.md.

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
    as_verbose(verbose)
    require_frames(as_frame)
    rows, columns = check_both(sets, other, "divergence_matrix(sets, 'jensen-shannon', other)")
    pairs = PairTiles(tile_bounds_of(rows), None if columns is None else tile_bounds_of(columns))
    local = isinstance(rows, SampleSets) or isinstance(columns, SampleSets)
    plan_pairs(pairs, what="divergence matrix", read_bytes=0, sample=None, local=local).check()
    selected = estimator_for(divergence, estimator, k)
    measure = selected.measure(divergence, *order_and_symmetry(divergence, alpha, symmetric), rows, columns)
    sample = timed_sample(measure, rows, columns) if verbose else None
    work, what = CompareTile(measure), "divergence matrix"
    found = all_pairs(work, pairs, rows, columns, what=what, label="pairs", sample=sample, verbose=verbose)
    return as_asked(found, rows, columns, as_frame)
