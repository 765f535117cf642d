"""`RandomFourierFeatures`: features z(x) whose inner products approximate a kernel, by block or lazily by tile.

    z(x) = sqrt(2 / D) (sin Wx / sigma, cos Wx / sigma),   z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

Rows of W (D / 2, m) are standard normal, independent or orthogonal within each m rows (Yu et al. 2016). Frequencies of
other kernels are computed from them (`dkdist.kernels.registry`). Structured frequencies are products of sign flips D_i
and Hadamard transforms H, with chi-distributed lengths s and L >= m a power of two:

    W = diag(s) H D_3 H D_2 H D_1 / L^(3/2),   3 L log2 L additions per L frequencies instead of 2 m L flops

Compiled products sum in a fixed order: each row is bitwise independent of the other rows and of the BLAS.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dkdist._base.inputs import reject_float_overflow, require_feature_rows
from dkdist._base.parameter_checks import (
    RandomStateLike,
    check_choice,
    check_int,
    check_scale,
    draw_seed,
    is_literal,
    median_seed,
    round_to_float32,
)
from dkdist._base.row_ids import apply_set_output, attach_index, check_index_alignment, unwrap_rows
from dkdist._base.sampling import median_distance, random_runs
from dkdist._numba.arrays import F32, I64, Array
from dkdist._numba.points import max_abs_value, nonfinite_rows
from dkdist._runtime.arrays import block_bounds, fill_in_memory, lazy_from_rows, take_rows
from dkdist._runtime.blocks import DaskArray, is_lazy
from dkdist._runtime.process import materialize_params, one_blas_thread
from dkdist._utils.validation import find_stacklevel
from dkdist.kernels._random_numba import float32_error
from dkdist.kernels._tuning import (
    MAX_DENSE_INPUTS,
    MEDIAN_RUN_ROWS,
    N_MEDIAN_RUNS,
    WARN_KERNEL_ERROR,
)
from dkdist.kernels.random_fourier_params import (
    METHODS,
    FourierParameters,
    FourierSpec,
    padded_length,
    zero_nan_rows,
)
from dkdist.kernels.registry import check_kernel, get_kernel, require_frequencies

MAX_FINITE_PHASE = 1e30  # keeps all products of float32 phases finite (test_random_fourier_features.py)


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random Fourier features z(x) whose inner products approximate a kernel, for linear models.

        z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

    Parameters
    ----------
    n_components : int, default=5000
        D, even: D/2 sines followed by D/2 cosines of the same frequencies.
    sigma : float or "median", default="median"
        Standard deviation of the kernel. "median" is the median distance between at most 512 random rows, sampled in
        32 runs of adjacent rows.
    method : {"auto", "orthogonal", "structured", "iid"}, default="auto"
        "iid": independent Gaussian frequencies (Rahimi, Recht 2007). "orthogonal": orthogonal directions. "structured":
        products of sign flips and Hadamard transforms, almost as accurate as "orthogonal" in D log m instead of D m
        time. "auto" is "structured" above 64 input columns, else "orthogonal".
    random_state : int, Generator or None, default=None
        Seed of the frequencies.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with random frequencies: all but "energy", "epanechnikov", "ball", "linear" and
        "identity"; "triangle" in one dimension.
        "laplace" does not support method="structured".

    Attributes
    ----------
    sigma_ : float
        Fitted bandwidth.
    spec_ : FourierSpec
        Fitted parameters as plain numbers; each worker draws the frequencies from them.

    Raises
    ------
    ValueError
        For an odd n_components, an unknown method or kernel, a method that does not support the kernel, infinite
        values, a sigma outside 1e-30 to 1e30, or equal (or NaN) rows with sigma="median".

    Notes
    -----
    Dask arrays give Dask arrays (same row chunks), NumPy arrays NumPy arrays, in float32. Every row has norm 1. A row
    with NaN (a skipped set) gives a row of NaN and is excluded from the median. `fit` warns about rows in memory that
    are millions of sigmas from the origin, where float32 phases have no correct digits. The error of a kernel value has
    a standard deviation of at most 1 / sqrt(D). Frequencies of the Matern and Laplace kernels have heavy tails, clipped
    at 10^4 / sigma. Time per row at D = 5000: D m flops ("iid", "orthogonal") or about 5 us for m = 600 ("structured");
    20 KB are written.

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
        random_state: RandomStateLike = None,
        kernel: str = "gaussian",
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.method = method
        self.random_state = random_state
        self.kernel = kernel

    def fit(self, X: Any, y: Any = None) -> RandomFourierFeatures:
        """Choose sigma from a sample of the rows X and draw the seed of the frequencies; ``y`` is ignored."""
        n_components = check_int("n_components", self.n_components, minimum=2)
        if n_components % 2:
            raise ValueError(
                f"n_components must be even, half sines and half cosines; got {n_components}. Use {n_components + 1}."
            )
        method = check_choice("method", self.method, ("auto", *METHODS))
        kernel = check_kernel(self.kernel, "sample_frequencies")
        fixed_sigma = None if is_literal(self.sigma, "median") else check_scale("sigma", self.sigma)
        X = self._validated(X, reset=True)
        require_frequencies(kernel, X.shape[1])
        median = median_seed(self.random_state)
        sigma = (
            check_scale("sigma='median'", _median_sigma(X, median)) if fixed_sigma is None else fixed_sigma
        )
        if not is_lazy(X):
            _warn_if_unresolved(X, sigma)
        is_radial = get_kernel(kernel).metric == "euclidean" and get_kernel(kernel).max_frequency_dims is None
        if method == "auto":
            method = "structured" if X.shape[1] > MAX_DENSE_INPUTS and is_radial else "orthogonal"
        if method == "structured" and not is_radial:
            raise ValueError(
                f"method='structured' does not support kernel={kernel!r}. Use 'auto', 'orthogonal' or 'iid'."
            )
        self.sigma_ = round_to_float32(sigma)
        seed = draw_seed(self.random_state)
        self.spec_ = FourierSpec(X.shape[1], n_components, self.sigma_, method, seed, kernel)
        return self

    @overload
    def transform(self, X: DaskArray) -> DaskArray: ...
    @overload
    def transform(self, X: ArrayLike) -> F32: ...
    def transform(self, X: Any) -> Any:
        """Return features of the rows X: (n, n_components) float32."""
        check_is_fitted(self)
        return apply_set_output(self, attach_index(self._features(self._validated(X, reset=False)), X))

    @overload
    def fit_transform(self, X: DaskArray, y: Any = None, **params: Any) -> DaskArray: ...
    @overload
    def fit_transform(self, X: ArrayLike, y: Any = None, **params: Any) -> F32: ...
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit to the rows X and return their features; check that the index of X matches that of ``y``."""
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
        X = unwrap_rows(X)
        require_feature_rows(self, X)
        if not is_lazy(X):
            with reject_float_overflow():
                return validate_data(
                    self, X, reset=reset, dtype=np.float32, order="C", ensure_all_finite="allow-nan"
                )
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError(
                f"X must be a 2-D Dask array of real numbers; got {X.ndim} dimensions and dtype {X.dtype}."
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
    """Callable that computes features of a block of rows (n, n_inputs) from (parameters, block)."""

    n_inputs: int

    def __call__(self, parameters: FourierParameters, block: Any) -> F32:
        """Return the features (n, D) float32 of a block."""
        return parameters.transform(_check_block(block)[0])

    def lazy_rows(self, parameters: FourierParameters, block: Any) -> FourierRows:
        """Return the features as lazily computed rows."""
        return FourierRows(parameters, *_check_block(block))

    @property
    def row_bytes(self) -> int:
        """Bytes in memory of a row before its features are computed."""
        return 4 * self.n_inputs


class FourierRows:
    """Lazily computed features (n, D) of rows A (n, m), bitwise identical to `FourierParameters.transform`."""

    dtype = np.dtype(np.float32)

    def __init__(self, parameters: FourierParameters, A: F32, max_abs: float | None = None) -> None:
        """Store rows; ``max_abs`` is the largest |A| (NaN if A contains NaN); None: compute it."""
        self._parameters, self._A = parameters, np.ascontiguousarray(A, np.float32)
        self._max_abs = max_abs_value(self._A) if max_abs is None else max_abs
        self._zeroed_rows, self._nan_rows = (
            zero_nan_rows(self._A) if math.isnan(self._max_abs) else (self._A, None)
        )
        self.shape, self.tile = (len(A), parameters.spec.n_components), parameters.tile

    def __sizeof__(self) -> int:
        return int(self._A.nbytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._parameters.transform(self._A), dtype)

    def fill(self, places: I64, out: F32) -> None:
        """Write the features of rows ``places`` to ``out`` (len(places), D)."""
        self._parameters.fill(self._zeroed_rows, places, out)
        if self._nan_rows is not None:
            out[self._nan_rows[places]] = np.nan

    def descend(self, places: I64, *sgd_arguments: Any) -> int:
        """Take SGD steps on the rows ``places``, which must not contain NaN."""
        return self._parameters.descend(self._zeroed_rows, places, *sgd_arguments)

    def not_finite(self) -> I64:
        """Return indices of rows whose features are not finite, because A is not finite or phases overflow."""
        spec = self._parameters.spec
        max_certain = MAX_FINITE_PHASE * min(1.0, spec.sigma) / padded_length(spec.n_inputs) ** 3
        if self._max_abs <= max_certain:  # False for NaN
            return np.zeros(0, np.int64)
        invalid = nonfinite_rows(self._A)
        large = np.setdiff1d(np.flatnonzero((np.abs(self._A) > max_certain).any(axis=1)), invalid)
        return np.union1d(invalid, large[nonfinite_rows(self._parameters.transform(self._A[large]))])

    def joined(self, others: Sequence[FourierRows]) -> FourierRows:
        """Return these rows followed by those of ``others``."""
        # NaN if one of them is NaN
        max_abs = float(np.max([self._max_abs, *(other._max_abs for other in others)]))
        return FourierRows(
            self._parameters, np.concatenate([self._A, *(other._A for other in others)]), max_abs
        )


def _check_block(block: Any) -> tuple[F32, float]:
    """Return rows of a lazy array as float32, and their largest |x|; NaN is allowed, infinity raises ValueError."""
    with np.errstate(over="ignore"):  # overflow gives inf, which raises an error below
        X = np.asarray(block, np.float32, order="C")
    max_abs = max_abs_value(X)
    if not math.isfinite(max_abs) and np.isinf(X).any():
        row = int(np.argmax(np.isinf(X).any(axis=1)))
        column = int(np.argmax(np.isinf(X[row])))
        raise ValueError(
            f"X must be finite in float32, or NaN for a skipped row; got {X[row, column]} in row {row}, column "
            f"{column} of a block of {len(X)} rows."
        )
    return X, max_abs


def _warn_if_unresolved(X: F32, sigma: float) -> None:
    # fmax and fmin ignore NaN
    max_abs = np.fmax(np.fmax.reduce(X, axis=0, initial=0), -np.fmin.reduce(X, axis=0, initial=0))
    error = float32_error(max_abs.astype(np.float64), sigma)
    if error > WARN_KERNEL_ERROR:
        warnings.warn(
            f"sigma={sigma:.3g} is too small for rows up to {max_abs.max():.3g} from the origin: rounding to float32 "
            f"changes the kernel by up to {min(error, 1):.2g} (of at most 1). Increase sigma or centre the rows.",
            stacklevel=find_stacklevel(),
        )


def median_rows(n: int, seed: int) -> I64:
    """Return the indices of up to 512 of n rows, in random runs of adjacent rows, to compute few blocks."""
    return random_runs(n, N_MEDIAN_RUNS, MEDIAN_RUN_ROWS, seed)


def _median_sigma(X: Any, seed: int) -> float:
    rows = median_rows(X.shape[0], seed)
    sample = _check_block(take_rows(X, rows))[0] if is_lazy(X) else X[rows]
    sample = sample[~np.isnan(sample).any(axis=1)]
    with one_blas_thread():  # BLAS threads can deadlock if another thread forks the process
        sigma = median_distance(sample) if len(sample) else 0.0
    if sigma == 0:
        suffix = " without NaN" if len(sample) < len(rows) else ""
        raise ValueError(
            f"sigma='median' requires distinct rows, but the {len(sample)} sampled rows{suffix} are equal. Pass a "
            "number as sigma."
        )
    return sigma
