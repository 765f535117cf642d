"""`coreset`: a small weighted subset of a point set with a small kernel distance to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import (
    MIN_SCALE,
    RandomStateLike,
    check_choice,
    check_int,
    check_positive,
    draw_seed,
    median_seed,
)
from dkdist._base.sampling import random_row_keys, smallest_keys
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool, dimension_names
from dkdist.coresets import selection
from dkdist.coresets._tuning import MEDIAN_SAMPLE_SIZE
from dkdist.coresets.union import CoresetUnion
from dkdist.kernels.inputs import PointsLike, as_points, as_weights
from dkdist.kernels.registry import check_kernel
from dkdist.sets import SampleSetError

MIN_DELTA = 1e-300  # keeps 1 / delta within normal float64 numbers (tests/kernel/test_coreset.py)


@dataclass(frozen=True)
class Coreset:
    """Weighted subset of a point set: ``indices`` (size,), ``weights`` (size,) and the kernel ``distance`` to the set.

    Indices are distinct. Weights have the unit of the weights of the set, and `kernel_distance` accepts them.
    ``distance`` is the kernel distance D between the weighted set and the coreset; for results of `merge_coresets` an
    upper bound. ``points`` (size, d) are the points, ``kernel`` and ``sigma`` the kernel of the selection (a tuple for
    several bandwidths), ``n_points`` the number of points of the set, ``total`` its total weight (None without
    weights). ``finer`` holds the points that a merged coreset was chosen from, else None. ``names`` are column names of
    a data frame or store, else None.

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
    sigma: float | tuple[float, ...] = 0.0
    n_points: int = 0
    total: float | None = None
    finer: CoresetUnion | None = field(default=None, repr=False)
    kernel: str = "gaussian"
    names: list[Any] | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        from dkdist._utils.text import key_value_table

        signs = "" if (self.weights >= 0).all() else f", {int((self.weights < 0).sum()):,} of them negative"
        weights = f"{self.weights.min():.4g} to {self.weights.max():.4g}, sum {self.weights.sum():.6g}{signs}"
        sigma = ", ".join(f"{value:.4g}" for value in np.atleast_1d(self.sigma))
        pairs = [
            ("points", f"{len(self.indices):,}"),
            ("weights", weights),
            ("distance", f"{self.distance:.4g}"),
            ("kernel", f"{self.kernel}, sigma {sigma}" if self.points.size else self.kernel),
        ]
        return key_value_table("Coreset", pairs)


def coreset_size(eps: float, delta: float = 0.05) -> int:
    """Return the size of a random sample with kernel distance at most eps W to its set, with probability 1 - delta.

    The size is ((1 + sqrt(2 ln(1 / delta))) / eps)^2 for any weights of total W and any kernel with k(x, x) = 1, in any
    dimension: the mean of D^2 is below W^2 / size, and one point changes D by at most 2 W / size (McDiarmid). (Joshi et
    al. 2011, Theorem 4.1, with a bound on D instead of D^2.) delta must be at least 1e-300.

    Examples
    --------
    >>> coreset_size(0.1), coreset_size(0.1, 0.5)
    (1189, 475)
    """
    eps, delta = check_positive("eps", eps), check_positive("delta", delta)
    if not MIN_DELTA <= delta < 1:
        raise ValueError(
            f"delta must be a probability from {MIN_DELTA:g} to below 1; got {delta:g}. Pass the acceptable "
            "probability of failure, such as 0.01."
        )
    if eps < MIN_SCALE:
        raise ValueError(
            f"eps must be at least {MIN_SCALE:g}; got {eps:g}, for which no sample is large enough."
        )
    return int(np.ceil(((1 + np.sqrt(-2 * np.log(delta))) / eps) ** 2))


