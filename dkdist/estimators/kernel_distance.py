"""`kernel_distance`: the distance of two weighted point sets, curves or surfaces in the space of a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._flags import as_flag
from dkdist.estimators._kernel_inputs import Pair, bandwidth, read_pair
from dkdist.estimators._kernel_methods import METHODS, Task, find, make_task
from dkdist.estimators._params import one_of, positive
from dkdist.numerics.kernel_exact import KERNELS

INDEFINITE = 1e-9  # of kappa(P,P) + kappa(Q,Q): what is more negative is not rounding


def kernel_distance(
    P: Any,
    Q: Any,
    *,
    sigma: float | str | None = None,
    h: float | None = None,
    gamma: float | None = None,
    squared: bool = False,
    method: str = "auto",
    eps: float = 1e-4,
    weights: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    kernel: str = "gaussian",
    unbiased: bool = False,
    random_state: Any = None,
) -> float:
    """The kernel distance of two weighted point sets, curves or surfaces: for weights that sum to one, the MMD.

        D_K^2(P, Q) = kappa(P, P) + kappa(Q, Q) - 2 kappa(P, Q),   kappa(P, Q) = sum_ij p_i q_j k(x_i, y_j)

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays, two `Curve`, or two `Surface`
        Points; they are computed with in float64, from their common middle. Meshes of trimesh and meshio are taken as
        surfaces.
    sigma, h, gamma : float
        The bandwidth, exactly one of: exp(-r^2 / (2 sigma^2)), exp(-r^2 / h), exp(-gamma r^2). sigma="median" is the
        median distance of up to 512 points of each set, whatever their weights.
    squared : bool, default=False
        Return D^2. What rounding or an approximation makes negative is 0 before the root is taken.
    method : {"auto", "exact", "fourier", "rff", "taylor", "tree", "wspd"}, default="auto"
        See the notes.
    eps : float, default=1e-4
        Error allowed of D^2 (not of D, which may then be off by up to eps^(1/2) near zero); "exact" makes none.
    weights : None or pair (w_P, w_Q), default=None
        Weights of the points, signed if you like, used as they are: nothing is normalised. None, for both or in place
        of one, are equal weights that sum to one. Shapes have their own.
    kernel : {"gaussian", "laplacian", "epanechnikov"}, default="gaussian"
        The others, exp(-r / sigma) and max(0, 1 - r^2 / sigma^2), for method "exact" (and "auto", which takes it). The
        last one is not positive definite: D^2 may be negative, and then has no root.
    unbiased : bool, default=False
        The unbiased estimate of MMD^2, without the pairs of a point with itself; it may be negative. For
        squared=True, point sets of two points or more, and equal weights.
    random_state : int, Generator or None, default=None
        Seed of the frequencies of "rff"; no other method uses it.

    Returns
    -------
    float
        D, or D^2.

    Raises
    ------
    ValueError
        Naming what is wrong: no or two bandwidths, points that are not finite or not (n, d), different dimensions,
        weights of another length, all zero or beyond 1e-140 to 1e150 in all, a shape beside a point set, an unknown
        method or kernel, and a method that cannot do what is asked (with the number of modes, terms or frequencies that
        it would need).

    Notes
    -----
    N = n + m, W = the sum of all |weights| (of shapes, of lengths or areas), so D^2 <= W^2; 2 for two plain sets.

    ========  ======  ==============================================  ==============================================
    method    d       error of D^2                                    cost
    ========  ======  ==============================================  ==============================================
    exact     any     rounding: some 1e-15 W^2 (d > 3: 1e-10 W^2)     N^2 / 2 pairs, 1e9 of them a second, O(N) memory
    fourier   1 to 3  at most eps, certified                          a few ms; N x p^d (p = 4 to 8), and one FFT
    tree      any     at most eps, guaranteed                         N log N if sigma is small, else as exact
    taylor    any     at most eps, certified                          N x (number of terms); for wide kernels
    wspd      any     at most eps, guaranteed                         near-linear, with large constants: for reference
    rff       any     standard error at most eps                      N x (frequencies): as many as eps asks for
    ========  ======  ==============================================  ==============================================

    "auto" is deterministic and keeps to eps: "exact" up to N = 2,000; in one to three dimensions "fourier", or "tree"
    if its modes would take more than half a GiB; above, "taylor" if it needs at most N / 4 terms (and 20,000), else
    "exact".

    "rff" draws 16 independent replicates of Sobol (d <= 16) or orthogonal frequencies, which P and Q share, and doubles
    their number until the standard error of the mean is at most eps, or refuses beyond 2^18 frequencies. Its phases are
    float32: points more than some thousand bandwidths apart are refused, unless eps is as large as their rounding.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance (2011),
    equation 1.1. Gretton et al.: A kernel two-sample test (2012), equation 3 (unbiased).

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
    """
    as_flag("squared", squared)
    as_flag("unbiased", unbiased)
    one_of("method", method, METHODS)
    one_of("kernel", kernel, tuple(KERNELS))
    pair = read_pair(P, Q, weights)
    width = bandwidth(pair, sigma, h, gamma, kernel)
    task = make_task(pair.x, pair.z, width, positive("eps", eps), kernel, random_state)
    if unbiased:
        _require_plain(pair, squared, weights)
        return _unbiased(task, method, pair.n)
    square = find(task, method)
    if squared:
        return square
    if kernel == "epanechnikov" and square < -INDEFINITE * float((task.z**2).sum()):
        raise ValueError(
            f"D^2 = {square:.3g} is negative, for kernel='epanechnikov' is not positive definite: use squared=True, or "
            "another kernel"
        )
    return float(np.sqrt(max(square, 0.0)))


def _require_plain(pair: Pair, squared: bool, weights: object) -> None:
    sizes = (pair.n, len(pair.x) - pair.n)
    if not squared or weights is not None or pair.shapes or min(sizes) < 2:
        raise ValueError(
            "unbiased=True estimates MMD^2: it needs squared=True, weights=None and point sets of two points or more; "
            f"found squared={squared}, {'weights' if weights is not None else 'no weights'}, "
            f"{'shapes' if pair.shapes else 'point sets'} of sizes {sizes[0]} and {sizes[1]}"
        )


def _unbiased(task: Task, method: str, n: int) -> float:
    """MMD_u^2 = D^2 + (kappa(P,P) - 1) / (n - 1) + (kappa(Q,Q) - 1) / (m - 1), as k(x, x) = 1."""
    total = find(replace(task, eps=task.eps / 2), method)
    for part in (slice(n), slice(n, None)):
        x, others = task.x[part], len(task.x[part]) - 1
        own = replace(task, x=x, z=task.z[part], eps=task.eps / 4 * others)
        total += (find(own, method) - 1) / others
    return total
