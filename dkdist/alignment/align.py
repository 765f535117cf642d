"""`align`: rigid alignment of two weighted point sets, curves or surfaces by the kernel distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_positive, draw_seed
from dkdist._numba.arrays import F64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._utils.validation import check_verbose, require_same_names
from dkdist.alignment._neighbour_pairs_numba import squared_distances
from dkdist.alignment._tuning import (
    ALIGN_CORESET_SIZE,
    AUTO_SIGMA_RATIO,
    DEFAULT_MAX_SECONDS,
    MAX_ALIGNED_POINTS,
    MAX_REFINEMENT_ITERATIONS,
    MAX_WIDTH_PER_SIGMA,
    OUTLIER_RATIO,
    SQUARED_DISTANCE_TOL,
)
from dkdist.alignment.local_search import Overlap, check_alignment_kernel, search_locally
from dkdist.alignment.motion_search import search_motion
from dkdist.kernels._tuning import MAX_DIRECT_POINTS
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.inputs import (
    MAX_TOTAL_WEIGHT,
    MIN_TOTAL_WEIGHT,
    SHAPE_HINT,
    PointsLike,
    as_points,
    as_weights,
    bounding_box,
    check_bandwidth,
)
from dkdist.kernels.kernel_distance import solve
from dkdist.kernels.mmd_problem import make_problem
from dkdist.kernels.shapes import Shape, Surface, is_mesh


@dataclass(frozen=True)
class Alignment:
    """Rigid motion Q @ rotation.T + translation, with the kernel distance to P after (``distance``) and before it.

    D^2 is at most ``gap`` above the D^2 of any other motion; ``gap`` is infinite without a guarantee. ``certified`` is
    True if the gap is at most the guarantee. ``sigma`` is the bandwidth.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> P = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> result = dk.align(P - [3.0, 0.0], P, sigma=0.5, transform="translation", random_state=0)
    >>> result.translation.round(3), result.distance < 1e-6 < result.distance_before
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
        from dkdist._utils.text import key_value_table

        rotation = "; ".join(", ".join(f"{v:.4f}" for v in row) for row in self.rotation.tolist())
        suffix = "" if self.certified else " (guarantee not reached)"
        guarantee = f"squared distance at most {self.gap:.3g} above the minimum{suffix}"
        pairs = [
            ("rotation", rotation),
            ("translation", ", ".join(f"{v:.6g}" for v in self.translation.tolist())),
            ("distance", f"{self.distance:.4g}, before {self.distance_before:.4g}"),
            ("guarantee", guarantee if np.isfinite(self.gap) else "none"),
        ]
        return key_value_table("Alignment", pairs)


