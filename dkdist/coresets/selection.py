"""How the points of a coreset are chosen: from the features of points, for `coreset` and `CoresetThinning`.

The weights that bring few points nearest to many: least squares in the space of the kernel.

    D^2(w) = kappa(P, P) - 2 w.b + w.K w,   K_jl = k(s_j, s_l),   b_j = sum_i p_i k(x_i, s_j)

K is singular but for rounding where points are near each other. So w solves (K + ridge I) w = b for falling ridges, and
is the one whose D^2, counted with what rounding may add to it, is least: of large weights of both signs that all but
cancel, float64 cannot tell the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dkdist._base.parameter_checks import LEAST, MOST, is_word, one_of, positive, round_to_float32
from dkdist._base.params import Domain, EmbeddingParameters
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import median_distance
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import column_bounds
from dkdist._runtime.process import materialize_params
from dkdist.coresets._coreset_numba import (
    certain_points,
    halve,
    halve_unequal,
    sample_pivotal,
    sample_strata,
    sample_weighted,
    spatial_order,
    swap,
)
from dkdist.kernels._random_numba import MAX_HALF_TURNS, float32_error
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, fourier_grid
from dkdist.kernels.kernel_distance import kernel_distance
from dkdist.kernels.kernel_sums import kernel_matrix, scaled, sums
from dkdist.kernels.mean_embedding import GridMeanSpec, RandomMeanSpec
from dkdist.kernels.registry import MAX_FREQUENCY, get_kernel, names_with
from dkdist.sets import SampleSets

RIDGES = 10.0 ** -np.arange(2, 15)
ROUNDING_RATIO = 1e-14  # of (sum |w|)^2


def quadratic_objective(K: F64, b: F64, w: F64) -> float:
    """D^2(w) - kappa(P, P)."""
    return float(w @ (K @ w - 2 * b))


def optimize_weights(K: F64, b: F64, given: F64) -> F64:
    """Signed weights (m,) that bring points nearest to the set; those ``given``, if none are better.

    Cost: m^3 / 3 multiply-adds for each of up to 13 ridges, until smaller ones are of no use.
    """
    unit = float(np.abs(given).sum())
    b, given = b / unit, given / unit

    def doubtful(w: F64) -> float:
        return quadratic_objective(K, b, w) + ROUNDING_RATIO * float(np.abs(w).sum()) ** 2

    best, least, worse = given, doubtful(given), 0
    for ridge in RIDGES:
        try:
            w = cho_solve(cho_factor(K + ridge * np.eye(len(K)), lower=True), b)
        except LinAlgError:  # pragma: no cover - ridges above rounding are definite
            break
        value = doubtful(w) if np.isfinite(w).all() else np.inf
        worse = 0 if value < least else worse + 1
        if value < least:
            best, least = w, value
        elif worse > 2:
            break
    return np.asarray(best * unit)


METHODS = ("swap", "halving", "stratified", "random", "every")
MAX_CANDIDATES = 2**14  # points that swaps and halving choose from; of more, one of each region
N_GLOBAL_CANDIDATES = 256  # candidates from everywhere, beside those of a point's own region
N_SWAP_ROUNDS = 2  # rounds of swaps: each point may be replaced once in a round
MAX_GRID_FEATURES = 1024  # features of a point from a Fourier grid, at most
N_RANDOM_FEATURES = 1024  # random features of a point, where no grid is good enough
TRUNCATION_RATIO = 0.01  # weight of the frequencies that a grid may leave out, times the size of the coreset
MAX_GRID_ERROR = 1e-2  # error of the kernel by a grid: one with more is not used
MAX_EXACT_POINTS = 30_000  # points whose distance is found exactly where that takes all pairs
MEDIAN_SAMPLE_SIZE = 1024  # points that the median distance is taken of
N_DISTANCE_FEATURES = 4096  # random features that distances are estimated by
MAX_KERNEL_ROUNDING = 1e-2  # of the kernel of two points by random features


class CoresetParams(NamedTuple):
    """What a coreset shall be: how many points, near by which kernel, chosen by which method from which seed."""

    size: int
    sigma: float
    method: str
    seed: int
    kernel: str = "gaussian"


def check_size(size: int, n: int) -> None:
    """Refuse to choose more points than there are."""
    if size > n:
        raise ValueError(f"size must be at most the number of points, {n}; found {size}")


def check_every_method(method: str, d: int) -> None:
    """Refuse the method that needs an order of the points, where there is none."""
    if method == "every" and d != 1:
        raise ValueError(f"method='every' is for points of one dimension; found {d}")


def check_float32_range(**values: float) -> None:
    """Refuse units in which features, float32, cannot be computed; 0 may be, where all points are equal."""
    for name, value in values.items():
        if value != 0 and not LEAST <= value <= MOST:
            what, units = name.replace("_", " "), "the weights" if "weight" in name else "points and sigma"
            raise ValueError(
                f"the {what} is {value:.3g}, beyond {LEAST:g} to {MOST:g} that coresets are found for: change the "
                f"units of {units}"
            )


def distance_feature_params(centre: F64, widths: F64, choice: CoresetParams) -> RandomMeanSpec:
    """Features that a choice has not seen, which estimate distances of points in a box.

    ValueError for a bandwidth that they, float32, cannot tell from a smaller one.
    """
    sigma, highest = choice.sigma, 0.0 if choice.kernel == "gaussian" else MAX_FREQUENCY
    turns = (len(widths) + 1) * highest * float(widths.max()) / (2 * np.pi * sigma)
    if float32_error(widths, sigma) > MAX_KERNEL_ROUNDING or turns > MAX_HALF_TURNS:
        raise ValueError(
            f"sigma={sigma:.3g} is too small for points {widths.max():.3g} wide, whose distance is estimated by "
            "features in float32: give a larger one, or drop outliers"
        )
    centres = tuple(centre.tolist())
    return RandomMeanSpec(
        centres, (sigma,), N_DISTANCE_FEATURES, "orthogonal", choice.seed + 1, kernel=choice.kernel
    )


def check_kernel(kernel: str) -> str:
    """The kernel's name; those without frequencies are refused."""
    if is_word(kernel, "energy"):
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, names_with('sample_frequencies')))}, whose frequencies "
            "choose coresets; found 'energy', which has none: use 'matern12' with a sigma of three times the width of "
            "the points, whose D^2 times sigma is that of 'energy' within 1 %"
        )
    return str(one_of("kernel", kernel, names_with("sample_frequencies")))


