"""`MeanEmbedding`: sample sets to rows whose squared distances are MMD^2, the kernel distance.

Parameters of kernel mean embeddings: sample sets -> rows whose squared distances are MMD^2 (P3's kernel distance).

    points --frequencies--> weighted means of sines and cosines --roots of weights--> row of features

Two specifications: random frequencies, in any dimension, for points anywhere; and a deterministic grid of
frequencies, for points in a box of up to three dimensions, whose kernel has a certified error. Several bandwidths
have their features side by side: the kernel is the mean of theirs.
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
from dkdist._numba.points import TILE
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
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, FourierGrid, fourier_grid, grid_layout
from dkdist.kernels.registry import NORMAL_SAMPLERS, get_kernel, most_accurate_sampler, names_with
from dkdist.sets import SampleSets

SET_BATCH_SIZE = 64  # float64 sums of so many sets stay in the second-level cache
MAX_BOX_TO_BALL_RATIO = 16  # times the functions of a ball: as many as the box around it has, at most


@serializable("RandomMeanSpec")
@dataclass(frozen=True)
class RandomMeanSpec(Params["RandomMeanParameters"]):
    """A mean embedding by random frequencies; ``centre`` is where phases are counted from, and changes no distance."""

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
        """Length of a set's row: half sines, half cosines."""
        return self.n_components

    def _build(self) -> RandomMeanParameters:
        return RandomMeanParameters(self)


class RandomMeanParameters(LinearInfluence, FittedParams[RandomMeanSpec]):
    """Drawn frequencies of a `RandomMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: RandomMeanSpec) -> None:
        self.spec = spec
        rng = np.random.default_rng([spec.seed, RngStream.MEAN_FREQUENCIES])
        count, draw = spec.n_components // (2 * len(spec.sigmas)), NORMAL_SAMPLERS[spec.method]
        of_kernel = get_kernel(spec.kernel).frequencies
        W = [of_kernel(rng, draw(rng, count, spec.n_dims)) / sigma for sigma in spec.sigmas]
        self._waves = waves_of(np.concatenate(W), np.array(spec.centre))

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, n_components) float32, sines then cosines."""
        out = np.empty((len(sets), self.spec.n_components), np.float32)
        mean_features(sets.relative, sets.offsets, sets.weights, self._waves, out)
        return out

    def row_sum(self, n_points: int, weight: float) -> RowAccumulator:
        """The row (n_components,) of one set that comes in pieces: the same bits as of all at once."""
        sums, F = np.zeros((2, len(self._waves.half_turns), LANES_PER_GROUP)), self.spec.n_components // 2

        def take(points: F32, weights: F32 | None) -> None:
            add_mean_features(points, weights, weight / n_points, self._waves, sums)

        return RowAccumulator(take, lambda: 1 / (np.sqrt(F) * n_points) * sums.reshape(2, -1)[:, :F])

    def embed_points(self, points: F32) -> F32:
        """Rows of single points (n, d): (n, n_components) float32."""
        return self.embed(SampleSets(points, np.arange(len(points) + 1)))


@serializable("GridMeanSpec")
@dataclass(frozen=True)
class GridMeanSpec(Params["GridMeanParameters"]):
    """A mean embedding by one Fourier grid for each bandwidth: its periods and its cut-off.

    Points outside the domain count at its wall, for the grids repeat themselves beyond.
    """

    _kept = 8

    domain: Domain
    sigmas: tuple[float, ...]
    periods: tuple[tuple[float, ...], ...]
    cutoffs: tuple[float, ...]
    n_features: int

    def __post_init__(self) -> None:
        if not len(self.sigmas) == len(self.periods) == len(self.cutoffs):
            raise ValueError(f"a grid has a bandwidth, periods and a cut-off: found those of {self}")
        box = sum(
            math.prod(2 * (cutoff * length / (2 * math.pi)) + 1 for length in periods)
            for periods, cutoff in zip(self.periods, self.cutoffs, strict=True)
        )
        if not box <= MAX_BOX_TO_BALL_RATIO * (self.n_features + 1):
            raise ValueError(
                f"grids of {box:.3g} functions are said to have {self.n_features} within the cut-off"
            )

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    def _build(self) -> GridMeanParameters:
        return GridMeanParameters(self)


