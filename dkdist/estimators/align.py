"""`align`: the rigid motion that brings one point set nearest to another by the kernel distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist.estimators._kernel_inputs import points_of
from dkdist.estimators._params import draw_seed, one_of, positive
from dkdist.estimators.coreset import coreset
from dkdist.estimators.kernel_distance import kernel_distance
from dkdist.numerics.alignment import climb, rotation_from, rotation_grid, translation_search

F64 = NDArray[np.float64]

CORESET = 64  # points that rotations are tried with
ROTATIONS = {2: 90, 3: 640}
COARSE = {1: 1 / 12, 2: 1 / 12, 3: 1 / 5}  # of the radius: rotations are tried with a kernel at least as wide
CLIMBED = 10  # of the rotations tried
CLIMBED_ON = 128  # points, before the last climbs
FINISHED = 3  # of them, on all points


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
        Seed of the coresets.

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
    Coresets of 64 points are compared at 90 rotations (640 in space), each with its best translation by one inverse
    Fourier transform, under a kernel of at least a twelfth (a fifth) of the radius. From the ten best, the overlap is
    climbed to a local optimum, first under that kernel and then under the given one; the best three on all points. The
    optimum is not certified: shapes that nearly fit in other ways, and a sigma far below the details, can mislead it.
    Cost: some 0.1 s in the plane and 1 s in space for 500 points; n m kernel values for each step of the last climb.

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
    seed = draw_seed(random_state)
    centre_x, centre_y = x.mean(axis=0), y.mean(axis=0)
    x0, y0 = x - centre_x, y - centre_y
    starts, coarse = _starts(x0, y0, sigma, rotates, seed)
    R, t = _best(x0, y0, sigma, coarse, starts, rotates, seed)
    translation = centre_x + t - R @ centre_y
    moved = y @ R.T + translation
    return Alignment(R, translation, _distance(moved, x, sigma), _distance(y, x, sigma))


Start = tuple[F64, F64]


def _starts(x: F64, y: F64, sigma: float, rotates: bool, seed: int) -> tuple[list[Start], float]:
    """The best (rotation parameters, translation) of a grid, under a kernel that may be wider than asked for."""
    d = x.shape[1]
    radius = max(float(np.sqrt((v**2).sum(axis=1).max())) for v in (x, y)) or sigma
    coarse = max(sigma, COARSE[d] * radius)
    (a, p), (b, q) = (_few(v, CORESET, coarse, seed) for v in (x, y))
    search = translation_search(a, p, coarse, radius)
    grid = rotation_grid(d, ROTATIONS[d]) if rotates else np.zeros((1, 0))
    found = [search(b @ rotation_from(turn, d).T if rotates else b, q) for turn in grid]
    order = np.argsort([-f for _, f in found], kind="stable")[:CLIMBED]
    return [(grid[i], found[i][0]) for i in order], coarse


def _best(
    x: F64, y: F64, sigma: float, coarse: float, starts: list[Start], rotates: bool, seed: int
) -> tuple[F64, F64]:
    """Climb from every start on coresets, under both kernels, and from the best ends on all points."""
    (a, p), (b, q) = (_few(v, CORESET, coarse, seed) for v in (x, y))
    (c, r), (e, s) = (_few(v, CLIMBED_ON, sigma, seed) for v in (x, y))
    ends: list[tuple[float, int, Start]] = []
    for i, start in enumerate(starts):
        turn, t, _ = climb(a, p, b, q, coarse, start, rotates)
        turn, t, _ = climb(c, r, e, s, float(np.sqrt(coarse * sigma)), (turn, t), rotates)
        turn, t, f = climb(c, r, e, s, sigma, (turn, t), rotates)
        ends.append((-f, i, (turn, t)))
    every = (x, np.full(len(x), 1 / len(x)), y, np.full(len(y), 1 / len(y)))
    finished = [
        climb(*every, sigma, end, rotates) for _, _, end in sorted(ends, key=lambda e: e[:2])[:FINISHED]
    ]
    turn, t, _ = max(finished, key=lambda end: end[2])
    return rotation_from(turn, x.shape[1]) if rotates else np.eye(x.shape[1]), t


def _few(x: F64, size: int, sigma: float, seed: int) -> tuple[F64, F64]:
    if len(x) <= size:
        return x, np.full(len(x), 1 / len(x))
    few = coreset(x, size, sigma=sigma, random_state=seed)
    return x[few.indices], few.weights


def _distance(y: F64, x: F64, sigma: float) -> float:
    return kernel_distance(y, x, sigma=sigma, eps=1e-8)
