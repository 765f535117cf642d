"""Kernels of rows: linear, or Gaussian at some widths, averaged over the images of one of the two sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.learners.kernel_ridge import squared_distances
from dkdist.loops.array_types import F32, F64
from dkdist.plain.kept import kept

WIDTHS = (0.25, 0.5, 1.0, 2.0)  # of Gaussians, times the median distance of rows
EQUAL = 1e-6  # of the squared lengths of two rows: a squared distance that is rounding of float32


@kept
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
            total += self.of_distances(squared_distances(X, image))
        return total / len(Y)

    def of_distances(self, d2: F64) -> F64:
        """The Gaussian of squared distances."""
        assert self.sigma is not None
        k = d2 * (-1 / (2 * self.sigma**2))
        return np.exp(k, out=k)

    def gradient(self, x: F64, Y: Sequence[Any], duals: F64, centre: Any) -> F64:
        """(m, t) derivative by x (m,) of sum_j k(x, y_j) duals_j."""
        if self.sigma is None:
            return np.asarray(((Y[0] - centre) / self.scale).T @ duals)
        total = np.zeros((len(x), duals.shape[1]))
        for image in Y:
            k = np.exp(squared_distances(x[None], image)[0] / (-2 * self.sigma**2))[:, None] * duals
            total += image.T @ k - np.outer(x, k.sum(axis=0))
        return total / (len(Y) * self.sigma**2)


class ComparedRows:
    """Rows (n, m) and their images, all against all: distances are found once for every kernel.

    Products are float32, in half the time of float64: squared distances are off by some 1e-7 of the squared lengths of
    rows about their mean, and kernel matrices by far less than any penalty that is tried.
    """

    def __init__(self, rows: Sequence[F32]) -> None:
        self._centre = rows[0].mean(axis=0, dtype=np.float64).astype(np.float32)
        self._X, self._images = rows[0] - self._centre, rows[1:]
        self._squares = _squares(self._X)
        self._d2 = self._distances(self._X, self._squares)

    def kernels(self) -> list[RowKernel]:
        """Those to try; linear ones alone know no images."""
        scale = float(self._squares.mean())
        linear = [RowKernel(None, scale)] if not self._images and scale > 0 else []
        d2 = self._d2[np.triu_indices(len(self._d2), 1)]
        median = float(np.sqrt(np.median(d2[d2 > 0]))) if (d2 > 0).any() else 0.0
        return linear + [RowKernel(width * median) for width in WIDTHS if median > 0]

    def matrices(self, kernels: Sequence[RowKernel]) -> list[F64]:
        """(n, n) of every kernel, the mean over the images of the second sets."""
        found = [
            self._linear(kernel) if kernel.sigma is None else kernel.of_distances(self._d2)
            for kernel in kernels
        ]
        for image in self._images:
            moved = image - self._centre
            d2 = self._distances(moved, _squares(moved))
            for kernel, total in zip(kernels, found, strict=True):
                total += kernel.of_distances(d2)
        for total in found if self._images else ():
            total /= 1 + len(self._images)
        return found

    def _distances(self, others: F32, squares: F64) -> F64:
        """(n, k) squared, of all rows to others about the same middle; exactly 0 where rounding is all there is."""
        total = self._squares[:, None] + squares
        d2 = total - 2.0 * (self._X @ others.T)
        d2[d2 < EQUAL * total] = 0.0
        return np.asarray(d2)

    def _linear(self, kernel: RowKernel) -> F64:
        """Products of rows about their mean, from distances."""
        products = self._squares[:, None] + self._squares
        products -= self._d2
        products *= 0.5 / kernel.scale
        return products


def _squares(rows: F32) -> F64:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
