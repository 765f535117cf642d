"""`kernel_distance`: distance of two weighted point sets, curves or surfaces in the space of a kernel (MMD).

    D_K^2(P, Q) = E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>   over all points x of P and Q, with weights z = (w_P, -w_Q)

This module checks arguments, sums all pairs directly, and passes larger problems to `dkdist.kernels.methods`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_positive, median_seed
from dkdist._utils.validation import check_bool, require_same_names
from dkdist.kernels._tuning import (
    MAX_DIRECT_POINTS,
    MAX_NEGATIVE_RATIO,
    TOTALS_RELATIVE_TOL,
)
from dkdist.kernels.closed_forms import ENERGIES, closed_form_square
from dkdist.kernels.inputs import Pair, PointsLike, read_pair, resolve_bandwidths
from dkdist.kernels.mmd_problem import MMDProblem, direct_energy, make_problem
from dkdist.kernels.registry import KERNELS

if TYPE_CHECKING:
    from dkdist.kernels.gradient import KernelGradient


METHODS = ("auto", "exact", "fourier", "rff", "taylor", "tree", "wspd")
GRADIENT_METHODS = ("auto", "exact", "fourier")  # methods that support gradient=True

Weights = tuple[ArrayLike | None, ArrayLike | None] | None
Sigma = float | str | Sequence[float] | NDArray[Any] | None


@overload
def kernel_distance(
    P: PointsLike,
    Q: PointsLike,
    *,
    sigma: Sigma = ...,
    h: float | None = ...,
    gamma: float | None = ...,
    squared: bool = ...,
    method: str = ...,
    eps: float = ...,
    weights: Weights = ...,
    kernel: str = ...,
    unbiased: bool = ...,
    gradient: Literal[False] = ...,
    random_state: RandomStateLike = ...,
) -> float: ...
@overload
def kernel_distance(
    P: PointsLike, Q: PointsLike, *, sigma: Sigma = ..., h: float | None = ..., gamma: float | None = ...,
    squared: bool = ..., method: str = ..., eps: float = ..., weights: Weights = ..., kernel: str = ...,
    unbiased: bool = ..., gradient: Literal[True], random_state: RandomStateLike = ...,
) -> tuple[float, KernelGradient]: ...  # fmt: skip
def kernel_distance(
    P: PointsLike,
    Q: PointsLike,
    *,
    sigma: Sigma = None,
    h: float | None = None,
    gamma: float | None = None,
    squared: bool = False,
    method: str = "auto",
    eps: float = 1e-4,
    weights: Weights = None,
    kernel: str = "gaussian",
    unbiased: bool = False,
    gradient: bool = False,
    random_state: RandomStateLike = None,
) -> float | tuple[float, KernelGradient]:
    """Compute the kernel distance of two weighted point sets, curves or surfaces.

    For weights that sum to one it is the maximum mean discrepancy (MMD).

        D_K^2(P, Q) = kappa(P, P) + kappa(Q, Q) - 2 kappa(P, Q),   kappa(P, Q) = sum_ij p_i q_j k(x_i, y_j)

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays, two `Curve`, or two `Surface`
        Points. The computation runs in float64 relative to their common centre, without copies. Meshes of trimesh and
        meshio count as surfaces. In one to three dimensions, P and Q may be Dask or Zarr arrays or one set of a store
        (``sets[i:i + 1]``): these are read block by block, twice, with the Gaussian kernel and method "auto" or
        "fourier".
    sigma, h, gamma : float, optional
        Bandwidth; at most one of exp(-r^2 / (2 sigma^2)), exp(-r^2 / h), exp(-gamma r^2). The default, sigma="median",
        is the median distance of up to 512 random points of each set, without regard to weights (1 for the kernel
        "energy", which has no bandwidth). For a sequence of sigmas the
        kernels, and so their D^2, are added. For a (d, d) array S the distance of two points is |S^(-1) (x - y)|
        instead of r / sigma; np.diag(scales) has one scale per dimension.
    squared : bool, default=False
        Return D^2. Without it, a negative D^2 from rounding or approximation counts as 0 before the root.
    method : {"auto", "exact", "fourier", "rff", "taylor", "tree", "wspd"}, default="auto"
        See Notes.
    eps : float, default=1e-4
        Allowed error of D^2. D itself may be off by up to eps^(1/2) near zero. "exact" has rounding errors only.
    weights : None or pair (w_P, w_Q), default=None
        Weights of the points; they may be negative and are not normalised. None, for both or for one set, means equal
        weights that sum to one. Shapes have their own weights; weights of a store are divided by their sum. Points
        that are read block by block need weights >= 0.
    kernel : str, default="gaussian"
        See Notes, or the name of a kernel from `register_kernel`. All but the Gaussian kernel require sigma, and method
        "auto" or "exact".
    unbiased : bool, default=False
        Return the unbiased estimate of MMD^2 (a U-statistic), which omits the pairs of a point with itself, by any
        method. It may be negative. D has no unbiased estimate, so squared=True is required. Each set needs two points
        with positive weight, and no negative weights: kappa(P, P) is the sum over pairs i != j divided by
        1 - sum p_i^2 / (sum p_i)^2, which is unbiased if weights do not depend on the points.
    gradient : bool, default=False
        Also return the derivatives, for point sets. "exact" sums all pairs. "fourier" (Gaussian kernel, d <= 3), and
        "auto" where it is faster, take near-linear time: the terms w_i f(x_i) and sigma w_i grad f(x_i) of
        D^2 = sum_i w_i f(x_i) are each off by at most eps |w_i| / W.
    random_state : int, Generator or None, default=None
        Seed of the frequencies of "rff" and of the sample for sigma="median", which is fixed for None.

    Returns
    -------
    float, or (float, KernelGradient) with gradient=True
        D or D^2, and its derivatives by the points of P and Q, by their weights and by sigma (whatever the form of the
        bandwidth; "median" counts as a constant). At a kink of the kernel, between equal points, the slope is 0.

    Raises
    ------
    ValueError
        For two bandwidths; points that are not finite or not (n, d); different dimensions; data frames whose
        columns differ in name or order; weights of another length, all zero, or with a total outside 1e-140 to 1e150; a
        shape and a point set; an unknown method or kernel; a method that cannot reach eps (with the required number of
        modes, terms or frequencies); and derivatives of D at D = 0.

    Notes
    -----
    N = n + m, and W is the sum of all |weights| (of lengths or areas for shapes), so D^2 <= W^2; W = 2 by default.

    ========  ======  ==============================================  ==============================================
    method    d       error of D^2                                    cost
    ========  ======  ==============================================  ==============================================
    exact     any     rounding: ~ 1e-15 W^2 (d > 3: 1e-10 W^2)        N^2 / 2 pairs, 1e9 of them a second, O(N) memory
    auto      any     at most eps, certified                          near-linear for d <= 3, for any points
    fourier   1 to 3  at most eps, certified                          a few ms; N x p^d (p = 4 to 8), and one FFT
    tree      any     at most eps, guaranteed                         N log N if sigma is small, else as exact
    taylor    any     at most eps, certified                          N x (number of terms); for wide kernels
    wspd      any     at most eps, guaranteed                         n / eps^d pairs, at most N^2 / 2: for reference
    rff       any     standard error at most eps                      N x (frequencies), which depend on eps
    ========  ======  ==============================================  ==============================================

    ====================  ==================================================  ==============  ==================
    kernel                k(x, y), r being the distance / sigma               "auto", d = 1   "auto", d = 2, 3
    ====================  ==================================================  ==============  ==================
    "gaussian"            exp(-r^2 / 2)                                       as above        as above
    "laplace"             exp(-r), r the city-block distance                  exact, n log n  n log n, all pairs
    "matern12"            exp(-r); alias "laplacian"                          exact, n log n  45 Gaussians
    "matern32"            (1 + 3^(1/2) r) exp(-3^(1/2) r)                     exact, n log n  21 Gaussians
    "matern52"            (1 + 5^(1/2) r + 5/3 r^2) exp(-5^(1/2) r)           exact, n log n  16 Gaussians
    "rational-quadratic"  1 / (1 + r^2 / 2)                                   16 Gaussians    16 Gaussians
    "energy"              -r: D^2 = 2 E r(x, y) - E r(x, x') - E r(y, y')     exact, n log n  50 Gaussians
    "epanechnikov"        max(0, 1 - r^2)                                     all pairs       all pairs
    "triangle"            max(0, 1 - r)                                       all pairs       all pairs
    "ball"                1 if r <= 1, else 0                                 all pairs       all pairs
    "linear"              <x, y>, no bandwidth: D is the distance of means    exact, linear   exact, linear
    "identity"            1 if x = y, else 0, no bandwidth                    exact, n log n  exact, n log n
    ====================  ==================================================  ==============  ==================

    "Gaussians": these kernels are approximated by this number of Gaussian kernels, with a certified error. Each is
    summed as above, and the total error is at most eps. All pairs are summed if that is expected to be faster: up to
    tens of thousands of points for "matern52", "matern32" and "rational-quadratic", hundreds of thousands for
    "matern12" and "energy". "laplace" takes n log n in the plane too. In more than three dimensions, all kernels but
    the Gaussian sum all pairs, by "auto" or "exact"; their derivatives sum all pairs, or take n log n on a line.

    "energy" is the energy distance of Szekely and Rizzo, whose square is a length in units of sigma (default 1). It
    requires weights of P and Q with equal sums, as the default weights have. On a line of more than 2,000 points,
    sorted sums have a rounding error of about 1e-16 W^2 per step between neighbouring points.

    "epanechnikov" and "ball" are not positive definite; "triangle" is positive definite on a line only (Askey 1973:
    (1 - r)_+^a needs a >= (d + 1) / 2). D^2 is the sum above. It may be negative, and D then raises an error. "ball"
    counts pairs at the distance sigma, in spite of rounding. "linear" and "identity" are positive definite. They take
    no bandwidth and support method "auto" or "exact", without ``unbiased`` and ``gradient``. "linear" depends on the
    origin if the sums of weights differ; "identity" compares coordinates without rounding.

    "auto" is deterministic, with an error of at most eps. It is "exact" up to N = 2,000, and "fourier" in one to three
    dimensions; in more dimensions, "taylor" if it needs at most N / 4 and 20,000 terms, else "exact". Where the
    bounding box is mostly empty (outliers, heavy tails, distant clusters, small bandwidths), points are split into
    components between which the kernel is below eps W^-2 / 10. Each component is summed by its fastest method, with
    cells only around points, so outliers cost almost nothing.

    Memory in addition to the points: float64 tiles, less than half of the bytes of sets above 10 MB (from 50 dimensions
    on, above 800 kB), for "exact", "fourier", "taylor" and "rff", and for "auto" if it selects one of these. float32
    input gives the same result as its conversion to float64, bit for bit. Meshes and cells need more memory if sigma is
    below about 1/500 of the width in the plane or 1/100 in space. Trees, components, sorted kernels and derivatives
    copy the points.

    Rounding errors dominate D^2 of nearly equal sets. For these, up to 4,000 points, "exact" repeats the sum in
    double-double arithmetic (about fifty times as long), so D is accurate to about 1e-15 W times width over sigma: sets
    1e-8 apart have a positive distance, and equal sets have distance 0.

    "wspd" is the near-linear sum of Joshi et al. (2011). Its constant is so large that times are quadratic in practice:
    n^1.95 for 1,000 to 16,000 points in the plane (sigma 0.1, eps 1e-4) and n^1.1 on a line for eps 1e-2.
    "exact" is 20 times as fast. Like "tree", "wspd" is useful for small sigma only (n^1.6 and 0.08 s at sigma 0.01).

    "rff" draws 16 independent replicates of Sobol (d <= 16) or orthogonal frequencies, shared by P and Q, and doubles
    their number until the standard error of the mean is at most eps; beyond 2^18 frequencies it raises an error. Its
    phases are float32, so points more than a few thousand bandwidths apart raise an error unless eps exceeds the
    rounding error.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance (2011),
    equation 1.1. Gretton et al.: A kernel two-sample test (2012), equation 3 (unbiased). Szekely, Rizzo: Energy
    statistics (2013). Rasmussen, Williams: Gaussian processes for machine learning (2006), chapter 4 (kernels).
    Schoenberg: Metric spaces and completely monotone functions (1938), for mixtures. Phillips, Venkatasubramanian: A
    gentle introduction to the kernel distance (2011); Phillips: Epsilon-samples for kernels (2013), for "triangle" and
    "ball". Askey: Radial characteristic functions (1973).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> x, y = np.zeros((1, 2)), np.array([[3.0, 4.0]])
    >>> round(dk.kernel_distance(x, y, sigma=5.0, squared=True), 4)  # 2 - 2 exp(-1/2)
    0.7869
    >>> rng = np.random.default_rng(0)
    >>> P, Q = rng.normal(0, 1, (5000, 2)), rng.normal(0.5, 1, (4000, 2))
    >>> exact = dk.kernel_distance(P, Q, sigma=1.0, squared=True, method="exact")
    >>> round(exact, 3), abs(dk.kernel_distance(P, Q, h=2.0, squared=True) - exact) < 1e-4
    (0.052, True)
    >>> dk.kernel_distance(x, y, sigma=5.0, squared=True, weights=([2.0], [-1.0])) > 4  # weights of P and -Q add up
    True
    >>> dk.kernel_distance(x, y, kernel="energy", squared=True)  # 2 |x - y|
    10.0
    >>> dk.kernel_distance(x, y, kernel="linear"), dk.kernel_distance(x, x, kernel="identity")
    (5.0, 0.0)
    >>> D2, slopes = dk.kernel_distance(P, Q, sigma=1.0, squared=True, gradient=True)
    >>> bool((slopes.P.sum(axis=0) < 0).all())  # moving P towards Q reduces D^2
    True
    """
    squared, unbiased, gradient = (
        check_bool(name, flag)
        for name, flag in (("squared", squared), ("unbiased", unbiased), ("gradient", gradient))
    )
    check_choice("method", method, METHODS)
    check_choice("kernel", kernel, (*KERNELS, *ENERGIES))
    require_same_names(P=P, Q=Q)
    if any(hasattr(X, "blocks") for X in (P, Q)):  # Dask array, Zarr array or store
        _require_lazy_support(kernel, unbiased=unbiased, gradient=gradient)
        from dkdist.kernels.lazy_distance import lazy_kernel_distance

        seed = median_seed(random_state)
        square = lazy_kernel_distance(P, Q, weights, (sigma, h, gamma), method, eps, seed)
        return square if squared else float(np.sqrt(max(square, 0.0)))
    if kernel in ENERGIES:
        unsupported = {"sigma": sigma, "h": h, "gamma": gamma, "unbiased": unbiased, "gradient": gradient}
        square = closed_form_square(kernel, P, Q, weights, method, unsupported)
        return square if squared else float(np.sqrt(square))
    bandwidths = resolve_bandwidths(
        read_pair(P, Q, weights), sigma, h, gamma, kernel, median_seed(random_state)
    )
    pair, eps_per_bandwidth = bandwidths.pair, check_positive("eps", eps) / len(bandwidths.sigmas)
    _require_definite(pair, kernel)
    if unbiased:
        _require_unbiased_support(pair, squared, gradient)
    lazy_problems = (
        make_problem(pair.points, width, eps_per_bandwidth, kernel, random_state)
        for width in bandwidths.sigmas
    )
    # Draw the seeds of all bandwidths from a generator before any sum, in order.
    problems = (
        list(lazy_problems) if gradient or isinstance(random_state, np.random.Generator) else lazy_problems
    )
    if gradient:
        _require_gradient_support(pair, method, kernel)
        from dkdist.kernels.gradient import squared_with_gradient

        square, slopes = squared_with_gradient(list(problems), bandwidths, method)
        return (square, slopes) if squared else slopes.of_the_root(square)
    square = sum(map(partial(_unbiased if unbiased else solve, method=method), problems))
    return square if squared else _root(square, pair, kernel)


def solve(problem: MMDProblem, method: str) -> float:
    """Return sum_ij k(x_i, x_j) <z_i, z_j>. Methods faster than all pairs are imported only when needed."""
    if method == "exact" or (method == "auto" and len(problem.points) <= MAX_DIRECT_POINTS):
        return direct_energy(problem)
    from dkdist.kernels.methods import SOLVERS, mixture_energy

    if problem.kernel == "gaussian":
        return SOLVERS[method](problem)
    if method == "auto":
        return mixture_energy(problem)
    raise ValueError(
        f"method must be 'auto' or 'exact' for kernel={problem.kernel!r}; got {method!r}, which requires 'gaussian'."
    )


def _root(square: float, pair: Pair, kernel: str) -> float:
    if not KERNELS[kernel].positive_definite and square < -MAX_NEGATIVE_RATIO * pair.points.square:
        raise ValueError(
            f"D^2 must be at least 0 for a root; got {square:.3g}, because kernel={kernel!r} is not positive definite. "
            "Pass squared=True or another kernel."
        )
    return float(np.sqrt(max(square, 0.0)))


def _require_definite(pair: Pair, kernel: str) -> None:
    """Require equal total weights for a conditionally positive definite kernel."""
    if KERNELS[kernel].positive_definite != "equal totals":
        return
    sums = pair.points.total
    if np.abs(sums).max() > TOTALS_RELATIVE_TOL * pair.points.size:
        raise ValueError(
            f"weights of P and Q must have equal sums for kernel={kernel!r} (currents: closed shapes); got sums that "
            f"differ by {np.abs(sums).max():.3g}. Normalise the weights or pass another kernel."
        )


def _require_lazy_support(kernel: str, **flags: bool) -> None:
    unsupported = [f"{name}=True" for name, flag in flags.items() if flag]
    unsupported += [f"kernel={kernel!r}"] * (kernel != "gaussian")
    if unsupported:
        raise ValueError(
            "Dask and Zarr arrays and stores support only kernel='gaussian', gradient=False and unbiased=False; got "
            f"{' and '.join(unsupported)}. Load the points, or thin each set with coreset."
        )


def _require_gradient_support(pair: Pair, method: str, kernel: str) -> None:
    record = KERNELS[kernel]
    if record.profile is not None and record.dvalue is None:
        raise ValueError(
            f"gradient must be False for kernel={kernel!r}, which is piecewise constant; got True. Use 'triangle'."
        )
    if pair.are_shapes or method not in GRADIENT_METHODS:
        actual = "shapes" if pair.are_shapes else f"method={method!r}"
        raise ValueError(
            f"gradient=True requires point sets and method {' or '.join(map(repr, GRADIENT_METHODS))}; got {actual}."
        )


def _require_unbiased_support(pair: Pair, squared: bool, gradient: bool) -> None:
    if gradient:
        raise ValueError("unbiased must be False for gradient=True; got True. Pass unbiased=False.")
    ranges = [pair.points.select_set(s).weight_range for s in range(2)]
    sizes, lowest = [r.n_positive for r in ranges], min(r.minimum for r in ranges)
    if not squared or pair.are_shapes or lowest < 0 or min(sizes) < 2:
        raise ValueError(
            "unbiased=True requires squared=True and point sets with weights >= 0, two or more above 0; got "
            f"squared={squared} and {'shapes' if pair.are_shapes else 'point sets'} with {sizes[0]} and {sizes[1]} "
            f"weights above 0, minimum {lowest:.3g}."
        )


def _unbiased(problem: MMDProblem, method: str) -> float:
    """MMD_u^2 = D^2 + (kappa(P,P) - k(x, x) s^2) r / (1 - r) + the same term for Q, s = sum p, r = sum p^2 / s^2."""
    total = solve(problem._replace(eps=problem.eps / 2), method)
    at_zero = float(KERNELS[problem.kernel].value(np.zeros(1))[0])
    for points in map(problem.points.select_set, range(2)):
        weights = points.weight_range
        if weights.minimum == weights.maximum:
            s, odds = len(points) * points.signs[0] * weights.minimum, len(points) - 1.0
        else:
            s = float(points.total[0])
            r = points.square / s**2
            odds = (1 - r) / r  # odds = n - 1 for n equal weights
        one_set = problem._replace(points=points, eps=problem.eps / 4 * odds)
        total += (solve(one_set, method) - at_zero * s**2) / odds
    return total
