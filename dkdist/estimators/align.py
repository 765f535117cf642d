"""`align`: the rigid motion that brings one point set nearest to another by the kernel distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist.estimators._kernel_inputs import points_of
from dkdist.estimators._params import draw_seed, one_of, positive
from dkdist.estimators.kernel_distance import kernel_distance
from dkdist.numerics.alignment import best_translations, rotation_from, rotation_grid
from dkdist.numerics.alignment_climb import climb
from dkdist.numerics.cell_means import cell_means

F64 = NDArray[np.float64]

ROTATIONS = {2: 48, 3: 512}
COARSE = {1: 1 / 8, 2: 1 / 8, 3: 1 / 4}  # of the radius: rotations are tried with a kernel at least as wide
STAGES = (  # points, starts, power of coarse / sigma, steps of Newton's method at most
    (64, 24, 1.0, 8),
    (128, 6, 0.5, 12),
    (256, 3, 0.0, 12),
    (None, 1, 0.0, 50),  # all of them
)
APART = 0.1  # in the Frobenius norm, and in sigma: motions that are nearer are one


@dataclass(frozen=True)
class Alignment:
    """Q @ rotation.T + translation is at the kernel ``distance`` from P; before, it was at ``distance_before``."""

    rotation: F64
    translation: F64
    distance: float
    distance_before: float


def align(
    Q: ArrayLike, P: ArrayLike, *, sigma: float, transform: str = "rigid", random_state: Any = None
) -> Alignment:
    """Find the rotation and translation of Q that bring it nearest to P by the kernel distance.

    Parameters
    ----------
    Q : (m, d) array
        The points to move, d = 2 or 3 (1 to 3 for translations).
    P : (n, d) array
        The points to meet. Each point weighs 1 / n, or 1 / m.
    sigma : float
        Standard deviation of the Gaussian kernel: about the size of the details that should match.
    transform : {"rigid", "translation"}, default="rigid"
        Rotations (no reflections) and translations, or translations alone.
    random_state : int, Generator or None
        Checked, but nothing is random.

    Returns
    -------
    Alignment
        ``rotation`` (d, d), ``translation`` (d,), ``distance`` after and ``distance_before``; the aligned points are
        ``Q @ rotation.T + translation``.

    Raises
    ------
    ValueError
        For points that are not finite, different or other dimensions.

    Notes
    -----
    Sets are first made 64 means of regions each and compared at 48 rotations (512 in space), each with its best
    translation by one inverse Fourier transform, under a kernel of at least an eighth (a quarter) of the radius. From
    the best of them the overlap is climbed by Newton's method, under ever narrower kernels and on ever more points;
    the best end on all of them. The optimum is not certified: shapes that nearly fit in other ways, and a sigma far
    below the details, can mislead it. Cost for 500 points: some 10 ms in the plane and 50 ms in space; n m kernel
    values for each step of the last climb.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 5.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random((200, 2)) * [2, 1]
    >>> turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> found = dk.align(P @ turn + 5, P, sigma=0.1, random_state=0)
    >>> bool(np.abs(found.rotation - turn).max() < 1e-3), found.distance < 0.01 < found.distance_before
    (True, True)
    """
    y, x = points_of("Q", Q), points_of("P", P)
    one_of("transform", transform, ("rigid", "translation"))
    rotates, d, sigma = transform == "rigid", x.shape[1], positive("sigma", sigma)
    if y.shape[1] != d:
        raise ValueError(f"Q has {y.shape[1]} dimensions and P has {d}: both must have the same")
    if d > 3 or (rotates and d == 1):
        raise ValueError(
            f"points have {d} dimension(s): transform={transform!r} is for {'2 or 3' if rotates else '1 to 3'}"
        )
    draw_seed(random_state)
    centre_x, centre_y = x.mean(axis=0), y.mean(axis=0)
    x0, y0 = x - centre_x, y - centre_y
    R, t = _search(x0, y0, sigma, rotates)
    translation = centre_x + t - R @ centre_y
    moved = y @ R.T + translation
    return Alignment(R, translation, _distance(moved, x, sigma), _distance(y, x, sigma))


def _search(x: F64, y: F64, sigma: float, rotates: bool) -> tuple[F64, F64]:
    """Motions of a grid, under a kernel that may be wider, climbed on ever more points under ever narrower kernels."""
    d = x.shape[1]
    radius = max(float(np.sqrt((v**2).sum(axis=1).max())) for v in (x, y)) or sigma
    coarse = max(sigma, COARSE[d] * radius)
    grid = rotation_grid(d, ROTATIONS[d]) if rotates else np.zeros((1, 0))
    R = np.array([rotation_from(turn, d) if rotates else np.eye(d) for turn in grid])
    few = [cell_means(v, STAGES[0][0]) for v in (x, y)]
    t, f = best_translations(*few[0], *few[1], R, coarse, radius)
    for points, starts, power, steps in STAGES:
        best = _distinct(R, t, f, starts, sigma)
        width = sigma * (coarse / sigma) ** power
        few = [cell_means(v, points or len(v)) for v in (x, y)]
        R, t, f = climb(*few[0], *few[1], width, (R[best], t[best]), rotates, steps)
    return R[0], t[0]


def _distinct(R: F64, t: F64, f: F64, count: int, sigma: float) -> list[int]:
    """The ``count`` best motions that differ."""
    kept: list[int] = []
    for i in np.argsort(-f, kind="stable").tolist():
        near = (np.abs(R[kept] - R[i]).max(axis=(1, 2), initial=0) < APART) & (
            np.abs(t[kept] - t[i]).max(axis=1, initial=0) < sigma
        )
        if not near.any():
            kept.append(i)
        if len(kept) == count:
            break
    return kept


def _distance(y: F64, x: F64, sigma: float) -> float:
    return kernel_distance(y, x, sigma=sigma, eps=1e-8)
