"""`align`: the rigid motion that brings one point set nearest to another by the kernel distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist.base.parameter_checks import draw_seed, one_of, positive
from dkdist.kernel.alignment.motion_search import search
from dkdist.kernel.alignment.near_pairs_loops import squared_distances
from dkdist.kernel.distance.energy_task import SMALL, energy_by, make_task
from dkdist.kernel.distance.point_inputs import box, points_of, require_near
from dkdist.loops.array_types import F64
from dkdist.plain.flags import as_verbose

MAX_SECONDS = 60.0
WIDEST = 1e6  # of a set, in sigma
SQUARE_ERROR = 1e-8  # of D^2 of many points
MANY = 4096  # points of a set: of more, a coreset is moved
STAND_INS = 2048  # points of that coreset


@dataclass(frozen=True)
class Alignment:
    """Q @ rotation.T + translation is at the kernel ``distance`` from P; before, it was at ``distance_before``.

    D^2 is at most ``gap`` above that of any other motion: infinite if no guarantee was asked for. ``certified``
    says that it is no more than was asked for.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> P = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> found = dk.align(P - [3.0, 0.0], P, sigma=0.5, transform="translation", random_state=0)
    >>> found.translation.round(3), found.distance < 1e-6 < found.distance_before
    (array([3., 0.]), True)
    """

    rotation: F64
    translation: F64
    distance: float
    distance_before: float
    certified: bool = False
    gap: float = float("inf")

    def _repr_html_(self) -> str:
        from dkdist.plain.html_text import pairs_table

        rotation = "; ".join(", ".join(f"{v:.4f}" for v in row) for row in self.rotation.tolist())
        kept = "" if self.certified else ", more than was asked for"
        sure = f"squared distance at most {self.gap:.3g} above the least{kept}"
        pairs = [
            ("rotation", rotation),
            ("translation", ", ".join(f"{v:.6g}" for v in self.translation.tolist())),
            ("distance", f"{self.distance:.4g}, before {self.distance_before:.4g}"),
            ("guarantee", sure if np.isfinite(self.gap) else "none was asked for"),
        ]
        return pairs_table("Alignment", pairs)


def align(
    Q: ArrayLike,
    P: ArrayLike,
    *,
    sigma: float,
    transform: str = "rigid",
    random_state: Any = None,
    guarantee: float | None = None,
    max_seconds: float | None = None,
    verbose: bool = False,
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
        Seed of the coresets of a guarantee; nothing else is random.
    guarantee : float, optional
        Search all motions, until D^2 is certainly no more than this above the least possible.
    max_seconds : float, default=60
        Of the guaranteed search. One that is expected to take longer is refused, with the number; one that takes
        longer all the same stops, with the ``gap`` that is proven by then.
    verbose : bool, default=False
        Print the plan of the guaranteed search (kernel sums, seconds) on standard error, and progress.

    Returns
    -------
    Alignment
        ``rotation`` (d, d), ``translation`` (d,), ``distance`` after and ``distance_before``; the aligned points are
        ``Q @ rotation.T + translation``. ``certified`` and ``gap`` say how near the optimum they are.

    Raises
    ------
    ValueError
        For points that are not finite, different or other dimensions, and sets that are a million sigma wide; for a
        guarantee that would take too long.

    Notes
    -----
    Sets are first made 64 means of regions each (32 in space) and compared at 48 rotations (320 in space), each with
    its best translation by one inverse Fourier transform, under a kernel of at least an eighth (a quarter) of the
    radius. From the best of them the overlap is climbed by Newton's method, under ever narrower kernels and on ever
    more points; the best end on all of them. Without a guarantee the optimum is not certified: shapes that nearly fit
    in other ways, and a sigma far below the details, can mislead it. Cost for 500 points: some 3 ms in the plane and
    20 ms in space; kernel values of the pairs that are near, for each step of the last climb.

    Of sets of more than 4,096 points, coresets of 2,048 points are moved instead, always the same ones: the cost is
    linear in the points, and the rotation is less exact by some tenths of a degree at most, where the sets are noisy
    samples. Distances are those of all points.

    A guarantee of eps is branch and bound over cells of motions, from the end of that search. In a cell no point moves
    by more than delta = a |y| + d^(1/2) h, for rotations up to a and translations up to h from its middle. The kernel
    has slope exp(-1/2) / sigma at most, so f = kappa(P, RQ + t) is at most delta exp(-1/2) / sigma larger than in the
    middle, and D^2, which holds 2 f, at most twice that smaller. A plain grid needs delta = eps sigma exp(1/2) / 2
    everywhere; here cells are that small only where f nearly reaches the best one, and second derivatives let those be
    wider (`dkdist.kernel.alignment.motion_cells_loops`). Coresets at kernel distances D_P, D_Q from P, Q change f by at
    most c = D_P |mu_Q| + D_Q |mu_S|; their size is chosen for c <= eps / 8, and cells whose bound is at most
    f + eps / 2 - c go, f found on all points. Translations are searched as far as points can meet. (What theorems 5.5
    and 5.6 of the paper bound is D^2, not D, and its bandwidth is h = 2 sigma^2.) For 500 points: a second
    or two in the plane; in space a minute for eps = .2 and a sigma of .3 diameters, and far more below.

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
    >>> sure = dk.align(P[:40] @ turn, P, sigma=0.5, guarantee=0.05, random_state=0)
    >>> sure.certified, sure.gap <= 0.05
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
    as_verbose(verbose)
    if guarantee is None and (max_seconds is not None or verbose):
        raise ValueError(
            "max_seconds and verbose are for a guaranteed search: give guarantee, or leave them out"
        )
    eps = None if guarantee is None else positive("guarantee", guarantee)
    budget = positive("max_seconds", MAX_SECONDS if max_seconds is None else max_seconds)
    middle = _checked(y, x, sigma)
    x, y = (x - middle) / sigma, (y - middle) / sigma  # from here on in units of sigma
    centre_x, centre_y = x.mean(axis=0), y.mean(axis=0)
    x0, y0 = x - centre_x, y - centre_y
    R, t = search(_few(x0), _few(y0), rotates)
    certified, gap = False, float("inf")
    if eps is not None:
        from dkdist.kernel.alignment.branch_and_bound import certify  # loaded for it alone

        seed = draw_seed(random_state)
        R, t, certified, gap = certify(x0, y0, rotates, (R, t), eps, seed, budget, verbose)
    as_given = np.eye(d), centre_y - centre_x
    after, before = _distances(x0, y0, [(R, t), as_given])
    translation = (centre_x + t - R @ centre_y) * sigma + middle - R @ middle
    return Alignment(R, translation, after, before, certified, gap)


def _few(x: F64) -> F64:
    """Points that stand for many by the kernel of sigma = 1, always the same; few as they are."""
    if len(x) <= MANY:
        return x
    from dkdist.kernel.coresets.coreset_choice import Choice, choose  # what few points do not need

    chosen, _ = choose(x.astype(np.float32), np.full(len(x), 1 / len(x)), Choice(STAND_INS, 1.0, "swap", 0))
    return x[chosen]


def _checked(y: F64, x: F64, sigma: float) -> F64:
    """The middle of both sets; each must be narrow enough for coordinates in float32, which the search works with."""
    middle, sides = box(np.concatenate([y, x]))
    require_near("sigma", sigma, sigma, float(sides.max()))
    for name, points in (("Q", y), ("P", x)):
        width = float(box(points)[1].max())
        if width / WIDEST > sigma:
            raise ValueError(
                f"{name} is {width:.3g} wide, more than {WIDEST:g} bandwidths sigma={sigma:.3g}, which the search "
                "cannot tell apart: give a larger sigma, about the size of the details that should match"
            )
    return middle


def _distances(x: F64, y: F64, motions: list[tuple[F64, F64]]) -> list[float]:
    """D of x and R y + t for each motion (R, t)."""
    if len(x) + len(y) <= SMALL:
        squares = squared_distances(x, y, motions)
    else:
        squares = [_square(x, y @ R.T + t) for R, t in motions]
    return [float(np.sqrt(max(square, 0.0))) for square in squares]


def _square(x: F64, y: F64) -> float:
    both = np.concatenate([y, x])
    z = np.repeat([1 / len(y), -1 / len(x)], [len(y), len(x)])[:, None]
    return energy_by(make_task(both - both.mean(axis=0), z, 1.0, SQUARE_ERROR), "auto")
