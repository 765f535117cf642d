"""`DivergenceEmbedding`: rows whose squared distances are divergences between the densities of sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import check_fitted_sets
from dkdist._base.inputs import SetsLike, check_sets, map_set_blocks
from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_int, draw_seed
from dkdist._numba.arrays import F64
from dkdist.embeddings._tuning import DEFAULT_UNIFORM_NODES, RESOLVED_BANDWIDTH_PER_SPACING
from dkdist.embeddings.density_choices import (
    StructuredEmbedding,
    density_kind,
    divergence_bandwidths,
    flatten_bandwidths,
    index_order,
    is_resolved,
    public_bandwidth,
    requested_pair_nodes,
    resolve_bandwidth,
    resolve_frequencies,
    resolve_structure,
    warn_unresolved_bandwidth,
)
from dkdist.embeddings.divergence_params import DivergenceSpec, UniformNodesSpec
from dkdist.embeddings.divergences import divergence, normalization
from dkdist.embeddings.grid_densities import require_grid_size
from dkdist.embeddings.noise import row_noise
from dkdist.embeddings.structure import ColumnSubset, FeatureUnionParams, feature_blocks
from dkdist.sets import SampleSets


class DivergenceEmbedding(StructuredEmbedding):
    """Embed sets so that squared distances between rows are divergences of distributions.

    The density p of each set is estimated on the domain scaled to [0, 1]^d (Gaussian kernels, reflected at the
    boundary) and evaluated at quadrature nodes x_k. A row holds sqrt(v_k w_j) p(x_k)^(1/2 + i l_j), so that

        |row_p - row_q|^2 ~ d^2(p, q) = int kappa(p(x), q(x)) dx.

    Parameters
    ----------
    divergence : {"hellinger", "jensen-shannon", "total-variation", "chi2"} or callable, default="hellinger"
        kappa(x, y): Hellinger (sqrt x - sqrt y)^2 / 2; Jensen-Shannon in nats; total variation |x - y|;
        chi2 (Le Cam) (x - y)^2 / (x + y); "js" and "tv" for short; or a vectorised, symmetric function that is
        homogeneous of degree one.
    n_basis : int or "auto", default="auto"
        Cosine basis functions per dimension, which is also the number of midpoint nodes. Total variation of
        one-dimensional densities uses twice as many nodes. "auto" uses 1 / (2 h) for the smallest bandwidth h, so that
        the integration error of d^2 is about 1 %. It is at least 4, and limited to 1,331 nodes per set (36 in each of
        two dimensions, 11 in each of three) but not below 10 per dimension; ``resolved_`` states whether that suffices.
        From four joint dimensions on it is the largest number with at most 1,331 columns per density and 65,536 nodes:
        6, 4 and 3 for d = 4, 5 and 6, or 8, 6 and 5 with index_set=("sobolev", 1). A number passed as n_basis is at
        most 16, 9 and 6.
    n_frequencies : int or "auto", default="auto"
        Number of frequencies l_j; "auto" uses the smallest number with an error of 0.1 % (1 % for "stratified").
        Hellinger needs one, which is zero.
    frequencies : {"auto", "fitted", "stratified", "gauss", "random"}, default="auto"
        Rule for frequencies and weights: least squares over density ratios, equal-mass strata of the spectral measure,
        Gauss quadrature, or independent draws as in the paper. "auto" is "fitted".
    bandwidth : float, (d,) sequence, (k, 1) or (k, d) nested sequence, or "auto" or "scott", default="auto"
        Standard deviation of the Gaussian on the *scaled* domain, one for all dimensions or one for each.
        A nested sequence such as ``[[0.05], [0.1], [0.2]]`` concatenates k scales: squared distances are the mean of
        the divergences at each scale. The points are read once; there are k times as many nodes and columns.
        "auto" is least-squares cross-validation on a sample of the sets, one number per dimension, from 0.25 down to
        the resolution of the nodes (0.3 / n_basis; for d >= 4 joint dimensions 0.75 / n_basis, at least 0.099, 0.147 or
        0.19 for d = 4, 5 or 6). It is the best bandwidth for the density, so d^2 converges to the true divergence as
        sets grow. The best bandwidth for a learner is often larger: choose it by validation. "scott" is Scott's rule
        for the median set; with a given n_basis it is at least 0.8 / n_basis (0.75 for d >= 4 joint dimensions).
    domain : {"robust", "data", "unit"} or (low, high), default="robust"
        Box that is scaled to the unit cube: "robust" covers the bulk of the points seen in `fit` (all points if tails
        are light), "data" all of them, "unit" is [0, 1]^d, and (low, high) are numbers or one number per dimension.
        Points outside a box chosen from data are clipped, so a few outliers change nothing else. A warning reports any
        points outside "data". For "robust", it reports fractions above 5 % or three times the fraction in `fit`. Lazy
        arrays warn once per block.
    structure : {"auto", "joint", "marginal", "pairs"} or list, default="auto"
        "joint": the density of all dimensions on a tensor grid (d <= 6; from d = 4 on the integration error is up to
        1 % with n_basis >= 4 nodes per dimension and 2 % with 3). "marginal": one density per dimension; rows are
        concatenated and divergences added, and dependence between dimensions is ignored (as in the baseline D3 of the
        paper, which has one Gaussian per dimension). "pairs": one density per dimension and one for each pair whose
        dependence differs between the sets of `fit`; the divergences of m pairs have the weight d / m, so that all
        pairs weigh as much as all d dimensions. A list gives pairs or groups of three, such as ``[(0, 1), (2, 5)]``;
        with single dimensions, such as ``[0, 3, (1, 2)]``, only these are included as singles. "auto" is "joint" for d
        <= 3, otherwise "pairs" ("marginal" above 512 dimensions).
    random_state : int, Generator or None, default=None
        Seed of frequencies="random" and nodes="uniform"; everything else is deterministic.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of invalid sets: those in a damaged or lost chunk of a store, with invalid weights, or with points
        outside a given domain. "raise" raises an error that names the first one. "skip" omits them in `fit` and gives
        them rows of NaN in `transform`, with one warning for each call; other rows do not change. Workers of a cluster
        that compute a lazy array do not warn: the rows of NaN identify the sets.
        Errors that affect the whole collection always raise, such as a store that was replaced or cannot be reached.
    index_set : {"nodes", "tensor", "total-degree"} or ("sobolev", s), default="nodes"
        Columns are values at the nodes, or their projections on products of cosines of degrees a: all
        a_j < n_basis ("tensor": a rotation of the values at the nodes, with the same distances); a_1 + .. + a_d <
        n_basis; or sum_j a_j^(2s) <= (n_basis - 1)^(2s). The smaller sets have shorter rows (d = 2: about a half, d =
        3: a fifth to a half) and omit products that vary fast in several dimensions, so distances are too small. In
        d >= 4 joint dimensions with the default n_basis and the smallest bandwidth, ("sobolev", 1) omits up to 0.4 % of
        d^2 for Hellinger, 2.3 % for Jensen-Shannon, 7 % for chi2 and 35 % for total variation, whose features
        oscillate; "total-degree" up to 2, 7, 14 and 44 %. Marginal densities have a single index set.
    nodes : {"midpoint", "uniform"}, default="midpoint"
        "uniform": random nodes from the seed, as in the paper (its Eq. 10). With an index set, columns are its
        Monte Carlo coefficients, unbiased means of n_nodes values, whose noise makes squared distances too large
        (`hdd_error_bound(n_nodes=)`); with "nodes", values at the nodes. This is the published recipe, for comparison;
        midpoints are much more accurate.
    n_nodes : int or "auto", default="auto"
        Number of nodes for nodes="uniform"; "auto" is 4,000. Midpoints are n_basis in each dimension.
    outside : {"raise", "clip"}, default="raise"
        Treatment of points outside "unit" or a given box: an error that names the set, or clipping.
    normalized : bool, default=False
        For "total-variation": d^2 is the integral of |p - q| / 2 (0 to 1) instead of |p - q| (0 to 2). With several
        densities per set ("marginal", "pairs"), this holds for each of them. It must be False for other divergences.

    Attributes
    ----------
    spec_ : DivergenceSpec
        Fitted parameters: domain, bandwidth, nodes, frequencies and their weights.
    bandwidth_ : (d,) array, or (k, d) for several scales
        Bandwidth on the scaled domain. With pairs, the bandwidth of the single dimensions; ``spec_.parts`` has the
        bandwidths of pairs.
    n_basis_ : int
        Number of basis functions, or nodes, per dimension; with pairs, per single dimension.
    structure_ : str
        "joint", "marginal", or "pairs" if rows include pairs.
    pairs_ : tuple of tuples of int
        Pairs or groups in the rows; selected pairs in order of significance.
    n_pairs_found_ : int
        Number of significant pairs. It exceeds ``len(pairs_)`` if all pairs would have more than 8,192 nodes: 81 pairs
        at 10 nodes per dimension, 327 at 5.
    resolved_ : bool
        Whether the integration error of d^2 at the smallest bandwidth is about 1 % or less: h >= 1 / (2 n_basis_). For
        d >= 4 joint dimensions, 2 % or less: h >= 0.75 / n_basis_ and n_basis_ >= 3. It does not account for functions
        that an index set omits.
    n_features_in_ : int
        Dimension d of the points.
    origin_ : (d,) float64 array
        Origin of the sets of `fit` (see `SampleSets`), to which ``spec_`` is relative.
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` skipped, sorted; empty with on_error="raise".
    outside_share_ : float
        Fraction of the points of `fit` outside the domain, from a sample of up to 65,536 points.

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, different numbers of dimensions, negative weights, or points outside a
        given domain (the message names the set); or if no valid set remains.
    StoreFormatError
        For a set that cannot be read; the message names it.
    ValueError
        For an unknown divergence, rule or structure, a kappa whose spectral measure is negative, or normalized=True
        for a divergence other than total variation.

    Notes
    -----
    `LazySets` give a lazy dask array with known chunks; anything else an ndarray. Rows are float32. A row depends
    only on its set, and is bitwise identical on processors of one type. `fit` reads the data once (bounds and checks);
    "auto" reads up to 64 sets, about two million coordinates, a second time. In d = 2 with 10 nodes per dimension, a
    set of 200 points takes about 3 us on one core, plus half of that for the row. Sets above 8,192 points use a grid,
    at about 10 ns per point. Several bandwidths take 4 us once and 2 us each. A row has n_basis^d nodes times
    twice the number of frequencies (once for Hellinger). For d = 4, 5 and 6 joint dimensions, the row of 200 points
    takes 40 to 50 us with default nodes, 0.1 to 0.8 ms with index_set=("sobolev", 1) and 0.4 to 4 ms with
    "total-degree", whose grids are finer, in proportion to n_basis^d.

    From four joint dimensions on, smoothing is the largest error. For 2,000 points from products of truncated Gaussians
    in d = 4, 5 and 6, d^2 of Hellinger is about 27, 46 and 67 % below the divergence of the distributions with default
    options, and 16, 33 and 50 % below with index_set=("sobolev", 1), which has smaller bandwidths and as many columns.

    Pairs are selected by cutting each set into two halves. Means of nine products of cosines of ranks, which do not
    depend on marginals, describe the dependence of a pair of dimensions within a half. A pair is selected if these
    means are correlated between the two halves over sets, by a t-test with a false discovery rate of 1 %
    (Benjamini-Hochberg). Pairs with equal dependence in all sets are not selected, because they add no differences
    beyond those of the marginals. The test needs at least four sets of 8 points and uses up to 1,024 sets and four
    million coordinates: 0.03 s for 200 sets of 60 points in d = 6, some seconds for d = 128. Each pair costs as much as
    a two-dimensional embedding.

    on_error="skip" costs nothing without invalid sets. Blocks with invalid sets are read again in eighths, recursively,
    which takes about 5 ms per skipped set in every pass. To avoid this cost, continue with the valid sets:
    ``sets[np.setdiff1d(np.arange(len(sets)), embedding.skipped_)]``.

    d^2 between two samples of one distribution is positive; `noise` estimates its mean. Hellinger with default
    parameters gives about 0.03, 0.07 and 0.15 for 20 points in d = 1, 2 and 3, proportional to 1 / n. Rows therefore
    depend on the size of the set: compare sets of similar size, or subsample them.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel
    embeddings (2016); dkdist corrects the weights in its Table 1. Benjamini, Hochberg: Controlling the false
    discovery rate (1995).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.beta(1 + i % 3, 2, size=(50, 1)) for i in range(12)]
    >>> A = dk.DivergenceEmbedding("jensen-shannon", domain="unit").fit_transform(sets)
    >>> A.shape[0], A.dtype
    (12, dtype('float32'))
    >>> d2 = ((A[0] - A[1:3]) ** 2).sum(axis=1)  # Jensen-Shannon divergences in nats, below ln 2
    >>> bool((d2 > 0).all() and (d2 < np.log(2)).all())
    True

    Two classes with equal marginals, in which the correlation of dimensions 1 and 3 differs:

    >>> sets = [rng.multivariate_normal(np.zeros(4), np.eye(4), 50) for i in range(40)]
    >>> for x in sets[::2]:
    ...     x[:, 3] = x[:, 1] + x[:, 3] / 2
    >>> dk.DivergenceEmbedding(bandwidth=0.1).fit(sets).pairs_
    ((1, 3),)
    """

    _label = "divergence_embedding"
    spec_: DivergenceSpec | FeatureUnionParams

    def __init__(
        self,
        divergence: str | Callable[[Any, Any], Any] = "hellinger",
        n_basis: int | str = "auto",
        n_frequencies: int | str = "auto",
        frequencies: str = "auto",
        bandwidth: float | Sequence[float] | Sequence[Sequence[float]] | str = "auto",
        domain: str | tuple[ArrayLike, ArrayLike] = "robust",
        structure: str = "auto",
        random_state: RandomStateLike = None,
        on_error: str = "raise",
        index_set: str | tuple[str, float] = "nodes",
        nodes: str = "midpoint",
        n_nodes: int | str = "auto",
        outside: str = "raise",
        normalized: bool = False,
    ) -> None:
        self.divergence = divergence
        self.n_basis = n_basis
        self.n_frequencies = n_frequencies
        self.frequencies = frequencies
        self.bandwidth = bandwidth
        self.domain = domain
        self.structure = structure
        self.random_state = random_state
        self.on_error = on_error
        self.index_set = index_set
        self.nodes = nodes
        self.n_nodes = n_nodes
        self.outside = outside
        self.normalized = normalized

    def fit(self, X: SetsLike, y: Any = None) -> DivergenceEmbedding:
        """Choose domain, bandwidth and frequencies from the sets X in one pass. ``y`` is ignored."""
        kappa = divergence(self.divergence)
        factor = normalization(self.divergence, self.normalized)
        lam, w = resolve_frequencies(kappa, self.frequencies, self.n_frequencies, self.random_state)
        w = tuple(factor * mass for mass in w)
        sets = check_sets(X)
        d = sets.n_dims
        bandwidth = resolve_bandwidth(self.bandwidth, self.n_basis, d, zero=False)
        structure = resolve_structure(self.structure, d)
        kind = density_kind(structure.kind, d)
        order = index_order(self.index_set, {"nodes": 0.0})
        n_uniform = self._n_uniform()
        if kind == "ball" and bandwidth.n_basis is not None:
            require_grid_size(d, bandwidth.n_basis)
        nodes_per_function = partial(_nodes_per_function, kappa.smooth or n_uniform > 0)
        seed = draw_seed(self.random_state) if n_uniform else 0

        def make(columns: ColumnSubset) -> DivergenceSpec:
            h, n_basis = divergence_bandwidths(bandwidth, columns, order)
            n_nodes = nodes_per_function(columns.kind, len(columns.dims)) * n_basis
            density = "grid" if columns.kind == "ball" and not n_uniform else columns.kind
            common = (columns.domain, flatten_bandwidths(h), density, n_nodes, lam, w, order)
            return UniformNodesSpec(*common, n_uniform, seed) if n_uniform else DivergenceSpec(*common)

        n_pair_nodes = n_uniform or requested_pair_nodes(bandwidth, RESOLVED_BANDWIDTH_PER_SPACING)
        specs: list[DivergenceSpec] = self._fit_structure(structure, sets, kind, make, n_pair_nodes)
        resolutions = [
            (min(s.bandwidth), s.structure, s.n_dims, s.n_basis // nodes_per_function(s.structure, s.n_dims))
            for s in specs
        ]
        self.bandwidth_, self.n_basis_ = public_bandwidth(np.array(specs[0].scales)), resolutions[0][3]
        self.resolved_ = all(is_resolved(*resolution) for resolution in resolutions)
        if not n_uniform and not isinstance(self.bandwidth, str):
            warn_unresolved_bandwidth(*min(resolutions, key=lambda r: r[0] * r[3]))
        return self

    def noise(self, X: Any) -> F64:
        """Estimate the noise (n_sets,) of rows: the expected squared distance of a row from its limit.

        The limit is the row of infinitely many points of the same distribution at this bandwidth. For two independent
        samples, the mean of d^2 is d^2 of the limits plus the noise of each sample. So d^2 of small sets is mostly
        noise and depends on their sizes. ``D2 - noise[:, None] - noise`` removes the noise off the diagonal; entries
        are negative if two sets differ less than two samples of one distribution do on average.

        The estimate is a first-order (delta method) variance from the points of the set. Its error is a few percent
        if there are several points within every bandwidth (for a uniform density the next term is 7/16 Var p / p^2).
        For sparser sets it is too small. For index sets it is the noise of the values at the nodes, an upper bound of
        the noise of their projection. It is NaN for sets of one point. Cost: n n_basis^d products for a set of n
        points.
        """
        check_is_fitted(self)
        spec = self.spec_
        if isinstance(feature_blocks(spec)[0].spec, UniformNodesSpec):
            raise ValueError(
                "noise requires nodes='midpoint'; got nodes='uniform', whose integration error is unknown. Fit with "
                "nodes='midpoint'."
            )
        sets = check_fitted_sets(self, X)
        return np.concatenate(map_set_blocks(partial(_block_noise, spec), sets, "noise"))

    def _n_uniform(self) -> int:
        """Return the number of random nodes; 0 for midpoints."""
        is_uniform = check_choice("nodes", self.nodes, ("midpoint", "uniform")) == "uniform"
        if isinstance(self.n_nodes, str):
            check_choice("n_nodes", self.n_nodes, ("auto",))
            return DEFAULT_UNIFORM_NODES if is_uniform else 0
        if not is_uniform:
            raise ValueError(
                f"n_nodes must be 'auto' for nodes='midpoint', which uses n_basis nodes per dimension; got "
                f"{self.n_nodes!r}. Pass n_basis or nodes='uniform'."
            )
        return check_int("n_nodes", self.n_nodes)


def _nodes_per_function(is_smooth: bool, kind: str, d: int) -> int:
    # A kink of kappa causes errors at single nodes; one dimension has too few nodes to average them out.
    return 1 if is_smooth or (kind != "marginal" and d > 1) else 2


def _block_noise(spec: DivergenceSpec | FeatureUnionParams, sets: SampleSets, first: int) -> F64:
    parts = [part.weight * row_noise(part.spec, part.select(sets)) for part in feature_blocks(spec)]
    return np.asarray(sum(parts))
