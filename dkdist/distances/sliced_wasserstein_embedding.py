"""`SlicedWassersteinEmbedding`: quantiles of the projections of sets on random directions.

Influence function of quantiles: a point added at s changes the mean quantile over levels a to b by

    1 / (b - a) int_(F^-1(a))^(F^-1(b)) (F(y) - 1{s <= y}) dy.

Let g_q be the derivative of a function with respect to the quantile of cell q = [e_q, e_(q+1)]. The influence of a
point on the function is, up to a constant, a continuous potential, linear between the quantiles F^-1(e_q) with slopes
g_q / (e_(q+1) - e_q). No density estimate is needed. Cells surround the levels (q + 1/2) / Q. The two outermost cells
omit half of the weight beyond the outermost levels, so that outliers have no more influence than points at the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.embedding import SetEmbedding
from dkdist._base.influence import weight_fractions
from dkdist._base.inputs import SetsLike, check_sets, sample_moments
from dkdist._base.parameter_checks import (
    RandomStateLike,
    check_choice,
    check_int,
    draw_seed,
    round_to_float32,
)
from dkdist._base.params import FittedParams, Params
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.serialization import serializable
from dkdist.distances._sliced_wasserstein_numba import projected_quantiles
from dkdist.distances._tuning import MIN_DIRECTIONS
from dkdist.sets import SampleSets


def quantile_potentials(lines: F64, fractions: F64, at: F64, gradient: F64) -> F64:
    """Return potentials (q, k), summed over L directions, at projections ``at`` (q, L), for ``lines`` (n, L).

    ``lines`` are projections of the points, ``fractions`` (n,) their weights, and ``gradient`` (L, Q, k) the
    derivatives with respect to the quantiles of each direction.
    """
    edges = _cell_edges(gradient.shape[1])
    widths = np.diff(edges)[:, None]
    result = np.zeros((len(at), gradient.shape[2]))
    for line, queries, g in zip(lines.T, at.T, gradient, strict=True):
        order = np.argsort(line, kind="stable")
        knots = line[order][_quantile_positions(fractions[order].cumsum(), edges)]
        increments = g / widths * np.diff(knots)[:, None]
        potentials = np.concatenate([np.zeros((1, g.shape[1])), increments.cumsum(axis=0)])
        for k in range(g.shape[1]):
            result[:, k] += np.interp(queries, knots, potentials[:, k])
    return result


def _cell_edges(n_quantiles: int) -> F64:
    """Return the levels between cells, (Q + 1,)."""
    edges = np.arange(n_quantiles + 1.0)
    edges[0], edges[-1] = 0.25, n_quantiles - 0.25
    return edges / n_quantiles


def _quantile_positions(cumulated: F64, levels: F64) -> I64:
    """Return, for each level, the first position whose cumulative weight reaches it."""
    return np.minimum(np.searchsorted(cumulated, levels * (1 - 1e-12)), len(cumulated) - 1)


@serializable("SlicedWassersteinSpec")
@dataclass(frozen=True)
class SlicedWassersteinSpec(Params["SlicedWassersteinParameters"]):
    """Parameters of a sliced Wasserstein embedding; projections are relative to ``centre``."""

    centre: tuple[float, ...]
    n_directions: int
    n_quantiles: int
    seed: int

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return len(self.centre)

    @property
    def domain(self) -> None:
        """None: the domain is unbounded."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return self.n_directions * self.n_quantiles

    def _build(self) -> SlicedWassersteinParameters:
        return SlicedWassersteinParameters(self)


