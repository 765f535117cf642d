"""Ridge regression from sufficient statistics: one pass, any number of penalties.

    minimise |y - X w - b|^2 + alpha |w|^2:  (C + alpha I) w = c,  C = sum (x - m)(x - m)',  c = sum (x - m) y

Statistics are taken about a shift near the mean m, so that centring loses nothing; they are added in a
fixed order. Products run over tiles of 512 rows in the dtype of the features and are added in float64. Only
the upper triangle of a Gram matrix is kept: 8 D^2 bytes with D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist.learners.rows import F, Rows, no_rows, usable
from dkdist.loops.array_types import F64, I64

TILE = 512  # rows of a product
PANEL = 512  # columns of a product: it stays in the cache until it is added


@dataclass(frozen=True)
class Statistics:
    """Sums over n rows of z = x - shift and of y: z, y, zz' (upper triangle), zy', y^2; all float64."""

    n: int
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
        return cls(0, np.zeros(D), np.zeros(D), np.zeros(k), np.zeros((D, D)), np.zeros((D, k)), np.zeros(k))


@dataclass(frozen=True)
class Sums:
    """Statistics of all rows, or of (training, held-out) rows; and the rows that were skipped."""

    parts: tuple[Statistics, ...]
    skipped: I64


def accumulate(
    dtype: np.dtype[Any], centre: bool, split: bool, codes: F64 | None, blocks: Iterator[Any], rows: Rows
) -> Sums:
    """Statistics of the rows of several blocks in one task: one part, or with ``split`` training and held-out.

    One block and one Gram matrix for each part are alive; ``centre`` is for models with an intercept. With ``codes``
    (n_classes, n_targets) the targets of the rows are classes.
    """
    n_targets = rows.targets.shape[1] if codes is None else codes.shape[1]
    parts = [Statistics.empty(rows.n_features, n_targets) for _ in range(1 + split)]
    skipped = [no_rows()]
    for X, y, held_out, bad in usable(dtype, blocks, rows):
        skipped.append(bad)
        for T, given, held in tiles(X, y, held_out):
            u = given if codes is None else codes[given]
            for part, mask in enumerate([~held, held] if split else [np.ones_like(held)]):
                if mask.all():
                    parts[part] = _added(parts[part], T, u, centre)
                elif mask.any():
                    parts[part] = _added(parts[part], T[mask], u[mask], centre)
    return Sums(tuple(parts), np.concatenate(skipped))


def tiles(*arrays: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Arrays of equal length, at most 512 rows of them at a time."""
    for a in range(0, len(arrays[0]), TILE):
        yield tuple(array[a : a + TILE] for array in arrays)


def add_rows(to: Statistics, X: F, y: F64, centre: bool) -> Statistics:
    """The sums with rows X (n, D) and their targets y (n, k) more; ``to``'s own matrix is added to."""
    for T, u in tiles(X, y):
        to = _added(to, T, u, centre)
    return to


def _added(to: Statistics, T: F, y: F64, centre: bool) -> Statistics:
    """The sums with a tile more; ``to``'s own matrix is added to (it belongs to the caller alone)."""
    shift = to.shift
    if centre and to.n == 0:
        shift = T.mean(axis=0, dtype=np.float64).astype(T.dtype).astype(np.float64)
    Z = T - shift.astype(T.dtype) if centre else T
    for a in range(0, Z.shape[1], PANEL):
        to.zz[a : a + PANEL, a:] += Z[:, a : a + PANEL].T @ Z[:, a:]
    return Statistics(
        to.n + len(Z), shift, to.sum_z + Z.sum(axis=0, dtype=np.float64), to.sum_y + y.sum(axis=0),
        to.zz, to.zy + Z.T @ y.astype(Z.dtype), to.yy + (y**2).sum(axis=0),
    )  # fmt: skip


