"""`RandomFourierFeatures`: rows whose inner products are a kernel, by blocks or as they are asked for.

Frequencies of random Fourier features as a matrix, and the derivative of functions of the features by their input.

    z = F^(-1/2) (sin p, cos p),  p = W x / sigma:   df/dx = W' (cos p f_sin - sin p f_cos) / (sigma F^(1/2))

for a function whose derivative by the features is (f_sin, f_cos).

Random Fourier features of a kernel: how frequencies are drawn, and rows are multiplied by them.

    z(x) = sqrt(2/D) (sin Wx / sigma, cos Wx / sigma),   z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

The product Wx, with W (D/2, m), is taken for four rows and sixteen frequencies at a time, in registers, each number
summed in the order of the columns: a row's bits depend on no other row and on no BLAS. Several sigmas share it. Cost of
a row: D m flops, D/2 sines and cosines, 4 D bytes written. (Rahimi & Recht 2007; Yu et al. 2016.)

Frequencies of sigma = 1 are standard normal: independent, orthogonal within each m rows, or quasi-random. Those of
other kernels are made of them (`dkdist.kernels.registry`). Structured ones are a product of sign flips and
Hadamard transforms:

    W = diag(s) H D_3 H D_2 H D_1 / L^(3/2),   D_i random signs, s_r chi-distributed, L a power of two >= m

A product Wx then costs 3 L log2 L additions for every L frequencies instead of 2 m L flops, and its rows are orthogonal
within each L, so that they approximate the kernel better than independent ones ("structured orthogonal random
features", Yu et al. 2016).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dkdist._base.inputs import require_rows_of_features, within_floats
from dkdist._base.parameter_checks import (
    draw_seed,
    is_word,
    median_seed,
    one_of,
    round_to_float32,
    whole,
    within_float32,
)
from dkdist._base.params import FittedParams, Params
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import attach_index, check_index_alignment, own_rows, with_index
from dkdist._base.sampling import median_distance, some_runs
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._numba.points import largest, not_finite
from dkdist._runtime.arrays import block_bounds, fill_in_memory, lazy_from_rows, take_rows
from dkdist._runtime.blocks import is_lazy
from dkdist._runtime.process import materialize_params, one_blas_thread
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import find_stacklevel
from dkdist.kernels._random_numba import float32_error
from dkdist.kernels.registry import NORMAL_SAMPLERS, get_kernel, names_with


def phase_gradient(frequencies: F64, x: F64, gradient: F64, step: F64 | None = None) -> F64:
    """(m, k) derivatives by x (m,) of k functions with derivatives ``gradient`` (2 F, k) by the features.

    With a ``step`` the features' derivatives are averaged over the straight path of this length whose middle is x: the
    mean of cos over phases of a width of 2 a is cos at the middle times sin(a) / a. Both may be (m, k), one path for
    each function. ``frequencies`` (F, m) have sigma in them.
    """
    phases, F = frequencies @ x.reshape(len(x), -1), len(frequencies)
    slopes = np.cos(phases) * gradient[:F] - np.sin(phases) * gradient[F:]
    if step is not None:
        slopes *= np.sinc(frequencies @ step.reshape(len(step), -1) / (2 * np.pi))
    return np.asarray(frequencies.T @ slopes / np.sqrt(F))


def structured_frequencies(signs: F32, scales: F64, n_inputs: int) -> F64:
    """(F, m) the rows diag(s) H D_3 H D_2 H D_1 that `structured_features` multiplies by, from its arguments."""
    blocks = []
    for D in signs.astype(np.float64):
        V = np.diag(D[0])[:, :n_inputs]
        V = _hadamard(D[2][:, None] * _hadamard(D[1][:, None] * _hadamard(V)))
        blocks.append(V)
    return np.concatenate(blocks)[: len(scales)] * scales[:, None]


def _hadamard(V: F64) -> F64:
    """H V of the unnormalised Hadamard matrix, for (L, m) with L a power of two."""
    L, h = len(V), 1
    while h < L:
        pairs = V.reshape(L // (2 * h), 2, h, -1)
        V = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(L, -1)
        h *= 2
    return V


METHODS = ("iid", "orthogonal", "structured")
MAX_DENSE_INPUTS = (
    64  # input dimensions above which the Hadamard product is the faster one: 3.8 against 5.3 us a row at 64
)
# bytes and rows of features that stay in the second level of a cache until they are used; of structured ones fewer,
# since what makes them is read once for four rows
TILE_BYTES, TILE_ROWS = 2**20, (32, 512)
STEP_BYTES, STEP_ROWS = 2**18, (16, 512)


@serializable("FourierSpec")
@dataclass(frozen=True)
class FourierSpec(Params["FourierParameters"]):
    """What defines a set of random Fourier features, in plain numbers; ``draw()`` makes the frequencies."""

    _kept = 8

    n_inputs: int
    n_components: int
    sigma: float
    method: str
    seed: int
    kernel: str = "gaussian"

    @property
    def n_features(self) -> int:
        """Length D of a row of features."""
        return self.n_components

    def _build(self) -> FourierParameters:
        return FourierParameters(self)


def tile_rows(row_bytes: int) -> int:
    """Rows of features that are best made at once: few, as they are then used in the cache; and in fours."""
    return int(np.clip(TILE_BYTES // row_bytes, *TILE_ROWS)) // 4 * 4


def step_rows(row_bytes: int) -> int:
    """The same of structured features that a step comes to right away."""
    return int(np.clip(STEP_BYTES // row_bytes, *STEP_ROWS)) // 4 * 4


class FourierParameters(FittedParams[FourierSpec]):
    """Drawn frequencies of a `FourierSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: FourierSpec) -> None:
        self.spec = spec
        self.tile = tile_rows(4 * spec.n_components)
        self._waves = (_StructuredFrequencies if spec.method == "structured" else _DenseFrequencies)(spec)

    def transform(self, X: F32) -> F32:
        """Features of rows X (n, m) float32: (n, D) float32, sines then cosines; each row has norm 1.

        A row with NaN gives NaN; there are no infinite values.
        """
        return self.transform_each(X, [self.spec.sigma])[0]

    def transform_each(self, X: F32, sigmas: Sequence[float]) -> list[F32]:
        """The same features for several sigmas, which share what does not depend on them; the same bits."""
        outs = np.empty((len(sigmas), len(X), self.spec.n_components), np.float32)
        self._fill_each(X, sigmas, outs)
        return list(outs)

    def fill(self, X: F32, places: I64, out: F32) -> None:
        """The same features of the rows ``places`` of X, in C order and without NaN, into ``out`` (len(places), D).

        Best `tile` rows at once.
        """
        self._waves.fill(X, places, (self.spec.sigma,), out[None])

    def descend(self, X: F32, places: I64, *walk: Any) -> int:
        """Take steps of gradient descent by these features, as `MadeRows.descend` has it."""
        return self._waves.descend(X, places, self.spec.sigma, *walk)

    def _fill_each(self, X: F32, sigmas: Sequence[float], outs: F32) -> None:
        X, lost = zero_nan_rows(np.ascontiguousarray(X, np.float32))
        self._waves.fill(X, None, tuple(sigmas), outs)
        if lost is not None:
            outs[:, lost] = np.nan

    def pull_back(self, x: F32, gradient: F64, starts: F32 | None = None) -> F64:
        """(m, k) derivatives by the row x (m,) of k functions with derivatives ``gradient`` (D, k) by its features.

        With ``starts`` (k, m), one for each function, the features' derivatives are averages over the straight path
        from there to x: their products with x - start are the differences of the features.
        """
        end, frequencies = x.astype(np.float64), _frequencies(self.spec)
        if starts is None:
            return phase_gradient(frequencies, end, gradient)
        return phase_gradient(frequencies, (end + starts).T / 2, gradient, (end - starts).T)


def zero_nan_rows(X: F32) -> tuple[F32, NDArray[np.bool_] | None]:
    """X with zeros for rows that hold NaN, which compiled loops do not know; and which these are, if there are any."""
    if not np.isnan(X.min(initial=0)):
        return X, None
    lost = np.asarray(np.isnan(X).any(axis=1))
    return np.where(lost[:, None], np.float32(0), X), lost


class _DenseFrequencies:
    """Frequencies that rows are multiplied by as they are."""

    def __init__(self, spec: FourierSpec) -> None:
        frequencies = _dense_functions().panels(np.ascontiguousarray(_sample_dense(spec).T, np.float32))
        self._of = lru_cache(maxsize=4)(partial(_dense_functions().dense, frequencies, spec.n_components))
        self._at_once = tile_rows(4 * spec.n_components)

    def fill(self, X: F32, places: I64 | None, sigmas: tuple[float, ...], outs: F32) -> None:
        """Features of some rows of X, or of all, for each sigma."""
        _dense_functions().dense_features(X if places is None else X[places], self._of(sigmas), outs)

    def descend(self, X: F32, places: I64, sigma: float, *walk: Any) -> int:
        """Steps by the features of some rows."""
        return int(_dense_functions().dense_steps(X, places, self._of((sigma,)), self._at_once, *walk))


class _StructuredFrequencies:
    """Frequencies that are a product of signs and Hadamard transforms."""

    def __init__(self, spec: FourierSpec) -> None:
        self._of = lru_cache(maxsize=4)(
            partial(_structured_functions().structured, *_sample_structured(spec))
        )
        self._at_once = step_rows(4 * spec.n_components)

    def fill(self, X: F32, places: I64 | None, sigmas: tuple[float, ...], outs: F32) -> None:
        """Features of some rows of X, or of all, for each sigma."""
        _structured_functions().structured_features(X, places, self._of(sigmas), outs)

    def descend(self, X: F32, places: I64, sigma: float, *walk: Any) -> int:
        """Steps by the features of some rows."""
        return int(
            _structured_functions().structured_steps(X, places, self._of((sigma,)), self._at_once, *walk)
        )


def _dense_functions() -> Any:
    """Compiled loops of dense frequencies, which who only draws them does not load."""
    from dkdist.kernels import _dense_features_numba as dense_features_loops

    return dense_features_loops


def _structured_functions() -> Any:
    """The same of structured frequencies."""
    from dkdist.kernels import _structured_features_numba as structured_features_loops

    return structured_features_loops


def _sample_dense(spec: FourierSpec) -> F64:
    """(F, m) frequencies for sigma = 1."""
    rng = np.random.default_rng([spec.seed, RngStream.FOURIER])
    g = NORMAL_SAMPLERS[spec.method](rng, spec.n_components // 2, spec.n_inputs)
    return get_kernel(spec.kernel).frequencies(rng, g)


def _sample_structured(spec: FourierSpec) -> tuple[F32, F64]:
    """Signs, and lengths of rows for sigma = 1, as `structured` takes them."""
    rng = np.random.default_rng([spec.seed, RngStream.FOURIER])
    F, L = spec.n_components // 2, padded_length(spec.n_inputs)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    lengths = np.sqrt(rng.chisquare(L, F))
    lengths = get_kernel(spec.kernel).frequencies(rng, lengths[:, None])[:, 0]
    return signs, lengths / L**1.5  # three unnormalised Hadamard transforms stretch a vector by L^(3/2)


@lru_cache(maxsize=2)
def _frequencies(spec: FourierSpec) -> F64:
    """(F, m) what rows are multiplied by."""
    if spec.method != "structured":
        return _sample_dense(spec) / spec.sigma
    signs, scales = _sample_structured(spec)
    return structured_frequencies(signs, scales / spec.sigma, spec.n_inputs)


def padded_length(m: int) -> int:
    """The power of two L >= m, at least 16."""
    return max(16, 1 << (m - 1).bit_length())


MAX_FINITE_PHASE = 1e30  # phases below are finite, whatever is rounded
WARN_KERNEL_ERROR = 0.1  # of the kernel, from rounding to float32
N_MEDIAN_RUNS, MEDIAN_RUN_ROWS = 32, 16  # rows that the median is taken from: 32 runs of 16 neighbours


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random features z with z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2)), or another kernel, for linear learners.

    Parameters
    ----------
    n_components : int, default=5000
        D, even: D/2 sines followed by D/2 cosines of the same frequencies.
    sigma : float or "median", default="median"
        Standard deviation of the kernel. "median" is the median distance between at most 512 rows, drawn
        from the seed in 32 runs of neighbours.
    method : {"auto", "orthogonal", "structured", "iid"}, default="auto"
        Independent Gaussian frequencies (the paper's), orthogonal ones, or products of sign flips and
        Hadamard transforms, which are nearly as good as orthogonal ones and cost D log m instead of D m.
        "auto" is "structured" above 64 input columns, else "orthogonal".
    random_state : int, Generator or None, default=None
        Seed of the frequencies.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with random frequencies: all but "energy" and "epanechnikov".
        Frequencies of "laplace" are of single columns, which method="structured" has not.

    Attributes
    ----------
    sigma_ : float
        The bandwidth in use.
    spec_ : FourierSpec
        What was chosen, in plain numbers; the frequencies are drawn from it wherever they are needed.

    Raises
    ------
    ValueError
        For an odd n_components, an unknown method or kernel, a method without the frequencies of the kernel, infinite
        values, a sigma beyond 1e-30 to 1e30, or rows that are all equal (or NaN) under sigma="median".

    Notes
    -----
    Dask arrays in, dask arrays out (same row chunks); numpy in, numpy out; float32. Every row has norm one; a row
    with NaN (a set that was skipped) gives a row of NaN, and has no part in the median. Rows in memory that are some
    million sigmas from the origin, where float32 has no digits left, are told of in `fit`. The
    error of a kernel value has a standard deviation of at most sqrt(1/D), falling as 1/sqrt(D). Frequencies of the
    Matern and Laplace kernels have heavy tails, cut at 10^4 / sigma. Cost of a row at
    D = 5000: D m flops ("iid", "orthogonal") or about 5 us for m = 600 ("structured"), and 20 KB written.

    References
    ----------
    Rahimi, Recht: Random features for large-scale kernel machines (2007). Yu et al.: Orthogonal random features
    (2016).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> x = np.random.default_rng(0).standard_normal((4, 3)).astype("f4")
    >>> z = dk.RandomFourierFeatures(20_000, sigma=2.0, random_state=0).fit_transform(x)
    >>> kernel = np.exp(-((x[0] - x[1]) ** 2).sum() / (2 * 2.0**2))
    >>> bool(abs(z[0] @ z[1] - kernel) < 0.02)
    True
    """

    def __init__(
        self,
        n_components: int = 5000,
        sigma: float | str = "median",
        method: str = "auto",
        random_state: Any = None,
        kernel: str = "gaussian",
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.method = method
        self.random_state = random_state
        self.kernel = kernel

    def fit(self, X: Any, y: Any = None) -> RandomFourierFeatures:
        """Choose sigma from a sample of the rows X and draw the seed of the frequencies. ``y`` is not used."""
        n_components = whole("n_components", self.n_components, least=2)
        if n_components % 2:
            raise ValueError(
                f"n_components must be even, half sines and half cosines; found {n_components}: use {n_components + 1}"
            )
        method = one_of("method", self.method, ("auto", *METHODS))
        kernel = one_of("kernel", self.kernel, names_with("sample_frequencies"))
        given = None if is_word(self.sigma, "median") else within_float32("sigma", self.sigma)
        X = self._validated(X, reset=True)
        median = median_seed(self.random_state)
        sigma = within_float32("sigma='median'", _median_sigma(X, median)) if given is None else given
        if not is_lazy(X):
            _warn_if_unresolved(X, sigma)
        is_radial = get_kernel(kernel).metric == "euclidean"
        if method == "auto":
            many = X.shape[1] > MAX_DENSE_INPUTS and is_radial
            method = "structured" if many else "orthogonal"
        if method == "structured" and not is_radial:
            raise ValueError(
                f"method='structured' has no frequencies of kernel={kernel!r}: use 'auto', 'orthogonal' or 'iid'"
            )
        self.sigma_ = round_to_float32(sigma)
        seed = draw_seed(self.random_state)
        self.spec_ = FourierSpec(X.shape[1], n_components, self.sigma_, method, seed, kernel)
        return self

    def transform(self, X: Any) -> Any:
        """Features of the rows X: (n, n_components) float32."""
        check_is_fitted(self)
        return with_index(self, attach_index(self._features(self._validated(X, reset=False)), X))

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Features of the rows X that it is fitted on; beside targets in another order as an embedding's rows are."""
        return check_index_alignment(super().fit_transform(X, y, **params), X, y)

    def _features(self, X: Any) -> Any:
        if is_lazy(X):
            return lazy_from_rows(FourierMap(X.shape[1]), self.spec_, X, "random_fourier_features")
        parameters = materialize_params(self.spec_)
        out = np.empty((len(X), self.spec_.n_components), np.float32)

        def fill(rows: slice) -> None:
            out[rows] = parameters.transform(X[rows])

        fill_in_memory(fill, block_bounds(np.ones(len(X), np.int64), 4 * X.shape[1], 4 * out.shape[1]))
        return out

    def _validated(self, X: Any, reset: bool) -> Any:
        X = own_rows(X)
        require_rows_of_features(self, X)
        if not is_lazy(X):
            with within_floats():
                return validate_data(
                    self, X, reset=reset, dtype=np.float32, order="C", ensure_all_finite="allow-nan"
                )
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError(
                f"expected a 2-D dask array of real numbers, found {X.ndim}-D of dtype {X.dtype}"
            )
        if reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but RandomFourierFeatures is expecting {self.n_features_in_} features "
                "as input"
            )
        return X

    @property
    def _n_features_out(self) -> int:
        return self.spec_.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class FourierMap:
    """The features of blocks of rows (n, n_inputs), as a function of (parameters, block)."""

    n_inputs: int

    def __call__(self, parameters: FourierParameters, block: Any) -> F32:
        """All of them: (n, D) float32."""
        return parameters.transform(_check_block(block)[0])

    def lazy_rows(self, parameters: FourierParameters, block: Any) -> FourierRows:
        """The same, made when they are asked for."""
        return FourierRows(parameters, *_check_block(block))

    @property
    def row_bytes(self) -> int:
        """What is kept of a row until it is asked for."""
        return 4 * self.n_inputs


class FourierRows:
    """Features (n, D) of the rows A (n, m) that are made when they are asked for; the same bits as all at once."""

    dtype = np.dtype(np.float32)

    def __init__(self, parameters: FourierParameters, A: F32, reach: float | None = None) -> None:
        """``reach`` is the largest of |A|, and NaN if there is one; it is looked for if it is not given."""
        self._parameters, self._A = parameters, np.ascontiguousarray(A, np.float32)
        self._reach = largest(self._A) if reach is None else reach
        self._clear, self._lost = zero_nan_rows(self._A) if math.isnan(self._reach) else (self._A, None)
        self.shape, self.tile = (len(A), parameters.spec.n_components), parameters.tile

    def __sizeof__(self) -> int:
        return int(self._A.nbytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._parameters.transform(self._A), dtype)

    def fill(self, places: I64, out: F32) -> None:
        """Rows ``places`` into ``out`` (len(places), D)."""
        self._parameters.fill(self._clear, places, out)
        if self._lost is not None:
            out[self._lost[places]] = np.nan

    def descend(self, places: I64, *walk: Any) -> int:
        """Take steps of gradient descent by rows ``places``, none of which is NaN."""
        return self._parameters.descend(self._clear, places, *walk)

    def not_finite(self) -> I64:
        """The places of rows that are not finite: those of A, and those that are so large that their phases are not."""
        spec = self._parameters.spec
        far = MAX_FINITE_PHASE * min(1.0, spec.sigma) / padded_length(spec.n_inputs) ** 3
        if self._reach <= far:  # not so if there is a NaN
            return np.zeros(0, np.int64)
        bad = not_finite(self._A)
        doubtful = np.setdiff1d(np.flatnonzero((np.abs(self._A) > far).any(axis=1)), bad)
        return np.union1d(bad, doubtful[not_finite(self._parameters.transform(self._A[doubtful]))])

    def joined(self, others: Sequence[FourierRows]) -> FourierRows:
        """These rows, and those of others below."""
        reach = float(np.max([self._reach, *(other._reach for other in others)]))  # NaN if there is one
        return FourierRows(
            self._parameters, np.concatenate([self._A, *(other._A for other in others)]), reach
        )


def _check_block(block: Any) -> tuple[F32, float]:
    """Rows of a lazy array as float32, checked as those in memory are; and their largest |x|.

    NaN may be there, infinity not.
    """
    with np.errstate(over="ignore"):  # an overflow becomes inf, and is refused
        X = np.asarray(block, np.float32, order="C")
    reach = largest(X)
    if not math.isfinite(reach) and np.isinf(X).any():
        row = int(np.argmax(np.isinf(X).any(axis=1)))
        column = int(np.argmax(np.isinf(X[row])))
        raise ValueError(
            f"row {row} of a block of {len(X)} rows of X is {X[row, column]} in column {column}: features must be "
            "finite and fit float32, or NaN for a row that has none. Repair what makes it"
        )
    return X, reach


def _warn_if_unresolved(X: F32, sigma: float) -> None:
    reach = np.fmax(np.fmax.reduce(X, axis=0, initial=0), -np.fmin.reduce(X, axis=0, initial=0))  # NaN or not
    error = float32_error(reach.astype(np.float64), sigma)
    if error > WARN_KERNEL_ERROR:
        warnings.warn(
            f"sigma={sigma:.3g} is so small for rows up to {reach.max():.3g} from the origin that rounding to "
            f"float32 may change the kernel by {min(error, 1):.2g} of its largest value 1: give a larger sigma, or "
            "rows from their middle",
            stacklevel=find_stacklevel(),
        )


def median_rows(n: int, seed: int) -> I64:
    """Up to 512 of n rows, in runs of neighbours at random, so that few blocks of a lazy array are made."""
    return some_runs(n, N_MEDIAN_RUNS, MEDIAN_RUN_ROWS, seed)


def _median_sigma(X: Any, seed: int) -> float:
    """Median distance between the rows that a seed draws."""
    rows = median_rows(X.shape[0], seed)
    sample = _check_block(take_rows(X, rows))[0] if is_lazy(X) else X[rows]
    sample = sample[~np.isnan(sample).any(axis=1)]
    with one_blas_thread():  # threads of BLAS wait for ever where another thread forks this process
        sigma = median_distance(sample) if len(sample) else 0.0
    if sigma == 0:
        of_those = " without NaN" if len(sample) < len(rows) else ""
        raise ValueError(
            f"sigma='median' needs rows that differ, but the {len(sample)} sampled rows{of_those} are equal: give "
            "sigma a number"
        )
    return sigma
