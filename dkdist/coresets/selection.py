"""Selection of coreset points from their features, and optimal weights, for `coreset` and `CoresetThinning`.

Optimal weights w minimise the squared kernel distance, a least-squares problem in the space of the kernel:

    D^2(w) = kappa(P, P) - 2 w.b + w.K w,   K_jl = k(s_j, s_l),   b_j = sum_i p_i k(x_i, s_j)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dkdist._base.parameter_checks import (
    MAX_SCALE,
    MIN_SCALE,
    check_choice,
    check_positive,
    round_to_float32,
)
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
from dkdist.coresets._tuning import (
    MAX_CANDIDATES,
    MAX_EXACT_POINTS,
    MAX_GRID_ERROR,
    MAX_GRID_FEATURES,
    MAX_KERNEL_ROUNDING,
    N_DISTANCE_FEATURES,
    N_GLOBAL_CANDIDATES,
    N_RANDOM_FEATURES,
    N_SWAP_ROUNDS,
    TRUNCATION_RATIO,
)
from dkdist.kernels._random_numba import MAX_HALF_TURNS, float32_error
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, fourier_grid
from dkdist.kernels.kernel_distance import kernel_distance
from dkdist.kernels.kernel_sums import summed_matrix, summed_sums
from dkdist.kernels.mean_embedding_params import GridMeanSpec, RandomMeanSpec
from dkdist.kernels.registry import MAX_FREQUENCY, get_kernel, require_frequencies
from dkdist.sets import SampleSets

RIDGES = 10.0 ** -np.arange(2, 15)
ROUNDING_RATIO = 1e-14  # rounding error of D^2 / (sum |w|)^2 (tests/kernel/test_certified_coresets.py)


def quadratic_objective(K: F64, b: F64, w: F64) -> float:
    """Return D^2(w) - kappa(P, P)."""
    return float(w @ (K @ w - 2 * b))


def optimize_weights(K: F64, b: F64, initial: F64) -> F64:
    """Return signed weights (m,) that minimise the distance to the set, or ``initial`` if these are better.

    K is numerically singular where points are close, so w solves (K + ridge I) w = b for decreasing ridges. The best w
    minimises D^2 plus its rounding error, because large weights of opposite signs add rounding errors.
    Cost: m^3 / 3 multiply-adds for each of up to 13 ridges.
    """
    unit = float(np.abs(initial).sum())
    b, initial = b / unit, initial / unit

    def upper_bound(w: F64) -> float:
        return quadratic_objective(K, b, w) + ROUNDING_RATIO * float(np.abs(w).sum()) ** 2

    best, min_value, n_worse = initial, upper_bound(initial), 0
    for ridge in RIDGES:
        try:
            w = cho_solve(cho_factor(K + ridge * np.eye(len(K)), lower=True), b)
        except LinAlgError:  # pragma: no cover - ridges above the rounding error are definite
            break
        value = upper_bound(w) if np.isfinite(w).all() else np.inf
        n_worse = 0 if value < min_value else n_worse + 1
        if value < min_value:
            best, min_value = w, value
        elif n_worse > 2:
            break
    return np.asarray(best * unit)


METHODS = ("swap", "halving", "stratified", "random", "every")


class CoresetParams(NamedTuple):
    """Parameters of a coreset: number of points, kernel, bandwidths (their kernels are added), method and seed."""

    size: int
    sigmas: tuple[float, ...]
    method: str
    seed: int
    kernel: str = "gaussian"


def check_size(size: int, n: int) -> None:
    """Require at most as many coreset points as points."""
    if size > n:
        raise ValueError(f"size must be at most the number of points, {n}; got {size}.")


def check_dims(method: str, kernel: str, d: int) -> None:
    """Require one dimension for method="every", which needs an order of the points, and frequencies of the kernel."""
    require_frequencies(kernel, d)
    if method == "every" and d != 1:
        raise ValueError(f"method='every' requires points of one dimension; got {d}.")


def check_float32_range(**values: float) -> None:
    """Require a value within the range of float32 features, or 0 (for equal points)."""
    for name, value in values.items():
        if value != 0 and not MIN_SCALE <= value <= MAX_SCALE:
            quantity, units = (
                name.replace("_", " "),
                "the weights" if "weight" in name else "points and sigma",
            )
            raise ValueError(
                f"{quantity} must be from {MIN_SCALE:g} to {MAX_SCALE:g} for coresets; got {value:.3g}. "
                f"Rescale {units}."
            )


def check_bandwidths(sigmas: tuple[float, ...]) -> None:
    """Require bandwidths within the range of float32 features."""
    for sigma in sigmas:
        check_float32_range(bandwidth_sigma=sigma)


def distance_feature_params(centre: F64, widths: F64, params: CoresetParams) -> RandomMeanSpec:
    """Return parameters of random features that estimate distances, independent of the features of the selection.

    Raises ValueError if the bandwidth is too small for float32 phases.
    """
    sigma, highest = min(params.sigmas), 0.0 if params.kernel == "gaussian" else MAX_FREQUENCY
    turns = (len(widths) + 1) * highest * float(widths.max()) / (2 * np.pi * sigma)
    if float32_error(widths, sigma) > MAX_KERNEL_ROUNDING or turns > MAX_HALF_TURNS:
        raise ValueError(
            f"sigma={sigma:.3g} is too small for points {widths.max():.3g} wide: float32 features cannot estimate the "
            "distance. Increase sigma or drop outliers."
        )
    centres = tuple(centre.tolist())
    return _random_params(centres, N_DISTANCE_FEATURES, params.seed + 1, params)


def _random_params(centre: tuple[float, ...], size: int, seed: int, params: CoresetParams) -> RandomMeanSpec:
    """Return parameters of up to ``size`` random features, equally many for each bandwidth."""
    unit = 2 * len(params.sigmas)
    n_components = size // unit * unit
    return RandomMeanSpec(centre, params.sigmas, n_components, "orthogonal", seed, kernel=params.kernel)


def check_sigma(sigma: Any) -> tuple[float, ...] | None:
    """Return the bandwidths, or None for the median distance."""
    if isinstance(sigma, str):
        check_choice("sigma", sigma, ("median",))
        return None
    if not isinstance(sigma, (list, tuple, np.ndarray)) or np.ndim(sigma) == 0:
        return (check_positive("sigma", sigma),)
    if np.ndim(sigma) != 1 or len(sigma) == 0:
        raise ValueError(
            "sigma must be a positive number, a sequence of them (their kernels are added) or 'median'; got an array "
            f"of shape {np.shape(sigma)}."
        )
    max_sigmas = min(N_RANDOM_FEATURES, N_DISTANCE_FEATURES) // 2  # each has a pair of random features
    if len(sigma) > max_sigmas:
        raise ValueError(f"sigma must be at most {max_sigmas} bandwidths; got {len(sigma)}.")
    return tuple(check_positive("sigma", value) for value in np.asarray(sigma).tolist())


def public_sigma(sigmas: tuple[float, ...]) -> float | tuple[float, ...]:
    """Return one bandwidth as a number."""
    return sigmas[0] if len(sigmas) == 1 else sigmas


def median_sigma(points: F32 | F64) -> float:
    """Return the median distance of points, rounded to float32; ValueError if it is zero."""
    sigma = round_to_float32(median_distance(points))
    if not sigma > 0:
        raise ValueError(
            "sigma='median' requires distinct points, but most points are equal. Pass a positive number."
        )
    return sigma


def choose_points(x: F32, p: F64, params: CoresetParams) -> tuple[I64, F64]:
    """Return (indices, weights) of a coreset of points x (n, d) with weights p.

    Points at least as heavy as the inclusion threshold keep their weight; all others have equal weights.
    """
    positive_rows = np.flatnonzero(p > 0)
    if params.size >= len(positive_rows):
        return positive_rows, p[positive_rows]
    heavy = positive_rows[certain_points(p[positive_rows], params.size)]
    light = np.setdiff1d(positive_rows, heavy, assume_unique=True)
    n, W = params.size - len(heavy), float(p.sum() if len(heavy) == 0 else p[light].sum())
    if len(light) < len(x):  # otherwise all points in order: no copies
        x, p_light = x[light], p[light]
    else:
        p_light = p
    chosen = _choose_light(x, p_light, params._replace(size=n))
    return np.concatenate([heavy, light[chosen]]), np.concatenate([p[heavy], np.full(n, W / n)])


def _choose_light(y: F32, weights: F64, params: CoresetParams) -> I64:
    """Return positions of a coreset with equal weights, which exceed the weight of each point."""
    size, method, rng = params.size, params.method, np.random.default_rng([params.seed, RngStream.CORESET])
    equal = bool(weights.min() == weights.max())
    if method == "random" and equal:
        return np.sort(rng.choice(len(y), size, replace=False, p=weights / weights.sum()))
    if method == "random":
        order = rng.permutation(len(y))
        return np.sort(order[sample_pivotal(weights[order], size, rng.random(len(y)))])
    if method == "every":
        order = np.argsort(y[:, 0], kind="stable")
        return np.asarray(order[sample_strata(weights[order], size, np.full(size, 0.5))])
    order = spatial_order(y, max(1, len(y) // max(MAX_CANDIDATES, size)))
    if method == "stratified":
        return np.asarray(order[sample_regions(weights[order], equal, size, rng)])
    candidates, candidate_weights = _candidates(order, weights[order], equal, params, rng)
    del order
    low, high = (bound.astype(np.float64) for bound in column_bounds(y))
    embedding = materialize_params(point_feature_params(low, high, params))
    phi, mean = embedding.embed_points(y[candidates]), _mean_features(embedding, y, weights)
    return np.asarray(candidates[choose_from_candidates(phi, candidate_weights, equal, mean, params, rng)])


def _candidates(
    order: I64, weights: F64, equal: bool, params: CoresetParams, rng: np.random.Generator
) -> tuple[I64, F64]:
    """Return (positions, weights) of the candidates of halving or swaps: one point of each small region."""
    n, max_candidates = len(order), max(MAX_CANDIDATES, params.size)
    if not equal:
        places, candidate_weights = sample_weighted(weights, max_candidates, rng.random(n))
        return order[places], candidate_weights
    n_base = halving_start_size(params.size, n) if params.method == "halving" else min(n, max_candidates)
    if n_base == n:
        return order, weights
    return order[sample_strata(weights, n_base, rng.random(n_base))], np.ones(n_base)


def sample_regions(weights: F64, equal: bool, size: int, rng: np.random.Generator) -> I64:
    """Sample one position in each region of a spatial order, with probabilities proportional to weight."""
    if equal:
        return sample_strata(weights, size, rng.random(size))
    return sample_pivotal(weights, size, rng.random(len(weights)))


def halving_start_size(size: int, n: int) -> int:
    """Return ``size`` times the largest power of two within `MAX_CANDIDATES` and n points."""
    return size << max(0, int(np.log2(min(MAX_CANDIDATES, n) / size))) if size < MAX_CANDIDATES else size


def choose_from_candidates(
    phi: F32, weights: F64, equal: bool, mean: F64, params: CoresetParams, rng: np.random.Generator
) -> I64:
    """Choose positions among candidates in spatial order, by halving or swaps.

    ``phi`` and ``weights`` are features and weights of the candidates, ``mean`` the mean features of all points. With
    ``equal`` all points have the same weight.
    """
    size = params.size
    if (
        params.method == "halving" and not equal
    ):  # the sample satisfies the error bound, so the better of both does too
        sampled = sample_regions(weights, equal, size, rng)
        return min(
            halve_unequal(phi, weights, size), sampled, key=lambda rows: _squared_deviation(phi[rows], mean)
        )
    if params.method == "halving":
        remaining = np.arange(len(phi))
        while len(remaining) > size:
            remaining = halve(phi, remaining, bool(rng.random() < 0.5))
        return remaining
    chosen = sample_regions(weights, equal, size, rng)
    ends = np.searchsorted(np.cumsum(weights) / weights.sum(), np.arange(size + 1) / size).astype(np.int64)
    target = (size * mean).astype(np.float32)
    squares = np.einsum("ij,ij->i", phi, phi)
    for _ in range(N_SWAP_ROUNDS):
        pool = rng.choice(len(phi), min(N_GLOBAL_CANDIDATES, len(phi)), replace=False)
        swap(phi, squares, target, chosen, rng.permutation(size), pool, ends)
    return chosen


def _squared_deviation(phi: F32, mean: F64) -> float:
    """Return the squared distance of the mean of features ``phi`` to ``mean``."""
    difference = phi.mean(axis=0, dtype=np.float64) - mean
    return float(difference @ difference)


def point_feature_params(low: F64, high: F64, params: CoresetParams) -> GridMeanSpec | RandomMeanSpec:
    """Return parameters of the features for the selection of points in a box.

    Swaps reduce D^2 to a few W^2 / size^2; truncated frequencies add about W^2 / size times their weight.
    """
    if len(low) <= MAX_GRID_DIMS and params.kernel == "gaussian":
        max_features = max(1, MAX_GRID_FEATURES // len(params.sigmas))
        error = min(MAX_GRID_ERROR, TRUNCATION_RATIO / params.size)
        grids = [fourier_grid(high - low, sigma, error, max_features) for sigma in params.sigmas]
        if max(grid.error for grid in grids) <= MAX_GRID_ERROR:
            domain = Domain(tuple(low.tolist()), tuple(high.tolist()), fixed=False)
            periods, cutoffs = (
                tuple(getattr(grid, name) for grid in grids) for name in ("periods", "cutoff")
            )
            return GridMeanSpec(
                domain, params.sigmas, periods, cutoffs, sum(grid.n_features for grid in grids)
            )
    centre = tuple(((low + high) / 2).tolist())
    return _random_params(centre, N_RANDOM_FEATURES, params.seed, params)


def _mean_features(embedding: EmbeddingParameters, y: F32, weights: F64) -> F64:
    row = embedding.embed(SampleSets(y, [0, len(y)], weights / weights.mean()))[0]
    return np.asarray(row, np.float64)


def optimize_coreset_weights(x: F64, p: F64, indices: I64, weights: F64, params: CoresetParams) -> F64:
    """Return optimal signed weights of a coreset by exact sums, or ``weights`` if these are better."""
    points, sigmas, kernel = x[indices], params.sigmas, params.kernel
    overlaps = summed_sums(points, x, p, sigmas, kernel)
    return optimize_weights(summed_matrix(points, points, sigmas, kernel), overlaps, weights)


def achieved_distance(x: F64, p: F64, indices: I64, weights: F64, params: CoresetParams) -> float:
    """Return the kernel distance between points with weights p and a coreset of them, exact or estimated."""
    n, d = x.shape
    is_fast = d <= MAX_GRID_DIMS if params.kernel == "gaussian" else get_kernel(params.kernel).is_sorted(d)
    if is_fast or n <= MAX_EXACT_POINTS:
        eps, both = 1e-8 * float(p.sum()) ** 2, (p, weights)
        sigma = list(params.sigmas)
        return kernel_distance(x, x[indices], sigma=sigma, weights=both, eps=eps, kernel=params.kernel)
    low, high = column_bounds(x)
    points = x.astype(np.float32)
    centre = np.sum(column_bounds(points.astype(np.float64)), axis=0) / 2
    embedding = materialize_params(distance_feature_params(centre, high - low, params))
    features = embedding.embed_points(points[indices]).astype(np.float64)
    difference = p.sum() * _mean_features(embedding, points, p) - weights @ features
    # features approximate the mean of the kernels
    return float(np.sqrt(len(params.sigmas) * (difference**2).sum()))
