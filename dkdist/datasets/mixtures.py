"""`make_mixtures`: points of Gaussian mixtures in the plane, with the number of components as target."""

from __future__ import annotations

import numpy as np

from dkdist._base.parameter_checks import RandomStateLike, check_int, draw_seed
from dkdist._numba.arrays import F64, I64
from dkdist.sets import SampleSets

# The square [-10, 10]^2 contains all but 1e-5 of the mass of every mixture; its points are clipped to it
# (tests/datasets/test_datasets.py).
DOMAIN_BOUND = 10.0
MAX_COMPONENTS = 10  # Sutherland et al. (2016), section 4.2
# sets, and points per set: larger values are typing errors (tests/datasets/test_datasets.py)
MAX_COUNT = 10**6


class Mixture:
    """Random mixture of 1 to 10 Gaussians in the plane, with equal weights."""

    def __init__(self, rng: np.random.Generator) -> None:
        k = rng.integers(1, MAX_COMPONENTS + 1)
        self.means: F64 = rng.uniform(-5, 5, (k, 2))
        A = rng.uniform(-1, 1, (k, 2, 2))
        B = rng.uniform(0, 1, (k, 2))[:, :, None] * np.eye(2)
        self.covariances: F64 = rng.uniform(1, 4, k)[:, None, None] * A @ A.transpose(0, 2, 1) + B

    def sample(self, n: int, rng: np.random.Generator) -> F64:
        """Draw (n, 2) points."""
        z = rng.integers(0, len(self.means), n)
        L = np.linalg.cholesky(self.covariances)
        points: F64 = self.means[z] + np.einsum("nij,nj->ni", L[z], rng.standard_normal((n, 2)))
        return points


def make_mixtures(
    n_sets: int = 400, n_points: int = 200, *, random_state: RandomStateLike = None
) -> tuple[SampleSets, I64]:
    """Draw sets of points from Gaussian mixtures in the plane.

    Every set is drawn from another mixture of 1 to 10 Gaussians with equal weights; the target is their number. It
    does not follow from means or variances, but from the shape of the distribution.

    Parameters
    ----------
    n_sets, n_points : int, default=400, 200
        Number of sets, and of points per set.
    random_state : int, Generator or None, default=None
        Seed of the mixtures and the points.

    Returns
    -------
    sets : SampleSets
        Points in the square [-10, 10]^2; points outside are clipped to its boundary.
    y : (n_sets,) int64 array
        The numbers of components, 1 to 10.

    Raises
    ------
    ValueError
        If a number is not whole, below 1 or above 1,000,000.

    Notes
    -----
    Means are uniform on [-5, 5]^2; covariances are ``a A A' + B``, a uniform on [1, 4], the entries of A on [-1, 1],
    B diagonal on [0, 1]. Cost: 0.1 ms per set.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel embeddings
    (2016), section 4.2.

    Examples
    --------
    >>> import dkdist as dk
    >>> sets, y = dk.datasets.make_mixtures(50, 100, random_state=0)
    >>> sets
    SampleSets(n_sets=50, n_points=5000, n_dims=2)
    >>> y[:6].tolist()
    [9, 7, 1, 10, 5, 7]
    """
    n, size = (
        check_int("n_sets", n_sets, maximum=MAX_COUNT),
        check_int("n_points", n_points, maximum=MAX_COUNT),
    )
    rng = np.random.default_rng(draw_seed(random_state))
    mixtures = [Mixture(rng) for _ in range(n)]
    points = [np.clip(mixture.sample(size, rng), -DOMAIN_BOUND, DOMAIN_BOUND) for mixture in mixtures]
    return SampleSets.from_arrays(points), np.array([len(mixture.means) for mixture in mixtures], np.int64)
