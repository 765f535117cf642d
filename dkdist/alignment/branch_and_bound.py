"""Guaranteed search of `align`: branch and bound over all rigid motions of coresets, with a time estimate and limit.

With coresets S, T of P, Q at kernel distances D_P and D_Q,

    |f(P, RQ + t) - f(S, RT + t)| <= D_P |mu_Q| + D_Q |mu_S| = c      for every motion,

so f of every motion is at most (the bound over all cells for S, T) + c. f of the returned motion uses all points.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._runtime.progress import Progress
from dkdist.alignment import _motion_cells_numba as motion_cells
from dkdist.alignment._tuning import (
    CELL_BATCH_SIZE,
    MIN_CORESET_SIZE,
    MIN_ESTIMATE_CELLS,
    N_PROBE_PATHS,
    SQUARED_NORM_TOL,
)
from dkdist.alignment.local_refinement import refine_motions
from dkdist.coresets.selection import CoresetParams, choose_points
from dkdist.kernels.inputs import bounding_box
from dkdist.kernels.kernel_distance import solve
from dkdist.kernels.mmd_problem import make_problem

Motion = tuple[F64, F64]


class Cells(NamedTuple):
    """Cells of motions: centres (k, D), half sides (k, 2) and upper bounds of f (k,)."""

    middles: F64
    halves: F64
    upper: F64

    def select(self, rows: slice | I64 | NDArray[np.bool_]) -> Cells:
        """Return the cells at the indices ``rows``."""
        return Cells(self.middles[rows], self.halves[rows], self.upper[rows])

    def append(self, other: Cells) -> Cells:
        """Return these cells followed by ``other``."""
        return Cells(*map(np.concatenate, zip(self, other, strict=True)))


@dataclass
class MotionSearch:
    """Two weighted sets in units of sigma; cells whose bound is at most ``threshold`` are discarded."""

    x: F64
    p: F64
    y: F64
    q: F64
    rotates: bool
    threshold: float
    n_evaluated: int = 0
    seconds: float = 0.0

    @property
    def n_angles(self) -> int:
        """Number of coordinates of a rotation."""
        return self.x.shape[1] * (self.x.shape[1] - 1) // 2 if self.rotates else 0

    @property
    def radius(self) -> float:
        """Radius of the moving set."""
        return float(np.sqrt((self.y**2).sum(axis=1).max()))

    @property
    def width(self) -> float:
        """Maximum translation; beyond it, points are too far apart for f to reach ``threshold``."""
        reach = np.sqrt(2 * np.log(max(1.0, 1 / max(self.threshold, 1e-300))))
        return float(np.sqrt((self.x**2).sum(axis=1).max())) + self.radius + float(reach)

    def all_motions(self) -> Cells:
        """Return one cell with all motions."""
        middle = np.zeros((1, self.n_angles + self.x.shape[1]))
        half = np.pi if self.n_angles else 0.0
        return Cells(middle, np.array([[half, self.width]]), np.full(1, float(self.p.sum() * self.q.sum())))

    def motions(self, middles: F64) -> Motion:
        """Return rotations and translations of the centres."""
        return motion_cells.cell_rotations(middles[:, : self.n_angles], self.x.shape[1]), middles[
            :, self.n_angles :
        ]

    def split(self, cells: Cells) -> tuple[Cells, I64, F64]:
        """Return (all children, positions of their parents, f at their centres)."""
        started = perf_counter()
        middles, halves, parents = motion_cells.split_cells(
            cells.middles, cells.halves, self.n_angles, self.radius
        )
        angle = motion_cells.rotation_radius(halves[:, 0], self.n_angles)
        upper, f = motion_cells.bound_cells(
            self.x, self.p, self.y, self.q, *self.motions(middles), angle, halves[:, 1]
        )
        self.n_evaluated += len(f)
        self.seconds += perf_counter() - started
        return Cells(middles, halves, np.minimum(upper, cells.upper[parents])), parents, f


def certify(
    x: F64, p: F64, y: F64, q: F64, rotates: bool, start: Motion, eps: float, seed: int,
    max_seconds: float, verbose: bool,
) -> tuple[F64, F64, bool, float]:  # fmt: skip
    """Return (R, t, is finished, gap): a motion whose D^2 is at most ``gap`` above the minimum.

    The search starts at the motion ``start``. The gap is ``eps``, or the proven gap at the time limit. Points are in
    units of sigma, and the weights p, q sum to one.
    """

    def refine(R: F64, t: F64) -> tuple[F64, F64, float]:
        ends = refine_motions(x, p, y, q, 1.0, (R[None], t[None]), rotates, 50)
        return ends[0][0], ends[1][0], float(ends[2][0]) - motion_cells.ROUNDING_RATIO

    R, t, f = refine(*start)
    a, b, c = _thin_sets(x, p, y, q, eps, seed)
    search = MotionSearch(*a, *b, rotates, f + eps / 2 - c)
    cells, best = _initial_cells(search), (R, t, f)
    estimate = _estimate_cells(search, cells, np.random.default_rng([seed, RngStream.MOTION_CELLS]))
    _report_plan(search, estimate, eps, max_seconds, verbose)
    with Progress(int(estimate), "certified alignment", show=verbose) as progress:
        started = perf_counter()
        while len(cells.upper) and perf_counter() - started < max_seconds:
            head, tail = cells.select(slice(-CELL_BATCH_SIZE)), cells.select(slice(-CELL_BATCH_SIZE, None))
            children, _, values = search.split(tail)
            progress.advance(len(values))
            i = int(values.argmax())
            if values[i] - c - motion_cells.ROUNDING_RATIO > best[2]:
                rotations, translations = search.motions(children.middles[[i]])
                best = max(best, refine(rotations[0], translations[0]), key=lambda end: end[2])
                search.threshold = best[2] + eps / 2 - c
            open_cells = children.select(children.upper > search.threshold)
            cells = head.append(open_cells.select(np.argsort(open_cells.upper, kind="stable")))
    R, t, f = best
    if not len(cells.upper):
        return R, t, True, eps
    return R, t, False, 2 * (float(cells.upper.max()) + c - f)


def _thin_sets(
    x: F64, p: F64, y: F64, q: F64, eps: float, seed: int
) -> tuple[tuple[F64, F64], tuple[F64, F64], float]:
    """Return coresets with their weights, and a bound on the change of f."""
    size = MIN_CORESET_SIZE
    while True:
        (a, r, off_x), (b, s, off_y) = (_thin(*v, size, seed) for v in ((x, p), (y, q)))
        bound = off_x * _norm(y, q) + off_y * _norm(a, r)
        if bound <= eps / 8:
            return (a, r), (b, s), bound
        size *= 2


def _thin(x: F64, p: F64, size: int, seed: int) -> tuple[F64, F64, float]:
    """Return (points, weights, bound on the kernel distance to x with weights p) of a coreset."""
    if len(x) <= size:
        return x, p, 0.0
    chosen, q = choose_points(
        (x - x.mean(axis=0)).astype(np.float32), p, CoresetParams(size, (1.0,), "swap", seed)
    )
    both = np.concatenate([x, x[chosen]])
    return x[chosen], q, _norm(both - bounding_box(both)[0], np.concatenate([p, -q]))


def _norm(x: F64, z: F64) -> float:
    """Bound the norm of sum_i z_i phi(x_i): a mean embedding, or a difference of two mean embeddings."""
    square = solve(make_problem(WeightedPoints.of(x, z[:, None]), 1.0, SQUARED_NORM_TOL), "auto")
    return float(np.sqrt(max(square, 0.0) + SQUARED_NORM_TOL))


def _initial_cells(search: MotionSearch) -> Cells:
    """Split the cell of all motions until `MIN_ESTIMATE_CELLS` cells, or none, are open."""
    cells = search.all_motions()
    search.split(cells)  # compiles the functions before the speed is measured
    search.n_evaluated, search.seconds = 0, 0.0
    while 0 < len(cells.upper) < MIN_ESTIMATE_CELLS:
        children, _, _ = search.split(cells)
        cells = children.select(children.upper > search.threshold)
    return cells


def _estimate_cells(search: MotionSearch, cells: Cells, rng: np.random.Generator) -> float:
    """Estimate the number of cells of the search from random paths, weighted by their branches (Knuth 1975)."""
    if not len(cells.upper):
        return 0.0
    n_open, total = len(cells.upper), 0.0
    cells = cells.select(rng.choice(n_open, min(N_PROBE_PATHS, n_open), replace=False))
    weights = np.full(len(cells.upper), n_open / len(cells.upper))
    while len(cells.upper):
        children, parents, _ = search.split(cells)
        total += float(weights[parents].sum())
        open_rows = np.flatnonzero(children.upper > search.threshold)
        open_rows = open_rows[rng.permutation(len(open_rows))]
        owners, first_rows, counts = np.unique(parents[open_rows], return_index=True, return_counts=True)
        cells, weights = children.select(open_rows[first_rows]), weights[owners] * counts
    return total


def _report_plan(search: MotionSearch, cells: float, eps: float, max_seconds: float, verbose: bool) -> None:
    """Print the estimated time of the search; raise ValueError if it exceeds the limit."""
    seconds = cells * search.seconds / search.n_evaluated
    grid = motion_cells.grid_size(eps, search.x.shape[1], search.n_angles, search.radius, search.width)
    plan = (
        f"alignment certified to {eps:g} of D^2: about {cells:.2g} cells of motions with {len(search.p)} x "
        f"{len(search.q)} kernel values each, about {seconds:.2g} s (a plain grid: {grid:.2g} motions)"
    )
    if seconds > max_seconds:
        raise ValueError(
            f"max_seconds must be at least the estimated time; got {max_seconds:g} for {plan}. Increase max_seconds, "
            "guarantee or sigma."
        )
    if verbose:
        print(plan, file=sys.stderr)
