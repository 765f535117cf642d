"""`coreset` and `CoresetThinning`: few points that stand for many, by the kernel distance between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist.estimators._inputs import check_sets, sample_points, survey
from dkdist.estimators._params import draw_seed, one_of, positive, settled, whole
from dkdist.estimators.kernel_distance import kernel_distance
from dkdist.estimators.mean import MeanEmbedding
from dkdist.numerics.bandwidth import median_distance
from dkdist.numerics.fourier_grid import fourier_grid
from dkdist.numerics.thinning import best_weights, halve, spatial_order, strata, swap
from dkdist.sets import SampleSetError, SampleSets, require_nonnegative_weights

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

METHODS = ("swap", "halving", "stratified", "random", "every")
BASE = 2**14  # points that swaps and halving choose from; of more, one of each region
POOL, PASSES = (
    256,
    2,
)  # candidates from everywhere, beside those of a point's own region; turns that each point has
MODES, COMPONENTS = 1024, 1024  # features of a point: at most, in up to three dimensions; else
WORST = 1e-2  # error of the kernel by so many modes; else random features
MOST_PAIRS = 30_000  # points of more dimensions whose distance is found exactly
ROLE = 0x434F5245  # keeps these random numbers apart from others of the same seed


@dataclass(frozen=True)
class Coreset:
    """Points that stand for a set: ``indices`` (size,) into it, ``weights`` (size,), and how far they are from it.

    ``distance`` is the kernel distance D between the set and its coreset, both with their weights.
    """

    indices: I64
    weights: F64
    distance: float


def coreset_size(eps: float, delta: float = 0.05) -> int:
    """The size of a random sample whose kernel distance to its set is at most eps W, but for probability delta.

    ((1 + sqrt(2 ln(1 / delta))) / eps)^2 for weights of total W and any kernel with k(x, x) = 1, in any dimension: the
    mean of D^2 is below W^2 / size, and one point changes D by at most 2 W / size (McDiarmid). (P3, Theorem 4.1, with a
    bound of D rather than of D^2.)

    Examples
    --------
    >>> coreset_size(0.1), coreset_size(0.1, 0.5)
    (1189, 475)
    """
    eps, delta = positive("eps", eps), positive("delta", delta)
    if delta >= 1:
        raise ValueError(f"delta must be a probability below 1; found {delta}")
    return int(np.ceil(((1 + np.sqrt(2 * np.log(1 / delta))) / eps) ** 2))


def coreset(
    P: ArrayLike,
    size: int,
    *,
    sigma: float | str,
    weights: ArrayLike | None = None,
    method: str = "swap",
    optimal_weights: bool = False,
    random_state: Any = None,
) -> Coreset:
    """Choose a few points of a set that are near it by the kernel distance.

    Parameters
    ----------
    P : (n, d) array
        The points.
    size : int
        How many to choose, at most n; `coreset_size` says how many a random sample needs.
    sigma : float or "median"
        Standard deviation of the Gaussian kernel exp(-r^2 / (2 sigma^2)); "median" is the median distance of 1,024
        points.
    weights : (n,) array, optional
        Of the points, >= 0. Without them each point weighs 1 / n.
    method : {"swap", "halving", "stratified", "random", "every"}, default="swap"
        "random": independent draws by weight, without repetition. "stratified": one of each of ``size`` regions of
        equal weight. "every": the middle of every stratum along the line, for d = 1. "halving": regions halved, keeping
        of every two neighbours the one that balances the others. "swap": stratified, then two rounds in which each
        point is replaced by the best of its region and of 256 points from everywhere.
    optimal_weights : bool, default=False
        Whether the points have the signed weights that bring them nearest to the set, instead of equal ones.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Coreset
        ``indices``, ``weights`` (whose sum is that of the set's, unless optimal) and the achieved ``distance``.

    Raises
    ------
    ValueError
        For a size beyond the number of points, points that are not finite, weights that are negative, of another length
        or without a sum.

    Notes
    -----
    The guarantee is the ``distance`` itself: found to 1e-8 in D^2 by `kernel_distance`, and for more than 30,000
    points in more than three dimensions estimated by 4,096 random features that the choice has not seen. A random
    sample has E D^2 = (W^2 - kappa(P, P)) / size; swaps are several times nearer. Cost of "swap" from n points: n log
    n for the order, 16,384 features of at most 1,024 numbers, 0.1 to 0.5 s for sizes of hundreds.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 4; Dwivedi, Mackey: Kernel thinning (2021).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> P = np.random.default_rng(0).normal(size=(4000, 2))
    >>> few = dk.coreset(P, 50, sigma=1.0, random_state=0)
    >>> sample = dk.coreset(P, 50, sigma=1.0, method="random", random_state=0)
    >>> len(few.indices), few.distance < sample.distance / 4
    (50, True)
    """
    x, p = _points_and_weights(P, weights)
    size, method = whole("size", size), one_of("method", method, METHODS)
    if size > len(x):
        raise ValueError(f"size must be at most the number of points, {len(x)}; found {size}")
    if method == "every" and x.shape[1] != 1:
        raise ValueError(f"method='every' is for points of one dimension; found {x.shape[1]}")
    width = _width(sigma, x, p)
    return _choose(x, p, size, width, method, optimal_weights, draw_seed(random_state))


def _points_and_weights(P: ArrayLike, weights: ArrayLike | None) -> tuple[F32, F64]:
    points = np.asarray(P, np.float64)
    if points.ndim != 2:
        raise SampleSetError(f"expected points of shape (n, d), found {points.shape}")
    if not len(points) or not np.isfinite(points).all():
        raise SampleSetError("expected at least one point and finite values: drop the points that are not")
    centred = points - points.mean(axis=0)  # the kernel knows differences alone
    x = SampleSets.from_arrays([centred], None if weights is None else [np.asarray(weights, np.float64)])
    require_nonnegative_weights(x)
    p = (
        np.full(len(points), 1 / len(points))
        if weights is None
        else np.asarray(weights, np.float64).reshape(-1)
    )
    return x.points, p


def _width(sigma: float | str, x: F32, p: F64) -> float:
    if not isinstance(sigma, str):
        return positive("sigma", sigma)
    one_of("sigma", sigma, ("median",))
    some = x[p > 0]
    return _median(some[np.linspace(0, len(some) - 1, min(1024, len(some))).round().astype(int)])


def _median(points: F32) -> float:
    found = settled(median_distance(points))
    if not found > 0:
        raise ValueError("sigma='median' is zero, for most points are equal: give a positive number")
    return found


def _choose(x: F32, p: F64, size: int, sigma: float, method: str, optimal: bool, seed: int) -> Coreset:
    rng, W = np.random.default_rng([seed, ROLE]), float(p.sum())
    light = np.flatnonzero(p > 0)
    if size >= len(light):
        indices, weights = light, p[light]
        return Coreset(indices, weights, _distance(x, p, indices, weights, sigma, seed))
    y, share = x[light], p[light]
    if method == "random":
        chosen = np.sort(rng.choice(len(y), size, replace=False, p=share / W))
    elif method == "every":
        order = np.argsort(y[:, 0], kind="stable")
        chosen = order[strata(share[order], size, np.full(size, 0.5))]
    else:
        chosen = _thinned(y, share, size, sigma, method, rng, seed)
    weights = np.full(size, W / size)
    if optimal:
        embedding = _embedding(y, sigma, seed)
        phi, mu = _features(embedding, y[chosen]), W * _mean(embedding, y, share)
        weights = best_weights(phi, mu)
    indices = light[chosen]
    return Coreset(indices, weights, _distance(x, p, indices, weights, sigma, seed))


def _thinned(
    y: F32, share: F64, size: int, sigma: float, method: str, rng: np.random.Generator, seed: int
) -> I64:
    """Positions of the points that a region gives up, halving or swaps keep."""
    order = spatial_order(y, max(1, len(y) // max(BASE, size)))
    if method == "stratified":
        return np.asarray(order[strata(share[order], size, rng.random(size))])
    doubled = size << max(0, int(np.log2(min(BASE, len(y)) / size))) if size < BASE else size
    n_base = doubled if method == "halving" else min(len(y), max(BASE, size))
    base = order[strata(share[order], n_base, rng.random(n_base))] if n_base < len(y) else order
    embedding = _embedding(y, sigma, seed)
    phi = _features(embedding, y[base])
    if method == "halving":
        kept = np.arange(len(base))
        while len(kept) > size:
            kept = halve(phi, kept)
        return np.asarray(base[kept])
    weight = share[base] if n_base == len(y) else np.ones(n_base)
    chosen = strata(weight, size, rng.random(size))
    ends = np.searchsorted(np.cumsum(weight) / weight.sum(), np.arange(size + 1) / size).astype(np.int64)
    target = (size * _mean(embedding, y, share)).astype(np.float32)
    squares = (phi**2).sum(axis=1)
    for _ in range(PASSES):
        pool = rng.choice(n_base, min(POOL, n_base), replace=False)
        swap(phi, squares, target, chosen, rng.permutation(size), pool, ends)
    return np.asarray(base[chosen])


def _embedding(y: F32, sigma: float, seed: int) -> MeanEmbedding:
    widths = (y.max(axis=0) - y.min(axis=0)).astype(np.float64)
    if y.shape[1] <= 3 and fourier_grid(widths, sigma, WORST, MODES).error <= WORST:
        return MeanEmbedding(MODES, sigma, "fourier", random_state=seed).fit([y])
    return MeanEmbedding(COMPONENTS, sigma, "orthogonal", random_state=seed).fit([y])


def _features(embedding: MeanEmbedding, y: F32) -> F32:
    rows: F32 = embedding.transform(SampleSets(y, np.arange(len(y) + 1)))
    return rows


def _mean(embedding: MeanEmbedding, y: F32, share: F64) -> F64:
    rows = embedding.transform(SampleSets(y, [0, len(y)], share / share.mean()))
    return np.asarray(rows[0], np.float64)


def _distance(x: F32, p: F64, indices: I64, weights: F64, sigma: float, seed: int) -> float:
    n, d = x.shape
    if d <= 3 or n <= MOST_PAIRS:
        eps = 1e-8 * float(p.sum()) ** 2
        return kernel_distance(x, x[indices], sigma=sigma, weights=(p, weights), eps=eps)
    unseen = MeanEmbedding(4096, sigma, "orthogonal", random_state=seed + 1).fit([x])
    apart = p.sum() * _mean(unseen, x, p) - weights @ _features(unseen, x[indices]).astype(np.float64)
    return float(np.sqrt((apart**2).sum()))


class CoresetThinning(TransformerMixin, BaseEstimator):
    """Make large sets small: every set becomes its coreset, sets to sets, before any embedding.

    Parameters
    ----------
    size : int, default=256
        Points that a set has at most; smaller ones stay as they are.
    sigma : float or "median", default="median"
        As for `coreset`; "median" is the median distance between 1,024 points of at most 256 sets of `fit`.
    method : {"swap", "halving", "stratified", "random", "every"}, default="swap"
        As for `coreset`.
    random_state : int, Generator or None
        Seed; a set's coreset depends on the seed and on its own points alone.

    Attributes
    ----------
    sigma_ : float
        What was used.
    n_features_in_ : int
        The dimension d of the points.

    Raises
    ------
    SampleSetError
        Naming the set: empty, not finite, negative weights.

    Notes
    -----
    `transform` gives `SampleSets` in memory, for a store too: at most ``size`` points a set, read one block at a time.
    Weighted sets keep their total weight. Cost a set: see `coreset`.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(i % 2, 1, (3000, 1)) for i in range(4)]
    >>> dk.CoresetThinning(20, sigma=0.5, random_state=0).fit_transform(sets)
    SampleSets(n_sets=4, n_points=80, n_dims=1)
    """

    def __init__(
        self, size: int = 256, sigma: float | str = "median", method: str = "swap", random_state: Any = None
    ) -> None:
        self.size = size
        self.sigma = sigma
        self.method = method
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> CoresetThinning:
        """Check the sets X and find sigma; one pass over the data for "median". ``y`` is not used."""
        whole("size", self.size)
        one_of("method", self.method, METHODS)
        sets = check_sets(X)
        if isinstance(self.sigma, str):
            one_of("sigma", self.sigma, ("median",))
            self.sigma_ = _median(sample_points(sets, survey(sets, None, skip=False).bad))
        else:
            self.sigma_ = positive("sigma", self.sigma)
        self.n_features_in_ = sets.n_dims
        self._seed = draw_seed(self.random_state)
        return self

    def transform(self, X: Any) -> SampleSets:
        """The sets X with at most ``size`` points each, in memory."""
        check_is_fitted(self)
        sets = check_sets(X, self.n_features_in_)
        blocks = [sets] if isinstance(sets, SampleSets) else sets.blocks()
        points, weights, position = list[F32](), list[F64](), 0
        weighted = False
        for block in blocks:
            require_nonnegative_weights(block, position)
            weighted = block.weights is not None
            for i, x in enumerate(block):
                w = block.weights_of(i)
                few, their = self._thin(x, np.ones(len(x)) if w is None else w.reshape(-1).astype(np.float64))
                points.append(few)
                weights.append(their)
            position += len(block)
        return SampleSets.from_arrays(points, weights if weighted else None)

    def _thin(self, x: F32, w: F64) -> tuple[F32, F64]:
        if len(x) <= self.size:
            return x, w
        centred = (x - x.mean(axis=0, dtype=np.float64)).astype(np.float32)
        made = _choose(centred, w, self.size, self.sigma_, self.method, False, self._seed)
        return x[made.indices], made.weights