def align(
    Q: PointsLike,
    P: PointsLike,
    *,
    sigma: float | str = "auto",
    kernel: str = "gaussian",
    weights: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    transform: str = "rigid",
    random_state: RandomStateLike = None,
    guarantee: float | None = None,
    max_seconds: float | None = None,
    verbose: bool = False,
) -> Alignment:
    """Find the rotation and translation of Q that minimise its kernel distance to P.

    Parameters
    ----------
    Q : (m, d) array, or `Curve` or `Surface`
        Points to move, d = 2 to 6 (any d for translations). Shapes, and meshes of trimesh and meshio, become the
        midpoints of segments or triangles, weighted by length or area; directions are ignored.
    P : (n, d) array, or `Curve` or `Surface`
        Fixed points.
    sigma : float, default="auto"
        Standard deviation of the Gaussian kernel, or the unit of r for another kernel: about the size of the details
        that should match. "auto" is 1/40 of the length of the shorter set without outliers; the length is the distance
        from the point a farthest from the mean to the point farthest from a. "auto" also equalises densities in the
        last refinement (see Notes), for up to 4,096 points of at most three dimensions, the Gaussian kernel and no
        guarantee.
    kernel : str, default="gaussian"
        A kernel of `kernel_distance` with a derivative: all but "ball", "linear" and "identity". "laplace" requires
        translations, because rotations change city-block distances.
    weights : None or pair (w_Q, w_P), default=None
        Weights of the points, >= 0, not normalised. None, for both or for one set, means equal weights that sum to one.
        Shapes have their own weights.
    transform : {"rigid", "translation"}, default="rigid"
        Rotations (no reflections) and translations, or translations only.
    random_state : int, Generator or None
        Seed of the coresets for a guarantee, and of the starts in more than three dimensions; nothing else is random.
    guarantee : float, optional
        Search all motions until D^2 is proven to be at most this much above the minimum. Requires the Gaussian kernel
        and at most three dimensions.
    max_seconds : float, default=60
        Time limit of the guaranteed search. If the estimated time is longer, an error states it. A search that reaches
        the limit stops and returns the ``gap`` proven so far.
    verbose : bool, default=False
        Print the plan (kernel sums, seconds) and the progress of the guaranteed search on standard error.

    Returns
    -------
    Alignment
        ``rotation`` (d, d), ``translation`` (d,), ``distance`` and ``distance_before``. The aligned points are
        ``Q @ rotation.T + translation``. ``certified`` and ``gap`` bound the distance to the optimum.

    Raises
    ------
    ValueError
        For points that are not finite, different or unsupported dimensions, data frames whose columns differ in name or
        order, weights that are negative, all zero or of another length, sets wider than a million sigma, and a
        guarantee whose estimated time exceeds max_seconds.

    Notes
    -----
    Each set is first reduced to 64 means of regions (32 in space). These are compared at 48 rotations (320 in space)
    with a sigma of at least 1/8 (1/5) of the radius. Each rotation has its best translation from one inverse Fourier
    transform, or in space from three mean shifts that start with equal centres. Newton's method then maximises the
    overlap from the best starts, with narrower kernels and more points in each stage, up to all points. With "auto" the
    last stage weights points of P by p_i / kappa(P, x_i)^(1/2) instead of p_i, and Q likewise, because the density of a
    sample is random: for two samples of one surface the rotation error is a third smaller, and ``distance``, which uses
    the original weights, is slightly above its minimum. Without a guarantee the optimum is not certified; the search
    may end in a local optimum if several motions fit almost equally or sigma is far below the size of the details. Time
    for 500 points: about 3 ms in the plane and 10 ms in space; each step of the last stage sums kernel values of near
    pairs.

    Sets of more than 4,096 points are replaced by fixed coresets of 2,048 points: the time is linear in the number of
    points, and the rotation error grows by at most a few tenths of a degree for noisy samples. Distances use all
    points.

    For other kernels, BFGS starts at the result of the Gaussian kernel and uses all points. In more than three
    dimensions it starts from the rotations that align the principal axes and from 512 random rotations, or from 512
    random shifts of one point onto another, in stages as above (`dkdist.alignment.local_search`). These searches are
    local: ``gap`` is infinite, and no guarantee is available. In four to six dimensions they find the motions of whole
    copies and of copies that lack a fifth of the points, but rarely those of a quarter of a shape
    (docs/kernel_distance_shapes.md). Time for 300 points on a busy machine: 0.5 to 0.8 s.

    A guarantee of eps uses branch and bound over cells of motions, starting at the result of the search above. Within a
    cell no point moves by more than delta = a |y| + d^(1/2) h, for rotations up to a and translations up to h from its
    centre. The slope of the kernel is at most exp(-1/2) / sigma, so f = kappa(P, RQ + t) is at most
    delta exp(-1/2) / sigma above its value at the centre, and D^2, which contains -2 f, at most twice that below. A
    plain grid needs delta = eps sigma exp(1/2) / 2 everywhere. Here cells are that small only where f is near its
    maximum, and bounds of second derivatives allow wider cells there (`dkdist.alignment._motion_cells_numba`). Coresets
    at kernel distances D_P, D_Q from P, Q change f by at most c = D_P |mu_Q| + D_Q |mu_S|. Their size is chosen for c
    <= eps / 8, and cells whose bound is at most f + eps / 2 - c are discarded, with f of all points. All translations
    with overlapping points are searched. (Theorems 5.5 and 5.6 of the paper bound D^2, not D, with bandwidth h = 2
    sigma^2.) Time for 500 points: one to two seconds in the plane; in space a minute for eps = 0.2 and sigma = 0.3
    diameters, and far more for smaller values.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 5.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random((200, 2)) * [2, 1]
    >>> turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> result = dk.align(P @ turn + 5, P, sigma=0.1, random_state=0)
    >>> bool(np.abs(result.rotation - turn).max() < 1e-3), result.distance < 0.01 < result.distance_before
    (True, True)
    >>> certified = dk.align(P[:40] @ turn, P, sigma=0.5, guarantee=0.05, random_state=0)
    >>> certified.certified, certified.gap <= 0.05
    (True, True)
    """
    require_same_names(P=P, Q=Q)
    (y, q), (x, p) = _read_weighted_points(Q, P, weights)
    check_choice("transform", transform, ("rigid", "translation"))
    rotates, d = transform == "rigid", x.shape[1]
    # A guarantee is for the original weights, and weights of a coreset represent other points.
    equalizes_density = (
        guarantee is None and isinstance(sigma, str) and max(len(x), len(y)) <= MAX_ALIGNED_POINTS
    )
    if isinstance(sigma, str):
        check_choice("sigma", sigma, ("auto",))
        sigma = AUTO_SIGMA_RATIO * min(_robust_length(y), _robust_length(x)) or 1.0
    sigma = check_positive("sigma", sigma)
    if y.shape[1] != d:
        raise ValueError(f"P and Q must have the same number of dimensions; got {d} and {y.shape[1]}.")
    check_alignment_kernel(kernel, d, rotates, (float(q.sum()), float(p.sum())))
    supports_guarantee = kernel == "gaussian" and d <= MAX_GRID_DIMS
    if guarantee is not None and not supports_guarantee:
        raise ValueError(
            f"guarantee requires kernel='gaussian' and at most {MAX_GRID_DIMS} dimensions; got {kernel!r} and {d}. "
            "Omit it: the search is local and proves no bound."
        )
    check_verbose(verbose)
    if guarantee is None and (max_seconds is not None or verbose):
        raise ValueError("max_seconds and verbose require guarantee. Pass guarantee or omit them.")
    eps = None if guarantee is None else check_positive("guarantee", guarantee)
    budget = check_positive("max_seconds", DEFAULT_MAX_SECONDS if max_seconds is None else max_seconds)
    middle = _check_widths(y, x, sigma)
    x, y = (x - middle) / sigma, (y - middle) / sigma  # lengths are in units of sigma from here on
    W_p, W_q = float(p.sum()), float(q.sum())
    fractions_x, fractions_y = p / W_p, q / W_q
    centre_x, centre_y = fractions_x @ x, fractions_y @ y
    x0, y0 = x - centre_x, y - centre_y
    seed = draw_seed(random_state) if eps is not None or d > MAX_GRID_DIMS else 0
    thinned_sets = *_thin(x0, fractions_x), *_thin(y0, fractions_y)
    if d > MAX_GRID_DIMS:
        R, t = search_locally(*thinned_sets, kernel, rotates, seed)
    else:
        R, t = search_motion(*thinned_sets, rotates, equalizes_density and supports_guarantee)
    if not supports_guarantee and d <= MAX_GRID_DIMS:
        R, t, _ = Overlap.of(*thinned_sets, kernel, 1.0).refine(R, t, rotates, MAX_REFINEMENT_ITERATIONS)
    certified, gap = False, float("inf")
    if eps is not None:
        # imported lazily: only guaranteed searches need it
        from dkdist.alignment.branch_and_bound import certify

        W = W_p * W_q  # D^2 contains -2 W f, with f of normalised weights
        settings = rotates, (R, t), eps / W, seed, budget, verbose
        R, t, certified, gap = certify(x0, fractions_x, y0, fractions_y, *settings)
        gap *= W
    identity = np.eye(d), centre_y - centre_x
    after, before = _distances(x0, p, y0, q, [(R, t), identity], kernel)
    translation = (centre_x + t - R @ centre_y) * sigma + middle - R @ middle
    return Alignment(R, translation, after, before, certified, gap, sigma)