def coreset(
    P: PointsLike,
    size: int,
    *,
    sigma: float | str | Sequence[float] = "median",
    kernel: str = "gaussian",
    weights: Any = None,
    method: str = "swap",
    optimal_weights: bool = False,
    random_state: RandomStateLike = None,
) -> Coreset:
    """Choose a small weighted subset of a point set with a small kernel distance to it.

    Parameters
    ----------
    P : (n, d) array, Dask array or Zarr array, or a `SetStore` with one set
        Points. Points that are not in memory are read piece by piece, twice.
    size : int
        Number of points of the coreset, at most n; see `coreset_size` for the size of a random sample.
    sigma : float, sequence of floats or "median", default="median"
        Standard deviation of the Gaussian kernel exp(-r^2 / (2 sigma^2)), or the unit of r for another kernel. "median"
        is the median distance of 1,024 random points of positive weight. The kernels of a sequence, and therefore
        their D^2, are added as in `kernel_distance`, with an equal number of features for each.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with random frequencies: all but "energy", "epanechnikov", "ball", "linear" and
        "identity"; "triangle" in one dimension.
    weights : (n,) array or Dask array, optional
        Weights of the points, >= 0; by default 1 / n each. A `SetStore` has its own weights.
    method : {"swap", "halving", "stratified", "random", "every"}, default="swap"
        "random": samples by weight without replacement. "stratified": one point of each of ``size`` regions of equal
        weight. "every": the middle of each stratum along the line, for d = 1. "halving": halves the regions repeatedly
        and keeps the point of each pair of neighbours that balances the others; with unequal weights, the better of
        this and "stratified". "swap": "stratified", then two rounds that replace each point by the best of its region
        and 256 points of the whole set.
    optimal_weights : bool, default=False
        Return the signed weights with the smallest distance instead of equal ones. Cost: exact sums over size * n
        pairs, size^3 operations, and one more pass over points that are not in memory. The sum of the weights is not
        constrained.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Coreset
        ``indices``, ``weights`` (with the total weight of the set, unless optimal), ``distance`` and ``points``.
        `merge_coresets` combines the coresets of several sets.

    Raises
    ------
    ValueError
        For a size above the number of points, points that are not finite, weights that are negative, of another length
        or all zero, a kernel without random frequencies ("energy"), a sigma too small for features that estimate the
        distance (below about 1 / 300,000 of the width of the points; for other kernels than the Gaussian, d / 600,000),
        a store with several sets, and method="every" for points that are not in memory.

    Notes
    -----
    The guarantee is the ``distance``, computed to 1e-8 in D^2 by `kernel_distance`: for any number of points with the
    Gaussian kernel in up to three dimensions, exponential kernels on a line and "laplace" in the plane, else for up to
    30,000 points. For more it is estimated by 4,096 random features, independent of the selection, with a standard
    error of 2 to 5 % (10 % on a line). A random sample has E D^2 <= (W^2 - kappa(P, P)) / size for all weights and
    kernels. The distance with swaps is several times smaller, with less gain for rough kernels and many dimensions
    (docs/kernel.md). Points at least as heavy as the remaining weight per remaining point are always included and keep
    their weight; all others get equal weights, with inclusion probabilities proportional to their weight
    (`dkdist.coresets._coreset_numba`). Time of "swap" for n points: n log n for the order, and 16,384 features of at
    most 1,024 numbers; 0.05 to 0.5 s for sizes of a few hundred.

    Sets that are not in memory take two passes: bounds and weights, then sums over all points and candidates of each
    piece. Swaps choose among 16,384 candidates of all pieces, towards the mean embedding of the whole set. The
    ``distance`` is to the whole set: within 1e-8 in D^2 for the Gaussian kernel in up to three dimensions and four
    million cells (sigma at least about 1/1000 of the width in the plane, 1/100 in space), else estimated by 4,096
    random features. Memory: per thread one piece (stores: 4 MiB or one chunk; Dask arrays: a chunk of rows) and its
    sums (at most 32 MiB), and the features of the candidates. Results depend on the division into pieces, but not on
    the scheduler.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 4; Dwivedi, Mackey: Kernel thinning (2021).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> P = np.random.default_rng(0).normal(size=(4000, 2))
    >>> few = dk.coreset(P, 50, sigma=1.0, random_state=0)
    >>> sample = dk.coreset(P, 50, sigma=1.0, method="random", random_state=0)
    >>> len(few.indices), few.distance < sample.distance / 4
    (50, True)
    >>> multiscale = dk.coreset(P, 50, sigma=[0.5, 2.0], random_state=0)
    >>> multiscale.sigma, multiscale.distance < sample.distance
    ((0.5, 2.0), True)
    >>> rough = dk.coreset(P, 50, sigma=1.0, kernel="matern32", random_state=0)
    >>> rough.kernel, rough.distance < 0.05
    ('matern32', True)
    """
    optimal_weights = check_bool("optimal_weights", optimal_weights)
    size, method = check_int("size", size), check_choice("method", method, selection.METHODS)
    kernel = check_kernel(kernel, "sample_frequencies")
    if hasattr(P, "blocks"):  # Dask array, Zarr array or store; readers are imported lazily
        from dkdist.coresets.streamed import streamed_coreset
        from dkdist.kernels.lazy_distance import lazy_points

        lazy = lazy_points("P", P, weights)
        if lazy is not None:
            fields = streamed_coreset(lazy, size, sigma, kernel, method, optimal_weights, random_state)
            return Coreset(*fields, kernel=kernel, names=dimension_names(P))
    points, p = points_and_weights(P, weights)
    x = points - points.mean(axis=0)  # kernels depend on differences only; centring reduces float32 rounding
    selection.check_size(size, len(x))
    selection.check_dims(method, kernel, x.shape[1])
    sigmas = selection.check_sigma(sigma)
    if sigmas is None:
        sigmas = (_median_sigma(points, p, median_seed(random_state)),)
    extent = float(np.ptp(x, axis=0).max())
    selection.check_float32_range(width_of_the_points=extent, total_weight=float(p.sum()))
    selection.check_bandwidths(sigmas)
    params = selection.CoresetParams(size, sigmas, method, draw_seed(random_state), kernel)
    indices, chosen_weights = selection.choose_points(x.astype(np.float32), p, params)
    if optimal_weights:
        chosen_weights = selection.optimize_coreset_weights(x, p, indices, chosen_weights, params)
    distance = selection.achieved_distance(x, p, indices, chosen_weights, params)
    total = None if weights is None else float(p.sum())
    names = dimension_names(P)
    return Coreset(
        indices,
        chosen_weights,
        distance,
        points[indices],
        selection.public_sigma(sigmas),
        len(points),
        total,
        kernel=kernel,
        names=names,
    )


def _median_sigma(points: F64, p: F64, seed: int) -> float:
    """Return the median distance of random points of positive weight."""
    positive_rows = np.flatnonzero(p > 0)
    keys = random_row_keys(0, len(points), seed)[positive_rows]
    return selection.median_sigma(points[positive_rows[smallest_keys(keys, MEDIAN_SAMPLE_SIZE)]])


def points_and_weights(P: Any, weights: ArrayLike | None) -> tuple[F64, F64]:
    """Check points (n, d) and weights (n,) >= 0; the default weight is 1 / n."""
    points = as_points("P", P)
    one_column = getattr(weights, "shape", None) == (len(points), 1)
    p = as_weights("P", np.asarray(weights)[:, 0] if one_column else weights, points)[:, 0]
    if p.min() < 0:
        i = int(np.argmax(p < 0))
        raise SampleSetError(f"weights must be >= 0; got {p[i]} at point {i}. Clip them or drop the points.")
    return points, p
