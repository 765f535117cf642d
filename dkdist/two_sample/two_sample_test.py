"""`two_sample_test`: whether two point sets are samples of one distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.base.parameter_checks import draw_seed, one_of, whole
from dkdist.base.roles import Role
from dkdist.kernel.distance.kernel_inputs import SAMPLE, Pair, bandwidth, read_points
from dkdist.kernel.sums.exact_loops import scaled, sums
from dkdist.kernel.sums.profiles_loops import KERNELS
from dkdist.loops.array_types import F64
from dkdist.loops.tiles.weighted_points import WeightedPoints
from dkdist.plain.real_arrays import require_same_names
from dkdist.two_sample.aggregated_test import aggregated_test, permuted_statistics
from dkdist.two_sample.samples import sample_of

MAX_PERMUTATIONS = 10**6  # a p-value of 0.5 to a thousandth of itself, one of 0.001 to a thirtieth
RELATIVE_TIE_TOL = 1e-12  # of the diagonal: statistics that differ by less are equal


@dataclass(frozen=True)
class TwoSampleTest:
    """Result of `two_sample_test`.

    With a bandwidth, ``statistic`` is D^2 (biased), and ``sigma`` and ``kernel`` are the given ones. Without one,
    ``statistic`` is minus the decimal logarithm of a weighted harmonic mean of p-values, before it is ranked among
    permutations; ``kernel`` is the statistic with most evidence, "gaussian", "laplace", "energy", "means", "spread",
    "radius" or "products"; and ``sigma`` is the bandwidth of the best Gaussian kernel, for `witness`.
    """

    statistic: float
    p_value: float
    sigma: float
    kernel: str = "gaussian"


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
    """Test whether two samples come from one distribution, by permutations of kernel distances.

    Without a bandwidth, many statistics are combined: Gaussian and Laplace kernels of ten bandwidths each, the energy
    distance, and the means, squares and products of coordinates. A difference in one of them is enough.

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Independent samples, n, m >= 2. Without a bandwidth also Dask and Zarr arrays, `SampleSets` and a `SetStore`,
        whose points are pooled, read block by block in two passes. (To compare groups of sets use `group_test`.)
    sigma, h, gamma : float, optional
        One bandwidth, as in `kernel_distance`, for a test by that kernel alone. sigma="median" is that of both samples
        together (of more than 1,024 points, of a random part of all), so that permutations do not change it.
    n_permutations : int, default=999
        Random partitions of all points into n and m. No p-value is below 1 / (1 + n_permutations): many tests,
        corrected by `adjusted_p_values`, need more.
    kernel : str, default="gaussian"
        The kernel of the given bandwidth, any of those of `kernel_distance`.
    random_state : int, Generator or None, default=None
        Seed of the permutations and frequencies.

    Returns
    -------
    TwoSampleTest
        ``statistic``, ``p_value`` = (1 + number of permutations with a statistic as large) / (1 + n_permutations),
        ``sigma`` and ``kernel``.

    Raises
    ------
    ValueError
        As `kernel_distance`; for shapes, weighted points and fewer than two points; and, with a bandwidth, for points
        that are not in memory.

    Notes
    -----
    The level is exact: if both samples come from one distribution, p_value <= a with probability at most a, for any n,
    m and d (derived in `dkdist.two_sample.aggregated_test`).

    Without a bandwidth, the statistic is the weighted harmonic mean of p-values. Five families have a weight of 0.2
    each, in equal parts for their members: Gaussian kernels; Laplace kernels; the energy distance; means; and squares
    of coordinates, their sum and products (of 253 pairs at most). Coordinates are clipped at twice the 90 % quantile of
    distances from the median. Up to 512 points all pairs are compared. For more points, 500 to 4,000 random frequencies
    represent the kernels, and beyond 4,096 points random bins of points are permuted. Cost: 500 sines and cosines a
    point, and about 5e6 multiply-adds a permutation for any n and m. Memory: about 100 MiB and 5 bytes a point in
    addition to the points; of streamed points a block and 16 MiB for each thread.

    With a bandwidth: (n + m)^2 pairs for every 64 permutations, and one multiply-add for each pair and permutation.

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Schrab et al.: MMD aggregated two-sample test (2023). Biggs,
    Schrab, Gretton: MMD-FUSE (2023). Wilson: The harmonic mean p-value (2019). Székely, Rizzo: Energy statistics
    (2013). Domingo-Enrich, Dwivedi, Mackey: Cheap permutation testing (2025).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> P, Q = rng.normal(0, 1, (100, 2)), rng.normal(0, 1.7, (120, 2))
    >>> dk.two_sample_test(P, Q, random_state=0).p_value
    0.001
    >>> dk.two_sample_test(P, Q, sigma="median", random_state=0).p_value
    0.001
    """
    one_of("kernel", kernel, tuple(KERNELS))
    count = whole("n_permutations", n_permutations, most=MAX_PERMUTATIONS)
    require_same_names(P=P, Q=Q)
    if sigma is None and h is None and gamma is None:
        if kernel != "gaussian":
            raise ValueError(
                f"kernel={kernel!r} needs a bandwidth: give sigma, or omit kernel to combine many kernels"
            )
        p, q = sample_of("P", P), sample_of("Q", Q)
        if p.d != q.d:
            raise ValueError(f"P has {p.d} dimensions and Q has {q.d}: both must have the same")
        _require_two(p.n, q.n)
        return TwoSampleTest(*aggregated_test(p, q, count, draw_seed(random_state)))
    pair = read_points(P, Q, None)
    n, (x, z) = pair.n, pair.points.arrays()
    N = len(x)
    _require_two(n, N - n)
    rng = np.random.default_rng([draw_seed(random_state), Role.PERMUTATIONS])
    is_sampled = isinstance(sigma, str) and max(n, N - n) > SAMPLE
    width = bandwidth(_shuffled(pair, x, rng) if is_sampled else pair, sigma, h, gamma, kernel)
    x = scaled(x, width, kernel)

    def squared_distance(labels: NDArray[np.bool_]) -> F64:
        Z = np.ascontiguousarray(np.where(labels, z[0], z[-1]).T)
        return np.asarray((Z * sums(x, x, Z, kernel)).sum(axis=0, keepdims=True))

    D2 = permuted_statistics(squared_distance, n, N, count, rng)[0]
    p_value = float((D2[0] - RELATIVE_TIE_TOL * (1 / n + 1 / (N - n)) <= D2).mean())
    return TwoSampleTest(float(D2[0]), p_value, width, kernel)


def _require_two(n: int, m: int) -> None:
    if min(n, m) < 2:
        raise ValueError(f"a test needs two points or more in each sample; found {n} and {m}")


def _shuffled(pair: Pair, x: F64, rng: np.random.Generator) -> Pair:
    """The same points in random order, so that a part of them does not depend on the labels."""
    x = x[rng.permutation(len(x))]
    halves = x[: len(x) // 2], x[len(x) // 2 :]
    return replace(pair, points=WeightedPoints(halves, (None, None), (1.0, -1.0)))