def _read_weighted_points(Q: Any, P: Any, weights: Any) -> list[tuple[F64, F64]]:
    """Return points (n, d) and positive weights (n,) of Q and of P; for shapes, midpoints and sizes of their pieces."""
    pair = (None, None) if weights is None else weights
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"weights must be None or a pair (w_Q, w_P); got {type(weights).__name__}.")
    sets = []
    for name, value, w in (("Q", Q, pair[0]), ("P", P, pair[1])):
        shape = Surface(value) if is_mesh(value) and not isinstance(value, Shape) else value
        if isinstance(shape, Shape):
            if w is not None:
                raise ValueError(
                    f"weights of {name} must be None, because shapes are weighted by length or area."
                )
            sets.append((shape.points, shape.sizes))
            continue
        points = as_points(name, value, SHAPE_HINT)
        p = as_weights(name, w, points)[:, 0]
        if p.min() < 0:
            i = int(p.argmin())
            raise ValueError(f"weights of {name} must be at least 0; got {p[i]:.3g} at point {i}.")
        sets.append((points[p > 0], p[p > 0]))
    for name, (_, p) in zip("QP", sets, strict=True):
        if not MIN_TOTAL_WEIGHT <= p.sum() <= MAX_TOTAL_WEIGHT:
            raise ValueError(
                f"weights of {name} must have a sum from {MIN_TOTAL_WEIGHT:g} to {MAX_TOTAL_WEIGHT:g}; "
                f"got {p.sum():.3g}. Rescale them."
            )
    return sets


