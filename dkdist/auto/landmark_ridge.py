"""Nyström approximation of kernel ridge regression: a kernel model of a few landmarks, from one pass over all rows.

With rows c_1, ..., c_m of landmarks, K (n, m) of the kernel k(x_i, c_j), and the kernel matrix M of the landmarks,

    f(x) = sum_j k(x, c_j) a_j + b   minimises   |y - K a - b|^2 + alpha a' M a

(Rudi, Camoriano, Rosasco, "Less is more: Nyström computational regularization", NeurIPS 2015). About sqrt(n) landmarks
are as accurate as all n rows. With M = L L' this is ridge regression on the columns of K L'^-1, whose statistics follow
from those of K. Products use float64, as small eigenvalues of M enlarge rounding errors. Cost for every image of a
kernel: m times the width of a row for each row, and m^2 for the statistics; m^3 once, and m^3 / 3 for each penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist._numba.arrays import F32, F64
from dkdist._numba.products import TILE_ROWS
from dkdist.auto._tuning import LANDMARK_JITTER
from dkdist.auto.kernel_sums import GaussianColumns
from dkdist.auto.representation_rows import RowKernel
from dkdist.linear.feature_trees import OutputIterator, SearchData
from dkdist.linear.many_models import FeatureFunction
from dkdist.linear.ridge_statistics import (
    NormalEquations,
    Statistics,
    add_rows,
    iter_inverses,
    merge,
    normal_equations,
)
from dkdist.linear.rows import RowLabels
from dkdist.linear.search_training import SearchProblem, sum_statistics


@dataclass(frozen=True)
class LandmarkKernel:
    """A kernel of the rows of one leaf with landmarks: ``images[0]`` (m, k), and images of these under symmetries."""

    leaf: int
    kernel: RowKernel
    images: tuple[F32, ...]

    @property
    def centre(self) -> F64:
        """Mean (k,) of the landmarks."""
        return np.asarray(self.images[0].mean(axis=0, dtype=np.float64))

    def penalty_factor(self) -> F64:
        """Return the lower Cholesky factor L of the kernel matrix of the landmarks, in Fortran order."""
        rows = self.images[0].astype(np.float64)
        K = self.kernel.of(rows, [image.astype(np.float64) for image in self.images], self.centre)
        K = (K + K.T) / 2
        K[np.diag_indices_from(K)] += LANDMARK_JITTER
        return np.asfortranarray(scipy.linalg.cholesky(K, lower=True))


@dataclass(frozen=True)
class LandmarkData(SearchData):
    """Data of a search whose leaves are the columns of the ``kernels``, in float64."""

    kernels: tuple[LandmarkKernel, ...]

    def features(self, leaves: Sequence[int]) -> Any:
        """Return a function of (block, position of its first row, optional mask) that yields columns by kernel."""
        rows = super().features(sorted({self.kernels[i].leaf for i in leaves}))
        return partial(_landmark_features, rows, self.kernels, leaves)


def _landmark_features(
    rows: FeatureFunction,
    kernels: Sequence[LandmarkKernel],
    leaves: Sequence[int],
    block: Any,
    first: int,
    mask: NDArray[np.bool_] | None,
) -> OutputIterator:
    for leaf, X in rows(block, first, mask):
        members = [i for i in leaves if kernels[i].leaf == leaf]
        yield from zip(members, _kernel_columns(X, [kernels[i] for i in members]), strict=True)


def _kernel_columns(X: F32, kernels: Sequence[LandmarkKernel]) -> list[F64]:
    """Return the columns (n, m) of each kernel; Gaussian kernels of one leaf share their landmarks."""
    outputs = [np.empty((len(X), len(one.images[0]))) for one in kernels]
    gaussian = []
    for kernel, output in zip(kernels, outputs, strict=True):
        if kernel.kernel.sigma is None:
            landmarks = (kernel.images[0] - kernel.centre) / kernel.kernel.scale
            for start in range(0, len(X), TILE_ROWS):  # differences are float64, twice the memory of X
                output[start : start + TILE_ROWS] = (
                    X[start : start + TILE_ROWS] - kernel.centre
                ) @ landmarks.T
        else:
            gaussian.append((kernel.kernel.sigma, output))
    if gaussian:
        columns = GaussianColumns([sigma for sigma, _ in gaussian], kernels[0].images, kernels[0].centre)
        start = 0
        for tiles in columns.tiles(X):
            for (_, output), tile in zip(gaussian, tiles, strict=True):
                output[start : start + len(tile)] = tile
            start += len(tiles[0])
    return outputs


@dataclass(frozen=True)
class LandmarkModels:
    """Models of one kernel: statistics of training rows and of held-out rows, for targets minus ``offset`` (t,).

    ``columns`` (n_held_out, m) are those of the held-out rows.
    """

    kernel: LandmarkKernel
    train: Statistics
    held_out: Statistics
    offset: F64
    columns: F32

    def fit_without_held_out(self, alphas: Sequence[float]) -> Iterator[tuple[F64, F64]]:
        """Yield dual coefficients (m, t) and intercepts (t,) for each penalty, from the training rows."""
        return self._solutions(self.train, alphas)

    def held_out_values(self, alphas: Sequence[float]) -> list[F64]:
        """Return the values (n_held_out, t) of `fit_without_held_out`."""
        K = self.columns.astype(np.float64)
        return [K @ a + b for a, b in self.fit_without_held_out(alphas)]

    def fit_all(self, alpha: float) -> tuple[F64, F64]:
        """Return dual coefficients (m, t) and intercepts (t,), fitted on all rows."""
        return next(self._solutions(merge(self.train, self.held_out), [alpha]))

    def _solutions(self, statistics: Statistics, alphas: Sequence[float]) -> Iterator[tuple[F64, F64]]:
        equations, L = normal_equations(statistics, True), self.kernel.penalty_factor()
        # the transpose of the upper triangle is a lower triangle in Fortran order
        C, info = scipy.linalg.lapack.dsygst(equations.C.T, L, lower=1)
        assert info == 0
        c = scipy.linalg.solve_triangular(L, equations.c, lower=True)
        whitened = NormalEquations(equations.n, equations.mean_x, equations.mean_y, C.T, c)
        for inverse in iter_inverses(whitened, np.asarray(alphas)):
            a = scipy.linalg.solve_triangular(L, inverse.times(c), lower=True, trans="T")
            yield a, equations.mean_y - equations.mean_x @ a + self.offset


def sum_landmark_statistics(
    data: LandmarkData, problem: SearchProblem, held_out_rows: Mapping[int, F32]
) -> list[LandmarkModels]:
    """Return the models of each kernel, from one pass over the data and the rows of held-out sets by leaf."""
    if not data.kernels:
        return []
    y, leaves = problem.y, list(range(len(data.kernels)))
    offset = y[problem.trained].mean(axis=0)
    weights = None if problem.weights is None else problem.weights[:, None]
    labels = RowLabels(y - offset, problem.held_out, weights)
    keys = [(leaf, True, 0) for leaf in leaves]
    sums = sum_statistics(data, leaves, keys, labels, problem, np.float64)
    held_out = labels.part(problem.held_out)
    models = []
    for kernel, key in zip(data.kernels, keys, strict=True):
        (K,) = _kernel_columns(held_out_rows[kernel.leaf], [kernel])
        empty = Statistics.empty(K.shape[1], y.shape[1])
        held_weights = None if held_out.weights is None else held_out.weights[:, 0]
        held = add_rows(empty, K, held_out.targets, held_weights, True)
        models.append(LandmarkModels(kernel, sums[key], held, offset, K.astype(np.float32)))
    return models
