"""Kernel distances between weighted points that are seen piece by piece, from sums over the points.

Of the Gaussian kernel in up to three dimensions the sums are those over cells (`kernel_cells`), with a certified error;
of others, of more dimensions, and where cells would fill the memory, random Fourier features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist.base.embedding_spec import EmbeddingSpec
from dkdist.execution.processes.process import drawn
from dkdist.kernel.coresets.coreset_choice import Choice, unseen_spec
from dkdist.kernel.features.mean_embedding_spec import GridMeanSpec, RandomMeanSpec
from dkdist.kernel.sums.cells_loops import Cells, cell_sums, kernel_cells, sums_energy
from dkdist.kernel.sums.fourier_grid import MOST_DIMS
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets

KERNEL_ERROR = 2.5e-9  # of cells: (W + W)^2 times it is 1e-8 W^2
MOST_CELLS = 2**22  # 32 MiB for each piece at work


class Box(NamedTuple):
    """Where points lie: the lower corner and the sides."""

    low: F64
    widths: F64

    def features(self, spec: GridMeanSpec | RandomMeanSpec, x: F64) -> F32:
        """Features (n, m) of each of the points x, counted from the middle of the box."""
        rows: F32 = drawn(spec).embed_points(self._centred(x))
        return rows

    def feature_sums(self, spec: EmbeddingSpec, x: F64, p: F64) -> F64:
        """sum_i p_i phi(x_i), (m,), for weights p > 0."""
        if len(x) == 0:
            return np.zeros(spec.n_features)
        row = drawn(spec).embed(SampleSets(self._centred(x), [0, len(x)], p / p.mean()))[0]
        return np.asarray(p.sum() * row.astype(np.float64))

    def _centred(self, x: F64) -> F32:
        return (x - (self.low + self.widths / 2)).astype(np.float32)


class Judge(NamedTuple):
    """How distances are found: over ``cells``, or by the features that ``how`` specifies."""

    box: Box
    sigma: float
    how: Cells | RandomMeanSpec

    @property
    def certified(self) -> bool:
        """Whether the error of a distance is certified, for weights of one sign."""
        return isinstance(self.how, Cells)

    def sums(self, x: F64, p: F64) -> F64:
        """What is added up over points x (n, d) with weights p > 0."""
        if isinstance(self.how, RandomMeanSpec):
            return self.box.feature_sums(self.how, x, p)
        corner = np.zeros(x.shape[1])
        sums = cell_sums(x - self.box.low, p[:, None], corner, self.box.widths, self.sigma, self.how)
        return np.asarray(sums[0])

    def distance(self, total: F64, x: F64, w: F64) -> float:
        """Between the points whose sums are ``total`` and points x with signed weights w."""
        for sign in (1, -1):
            part = sign * w > 0
            total = total - sign * self.sums(x[part], sign * w[part])
        if isinstance(self.how, RandomMeanSpec):
            return float(np.sqrt((total**2).sum()))
        return float(np.sqrt(max(0.0, sums_energy(total[None], self.box.widths, self.sigma, self.how))))


def find_judge(box: Box, choice: Choice) -> Judge:
    """The judge with the least error for points of a box."""
    d, sigma = len(box.low), choice.sigma
    if d <= MOST_DIMS and choice.kernel == "gaussian":
        cells = kernel_cells(box.widths, sigma, KERNEL_ERROR)
        if cells is not None and cells.n_cells <= MOST_CELLS:
            return Judge(box, sigma, cells)
    return Judge(box, sigma, unseen_spec(np.zeros(d), box.widths, choice))
