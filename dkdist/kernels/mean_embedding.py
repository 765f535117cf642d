"""`MeanEmbedding`: sample sets to rows whose squared distances are MMD^2, the squared kernel distance.

    points --frequencies--> weighted means of sines and cosines --roots of weights--> row of features

Frequencies are random (any dimension, points anywhere), or a deterministic grid (points in a box of up to three
dimensions), whose kernel has a certified error. For several bandwidths the features are concatenated, and the kernel is
the mean of their kernels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.embedding import SetEmbedding
from dkdist._base.influence import LinearInfluence
from dkdist._base.inputs import DataSummary, Sets, check_sets, sample_points
from dkdist._base.parameter_checks import (
    draw_seed,
    median_seed,
    one_of,
    round_to_float32,
    whole,
    within_float32,
)
from dkdist._base.params import Domain, FittedParams, Params
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import median_distance
from dkdist._numba.arrays import F32, F64
from dkdist._numba.points import TILE_POINTS
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import find_stacklevel
from dkdist.kernels._grid_sums_numba import Products, add_grid_sums, grid_sums, grid_values, weight_fractions
from dkdist.kernels._random_numba import (
    LANES_PER_GROUP,
    add_mean_features,
    float32_error,
    mean_features,
    waves_of,
)
from dkdist.kernels._tuning import (
    DOMAIN_MARGIN_RATIO,
    GRID_ROUNDING,
    MAX_AUTO_GRID_ERROR,
    MAX_BOX_TO_BALL_RATIO,
    MIN_GRID_ERROR,
    SET_BATCH_SIZE,
    WARN_KERNEL_ERROR,
)
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, FourierGrid, fourier_grid, grid_layout
from dkdist.kernels.registry import NORMAL_SAMPLERS, get_kernel, most_accurate_sampler, names_with
from dkdist.sets import SampleSets


@serializable("RandomMeanSpec")
@dataclass(frozen=True)
class RandomMeanSpec(Params["RandomMeanParameters"]):
    """Parameters of a mean embedding with random frequencies; ``centre`` is the origin of the phases."""

    _kept = 8

    centre: tuple[float, ...]
    sigmas: tuple[float, ...]
    n_components: int
    method: str
    seed: int
    domain: None = None
    kernel: str = "gaussian"

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def n_features(self) -> int:
        """Length of a row: half sines, half cosines."""
        return self.n_components

    def _build(self) -> RandomMeanParameters:
        return RandomMeanParameters(self)


class RandomMeanParameters(LinearInfluence, FittedParams[RandomMeanSpec]):
    """Materialized frequencies of a `RandomMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: RandomMeanSpec) -> None:
        self.spec = spec
        rng = np.random.default_rng([spec.seed, RngStream.MEAN_FREQUENCIES])
        count, draw = spec.n_components // (2 * len(spec.sigmas)), NORMAL_SAMPLERS[spec.method]
        frequencies = get_kernel(spec.kernel).frequencies
        W = [frequencies(rng, draw(rng, count, spec.n_dims)) / sigma for sigma in spec.sigmas]
        self._waves = waves_of(np.concatenate(W), np.array(spec.centre))

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the embedding: (n_sets, n_components) float32, sines then cosines."""
        out = np.empty((len(sets), self.spec.n_components), np.float32)
        mean_features(sets.relative, sets.offsets, sets.weights, self._waves, out)
        return out

    def row_sum(self, n_points: int, weight: float) -> RowAccumulator:
        """Return an accumulator of the row (n_components,) of one set in pieces, with the bits of the whole set."""
        sums, F = np.zeros((2, len(self._waves.half_turns), LANES_PER_GROUP)), self.spec.n_components // 2

        def add_tile(points: F32, weights: F32 | None) -> None:
            add_mean_features(points, weights, weight / n_points, self._waves, sums)

        return RowAccumulator(add_tile, lambda: 1 / (np.sqrt(F) * n_points) * sums.reshape(2, -1)[:, :F])

    def embed_points(self, points: F32) -> F32:
        """Return rows of single points (n, d): (n, n_components) float32."""
        return self.embed(SampleSets(points, np.arange(len(points) + 1)))


@serializable("GridMeanSpec")
@dataclass(frozen=True)
class GridMeanSpec(Params["GridMeanParameters"]):
    """Parameters of a mean embedding with one Fourier grid, given by periods and cut-off, for each bandwidth.

    Points outside the domain are clipped to its boundary, because grids are periodic.
    """

    _kept = 8

    domain: Domain
    sigmas: tuple[float, ...]
    periods: tuple[tuple[float, ...], ...]
    cutoffs: tuple[float, ...]
    n_features: int

    def __post_init__(self) -> None:
        if not len(self.sigmas) == len(self.periods) == len(self.cutoffs):
            raise ValueError(f"sigmas, periods and cutoffs must have the same length; got {self}.")
        n_box_functions = sum(
            math.prod(2 * (cutoff * length / (2 * math.pi)) + 1 for length in periods)
            for periods, cutoff in zip(self.periods, self.cutoffs, strict=True)
        )
        if not n_box_functions <= MAX_BOX_TO_BALL_RATIO * (self.n_features + 1):
            raise ValueError(
                f"n_features must be at least {n_box_functions / MAX_BOX_TO_BALL_RATIO - 1:.3g} for these grids; got "
                f"{self.n_features}."
            )

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    def _build(self) -> GridMeanParameters:
        return GridMeanParameters(self)


class GridMeanParameters(LinearInfluence, FittedParams[GridMeanSpec]):
    """Materialized grids of a `GridMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GridMeanSpec) -> None:
        self.spec = spec
        self._grids, n = list[tuple[Products, F64]](), len(spec.sigmas)
        for periods, cutoff, sigma in zip(spec.periods, spec.cutoffs, spec.sigmas, strict=True):
            layout = grid_layout(periods, cutoff, sigma)
            products = Products(*spec.domain.arrays, np.array(periods), layout.lengths)
            self._grids.append((products, layout.scales / np.sqrt(n)))
        self._scales = np.concatenate([scales for _, scales in self._grids])

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the embedding: (n_sets, n_features) float32. Points outside the domain are clipped."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        weights, factors = weight_fractions(sets.weights, sets.offsets)
        for start in range(0, len(sets), SET_BATCH_SIZE):
            batch = slice(start, start + SET_BATCH_SIZE)
            arrays = sets.relative, spans[batch], weights, factors[batch]
            sums = [grid_sums(*arrays, products)[:, 0] for products, _ in self._grids]
            out[batch] = np.concatenate(sums, axis=1) * self._scales
        return out

    def row_sum(self, n_points: int, weight: float) -> RowAccumulator:
        """Return an accumulator of the row (n_features,) of one set in pieces, with the bits of the whole set."""
        unit, sums = 1 / weight * n_points, [np.zeros(len(scales)) for _, scales in self._grids]

        def add_tile(points: F32, weights: F32 | None) -> None:
            for (products, _), total in zip(self._grids, sums, strict=True):
                add_grid_sums(points, weights, unit, products, total[None])

        return RowAccumulator(add_tile, lambda: np.concatenate(sums) / n_points * self._scales)

    def embed_points(self, points: F32) -> F32:
        """Return rows of single points (n, d): (n, n_features) float32, without a tile for each point."""
        values = [grid_values(points, products, scales) for products, scales in self._grids]
        return np.concatenate(values, axis=1) if len(values) > 1 else values[0]


