"""Ridge regression from its normal equations: coefficients of one penalty, errors of many on rows that were held out.

One factor of a penalty takes D^3 / 3 operations (Cholesky), the eigenvalues that all penalties share about 20 times as
long: they are found where there are many penalties, or one so small that C has no factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dkdist.learners.ridge_statistics import Centred, Statistics, about, upper_copy
from dkdist.loops.array_types import F64

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
    s, mean_y = about(held, equations.mean_x), equations.mean_y
    zy = s.zy - np.outer(s.sum_z, mean_y)
    yy = s.yy - 2.0 * mean_y * s.sum_y + s.n * mean_y**2
    W = np.concatenate([inverse.times(equations.c) for inverse in inverses(equations, alphas)], axis=1)
    quadratic = np.einsum("ij,ij->j", W, scipy.linalg.blas.dsymm(1.0, s.zz.T, W, lower=True))
    linear = np.einsum("ij,ij->j", W, np.tile(zy, len(alphas)))
    errors = np.tile(yy, len(alphas)) - 2.0 * linear + quadratic
    return np.asarray(errors.reshape(len(alphas), -1).mean(axis=1) / held.n)