class SlicedWassersteinParameters(FittedParams[SlicedWassersteinSpec]):
    """Directions of a `SlicedWassersteinSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: SlicedWassersteinSpec) -> None:
        self.spec = spec
        self._centre = np.array(spec.centre)
        self.directions = random_directions(spec.n_dims, spec.n_directions, spec.seed)

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the embedding: (n_sets, m) float32."""
        spec = self.spec
        return projected_quantiles(
            sets.relative, sets.offsets, sets.weights, self._centre, self.directions, spec.n_quantiles
        )

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d), up to a constant per column (`quantile_potentials`)."""
        L, Q = len(self.directions), self.spec.n_quantiles
        lines, queries = ((points - self._centre) @ self.directions.T for points in (one.relative, at))
        return quantile_potentials(
            lines, weight_fractions(one), queries, gradient.reshape(L, Q, -1) / np.sqrt(L * Q)
        )


def random_directions(n_dims: int, n_directions: int, seed: int) -> F64:
    """Return unit vectors (L, d), uniform on the sphere, in groups of d orthogonal vectors; (1, 1) for d = 1.

    Means over orthogonal directions have smaller errors than means over independent directions.
    """
    if n_dims == 1:
        return np.ones((1, 1))
    rng = np.random.default_rng([seed, RngStream.SLICED_EMBEDDING])
    frames = rng.standard_normal((-(-n_directions // n_dims), n_dims, n_dims))
    Q, R = np.linalg.qr(frames)
    signs = np.sign(np.diagonal(R, axis1=1, axis2=2))  # makes Q uniform on the orthogonal group
    columns = (Q * signs[:, None, :]).transpose(0, 2, 1).reshape(-1, n_dims)
    return np.ascontiguousarray(columns[:n_directions])


class SlicedWassersteinEmbedding(SetEmbedding):
    """Embed sample sets so that squared distances between rows are squared sliced Wasserstein distances SW2^2.

    A row holds quantiles of the points' projections on random directions. It needs no domain and no bandwidth, depends
    on the joint distribution in any dimension, and is robust to a few outliers.

    Parameters
    ----------
    n_directions : int or "auto", default="auto"
        Random directions L, in orthogonal groups of d. "auto": max(64, 2 d), since fewer than d directions do not span
        the space. One dimension always has one direction.
    n_quantiles : int, default=16
        Quantiles Q of each projection, at (q + 1/2) / Q. A fraction 1 / (2 Q) of the points at either end has no
        influence. Quantiles are exact for sets whose sizes divide Q.
    random_state : int, Generator or None, default=None
        Seed of the directions.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set (damaged or missing chunk, invalid weights): "raise" raises an error that names the
        first one; "skip" skips it in `fit` and gives it a row of NaN in `transform`, with a warning.

    Attributes
    ----------
    spec_ : SlicedWassersteinSpec
        Fitted parameters.
    directions_ : (L, d) float64 array
        Unit vectors of the projections.
    n_features_in_ : int
        The dimension d of the points.
    origin_ : (d,) float64 array
        Origin of the points of `fit` and of ``spec_`` (see `SampleSets`).
    skipped_ : (n_skipped,) int64 array
        Sorted positions of the sets that `fit` skipped; empty with on_error="raise".

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, another number of dimensions, negative weights, or if no valid set
        remains. The message names the set.
    StoreFormatError
        For a set that cannot be read. The message names the set.
    ValueError
        If n_directions or n_quantiles is not an integer >= 1.

    Notes
    -----
    ``row[l Q + q] = F_l^-1((q + 1/2) / Q) / sqrt(L Q)`` in the units of the points, relative to the mean of a sample of
    sets. The mean over directions estimates that over the sphere, with an error proportional to L^(-1/2) or smaller;
    the mean over quantiles is the midpoint rule. `LazySets` give a lazy dask array with known chunks; any other
    input an ndarray. Rows are float32. A row depends only on its set, and is bitwise identical on CPUs of one type.
    Cost: about L n (d + log2(n)^2 / 4) steps for a set of n points, for 16 directions at a time; with weights,
    L n (d + log2 n), one at a time.

    References
    ----------
    Bonneel, Rabin, Peyre and Pfister (2015), Sliced and Radon Wasserstein barycenters of measures.

    Kolouri, Zou and Rohde (2016), Sliced Wasserstein kernels for probability distributions.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.standard_t(2, (500, 2)) + i % 2 for i in range(10)]
    >>> A = dk.SlicedWassersteinEmbedding(random_state=0).fit_transform(sets)
    >>> A.shape, A.dtype
    ((10, 1024), dtype('float32'))
    >>> d2 = ((A[:, None] - A) ** 2).sum(axis=-1)  # shifts by (1, 1) have SW2^2 = 1, up to sampling
    >>> bool(d2[0, 1::2].min() > d2[0, 2::2].max())
    True
    """

    _label = "sliced_wasserstein_embedding"
    spec_: SlicedWassersteinSpec

    def __init__(
        self,
        n_directions: int | str = "auto",
        n_quantiles: int = 16,
        random_state: RandomStateLike = None,
        on_error: str = "raise",
    ) -> None:
        self.n_directions = n_directions
        self.n_quantiles = n_quantiles
        self.random_state = random_state
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> SlicedWassersteinEmbedding:
        """Choose the centre from the sets X and draw the directions, in one pass over the data. ``y`` is not used."""
        n_directions, Q = self.n_directions, check_int("n_quantiles", self.n_quantiles)
        is_auto = (
            isinstance(n_directions, str) and check_choice("n_directions", n_directions, ("auto",)) == "auto"
        )
        L = 0 if is_auto else check_int("n_directions", n_directions)
        sets, seed = check_sets(X), draw_seed(self.random_state)
        summary = self._summarize_fit_sets(sets, None)
        mean, variance, _ = sample_moments(sets, summary.bad)
        mean_point, spread = mean.mean(axis=0), np.sqrt(variance.mean(axis=0))
        units = np.array([round_to_float32(s) if s > 0 else 1.0 for s in spread])
        centre = np.round(mean_point / units, 3) * units  # rounded to a few significant digits
        d = sets.n_dims
        count = 1 if d == 1 else L or max(MIN_DIRECTIONS, 2 * d)
        self.spec_ = SlicedWassersteinSpec(tuple(centre.tolist()), count, Q, seed)
        return self

    @property
    def directions_(self) -> F64:
        """Unit vectors of the projections, (L, d)."""
        directions: F64 = self.spec_.materialize().directions.copy()
        return directions
