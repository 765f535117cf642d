"""Ridge regression from sufficient statistics: one pass, any number of penalties.

    minimise |y - X w - b|^2 + alpha |w|^2:  (C + alpha I) w = c,  C = sum (x - m)(x - m)',  c = sum (x - m) y

All sums are weighted: a row of weight 2 is equivalent to two rows. Rows are shifted by a vector near the mean m, so
that centring loses no digits, and sums have a fixed order. Products of tiles have the dtype of the features and are
added in float64; with float32 features, the root mean square error of the sums is about 1e-7 of the largest sum. Only
the upper triangle of a Gram matrix is computed: 8 D^2 bytes for D features, D^2 / 2 multiply-adds per row. The Cholesky
factor for one penalty takes D^3 / 3 operations, the eigendecomposition for all penalties about 20 times as long; it is
used for many penalties, or if a penalty is so small that C + alpha I has no Cholesky factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from dkdist._numba.arrays import F64
from dkdist.linear._tuning import (
    COLUMNS_PER_PRODUCT,
    COPY_BYTES,
    MAX_CHOLESKY_ALPHAS,
    MAX_ROWS_PER_TILE,
    MAX_TILE_BYTES,
    MIN_ROWS_PER_TILE,
    ROWS_PER_STRIP,
)
from dkdist.linear.rows import F


@dataclass(frozen=True)
class Statistics:
    """Weighted sums over rows of 1 (``n``), z = x - shift, y, zz' (upper triangle), zy' and y^2; float64."""

    n: float
    shift: F64
    sum_z: F64
    sum_y: F64
    zz: F64
    zy: F64
    yy: F64

    @classmethod
    def empty(cls, n_features: int, n_targets: int) -> Statistics:
        """Return the sums over zero rows."""
        D, k = n_features, n_targets
        return cls(
            0.0, np.zeros(D), np.zeros(D), np.zeros(k), np.zeros((D, D)), np.zeros((D, k)), np.zeros(k)
        )


def tile_rows(n_features: int, dtype: np.dtype[Any]) -> int:
    """Return the number of rows per tile: 1,024 to 4,096, up to 128 MiB."""
    return int(np.clip(MAX_TILE_BYTES // (n_features * dtype.itemsize), MIN_ROWS_PER_TILE, MAX_ROWS_PER_TILE))


class GramAccumulator:
    """Accumulator of `Statistics`; products are computed for whole tiles of rows.

    Modifies the matrix of the initial statistics ``to``.
    """

    def __init__(self, to: Statistics, dtype: np.dtype[Any], centre: bool) -> None:
        (D, k), self.to, self._centre, self._n = to.zy.shape, to, centre, 0
        rows = tile_rows(D, dtype)
        self._Z, self._y = np.empty((rows, D), dtype), np.empty((rows, k), dtype)

    def add(self, X: F, y: F64, weights: F64 | None) -> None:
        """Add rows X (n, D) with targets y (n, k) and weights (n,)."""
        if self._centre and self.to.n == 0 and len(X):
            shift = X[:MIN_ROWS_PER_TILE].mean(axis=0, dtype=np.float64).astype(X.dtype).astype(np.float64)
            self.to = replace(self.to, shift=shift)
        start, max_rows = 0, int(np.clip(COPY_BYTES // (X.shape[1] * X.itemsize), 64, MIN_ROWS_PER_TILE))
        while start < len(X):
            rows = slice(start, start + min(max_rows, len(self._Z) - self._n))
            with np.errstate(over="ignore", invalid="ignore"):  # `normal_equations` raises for overflow
                self._gather(X[rows], y[rows], None if weights is None else weights[rows])
            start = rows.stop
            if self._n == len(self._Z):
                self._multiply()

    def total(self) -> Statistics:
        """Return the statistics of all rows."""
        self._multiply()
        return self.to

    def _gather(self, X: F, y: F64, weights: F64 | None) -> None:
        """Copy rows to the tile, and add them to all sums except zz' and zy'."""
        to, rows = self.to, slice(self._n, self._n + len(X))
        Z, w = self._Z[rows], np.ones(len(X)) if weights is None else weights
        np.subtract(X, to.shift.astype(X.dtype), out=Z)
        root = np.sqrt(w)
        if weights is not None:
            Z *= root[:, None].astype(Z.dtype)
        self._y[rows], self._n = root[:, None] * y, rows.stop
        self.to = replace(
            to, n=to.n + float(w.sum()), sum_z=to.sum_z + root.astype(Z.dtype) @ Z,
            sum_y=to.sum_y + w @ y, yy=to.yy + w @ y**2,
        )  # fmt: skip

    def _multiply(self) -> None:
        Z, y = self._Z[: self._n], self._y[: self._n]
        with np.errstate(over="ignore", invalid="ignore"):
            _add_upper(self.to.zz, Z)
            self.to, self._n = replace(self.to, zy=self.to.zy + Z.T @ y), 0


def add_rows(to: Statistics, X: F, y: F64, weights: F64 | None, centre: bool) -> Statistics:
    """Return ``to`` plus rows X (n, D), targets y (n, k) and weights (n,); modifies the matrix of ``to``."""
    sums = GramAccumulator(to, X.dtype, centre)
    sums.add(X, y, weights)
    return sums.total()


def _add_upper(zz: F64, Z: F) -> None:
    """Add the upper triangle of Z'Z: the product of each panel of columns with itself and with later columns."""
    D = Z.shape[1]
    buffer = np.empty(min(COLUMNS_PER_PRODUCT, D) * D, Z.dtype)
    for a in range(0, D, COLUMNS_PER_PRODUCT):
        b = min(a + COLUMNS_PER_PRODUCT, D)
        for first, stop in ((a, b), (b, D)):
            product = buffer[: (b - a) * (stop - first)].reshape(b - a, stop - first)
            np.matmul(Z[:, a:b].T, Z[:, first:stop], out=product)
            zz[a:b, first:stop] += product