def check_sigma(sigma: float | str) -> float | None:
    """The bandwidth that is given; None for the median distance."""
    if not isinstance(sigma, str):
        return positive("sigma", sigma)
    one_of("sigma", sigma, ("median",))
    return None


def median_sigma(points: F32 | F64) -> float:
    """The median distance of points, to seven digits; ValueError if it is zero."""
    found = round_to_float32(median_distance(points))
    if not found > 0:
        raise ValueError("sigma='median' is zero, for most points are equal: give a positive number")
    return found


def choose_points(x: F32, p: F64, choice: CoresetParams) -> tuple[I64, F64]:
    """(indices, weights) of the points that stand for points x (n, d) with weights p.

    Points that weigh as much as the others do for a place stand for themselves; the others have equal weights.
    """
    counted = np.flatnonzero(p > 0)
    if choice.size >= len(counted):
        return counted, p[counted]
    heavy = counted[certain_points(p[counted], choice.size)]
    light = np.setdiff1d(counted, heavy, assume_unique=True)
    n, W = choice.size - len(heavy), float(p.sum() if len(heavy) == 0 else p[light].sum())
    chosen = _choose_light(x[light], p[light], choice._replace(size=n))
    return np.concatenate([heavy, light[chosen]]), np.concatenate([p[heavy], np.full(n, W / n)])


