"""The kernel distance of point sets that do not fit in memory, in two passes over their blocks.

    look    the box of all points, their weights, and a few of them
    sums    each block is spread on a mesh of that box, and meshes add up

What is alive is a mesh for each block at work, whatever the number of points (`dkdist.kernel.sums.mesh_loops`, whose
error is certified). Meshes are added in the order of the blocks, so that threads and clusters give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist.base.drawn_samples import least_keys, row_keys
from dkdist.base.parameter_checks import positive
from dkdist.execution.blocks import Job, row_blocks
from dkdist.execution.map_reduce import collect, fold
from dkdist.kernel.distance.kernel_inputs import (
    LARGEST,
    LEAST,
    SAMPLE,
    Pair,
    points_of,
    read_scales,
    weights_of,
)
from dkdist.kernel.distance.kernel_methods import WORST
from dkdist.kernel.distance.lazy.lazy_points import LazyPoints, lazy_points, split_weights
from dkdist.kernel.sums.fourier_grid import MOST_DIMS
from dkdist.kernel.sums.mesh_loops import Mesh, energy_on_mesh, kernel_mesh, spread_on_mesh
from dkdist.loops.array_types import F64, I64, Array
from dkdist.loops.tiles.weighted_points import WeightedPoints

MOST_NUMBERS = 2**24  # of a mesh and its transform: 128 MiB for each block at work
METHODS = ("auto", "fourier")


class Look(NamedTuple):
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
    look: Look
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
    p, q = (_points(name, X, w) for name, X, w in (("P", P, given[0]), ("Q", Q, given[1])))
    if p.n_dims != q.n_dims:
        raise ValueError(f"P has {p.n_dims} dimensions and Q has {q.n_dims}: both must have the same")
    if p.n_dims > MOST_DIMS:
        raise ValueError(
            f"points that are read block by block are compared in up to {MOST_DIMS} dimensions; found {p.n_dims}: "
            "the distance of the rows of MeanEmbedding, which reads them so too, stands for it"
        )
    sides = [
        _side(name, points, sign, w, seed + i)
        for i, (name, points, sign, w) in enumerate((("P", p, 1.0, given[0]), ("Q", q, -1.0, given[1])))
    ]
    low = np.min([side.look.low for side in sides], axis=0)
    widths = np.max([side.look.high for side in sides], axis=0) - low
    widths_of_kernels = _bandwidths(sides, low, widths, bandwidth, seed)
    each, W = positive("eps", eps) / len(widths_of_kernels), sum(s.unit * s.look.weight for s in sides)
    if not widths.any():
        return len(widths_of_kernels) * sum(s.sign * s.unit * s.look.weight for s in sides) ** 2
    n = p.n_points + q.n_points
    meshes = [_mesh(widths, sigma, each / W**2, n) for sigma in widths_of_kernels]
    total: list[F64] = [np.zeros(mesh.shape) for mesh in meshes]
    for side in sides:
        spread = partial(
            _spread,
            Spread(low, np.flatnonzero(widths > 0), meshes, side.points.weighted, side.sign * side.unit),
        )
        jobs = [Job((i,)) for i in range(len(side.points.blocks))]
        total = fold(side.points.blocks, jobs, spread, _added, total, label="kernel_distance")
    return sum(
        energy_on_mesh(f, sigma, mesh)
        for f, sigma, mesh in zip(total, widths_of_kernels, meshes, strict=True)
    )


def _points(name: str, X: Any, weights: Any) -> LazyPoints:
    """The set X, in blocks; what is in memory has weights of its own, as `kernel_distance` takes them."""
    lazy = lazy_points(name, X, weights)
    if lazy is not None:
        return lazy
    x = points_of(name, X)
    if weights is None:
        return LazyPoints(row_blocks(x), x.shape[1], False)
    return LazyPoints(row_blocks(np.column_stack([x, weights_of(name, weights, x)])), x.shape[1], True)


def _side(name: str, points: LazyPoints, sign: float, weights: Any, seed: int) -> Side:
    """A set after a first look, at weights that sum to one unless they were given."""
    most = 2 * SAMPLE / points.n_points  # keys beyond are not among the least
    extras = [(int(first), seed, most) for first in points.blocks.bounds[:-1]]
    looks: list[Look] = collect(
        points.blocks, partial(_look, points.weighted), extras, label="look_at_points"
    )
    weight = float(np.sum([look.weight for look in looks]))
    if not LEAST <= weight <= LARGEST:
        raise ValueError(
            f"the weights of {name} sum to {weight:.3g}, which is not between {LEAST:g} and {LARGEST:g}: give others"
        )
    keys, sample = (np.concatenate([getattr(look, field) for look in looks]) for field in ("keys", "sample"))
    chosen = least_keys(keys, SAMPLE)
    low, high = np.min([look.low for look in looks], axis=0), np.max([look.high for look in looks], axis=0)
    return Side(
        points,
        sign,
        Look(low, high, weight, keys[chosen], sample[chosen]),
        1.0 if weights is not None else 1 / weight,
    )


def _look(weighted: bool, block: Array, extra: tuple[int, int, float]) -> Look:
    first, seed, most = extra
    x, p = split_weights(block, weighted, first)
    keys, weight = row_keys(first, len(x), seed), float(len(x))
    if p is not None:
        x, keys, weight = x[p > 0], keys[p > 0], float(p.sum())
    nothing = np.full(x.shape[1], np.inf)
    low, high = (x.min(axis=0), x.max(axis=0)) if len(x) else (nothing, -nothing)
    drawn = np.flatnonzero(keys <= most)
    drawn = drawn[least_keys(keys[drawn], SAMPLE)]
    return Look(low, high, weight, keys[drawn], x[drawn])


def _bandwidths(
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
    return read_scales(pair, *bandwidth, "gaussian", seed).widths


def _mesh(widths: F64, sigma: float, share: float, n: int) -> Mesh:
    mesh = kernel_mesh(widths, sigma, min(share, WORST), n)
    if mesh is None or mesh.n_cells > MOST_NUMBERS:
        cells = "none" if mesh is None else f"{mesh.n_cells // 2:,}"
        raise ValueError(
            f"points that are read block by block need a mesh of at most {MOST_NUMBERS // 2:,} cells: found {cells} "
            f"for sigma={sigma:.3g}, points {widths.max():.3g} wide and an error of {share:.2g} of the square of the "
            "total weight. Use a larger sigma or eps, or thin each set by coreset first"
        )
    return mesh


@dataclass(frozen=True)
class Spread:
    """How blocks are spread: from the low corner, along wide axes, on meshes, at weights times a unit."""

    low: F64
    axes: I64
    meshes: Sequence[Mesh]
    weighted: bool
    unit: float


def _spread(how: Spread, blocks: Iterator[Any], extra: None) -> list[F64]:
    (block,) = blocks
    x, p = split_weights(block, how.weighted, 0)
    if p is not None:
        x, p = x[p > 0], p[p > 0]
    z = np.full(len(x), how.unit) if p is None else how.unit * p
    return [spread_on_mesh(x, z, how.low, how.axes, mesh) for mesh in how.meshes]


def _added(total: list[F64], more: list[F64]) -> list[F64]:
    return [a + b for a, b in zip(total, more, strict=True)]
