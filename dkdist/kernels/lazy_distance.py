"""Kernel distance of point sets that do not fit in memory, in two passes over their blocks.

    pass 1   bounding box, total weight and a sample of the points
    pass 2   each block is spread on a mesh of the box, and meshes are added

Memory holds one mesh per block in flight, for any number of points (`dkdist.kernels._mesh_numba`, with a certified
error). Meshes are added in the order of the blocks, so results of threads and clusters are bitwise identical. A set is
a Dask array, a Zarr array, or a store with one set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.parameter_checks import check_positive
from dkdist._base.sampling import random_row_keys, smallest_keys
from dkdist._numba.arrays import F64, I64, Array
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._runtime.blocks import (
    Blocks,
    BlockSource,
    Job,
    is_lazy,
    point_blocks,
    require_known_chunks,
    row_blocks,
    source_blocks,
)
from dkdist._runtime.map_reduce import fold, map_blocks
from dkdist.io import SetStore
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_pieces import array_pieces, is_zarr_array, set_pieces
from dkdist.kernels._mesh_numba import Mesh, energy_on_mesh, kernel_mesh, spread_on_mesh
from dkdist.kernels._tuning import MAX_KERNEL_TOL, MAX_MESH_NUMBERS, MEDIAN_SAMPLE_SIZE
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.inputs import (
    MAX_TOTAL_WEIGHT,
    MIN_TOTAL_WEIGHT,
    Pair,
    as_points,
    as_weights,
    resolve_bandwidths,
)
from dkdist.sets import SampleSetError


class LazyPoints(NamedTuple):
    """Blocks of points (m, d), with weights as the last column if ``weighted``."""

    blocks: Blocks
    n_dims: int
    weighted: bool

    @property
    def n_points(self) -> int:
        """Number of points."""
        return self.blocks.n_rows


def lazy_points(name: str, P: Any, weights: Any) -> LazyPoints | None:
    """Return P as blocks if it is read piece by piece, or None if it is in memory; errors contain ``name``."""
    if isinstance(P, LazySets):
        return _store_points(P, weights)
    if is_zarr_array(P):
        _check_layout(P)
        if weights is not None:
            raise SampleSetError(
                "weights must be None for a Zarr array. Pass Dask arrays, or write points and weights with write_sets."
            )
        pieces, bounds = array_pieces(P)
        return LazyPoints(source_blocks(BlockSource.of_views(pieces), bounds, P.nbytes), P.shape[1], False)
    if is_lazy(P):
        require_known_chunks(P, name)
        require_known_chunks(weights, "weights")
        P = P[:, None] if P.ndim == 1 else P
        _check_layout(P)
        if weights is not None and (len(np.shape(weights)) != 1 or len(weights) != P.shape[0]):
            raise SampleSetError(
                f"weights must have shape ({P.shape[0]},), one per point; got {np.shape(weights)}."
            )
        return LazyPoints(point_blocks(P, weights), P.shape[1], weights is not None)
    return None


def _store_points(P: LazySets, weights: Any) -> LazyPoints:
    if len(P) != 1:
        raise SampleSetError(
            f"the store must contain one set; got {len(P)}. Select one with sets[i:i + 1], or thin each set with "
            "CoresetThinning."
        )
    if P.alphabet is not None:
        raise SampleSetError("the set must contain points; got a string of characters.")
    if weights is not None:
        raise SampleSetError(
            "weights must be None for a store, which contains its weights. Write them with write_sets."
        )
    if int(np.prod(P.weights_shape or ())) > 1:
        raise SampleSetError(
            f"the store must have one weight per point; got {P.weights_shape} channels. Keep one column."
        )
    if not isinstance(P, SetStore):
        loaded = P.load()
        rows = loaded.points if loaded.weights is None else np.column_stack([loaded.points, loaded.weights])
        return LazyPoints(row_blocks(rows), P.n_dims, loaded.weights is not None)
    pieces, bounds = set_pieces(P)
    blocks = source_blocks(BlockSource.of_views(pieces), bounds, 4 * P.n_dims * int(bounds[-1]))
    return LazyPoints(blocks, P.n_dims, P.weights_shape is not None)


def _check_layout(P: Any) -> None:
    if P.ndim != 2 or 0 in P.shape:
        raise SampleSetError(f"points must have shape (n, d) with n, d >= 1; got {P.shape}.")
    if P.dtype.kind not in "fiub":
        raise SampleSetError(f"points must be real numbers; got {P.dtype}.")


def split_weights(block: Array, weighted: bool, first: int) -> tuple[F64, F64 | None]:
    """Return (points, weights or None) of a block that starts at row ``first``, after checking both."""
    rows = np.asarray(block, np.float64)
    is_finite = np.isfinite(rows).all(axis=1)
    if not is_finite.all():
        i = int(np.argmin(is_finite))
        raise SampleSetError(
            f"points and weights must be finite; got {rows[i].tolist()} in row {first + i}. Drop the points."
        )
    if not weighted:
        return rows, None
    weights = rows[:, -1]
    if weights.min() < 0:
        i = int(np.argmin(weights))
        raise SampleSetError(
            f"weights must be >= 0; got {weights[i]} at point {first + i}. Clip them or drop the points."
        )
    return rows[:, :-1], weights


METHODS = ("auto", "fourier")


class PointsSummary(NamedTuple):
    """Bounds and total weight of points of positive weight, and a sample of them with its random keys."""

    low: F64
    high: F64
    weight: float
    keys: F64
    sample: F64


class Side(NamedTuple):
    """One of the two sets: points, sign and factor ``unit`` of its weights, and summary."""

    points: LazyPoints
    sign: float
    summary: PointsSummary
    unit: float


def lazy_kernel_distance(
    P: Any, Q: Any, weights: Any, bandwidth: tuple[Any, Any, Any], method: str, eps: float, seed: int
) -> float:
    """Return D^2 with an error of at most ``eps``; ``bandwidth`` is (sigma, h, gamma)."""
    if method not in METHODS:
        raise ValueError(
            f"method must be {' or '.join(map(repr, METHODS))} for Dask arrays, Zarr arrays and stores; got "
            f"{method!r}. Load the points, or thin each set with coreset."
        )
    pair = (None, None) if weights is None else weights
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"weights must be None or a pair (w_P, w_Q); got {type(weights).__name__}.")
    p, q = (_as_lazy_points(name, X, w) for name, X, w in (("P", P, pair[0]), ("Q", Q, pair[1])))
    if p.n_dims != q.n_dims:
        raise ValueError(f"P and Q must have the same number of dimensions; got {p.n_dims} and {q.n_dims}.")
    if p.n_dims > MAX_GRID_DIMS:
        raise ValueError(
            f"Dask arrays, Zarr arrays and stores must have at most {MAX_GRID_DIMS} dimensions; got {p.n_dims}. Use "
            "the distance of the rows of MeanEmbedding instead."
        )
    sides = [
        _read_side(name, points, sign, w, seed + i)
        for i, (name, points, sign, w) in enumerate((("P", p, 1.0, pair[0]), ("Q", q, -1.0, pair[1])))
    ]
    low = np.min([side.summary.low for side in sides], axis=0)
    widths = np.max([side.summary.high for side in sides], axis=0) - low
    sigmas = _resolve_sigmas(sides, low, widths, bandwidth, seed)
    eps_per_bandwidth, W = (
        check_positive("eps", eps) / len(sigmas),
        sum(s.unit * s.summary.weight for s in sides),
    )
    if not widths.any():
        return len(sigmas) * sum(s.sign * s.unit * s.summary.weight for s in sides) ** 2
    n = p.n_points + q.n_points
    meshes = [_choose_mesh(widths, sigma, eps_per_bandwidth / W**2, n) for sigma in sigmas]
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
    return sum(energy_on_mesh(f, sigma, mesh) for f, sigma, mesh in zip(total, sigmas, meshes, strict=True))


def _as_lazy_points(name: str, X: Any, weights: Any) -> LazyPoints:
    """Return the set X in blocks; X in memory gets its checked weights as a column."""
    lazy = lazy_points(name, X, weights)
    if lazy is not None:
        return lazy
    x = as_points(name, X)
    if weights is None:
        return LazyPoints(row_blocks(x), x.shape[1], False)
    return LazyPoints(row_blocks(np.column_stack([x, as_weights(name, weights, x)])), x.shape[1], True)


def _read_side(name: str, points: LazyPoints, sign: float, weights: Any, seed: int) -> Side:
    """Summarize a set in one pass; weights are normalised if ``weights`` is None."""
    # the sample has the smallest keys; larger keys are almost never among them
    max_key = 2 * MEDIAN_SAMPLE_SIZE / points.n_points
    extras = [(int(first), seed, max_key) for first in points.blocks.bounds[:-1]]
    summaries: list[PointsSummary] = map_blocks(
        points.blocks, partial(_summarize_block, points.weighted), extras, label="summarize_points"
    )
    weight = float(np.sum([part.weight for part in summaries]))
    if not MIN_TOTAL_WEIGHT <= weight <= MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"weights of {name} must have a sum from {MIN_TOTAL_WEIGHT:g} to {MAX_TOTAL_WEIGHT:g}; got {weight:.3g}. "
            "Rescale them."
        )
    keys, sample = (
        np.concatenate([getattr(part, field) for part in summaries]) for field in ("keys", "sample")
    )
    sampled_rows = smallest_keys(keys, MEDIAN_SAMPLE_SIZE)
    low, high = (
        np.min([part.low for part in summaries], axis=0),
        np.max([part.high for part in summaries], axis=0),
    )
    return Side(
        points,
        sign,
        PointsSummary(low, high, weight, keys[sampled_rows], sample[sampled_rows]),
        1.0 if weights is not None else 1 / weight,
    )


def _summarize_block(weighted: bool, block: Array, extra: tuple[int, int, float]) -> PointsSummary:
    first, seed, max_key = extra
    x, p = split_weights(block, weighted, first)
    keys, weight = random_row_keys(first, len(x), seed), float(len(x))
    if p is not None:
        x, keys, weight = x[p > 0], keys[p > 0], float(p.sum())
    no_bound = np.full(x.shape[1], np.inf)
    low, high = (x.min(axis=0), x.max(axis=0)) if len(x) else (no_bound, -no_bound)
    sampled = np.flatnonzero(keys <= max_key)
    sampled = sampled[smallest_keys(keys[sampled], MEDIAN_SAMPLE_SIZE)]
    return PointsSummary(low, high, weight, keys[sampled], x[sampled])


def _resolve_sigmas(
    sides: Sequence[Side], low: F64, widths: F64, bandwidth: tuple[Any, Any, Any], seed: int
) -> list[float]:
    """Return the bandwidths; "median" uses the samples of both sets."""
    if np.ndim(bandwidth[0]) == 2:
        raise ValueError(
            "sigma must not be a matrix for Dask arrays, Zarr arrays and stores. Transform the points first "
            "(map_blocks of Dask, SetScaler or SetPCA)."
        )
    sample = WeightedPoints(
        (sides[0].summary.sample, sides[1].summary.sample), (None, None), (1.0, -1.0), low
    )
    pair = Pair(sample, False, widths)
    return resolve_bandwidths(pair, *bandwidth, "gaussian", seed).sigmas


def _choose_mesh(widths: F64, sigma: float, kernel_tol: float, n: int) -> Mesh:
    mesh = kernel_mesh(widths, sigma, min(kernel_tol, MAX_KERNEL_TOL), n)
    if mesh is None or mesh.n_cells > MAX_MESH_NUMBERS:
        cells = "none" if mesh is None else f"{mesh.n_cells // 2:,}"
        raise ValueError(
            f"the mesh must have at most {MAX_MESH_NUMBERS // 2:,} cells for Dask arrays, Zarr arrays and stores; got "
            f"{cells} for sigma={sigma:.3g}, points {widths.max():.3g} wide and an error of {kernel_tol:.2g} of the "
            "squared total weight. Increase sigma or eps, or thin each set with coreset."
        )
    return mesh


@dataclass(frozen=True)
class SpreadParams:
    """Parameters of spreading: lower corner, axes of positive width, meshes, and factor ``unit`` of the weights."""

    low: F64
    axes: I64
    meshes: Sequence[Mesh]
    weighted: bool
    unit: float


def _spread(params: SpreadParams, blocks: Iterator[Any], extra: None) -> list[F64]:
    (block,) = blocks
    x, p = split_weights(block, params.weighted, 0)
    if p is not None:
        x, p = x[p > 0], p[p > 0]
    z = np.full(len(x), params.unit) if p is None else params.unit * p
    return [spread_on_mesh(x, z, params.low, params.axes, mesh) for mesh in params.meshes]


def _add_meshes(total: list[F64], other: list[F64]) -> list[F64]:
    return [a + b for a, b in zip(total, other, strict=True)]