def _robust_length(x: F64) -> float:
    """Return the distance from the point a farthest from the mean to the point farthest from a, without outliers.

    Outliers are more than `OUTLIER_RATIO` times the median distance away from the coordinatewise median.
    """
    distances = np.sqrt(((x - np.median(x, axis=0)) ** 2).sum(axis=1))
    if median := np.median(distances):
        x = x[distances <= OUTLIER_RATIO * median]
    farthest = x[((x - x.mean(axis=0)) ** 2).sum(axis=1).argmax()]
    return float(np.sqrt(((x - farthest) ** 2).sum(axis=1).max()))


def _thin(x: F64, p: F64) -> tuple[F64, F64]:
    """Return a fixed coreset of a large set for sigma = 1; small sets are unchanged."""
    if len(x) <= MAX_ALIGNED_POINTS:
        return x, p
    from dkdist.coresets.selection import (  # imported lazily: only large sets need it
        CoresetParams,
        choose_points,
    )

    chosen, fractions = choose_points(
        x.astype(np.float32), p, CoresetParams(ALIGN_CORESET_SIZE, (1.0,), "swap", 0)
    )
    return x[chosen], fractions


def _check_widths(y: F64, x: F64, sigma: float) -> F64:
    """Return the common centre; raise ValueError if a set is too wide for float32 coordinates."""
    middle, sides = bounding_box(np.concatenate([y, x]))
    check_bandwidth("sigma", sigma, sigma, float(sides.max()))
    for name, points in (("Q", y), ("P", x)):
        width = float(bounding_box(points)[1].max())
        if width / MAX_WIDTH_PER_SIGMA > sigma:
            raise ValueError(
                f"{name} must be at most {MAX_WIDTH_PER_SIGMA:g} sigma wide; got width {width:.3g} and "
                f"sigma={sigma:.3g}. Increase sigma to about the size of the details that should match."
            )
    return middle


def _distances(x: F64, p: F64, y: F64, q: F64, motions: list[tuple[F64, F64]], kernel: str) -> list[float]:
    """Return D of x and R y + t for each motion (R, t)."""
    if len(x) + len(y) <= MAX_DIRECT_POINTS and kernel == "gaussian" and x.shape[1] <= MAX_GRID_DIMS:
        squares = squared_distances(x, p, y, q, motions)
    else:
        squares = [_squared_distance(x, p, y @ R.T + t, q, kernel) for R, t in motions]
    return [float(np.sqrt(max(square, 0.0))) for square in squares]


def _squared_distance(x: F64, p: F64, y: F64, q: F64, kernel: str) -> float:
    both, z = np.concatenate([y, x]), np.concatenate([q, -p])[:, None]
    eps = SQUARED_DISTANCE_TOL / 4 * float(p.sum() + q.sum()) ** 2
    return solve(make_problem(WeightedPoints.of(both - both.mean(axis=0), z), 1.0, eps, kernel), "auto")
