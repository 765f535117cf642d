"""Ridge regression from its normal equations: coefficients of one penalty, errors of many on rows that were held out.

One factor of a penalty takes D^3 / 3 operations (Cholesky), the eigenvalues that all penalties share about 20 times as
long: they are found where there are many penalties, or one so small that C has no factor.

Ridge regression from sufficient statistics: one pass, any number of penalties.

    minimise |y - X w - b|^2 + alpha |w|^2:  (C + alpha I) w = c,  C = sum (x - m)(x - m)',  c = sum (x - m) y

Every sum is weighted: a row of weight 2 counts as two rows. Statistics are taken about a shift near the mean m, so that
centring loses nothing; they are added in a fixed order. Products run over tiles of some thousand rows in the dtype of
the features and are added in float64: of float32 features the sums are off by some 1e-7 of the largest, root mean
square. Only the upper triangle of a Gram matrix is made and kept: 8 D^2 bytes with D features, half of D^2
multiply-adds a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from dkdist._numba.arrays import F64
from dkdist.linear.rows import F

TILE, LEAST_TILE = 4096, 1024  # rows of a product: the more, the less often it is added in float64
TILE_BYTES = 2**27
PIECE_BYTES = 2**20  # of rows that are gathered at once: they stay in the cache
PANEL = 1024  # columns of a product
STRIP = 64  # rows of a Gram matrix that are changed at once


@dataclass(frozen=True)
class Statistics:
    """Weighted sums over rows of 1 (``n``), z = x - shift and y: z, y, zz' (upper triangle), zy', y^2; all float64."""

    n: float
    shift: F64
    sum_z: F64
    sum_y: F64
    zz: F64
    zy: F64
    yy: F64

    @classmethod
    def empty(cls, n_features: int, n_targets: int) -> Statistics:
        """Sums over no rows."""
        D, k = n_features, n_targets
        return cls(
            0.0, np.zeros(D), np.zeros(D), np.zeros(k), np.zeros((D, D)), np.zeros((D, k)), np.zeros(k)
        )


def tile_rows(n_features: int, dtype: np.dtype[Any]) -> int:
    """How many rows a product is made of: 1,024 to 4,096, which take up to 128 MiB."""
    return int(np.clip(TILE_BYTES // (n_features * dtype.itemsize), LEAST_TILE, TILE))


class GramAccumulator:
    """Statistics, of rows that come a few at a time: they are gathered until a product of a whole tile is made.

    ``to`` belongs to the sums alone: its matrix is added to.
    """

    def __init__(self, to: Statistics, dtype: np.dtype[Any], centre: bool) -> None:
        (D, k), self.to, self._centre, self._n = to.zy.shape, to, centre, 0
        rows = tile_rows(D, dtype)
        self._Z, self._y = np.empty((rows, D), dtype), np.empty((rows, k), dtype)

    def add(self, X: F, y: F64, weights: F64 | None) -> None:
        """Rows X (n, D), their targets y (n, k) and weights (n,)."""
        if self._centre and self.to.n == 0 and len(X):
            shift = X[:LEAST_TILE].mean(axis=0, dtype=np.float64).astype(X.dtype).astype(np.float64)
            self.to = replace(self.to, shift=shift)
        start, most = 0, int(np.clip(PIECE_BYTES // (X.shape[1] * X.itemsize), 64, LEAST_TILE))
        while start < len(X):
            here = slice(start, start + min(most, len(self._Z) - self._n))
            with np.errstate(over="ignore", invalid="ignore"):  # refused in the end, by `centred`
                self._gather(X[here], y[here], None if weights is None else weights[here])
            start = here.stop
            if self._n == len(self._Z):
                self._multiply()

    def total(self) -> Statistics:
        """Of all that came."""
        self._multiply()
        return self.to

    def _gather(self, X: F, y: F64, weights: F64 | None) -> None:
        """Rows that there is room for; of them all sums but zz and zy."""
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
    """The sums with rows X (n, D), their targets y (n, k) and weights (n,) more; ``to``'s own matrix is added to."""
    sums = GramAccumulator(to, X.dtype, centre)
    sums.add(X, y, weights)
    return sums.total()


