"""`witness`: the function that shows where two point sets differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._numba.arrays import F64
from dkdist._utils.validation import require_same_names
from dkdist.kernels.inputs import as_points, read_points, resolve_bandwidths
from dkdist.kernels.kernel_sums import scaled, sums
from dkdist.kernels.registry import check_kernel


def witness(
    P: ArrayLike,
    Q: ArrayLike,
    queries: ArrayLike,
    *,
    sigma: float | str | Sequence[float] | NDArray[Any] | None = None,
    h: float | None = None,
    gamma: float | None = None,
    weights: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    kernel: str = "gaussian",
) -> F64:
    """Evaluate the witness function of two point sets, which is positive where P is denser than Q.

    Its norm in the space of the kernel is the kernel distance:

        f(u) = sum_i p_i k(x_i, u) - sum_j q_j k(y_j, u),   D^2 = sum_i p_i f(x_i) - sum_j q_j f(y_j)

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Points. Bandwidths (for several, the functions are added), ``weights`` and ``kernel`` as in `kernel_distance`.
    queries : (N, d) array
        Points u at which the function is evaluated.

    Returns
    -------
    (N,) float64 ndarray
        f(u), exact up to rounding: positive where P is denser, negative where Q is denser.

    Raises
    ------
    ValueError
        As `kernel_distance`; for shapes, and for queries of another dimension.

    Notes
    -----
    Cost: N (n + m) pairs, 1e9 of them a second on one core, in O(N + n + m) memory.

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012), section 2.3.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> P, Q = rng.normal(-1, 1, (2000, 1)), rng.normal(1, 1, (2000, 1))
    >>> dk.witness(P, Q, [[-2.0], [2.0]], sigma=0.5).round(1)
    array([ 0.3, -0.3])
    """
    check_kernel(kernel)
    require_same_names(P=P, Q=Q, queries=queries)
    pair = read_points(P, Q, weights)
    bandwidths = resolve_bandwidths(pair, sigma, h, gamma, kernel)
    u = as_points("queries", queries)
    if u.shape[1] != pair.points.d:
        raise ValueError(f"queries must have the {pair.points.d} dimensions of P; got {u.shape[1]}.")
    u = bandwidths.pair.points.transform(u)
    x, z = bandwidths.pair.points.arrays()
    values = [
        sums(scaled(u, width, kernel), scaled(x, width, kernel), z, kernel) for width in bandwidths.sigmas
    ]
    return np.asarray(np.sum(values, axis=0)[:, 0])
