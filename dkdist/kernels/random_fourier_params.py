"""Parameters of random Fourier features: sampling of frequencies and their products with rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base.params import FittedParams, Params
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.serialization import serializable
from dkdist.kernels._tuning import (
    STEP_BYTES,
    STEP_ROWS,
    TILE_BYTES,
    TILE_ROWS,
)
from dkdist.kernels.registry import NORMAL_SAMPLERS, get_kernel


def phase_gradient(frequencies: F64, x: F64, gradient: F64, step: F64 | None = None) -> F64:
    """Return (m, k) derivatives by x (m,) of k functions with derivatives ``gradient`` (2 F, k) by the features.

        z = F^(-1/2) (sin p, cos p),  p = W x:   df/dx = W' (cos p f_sin - sin p f_cos) / F^(1/2)

    With a ``step``, derivatives of the features are averaged along the line segment ``step`` centred at x: the
    mean of cos over an interval of width 2 a is cos at its centre times sin(a) / a. x and step may be (m, k), one
    segment per function. ``frequencies`` W (F, m) are divided by sigma.
    """
    phases, F = frequencies @ x.reshape(len(x), -1), len(frequencies)
    slopes = np.cos(phases) * gradient[:F] - np.sin(phases) * gradient[F:]
    if step is not None:
        slopes *= np.sinc(frequencies @ step.reshape(len(step), -1) / (2 * np.pi))
    return np.asarray(frequencies.T @ slopes / np.sqrt(F))


def structured_frequencies(signs: F32, scales: F64, n_inputs: int) -> F64:
    """Return the (F, m) rows diag(s) H D_3 H D_2 H D_1 of `structured_features`, from its arguments."""
    blocks = []
    for D in signs.astype(np.float64):
        V = np.diag(D[0])[:, :n_inputs]
        V = _hadamard(D[2][:, None] * _hadamard(D[1][:, None] * _hadamard(V)))
        blocks.append(V)
    return np.concatenate(blocks)[: len(scales)] * scales[:, None]


def _hadamard(V: F64) -> F64:
    """Multiply V (L, m), L a power of two, by the unnormalised Hadamard matrix."""
    L, h = len(V), 1
    while h < L:
        pairs = V.reshape(L // (2 * h), 2, h, -1)
        V = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(L, -1)
        h *= 2
    return V


METHODS = ("iid", "orthogonal", "structured")


@serializable("FourierSpec")
@dataclass(frozen=True)
class FourierSpec(Params["FourierParameters"]):
    """Parameters of random Fourier features, as plain numbers."""

    _cache_size = 8

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
    """Return the number of rows of features in a tile that stays in the cache, a multiple of 4."""
    return int(np.clip(TILE_BYTES // row_bytes, *TILE_ROWS)) // 4 * 4


def step_rows(row_bytes: int) -> int:
    """Return the number of rows of structured features computed at a time for SGD steps."""
    return int(np.clip(STEP_BYTES // row_bytes, *STEP_ROWS)) // 4 * 4


class FourierParameters(FittedParams[FourierSpec]):
    """Materialized frequencies of a `FourierSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: FourierSpec) -> None:
        self.spec = spec
        self.tile = tile_rows(4 * spec.n_components)
        self._frequencies = (_StructuredFrequencies if spec.method == "structured" else _DenseFrequencies)(
            spec
        )

    def transform(self, X: F32) -> F32:
        """Return features (n, D) float32 of rows X (n, m) float32, sines then cosines, each row with norm 1.

        Rows with NaN give rows of NaN. X must not contain infinity.
        """
        return self.transform_each(X, [self.spec.sigma])[0]

    def transform_each(self, X: F32, sigmas: Sequence[float]) -> list[F32]:
        """Return the features for several sigmas, bitwise identical to `transform`; products are computed once."""
        outs = np.empty((len(sigmas), len(X), self.spec.n_components), np.float32)
        self._fill_each(X, sigmas, outs)
        return list(outs)

    def fill(self, X: F32, places: I64, out: F32) -> None:
        """Write the features of the rows ``places`` of X, in C order and without NaN, to ``out`` (len(places), D).

        Calls with `tile` rows are fastest.
        """
        self._frequencies.fill(X, places, (self.spec.sigma,), out[None])

    def descend(self, X: F32, places: I64, *sgd_arguments: Any) -> int:
        """Take SGD steps on these features, see `LazyRows.descend`."""
        return self._frequencies.descend(X, places, self.spec.sigma, *sgd_arguments)

    def _fill_each(self, X: F32, sigmas: Sequence[float], outs: F32) -> None:
        X, has_nan = zero_nan_rows(np.ascontiguousarray(X, np.float32))
        self._frequencies.fill(X, None, tuple(sigmas), outs)
        if has_nan is not None:
            outs[:, has_nan] = np.nan

    def pull_back(self, x: F32, gradient: F64, starts: F32 | None = None) -> F64:
        """Return (m, k) derivatives by the row x (m,) of k functions with derivatives ``gradient`` (D, k) by features.

        With ``starts`` (k, m), one per function, derivatives of the features are averaged over the line segment from
        start to x, so that their products with x - start are the differences of the features.
        """
        end, frequencies = x.astype(np.float64), _frequencies(self.spec)
        if starts is None:
            return phase_gradient(frequencies, end, gradient)
        return phase_gradient(frequencies, (end + starts).T / 2, gradient, (end - starts).T)


def zero_nan_rows(X: F32) -> tuple[F32, NDArray[np.bool_] | None]:
    """Return X with zeros in rows that contain NaN, and a mask of these rows (None without NaN).

    Compiled functions do not support NaN.
    """
    if not np.isnan(X.min(initial=0)):
        return X, None
    has_nan = np.asarray(np.isnan(X).any(axis=1))
    return np.where(has_nan[:, None], np.float32(0), X), has_nan


class _DenseFrequencies:
    """Dense matrix of frequencies, stored in panels."""

    def __init__(self, spec: FourierSpec) -> None:
        frequencies = _dense_functions().as_panels(np.ascontiguousarray(_sample_dense(spec).T, np.float32))
        self._scaled_by_sigma = lru_cache(maxsize=4)(
            partial(_dense_functions().scale_dense, frequencies, spec.n_components)
        )
        self._tile_rows = tile_rows(4 * spec.n_components)

    def fill(self, X: F32, places: I64 | None, sigmas: tuple[float, ...], outs: F32) -> None:
        """Fill ``outs`` with the features of rows ``places`` of X (None: all rows) for each sigma."""
        _dense_functions().dense_features(
            X if places is None else X[places], self._scaled_by_sigma(sigmas), outs
        )

    def descend(self, X: F32, places: I64, sigma: float, *sgd_arguments: Any) -> int:
        """Take SGD steps on the features of the rows ``places`` of X."""
        return int(
            _dense_functions().dense_steps(
                X, places, self._scaled_by_sigma((sigma,)), self._tile_rows, *sgd_arguments
            )
        )


class _StructuredFrequencies:
    """Structured frequencies: products of sign flips and Hadamard transforms."""

    def __init__(self, spec: FourierSpec) -> None:
        self._scaled_by_sigma = lru_cache(maxsize=4)(
            partial(_structured_functions().scale_structured, *_sample_structured(spec))
        )
        self._tile_rows = step_rows(4 * spec.n_components)

    def fill(self, X: F32, places: I64 | None, sigmas: tuple[float, ...], outs: F32) -> None:
        """Fill ``outs`` with the features of rows ``places`` of X (None: all rows) for each sigma."""
        _structured_functions().structured_features(X, places, self._scaled_by_sigma(sigmas), outs)

    def descend(self, X: F32, places: I64, sigma: float, *sgd_arguments: Any) -> int:
        """Take SGD steps on the features of the rows ``places`` of X."""
        return int(
            _structured_functions().structured_steps(
                X, places, self._scaled_by_sigma((sigma,)), self._tile_rows, *sgd_arguments
            )
        )


def _dense_functions() -> Any:
    """Import the compiled functions of dense frequencies lazily; sampling does not need them."""
    from dkdist.kernels import _dense_features_numba as dense_features_loops

    return dense_features_loops


def _structured_functions() -> Any:
    """Import the compiled functions of structured frequencies lazily."""
    from dkdist.kernels import _structured_features_numba as structured_features_loops

    return structured_features_loops


def _sample_dense(spec: FourierSpec) -> F64:
    """Draw (F, m) frequencies for sigma = 1."""
    rng = np.random.default_rng([spec.seed, RngStream.FOURIER])
    g = NORMAL_SAMPLERS[spec.method](rng, spec.n_components // 2, spec.n_inputs)
    return get_kernel(spec.kernel).frequencies(rng, g)


def _sample_structured(spec: FourierSpec) -> tuple[F32, F64]:
    """Draw the arguments of `scale_structured`: signs, and row lengths for sigma = 1."""
    rng = np.random.default_rng([spec.seed, RngStream.FOURIER])
    F, L = spec.n_components // 2, padded_length(spec.n_inputs)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    lengths = np.sqrt(rng.chisquare(L, F))
    lengths = get_kernel(spec.kernel).frequencies(rng, lengths[:, None])[:, 0]
    return signs, lengths / L**1.5  # three unnormalised Hadamard transforms multiply norms by L^(3/2)


@lru_cache(maxsize=2)
def _frequencies(spec: FourierSpec) -> F64:
    """Return the (F, m) frequencies divided by sigma."""
    if spec.method != "structured":
        return _sample_dense(spec) / spec.sigma
    signs, scales = _sample_structured(spec)
    return structured_frequencies(signs, scales / spec.sigma, spec.n_inputs)


def padded_length(m: int) -> int:
    """Return the power of two L >= m, at least 16."""
    return max(16, 1 << (m - 1).bit_length())
