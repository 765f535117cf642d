"""Kernels of rows: linear, or Gaussian at some widths, averaged over the images of one of the two sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.learners.kernel_ridge import squared_distances
from dkdist.loops.array_types import F32, F64

WIDTHS = (0.25, 0.5, 1.0, 2.0)  # of Gaussians, times the median distance of rows


@dataclass(frozen=True)
class RowKernel:
    """k(x, y) = exp(-|x - y|^2 / (2 sigma^2)), or (x - c).(y - c) / scale where sigma is None."""

    sigma: float | None
    scale: float = 1.0

    @property
    def name(self) -> str:
        """What a leaderboard says of it."""
        return "linear" if self.sigma is None else f"Gaussian, sigma {self.sigma:.3g}"

    def of(self, X: F64, Y: Sequence[Any], centre: Any) -> F64:
        """(n, k): the mean over the images ``Y[0], Y[1], ...`` of the second sets, each (k, m)."""
        if self.sigma is None:
            return np.asarray((X - centre) @ ((Y[0] - centre) / self.scale).T)
        total = np.zeros((len(X), len(Y[0])))
        for image in Y:
            d2 = squared_distances(X, image)
            d2 *= -1 / (2 * self.sigma**2)
            total += np.exp(d2, out=d2)
        return total / len(Y)

    def gradient(self, x: F64, Y: Sequence[Any], duals: F64, centre: Any) -> F64:
        """(m, t) derivative by x (m,) of sum_j k(x, y_j) duals_j."""
        if self.sigma is None:
            return np.asarray(((Y[0] - centre) / self.scale).T @ duals)
        total = np.zeros((len(x), duals.shape[1]))
        for image in Y:
            k = np.exp(squared_distances(x[None], image)[0] / (-2 * self.sigma**2))[:, None] * duals
            total += image.T @ k - np.outer(x, k.sum(axis=0))
        return total / (len(Y) * self.sigma**2)


def kernels_on(rows: Sequence[F32]) -> Iterator[RowKernel]:
    """The kernels to try on rows (n, m), whose images follow; linear ones alone know no images."""
    A = rows[0].astype(np.float64)
    if len(rows) == 1 and (scale := float(((A - A.mean(axis=0)) ** 2).sum(axis=1).mean())) > 0:
        yield RowKernel(None, scale)
    d2 = squared_distances(A, A)[np.triu_indices(len(A), 1)]
    if (median := float(np.sqrt(np.median(d2[d2 > 0])) if (d2 > 0).any() else 0.0)) > 0:
        yield from (RowKernel(width * median) for width in WIDTHS)
