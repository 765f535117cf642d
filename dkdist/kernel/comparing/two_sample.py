"""`two_sample_test`: whether two point sets are samples of one distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist.base.parameter_checks import draw_seed, one_of, whole
from dkdist.base.roles import Role
from dkdist.kernel.comparing.aggregated_test import aggregated_test
from dkdist.kernel.comparing.samples import Sample, sample_of
from dkdist.kernel.distance.kernel_inputs import SAMPLE, Pair, bandwidth, read_points
from dkdist.kernel.sums.exact_loops import scaled, sums
from dkdist.kernel.sums.profiles_loops import KERNELS
from dkdist.loops.array_types import F64
from dkdist.loops.tiles.weighted_points import WeightedPoints
from dkdist.plain.validation import require_same_names

AT_ONCE = 64  # permutations: their sums stay in the first-level cache
MOST_PERMUTATIONS = 10**6  # a p-value to a thousandth of itself at .5, to a thirtieth at .001
TIES = 1e-12  # of the diagonal: statistics that differ by less are equal


@dataclass(frozen=True)
class TwoSampleTest:
    """What `two_sample_test` found.

    ``statistic`` is D^2 (biased) with a bandwidth given; without one, what all kernels found together, as if it were a
    standard normal number (`dkdist.kernel.comparing.shares_of_level`).
    ``p_value`` is the share of permutations with one as large, the samples as they are among them. ``sigma`` and
    ``kernel`` are what was given. Without a bandwidth ``kernel`` is the one by which the samples differ most,
    "gaussian", "energy", "mixed", "means", "whitened", "spread", "radius", "skewness", "kurtosis", "products" or
    "waves", and ``sigma`` the most telling bandwidth, by which `witness` shows where.
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
    """Test whether two samples are of one distribution, by permutations of the kernel distance.

    With no bandwidth given, many kernels are tried at once: Gaussian ones of ten bandwidths, from half the 5 % quantile
    of the distances between points to twice the 95 % quantile; the energy distance; in more than three dimensions the
    energy distance mixed with Gaussian kernels of points and of ranks, wide ones or narrow ones; the means of
    coordinates, as they are and whitened, which see shifts; squares, which see scales; third and fourth powers;
    products of two coordinates (of 253 pairs at most), which see how these depend on each other; and in one to three
    dimensions waves. Moments and waves are those of ranks. A difference need show in one of them alone.

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Independent samples, n, m >= 2. Without a bandwidth also dask and Zarr arrays, `SampleSets` and a `SetStore`,
        whose points are taken together, read block by block in two passes. (Points of one set are like each other:
        whether groups of sets differ is for `group_test`.)
    sigma, h, gamma : float, optional
        One bandwidth, as in `kernel_distance`, for a test by that kernel alone. sigma="median" is that of both samples
        together (of more than 1,024 points, of some drawn from all), so that permutations leave it.
    n_permutations : int, default=999
        Random partitions of all points into n and m. No p-value is below 1 / (1 + n_permutations): of many tests,
        which `adjusted_p_values` takes together, each needs more.
    kernel : str, default="gaussian"
        Of the given bandwidth, any of those of `kernel_distance`; all but the Gaussian one need a bandwidth.
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
        As `kernel_distance`, but that no bandwidth need be given; for shapes, weighted points, fewer than two of them,
        and for one bandwidth for points that are not in memory.

    Notes
    -----
    The level is exact: if both are of one distribution, p_value <= a with probability at most a, for any kernels and
    any n, m, d (shown in `dkdist.kernel.comparing.aggregated_test`).

    Without a bandwidth: up to 1,024 points all pairs are compared. Of more, 510 random frequencies serve all Gaussian
    kernels, each as another weighting of them; fewer than 4,096 points have more at the same cost, up to 2,030, since
    what is narrow shows in few of them. Statistic: the weighted harmonic mean of the kernels' p-values, those of the
    cube roots of squared distances, standardised by those of the permutations. Weights are shares of the level. Of
    normal points some .46 is for the energy kernel, .41 for means, .05 for means whitened, .08 for all else; what sees
    shapes has the more, up to a half and more for all of them, the more of a shape is seen in both together
    (`dkdist.kernel.comparing.traces_of_shape`). In more than three dimensions that is not looked at: .96 for the mixed
    kernel, .02 for means, .02 for all else; and the mixed kernel is wide for points that follow a few factors, narrow
    for points in groups, as 32 parts of 256 points tell (`dkdist.kernel.comparing.parts_of_points`). Points far
    out count as if they were on a sphere about the centre, of one and a half times the 90 % quantile of the distances
    from it; but ranks and moments are those of the points as they are. Beyond 4,096 points it is bins of points, drawn
    at random, that are exchanged. Cost: 510 sines and cosines a point, .6 us of one core in the plane, 766 in more than
    three dimensions, and some 1e7 multiply-adds a permutation, whatever n and m are. Memory: some 70 MiB and 5 bytes a
    point beside the points; of what is read, a block and 16 MiB for each thread.

    With one: (n + m)^2 pairs for every 64 permutations, and a multiply-add of each pair for each permutation, in
    O(n + m) memory.

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Schrab et al.: MMD aggregated two-sample test (2023). Biggs,
    Schrab, Gretton: MMD-FUSE (2023). Wilson: The harmonic mean p-value (2019). Székely, Rizzo: Energy statistics
    (2013). Neyman: "Smooth test" for goodness of fit (1937). Zhao, Meng: FastMMD (2015), for random features.
    Domingo-Enrich, Dwivedi, Mackey: Cheap permutation testing (2025). Phipson, Smyth: Permutation p-values should never
    be zero (2010). Genovese, Roeder, Wasserman: False discovery control with p-value weighting (2006).

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
    count = whole("n_permutations", n_permutations)
    if count > MOST_PERMUTATIONS:
        raise ValueError(
            f"n_permutations must be at most {MOST_PERMUTATIONS:,}; found {count}: more tell nothing new"
        )
    require_same_names(P=P, Q=Q)
    if sigma is None and h is None and gamma is None:
        if kernel != "gaussian":
            raise ValueError(
                f"kernel={kernel!r} needs a bandwidth: give sigma, or leave out both, and kernels are chosen"
            )
        samples = sample_of("P", P), sample_of("Q", Q)
        _require_alike(*samples)
        found = aggregated_test(*samples, count, draw_seed(random_state))
        return TwoSampleTest(found.statistic, found.p_value, found.sigma, found.kernel)
    pair = read_points(P, Q, None)
    n, (x, z) = pair.n, pair.points.arrays()
    N = len(x)
    _require_two(n, N - n)
    rng = np.random.default_rng([draw_seed(random_state), Role.PERMUTATIONS])
    some = isinstance(sigma, str) and max(n, N - n) > SAMPLE
    width = bandwidth(_shuffled(pair, x, rng) if some else pair, sigma, h, gamma, kernel)
    x, squares = scaled(x, width, kernel), []
    for start in range(0, count + 1, AT_ONCE):
        columns = [
            z[:, 0] if start + k == 0 else rng.permutation(z[:, 0])
            for k in range(min(AT_ONCE, count + 1 - start))
        ]
        Z = np.ascontiguousarray(np.stack(columns, axis=1))
        squares.append((Z * sums(x, x, Z, kernel)).sum(axis=0))
    own, *others = np.concatenate(squares)
    as_large = int((np.array(others) >= own - TIES * (1 / n + 1 / (N - n))).sum())
    return TwoSampleTest(float(own), (1 + as_large) / (1 + count), width, kernel)


def _require_alike(P: Sample, Q: Sample) -> None:
    if P.d != Q.d:
        raise ValueError(f"P has {P.d} dimensions and Q has {Q.d}: both must have the same")
    _require_two(P.n, Q.n)


def _require_two(n: int, m: int) -> None:
    if min(n, m) < 2:
        raise ValueError(f"a test needs two points or more in each sample; found {n} and {m}")


def _shuffled(pair: Pair, x: F64, rng: np.random.Generator) -> Pair:
    """The same points, of either set, in any order: what is taken of some of them does not know whose they are."""
    x = x[rng.permutation(len(x))]
    halves = x[: len(x) // 2], x[len(x) // 2 :]
    return replace(pair, points=WeightedPoints(halves, (None, None), (1.0, -1.0)))
