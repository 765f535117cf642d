"""The certified search of `align`: branch and bound over all rigid motions of coresets, with its plan and its budget.

With sets S, T that stand for P, Q at kernel distances D_P and D_Q,

    |f(P, RQ + t) - f(S, RT + t)| <= D_P |mu_Q| + D_Q |mu_S| = c      for every motion,

so no motion has f above (the bound over all cells on S, T) + c, while f of the motion returned is found on all points.
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
from dkdist.alignment import _motion_cells_numba as loops
from dkdist.alignment.local_refinement import refine_motions
from dkdist.coresets.selection import CoresetParams, choose_points
from dkdist.kernels.inputs import bounding_box
from dkdist.kernels.kernel_distance import make_problem, solve

Motion = tuple[F64, F64]

MIN_CORESET_SIZE = (
    32  # points at first, then twice as many, until c is at most a quarter of the slack eps / 2
)
CELL_BATCH_SIZE = 1024  # cells that are split at once
MIN_ESTIMATE_CELLS = 4096  # cells that are made before the search is estimated: fewer are simply searched
N_PROBE_PATHS = 128  # random paths down the tree of cells, from which the estimate is made
SQUARED_NORM_TOL = 1e-9  # of D^2


class Cells(NamedTuple):
    """Motions: middles (k, D), half sides (k, 2), bounds of f (k,)."""

    middles: F64
    halves: F64
    upper: F64

    def part(self, chosen: slice | I64 | NDArray[np.bool_]) -> Cells:
        """Some of them."""
        return Cells(self.middles[chosen], self.halves[chosen], self.upper[chosen])

    def and_(self, other: Cells) -> Cells:
        """These and others."""
        return Cells(*map(np.concatenate, zip(self, other, strict=True)))


@dataclass
class MotionSearch:
    """Two weighted sets in units of sigma; cells whose bound is at most ``enough`` go."""

    x: F64
    p: F64
    y: F64
    q: F64
    rotates: bool
    enough: float
    counted: int = 0
    seconds: float = 0.0

    @property
    def turns(self) -> int:
        """How many coordinates a rotation has."""
        return self.x.shape[1] * (self.x.shape[1] - 1) // 2 if self.rotates else 0

    @property
    def radius(self) -> float:
        """Of the set that moves."""
        return float(np.sqrt((self.y**2).sum(axis=1).max()))

    @property
    def width(self) -> float:
        """Of translations: beyond it no two points are near enough for f to be ``enough``."""
        reach = np.sqrt(2 * np.log(max(1.0, 1 / max(self.enough, 1e-300))))
        return float(np.sqrt((self.x**2).sum(axis=1).max())) + self.radius + float(reach)

    def all_motions(self) -> Cells:
        """One cell."""
        middle = np.zeros((1, self.turns + self.x.shape[1]))
        half = np.pi if self.turns else 0.0
        return Cells(middle, np.array([[half, self.width]]), np.full(1, float(self.p.sum() * self.q.sum())))

    def motions(self, middles: F64) -> Motion:
        """Rotations and translations."""
        return loops.cell_rotations(middles[:, : self.turns], self.x.shape[1]), middles[:, self.turns :]

    def split(self, cells: Cells) -> tuple[Cells, I64, F64]:
        """(all children, the positions of their parents, f in their middles)."""
        started = perf_counter()
        middles, halves, parents = loops.split_cells(cells.middles, cells.halves, self.turns, self.radius)
        angle = loops.rotation_radius(halves[:, 0], self.turns)
        upper, f = loops.bound_cells(
            self.x, self.p, self.y, self.q, *self.motions(middles), angle, halves[:, 1]
        )
        self.counted += len(f)
        self.seconds += perf_counter() - started
        return Cells(middles, halves, np.minimum(upper, cells.upper[parents])), parents, f


def certify(
    x: F64, p: F64, y: F64, q: F64, rotates: bool, start: Motion, eps: float, seed: int,
    max_seconds: float, verbose: bool,
) -> tuple[F64, F64, bool, float]:  # fmt: skip
    """(R, t, whether the search came to its end, gap): a motion whose D^2 is at most ``gap`` above the least.

    It starts from the one found by climbing; the gap is ``eps``, or what is proven within the budget. Points are in
    units of sigma, and their weights p, q sum to one.
    """

    def polished(R: F64, t: F64) -> tuple[F64, F64, float]:
        ends = refine_motions(x, p, y, q, 1.0, (R[None], t[None]), rotates, 50)
        return ends[0][0], ends[1][0], float(ends[2][0]) - loops.ROUNDING_RATIO

    R, t, f = polished(*start)
    a, b, c = _thin_sets(x, p, y, q, eps, seed)
    search = MotionSearch(*a, *b, rotates, f + eps / 2 - c)
    cells, best = _initial_cells(search), (R, t, f)
    estimate = _estimate_cells(search, cells, np.random.default_rng([seed, RngStream.MOTION_CELLS]))
    _report_plan(search, estimate, eps, max_seconds, verbose)
    progress = Progress(int(estimate), "certified alignment", show=verbose)
    started = perf_counter()
    while len(cells.upper) and perf_counter() - started < max_seconds:
        head, tail = cells.part(slice(-CELL_BATCH_SIZE)), cells.part(slice(-CELL_BATCH_SIZE, None))
        children, _, values = search.split(tail)
        progress.advance(len(values))
        i = int(values.argmax())
        if values[i] - c - loops.ROUNDING_RATIO > best[2]:
            turned, shift = search.motions(children.middles[[i]])
            best = max(best, polished(turned[0], shift[0]), key=lambda end: end[2])
            search.enough = best[2] + eps / 2 - c
        stay = children.part(children.upper > search.enough)
        cells = head.and_(stay.part(np.argsort(stay.upper, kind="stable")))
    progress.close()
    R, t, f = best
    if not len(cells.upper):
        return R, t, True, eps
    return R, t, False, 2 * (float(cells.upper.max()) + c - f)


def _thin_sets(
    x: F64, p: F64, y: F64, q: F64, eps: float, seed: int
) -> tuple[tuple[F64, F64], tuple[F64, F64], float]:
    """Coresets with their weights, and what they change f by at most."""
    size = MIN_CORESET_SIZE
    while True:
        (a, r, off_x), (b, s, off_y) = (_thin(*v, size, seed) for v in ((x, p), (y, q)))
        change = off_x * _norm(y, q) + off_y * _norm(a, r)
        if change <= eps / 8:
            return (a, r), (b, s), change
        size *= 2


def _thin(x: F64, p: F64, size: int, seed: int) -> tuple[F64, F64, float]:
    """(points, weights, a bound of their kernel distance to x with weights p)."""
    if len(x) <= size:
        return x, p, 0.0
    chosen, q = choose_points(
        (x - x.mean(axis=0)).astype(np.float32), p, CoresetParams(size, 1.0, "swap", seed)
    )
    both = np.concatenate([x, x[chosen]])
    return x[chosen], q, _norm(both - bounding_box(both)[0], np.concatenate([p, -q]))


def _norm(x: F64, z: F64) -> float:
    """A bound of the length of sum_i z_i phi(x_i): of a mean embedding, or of a difference of two."""
    square = solve(make_problem(WeightedPoints.of(x, z[:, None]), 1.0, SQUARED_NORM_TOL), "auto")
    return float(np.sqrt(max(square, 0.0) + SQUARED_NORM_TOL))


def _initial_cells(search: MotionSearch) -> Cells:
    """All motions, cut until many cells are left, or none."""
    cells = search.all_motions()
    search.split(cells)  # compiles what the rate is then measured of
    search.counted, search.seconds = 0, 0.0
    while 0 < len(cells.upper) < MIN_ESTIMATE_CELLS:
        children, _, _ = search.split(cells)
        cells = children.part(children.upper > search.enough)
    return cells


def _estimate_cells(search: MotionSearch, cells: Cells, rng: np.random.Generator) -> float:
    """How many cells will be looked at: random paths, each weighted by the branches not taken (Knuth 1975)."""
    if not len(cells.upper):
        return 0.0
    alive, total = len(cells.upper), 0.0
    cells = cells.part(rng.choice(alive, min(N_PROBE_PATHS, alive), replace=False))
    weights = np.full(len(cells.upper), alive / len(cells.upper))
    while len(cells.upper):
        children, parents, _ = search.split(cells)
        total += float(weights[parents].sum())
        stay = np.flatnonzero(children.upper > search.enough)
        stay = stay[rng.permutation(len(stay))]
        owners, taken, counts = np.unique(parents[stay], return_index=True, return_counts=True)
        cells, weights = children.part(stay[taken]), weights[owners] * counts
    return total


def _report_plan(search: MotionSearch, cells: float, eps: float, max_seconds: float, verbose: bool) -> None:
    """Say what the search will take, or refuse it."""
    seconds = cells * search.seconds / search.counted
    grid = loops.grid_size(eps, search.x.shape[1], search.turns, search.radius, search.width)
    plan = (
        f"alignment certified to {eps:g} of D^2: about {cells:.2g} cells of motions with {len(search.p)} x "
        f"{len(search.q)} kernel values each, {seconds:.2g} s at the rate of a sample (a plain grid: {grid:.2g} "
        "motions)"
    )
    if seconds > max_seconds:
        raise ValueError(
            f"{plan}, more than max_seconds={max_seconds:g}: allow more of either, or take a larger guarantee or sigma"
        )
    if verbose:
        print(plan, file=sys.stderr)
