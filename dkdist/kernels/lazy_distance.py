"""The kernel distance of point sets that do not fit in memory, in two passes over their blocks.

    look    the box of all points, their weights, and a few of them
    sums    each block is spread on a mesh of that box, and meshes add up

What is alive is a mesh for each block at work, whatever the number of points (`dkdist.kernels._mesh_numba`, whose
error is certified). Meshes are added in the order of the blocks, so that threads and clusters give the same bits.

One set of points that is too large for memory: a dask array, a Zarr array, or the one set of a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.parameter_checks import positive
from dkdist._base.sampling import least_keys, row_keys
from dkdist._numba.arrays import F64, I64, Array
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._runtime.blocks import (
    Blocks,
    Job,
    is_lazy,
    point_blocks,
    require_known_chunks,
    row_blocks,
    source_blocks,
)
from dkdist._runtime.map_reduce import fold, map_blocks
from dkdist.io import SetStore
from dkdist.io.set_pieces import array_pieces, is_zarr_array, set_pieces
from dkdist.kernels._mesh_numba import Mesh, energy_on_mesh, kernel_mesh, spread_on_mesh
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.inputs import (
    MAX_TOTAL_WEIGHT,
    MEDIAN_SAMPLE_SIZE,
    MIN_TOTAL_WEIGHT,
    Pair,
    as_points,
    as_weights,
    resolve_bandwidths,
)
from dkdist.kernels.methods import MAX_KERNEL_TOL
from dkdist.sets import SampleSetError


class LazyPoints(NamedTuple):
    """Blocks of points (m, d), with their weights as one more column if ``weighted``."""

    blocks: Blocks
    n_dims: int
    weighted: bool

    @property
    def n_points(self) -> int:
        """The number of points."""
        return self.blocks.n_rows


def lazy_points(name: str, P: Any, weights: Any) -> LazyPoints | None:
    """The set that P is, if it is one of those that are read piece by piece; None for anything in memory.

    Messages call it ``name``.
    """
    if isinstance(P, SetStore):
        return _store_points(P, weights)
    if is_zarr_array(P):
        _check_layout(P)
        if weights is not None:
            raise SampleSetError(
                "a Zarr array has no weights beside it: give dask arrays, or write points and weights with write_sets"
            )
        pieces, bounds = array_pieces(P)
        return LazyPoints(source_blocks(pieces, bounds, P.nbytes), P.shape[1], False)
    if is_lazy(P):
        require_known_chunks(P, name)
        require_known_chunks(weights, "weights")
        _check_layout(P)
        if weights is not None and (len(np.shape(weights)) != 1 or len(weights) != P.shape[0]):
            raise SampleSetError(
                f"expected {P.shape[0]} weights, one a point; found shape {np.shape(weights)}"
            )
        return LazyPoints(point_blocks(P, weights), P.shape[1], weights is not None)
    return None


def _store_points(P: SetStore, weights: Any) -> LazyPoints:
    if len(P) != 1:
        raise SampleSetError(
            f"expected one set, found a selection of {len(P)}: choose one by sets[i:i + 1], or thin each of them with "
            "CoresetThinning"
        )
    if P.alphabet is not None:
        raise SampleSetError("the set is a string of characters, whose codes are no coordinates")
    if weights is not None:
        raise SampleSetError(
            "a store keeps the weights of its points: write them with write_sets, and give weights=None"
        )
    if int(np.prod(P.weights_shape or ())) > 1:
        raise SampleSetError(
            f"expected one weight a point, found {P.weights_shape} channels: keep one column"
        )
    pieces, bounds = set_pieces(P)
    blocks = source_blocks(pieces, bounds, 4 * P.n_dims * int(bounds[-1]))
    return LazyPoints(blocks, P.n_dims, P.weights_shape is not None)


def _check_layout(P: Any) -> None:
    if P.ndim != 2 or 0 in P.shape:
        raise SampleSetError(f"expected points of shape (n, d) with n, d >= 1, found {P.shape}")
    if P.dtype.kind not in "fiub":
        raise SampleSetError(f"expected points of real numbers, found {P.dtype}")


def split_weights(block: Array, weighted: bool, first: int) -> tuple[F64, F64 | None]:
    """(points, weights or None) of a block whose first row is row ``first``; both must be finite, weights >= 0."""
    rows = np.asarray(block, np.float64)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        i = int(np.argmin(finite))
        raise SampleSetError(
            f"row {first + i} is {rows[i].tolist()}: every value must be finite. Drop the points"
        )
    if not weighted:
        return rows, None
    weights = rows[:, -1]
    if weights.min() < 0:
        i = int(np.argmin(weights))
        raise SampleSetError(
            f"weight {first + i} is {weights[i]}: weights must be >= 0. Clip them, or drop the points"
        )
    return rows[:, :-1], weights


MAX_MESH_NUMBERS = 2**24  # of a mesh and its transform: 128 MiB for each block at work
METHODS = ("auto", "fourier")


class PointsSummary(NamedTuple):
    """Bounds of some points of positive weight, their weight, the keys of a few of them, and these."""

    low: F64
    high: F64
    weight: float
    keys: F64
    sample: F64


class Side(NamedTuple):
    """One of two sets: its points, the sign that its weights have, and what a weight of its own counts."""

    points: LazyPoints
    sign: float
    look: PointsSummary
    unit: float


def lazy_kernel_distance(
    P: Any, Q: Any, weights: Any, bandwidth: tuple[Any, Any, Any], method: str, eps: float, seed: int
) -> float:
    """D^2, with an error of at most ``eps``; ``bandwidth`` is (sigma, h, gamma)."""
    if method not in METHODS:
        raise ValueError(
            f"points that are read block by block have the methods {' and '.join(map(repr, METHODS))}; found "
            f"method={method!r}: load them, or thin each set by coreset first"
        )
    given = (None, None) if weights is None else weights
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"weights must be None or a pair (w_P, w_Q); found {type(weights).__name__}")
    p, q = (_as_lazy_points(name, X, w) for name, X, w in (("P", P, given[0]), ("Q", Q, given[1])))
    if p.n_dims != q.n_dims:
        raise ValueError(f"P has {p.n_dims} dimensions and Q has {q.n_dims}: both must have the same")
    if p.n_dims > MAX_GRID_DIMS:
        raise ValueError(
            f"points that are read block by block are compared in up to {MAX_GRID_DIMS} dimensions; found {p.n_dims}: "
            "the distance of the rows of MeanEmbedding, which reads them so too, stands for it"
        )
    sides = [
        _read_side(name, points, sign, w, seed + i)
        for i, (name, points, sign, w) in enumerate((("P", p, 1.0, given[0]), ("Q", q, -1.0, given[1])))
    ]
    low = np.min([side.look.low for side in sides], axis=0)
    widths = np.max([side.look.high for side in sides], axis=0) - low
    widths_of_kernels = _resolve_sigmas(sides, low, widths, bandwidth, seed)
    each, W = positive("eps", eps) / len(widths_of_kernels), sum(s.unit * s.look.weight for s in sides)
    if not widths.any():
        return len(widths_of_kernels) * sum(s.sign * s.unit * s.look.weight for s in sides) ** 2
    n = p.n_points + q.n_points
    meshes = [_choose_mesh(widths, sigma, each / W**2, n) for sigma in widths_of_kernels]
    total: list[F64] = [np.zeros(mesh.shape) for mesh in meshes]
    for side in sides:
        spread = partial(
            _spread,
            SpreadParams(
                low, np.flatnonzero(widths > 0), meshes, side.points.weighted, side.sign * side.unit
            ),
        )
        jobs = [Job((i,)) for i in range(len(side.points.blocks))]
        total = fold(side.points.blocks, jobs, spread, _add_meshes, total, label="kernel_distance")
    return sum(
        energy_on_mesh(f, sigma, mesh)
        for f, sigma, mesh in zip(total, widths_of_kernels, meshes, strict=True)
    )


def _as_lazy_points(name: str, X: Any, weights: Any) -> LazyPoints:
    """The set X, in blocks; what is in memory has weights of its own, as `kernel_distance` takes them."""
    lazy = lazy_points(name, X, weights)
    if lazy is not None:
        return lazy
    x = as_points(name, X)
    if weights is None:
        return LazyPoints(row_blocks(x), x.shape[1], False)
    return LazyPoints(row_blocks(np.column_stack([x, as_weights(name, weights, x)])), x.shape[1], True)


def _read_side(name: str, points: LazyPoints, sign: float, weights: Any, seed: int) -> Side:
    """A set after a first look, at weights that sum to one unless they were given."""
    most = 2 * MEDIAN_SAMPLE_SIZE / points.n_points  # keys beyond are not among the least
    extras = [(int(first), seed, most) for first in points.blocks.bounds[:-1]]
    looks: list[PointsSummary] = map_blocks(
        points.blocks, partial(_summarize_block, points.weighted), extras, label="look_at_points"
    )
    weight = float(np.sum([look.weight for look in looks]))
    if not MIN_TOTAL_WEIGHT <= weight <= MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"the weights of {name} sum to {weight:.3g}, which is not between {MIN_TOTAL_WEIGHT:g} and {MAX_TOTAL_WEIGHT:g}: give others"
        )
    keys, sample = (np.concatenate([getattr(look, field) for look in looks]) for field in ("keys", "sample"))
    chosen = least_keys(keys, MEDIAN_SAMPLE_SIZE)
    low, high = np.min([look.low for look in looks], axis=0), np.max([look.high for look in looks], axis=0)
    return Side(
        points,
        sign,
        PointsSummary(low, high, weight, keys[chosen], sample[chosen]),
        1.0 if weights is not None else 1 / weight,
    )


def _summarize_block(weighted: bool, block: Array, extra: tuple[int, int, float]) -> PointsSummary:
    first, seed, most = extra
    x, p = split_weights(block, weighted, first)
    keys, weight = row_keys(first, len(x), seed), float(len(x))
    if p is not None:
        x, keys, weight = x[p > 0], keys[p > 0], float(p.sum())
    nothing = np.full(x.shape[1], np.inf)
    low, high = (x.min(axis=0), x.max(axis=0)) if len(x) else (nothing, -nothing)
    drawn = np.flatnonzero(keys <= most)
    drawn = drawn[least_keys(keys[drawn], MEDIAN_SAMPLE_SIZE)]
    return PointsSummary(low, high, weight, keys[drawn], x[drawn])


def _resolve_sigmas(
    sides: Sequence[Side], low: F64, widths: F64, bandwidth: tuple[Any, Any, Any], seed: int
) -> list[float]:
    """Sigmas, "median" being that of the few points that were looked at."""
    if np.ndim(bandwidth[0]) == 2:
        raise ValueError(
            "points that are read block by block have no matrix of scales: map them before (map_blocks of dask, "
            "SetScaler or SetPCA of a store)"
        )
    few = WeightedPoints((sides[0].look.sample, sides[1].look.sample), (None, None), (1.0, -1.0), low)
    pair = Pair(few, False, widths)
    return resolve_bandwidths(pair, *bandwidth, "gaussian", seed).widths


def _choose_mesh(widths: F64, sigma: float, share: float, n: int) -> Mesh:
    mesh = kernel_mesh(widths, sigma, min(share, MAX_KERNEL_TOL), n)
    if mesh is None or mesh.n_cells > MAX_MESH_NUMBERS:
        cells = "none" if mesh is None else f"{mesh.n_cells // 2:,}"
        raise ValueError(
            f"points that are read block by block need a mesh of at most {MAX_MESH_NUMBERS // 2:,} cells: found {cells} "
            f"for sigma={sigma:.3g}, points {widths.max():.3g} wide and an error of {share:.2g} of the square of the "
            "total weight. Use a larger sigma or eps, or thin each set by coreset first"
        )
    return mesh


@dataclass(frozen=True)
class SpreadParams:
    """How blocks are spread: from the low corner, along wide axes, on meshes, at weights times a unit."""

    low: F64
    axes: I64
    meshes: Sequence[Mesh]
    weighted: bool
    unit: float


def _spread(how: SpreadParams, blocks: Iterator[Any], extra: None) -> list[F64]:
    (block,) = blocks
    x, p = split_weights(block, how.weighted, 0)
    if p is not None:
        x, p = x[p > 0], p[p > 0]
    z = np.full(len(x), how.unit) if p is None else how.unit * p
    return [spread_on_mesh(x, z, how.low, how.axes, mesh) for mesh in how.meshes]


def _add_meshes(total: list[F64], more: list[F64]) -> list[F64]:
    return [a + b for a, b in zip(total, more, strict=True)]
