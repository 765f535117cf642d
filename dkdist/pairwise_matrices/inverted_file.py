"""Inverted-file index of faiss with a measured recall, or with a guaranteed ratio of distances.

Each row is assigned to the cell of its nearest centre, and a query scans the rows of its ``n_probe`` nearest cells.
Rows x of a cell with centre c and radius r, the largest |x - c|, satisfy the triangle inequality

    |q - x| >= |q - c| - r,

which gives a lower bound L of the distances of all rows that were not scanned. If the k-th distance found is at most
(1 + epsilon) L, each of the k distances is at most 1 + epsilon times the true one of its rank: true neighbours closer
than L were scanned, and all others are at least L away.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from dkdist._numba.arrays import F32, F64, I64
from dkdist.pairwise_matrices._tuning import (
    BOUND_BATCH_NUMBERS,
    CELLS_PER_SQRT_ROWS,
    N_KMEANS_ITERATIONS,
    TRAINING_ROWS_PER_CELL,
)

FLOAT32_UNIT = 2.0**-24  # unit roundoff of float32 (IEEE 754-2019)
MIN_COORDINATE = 1e-15  # of the largest coordinate; smaller squares lose digits in float32 (IEEE 754-2019)


class Recall(NamedTuple):
    """Fraction of true neighbours that a search returns, and its standard error over the sampled rows."""

    share: float
    std_error: float


def import_faiss() -> Any:
    """Return the faiss module; ImportError with the install command."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError(
            "engines 'faiss' and 'approximate' need faiss. Run pip install 'dkdist[neighbors]', or use engine='exact'."
        ) from error


def require_float32_squares(rows: F32, name: str) -> float:
    """Return the largest absolute coordinate; ValueError if squared distances overflow float32, which aborts faiss."""
    largest = float(np.abs(rows).max(initial=0))
    limit = math.sqrt(float(np.finfo(np.float32).max) / (4 * rows.shape[1]))
    if largest >= limit:
        raise ValueError(
            f"{name} must have coordinates below {limit:.2g} for faiss, which squares distances in float32; got "
            f"{largest:.2g}. Rescale the rows, or use engine='exact'."
        )
    return largest


def require_nonzero_squares(largest: float) -> None:
    """Raise ValueError if squared distances of rows with this largest coordinate vanish in float32."""
    if 0 < largest < MIN_COORDINATE:
        raise ValueError(
            f"X must have a coordinate of at least {MIN_COORDINATE:g} for faiss, which squares distances in float32; "
            f"the largest is {largest:.2g}. Rescale the rows, or use engine='exact'."
        )


def n_training_rows(n_rows: int) -> int:
    """Return the number of rows for training the centres."""
    return min(n_rows, TRAINING_ROWS_PER_CELL * _n_cells(n_rows))


