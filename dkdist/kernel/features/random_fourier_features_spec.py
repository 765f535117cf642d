"""Random Fourier features of a kernel: how frequencies are drawn, and rows are multiplied by them.

    z(x) = sqrt(2/D) (sin Wx / sigma, cos Wx / sigma),   z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

The product Wx, with W (D/2, m), is taken for four rows and sixteen frequencies at a time, in registers, each number
summed in the order of the columns: a row's bits depend on no other row and on no BLAS. Several sigmas share it. Cost of
a row: D m flops, D/2 sines and cosines, 4 D bytes written. (Rahimi & Recht 2007; Yu et al. 2016.)

Frequencies of sigma = 1 are standard normal: independent, orthogonal within each m rows, or quasi-random. Those of
other kernels are made of them (`dkdist.kernel.kinds.registry`). Structured ones are a product of sign flips and
Hadamard transforms:

    W = diag(s) H D_3 H D_2 H D_1 / L^(3/2),   D_i random signs, s_r chi-distributed, L a power of two >= m

A product Wx then costs 3 L log2 L additions for every L frequencies instead of 2 m L flops, and its rows are orthogonal
within each L, so that they approximate the kernel better than independent ones ("structured orthogonal random
features", Yu et al. 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.base.embedding_spec import Specification, Tables
from dkdist.base.roles import Role
from dkdist.kernel.features.fourier_gradient import phase_gradient, structured_frequencies
from dkdist.kernel.kinds.kernel_frequencies import DRAWS
from dkdist.kernel.kinds.registry import get_kernel
from dkdist.loops.array_types import F32, F64, I64
from dkdist.plain.kept import kept

METHODS = ("iid", "orthogonal", "structured")
STRUCTURED_FROM = (
    64  # input dimensions above which the Hadamard product is the faster one: 3.8 against 5.3 us a row at 64
)
# bytes and rows of features that stay in the second level of a cache until they are used; of structured ones fewer,
# since what makes them is read once for four rows
TILE_BYTES, TILE_ROWS = 2**20, (32, 512)
STEP_BYTES, STEP_ROWS = 2**18, (16, 512)


@kept
@dataclass(frozen=True)
class FourierSpec(Specification["FourierParameters"]):
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

    def _tables(self) -> FourierParameters:
        return FourierParameters(self)


def tile_rows(row_bytes: int) -> int:
    """Rows of features that are best made at once: few, as they are then used in the cache; and in fours."""
    return int(np.clip(TILE_BYTES // row_bytes, *TILE_ROWS)) // 4 * 4


def step_rows(row_bytes: int) -> int:
    """The same of structured features that a step comes to right away."""
    return int(np.clip(STEP_BYTES // row_bytes, *STEP_ROWS)) // 4 * 4


class FourierParameters(Tables[FourierSpec]):
    """Drawn frequencies of a `FourierSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: FourierSpec) -> None:
        self.spec = spec
        self.tile = tile_rows(4 * spec.n_components)
        self._waves = (_StructuredWaves if spec.method == "structured" else _DenseWaves)(spec)

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
        X, lost = without_nan(np.ascontiguousarray(X, np.float32))
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


def without_nan(X: F32) -> tuple[F32, NDArray[np.bool_] | None]:
    """X with zeros for rows that hold NaN, which compiled loops do not know; and which these are, if there are any."""
    if not np.isnan(X.min(initial=0)):
        return X, None
    lost = np.asarray(np.isnan(X).any(axis=1))
    return np.where(lost[:, None], np.float32(0), X), lost


class _DenseWaves:
    """Frequencies that rows are multiplied by as they are."""

    def __init__(self, spec: FourierSpec) -> None:
        frequencies = _dense_loops().panels(np.ascontiguousarray(_drawn_dense(spec).T, np.float32))
        self._of = lru_cache(maxsize=4)(partial(_dense_loops().dense, frequencies, spec.n_components))
        self._at_once = tile_rows(4 * spec.n_components)

    def fill(self, X: F32, places: I64 | None, sigmas: tuple[float, ...], outs: F32) -> None:
        """Features of some rows of X, or of all, for each sigma."""
        _dense_loops().dense_features(X if places is None else X[places], self._of(sigmas), outs)

    def descend(self, X: F32, places: I64, sigma: float, *walk: Any) -> int:
        """Steps by the features of some rows."""
        return int(_dense_loops().dense_steps(X, places, self._of((sigma,)), self._at_once, *walk))


class _StructuredWaves:
    """Frequencies that are a product of signs and Hadamard transforms."""

    def __init__(self, spec: FourierSpec) -> None:
        self._of = lru_cache(maxsize=4)(partial(_structured_loops().structured, *_drawn_structured(spec)))
        self._at_once = step_rows(4 * spec.n_components)

    def fill(self, X: F32, places: I64 | None, sigmas: tuple[float, ...], outs: F32) -> None:
        """Features of some rows of X, or of all, for each sigma."""
        _structured_loops().structured_features(X, places, self._of(sigmas), outs)

    def descend(self, X: F32, places: I64, sigma: float, *walk: Any) -> int:
        """Steps by the features of some rows."""
        return int(_structured_loops().structured_steps(X, places, self._of((sigma,)), self._at_once, *walk))


def _dense_loops() -> Any:
    """Compiled loops of dense frequencies, which who only draws them does not load."""
    from dkdist.kernel.features import dense_features_loops

    return dense_features_loops


def _structured_loops() -> Any:
    """The same of structured frequencies."""
    from dkdist.kernel.features import structured_features_loops

    return structured_features_loops


def _drawn_dense(spec: FourierSpec) -> F64:
    """(F, m) frequencies for sigma = 1."""
    rng = np.random.default_rng([spec.seed, Role.FOURIER])
    g = DRAWS[spec.method](rng, spec.n_components // 2, spec.n_inputs)
    return get_kernel(spec.kernel).frequencies(rng, g)


def _drawn_structured(spec: FourierSpec) -> tuple[F32, F64]:
    """Signs, and lengths of rows for sigma = 1, as `structured` takes them."""
    rng = np.random.default_rng([spec.seed, Role.FOURIER])
    F, L = spec.n_components // 2, padded_length(spec.n_inputs)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    lengths = np.sqrt(rng.chisquare(L, F))
    lengths = get_kernel(spec.kernel).frequencies(rng, lengths[:, None])[:, 0]
    return signs, lengths / L**1.5  # three unnormalised Hadamard transforms stretch a vector by L^(3/2)


@lru_cache(maxsize=2)
def _frequencies(spec: FourierSpec) -> F64:
    """(F, m) what rows are multiplied by."""
    if spec.method != "structured":
        return _drawn_dense(spec) / spec.sigma
    signs, scales = _drawn_structured(spec)
    return structured_frequencies(signs, scales / spec.sigma, spec.n_inputs)


def padded_length(m: int) -> int:
    """The power of two L >= m, at least 16."""
    return max(16, 1 << (m - 1).bit_length())
