"""How the points of a coreset are chosen: from the features of points, for `coreset` and `CoresetThinning`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._judging import require_resolved
from dkdist.estimators._params import LEAST, MOST
from dkdist.estimators.kernel_distance import kernel_distance
from dkdist.execution.arrays import drawn
from dkdist.numerics.best_weights import best_weights, kernel_matrix
from dkdist.numerics.domain import extent
from dkdist.numerics.fourier_grid import MOST_DIMS, fourier_grid
from dkdist.numerics.kernel_exact import scaled, sums
from dkdist.numerics.pivotal import certain, halve_unequal, one_of_each, stand_ins
from dkdist.numerics.thinning import halve, spatial_order, strata, swap
from dkdist.parameters.domain import Domain
from dkdist.parameters.mean import GridMeanParameters, GridMeanSpec, RandomMeanParameters, RandomMeanSpec
from dkdist.sets import SampleSets

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MeanParameters = GridMeanParameters | RandomMeanParameters

METHODS = ("swap", "halving", "stratified", "random", "every")
BASE = 2**14  # points that swaps and halving choose from; of more, one of each region
POOL = 256  # candidates from everywhere, beside those of a point's own region
PASSES = 2  # turns that each point has
MODES, COMPONENTS = 1024, 1024  # features of a point: at most, in up to three dimensions; else
LEFT_OUT = 0.01  # weight of the frequencies that are left out, times the size
WORST = 1e-2  # error of the kernel by so many modes; else random features
MOST_PAIRS = 30_000  # points of more dimensions whose distance is found exactly
ROLE = 0x434F5245  # keeps these random numbers apart from others of the same seed


def require_line(method: str, d: int) -> None:
    """Refuse the method that needs an order of the points, where there is none."""
    if method == "every" and d != 1:
        raise ValueError(f"method='every' is for points of one dimension; found {d}")


def require_floats(values: dict[str, float]) -> None:
    """Refuse units in which features, float32, cannot be computed; 0 may be, where all points are equal."""
    for name, value in values.items():
        if value != 0 and not LEAST <= value <= MOST:
            units = "the weights" if "weight" in name else "points and sigma"
            raise ValueError(
                f"the {name} is {value:.3g}, beyond {LEAST:g} to {MOST:g} that coresets are found for: change the "
                f"units of {units}"
            )


def choose(x: F32, p: F64, size: int, sigma: float, method: str, seed: int) -> tuple[I64, F64]:
    """(indices, weights) of the points that stand for points x (n, d) with weights p.

    Points that weigh as much as the others do for a place stand for themselves; the others have equal weights.
    """
    rng = np.random.default_rng([seed, ROLE])
    counted = np.flatnonzero(p > 0)
    if size >= len(counted):
        return counted, p[counted]
    heavy = counted[certain(p[counted], size)]
    light = np.setdiff1d(counted, heavy, assume_unique=True)
    n, W = size - len(heavy), float(p.sum() if len(heavy) == 0 else p[light].sum())
    chosen = _light(x[light], p[light], n, sigma, method, rng, seed)
    return np.concatenate([heavy, light[chosen]]), np.concatenate([p[heavy], np.full(n, W / n)])


def _light(
    y: F32, share: F64, size: int, sigma: float, method: str, rng: np.random.Generator, seed: int
) -> I64:
    """Positions of points that stand for all with equal weights, each more than any of theirs."""
    equal = bool(share.min() == share.max())
    if method == "random" and equal:
        return np.sort(rng.choice(len(y), size, replace=False, p=share / share.sum()))
    if method == "random":
        order = rng.permutation(len(y))
        return np.sort(order[one_of_each(share[order], size, rng.random(len(y)))])
    if method == "every":
        order = np.argsort(y[:, 0], kind="stable")
        return np.asarray(order[strata(share[order], size, np.full(size, 0.5))])
    order = spatial_order(y, max(1, len(y) // max(BASE, size)))
    if method == "stratified":
        return np.asarray(order[one_a_region(share[order], equal, size, rng)])
    base, weight = _base(order, share[order], equal, size, method, rng)
    embedding = drawn(point_spec(y, sigma, size, seed))
    mean = _mean(embedding, y, share)
    return np.asarray(
        base[from_base(embedding.embed_points(y[base]), weight, equal, mean, size, method, rng)]
    )


def _base(
    order: I64, share: F64, equal: bool, size: int, method: str, rng: np.random.Generator
) -> tuple[I64, F64]:
    """(positions, weights) of what halving or swaps choose from: of points in order, one of each small region."""
    n, most = len(order), max(BASE, size)
    if not equal:
        places, weight = stand_ins(share, most, rng.random(n))
        return order[places], weight
    n_base = doubled(size, n) if method == "halving" else min(n, most)
    if n_base == n:
        return order, share
    return order[strata(share, n_base, rng.random(n_base))], np.ones(n_base)


def one_a_region(share: F64, equal: bool, size: int, rng: np.random.Generator) -> I64:
    """Positions of one point of each region of a spatial order, with probabilities by weight."""
    if equal:
        return strata(share, size, rng.random(size))
    return one_of_each(share, size, rng.random(len(share)))


def doubled(size: int, n: int) -> int:
    """The size doubled as often as `BASE` and n points allow: where halving begins."""
    return size << max(0, int(np.log2(min(BASE, n) / size))) if size < BASE else size


def from_base(
    phi: F32, weight: F64, equal: bool, mean: F64, size: int, method: str, rng: np.random.Generator
) -> I64:
    """Positions that halving or swaps keep of a base in spatial order: its features, weights, and the mean of all.

    ``equal``: every point that the base stands for weighs the same.
    """
    if method == "halving" and not equal:
        return halve_unequal(phi, weight, size)
    if method == "halving":
        kept = np.arange(len(phi))
        while len(kept) > size:
            kept = halve(phi, kept)
        return kept
    chosen = one_a_region(weight, equal, size, rng)
    ends = np.searchsorted(np.cumsum(weight) / weight.sum(), np.arange(size + 1) / size).astype(np.int64)
    target = (size * mean).astype(np.float32)
    squares = np.einsum("ij,ij->i", phi, phi)
    for _ in range(PASSES):
        pool = rng.choice(len(phi), min(POOL, len(phi)), replace=False)
        swap(phi, squares, target, chosen, rng.permutation(size), pool, ends)
    return chosen


def point_spec(y: F32, sigma: float, size: int, seed: int) -> GridMeanSpec | RandomMeanSpec:
    """Features of points within the bounds of points y, for a choice of ``size`` of them.

    Swaps bring D^2 to a few W^2 / size^2; frequencies that are left out add some W^2 / size times their weight.
    """
    low, high = extent(y.astype(np.float64))
    if y.shape[1] <= MOST_DIMS:
        grid = fourier_grid(high - low, sigma, min(WORST, LEFT_OUT / size), MODES)
        if grid.error <= WORST:
            domain = Domain(tuple(low.tolist()), tuple(high.tolist()), fixed=False)
            return GridMeanSpec(domain, (sigma,), (grid.periods,), (grid.cutoff,), grid.n_features)
    return RandomMeanSpec(_centre(y), (sigma,), COMPONENTS, "orthogonal", seed)


def _centre(y: F32) -> tuple[float, ...]:
    low, high = extent(y.astype(np.float64))
    return tuple(((low + high) / 2).tolist())


def _mean(embedding: MeanParameters, y: F32, share: F64) -> F64:
    row = embedding.embed(SampleSets(y, [0, len(y)], share / share.mean()))[0]
    return np.asarray(row, np.float64)


def nearest_weights(x: F64, p: F64, indices: I64, weights: F64, sigma: float) -> F64:
    """The signed weights of points that bring them nearest to all, by exact sums; never farther than those given."""
    few = x[indices]
    overlaps = sums(scaled(few, sigma), scaled(x, sigma), p[:, None])[:, 0]
    return best_weights(kernel_matrix(few, sigma), overlaps, weights)


def achieved(x: F64, p: F64, indices: I64, weights: F64, sigma: float, seed: int) -> float:
    """The kernel distance between points with weights p and some of them with other weights."""
    n, d = x.shape
    if d <= 3 or n <= MOST_PAIRS:
        eps = 1e-8 * float(p.sum()) ** 2
        return kernel_distance(x, x[indices], sigma=sigma, weights=(p, weights), eps=eps)
    low, high = extent(x)
    require_resolved(high - low, sigma)
    points = x.astype(np.float32)
    unseen = drawn(RandomMeanSpec(_centre(points), (sigma,), 4096, "orthogonal", seed + 1))
    apart = p.sum() * _mean(unseen, points, p) - weights @ unseen.embed_points(points[indices]).astype(
        np.float64
    )
    return float(np.sqrt((apart**2).sum()))