class GridMeanParameters(LinearInfluence, FittedParams[GridMeanSpec]):
    """Tables of a `GridMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GridMeanSpec) -> None:
        self.spec = spec
        self._grids, n = list[tuple[Products, F64]](), len(spec.sigmas)
        for periods, cutoff, sigma in zip(spec.periods, spec.cutoffs, spec.sigmas, strict=True):
            layout = grid_layout(periods, cutoff, sigma)
            products = Products(*spec.domain.arrays, np.array(periods), layout.lengths)
            self._grids.append((products, layout.scales / np.sqrt(n)))
        self._scales = np.concatenate([scales for _, scales in self._grids])

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, n_features) float32. Points outside the domain count at its wall."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        weights, factors = weight_fractions(sets.weights, sets.offsets)
        for start in range(0, len(sets), SET_BATCH_SIZE):
            some = slice(start, start + SET_BATCH_SIZE)
            given = sets.relative, spans[some], weights, factors[some]
            sums = [grid_sums(*given, products)[:, 0] for products, _ in self._grids]
            out[some] = np.concatenate(sums, axis=1) * self._scales
        return out

    def row_sum(self, n_points: int, weight: float) -> RowAccumulator:
        """The row (n_features,) of one set that comes in pieces: the same bits as of all at once."""
        unit, sums = 1 / weight * n_points, [np.zeros(len(scales)) for _, scales in self._grids]

        def take(points: F32, weights: F32 | None) -> None:
            for (products, _), total in zip(self._grids, sums, strict=True):
                add_grid_sums(points, weights, unit, products, total[None])

        return RowAccumulator(take, lambda: np.concatenate(sums) / n_points * self._scales)

    def embed_points(self, points: F32) -> F32:
        """Rows of single points (n, d): (n, n_features) float32, without a tile for each of them."""
        values = [grid_values(points, products, scales) for products, scales in self._grids]
        return np.concatenate(values, axis=1) if len(values) > 1 else values[0]


class RowAccumulator:
    """The row of a set that comes in pieces: ``take`` sees whole tiles of points, ``made()`` is the row then."""

    def __init__(self, take: Callable[[F32, F32 | None], None], made: Callable[[], F64]) -> None:
        from dkdist._base.params import CutPieces  # for sets that come in pieces alone

        self._pieces, self._made = CutPieces(TILE, take), made

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        self._pieces.add(points, weights)

    def row(self) -> F32:
        """The row (m,), after the last."""
        self._pieces.end()
        return np.asarray(self._made().reshape(-1), np.float32)


METHODS = ("auto", "fourier", *NORMAL_SAMPLERS)
MIN_GRID_ERROR = 1e-7  # of a grid: rows are float32
GRID_ROUNDING = 1e-6  # of the kernel of two points in float32: three times the largest seen
MAX_AUTO_GRID_ERROR = (
    1e-2  # up to which "auto" takes a grid: MMD^2 is off by 0.1 %, with random features by 2 to 4 %
)
WARN_KERNEL_ERROR = 0.1
DOMAIN_MARGIN_RATIO = 0.05  # of the width of the data, on each side


class MeanEmbedding(SetEmbedding):
    """Embed sample sets so that inner products are mean kernels, and squared distances MMD^2.

    The kernel is k(x, y) = exp(-|x - y|^2 / (2 sigma^2)), or another one, on the points as they are (not scaled). For
    sets p, q with weights that are made to sum to one,

        row_p . row_q ~ sum_ij p_i q_j k(x_i, y_j),   |row_p - row_q|^2 ~ MMD^2(p, q),

    the biased (V-statistic) maximum mean discrepancy; its root is the kernel distance.

    Parameters
    ----------
    n_components : int, default=1000
        Number of features: even, half sines and half cosines of the same frequencies. With method="fourier" the most
        that may be used (then even or odd).
    sigma : float, sequence of floats or "median", default="median"
        Standard deviation of the kernel. "median" is the median distance between 1,024 points of at most 256 sets,
        drawn at random from the seed.
        Several: the kernel is the mean of theirs, and each has an equal part of the features.
    method : {"auto", "fourier", "orthogonal", "sobol", "iid"}, default="auto"
        "fourier" (d <= 3): a deterministic grid of frequencies with a certified error, see `error_bound_`; the fewest
        that reach 1e-7, or the least error that n_components features allow. Random frequencies, in any dimension:
        orthogonal ones, quasi-random ones ("sobol", which gain most in few dimensions), or independent ones. "auto"
        is "fourier" where its error is at most 1e-2, else "sobol" up to 16 dimensions and "orthogonal" above.
    random_state : int, Generator or None, default=None
        Seed of the random frequencies; "fourier" uses none.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set, as for `DivergenceEmbedding`.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with random frequencies: all but "energy" and "epanechnikov".
        Only the Gaussian one has method="fourier".

    Attributes
    ----------
    sigma_ : float, or (n_sigmas,) array
        The bandwidth in use.
    error_bound_ : float or None
        With "fourier", a bound of |row_x . row_y - k(x, y)| for all points x, y within the bounds of the data seen in
        `fit` and 5 % of their width on each side; 1e-6 of it is for rounding to float32. So of every mean kernel too,
        and four times it of MMD^2. None for random frequencies, whose error is random.
    spec_ : GridMeanSpec or RandomMeanSpec
        What was chosen, in plain numbers; frequencies are drawn from it wherever they are needed.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        Naming the set: empty sets, NaN or infinite points, different numbers of dimensions, negative weights; or if
        no set is left.
    StoreFormatError
        Naming the set that cannot be read.
    ValueError
        For an unknown method (with the list of those there are), "fourier" in more than three dimensions, features
        that cannot be shared, a sigma beyond 1e-30 to 1e30, or points that are all equal under sigma="median".

    Notes
    -----
    A `SetStore` gives a lazy dask array with known chunks; anything else an ndarray. Rows are float32, and a set's row
    depends on that set alone, bit for bit on processors of one kind. A stored set of more than 32 MiB is read in
    pieces of 4 MiB, once more for its weights if it has any. `fit` reads the data once, and some points for the
    median. Points outside the box of the grid count at its wall, with a warning that counts them; random frequencies
    take points anywhere, with a warning in `fit` if those are some million sigmas apart, where float32 has no digits
    left.

    A kernel value of random frequencies has a standard deviation of at most 1 / sqrt(n_components). Cost of a set of n
    points at 1,000 features on one core: some 0.2 us a point for random frequencies in the plane, .04 for the grid.

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
    >>> mmd2 = ((rows[0] - rows[1:3]) ** 2).sum(axis=1)  # to a set of the other kind, and of the same
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
        """Choose sigma and frequencies from the sets X; one pass over the data. ``y`` is not used."""
        method = one_of("method", self.method, METHODS)
        kernel = one_of("kernel", self.kernel, names_with("sample_frequencies"))
        if method == "fourier" and kernel != "gaussian":
            raise ValueError(f"method='fourier' is for kernel='gaussian'; found {kernel!r}: use 'auto'")
        given = self._given_sigmas()
        each = self._components_each(method, 1 if given is None else len(given))
        median, seed = median_seed(self.random_state), draw_seed(self.random_state)
        sets = check_sets(X)
        if method == "fourier" and sets.n_dims > MAX_GRID_DIMS:
            raise ValueError(
                f"method='fourier' is for points of up to {MAX_GRID_DIMS} dimensions, and these have {sets.n_dims}: use "
                "'orthogonal' or 'sobol', or reduce the dimension of the points first"
            )
        found = self._look(sets, None)
        sigmas = given or (_median_sigma(sets, found, median),)
        grids = []
        if method in ("auto", "fourier") and kernel == "gaussian" and sets.n_dims <= MAX_GRID_DIMS:
            box = _domain_with_margin(found)
            low, high = (side.astype(np.float64) for side in box.arrays)
            grids = [fourier_grid(high - low, sigma, MIN_GRID_ERROR, each) for sigma in sigmas]
        error = float(np.mean([grid.error for grid in grids])) if grids else np.inf
        self.error_bound_: float | None = None
        if method == "fourier" or error <= MAX_AUTO_GRID_ERROR:
            self.spec_ = _grid_params(box, sigmas, grids)
            self.error_bound_ = round_to_float32(error + GRID_ROUNDING)
            _warn_if_inaccurate(error, self.n_components)
        else:
            _warn_if_unresolved(found, min(sigmas))
            centre = tuple(map(float, (found.low.astype(np.float64) + found.high) / 2))
            random = most_accurate_sampler(sets.n_dims) if method == "auto" else method
            self.spec_ = RandomMeanSpec(centre, sigmas, each * len(sigmas), random, seed, kernel=kernel)
        self.sigma_ = sigmas[0] if len(sigmas) == 1 else np.array(sigmas)
        return self

    def _given_sigmas(self) -> tuple[float, ...] | None:
        if isinstance(self.sigma, str):
            one_of("sigma", self.sigma, ("median",))
            return None
        values = tuple(
            round_to_float32(within_float32("sigma", value)) for value in np.ravel(np.asarray(self.sigma))
        )
        if not values:
            raise ValueError("sigma is an empty sequence: give a positive number, several, or 'median'")
        return values

    def _components_each(self, method: str, n_sigmas: int) -> int:
        """Features of each bandwidth."""
        n = whole("n_components", self.n_components, least=2)
        unit = n_sigmas if method == "fourier" else 2 * n_sigmas
        if method != "fourier" and n % unit:
            of = f" for each of {n_sigmas} bandwidths" if n_sigmas > 1 else ""
            raise ValueError(
                f"n_components must be even, half sines and half cosines{of}; found {n}: use {n + -n % unit}"
            )
        if n < n_sigmas:
            raise ValueError(
                f"n_components must be at least one for each of {n_sigmas} bandwidths; found {n}"
            )
        return n // n_sigmas