class RowAccumulator:
    """Row of a set that is read in pieces: ``add_tile`` receives whole tiles of points, ``finish`` returns the row."""

    def __init__(self, add_tile: Callable[[F32, F32 | None], None], finish: Callable[[], F64]) -> None:
        from dkdist._base.params import CutPieces  # imported lazily: only oversized sets need it

        self._pieces, self._finish = CutPieces(TILE_POINTS, add_tile), finish

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""
        self._pieces.add(points, weights)

    def row(self) -> F32:
        """Return the row (m,) after the last piece."""
        self._pieces.end()
        return np.asarray(self._finish().reshape(-1), np.float32)


METHODS = ("auto", "fourier", *NORMAL_SAMPLERS)


class MeanEmbedding(SetEmbedding):
    """Embed sample sets so that inner products are mean kernels and squared distances MMD^2.

    The kernel is k(x, y) = exp(-|x - y|^2 / (2 sigma^2)) by default, on unscaled points. For sets p, q with weights
    normalised to sum to one,

        row_p . row_q ~ sum_ij p_i q_j k(x_i, y_j),   |row_p - row_q|^2 ~ MMD^2(p, q),

    the biased (V-statistic) maximum mean discrepancy; its root is the kernel distance.

    Parameters
    ----------
    n_components : int, default=1000
        Number of features; must be even: half sines and half cosines of the same frequencies. With method="fourier"
        the maximal number, even or odd.
    sigma : float, sequence of floats or "median", default="median"
        Standard deviation of the kernel. "median" is the median distance between 1,024 random points of at most 256
        sets. For a sequence, the kernel is the mean over the bandwidths, each with an equal number of features.
    method : {"auto", "fourier", "orthogonal", "sobol", "iid"}, default="auto"
        "fourier" (d <= 3): deterministic grid of frequencies with a certified error, see `error_bound_`. It has the
        fewest features with an error of 1e-7, or the smallest error with n_components features. "orthogonal", "sobol"
        (quasi-random, best in low dimensions) and "iid": random frequencies in any dimension. "auto" selects "fourier"
        if its error is at most 1e-2, else "sobol" up to 16 dimensions and "orthogonal" above.
    random_state : int, Generator or None, default=None
        Seed of the random frequencies; "fourier" uses none.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of invalid sets, as in `DivergenceEmbedding`.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with random frequencies: all but "energy" and "epanechnikov".
        Only the Gaussian kernel supports method="fourier".

    Attributes
    ----------
    sigma_ : float, or (n_sigmas,) array
        Fitted bandwidth.
    error_bound_ : float or None
        With "fourier", a bound of |row_x . row_y - k(x, y)| for all points x, y within the bounds of the data of `fit`
        plus 5 % of their width on each side; 1e-6 of it covers rounding to float32. It also bounds the error of every
        mean kernel; MMD^2 is off by at most 4 times as much. None for random frequencies.
    spec_ : GridMeanSpec or RandomMeanSpec
        Fitted parameters, in plain numbers; frequencies are drawn from it where they are needed.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, different numbers of dimensions, negative weights (with the index of
        the set), or if all sets are skipped.
    StoreFormatError
        For a set that cannot be read, with its index.
    ValueError
        For an unknown method, "fourier" in more than three dimensions, n_components that cannot be divided among the
        bandwidths, a sigma outside 1e-30 to 1e30, or equal points with sigma="median".

    Notes
    -----
    A `SetStore` gives a lazy Dask array with known chunks; anything else an ndarray. Rows are float32. A row depends on
    its set alone, bit for bit on the same CPU type. A stored set above 32 MiB is read in pieces of 4 MiB, twice if it
    has weights. `fit` reads the data once, and some points for the median. "fourier" clips points outside its box, with
    a warning that counts them. Random frequencies accept points anywhere; `fit` warns if they are some million sigmas
    apart, where float32 phases have no digits left.

    A kernel value of random frequencies has a standard deviation of at most 1 / sqrt(n_components). Time per point at
    1,000 features in the plane on one core: about 0.2 us for random frequencies, 0.04 us for the grid.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance
    (2011). Gretton et al.: A kernel two-sample test (2012). Rahimi, Recht: Random features for large-scale kernel
    machines (2007).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(i % 2, 1, size=(100, 2)) for i in range(6)]
    >>> embedding = dk.MeanEmbedding(sigma=1.0)
    >>> rows = embedding.fit_transform(sets)
    >>> rows.dtype, embedding.error_bound_ < 1e-4
    (dtype('float32'), True)
    >>> mmd2 = ((rows[0] - rows[1:3]) ** 2).sum(axis=1)  # to a set with another mean, and with the same
    >>> bool(mmd2[0] > 5 * mmd2[1])
    True
    """

    _label = "mean_embedding"

    def __init__(
        self,
        n_components: int = 1000,
        sigma: float | Sequence[float] | str = "median",
        method: str = "auto",
        random_state: Any = None,
        on_error: str = "raise",
        kernel: str = "gaussian",
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.method = method
        self.random_state = random_state
        self.on_error = on_error
        self.kernel = kernel

    def fit(self, X: Any, y: Any = None) -> MeanEmbedding:
        """Choose sigma and frequencies from the sets X in one pass over the data; ``y`` is ignored."""
        method = one_of("method", self.method, METHODS)
        kernel = one_of("kernel", self.kernel, names_with("sample_frequencies"))
        if method == "fourier" and kernel != "gaussian":
            raise ValueError(f"method='fourier' requires kernel='gaussian'; got {kernel!r}. Use 'auto'.")
        fixed_sigmas = self._fixed_sigmas()
        n_per_sigma = self._components_per_sigma(method, 1 if fixed_sigmas is None else len(fixed_sigmas))
        median, seed = median_seed(self.random_state), draw_seed(self.random_state)
        sets = check_sets(X)
        if method == "fourier" and sets.n_dims > MAX_GRID_DIMS:
            raise ValueError(
                f"method='fourier' requires points of at most {MAX_GRID_DIMS} dimensions; got {sets.n_dims}. Use "
                "'orthogonal' or 'sobol', or reduce the dimension of the points."
            )
        summary = self._look(sets, None)
        sigmas = fixed_sigmas or (_median_sigma(sets, summary, median),)
        grids = []
        if method in ("auto", "fourier") and kernel == "gaussian" and sets.n_dims <= MAX_GRID_DIMS:
            domain = _domain_with_margin(summary)
            low, high = (side.astype(np.float64) for side in domain.arrays)
            grids = [fourier_grid(high - low, sigma, MIN_GRID_ERROR, n_per_sigma) for sigma in sigmas]
        error = float(np.mean([grid.error for grid in grids])) if grids else np.inf
        self.error_bound_: float | None = None
        if method == "fourier" or error <= MAX_AUTO_GRID_ERROR:
            self.spec_ = _grid_params(domain, sigmas, grids)
            self.error_bound_ = round_to_float32(error + GRID_ROUNDING)
            _warn_if_inaccurate(error, self.n_components)
        else:
            _warn_if_unresolved(summary, min(sigmas))
            centre = tuple(map(float, (summary.low.astype(np.float64) + summary.high) / 2))
            sampler = most_accurate_sampler(sets.n_dims) if method == "auto" else method
            self.spec_ = RandomMeanSpec(
                centre, sigmas, n_per_sigma * len(sigmas), sampler, seed, kernel=kernel
            )
        self.sigma_ = sigmas[0] if len(sigmas) == 1 else np.array(sigmas)
        return self

    def _fixed_sigmas(self) -> tuple[float, ...] | None:
        if isinstance(self.sigma, str):
            one_of("sigma", self.sigma, ("median",))
            return None
        values = tuple(
            round_to_float32(within_float32("sigma", value)) for value in np.ravel(np.asarray(self.sigma))
        )
        if not values:
            raise ValueError(
                "sigma must be a positive number, a sequence of them or 'median'; got an empty sequence."
            )
        return values

    def _components_per_sigma(self, method: str, n_sigmas: int) -> int:
        n = whole("n_components", self.n_components, least=2)
        unit = n_sigmas if method == "fourier" else 2 * n_sigmas
        if method != "fourier" and n % unit:
            suffix = f" for each of {n_sigmas} bandwidths" if n_sigmas > 1 else ""
            raise ValueError(
                f"n_components must be even, half sines and half cosines{suffix}; got {n}. Use {n + -n % unit}."
            )
        if n < n_sigmas:
            raise ValueError(f"n_components must be at least 1 for each of {n_sigmas} bandwidths; got {n}.")
        return n // n_sigmas


def _median_sigma(sets: Sets, summary: DataSummary, seed: int) -> float:
    points = sample_points(sets, summary.bad, seed)
    with one_blas_thread():  # BLAS threads deadlock if another thread forks this process
        sigma = median_distance(points)
    if sigma == 0:
        raise ValueError(
            f"sigma='median' requires distinct points, but the {len(points)} sampled points are equal. Pass a number "
            "as sigma."
        )
    return round_to_float32(within_float32("sigma='median'", sigma))


def _domain_with_margin(summary: DataSummary) -> Domain:
    """Return the bounds of the data with a margin for new points, because a grid is periodic."""
    low, high = summary.low.astype(np.float64), summary.high.astype(np.float64)
    margin, limit = DOMAIN_MARGIN_RATIO * (high - low), float(np.finfo(np.float32).max)
    boundary = [np.clip(side, -limit, limit).astype(np.float32) for side in (low - margin, high + margin)]
    return Domain(tuple(map(float, boundary[0])), tuple(map(float, boundary[1])), fixed=False)


def _grid_params(domain: Domain, sigmas: tuple[float, ...], grids: list[FourierGrid]) -> GridMeanSpec:
    periods, cutoffs = tuple(grid.periods for grid in grids), tuple(grid.cutoff for grid in grids)
    return GridMeanSpec(domain, sigmas, periods, cutoffs, sum(grid.n_features for grid in grids))


def _warn_if_inaccurate(error: float, n_components: int) -> None:
    if error > WARN_KERNEL_ERROR:
        warnings.warn(
            f"the kernel error of method='fourier' is up to {error:.2g} (of at most 1) for n_components="
            f"{n_components}. Increase n_components or sigma, or pass method='orthogonal'.",
            stacklevel=find_stacklevel(),
        )


def _warn_if_unresolved(summary: DataSummary, sigma: float) -> None:
    widths = summary.high.astype(np.float64) - summary.low
    error = float32_error(widths, sigma)
    if error > WARN_KERNEL_ERROR:
        warnings.warn(
            f"sigma={sigma:.3g} is too small for points {widths.max():.3g} wide: rounding to float32 changes the "
            f"kernel by up to {min(error, 1):.2g} (of at most 1). Increase sigma or drop outliers.",
            stacklevel=find_stacklevel(),
        )