def merge(a: Statistics, b: Statistics) -> Statistics:
    """The sums over the rows of both, about the first's shift; neither is changed."""
    if a.n == 0 or b.n == 0:
        return b if a.n == 0 else a
    zz = a.zz.copy()
    moved = about(b, a.shift, into=zz)
    return Statistics(
        a.n + b.n, a.shift, a.sum_z + moved.sum_z, a.sum_y + b.sum_y, zz, a.zy + moved.zy, a.yy + b.yy
    )


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Each part merged with its own kind."""
    parts = tuple(merge(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    return Sums(parts, np.concatenate([a.skipped, b.skipped]))


def about(s: Statistics, shift: F64, into: F64 | None = None) -> Statistics:
    """The same rows about another shift, d = s.shift - shift: zz + s d' + d s' + n d d', added to ``into``.

    ``into`` is zero where it is not given.
    """
    zz = np.zeros_like(s.zz) if into is None else into
    d = s.shift - shift
    left = s.sum_z + s.n * d
    for a in range(0, len(d), PANEL):
        rows = slice(a, a + PANEL)
        zz[rows, a:] += s.zz[rows, a:]
        if d.any():
            zz[rows, a:] += np.outer(left[rows], d[a:]) + np.outer(d[rows], s.sum_z[a:])
    return replace(s, shift=shift, sum_z=left, zz=zz, zy=s.zy + np.outer(d, s.sum_y))


def of_targets_plus(s: Statistics, offset: F64) -> Statistics:
    """The sums about targets y + offset; y^2 is left out, which no solution needs."""
    return replace(s, sum_y=s.sum_y + s.n * offset, zy=s.zy + np.outer(s.sum_z, offset))


@dataclass(frozen=True)
class Centred:
    """C (upper triangle) and c of the normal equations, with the means they are about."""

    n: int
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
            "the features or targets are so large that sums of their squares are no floats of the features' dtype: "
            "divide them by a number"
        )
    if not centre:
        return Centred(s.n, np.zeros_like(s.shift), np.zeros_like(s.sum_y), s.zz, s.zy)
    mean_z, mean_y = s.sum_z / s.n, s.sum_y / s.n
    C = s.zz.copy()
    for a in range(0, len(mean_z), PANEL):
        C[a : a + PANEL, a:] -= np.outer(s.sum_z[a : a + PANEL], mean_z[a:])
    return Centred(s.n, s.shift + mean_z, mean_y, C, s.zy - np.outer(s.sum_z, mean_y))


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
    values, V = scipy.linalg.eigh(equations.C, lower=False, driver="evd", check_finite=False)
    values = np.where(values > max(0.0, -values[0]), values, np.inf)
    return Spectrum(values, V, V.T @ equations.c)


def solve(equations: Centred, alpha: float) -> tuple[F64, F64]:
    """Coefficients (n_features, n_targets) and intercepts for one alpha.

    By a Cholesky factor (D^3 / 3 operations); where alpha is below the rounding error of C, so that there is
    none, by the eigenvalues.
    """
    A = equations.C.copy()
    A[np.diag_indices_from(A)] += alpha
    try:
        factor = scipy.linalg.cho_factor(A, lower=False, overwrite_a=True, check_finite=False)
        w = scipy.linalg.cho_solve(factor, equations.c, check_finite=False)
    except np.linalg.LinAlgError:
        eigen = spectrum(equations)
        w = eigen.V @ eigen.weights(alpha)
    return w, equations.mean_y - equations.mean_x @ w


def held_out_errors(equations: Centred, held: Statistics, alphas: F64) -> F64:
    """Mean squared error of every alpha, (n_alphas,), on rows known by their statistics alone."""
    eigen = spectrum(equations)
    s, mean_y = about(held, equations.mean_x), equations.mean_y
    zy = s.zy - np.outer(s.sum_z, mean_y)
    yy = s.yy - 2.0 * mean_y * s.sum_y + s.n * mean_y**2
    # V'(zz)V from the upper triangle, in the coordinates in which every alpha is diagonal
    W = np.concatenate([eigen.weights(float(alpha)) for alpha in alphas], axis=1)
    W = eigen.V @ W
    quadratic = np.einsum("ij,ij->j", W, scipy.linalg.blas.dsymm(1.0, s.zz.T, W, lower=True))
    linear = np.einsum("ij,ij->j", W, np.tile(zy, len(alphas)))
    errors = np.tile(yy, len(alphas)) - 2.0 * linear + quadratic
    return np.asarray(errors.reshape(len(alphas), -1).mean(axis=1) / held.n)


@dataclass(frozen=True)
class LeaveOneOut:
    """What a second pass needs to know: V in the features' dtype, means, and for every alpha its weights.

    ``inverse`` (n_features, n_alphas) is 1 / (values + alpha); ``weights`` (n_features, n_alphas k).
    """

    mean_x: F
    mean_y: F64
    floor: float
    V: F
    inverse: F
    weights: F

    @classmethod
    def of(
        cls, equations: Centred, eigen: Spectrum, alphas: F64, dtype: np.dtype[Any], centre: bool
    ) -> LeaveOneOut:
        """What follows from the normal equations; ``floor`` is the intercept's part of a leverage."""
        inverse = 1.0 / (eigen.values[:, None] + alphas)
        weights = np.concatenate([eigen.weights(float(alpha)) for alpha in alphas], axis=1)
        floor = 1.0 / equations.n if centre else 0.0
        return cls(
            equations.mean_x.astype(dtype), equations.mean_y, floor, eigen.V.astype(dtype),
            inverse.astype(dtype), weights.astype(dtype),
        )  # fmt: skip


def leave_one_out(known: LeaveOneOut, codes: F64 | None, blocks: Iterator[Any], rows: Rows) -> F64:
    """Sum over rows and targets of the squared leave-one-out error of every alpha, (n_alphas,).

    e_i = (y_i - f(x_i)) / (1 - h_i), h_i = 1/n + sum_j ((x_i - m).v_j)^2 / (value_j + alpha). ``codes`` as in
    `accumulate`.
    """
    total = np.zeros(known.inverse.shape[1])
    for X, y, *_ in usable(known.V.dtype, blocks, rows):
        for T, given in tiles(X, y):
            u = given if codes is None else codes[given]
            U = (T - known.mean_x) @ known.V
            h = ((U * U) @ known.inverse).astype(np.float64) + known.floor
            fitted = (U @ known.weights).astype(np.float64).reshape(len(T), len(total), -1)
            residual = (u - known.mean_y)[:, None, :] - fitted
            total += ((residual / (1.0 - h)[:, :, None]) ** 2).sum(axis=(0, 2))
    return total
