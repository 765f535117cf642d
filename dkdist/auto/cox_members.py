"""Members of survival models: penalised Cox regressions on kernels, exact or with landmarks.

The ridge regression of the selection, on martingale residuals of equal hazards, is the first scoring step of a Cox
regression: near equal hazards the Hessian is the fraction of events times that of squared errors. Its penalty times
that fraction is therefore the unit of the penalty of the Cox regression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg

from dkdist._numba.arrays import F32, F64
from dkdist._runtime.blocks import Blocks, Job
from dkdist._runtime.map_reduce import map_blocks, tree_sum
from dkdist.auto._tuning import COX_MEMBER_RTOL, COX_PENALTY_FACTOR
from dkdist.auto.ensemble import KernelMember
from dkdist.auto.landmark_ridge import LandmarkData
from dkdist.auto.representation_rows import PairwiseRows
from dkdist.auto.successive_halving import Trial
from dkdist.linear._tuning import MAX_WAITING_SUMS, N_SEARCH_RIDGE_JOBS
from dkdist.linear.cox import Curvature, Survival, fit_cox, fit_kernel_cox
from dkdist.linear.many_models import FeatureFunction


def cox_penalty(alpha: float, y: Survival) -> float:
    """Return the penalty of the Cox regression for the penalty of ridge regression on residuals."""
    return COX_PENALTY_FACTOR * alpha * y.event_fraction


def cox_member(
    trial: Trial, share: float, images: Sequence[F32], y: Survival, offset: F64 | None = None
) -> KernelMember:
    """Return the Cox regression with the kernel of a trial, with a mean of 0 over the rows.

    The log hazards of the rows are the values of the member, or these plus ``offset`` (n,).
    """
    (K,) = PairwiseRows(images).matrices([trial.row_kernel])
    a, f = fit_kernel_cox(K, y, cox_penalty(trial.alpha, y), COX_MEMBER_RTOL, offset)
    centre = images[0].mean(axis=0, dtype=np.float64)
    intercept = np.atleast_1d(-np.average(f, weights=y.weights))
    return KernelMember(
        trial.view.leaf, trial.row_kernel, tuple(images), a[:, None], centre, share, intercept
    )


def landmark_cox_member(
    data: LandmarkData, index: int, y: Survival, alpha: float, start: F64, share: float
) -> KernelMember:
    """Return the Cox regression with the landmarks of one kernel, from passes over all sets.

    ``start`` (m,) are the dual coefficients of ridge regression on residuals with the penalty ``alpha``.
    """
    kernel, rows = data.kernels[index], LandmarkRows(data, index)
    w = rows.factor.T @ start / y.event_fraction
    w, f = fit_cox(rows, y, cox_penalty(alpha, y), w, COX_MEMBER_RTOL)
    a = scipy.linalg.solve_triangular(rows.factor, w, lower=True, trans="T")
    intercept = np.atleast_1d(-np.average(f, weights=y.weights))
    return KernelMember(
        kernel.leaf, kernel.kernel, kernel.images, a[:, None], kernel.centre, share, intercept
    )


@dataclass(frozen=True)
class LandmarkRows:
    """Rows K L'^-1 of all sets, whose ridge penalty is that of the kernel; computed block by block in each pass."""

    data: LandmarkData
    index: int

    @cached_property
    def factor(self) -> F64:
        """Cholesky factor L (m, m) of the kernel matrix of the landmarks."""
        return self.data.kernels[self.index].penalty_factor()

    @property
    def n_columns(self) -> int:
        """Number of landmarks."""
        return self.data.widths[self.index]

    def products(self, w: F64) -> F64:
        """Return the products (n,) of all rows with w (m,)."""
        a = scipy.linalg.solve_triangular(self.factor, w, lower=True, trans="T")
        starts = self._blocks.bounds[:-1].tolist()
        return np.concatenate(
            map_blocks(
                self._blocks, partial(_block_products, self._features, a), starts, label="cox_products"
            )
        )

    def sums(self, residuals: F64, curvature: Curvature) -> tuple[F64, F64, F64]:
        """Return sum_i x_i r_i (m,) and `Curvature.sums` over all rows."""
        blocks = self._blocks
        edges = np.unique(np.linspace(0, len(blocks), N_SEARCH_RIDGE_JOBS + 1).round().astype(int))
        jobs = []
        for i, j in pairwise(edges.tolist()):
            bounds = blocks.bounds[i : j + 1].tolist()
            parts = [(a, residuals[a:b], curvature.take(slice(a, b))) for a, b in pairwise(bounds)]
            jobs.append(Job(tuple(range(i, j)), parts))
        work = partial(_sum_blocks, self._features)
        sums = tree_sum(blocks, jobs, work, _add, window=MAX_WAITING_SUMS, label="cox_sums")
        solve = partial(scipy.linalg.solve_triangular, self.factor, lower=True)
        gradient, products, means = sums
        return solve(gradient), solve(solve(products).T), solve(means.T).T

    @property
    def _blocks(self) -> Blocks:
        return self.data.blocks([self.index], simultaneous=False)

    @property
    def _features(self) -> FeatureFunction:
        features: FeatureFunction = self.data.features([self.index])
        return features


def _block_products(features: FeatureFunction, a: F64, block: Any, first: int) -> F64:
    ((_, K),) = features(block, first, None)
    return np.asarray(K @ a)


def _sum_blocks(
    features: FeatureFunction, blocks: Iterator[Any], parts: Sequence[Any]
) -> tuple[F64, F64, F64]:
    total = None
    for block, (first, residuals, curvature) in zip(blocks, parts, strict=True):
        ((_, K),) = features(block, first, None)
        sums = K.T @ residuals, *curvature.sums(K)
        total = sums if total is None else _add(total, sums)
        del block
    assert total is not None
    return total


def _add(a: tuple[F64, F64, F64], b: tuple[F64, F64, F64]) -> tuple[F64, F64, F64]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]
