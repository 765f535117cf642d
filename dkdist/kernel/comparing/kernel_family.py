"""Kernels that samples are compared by: Gaussian ones of ten bandwidths, their mixture, moments and waves.

From all pairs of points where these are few; else the Gaussian ones share one set of random frequencies:

    k_s(x, y) = E_w cos(w . (x - y)),   w ~ p_s normal with standard deviation 1 / s
    D_s^2 ~ sum_j a_sj |mean over P of exp(i w_j . x) - mean over Q of exp(i w_j . y)|^2
    a_sj = p_s(w_j) / (M sum_t p_t(w_j))

Each of the bandwidths draws M frequencies, and a frequency counts for every bandwidth that has it
(multiple importance sampling with the balance heuristic, Veach 1997): one pass over the points serves all of them.

The energy distance's kernel -|x - y| is a mixture of Gaussian ones of all bandwidths, in even shares of s. So it is a
weighted sum of these ten, of which the widest stands for all that are wider. In many dimensions distances are alike,
and so is what these kernels see. There one sum has nearly all of the level: the energy distance's kernel, five of
these, and four times one over ranks (`dkdist.kernel.comparing.ranks.rank_kernel`), each over its mean for samples that
do not differ. What one sees by chance another does not see so. Where wide kernels see the points best, or narrow ones
(`dkdist.kernel.comparing.parts_of_points`), it is three wider ones of these, or four narrower ones, and six times one
over ranks that is wider or narrower too.

    mixed     sum_k a_k D_k^2 / (mean of 1 - k(x, y) over pairs of points)

Beside them kernels of the normal scores g of coordinates (`dkdist.kernel.comparing.ranks.normal_scores`):

    means     sum_j (difference of the means of g_j)^2
    whitened  the same of the g_j made uncorrelated, as Hotelling's test has it, in 2 to 256 dimensions
    spread    sum_j (difference of the means of g_j^2)^2
    radius    (sum_j difference of the means of g_j^2)^2
    skewness  sum_j (difference of the means of g_j^3 - 3 g_j)^2
    kurtosis  sum_j (difference of the means of g_j^4 - 6 g_j^2)^2
    products  sum_(j < k) (difference of the means of g_j g_k)^2

In Gaussian kernels wide enough for all of two samples, the noise of their means hides how far they spread, and how
coordinates depend on each other. Products are of all pairs of coordinates up to 23 dimensions, of more of 253 pairs.
And up to three dimensions waves over ranks (`dkdist.kernel.comparing.ranks.rank_waves`).

Each has a share of the level. What sees a difference of shapes has the more of it, the more of a shape is seen in both
samples together (`dkdist.kernel.comparing.traces_of_shape`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtr

from dkdist.base.roles import Role
from dkdist.kernel.comparing.parts_of_points import wideness
from dkdist.kernel.comparing.ranks.normal_scores import NormalScores, normal_scores
from dkdist.kernel.comparing.ranks.rank_kernel import RankKernel, rank_kernel, stretch_for
from dkdist.kernel.comparing.ranks.rank_waves import RankWaves, rank_waves
from dkdist.kernel.comparing.sphere import radius_for, within
from dkdist.kernel.comparing.traces_of_shape import Traces, traces_of_shape
from dkdist.kernel.kinds.kernel_frequencies import DRAWS, least_error
from dkdist.loops.array_types import F64, I64

N_BANDWIDTHS = 10
NARROW = 5  # of the bandwidths; the others are wide, and have no share beside the sums of them
# what is mixed with the energy distance where narrow kernels see the points best, where that is not known, and where
# wide ones do: which of the bandwidths, and how many times as much as each of them counts the kernel over ranks
OF_NARROW, OF_ANY, OF_WIDE = (slice(1, 5), 6), (slice(2, 7), 4), (slice(5, 8), 6)
QUANTILES = (0.05, 0.95)  # of the distances between points: from half the one to twice the other
MOMENTS = ("means", "whitened", "spread", "radius", "skewness", "kurtosis", "products")
MOST_PAIRS = 253  # of coordinates, whose products are compared: all pairs of 23
MOST_WHITENED = 256  # coordinates whose correlations are looked at
# of the level, before they are made one together, in up to three dimensions: for what sees shifts and scales
SHARES = {"energy": 0.43, "means": 0.38, "whitened": 0.05, "spread": 0.014, "radius": 0.012}
# and for what sees shapes: whatever the traces of these are, and as much again for each trace
OF_SHAPES = {
    "gaussian": (0.004, 0.3), "skewness": (0.0, 0.004), "kurtosis": (0.0, 0.002), "products": (0.006, 0.0018),
    "waves": (0.002, 0.2),
}  # fmt: skip
MOST_TRACE, MOST_OF_A_WAVE = 20.0, 6.0
ROUGH = 5.0  # deviations, at which a union is as rough as counts; then narrow kernels and waves have all of their share
# where traces are not looked at
MANY_DIMENSIONS = {
    "gaussian": 0.0055, "mixed": 0.95, "means": 0.02, "whitened": 0.005, "spread": 0.0005, "radius": 0.00475,
    "skewness": 0.00015, "kurtosis": 0.00015, "products": 0.0015,
}  # fmt: skip


class Family(NamedTuple):
    """The radius of a sphere; bandwidths (K,) of the Gaussian kernels within it, and the means of 1 - k(x, y) over
    pairs of points, (K,); scores of d coordinates, and pairs (2, r) of them; how means are whitened (d, d), in two
    dimensions or more, but not in too many. In few dimensions waves over ranks and the traces of shapes; in many the
    kernel over ranks, and how wide the others ought to be, from -1 to 1."""

    radius: float
    sigmas: F64
    noise: F64
    scores: NormalScores
    pairs: I64
    whitening: F64 | None
    ranks: RankWaves | RankKernel
    traces: Traces | None = None
    wideness: float = 0.0

    @property
    def waves(self) -> RankWaves | None:
        """Waves over ranks, in few dimensions."""
        return self.ranks if isinstance(self.ranks, RankWaves) else None

    @property
    def names(self) -> list[str]:
        """The kernels in the order of their statistics: some are not in all dimensions."""
        waves = self.waves
        absent = {
            "mixed": waves is not None,
            "whitened": self.whitening is None,
            "products": not self.pairs.size,
        }
        others = [name for name in ("energy", "mixed", *MOMENTS) if not absent.get(name)]
        n_waves = 0 if waves is None else len(waves.firsts)
        return ["gaussian"] * len(self.sigmas) + others + ["waves"] * n_waves

    @property
    def shares(self) -> F64:
        """The share of the level that each kernel has, (kernels,), 1 together."""
        traces, of_waves = self.traces, np.empty(0)
        given = MANY_DIMENSIONS if traces is None else shares_by(traces)
        if self.waves is not None and traces is not None:
            of_waves = self.waves.shares * np.minimum(traces.waves, MOST_OF_A_WAVE)
            of_waves /= of_waves.sum()
        narrow = np.arange(len(self.sigmas)) < NARROW
        gaussian = np.where(narrow, given["gaussian"] / NARROW, 0.0)
        others = [given.get(name, 0.0) for name in self.names[len(narrow) :] if name != "waves"]
        shares = np.concatenate([gaussian, others, given.get("waves", 0.0) * of_waves])
        return np.asarray(shares / shares.sum())

    @property
    def n_moments(self) -> int:
        """How many moments a point has."""
        return 4 * len(self.scores.values) + int(self.pairs.shape[1])

    def moments(self, g: F64) -> Iterator[F64]:
        """Scores of points (n, d), their polynomials, and their products of pairs, at most d at a time."""
        squares = g**2
        yield g
        yield squares
        yield g * (squares - 3)
        yield squares * (squares - 6)
        for first in range(0, self.pairs.shape[1], g.shape[1]):
            j, k = self.pairs[:, first : first + g.shape[1]]
            yield g[:, j] * g[:, k]

    def squares(self, u: F64, x: F64) -> Iterator[F64]:
        """|x - y|^2 / s^2 of all pairs of points (n, d), in units and as they are given: for each of the bandwidths s,
        and for the kernel over ranks, if there is one."""
        u = within(u, self.radius)
        squares = cdist(u, u, "sqeuclidean")
        yield from (squares / sigma**2 for sigma in self.sigmas)
        if isinstance(self.ranks, RankKernel):
            yield self.ranks.squares(ndtr(self.scores.of(x)))

    def features(self, x: F64) -> F64:
        """Moments of points (n, d), and the sines and cosines of their waves: (n, features)."""
        g = self.scores.of(x)
        waves = [] if self.waves is None else [self.waves.phases(ndtr(g))]
        return np.concatenate([*self.moments(g), *waves], axis=1)

    def by_frequencies(self, gaussian: F64, apart: F64) -> F64:
        """The same as `distances`, where the kernel over ranks is among ``apart`` by its sines and cosines."""
        if isinstance(self.ranks, RankWaves):
            return self.distances(gaussian, apart)
        moments, of_ranks = np.split(apart, [self.n_moments], axis=1)
        return self.distances(np.concatenate([gaussian, self.ranks.distances(of_ranks)]), moments)

    def distances(self, gaussian: F64, apart: F64) -> F64:
        """Squared distances by all kernels (kernels, B), from those by Gaussian ones (K, B), the one over ranks being
        the last, if there is one, and the differences of mean features (B, features)."""
        moments, waves = np.split(apart, [self.n_moments], axis=1)
        found = [gaussian[: len(self.sigmas)], self._sums(gaussian), self._of_moments(moments)]
        return np.concatenate(found if self.waves is None else [*found, self.waves.distances(waves)])

    def _sums(self, gaussian: F64) -> F64:
        """Distances by sums of Gaussian kernels: the energy distance's (1, B); where there is one over ranks, and the
        mixed one (2, B).

        |x - y| is proportional to the integral of 1 - exp(-|x - y|^2 / 2 s^2) over all s > 0: by the trapezoid rule
        in log s; from 0 to the least bandwidth, and for those beyond the largest one, which fall with 1 / s^2."""
        s = self.sigmas
        energy = s * np.log(s[1] / s[0])
        energy[[0, -1]] = energy[[0, -1]] / 2 + s[[0, -1]]
        if isinstance(self.ranks, RankWaves):
            return np.asarray(energy[None] @ gaussian)
        mixed = np.append(energy / (energy @ self.noise), 0.0)
        sure, seen_best = abs(self.wideness), OF_WIDE if self.wideness > 0 else OF_NARROW
        for part, (others, of_ranks) in ((1 - sure, OF_ANY), (sure, seen_best)):
            mixed[others] += part / self.noise[others]
            mixed[-1] += part * of_ranks / self.ranks.noise
        sums = np.stack([np.append(energy, 0), mixed])
        return np.asarray(sums @ gaussian)

    def _of_moments(self, apart: F64) -> F64:
        d = len(self.scores.values)
        means, squares, thirds, fourths = (apart[:, k * d : (k + 1) * d] for k in range(4))
        whitened = [] if self.whitening is None else [means @ self.whitening]
        products = [apart[:, 4 * d :]] if self.pairs.size else []
        radius = squares.sum(axis=1, keepdims=True)
        each = [means, *whitened, squares, radius, thirds, fourths, *products]
        return np.stack([(some**2).sum(axis=1) for some in each])


def shares_by(traces: Traces) -> dict[str, float]:
    """The share of the level of each name, where the union of the samples has such traces."""
    rough = float(np.clip(traces.roughness / ROUGH, 0, 1))
    seen = {"gaussian": rough, "waves": rough}
    for name in ("skewness", "kurtosis", "products"):
        seen[name] = min(getattr(traces, name), MOST_TRACE)
    return SHARES | {name: always + grows * seen[name] for name, (always, grows) in OF_SHAPES.items()}


class Frequencies(NamedTuple):
    """Frequencies (F, d), and the weight (K, F) that each has for each bandwidth."""

    W: F64
    weights: F64

    def of_waves(self, apart: F64) -> F64:
        """Squared distances (K, B) from differences of mean sines and cosines (B, 2F)."""
        sines, cosines = np.split(apart, 2, axis=1)
        return np.asarray(self.weights @ (sines**2 + cosines**2).T)


def kernel_family(sample: F64, as_given: F64 | None = None) -> Family | None:
    """Kernels for points like those of a sample (m, d), about the origin; None if these are all equal.

    Ranks are those of the points ``as_given``, in any unit: by them no point is far.
    """
    x = sample if as_given is None else as_given
    if not sample.any():
        return None
    radius = radius_for(sample)
    u = within(sample, radius)
    distances = pdist(u)
    distances = distances[distances > 0]
    if len(distances) == 0:
        return None
    low, high = np.quantile(distances, QUANTILES)
    sigmas, d = np.geomspace(low / 2, 2 * high, N_BANDWIDTHS), sample.shape[1]
    scores, waves = normal_scores(x), rank_waves(d)
    noise = np.array([-np.expm1(-(distances**2) / (2 * sigma**2)).mean() for sigma in sigmas])
    g = scores.of(x)
    whitening = _whitening(g) if 1 < d <= MOST_WHITENED else None
    common = radius, sigmas, noise, scores, _pairs(d), whitening
    if waves is None:
        stretch, U = stretch_for(u), ndtr(g)
        wide = wideness(U * stretch)
        return Family(*common, rank_kernel(stretch, U, wide), wideness=wide)
    return Family(*common, waves, traces_of_shape(sample, waves))


def _whitening(g: F64) -> F64:
    """A root (d, d) of the inverse covariance of scores (m, d), to which d / m of the mean variance is added: of few
    points less is known of it."""
    m, d = g.shape
    covariance = np.cov(g.T, bias=True)
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance + np.trace(covariance) / m * np.eye(d))).T)


def _pairs(d: int) -> I64:
    """Pairs j < k of d coordinates, (2, r): all, or as many as allowed, always the same ones."""
    count = d * (d - 1) // 2
    if count <= MOST_PAIRS:
        places = np.arange(count)
    else:
        rng = np.random.default_rng([d, Role.TEST_FREQUENCIES])
        places = np.sort(rng.choice(count, MOST_PAIRS, replace=False))
    k = ((1 + np.sqrt(1 + 8 * places)) / 2).astype(np.int64)  # before (j, k) lie k (k - 1) / 2 + j others
    return np.stack([places - k * (k - 1) // 2, k])


def shared_frequencies(sigmas: F64, d: int, n_frequencies: int, seed: int) -> Frequencies:
    """``n_frequencies`` drawn for each bandwidth, in d dimensions, and what they are to the others."""
    rng, draw = np.random.default_rng([seed, Role.TEST_FREQUENCIES]), DRAWS[least_error(d)]
    W = np.concatenate([draw(rng, n_frequencies, d) / sigma for sigma in sigmas])
    logs = d * np.log(sigmas)[:, None] - sigmas[:, None] ** 2 * (W**2).sum(axis=1) / 2
    density = np.exp(logs - logs.max(axis=0))
    return Frequencies(W, density / density.sum(axis=0) / n_frequencies)
