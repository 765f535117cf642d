"""`MeanEmbedding`: map sample sets to rows whose squared distances are MMD^2, the squared kernel distance.

    points --frequencies--> weighted means of sines and cosines --scales--> row of features

Frequencies are random (any dimension, points anywhere), or a deterministic grid (points in a box of up to three
dimensions), whose kernel has a certified error. For several bandwidths the features are concatenated, and the kernel is
the mean of their kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import DataSummary, Sets, SetsLike, check_sets, sample_points
from dkdist._base.parameter_checks import (
    RandomStateLike,
    check_choice,
    check_int,
    check_scale,
    draw_seed,
    median_seed,
    round_to_float32,
)
from dkdist._base.params import Domain
from dkdist._base.sampling import median_distance
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.validation import find_stacklevel
from dkdist.kernels._random_numba import (
    float32_error,
)
from dkdist.kernels._tuning import (
    DOMAIN_MARGIN_RATIO,
    GRID_ROUNDING,
    MAX_AUTO_GRID_ERROR,
    MIN_GRID_ERROR,
    WARN_KERNEL_ERROR,
)
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, FourierGrid, fourier_grid
from dkdist.kernels.mean_embedding_params import GridMeanSpec, RandomMeanSpec
from dkdist.kernels.registry import NORMAL_SAMPLERS, check_kernel, most_accurate_sampler, require_frequencies

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
        Number of features; must be even, for sines and cosines of the same frequencies. With method="fourier", the
        maximum number, even or odd.
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
        A kernel of `kernel_distance` with random frequencies: all but "energy", "epanechnikov", "ball", "linear" and
        "identity"; "triangle" in one dimension.
        Only the Gaussian kernel supports method="fourier".

    Attributes
    ----------
    sigma_ : float, or (n_sigmas,) array
        Fitted bandwidth.
    error_bound_ : float or None
        With "fourier", a bound on |row_x . row_y - k(x, y)| for all points x, y within the bounds of the data of `fit`
        plus 5 % of their width on each side; it includes 1e-6 for float32 rounding. It also bounds the error of every
        mean kernel; the error of MMD^2 is at most 4 times as large. None for random frequencies.
    spec_ : GridMeanSpec or RandomMeanSpec
        Fitted parameters as plain numbers; each worker draws the frequencies from them.
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
    `LazySets` give a lazy Dask array with known chunks; anything else an ndarray. Rows are float32. A row depends
    only on its set, and is bitwise reproducible on the same CPU type. A stored set above 32 MiB is read in pieces of 4
    MiB, twice if it has weights. `fit` reads the data once, and some points for the median. "fourier" clips points
    outside its box, with a warning that counts them. Random frequencies accept points anywhere; `fit` warns if they are
    millions of sigmas apart, where float32 phases have no correct digits.

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
        random_state: RandomStateLike = None,
        on_error: str = "raise",
        kernel: str = "gaussian",
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.method = method
        self.random_state = random_state
        self.on_error = on_error
        self.kernel = kernel

    def fit(self, X: SetsLike, y: Any = None) -> MeanEmbedding:
        """Choose sigma and frequencies from the sets X in one pass over the data; ``y`` is ignored."""
        method = check_choice("method", self.method, METHODS)
        kernel = check_kernel(self.kernel, "sample_frequencies")
        if method == "fourier" and kernel != "gaussian":
            raise ValueError(f"method='fourier' requires kernel='gaussian'; got {kernel!r}. Use 'auto'.")
        fixed_sigmas = self._fixed_sigmas()
        n_per_sigma = self._components_per_sigma(method, 1 if fixed_sigmas is None else len(fixed_sigmas))
        median, seed = median_seed(self.random_state), draw_seed(self.random_state)
        sets = check_sets(X)
        require_frequencies(kernel, sets.n_dims)
        if method == "fourier" and sets.n_dims > MAX_GRID_DIMS:
            raise ValueError(
                f"method='fourier' requires points of at most {MAX_GRID_DIMS} dimensions; got {sets.n_dims}. Use "
                "'orthogonal' or 'sobol', or reduce the dimension of the points."
            )
        summary = self._summarize_fit_sets(sets, None)
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
            check_choice("sigma", self.sigma, ("median",))
            return None
        values = tuple(
            round_to_float32(check_scale("sigma", value)) for value in np.ravel(np.asarray(self.sigma))
        )
        if not values:
            raise ValueError(
                "sigma must be a positive number, a sequence of them or 'median'; got an empty sequence."
            )
        return values

    def _components_per_sigma(self, method: str, n_sigmas: int) -> int:
        n = check_int("n_components", self.n_components, minimum=2)
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
    with one_blas_thread():  # BLAS threads can deadlock if another thread forks the process
        sigma = median_distance(points)
    if sigma == 0:
        raise ValueError(
            f"sigma='median' requires distinct points, but the {len(points)} sampled points are equal. Pass a number "
            "as sigma."
        )
    return round_to_float32(check_scale("sigma='median'", sigma))


def _domain_with_margin(summary: DataSummary) -> Domain:
    """Return the bounds of the data, with a margin for new points, because the grid is periodic."""
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
