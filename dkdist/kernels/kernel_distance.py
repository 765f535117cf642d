"""`kernel_distance`: the distance of two weighted point sets, curves or surfaces in the space of a kernel.

What a kernel energy is found of, and the sum over all pairs.

E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   D_K^2(P, Q) = E of all points of P and Q, with z = (w_P, -w_Q)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._base.parameter_checks import draw_seed, median_seed, one_of, positive
from dkdist._numba.arrays import F64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._utils.validation import check_bool, require_same_names
from dkdist.kernels._exact_numba import DIRECT_ROUNDING, MAX_PRODUCT_ROUNDING, rounding
from dkdist.kernels.inputs import Pair, read_pair, resolve_bandwidths
from dkdist.kernels.kernel_sums import energy, scaled, sorted_energy
from dkdist.kernels.registry import KERNELS, get_kernel

if TYPE_CHECKING:
    from dkdist.kernels.gradient import KernelGradient


MAX_DIRECT_POINTS = 2000  # points up to which all pairs take some 2 ms
MAX_DOUBLE_DOUBLE_POINTS = 4000  # points up to which all pairs in twice the digits take less than a second
MIN_SUM_PER_ROUNDING = 1e4  # a sum so many times its rounding, or more, has four digits


class MMDProblem(NamedTuple):
    """An energy to be found: weighted points about the origin, bandwidth, error allowed, seed.

    Points and bandwidth are in the unit of `make_problem`, so that squares of both are numbers.
    """

    points: WeightedPoints
    sigma: float
    eps: float
    kernel: str
    seed: int

    @property
    def middle(self) -> F64:
        """The middle of the box of the points: the origin, unless these are a part of the points."""
        low, high = self.points.bounds
        return (low + high) / 2

    @property
    def share(self) -> float:
        """The error of k that eps allows."""
        return self.eps / max(self.points.mass**2, 1e-300)


def make_problem(
    points: WeightedPoints, sigma: float, eps: float, kernel: str = "gaussian", random_state: object = 0
) -> MMDProblem:
    """A task with the seed that a random_state stands for; lengths over the power of two near sigma: exact."""
    fraction, exponent = np.frexp(sigma)
    unit = float(np.ldexp(1.0, -exponent))
    return MMDProblem(points.over(unit), float(fraction), eps, kernel, draw_seed(random_state))


def direct_energy(task: MMDProblem) -> float:
    """All pairs, or what sorting gives of them: exact either way."""
    points = task.points
    if len(points) > MAX_DIRECT_POINTS and get_kernel(task.kernel).is_sorted(points.d):
        x, z = points.arrays()
        return refine_precision(sorted_energy(scaled(x, task.sigma, task.kernel), z, task.kernel), task)
    return refine_precision(energy(points, task.sigma, task.kernel), task)


def refine_precision(total: float, task: MMDProblem) -> float:
    """An energy of points; in twice the digits where those of few points cancel, as of nearly equal sets."""
    square, profile = task.points.mass**2, get_kernel(task.kernel).profile
    plenty = (
        task.kernel != "energy"
        and abs(total) >= MIN_SUM_PER_ROUNDING * (DIRECT_ROUNDING + MAX_PRODUCT_ROUNDING) * square
    )
    if len(task.points) > MAX_DOUBLE_DOUBLE_POINTS or plenty or profile is None:
        return total
    x, z = task.points.arrays()
    x = scaled(x, task.sigma, task.kernel)
    if abs(total) < MIN_SUM_PER_ROUNDING * rounding(x, profile) * square:
        from dkdist.kernels._double_double_numba import double_double_energy  # for nearly equal sets alone

        return double_double_energy(x, z, profile)
    return total


METHODS = ("auto", "exact", "fourier", "rff", "taylor", "tree", "wspd")
MAX_NEGATIVE_RATIO = 1e-9  # of kappa(P,P) + kappa(Q,Q): what is more negative is not rounding
TOTALS_RELATIVE_TOL = 1e-9  # of all |weights|: sums that differ by more are not equal but for rounding
GRADIENT_METHODS = ("auto", "exact", "fourier")  # methods that have derivatives

Weights = tuple[ArrayLike | None, ArrayLike | None] | None
Sigma = float | str | Sequence[float] | NDArray[Any] | None


@overload
def kernel_distance(
    P: Any,
    Q: Any,
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
    random_state: Any = ...,
) -> float: ...
@overload
def kernel_distance(
    P: Any, Q: Any, *, sigma: Sigma = ..., h: float | None = ..., gamma: float | None = ..., squared: bool = ...,
    method: str = ..., eps: float = ..., weights: Weights = ..., kernel: str = ..., unbiased: bool = ...,
    gradient: Literal[True], random_state: Any = ...,
) -> tuple[float, KernelGradient]: ...  # fmt: skip
def kernel_distance(
    P: Any,
    Q: Any,
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
    random_state: Any = None,
) -> float | tuple[float, KernelGradient]:
    """The kernel distance of two weighted point sets, curves or surfaces: for weights that sum to one, the MMD.

        D_K^2(P, Q) = kappa(P, P) + kappa(Q, Q) - 2 kappa(P, Q),   kappa(P, Q) = sum_ij p_i q_j k(x_i, y_j)

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays, two `Curve`, or two `Surface`
        Points; they are computed with in float64, from their common middle, and not copied. Meshes of trimesh and
        meshio are taken as surfaces. In one to three dimensions also arrays of Dask and Zarr, and one set of a store
        (``sets[i:i + 1]``), which are read block by block, twice, for the Gaussian kernel: by "auto" or "fourier".
    sigma, h, gamma : float
        The bandwidth, exactly one of: exp(-r^2 / (2 sigma^2)), exp(-r^2 / h), exp(-gamma r^2). sigma="median" is the
        median distance of up to 512 points of each set, drawn at random, whatever their weights.
        A sequence of several sigmas: their kernels, and so their D^2, are added. A (d, d) array S: the distance of two
        points is |S^(-1) (x - y)|, in place of r / sigma; np.diag(scales) has one scale for each dimension.
    squared : bool, default=False
        Return D^2. What rounding or an approximation makes negative is 0 before the root is taken.
    method : {"auto", "exact", "fourier", "rff", "taylor", "tree", "wspd"}, default="auto"
        See the notes.
    eps : float, default=1e-4
        Error allowed of D^2 (not of D, which may then be off by up to eps^(1/2) near zero); "exact" makes none but
        rounding.
    weights : None or pair (w_P, w_Q), default=None
        Weights of the points, signed if you like, used as they are: nothing is normalised. None, for both or in place
        of one, are equal weights that sum to one. Shapes have their own, and so have sets of stores with weights, over
        the sum of these. Those of points that are read block by block must be >= 0.
    kernel : str, default="gaussian"
        See the notes, or a name that `register_kernel` made known. All but the Gaussian one take sigma, and method
        "auto" or "exact".
    unbiased : bool, default=False
        The unbiased estimate of MMD^2 (a U-statistic), without the pairs of a point with itself, by any method. It may
        be negative, and is returned as it is. D has no unbiased estimate, so it needs squared=True. For two points or
        more in each set; weights are at least 0, with two or more above: kappa(P, P) is then that of pairs i != j over
        1 - sum p_i^2 / (sum p_i)^2, unbiased if weights do not depend on the points.
    gradient : bool, default=False
        Return the derivatives too, for point sets. By "exact" they are those of all pairs. By "fourier" (Gaussian
        kernel, d <= 3), and by "auto" where that takes less, they are near-linear in the points: of w_i f(x_i) and
        sigma w_i grad f(x_i), the sums that D^2 = sum_i w_i f(x_i) is made of, each is off by at most
        eps |w_i| / W.
    random_state : int, Generator or None, default=None
        Seed of the frequencies of "rff", and of the points that sigma="median" looks at (without one they are always
        the same); nothing else uses it.

    Returns
    -------
    float, or (float, KernelGradient) with gradient=True
        D, or D^2; and its derivatives by the points of P and Q, by their weights, and by sigma (whatever form it was
        given in; of "median", sigma stays). Where the kernel has a kink, between equal points, its slope counts as 0.

    Raises
    ------
    ValueError
        Naming what is wrong: no or two bandwidths, points that are not finite or not (n, d), different dimensions, data
        frames whose columns differ in name or order, weights of another length, all zero or beyond 1e-140 to 1e150 in
        all, a shape beside a point set, an unknown method or kernel, and a method that cannot do what is asked (with
        the number of modes, terms or frequencies that it would need); derivatives of D, rather than of D^2, where D =
        0.

    Notes
    -----
    N = n + m, W = the sum of all |weights| (of shapes, of lengths or areas), so D^2 <= W^2; 2 for two plain sets.

    ========  ======  ==============================================  ==============================================
    method    d       error of D^2                                    cost
    ========  ======  ==============================================  ==============================================
    exact     any     rounding: some 1e-15 W^2 (d > 3: 1e-10 W^2)     N^2 / 2 pairs, 1e9 of them a second, O(N) memory
    auto      any     at most eps, certified                          near-linear for d <= 3, wherever the points are
    fourier   1 to 3  at most eps, certified                          a few ms; N x p^d (p = 4 to 8), and one FFT
    tree      any     at most eps, guaranteed                         N log N if sigma is small, else as exact
    taylor    any     at most eps, certified                          N x (number of terms); for wide kernels
    wspd      any     at most eps, guaranteed                         near-linear, with large constants: for reference
    rff       any     standard error at most eps                      N x (frequencies): as many as eps asks for
    ========  ======  ==============================================  ==============================================

    ====================  ==================================================  ==============  ==================
    kernel                k(x, y), r being the distance / sigma               "auto", d = 1   "auto", d = 2, 3
    ====================  ==================================================  ==============  ==================
    "gaussian"            exp(-r^2 / 2)                                       as above        as above
    "laplace"             exp(-r), r by city blocks                           exact, n log n  n log n, all pairs
    "matern12"            exp(-r); "laplacian" is another name of it          exact, n log n  some 45 Gaussians
    "matern32"            (1 + 3^(1/2) r) exp(-3^(1/2) r)                     exact, n log n  some 21 Gaussians
    "matern52"            (1 + 5^(1/2) r + 5/3 r^2) exp(-5^(1/2) r)           exact, n log n  some 16 Gaussians
    "rational-quadratic"  1 / (1 + r^2 / 2)                                   16 Gaussians    some 16 Gaussians
    "energy"              -r: D^2 = 2 E r(x, y) - E r(x, x') - E r(y, y')     exact, n log n  some 50 Gaussians
    "epanechnikov"        max(0, 1 - r^2)                                     all pairs       all pairs
    ====================  ==================================================  ==============  ==================

    "Gaussians": these kernels are mixtures of Gaussian ones, and sums of so many stand for them within a certified
    error; each is found as above, and the errors add up to at most eps. All pairs are taken where that is foretold to
    be less: up to some ten thousands of points for "matern52", "matern32" and "rational-quadratic", some hundred
    thousands for "matern12" and "energy". "laplace" is exact in n log n in the plane too. In more dimensions than three
    all but the Gaussian kernel take all pairs, and have no other method than "auto" and "exact"; their derivatives take
    all pairs, or n log n on a line.

    "energy" is the energy distance of Szekely and Rizzo, whose square is a length: with sigma (1 if none is given) as
    its unit. It is a distance for weights of equal sums, as plain sets have; others are refused. "epanechnikov" is not
    positive definite: D^2 may be negative, and then has no root. On a line of more than 2,000 points, rounding of
    sorted sums is some 1e-16 W^2 for each of the steps between points that see each other.

    "auto" is deterministic and keeps to eps: "exact" up to N = 2,000; in one to three dimensions "fourier"; above,
    "taylor" if it needs at most N / 4 terms (and 20,000), else "exact". Where the box of the points is mostly empty
    (outliers, heavy tails, clouds far apart, long lines, small bandwidths), points are cut into parts whose kernel is
    below eps W^-2 / 10, each is summed alone by the least work, and cells are made only where points are: one point at
    any distance costs next to nothing.

    Memory beside the points: tiles of them, made in float64 when they are summed, whatever dtype and order they come
    in: of many points (10 MB and more; of 50 dimensions and more, 800 kB) less than half of their own bytes by "exact",
    "fourier", "taylor" and "rff", and by "auto" where it takes one of these. float32 has the bits of the same numbers
    in float64. Beside come meshes and cells of more numbers than that, where sigma is below some 1/500 of the width in
    the plane or 1/100 in space. Trees, points that "auto" cuts into parts or blocks, kernels that are sorted (see
    above) and derivatives take copies.

    D^2 is what is left when kappas cancel. Of sets of up to 4,000 points that differ by so little that rounding would
    decide, "exact" is computed once more in twice the digits (some fifty times as long), so that D itself is right to
    some 1e-15 W, times the width over sigma: two sets 1e-8 apart have their distance, and equal sets none.

    "rff" draws 16 independent replicates of Sobol (d <= 16) or orthogonal frequencies, which P and Q share, and doubles
    their number until the standard error of the mean is at most eps, or refuses beyond 2^18 frequencies. Its phases are
    float32: points more than some thousand bandwidths apart are refused, unless eps is as large as their rounding.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance (2011),
    equation 1.1. Gretton et al.: A kernel two-sample test (2012), equation 3 (unbiased). Szekely, Rizzo: Energy
    statistics (2013). Rasmussen, Williams: Gaussian processes for machine learning (2006), chapter 4 (kernels).
    Schoenberg: Metric spaces and completely monotone functions (1938), for mixtures.

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
    >>> dk.kernel_distance(x, y, sigma=5.0, squared=True, weights=([2.0], [-1.0])) > 4  # like charges add
    True
    >>> dk.kernel_distance(x, y, kernel="energy", squared=True)  # 2 |x - y|
    10.0
    >>> D2, slopes = dk.kernel_distance(P, Q, sigma=1.0, squared=True, gradient=True)
    >>> bool((slopes.P.sum(axis=0) < 0).all())  # P should go where Q is
    True
    """
    squared, unbiased, gradient = (
        check_bool(name, flag)
        for name, flag in (("squared", squared), ("unbiased", unbiased), ("gradient", gradient))
    )
    one_of("method", method, METHODS)
    one_of("kernel", kernel, tuple(KERNELS))
    require_same_names(P=P, Q=Q)
    if any(hasattr(X, "blocks") for X in (P, Q)):
        _require_lazy_support(kernel, unbiased=unbiased, gradient=gradient)
        from dkdist.kernels.lazy_distance import lazy_kernel_distance  # stores and Dask

        seed = median_seed(random_state)
        square = lazy_kernel_distance(P, Q, weights, (sigma, h, gamma), method, eps, seed)
        return square if squared else float(np.sqrt(max(square, 0.0)))
    scales = resolve_bandwidths(read_pair(P, Q, weights), sigma, h, gamma, kernel, median_seed(random_state))
    pair, each = scales.pair, positive("eps", eps) / len(scales.widths)
    _require_definite(pair, kernel)
    if unbiased:
        _require_unbiased_support(pair, squared, gradient)
    given = (make_problem(pair.points, width, each, kernel, random_state) for width in scales.widths)
    tasks = list(given) if gradient or isinstance(random_state, np.random.Generator) else given
    if gradient:
        _require_gradient_support(pair, method)
        from dkdist.kernels.gradient import squared_with_gradient

        square, slopes = squared_with_gradient(list(tasks), scales, method)
        return (square, slopes) if squared else slopes.of_the_root(square)
    square = sum(map(partial(_unbiased if unbiased else solve, method=method), tasks))
    return square if squared else _root(square, pair, kernel)


def solve(task: MMDProblem, method: str) -> float:
    """Return sum_ij k(x_i, x_j) <z_i, z_j>. Methods faster than all pairs are imported only when needed."""
    if method == "exact" or (method == "auto" and len(task.points) <= MAX_DIRECT_POINTS):
        return direct_energy(task)
    from dkdist.kernels.methods import SOLVERS, mixture_energy

    if task.kernel == "gaussian":
        return SOLVERS[method](task)
    if method == "auto":
        return mixture_energy(task)
    raise ValueError(f"method={method!r} is for kernel='gaussian': use 'exact' for kernel={task.kernel!r}")


def _root(square: float, pair: Pair, kernel: str) -> float:
    if not KERNELS[kernel].positive_definite and square < -MAX_NEGATIVE_RATIO * pair.points.square:
        raise ValueError(
            f"D^2 = {square:.3g} is negative, for kernel={kernel!r} is not positive definite: use squared=True, or "
            "another kernel"
        )
    return float(np.sqrt(max(square, 0.0)))


def _require_definite(pair: Pair, kernel: str) -> None:
    """Refuse weights for which a conditionally positive definite kernel makes no distance."""
    if KERNELS[kernel].positive_definite != "equal totals":
        return
    sums = pair.points.total
    if np.abs(sums).max() > TOTALS_RELATIVE_TOL * pair.points.size:
        raise ValueError(
            f"kernel={kernel!r} needs weights of P and Q with equal sums (of currents, closed shapes); found sums that "
            f"differ by {np.abs(sums).max():.3g}: normalise the weights, or use another kernel"
        )


def _require_lazy_support(kernel: str, **asked: bool) -> None:
    more = [f"{name}=True" for name, flag in asked.items() if flag]
    more += [f"kernel={kernel!r}"] * (kernel != "gaussian")
    if more:
        raise ValueError(
            "points that are read block by block (arrays of Dask and Zarr, stores) have the Gaussian kernel, and "
            f"neither derivatives nor an unbiased estimate; found {' and '.join(more)}: load them, or thin each set by "
            "coreset first"
        )


def _require_gradient_support(pair: Pair, method: str) -> None:
    if pair.shapes or method not in GRADIENT_METHODS:
        found = "shapes" if pair.shapes else f"method={method!r}"
        raise ValueError(
            f"gradient=True is for point sets, by method {' or '.join(map(repr, GRADIENT_METHODS))}; found {found}"
        )


def _require_unbiased_support(pair: Pair, squared: bool, gradient: bool) -> None:
    if gradient:
        raise ValueError("gradient=True is that of the distance itself: use unbiased=False")
    ranges = [pair.points.only(s).weight_range for s in range(2)]
    sizes, lowest = [r.positive for r in ranges], min(r.least for r in ranges)
    if not squared or pair.shapes or lowest < 0 or min(sizes) < 2:
        raise ValueError(
            "unbiased=True estimates MMD^2: it needs squared=True, and point sets with weights >= 0, two or more above "
            f"0; found squared={squared}, {'shapes' if pair.shapes else 'point sets'} with {sizes[0]} and {sizes[1]} "
            f"weights above 0, the least {lowest:.3g}"
        )


def _unbiased(task: MMDProblem, method: str) -> float:
    """MMD_u^2 = D^2 + (kappa(P,P) - k(x, x) s^2) r / (1 - r) + the same of Q, s = sum p, r = sum p^2 / s^2."""
    total = solve(task._replace(eps=task.eps / 2), method)
    at_zero = float(KERNELS[task.kernel].value(np.zeros(1))[0])
    for points in map(task.points.only, range(2)):
        weights = points.weight_range
        equal = weights.least == weights.most
        s = len(points) * points.signs[0] * weights.least if equal else float(points.total[0])
        others = len(points) - 1.0 if equal else _others(points.square / s**2)
        own = task._replace(points=points, eps=task.eps / 4 * others)
        total += (solve(own, method) - at_zero * s**2) / others
    return total


def _others(r: float) -> float:
    """(1 - r) / r, which is n - 1 of n equal weights."""
    return (1 - r) / r
