"""`witness` and `two_sample_test`: where two point sets differ, and whether they do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist.base.parameter_checks import draw_seed, one_of, whole
from dkdist.base.roles import Role
from dkdist.kernel.distance.kernel_inputs import SAMPLE, Pair, bandwidth, read_pair
from dkdist.kernel.distance.point_inputs import points_of
from dkdist.kernel.sums.exact_loops import KERNELS, scaled, sums
from dkdist.loops.array_types import F64

AT_ONCE = 64  # permutations: their sums stay in the first-level cache
MOST_PERMUTATIONS = 10**6  # a p-value to a thousandth of itself at .5, to a thirtieth at .001
TIES = 1e-12  # of the diagonal: statistics that differ by less are equal


def witness(
    P: Any,
    Q: Any,
    queries: ArrayLike,
    *,
    sigma: float | str | None = None,
    h: float | None = None,
    gamma: float | None = None,
    weights: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    kernel: str = "gaussian",
) -> F64:
    """Where P outweighs Q: the function whose norm in the space of the kernel is the kernel distance.

        f(u) = sum_i p_i k(x_i, u) - sum_j q_j k(y_j, u),   D^2 = sum_i p_i f(x_i) - sum_j q_j f(y_j)

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Points; bandwidth, ``weights`` and ``kernel`` as in `kernel_distance`.
    queries : (N, d) array
        Points u.

    Returns
    -------
    (N,) float64 ndarray
        f(u), exact but for rounding: positive where P is denser, negative where Q is.

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
    one_of("kernel", kernel, tuple(KERNELS))
    pair = _points(P, Q, weights)
    width = bandwidth(pair, sigma, h, gamma, kernel)
    u = points_of("queries", queries)
    if u.shape[1] != pair.x.shape[1]:
        raise ValueError(
            f"queries have {u.shape[1]} dimensions and P has {pair.x.shape[1]}: both must have the same"
        )
    values = sums(scaled(u - pair.middle, width, kernel), scaled(pair.x, width, kernel), pair.z, kernel)
    return np.asarray(values[:, 0])


@dataclass(frozen=True)
class TwoSampleTest:
    """What `two_sample_test` found: D^2, the share of permutations with one as large, and the bandwidth."""

    statistic: float
    p_value: float
    sigma: float


def two_sample_test(
    P: Any,
    Q: Any,
    *,
    sigma: float | str | None = None,
    h: float | None = None,
    gamma: float | None = None,
    n_permutations: int = 999,
    kernel: str = "gaussian",
    random_state: Any = None,
) -> TwoSampleTest:
    """Test whether two samples are of one distribution, by permutations of the kernel distance.

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Independent samples, n, m >= 2; bandwidth and ``kernel`` as in `kernel_distance`. sigma="median" is that of
        both samples together (of more than 1,024 points, of some drawn from all), so that permutations leave it.
    n_permutations : int, default=999
        Random partitions of all points into n and m.
    random_state : int, Generator or None, default=None
        Seed of the permutations.

    Returns
    -------
    TwoSampleTest
        ``statistic`` D^2 (biased), ``p_value`` (1 + number of permutations with D^2 as large) / (1 + n_permutations),
        and ``sigma``.

    Raises
    ------
    ValueError
        As `kernel_distance`; for shapes, and for fewer than two points.

    Notes
    -----
    The level is exact: if both are of one distribution, p_value <= a with probability at most a, for any kernel and any
    n, m. Cost: (n + m)^2 pairs for every 64 permutations, and a multiply-add of each pair for each permutation, in
    O(n + m) memory.

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Phipson, Smyth: Permutation p-values should never be zero (2010).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> P, Q = rng.normal(0, 1, (100, 2)), rng.normal(0, 1.7, (120, 2))
    >>> found = dk.two_sample_test(P, Q, sigma="median", random_state=0)
    >>> found.p_value
    0.001
    """
    one_of("kernel", kernel, tuple(KERNELS))
    count = whole("n_permutations", n_permutations)
    if count > MOST_PERMUTATIONS:
        raise ValueError(
            f"n_permutations must be at most {MOST_PERMUTATIONS:,}; found {count}: more tell nothing new"
        )
    pair = _points(P, Q, None)
    n, N = pair.n, len(pair.x)
    if min(n, N - n) < 2:
        raise ValueError(f"a test needs two points or more in each sample; found {n} and {N - n}")
    rng = np.random.default_rng([draw_seed(random_state), Role.PERMUTATIONS])
    some = isinstance(sigma, str) and max(n, N - n) > SAMPLE
    width = bandwidth(_shuffled(pair, rng) if some else pair, sigma, h, gamma, kernel)
    x, squares = scaled(pair.x, width, kernel), []
    for start in range(0, count + 1, AT_ONCE):
        columns = [
            pair.z[:, 0] if start + k == 0 else rng.permutation(pair.z[:, 0])
            for k in range(min(AT_ONCE, count + 1 - start))
        ]
        Z = np.ascontiguousarray(np.stack(columns, axis=1))
        squares.append((Z * sums(x, x, Z, kernel)).sum(axis=0))
    own, *others = np.concatenate(squares)
    as_large = int((np.array(others) >= own - TIES * (1 / n + 1 / (N - n))).sum())
    return TwoSampleTest(float(own), (1 + as_large) / (1 + count), width)


def _shuffled(pair: Pair, rng: np.random.Generator) -> Pair:
    """The same points, of either set, in any order: what is taken of some of them does not know whose they are."""
    order = rng.permutation(len(pair.x))
    return replace(pair, x=pair.x[order], n=len(pair.x) // 2)


def _points(P: Any, Q: Any, weights: Any) -> Pair:
    pair = read_pair(P, Q, weights)
    if pair.shapes:
        raise ValueError("P and Q must be point sets, not shapes: give arrays (n, d)")
    return pair