def _add_upper(zz: F64, Z: F) -> None:
    """Add the upper triangle of Z'Z: of each panel of columns the product with itself, and with those after it."""
    D = Z.shape[1]
    room = np.empty(min(PANEL, D) * D, Z.dtype)
    for a in range(0, D, PANEL):
        b = min(a + PANEL, D)
        for here, there in ((a, b), (b, D)):
            product = room[: (b - a) * (there - here)].reshape(b - a, there - here)
            np.matmul(Z[:, a:b].T, Z[:, here:there], out=product)
            zz[a:b, here:there] += product


def _strips(D: int) -> Iterator[tuple[slice, slice]]:
    """The upper triangle, some rows at a time: what is made of them stays in the cache."""
    for a in range(0, D, STRIP):
        yield slice(a, a + STRIP), slice(a, D)


def upper_copy(A: F64) -> F64:
    """The upper triangle of a matrix in one of its own, whose other half takes no memory until it is written."""
    copy = np.zeros(A.shape)  # where zeros_like writes every one
    for strip in _strips(len(A)):
        copy[strip] = A[strip]
    return copy


def merge(a: Statistics, b: Statistics) -> Statistics:
    """The sums over the rows of both, about the first's shift; neither is changed."""
    if a.n == 0 or b.n == 0:
        return b if a.n == 0 else a
    moved = recenter(b, a.shift, plus=a.zz)
    return Statistics(
        a.n + b.n, a.shift, a.sum_z + moved.sum_z, a.sum_y + b.sum_y, moved.zz, a.zy + moved.zy, a.yy + b.yy
    )


def recenter(s: Statistics, shift: F64, plus: F64 | None = None) -> Statistics:
    """The same rows about another shift, d = s.shift - shift: zz + s d' + d s' + n d d', and ``plus`` another zz."""
    zz = np.zeros(s.zz.shape)
    d = s.shift - shift
    left = s.sum_z + s.n * d
    columns, rows = np.stack([left, d], axis=1), np.stack([d, s.sum_z])
    for strip in _strips(len(d)):
        added = columns[strip[0]] @ rows[:, strip[1]] if d.any() else 0.0
        added += 0.0 if plus is None else plus[strip]
        np.add(s.zz[strip], added, out=zz[strip])
    return replace(s, shift=shift, sum_z=left, zz=zz, zy=s.zy + np.outer(d, s.sum_y))


def of_targets_plus(s: Statistics, offset: F64) -> Statistics:
    """The sums about targets y + offset; y^2 is left out, which no solution needs."""
    return replace(s, sum_y=s.sum_y + s.n * offset, zy=s.zy + np.outer(s.sum_z, offset))


@dataclass(frozen=True)
class Centred:
    """C (upper triangle) and c of the normal equations of rows that weigh ``n``, with the means they are about."""

    n: float
    mean_x: F64
    mean_y: F64
    C: F64
    c: F64


def centred(s: Statistics, centre: bool) -> Centred:
    """Normal equations about the means, or about zero where there is no intercept.

    ValueError where sums of squares are no floats.
    """
    if not all(np.isfinite(part).all() for part in (np.diag(s.zz), s.zy, s.yy)):
        raise ValueError(
            "the features, targets or weights are so large that sums of their squares are no floats of the features' "
            "dtype: divide them by a number"
        )
    if not centre:
        return Centred(s.n, np.zeros_like(s.shift), np.zeros_like(s.sum_y), s.zz, s.zy)
    mean_z, mean_y = s.sum_z / s.n, s.sum_y / s.n
    C = np.zeros(s.zz.shape)
    for strip in _strips(len(C)):
        np.subtract(s.zz[strip], np.outer(s.sum_z[strip[0]], mean_z[strip[1]]), out=C[strip])
    return Centred(s.n, s.shift + mean_z, mean_y, C, s.zy - np.outer(s.sum_z, mean_y))


