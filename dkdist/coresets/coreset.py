"""`coreset`: few points that stand for many, by the kernel distance between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import LEAST, draw_seed, median_seed, one_of, positive, whole
from dkdist._base.sampling import least_keys, row_keys
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool, dimension_names
from dkdist.coresets import selection as choosing
from dkdist.coresets.union import CoresetUnion
from dkdist.kernels.inputs import as_points, as_weights
from dkdist.sets import SampleSetError

MIN_DELTA = 1e-300


@dataclass(frozen=True)
class Coreset:
    """Points that stand for a set: ``indices`` (size,) into it, ``weights`` (size,), and how far they are from it.

    Indices are distinct. Weights are in the unit of the set's, and give `kernel_distance` what it takes as weights.
    ``distance`` is the kernel distance D between the set and its coreset, both with their weights; of one that
    `merge_coresets` has made, a bound of it. ``points`` (size, d) are the points themselves, ``kernel`` and ``sigma``
    what they were chosen by, ``n_points`` the number of those they stand for, and ``total`` the sum of their weights,
    None if they had none. ``finer`` is what a merged one was chosen from, and None for others. ``names`` are those of
    the columns, of points in a data frame or a store with names.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> P = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = dk.coreset(P, 20, sigma=1.0, random_state=0)
    >>> found.indices.shape, round(float(found.weights.sum()), 6), found.distance < 0.05
    ((20,), 1.0, True)
    """

    indices: I64
    weights: F64
    distance: float
    points: F64 = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    sigma: float = 0.0
    n_points: int = 0
    total: float | None = None
    finer: CoresetUnion | None = field(default=None, repr=False)
    kernel: str = "gaussian"
    names: list[Any] | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        from dkdist._utils.text import pairs_table

        signs = "" if (self.weights >= 0).all() else f", {int((self.weights < 0).sum()):,} of them negative"
        weights = f"{self.weights.min():.4g} to {self.weights.max():.4g}, sum {self.weights.sum():.6g}{signs}"
        pairs = [
            ("points", f"{len(self.indices):,}"),
            ("weights", weights),
            ("distance", f"{self.distance:.4g}"),
            ("kernel", f"{self.kernel}, sigma {self.sigma:.4g}" if self.sigma > 0 else self.kernel),
        ]
        return pairs_table("Coreset", pairs)


def coreset_size(eps: float, delta: float = 0.05) -> int:
    """The size of a random sample whose kernel distance to its set is at most eps W, but for probability delta.

    ((1 + sqrt(2 ln(1 / delta))) / eps)^2 for any weights of total W and any kernel with k(x, x) = 1, in any dimension:
    the mean of D^2 is below W^2 / size, and one point changes D by at most 2 W / size (McDiarmid). (P3, Theorem 4.1,
    with a bound of D rather than of D^2.) delta is at least 1e-300.

    Examples
    --------
    >>> coreset_size(0.1), coreset_size(0.1, 0.5)
    (1189, 475)
    """
    eps, delta = positive("eps", eps), positive("delta", delta)
    if not MIN_DELTA <= delta < 1:
        raise ValueError(
            f"delta must be a probability of at least {MIN_DELTA:g} and below 1; found {delta:g}: give one that is "
            "small enough to be neglected, such as 0.01"
        )
    if eps < LEAST:
        raise ValueError(
            f"eps must be at least {LEAST:g}; found {eps:g}, for which no sample is large enough"
        )
    return int(np.ceil(((1 + np.sqrt(-2 * np.log(delta))) / eps) ** 2))


def coreset(
    P: Any,
    size: int,
    *,
    sigma: float | str,
    kernel: str = "gaussian",
    weights: Any = None,
    method: str = "swap",
    optimal_weights: bool = False,
    random_state: Any = None,
) -> Coreset:
    """Choose a few points of a set that are near it by the kernel distance.

    Parameters
    ----------
    P : (n, d) array, dask array or Zarr array, or a `SetStore` with one set
        The points. What is not in memory is read piece by piece, twice.
    size : int
        How many to choose, at most n; `coreset_size` says how many a random sample needs.
    sigma : float or "median"
        Standard deviation of the Gaussian kernel exp(-r^2 / (2 sigma^2)), or the unit of r in another one; "median" is
        the median distance of 1,024 points, drawn at random from the seed among those that weigh.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with random frequencies: all but "energy" and "epanechnikov".
    weights : (n,) array or dask array, optional
        Of the points, >= 0. Without them each point weighs 1 / n. A `SetStore` has its own.
    method : {"swap", "halving", "stratified", "random", "every"}, default="swap"
        "random": draws by weight, without repetition. "stratified": one of each of ``size`` regions of
        equal weight. "every": the middle of every stratum along the line, for d = 1. "halving": regions halved, keeping
        of every two neighbours the one that balances the others; of unequal weights that, or "stratified", whichever is
        nearer. "swap": stratified, then two rounds in which each
        point is replaced by the best of its region and of 256 points from everywhere.
    optimal_weights : bool, default=False
        Whether the points have the signed weights that bring them nearest to the set, if they are nearer with them:
        found from exact sums, size n pairs and size^3 steps more, and one more pass over what is not in memory. Their
        sum is free.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Coreset
        ``indices``, ``weights`` (whose sum is that of the set's, unless optimal), the achieved ``distance`` and
        ``points``; `merge_coresets` takes those of several sets together.

    Raises
    ------
    ValueError
        For a size beyond the number of points, points that are not finite, weights that are negative, of another length
        or without a sum, a kernel that has no frequencies ("energy"), a sigma too small for the features that estimate
        the distance (below some 1 / 300,000 of the width of the points; for other kernels than the Gaussian, below
        d / 600,000 of it), a store that holds several sets, and method="every" for points that are not in memory.

    Notes
    -----
    The guarantee is the ``distance`` itself: found to 1e-8 in D^2 by `kernel_distance`, of any number of points for the
    Gaussian kernel in up to three dimensions, exponential ones on a line and "laplace" in the plane, else of up to
    30,000. Of more it is estimated by 4,096 random features that the choice has not seen, with a standard error of some
    2 to 5 % (10 % on a line). A random sample has E D^2 <= (W^2 - kappa(P, P)) / size, whatever the weights and the
    kernel; swaps are several times nearer, the less so the rougher the kernel and the more dimensions (docs/kernel.md).
    Points that weigh as much as the others do for each place left are certain and keep their weight, by every method;
    all others have equal weights, and stand for each other with probabilities by weight
    (`dkdist.coresets._coreset_numba`). The sum of the weights is the set's. Cost of "swap" from n points: n log n
    for the order, 16,384 features of at most 1,024 numbers, .05 to .5 s for sizes of hundreds.

    Sets that are not in memory take two passes: one for bounds and weights, one in which each piece gives its share
    of the sums over all points and its best candidates; swaps then choose among the 16,384 candidates of all pieces,
    toward the mean embedding of the whole set. The ``distance`` is to the whole set: to 1e-8 in D^2 for the Gaussian
    kernel in up to three dimensions and four million cells (sigma at least some 1/1000 of the width in the plane, 1/100
    in space), else estimated by 4,096 random features. Memory: for each thread a piece (of stores, 4 MiB or one chunk;
    of dask arrays, a chunk of rows) and its sums (at most 32 MiB), and the features of the candidates. Results depend
    on the pieces, and on no scheduler.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 4; Dwivedi, Mackey: Kernel thinning (2021).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> P = np.random.default_rng(0).normal(size=(4000, 2))
    >>> few = dk.coreset(P, 50, sigma=1.0, random_state=0)
    >>> sample = dk.coreset(P, 50, sigma=1.0, method="random", random_state=0)
    >>> len(few.indices), few.distance < sample.distance / 4
    (50, True)
    >>> rough = dk.coreset(P, 50, sigma=1.0, kernel="matern32", random_state=0)
    >>> rough.kernel, rough.distance < 0.05
    ('matern32', True)
    """
    optimal_weights = check_bool("optimal_weights", optimal_weights)
    size, method = whole("size", size), one_of("method", method, choosing.METHODS)
    kernel = choosing.check_kernel(kernel)
    if hasattr(P, "blocks"):  # arrays of Dask and Zarr and stores: what reads them is loaded for them alone
        from dkdist.coresets.streamed import streamed_coreset
        from dkdist.kernels.lazy_distance import lazy_points

        lazy = lazy_points("P", P, weights)
        if lazy is not None:
            made = streamed_coreset(lazy, size, sigma, kernel, method, optimal_weights, random_state)
            return Coreset(*made, kernel=kernel, names=dimension_names(P))
    points, p = points_and_weights(P, weights)
    x = points - points.mean(axis=0)  # the kernel knows differences alone
    choosing.check_size(size, len(x))
    choosing.check_every_method(method, x.shape[1])
    width = choosing.check_sigma(sigma)
    if width is None:
        counted = np.flatnonzero(p > 0)
        keys = row_keys(0, len(x), median_seed(random_state))[counted]
        width = choosing.median_sigma(points[counted[least_keys(keys, choosing.MEDIAN_SAMPLE_SIZE)]])
    extent = float(np.ptp(x, axis=0).max())
    choosing.check_float32_range(
        width_of_the_points=extent, bandwidth_sigma=width, total_weight=float(p.sum())
    )
    choice = choosing.CoresetParams(size, width, method, draw_seed(random_state), kernel)
    indices, chosen = choosing.choose_points(x.astype(np.float32), p, choice)
    if optimal_weights:
        chosen = choosing.optimize_coreset_weights(x, p, indices, chosen, choice)
    distance = choosing.achieved_distance(x, p, indices, chosen, choice)
    total = None if weights is None else float(p.sum())
    names = dimension_names(P)
    return Coreset(
        indices, chosen, distance, points[indices], width, len(points), total, kernel=kernel, names=names
    )


def points_and_weights(P: ArrayLike, weights: ArrayLike | None) -> tuple[F64, F64]:
    """Points (n, d) and their weights (n,) >= 0, 1 / n without any."""
    points = as_points("P", P)
    one_column = getattr(weights, "shape", None) == (len(points), 1)
    p = as_weights("P", np.asarray(weights)[:, 0] if one_column else weights, points)[:, 0]
    if p.min() < 0:
        i = int(np.argmax(p < 0))
        raise SampleSetError(f"weight {i} is {p[i]}: weights must be >= 0. Clip them, or drop the points")
    return points, p