def _strips(D: int) -> Iterator[tuple[slice, slice]]:
    """Yield strips of the upper triangle; temporary arrays of this size stay in the CPU cache."""
    for a in range(0, D, ROWS_PER_STRIP):
        yield slice(a, a + ROWS_PER_STRIP), slice(a, D)


def upper_copy(A: F64) -> F64:
    """Return a copy of the upper triangle; unwritten pages of the lower triangle take no memory."""
    copy = np.zeros(A.shape)  # np.zeros allocates pages on first write, unlike zeros_like
    for strip in _strips(len(A)):
        copy[strip] = A[strip]
    return copy


def merge(a: Statistics, b: Statistics) -> Statistics:
    """Return the sums over the rows of ``a`` and ``b``, with the shift of ``a``; inputs are not modified."""
    if a.n == 0 or b.n == 0:
        return b if a.n == 0 else a
    recentered = recenter(b, a.shift, addend=a.zz)
    return Statistics(
        a.n + b.n,
        a.shift,
        a.sum_z + recentered.sum_z,
        a.sum_y + b.sum_y,
        recentered.zz,
        a.zy + recentered.zy,
        a.yy + b.yy,
    )


def recenter(s: Statistics, shift: F64, addend: F64 | None = None) -> Statistics:
    """Return the statistics for another shift, plus ``addend``: zz + s d' + d s' + n d d', d = s.shift - shift."""
    zz = np.zeros(s.zz.shape)
    d = s.shift - shift
    sum_z = s.sum_z + s.n * d
    columns, rows = np.stack([sum_z, d], axis=1), np.stack([d, s.sum_z])
    for strip in _strips(len(d)):
        added = columns[strip[0]] @ rows[:, strip[1]] if d.any() else 0.0
        added += 0.0 if addend is None else addend[strip]
        np.add(s.zz[strip], added, out=zz[strip])
    return replace(s, shift=shift, sum_z=sum_z, zz=zz, zy=s.zy + np.outer(d, s.sum_y))


def shift_targets(s: Statistics, offset: F64) -> Statistics:
    """Return the sums for targets y + offset, except y^2, which is not needed to solve."""
    return replace(s, sum_y=s.sum_y + s.n * offset, zy=s.zy + np.outer(s.sum_z, offset))


@dataclass(frozen=True)
class NormalEquations:
    """C (upper triangle) and c of the normal equations, the means, and the total weight ``n`` of the rows."""

    n: float
    mean_x: F64
    mean_y: F64
    C: F64
    c: F64


