"""Random Fourier features of a kernel: how frequencies are drawn, and rows are multiplied by them.

    z(x) = sqrt(2/D) (sin Wx / sigma, cos Wx / sigma),   z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

The product Wx, with W (D/2, m), is taken for four rows and sixteen frequencies at a time, in registers, each number
summed in the order of the columns: a row's bits depend on no other row and on no BLAS. Several sigmas share it. Cost of
a row: D m flops, D/2 sines and cosines, 4 D bytes written. (Rahimi & Recht 2007; Yu et al. 2016.)

Frequencies of sigma = 1 are standard normal: independent, orthogonal within each m rows, or quasi-random. Those of
other kernels are made of them (`kinds.kernel_frequencies`). Structured ones are a product of sign flips and Hadamard
transforms:

    W = diag(s) H D_3 H D_2 H D_1 / L^(3/2),   D_i random signs, s_r chi-distributed, L a power of two >= m

A product Wx then costs 3 L log2 L additions for every L frequencies instead of 2 m L flops, and its rows are orthogonal
within each L, so that they approximate the kernel better than independent ones ("structured orthogonal random
features", Yu et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dkdist.base.embedding_spec import Specification, Tables
from dkdist.base.roles import Role
from dkdist.kernel.features.fourier_gradient import phase_gradient, structured_frequencies
from dkdist.kernel.kinds.kernel_frequencies import FREQUENCIES, RADIAL
from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.elementary import f32, sincospi
from dkdist.loops.points import read_only
from dkdist.loops.registers.hadamard import structured_product
from dkdist.loops.registers.vectors import add_outer, load, spread, store, zeros
from dkdist.loops.sobol import sobol_normals
from dkdist.plain.kept import kept

METHODS = ("iid", "orthogonal", "structured")
STRUCTURED_FROM = (
    64  # input dimensions above which the Hadamard product is the faster one: 3.8 against 5.3 us a row at 64
)
ROWS, PART = 32, 256  # rows and frequencies whose phases are made at once
LANES = 16  # frequencies of a panel
TILE_BYTES, TILE_ROWS = (
    2**20,
    (32, 512),
)  # of features that stay in the second level of a cache until they are used
SOBOL_DIMS = 16  # up to which quasi-random frequencies have the least error: 10 times less at d = 2


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


class FourierParameters(Tables[FourierSpec]):
    """Drawn frequencies of a `FourierSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: FourierSpec) -> None:
        self.spec = spec
        self.tile = int(np.clip(TILE_BYTES // (4 * spec.n_components), *TILE_ROWS))
        """Rows whose features are best made at once: few, as they are then used in the cache."""
        self._fill = (_structured if spec.method == "structured" else _dense)(spec)

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
        self._fill(X, places, [self.spec.sigma], out[None])

    def _fill_each(self, X: F32, sigmas: Sequence[float], outs: F32) -> None:
        X, lost = without_nan(np.ascontiguousarray(X, np.float32))
        self._fill(X, None, sigmas, outs)
        if lost is not None:
            outs[:, lost] = np.nan

    def pull_back(self, x: F32, gradient: F64) -> F64:
        """(m, k) derivatives by the row x (m,) of k functions with derivatives ``gradient`` (D, k) by its features."""
        return phase_gradient(_frequencies(self.spec), x.astype(np.float64), gradient)


def without_nan(X: F32) -> tuple[F32, NDArray[np.bool_] | None]:
    """X with zeros for rows that hold NaN, which compiled loops do not know; and which these are, if there are any."""
    if not np.isnan(X.min(initial=0)):
        return X, None
    lost = np.asarray(np.isnan(X).any(axis=1))
    return np.where(lost[:, None], np.float32(0), X), lost


Fill = Callable[[F32, I64 | None, Sequence[float], F32], None]
"""Of some rows of X, or of all."""


def _dense(spec: FourierSpec) -> Fill:
    frequencies = read_only(panels(np.ascontiguousarray(_drawn_dense(spec).T, np.float32)))

    def fill(X: F32, places: I64 | None, sigmas: Sequence[float], outs: F32) -> None:
        dense_features(X if places is None else X[places], frequencies, sigmas, outs)

    return fill


def dense_features(X: F32, frequencies: F32, sigmas: Sequence[float], outs: F32) -> None:
    """Fill each of ``outs`` (n_sigmas, n, 2F) with the features of rows ``X`` (n, m) for its sigma.

    ``frequencies`` are `panels` of the transposed ones of sigma = 1, (m, F).
    """
    factors, scale = (
        (1 / (np.pi * np.asarray(sigmas))).astype(np.float32),
        f32(1 / np.sqrt(outs.shape[2] // 2)),
    )
    _dense_rows(read_only(X), read_only(frequencies), read_only(factors), scale, outs)


def panels(Wt: F32) -> F32:
    """Frequencies Wt (m, F), sixteen side by side: (ceil(F / 16), m, 16), zeros after the last one."""
    m, F = Wt.shape
    padded = np.zeros((m, -(-F // LANES) * LANES), np.float32)
    padded[:, :F] = Wt
    return np.ascontiguousarray(padded.reshape(m, -1, LANES).transpose(1, 0, 2))


@inlined(ELEMENTWISE)
def _sine_cosine(phases, factor, scale, sines, cosines):  # type: ignore[no-untyped-def]
    for r in range(len(sines)):
        sine, cosine = sincospi(phases[r] * factor)
        sines[r] = scale * sine
        cosines[r] = scale * cosine


@loop(ELEMENTWISE)
def _dense_rows(X, panels, factors, scale, outs):  # type: ignore[no-untyped-def]
    """outs[s] <- scale (sin, cos)(pi factors[s] X W^T) for contiguous X (n, m) and panels of W^T."""
    (n, m), F = X.shape, outs.shape[2] // 2
    phases = np.empty((ROWS, PART), f32)
    for first in range(0, n, ROWS):
        rows = min(ROWS, n - first)
        for start in range(0, F, PART):
            width = min(PART, F - start)
            for place in range(0, width, LANES):
                panel = (start + place) * m
                for i in range(0, rows - 3, 4):
                    four = zeros(4, LANES)
                    for a in range(m):
                        w = load(panels, panel + a * LANES, 0, 1, LANES)
                        four = add_outer(spread(X, (first + i) * m + a, m, 4, LANES), w, four)
                    store(four, phases, i * PART + place, PART)
                for i in range(rows // 4 * 4, rows):
                    one = zeros(1, LANES)
                    for a in range(m):
                        w = load(panels, panel + a * LANES, 0, 1, LANES)
                        one = add_outer(spread(X, (first + i) * m + a, m, 1, LANES), w, one)
                    store(one, phases, i * PART + place, PART)
            for s in range(len(factors)):
                for i in range(rows):
                    out = outs[s, first + i]
                    sines, cosines = out[start : start + width], out[F + start : F + start + width]
                    _sine_cosine(phases[i], factors[s], scale, sines, cosines)


def _drawn_dense(spec: FourierSpec) -> F64:
    """(F, m) frequencies for sigma = 1."""
    rng = np.random.default_rng([spec.seed, Role.FOURIER])
    g = DRAWS[spec.method](rng, spec.n_components // 2, spec.n_inputs)
    return g if spec.kernel == "gaussian" else FREQUENCIES[spec.kernel](rng, g)


def _drawn_structured(spec: FourierSpec) -> tuple[F32, F64]:
    """Signs, and lengths of rows for sigma = 1, as `structured_features` takes them."""
    rng = np.random.default_rng([spec.seed, Role.FOURIER])
    F, L = spec.n_components // 2, padded_length(spec.n_inputs)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    lengths = np.sqrt(rng.chisquare(L, F))
    if spec.kernel != "gaussian":
        lengths = RADIAL[spec.kernel](rng, lengths[:, None])[:, 0]
    return signs, lengths / L**1.5  # three unnormalised Hadamard transforms stretch a vector by L^(3/2)


@lru_cache(maxsize=2)
def _frequencies(spec: FourierSpec) -> F64:
    """(F, m) what rows are multiplied by."""
    if spec.method != "structured":
        return _drawn_dense(spec) / spec.sigma
    signs, scales = _drawn_structured(spec)
    return structured_frequencies(signs, scales / spec.sigma, spec.n_inputs)


def _structured(spec: FourierSpec) -> Fill:
    signs, scales = _drawn_structured(spec)
    signs = read_only(signs)

    @lru_cache(maxsize=4)
    def lengths(sigmas: tuple[float, ...]) -> F32:
        return read_only((scales / (np.pi * np.asarray(sigmas)[:, None])).astype(np.float32))

    def fill(X: F32, places: I64 | None, sigmas: Sequence[float], outs: F32) -> None:
        structured_features(X, places, signs, lengths(tuple(sigmas)), outs)

    return fill


def padded_length(m: int) -> int:
    """The power of two L >= m, at least 16."""
    return max(16, 1 << (m - 1).bit_length())


def structured_features(X: F32, places: I64 | None, signs: F32, lengths: F32, outs: F32) -> None:
    """Fill each of ``outs`` (n_sigmas, n, 2F) with the features of the rows ``places`` (n,) of X (., m), or of all.

    ``signs`` (n_blocks, 3, L) are +1 or -1, ``lengths`` (n_sigmas, F) those of the rows of W over L^(3/2) and over
    pi, since phases are in half turns; F <= n_blocks L.
    """
    scale = f32(1 / np.sqrt(lengths.shape[1]))
    places = np.arange(len(X)) if places is None else places
    _structured_rows(read_only(X), read_only(places), read_only(signs), read_only(lengths), scale, outs)


@loop(ELEMENTWISE)
def _structured_rows(X, places, signs, lengths, scale, outs):  # type: ignore[no-untyped-def]
    """outs[s] <- scale (sin, cos)(pi lengths[s] H D_3 H D_2 H D_1 x) of the rows ``places`` of X, row by row.

    All products of a row come before its sines: loops over blocks of frequencies outside those over rows are no faster
    where features stay in a cache, and slower where they are written to memory, in many short runs.
    """
    n_blocks, _, L = signs.shape
    m, F = X.shape[1], lengths.shape[1]
    padded, phases = np.zeros(L, f32), np.empty(n_blocks * L, f32)
    for i in range(len(places)):
        x = X[places[i]]
        for r in range(m):
            padded[r] = x[r]
        for block in range(n_blocks):
            structured_product(padded, m, signs[block], phases[block * L : (block + 1) * L])
        for s in range(len(lengths)):
            scales, sines, cosines = lengths[s], outs[s, i, :F], outs[s, i, F:]
            for r in range(F):
                sine, cosine = sincospi(phases[r] * scales[r])
                sines[r] = scale * sine
                cosines[r] = scale * cosine


def orthogonal_frequencies(gaussian: F64, norms: F64) -> F64:
    """Frequencies whose directions are orthogonal within each m rows: (F, m), for sigma = 1.

    ``gaussian`` holds ceil(F/m) standard normal m x m matrices, ``norms`` the F row lengths, chi-distributed
    with m degrees of freedom, so that each row alone is exactly standard normal.
    """
    blocks = []
    for matrix in gaussian:
        Q, R = np.linalg.qr(matrix)
        blocks.append((Q * np.sign(np.diag(R))).T)  # the sign makes Q uniform on the orthogonal group
    return np.concatenate(blocks)[: len(norms)] * norms[:, None]


def _iid(rng: np.random.Generator, count: int, d: int) -> F64:
    return rng.standard_normal((count, d))


def _orthogonal(rng: np.random.Generator, count: int, d: int) -> F64:
    gaussian = rng.standard_normal((-(-count // d), d, d))
    return orthogonal_frequencies(gaussian, np.sqrt(rng.chisquare(d, count)))


DRAWS: dict[str, Callable[[np.random.Generator, int, int], F64]] = {
    "orthogonal": _orthogonal,
    "sobol": sobol_normals,
    "iid": _iid,
}
"""Standard normal frequencies (count, d) by method."""


def least_error(d: int) -> str:
    """The method whose frequencies of d dimensions have the least error."""
    return "sobol" if d <= SOBOL_DIMS else "orthogonal"