def _median_sigma(sets: Sets, found: DataSummary, seed: int) -> float:
    points = sample_points(sets, found.bad, seed)
    with one_blas_thread():  # threads of BLAS wait for ever where another thread forks this process
        sigma = median_distance(points)
    if sigma == 0:
        raise ValueError(
            f"sigma='median' needs points that differ, but the {len(points)} sampled ones are equal: give sigma a "
            "number"
        )
    return round_to_float32(within_float32("sigma='median'", sigma))


def _domain_with_margin(found: DataSummary) -> Domain:
    """The bounds of the data and a margin for points to come: beyond, a grid repeats itself."""
    low, high = found.low.astype(np.float64), found.high.astype(np.float64)
    margin, limit = DOMAIN_MARGIN_RATIO * (high - low), float(np.finfo(np.float32).max)
    walls = [np.clip(side, -limit, limit).astype(np.float32) for side in (low - margin, high + margin)]
    return Domain(tuple(map(float, walls[0])), tuple(map(float, walls[1])), fixed=False)


def _grid_params(box: Domain, sigmas: tuple[float, ...], grids: list[FourierGrid]) -> GridMeanSpec:
    periods, cutoffs = tuple(grid.periods for grid in grids), tuple(grid.cutoff for grid in grids)
    return GridMeanSpec(box, sigmas, periods, cutoffs, sum(grid.n_features for grid in grids))


def _warn_if_inaccurate(error: float, n_components: int) -> None:
    if error > WARN_KERNEL_ERROR:
        warnings.warn(
            f"with n_components={n_components} the error of method='fourier' may reach {error:.2g} of the kernel's "
            "largest value 1: give more components, a larger sigma, or use method='orthogonal'",
            stacklevel=find_stacklevel(),
        )


def _warn_if_unresolved(found: DataSummary, sigma: float) -> None:
    widths = found.high.astype(np.float64) - found.low
    error = float32_error(widths, sigma)
    if error > WARN_KERNEL_ERROR:
        warnings.warn(
            f"sigma={sigma:.3g} is so small for points {widths.max():.3g} wide that rounding to float32 may change the "
            f"kernel by {min(error, 1):.2g} of its largest value 1: give a larger sigma, or drop outliers",
            stacklevel=find_stacklevel(),
        )