def normal_equations(s: Statistics, centre: bool) -> NormalEquations:
    """Return the normal equations, centred unless there is no intercept; ValueError for overflow."""
    if not all(np.isfinite(part).all() for part in (np.diag(s.zz), s.zy, s.yy)):
        raise ValueError(
            "X, y and sample_weight must have finite sums of squares in the dtype of X; got an overflow. Divide them "
            "by a constant."
        )
    if not centre:
        return NormalEquations(s.n, np.zeros_like(s.shift), np.zeros_like(s.sum_y), s.zz, s.zy)
    mean_z, mean_y = s.sum_z / s.n, s.sum_y / s.n
    C = np.zeros(s.zz.shape)
    for strip in _strips(len(C)):
        np.subtract(s.zz[strip], np.outer(s.sum_z[strip[0]], mean_z[strip[1]]), out=C[strip])
    return NormalEquations(s.n, s.shift + mean_z, mean_y, C, s.zy - np.outer(s.sum_z, mean_y))


@dataclass(frozen=True)
class Spectrum:
    """C = V diag(values) V', and V'c as ``right``.

    The magnitude of the most negative eigenvalue, if any, estimates rounding errors. Smaller eigenvalues are set to
    infinity, which removes their directions from all models.
    """

    values: F64
    V: F64
    right: F64

    def weights(self, alpha: float) -> F64:
        """Return (V'c) / (values + alpha), the solution in the basis V, (n_features, n_targets)."""
        return np.asarray(self.right / (self.values + alpha)[:, None])


def spectrum(equations: NormalEquations) -> Spectrum:
    """Return the eigendecomposition for all alphas: about 10 D^3 operations, 3 matrices of 8 D^2 bytes."""
    values, V = scipy.linalg.eigh(equations.C.T, lower=True, driver="evd", check_finite=False)
    values = np.where(values > max(0.0, -values[0]), values, np.inf)
    return Spectrum(values, V, V.T @ equations.c)


@dataclass(frozen=True)
class Inverse:
    """(C + alpha I)^-1, as a Cholesky factor or as V diag(inverse) V'."""

    factor: F64
    inverse: F64 | None = None

    def times(self, right: F64) -> F64:
        """Return (C + alpha I)^-1 ``right`` (n_features, k)."""
        if self.inverse is None:
            return np.asarray(scipy.linalg.cho_solve((self.factor, True), right, check_finite=False))
        return np.asarray(self.factor @ (self.inverse[:, None] * (self.factor.T @ right)))


def iter_inverses(equations: NormalEquations, alphas: F64) -> Iterator[Inverse]:
    """Yield the inverse for every alpha; uses eigenvalues if alpha is below the rounding error of C."""
    eigen = spectrum(equations) if len(alphas) > MAX_CHOLESKY_ALPHAS else None
    for alpha in alphas.tolist():
        if eigen is None:
            A = upper_copy(equations.C)
            A[np.diag_indices_from(A)] += alpha
            try:
                # the transpose has Fortran order, so LAPACK does not copy it
                factor, _ = scipy.linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
                yield Inverse(factor)
                continue
            except np.linalg.LinAlgError:
                eigen = spectrum(equations)
        yield Inverse(eigen.V, 1.0 / (eigen.values + alpha))


def invert(equations: NormalEquations, alpha: float) -> Inverse:
    """Return the inverse for one alpha."""
    return next(iter_inverses(equations, np.array([alpha])))


def solve(equations: NormalEquations, inverse: Inverse) -> tuple[F64, F64]:
    """Return coefficients (n_features, n_targets) and intercepts."""
    w = inverse.times(equations.c)
    return w, equations.mean_y - equations.mean_x @ w


def held_out_errors(equations: NormalEquations, held: Statistics, alphas: F64) -> F64:
    """Return the mean squared error (n_alphas,) on held-out rows, computed from their statistics."""
    s, mean_y = recenter(held, equations.mean_x), equations.mean_y
    zy = s.zy - np.outer(s.sum_z, mean_y)
    yy = s.yy - 2.0 * mean_y * s.sum_y + s.n * mean_y**2
    W = np.concatenate([inverse.times(equations.c) for inverse in iter_inverses(equations, alphas)], axis=1)
    quadratic = np.einsum("ij,ij->j", W, scipy.linalg.blas.dsymm(1.0, s.zz.T, W, lower=True))
    linear = np.einsum("ij,ij->j", W, np.tile(zy, len(alphas)))
    errors = np.tile(yy, len(alphas)) - 2.0 * linear + quadratic
    return np.asarray(errors.reshape(len(alphas), -1).mean(axis=1) / held.n)