def _choose_light(y: F32, share: F64, choice: CoresetParams) -> I64:
    """Positions of points that stand for all with equal weights, each more than any of theirs."""
    size, method, rng = choice.size, choice.method, np.random.default_rng([choice.seed, RngStream.CORESET])
    equal = bool(share.min() == share.max())
    if method == "random" and equal:
        return np.sort(rng.choice(len(y), size, replace=False, p=share / share.sum()))
    if method == "random":
        order = rng.permutation(len(y))
        return np.sort(order[sample_pivotal(share[order], size, rng.random(len(y)))])
    if method == "every":
        order = np.argsort(y[:, 0], kind="stable")
        return np.asarray(order[sample_strata(share[order], size, np.full(size, 0.5))])
    order = spatial_order(y, max(1, len(y) // max(MAX_CANDIDATES, size)))
    if method == "stratified":
        return np.asarray(order[sample_regions(share[order], equal, size, rng)])
    base, weight = _candidates(order, share[order], equal, choice, rng)
    low, high = column_bounds(y.astype(np.float64))
    embedding = materialize_params(point_feature_params(low, high, choice))
    phi, mean = embedding.embed_points(y[base]), _mean_features(embedding, y, share)
    return np.asarray(base[choose_from_candidates(phi, weight, equal, mean, choice, rng)])


def _candidates(
    order: I64, share: F64, equal: bool, choice: CoresetParams, rng: np.random.Generator
) -> tuple[I64, F64]:
    """(positions, weights) of what halving or swaps choose from: of points in order, one of each small region."""
    n, most = len(order), max(MAX_CANDIDATES, choice.size)
    if not equal:
        places, weight = sample_weighted(share, most, rng.random(n))
        return order[places], weight
    n_base = halving_start_size(choice.size, n) if choice.method == "halving" else min(n, most)
    if n_base == n:
        return order, share
    return order[sample_strata(share, n_base, rng.random(n_base))], np.ones(n_base)


def sample_regions(share: F64, equal: bool, size: int, rng: np.random.Generator) -> I64:
    """Positions of one point of each region of a spatial order, with probabilities by weight."""
    if equal:
        return sample_strata(share, size, rng.random(size))
    return sample_pivotal(share, size, rng.random(len(share)))


def halving_start_size(size: int, n: int) -> int:
    """The size doubled as often as `MAX_CANDIDATES` and n points allow: where halving begins."""
    return size << max(0, int(np.log2(min(MAX_CANDIDATES, n) / size))) if size < MAX_CANDIDATES else size


def choose_from_candidates(
    phi: F32, weight: F64, equal: bool, mean: F64, choice: CoresetParams, rng: np.random.Generator
) -> I64:
    """Positions that halving or swaps keep of a base in spatial order: its features, weights, and the mean of all.

    ``equal``: every point that the base stands for weighs the same.
    """
    size = choice.size
    if choice.method == "halving" and not equal:  # what is drawn keeps to the law, so the nearer of both does
        sampled = sample_regions(weight, equal, size, rng)
        return min(
            halve_unequal(phi, weight, size), sampled, key=lambda some: _squared_deviation(phi[some], mean)
        )
    if choice.method == "halving":
        kept = np.arange(len(phi))
        while len(kept) > size:
            kept = halve(phi, kept, bool(rng.random() < 0.5))
        return kept
    chosen = sample_regions(weight, equal, size, rng)
    ends = np.searchsorted(np.cumsum(weight) / weight.sum(), np.arange(size + 1) / size).astype(np.int64)
    target = (size * mean).astype(np.float32)
    squares = np.einsum("ij,ij->i", phi, phi)
    for _ in range(N_SWAP_ROUNDS):
        pool = rng.choice(len(phi), min(N_GLOBAL_CANDIDATES, len(phi)), replace=False)
        swap(phi, squares, target, chosen, rng.permutation(size), pool, ends)
    return chosen


def _squared_deviation(phi: F32, mean: F64) -> float:
    """How far features of some points are from the mean of all: squared."""
    apart = phi.mean(axis=0, dtype=np.float64) - mean
    return float(apart @ apart)


def point_feature_params(low: F64, high: F64, choice: CoresetParams) -> GridMeanSpec | RandomMeanSpec:
    """Features of points in a box, for a choice of some of them.

    Swaps bring D^2 to a few W^2 / size^2; frequencies that are left out add some W^2 / size times their weight.
    """
    if len(low) <= MAX_GRID_DIMS and choice.kernel == "gaussian":
        grid = fourier_grid(
            high - low, choice.sigma, min(MAX_GRID_ERROR, TRUNCATION_RATIO / choice.size), MAX_GRID_FEATURES
        )
        if grid.error <= MAX_GRID_ERROR:
            domain = Domain(tuple(low.tolist()), tuple(high.tolist()), fixed=False)
            return GridMeanSpec(domain, (choice.sigma,), (grid.periods,), (grid.cutoff,), grid.n_features)
    centre = tuple(((low + high) / 2).tolist())
    return RandomMeanSpec(
        centre, (choice.sigma,), N_RANDOM_FEATURES, "orthogonal", choice.seed, kernel=choice.kernel
    )


def _mean_features(embedding: EmbeddingParameters, y: F32, share: F64) -> F64:
    row = embedding.embed(SampleSets(y, [0, len(y)], share / share.mean()))[0]
    return np.asarray(row, np.float64)


def optimize_coreset_weights(x: F64, p: F64, indices: I64, weights: F64, choice: CoresetParams) -> F64:
    """The signed weights of points that bring them nearest to all, by exact sums; never farther than those given."""
    few, sigma, kernel = x[indices], choice.sigma, choice.kernel
    overlaps = sums(scaled(few, sigma, kernel), scaled(x, sigma, kernel), p[:, None], kernel)[:, 0]
    return optimize_weights(kernel_matrix(few, few, sigma, kernel), overlaps, weights)


def achieved_distance(x: F64, p: F64, indices: I64, weights: F64, choice: CoresetParams) -> float:
    """The kernel distance between points with weights p and some of them with other weights."""
    n, d = x.shape
    fast = d <= MAX_GRID_DIMS if choice.kernel == "gaussian" else get_kernel(choice.kernel).is_sorted(d)
    if fast or n <= MAX_EXACT_POINTS:
        eps, both = 1e-8 * float(p.sum()) ** 2, (p, weights)
        return kernel_distance(x, x[indices], sigma=choice.sigma, weights=both, eps=eps, kernel=choice.kernel)
    low, high = column_bounds(x)
    points = x.astype(np.float32)
    centre = np.sum(column_bounds(points.astype(np.float64)), axis=0) / 2
    unseen = materialize_params(distance_feature_params(centre, high - low, choice))
    few = unseen.embed_points(points[indices]).astype(np.float64)
    apart = p.sum() * _mean_features(unseen, points, p) - weights @ few
    return float(np.sqrt((apart**2).sum()))
