"""`align`: the rigid motion that brings one weighted point set nearest to another by the kernel distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import draw_seed, one_of, positive
from dkdist._numba.arrays import F64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._utils.validation import as_verbose, require_same_names
from dkdist.alignment._neighbour_pairs_numba import squared_distances
from dkdist.alignment.motion_search import search_motion
from dkdist.kernels.inputs import (
    MAX_TOTAL_WEIGHT,
    MIN_TOTAL_WEIGHT,
    SHAPE_HINT,
    as_points,
    as_weights,
    bounding_box,
    check_bandwidth,
)
from dkdist.kernels.kernel_distance import MAX_DIRECT_POINTS, make_problem, solve
from dkdist.kernels.shapes import Shape, Surface, is_mesh

DEFAULT_MAX_SECONDS = 60.0
MAX_WIDTH_PER_SIGMA = 1e6  # of a set, in sigma
SQUARED_DISTANCE_TOL = 1e-8  # of D^2 of many points
MAX_ALIGNED_POINTS = 4096  # points of a set: of more, a coreset is moved
ALIGN_CORESET_SIZE = 2048  # points of that coreset
AUTO_SIGMA_RATIO = 0.025  # of the lesser length of both sets: right most often on pairs of shapes that nothing else was tried on
OUTLIER_RATIO = 10


@dataclass(frozen=True)
class Alignment:
    """Q @ rotation.T + translation is at the kernel ``distance`` from P; before, it was at ``distance_before``.

    D^2 is at most ``gap`` above that of any other motion: infinite if no guarantee was asked for. ``certified``
    says that it is no more than was asked for. ``sigma`` is the width of the kernel.

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
    sigma: float = float("nan")

    def _repr_html_(self) -> str:
        from dkdist._utils.text import pairs_table

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
    Q: Any,
    P: Any,
    *,
    sigma: float | str = "auto",
    weights: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    transform: str = "rigid",
    random_state: Any = None,
    guarantee: float | None = None,
    max_seconds: float | None = None,
    verbose: bool = False,
) -> Alignment:
    """Find the rotation and translation of Q that bring it nearest to P by the kernel distance.

    Parameters
    ----------
    Q : (m, d) array, or `Curve` or `Surface`
        The points to move, d = 2 or 3 (1 to 3 for translations). Of shapes, and of meshes of trimesh and meshio, these
        are the middles of segments or triangles, which weigh as much as these are long or large; directions do not
        count.
    P : (n, d) array, or `Curve` or `Surface`
        The points to meet.
    sigma : float, default="auto"
        Standard deviation of the Gaussian kernel: about the size of the details that should match. "auto" is a fortieth
        of the length of the shorter set, stray points aside: from the point farthest from its mean to the one farthest
        from that; and the last climb counts points less where many are near, since how densely a sample covers a shape
        is chance (see Notes). With a width that is given, a guarantee, or more than 4,096 points, all
        count as their weights say.
    weights : None or pair (w_Q, w_P), default=None
        Weights of the points, at least 0, used as they are. None, for both or in place of one, are equal weights that
        sum to one. Shapes have their own.
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
        For points that are not finite, different or other dimensions, data frames whose columns differ in name or
        order, weights that are negative, all zero or of another length, and sets that are a million sigma wide; for a
        guarantee that would take too long.

    Notes
    -----
    Sets are first made 64 means of regions each (32 in space) and compared at 48 rotations (320 in space), under a
    kernel of at least an eighth (a fifth) of the radius: each with its best translation by one inverse Fourier
    transform, in space with the one that three mean shifts lead to from where the middles meet. From the best of them
    the overlap is climbed by Newton's method, under ever narrower kernels and on ever more points; the best end on all
    of them. With "auto" that last climb weighs points of P by p_i / kappa(P, x_i)^(1/2) in place of p_i, those of Q
    likewise: of two samples of one surface it ends a third nearer to the true rotation, and not quite at the least
    ``distance``, which is that of the points as they are. Without a guarantee the optimum is not certified: shapes that
    nearly fit in other ways, and a sigma far below the details, can mislead it. Cost for 500 points: some 3 ms in the
    plane and 10 ms in space; kernel values of the pairs that are near, for each step of the last climb.

    Of sets of more than 4,096 points, coresets of 2,048 points are moved instead, always the same ones: the cost is
    linear in the points, and the rotation is less exact by some tenths of a degree at most, where the sets are noisy
    samples. Distances are those of all points.

    A guarantee of eps is branch and bound over cells of motions, from the end of that search. In a cell no point moves
    by more than delta = a |y| + d^(1/2) h, for rotations up to a and translations up to h from its middle. The kernel
    has slope exp(-1/2) / sigma at most, so f = kappa(P, RQ + t) is at most delta exp(-1/2) / sigma larger than in the
    middle, and D^2, which holds 2 f, at most twice that smaller. A plain grid needs delta = eps sigma exp(1/2) / 2
    everywhere; here cells are that small only where f nearly reaches the best one, and second derivatives let those be
    wider (`dkdist.alignment._motion_cells_numba`). Coresets at kernel distances D_P, D_Q from P, Q change f by at
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
    require_same_names(P=P, Q=Q)
    (y, q), (x, p) = _read_weighted_points(Q, P, weights)
    one_of("transform", transform, ("rigid", "translation"))
    rotates, d = transform == "rigid", x.shape[1]
    # else the distance as it is given is what is promised, and a coreset's weights are those of all its points
    evened = guarantee is None and isinstance(sigma, str) and max(len(x), len(y)) <= MAX_ALIGNED_POINTS
    if isinstance(sigma, str):
        one_of("sigma", sigma, ("auto",))
        sigma = AUTO_SIGMA_RATIO * min(_robust_length(y), _robust_length(x)) or 1.0
    sigma = positive("sigma", sigma)
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
    budget = positive("max_seconds", DEFAULT_MAX_SECONDS if max_seconds is None else max_seconds)
    middle = _check_widths(y, x, sigma)
    x, y = (x - middle) / sigma, (y - middle) / sigma  # from here on in units of sigma
    W_p, W_q = float(p.sum()), float(q.sum())
    shares_x, shares_y = p / W_p, q / W_q
    centre_x, centre_y = shares_x @ x, shares_y @ y
    x0, y0 = x - centre_x, y - centre_y
    R, t = search_motion(*_thin(x0, shares_x), *_thin(y0, shares_y), rotates, evened)
    certified, gap = False, float("inf")
    if eps is not None:
        from dkdist.alignment.branch_and_bound import certify  # loaded for it alone

        W = W_p * W_q  # what D^2 has twice of the overlap
        how = rotates, (R, t), eps / W, draw_seed(random_state), budget, verbose
        R, t, certified, gap = certify(x0, shares_x, y0, shares_y, *how)
        gap *= W
    as_given = np.eye(d), centre_y - centre_x
    after, before = _distances(x0, p, y0, q, [(R, t), as_given])
    translation = (centre_x + t - R @ centre_y) * sigma + middle - R @ middle
    return Alignment(R, translation, after, before, certified, gap, sigma)


def _read_weighted_points(Q: Any, P: Any, weights: Any) -> list[tuple[F64, F64]]:
    """Points (n, d) and weights (n,) above zero of Q and of P; of shapes, middles of pieces and how large these are."""
    given = (None, None) if weights is None else weights
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"weights must be None or a pair (w_Q, w_P); found {type(weights).__name__}")
    found = []
    for name, value, w in (("Q", Q, given[0]), ("P", P, given[1])):
        shape = Surface(value) if is_mesh(value) and not isinstance(value, Shape) else value
        if isinstance(shape, Shape):
            if w is not None:
                raise ValueError(
                    f"{name} is a shape, whose weights are its lengths or areas: give None for it"
                )
            found.append((shape.points, shape.sizes))
            continue
        points = as_points(name, value, SHAPE_HINT)
        p = as_weights(name, w, points)[:, 0]
        if p.min() < 0:
            i = int(p.argmin())
            raise ValueError(f"weight {i} of {name} is {p[i]:.3g}: weights must be at least 0 to be aligned")
        found.append((points[p > 0], p[p > 0]))
    for name, (_, p) in zip("QP", found, strict=True):
        if not MIN_TOTAL_WEIGHT <= p.sum() <= MAX_TOTAL_WEIGHT:
            raise ValueError(
                f"the weights of {name} sum to {p.sum():.3g}: give others, from {MIN_TOTAL_WEIGHT:g} to {MAX_TOTAL_WEIGHT:g} in all"
            )
    return found


def _robust_length(x: F64) -> float:
    """From the point that is farthest from the mean to the one that is farthest from that: nearly the diameter.

    Points `OUTLIER_RATIO` times as far from the middle as half of them are do not count.
    """
    off = np.sqrt(((x - np.median(x, axis=0)) ** 2).sum(axis=1))
    if half := np.median(off):
        x = x[off <= OUTLIER_RATIO * half]
    far = x[((x - x.mean(axis=0)) ** 2).sum(axis=1).argmax()]
    return float(np.sqrt(((x - far) ** 2).sum(axis=1).max()))


def _thin(x: F64, p: F64) -> tuple[F64, F64]:
    """Points and weights that stand for many by the kernel of sigma = 1, always the same; few as they are."""
    if len(x) <= MAX_ALIGNED_POINTS:
        return x, p
    from dkdist.coresets.selection import CoresetParams, choose_points  # what few points do not need

    chosen, shares = choose_points(x.astype(np.float32), p, CoresetParams(ALIGN_CORESET_SIZE, 1.0, "swap", 0))
    return x[chosen], shares


def _check_widths(y: F64, x: F64, sigma: float) -> F64:
    """The middle of both sets; each must be narrow enough for coordinates in float32, which the search works with."""
    middle, sides = bounding_box(np.concatenate([y, x]))
    check_bandwidth("sigma", sigma, sigma, float(sides.max()))
    for name, points in (("Q", y), ("P", x)):
        width = float(bounding_box(points)[1].max())
        if width / MAX_WIDTH_PER_SIGMA > sigma:
            raise ValueError(
                f"{name} is {width:.3g} wide, more than {MAX_WIDTH_PER_SIGMA:g} bandwidths sigma={sigma:.3g}, which the search "
                "cannot tell apart: give a larger sigma, about the size of the details that should match"
            )
    return middle


def _distances(x: F64, p: F64, y: F64, q: F64, motions: list[tuple[F64, F64]]) -> list[float]:
    """D of x and R y + t for each motion (R, t)."""
    if len(x) + len(y) <= MAX_DIRECT_POINTS:
        squares = squared_distances(x, p, y, q, motions)
    else:
        squares = [_squared_distance(x, p, y @ R.T + t, q) for R, t in motions]
    return [float(np.sqrt(max(square, 0.0))) for square in squares]


def _squared_distance(x: F64, p: F64, y: F64, q: F64) -> float:
    both, z = np.concatenate([y, x]), np.concatenate([q, -p])[:, None]
    eps = SQUARED_DISTANCE_TOL / 4 * float(p.sum() + q.sum()) ** 2
    return solve(make_problem(WeightedPoints.of(both - both.mean(axis=0), z), 1.0, eps), "auto")
