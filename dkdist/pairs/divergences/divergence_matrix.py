"""`divergence_matrix`: all pairs of sample sets, for learners on precomputed kernels, at the price of N^2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from dkdist.base.inputs import check_both
from dkdist.execution.pairs import Pairs, plan_pairs
from dkdist.pairs.divergences.divergence_estimators import pair_measure
from dkdist.pairs.divergences.pair_estimators import PairEstimator
from dkdist.pairs.matrix_frames import as_asked, require_frames
from dkdist.pairs.tiles import CompareTile, all_pairs, tile_bounds_of, timed_sample
from dkdist.plain.validation import as_verbose
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
    mixture: str | None = None,
    duplicates: str | None = None,
    n_basis: int | None = None,
    bandwidth: float | Sequence[float] | str | None = None,
    domain: str | tuple[ArrayLike, ArrayLike] | None = None,
    structure: str | None = None,
    random_state: Any = None,
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
        In nats where it has logarithms. "entropy" knows "jensen-shannon"; "knn" knows "kullback-leibler", "renyi"
        and "hellinger"; "plugin" knows "jensen-shannon", "hellinger", "total-variation", "chi2",
        "kullback-leibler", "renyi" and a vectorised kappa(p, q) of densities, for int kappa(p(x), q(x)) dx over the
        domain scaled to [0, 1]^d (which any scaling leaves as it is if kappa is homogeneous of degree one).
    other : as sets, optional
        The columns; by default ``sets`` again, where only one of (i, j) and (j, i) is computed if the divergence
        is symmetric, and the diagonal is zero. A set against a copy of itself in ``other`` is no pair of
        independent samples: "entropy" and "knn" then give some value below or above zero.
    estimator : {"entropy", "knn", "plugin", "held-out"} or object, default="entropy"
        An `EntropyDivergence`, `KNNDivergence`, `PluginDivergence` or `HeldOutDivergence` holds the options below that
        are valid for it; beside a name they are given here.
        "entropy": H((p + q) / 2) - (H(p) + H(q)) / 2 of nearest-neighbour entropies. "knn": ratios of
        nearest-neighbour densities. Both are nearly unbiased and may be a little negative (take
        ``np.maximum(D, 0)`` where that matters). "plugin": kernel density estimates as in `DivergenceEmbedding`,
        integrated over nodes; zero between equal sets, never negative but for rounding, and the only one that takes
        weights. "held-out": "jensen-shannon" as Sutherland et al. estimate it: reflected kernel densities of a random
        half of each set, log p and log (p + q) / 2 averaged over the other halves, both ways; may be negative.
    k : int, default=4
        For "entropy" and "knn": which neighbour (with mixture="halves" in one dimension, how many spacings on
        either side). Larger is smoother; 4 to 20 differ little.
    alpha : float, default=0.5
        For "renyi": its order, above 0 and not 1; with "knn" |alpha - 1| < k.
    symmetric : bool, optional
        For "kullback-leibler", "renyi" and a callable: the mean of both directions, instead of D[i, j] = d(p_i || p_j),
        the default.
    mixture : {"all", "halves"}, default="all"
        For "entropy": all points of both sets, each in the balls that its own set's entropy is taken with, so that
        most of the error cancels; or a random half of each set, as in Sutherland et al. (spacings in one
        dimension), which is much noisier. Ties are no harm to "all".
    duplicates : {"raise", "floor"}, default="raise"
        For "knn" and mixture="halves": what becomes of neighbours at distance zero, whose density would be
        infinite. "raise" names the set; "floor" lets no distance count as less than the smallest one between
        different points of the set.
    n_basis : int, default=32
        For "plugin": nodes per dimension ("held-out" has none: its densities are looked up at the points).
    bandwidth, domain, structure : optional
        For "plugin" and "held-out": as for `DivergenceEmbedding`. What is chosen from data is chosen from ``other`` if
        it is given (the training sets, say; points of ``sets`` outside its bounds then count at the wall, with a
        warning).
    random_state : int, Generator or None, default=None
        For mixture="halves" and "held-out": seed of the halves; nothing else is random.
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
        For unknown names (with the list of those there are), and options without a meaning for the estimator.
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
    n log n; trees give no speed beyond some ten dimensions (n^2 d). "plugin": about .1 ms a pair, growing with the
    number of nodes n_basis^d.

    "plugin" between two samples of one distribution is not 0: Hellinger is some .03, .07, .15 for 20 points each in
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
    given = {
        "k": k, "alpha": alpha, "symmetric": symmetric, "mixture": mixture, "duplicates": duplicates,
        "n_basis": n_basis, "bandwidth": bandwidth, "domain": domain, "structure": structure,
        "random_state": random_state,
    }  # fmt: skip
    rows, columns = check_both(sets, other, "divergence_matrix(sets, 'jensen-shannon', other)")
    pairs = Pairs(tile_bounds_of(rows), None if columns is None else tile_bounds_of(columns))
    local = isinstance(rows, SampleSets) or isinstance(columns, SampleSets)
    plan_pairs(pairs, what="divergence matrix", read_bytes=0, sample=None, local=local).check()
    measure = pair_measure(estimator, divergence, given, rows, columns)
    sample = timed_sample(measure, rows, columns) if verbose else None
    work, what = CompareTile(measure), "divergence matrix"
    found = all_pairs(work, pairs, rows, columns, what=what, label="pairs", sample=sample, verbose=verbose)
    return as_asked(found, rows, columns, as_frame)