FACTORS = 12  # Cholesky factors that cost less than one eigendecomposition


@dataclass(frozen=True)
class Spectrum:
    """C = V diag(values) V', and V'c as ``right``.

    The most negative eigenvalue, where there is one, shows how large rounding errors are: directions that
    reach no further carry nothing, and have an infinite value here, which takes them out of every model.
    """

    values: F64
    V: F64
    right: F64

    def weights(self, alpha: float) -> F64:
        """(V'c) / (values + alpha): the solution in the coordinates of V, shape (n_features, n_targets)."""
        return np.asarray(self.right / (self.values + alpha)[:, None])


def spectrum(equations: Centred) -> Spectrum:
    """The eigendecomposition that every alpha shares: about 10 D^3 operations, 3 matrices of 8 D^2 bytes."""
    values, V = scipy.linalg.eigh(equations.C.T, lower=True, driver="evd", check_finite=False)
    values = np.where(values > max(0.0, -values[0]), values, np.inf)
    return Spectrum(values, V, V.T @ equations.c)


@dataclass(frozen=True)
class Inverse:
    """(C + alpha I)^-1, as a Cholesky factor or as V diag(inverse) V'."""

    factor: F64
    inverse: F64 | None = None

    def times(self, right: F64) -> F64:
        """(C + alpha I)^-1 ``right`` (n_features, k)."""
        if self.inverse is None:
            return np.asarray(scipy.linalg.cho_solve((self.factor, True), right, check_finite=False))
        return np.asarray(self.factor @ (self.inverse[:, None] * (self.factor.T @ right)))


def inverses(equations: Centred, alphas: F64) -> Iterator[Inverse]:
    """For every alpha; one at a time is alive. By eigenvalues where alpha is below the rounding error of C."""
    eigen = spectrum(equations) if len(alphas) > FACTORS else None
    for alpha in alphas.tolist():
        if eigen is None:
            A = upper_copy(equations.C)
            A[np.diag_indices_from(A)] += alpha
            try:
                # the transpose is in the order that LAPACK knows, and is not copied
                factor, _ = scipy.linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
                yield Inverse(factor)
                continue
            except np.linalg.LinAlgError:
                eigen = spectrum(equations)
        yield Inverse(eigen.V, 1.0 / (eigen.values + alpha))


def inverse_of(equations: Centred, alpha: float) -> Inverse:
    """The inverse for one alpha."""
    return next(inverses(equations, np.array([alpha])))


def solution(equations: Centred, inverse: Inverse) -> tuple[F64, F64]:
    """Coefficients (n_features, n_targets) and intercepts."""
    w = inverse.times(equations.c)
    return w, equations.mean_y - equations.mean_x @ w


def held_out_errors(equations: Centred, held: Statistics, alphas: F64) -> F64:
    """Mean squared error of every alpha, (n_alphas,), on rows known by their statistics alone."""
    s, mean_y = recenter(held, equations.mean_x), equations.mean_y
    zy = s.zy - np.outer(s.sum_z, mean_y)
    yy = s.yy - 2.0 * mean_y * s.sum_y + s.n * mean_y**2
    W = np.concatenate([inverse.times(equations.c) for inverse in inverses(equations, alphas)], axis=1)
    quadratic = np.einsum("ij,ij->j", W, scipy.linalg.blas.dsymm(1.0, s.zz.T, W, lower=True))
    linear = np.einsum("ij,ij->j", W, np.tile(zy, len(alphas)))
    errors = np.tile(yy, len(alphas)) - 2.0 * linear + quadratic
    return np.asarray(errors.reshape(len(alphas), -1).mean(axis=1) / held.n)