@dataclass(frozen=True)
class IVFIndex:
    """Inverted-file index of rows, and the number of cells per query.

    With ``epsilon``, distances are guaranteed to be at most 1 + epsilon times the true ones. ``centres`` (n_cells, D)
    and ``radii`` (n_cells,) bound the cells; radii of empty cells are -inf.
    """

    index: Any
    n_probe: int = 1
    epsilon: float | None = None
    centres: F64 = field(default_factory=lambda: np.empty((0, 0)))
    radii: F64 = field(default_factory=lambda: np.empty(0))

    def nearest(self, queries: F32, k: int) -> tuple[F64, I64]:
        """Return squared distances and positions of the k nearest rows in the scanned cells, nearest first.

        The number of cells is doubled for queries with fewer than k rows, or without the guarantee.
        """
        squares, positions = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        step = max(1, BOUND_BATCH_NUMBERS // self.index.nlist)
        for first in range(0, len(queries), step):
            batch = slice(first, first + step)
            squares[batch], positions[batch] = self._scan(queries[batch], k)
        return np.maximum(squares.astype(np.float64), 0), positions

    def _scan(self, queries: F32, k: int) -> tuple[F32, I64]:
        n_probe, pending = self.n_probe, np.arange(len(queries))
        squares, positions = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        bounds = None if self.epsilon is None else self._bounds(queries)
        while len(pending):
            squares[pending], positions[pending] = self._search(queries[pending], k, n_probe)
            if n_probe == self.index.nlist:
                break
            is_pending = positions[pending, -1] < 0
            if bounds is not None:
                is_pending |= ~self._is_guaranteed(squares[pending, -1], bounds[pending, n_probe - 1])
            n_probe, pending = min(2 * n_probe, self.index.nlist), pending[is_pending]
        return squares, positions

    def _bounds(self, queries: F32) -> F64:
        """Return lower bounds (m, n_cells) of distances to rows that a scan of 1, 2, .. cells omits.

        faiss orders cells by float32 distances, so cells that may be equally near count as not scanned.
        """
        q = queries.astype(np.float64)
        d = cdist(q, self.centres)
        order = np.argsort(d, axis=1)
        d = np.take_along_axis(d, order, axis=1)
        lower = np.maximum(d * (1 - _distance_rounding(q.shape[1])) - self.radii[order], 0)
        lower = np.minimum.accumulate(lower[:, ::-1], axis=1)[:, ::-1]
        norms = np.sqrt((q**2).sum(axis=1)) + np.sqrt((self.centres**2).sum(axis=1).max())
        limits = d**2 - 4 * (q.shape[1] + 8) * FLOAT32_UNIT * norms[:, None] ** 2
        first = np.stack([np.searchsorted(row**2, limit) for row, limit in zip(d, limits, strict=True)])
        return np.take_along_axis(lower, first, axis=1)

    def _is_guaranteed(self, squares: F32, bounds: F64) -> NDArray[np.bool_]:
        ratio = 1 + (self.epsilon or 0.0)
        rounding = 1 + (self.index.d + 8) * FLOAT32_UNIT
        return np.asarray(squares.astype(np.float64) * rounding <= (ratio * bounds) ** 2)

    def with_recall(self, queries: F32, truth: F64, recall: float) -> tuple[IVFIndex, Recall]:
        """Return a copy with the fewest cells for which recall minus its standard error is at least ``recall``.

        ``queries`` are rows of the index. ``truth`` (m, k + 1) are the squared distances of the nearest rows; the first
        is the query itself and is not counted. Any row as near as neighbour k is a true neighbour.
        """
        k = truth.shape[1] - 1
        # tolerance for float32 sums in faiss
        limits = truth[:, -1:] * (1 + (queries.shape[1] + 8) * FLOAT32_UNIT)

        def measure(squares: F32 | F64) -> Recall:
            shares = ((squares <= limits).sum(axis=1) - 1.0).clip(0, k) / k
            return Recall(float(shares.mean()), float(shares.std() / np.sqrt(len(shares))))

        def suffices(n_probe: int) -> bool:
            share, std_error = measure(self._search(queries, k + 1, n_probe)[0])
            return share - std_error >= recall

        index = replace(self, n_probe=_smallest_sufficient(suffices, self.index.nlist))
        return index, measure(index.nearest(queries, k + 1)[0])

    def _search(self, queries: F32, k: int, n_probe: int) -> tuple[F32, I64]:
        params = import_faiss().SearchParametersIVF(nprobe=n_probe)
        result: tuple[F32, I64] = self.index.search(queries, k, params=params)
        return result


def build_index(
    training_rows: F32, blocks: Iterable[F32], n_rows: int, seed: int, epsilon: float | None
) -> IVFIndex:
    """Train centres on `n_training_rows` rows, and add all rows by blocks."""
    faiss = import_faiss()
    n_cells, D = _n_cells(n_rows), training_rows.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(D), D, n_cells)
    index.cp.seed, index.cp.niter, index.cp.min_points_per_centroid = seed % 2**31, N_KMEANS_ITERATIONS, 1
    largest = require_float32_squares(training_rows, "X")
    index.train(training_rows)
    for rows in blocks:
        largest = max(largest, require_float32_squares(rows, "X"))
        index.add(rows)
    require_nonzero_squares(largest)
    if epsilon is None:
        return IVFIndex(index)
    centres = index.quantizer.reconstruct_n(0, n_cells).astype(np.float64)
    radii = np.array([_cell_radius(index, c, centre) for c, centre in enumerate(centres)])
    return IVFIndex(index, 1, epsilon, centres, radii)


def _cell_radius(index: Any, cell: int, centre: F64) -> float:
    """Return an upper bound of the distances of the rows of a cell from its centre, or -inf if it has no rows."""
    size, D = index.invlists.list_size(cell), len(centre)
    if size == 0:
        return -np.inf
    codes = import_faiss().rev_swig_ptr(index.invlists.get_codes(cell), 4 * D * size)  # a view, not a copy
    differences = codes.view(np.float32).reshape(size, D) - centre
    return float(np.sqrt((differences**2).sum(axis=1).max()) * (1 + _distance_rounding(D)))


def _distance_rounding(D: int) -> float:
    """Bound the relative rounding error of float64 distances of rows (D,)."""
    return (D + 8) * 2.0**-52


def _n_cells(n_rows: int) -> int:
    return min(n_rows, round(CELLS_PER_SQRT_ROWS * math.sqrt(n_rows)))


def _smallest_sufficient(suffices: Callable[[int], bool], maximum: int) -> int:
    """Return the smallest number for which ``suffices``, by doubling and bisection, or ``maximum``."""
    high = 1
    while high < maximum and not suffices(high):
        high = min(2 * high, maximum)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
