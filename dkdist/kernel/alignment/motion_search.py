"""The search of an alignment: motions of a grid, climbed on ever more points under ever narrower kernels."""

from __future__ import annotations

from functools import cache

import numpy as np

from dkdist.kernel.alignment.climbing import climb
from dkdist.kernel.alignment.motions import best_translations, rotation_from, rotation_grid
from dkdist.kernel.alignment.plane_search import best_of_angles
from dkdist.kernel.alignment.space_search import best_of_rotations
from dkdist.kernel.kinds.kernel_sums import scaled, sums
from dkdist.loops.array_types import F64
from dkdist.loops.cell_means import cell_means
from dkdist.loops.compile import loop

ROTATIONS = {2: 48, 3: 320}
COARSE = {1: 1 / 8, 2: 1 / 8, 3: 1 / 5}  # of the radius: rotations are tried with a kernel at least as wide
COARSEST = {1: 64, 2: 64, 3: 32}  # means of regions in the first stage
MEANS = (128, 256)  # in the others, but for the last one
STAGES = {  # starts, power of the first kernel's width, Newton's steps at most, and the last one's length in sigma
    2: ((24, 1.0, 4, 0.2), (6, 0.5, 6, 0.2), (3, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
    3: ((24, 1.0, 4, 0.2), (12, 0.5, 6, 0.2), (4, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
}  # the last one on all points; on a line as in the plane
APART = 0.1  # of an entry of the rotation, and a sigma of the translation: motions that are nearer are one
LEAST = 0.8  # of the best overlap: ends with less go no further


def search(x: F64, p: F64, y: F64, q: F64, rotates: bool, evened: bool) -> tuple[F64, F64]:
    """The motion (R, t) of the points y (m, d) that is found to overlap x (n, d) most; weights p, q sum to one.

    Both lie about the origin, in units of sigma. ``evened``: the last climb is of `evened_weights`.
    """
    d = x.shape[1]
    radius = max(float(np.sqrt((v**2).sum(axis=1).max())) for v in (x, y)) or 1.0
    coarse = max(1.0, COARSE[d] * radius)
    few = [_means(*v, evened) for v in ((x, p), (y, q))]
    R = _tried(d) if rotates else np.eye(d)[None]
    if rotates and d == 2:
        t, f = best_of_angles(*few[0][0], *few[1][0], len(R), coarse, radius)
    elif rotates:
        t, f = best_of_rotations(*few[0][0], *few[1][0], R, coarse)
    else:
        t, f = best_translations(*few[0][0], *few[1][0], R, coarse, radius)
    for k, (starts, power, steps, shortest) in enumerate(STAGES[max(2, d)]):
        best = _distinct(R, t, f, np.argsort(-f, kind="stable"), starts)
        R, t, f = climb(*few[0][k], *few[1][k], coarse**power, (R[best], t[best]), rotates, steps, shortest)
    return R[0], t[0]


@cache
def _tried(d: int) -> F64:
    """The rotations that are tried, (r, d, d)."""
    return np.array([rotation_from(turn, d) for turn in rotation_grid(d, ROTATIONS[d])])


def _means(x: F64, p: F64, evened: bool) -> list[tuple[F64, F64]]:
    """For each stage the means of regions, and their weights; at last all points."""
    last = evened_weights(x, p) if evened else p
    return [*(cell_means(x, size, p) for size in (COARSEST[x.shape[1]], *MEANS)), (x, last)]


def evened_weights(x: F64, p: F64) -> F64:
    """p_i / kappa(P, x_i)^(1/2), to sum to one: of points (n, d) in units of sigma, less where many are near.

    Two samples of one shape are dense by chance in other places, and the motion that brings dense places together
    overlaps more than the true one does. With a root for each set, pairs are divided once by the density about them.
    """
    u = scaled(x, 1.0)
    w = p / np.sqrt(sums(u, u, p[:, None])[:, 0])
    return np.asarray(w / w.sum())


@loop()
def _distinct(R, t, f, order, count):  # type: ignore[no-untyped-def]
    """The ``count`` best motions that differ and are not far worse than the best."""
    kept = np.empty(count, np.int64)
    n = 0
    for i in order[: 4 * count]:
        if n == count or f[i] < LEAST * f[order[0]]:
            break
        new = True
        for k in kept[:n]:
            if np.abs(R[i] - R[k]).max() < APART and np.abs(t[i] - t[k]).max() < 1:
                new = False
                break
        if new:
            kept[n] = i
            n += 1
    return kept[:n]
