"""`DivergenceEmbedding`: sample sets to rows whose squared distances are divergences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import known_sets
from dkdist._base.inputs import check_sets, map_set_blocks
from dkdist._base.parameter_checks import draw_seed, one_of, whole
from dkdist._numba.arrays import F64
from dkdist.embeddings.density_choices import (
    RESOLVED,
    StructuredEmbedding,
    asked_structure,
    chosen_frequencies,
    density_kind,
    flatten_bandwidths,
    index_order,
    is_resolved,
    nodes_of_pair,
    of_divergence,
    public_bandwidth,
    resolve_bandwidth,
    warn_if_fine,
)
from dkdist.embeddings.divergence_params import DivergenceSpec, UniformNodesSpec
from dkdist.embeddings.divergences import divergence
from dkdist.embeddings.noise import row_noise
from dkdist.embeddings.structure import Columns, FeatureUnionParams, parts_of
from dkdist.sets import SampleSets

UNIFORM_NODES = 4000


class DivergenceEmbedding(StructuredEmbedding):
    """Embed sample sets so that squared Euclidean distances between rows are divergences between distributions.

    Each set's density is estimated on the domain scaled to [0, 1]^d (Gaussian kernels, reflected at the
    walls) and evaluated at quadrature nodes x_k; a row holds sqrt(v_k w_j) p(x_k)^(1/2 + i l_j), so that

        |row_p - row_q|^2 ~ d^2(p, q) = int kappa(p(x), q(x)) dx.

    Parameters
    ----------
    divergence : {"hellinger", "jensen-shannon", "total-variation", "chi2"} or callable, default="hellinger"
        kappa(x, y): Hellinger (sqrt x - sqrt y)^2 / 2; Jensen-Shannon in nats; total variation |x - y|;
        chi2 (Le Cam) (x - y)^2 / (x + y); or a vectorised, symmetric function that is homogeneous of degree
        one.
    n_basis : int or "auto", default="auto"
        Cosine basis functions (equally, midpoint nodes) per dimension; twice as many where total variation is
        taken of one-dimensional densities. From four joint dimensions on, the power of two nearest to
        n_basis^3 lattice nodes. "auto" takes as many as the finest bandwidth needs, 1 / (2 h): then d^2 is integrated
        to about a percent. It takes at least 4 and stops at 1,331 nodes a set (36 in each of two dimensions, 11 in each
        of three), but never below 10 a dimension; ``resolved_`` tells whether that was enough. Of four joint dimensions
        and more: 10.
    n_frequencies : int or "auto", default="auto"
        Number of frequencies l_j; "auto" takes the fewest that reach 0.1 % (1 % for stratified ones).
        Hellinger needs one, and it is zero.
    frequencies : {"auto", "fitted", "stratified", "gauss", "random"}, default="auto"
        Where the frequencies and their weights come from: least squares over density ratios, equal-mass
        strata of the spectral measure, Gauss quadrature, or independent draws as in the paper. "auto" is
        "fitted".
    bandwidth : float, (d,) sequence, (k, 1) or (k, d) nested sequence, or "auto" or "scott", default="auto"
        Standard deviation of the Gaussian on the *scaled* domain, one for all dimensions or one for each.
        Nested, as in ``[[0.05], [0.1], [0.2]]``: k scales side by side, so that squared distances are the mean of
        the divergences at each; the points are read once, nodes and columns are k times as many.
        "auto" is least-squares cross-validation on a sample of the sets, one number for each dimension, from .25
        down to what the nodes can see (0.3 / n_basis; about n_basis^(-3/d) for the lattice of d >= 4 joint
        dimensions): the density's best bandwidth, so that d^2 tends to the true divergence as sets grow. The
        best for a learner is another, often larger: choose it by validation. "scott" is Scott's rule for the typical
        set, with a given n_basis never below 0.8 / n_basis.
    domain : {"robust", "data", "unit"} or (low, high), default="robust"
        The box that is scaled to the unit cube: where the body of the points seen in `fit` lies (all of them if they
        have light tails), the bounds of them all, [0, 1]^d, or the given one (numbers or one per dimension). In a
        box that was chosen from data, points outside count at the wall: a few far away change nothing else. A
        warning counts them if any lie outside "data", or more outside "robust" than is ordinary (a twentieth, or
        three times the share of `fit`); of a lazy array one for each block.
    structure : {"auto", "joint", "marginal", "pairs"} or list, default="auto"
        "joint": densities of all dimensions together (d <= 6; a tensor grid up to d = 3, then up to 4,096 cosine
        products at lattice nodes, whose integral is good to some 3 %). "marginal": of each dimension alone, rows side
        by side, divergences added; what dimensions tell together is not seen. "pairs": of each dimension alone, and
        of the pairs whose dependence differs between the sets of `fit`, side by side; the divergences of the m pairs
        count d / m times, so that they together weigh as much as those of the d dimensions together. A list names
        pairs, or groups of three, itself: ``[(0, 1), (2, 5)]``; with single dimensions, ``[0, 3, (1, 2)]``, these alone
        stand beside the groups. "auto" is joint for d <= 3 and "pairs" from there on (marginal above 512 dimensions).
    random_state : int, Generator or None, default=None
        Seed of frequencies="random" and nodes="uniform"; nothing else is random.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set: one that lies in a damaged or lost chunk of its store, has weights that are
        no measure, or has points outside a given domain. "raise" stops at the first one and names its position.
        "skip" leaves bad sets out of `fit` and makes them rows of NaN in `transform` (with one warning, or for
        a lazy array one for each block); the rows of all others are the same, bit for bit. What is wrong with
        the whole collection raises in any case: a store that was replaced, is gone or cannot be reached.
    index_set : {"nodes", "tensor", "total-degree"} or ("sobolev", s), default="nodes"
        Columns are values at the nodes, or their projections on products of cosines with degrees a: all
        a_j < n_basis ("tensor": the nodes' values but for a rotation, so the same distances); a_1 + .. + a_d < n_basis;
        or sum_j a_j^(2s) <= (n_basis - 1)^(2s). The smaller sets have shorter rows (d = 2: about a half, d = 3: a
        fifth or half) and leave out what varies fastest in several dimensions at once, so distances are a little
        too short. For up to three joint dimensions; those taken alone have one index set.
    nodes : {"midpoint", "uniform"}, default="midpoint"
        "uniform": random nodes, drawn from the seed, as in the paper (its Eq. 10). With an index set, columns are its
        Monte Carlo coefficients, means of n_nodes values, unbiased, whose noise makes squared distances too long
        (`hdd_error_bound(n_nodes=)`); with "nodes", values at the nodes. The published recipe, to compare with: it is
        much less exact than midpoints.
    n_nodes : int or "auto", default="auto"
        For nodes="uniform": how many, "auto" 4,000. Midpoints are n_basis in each dimension.
    outside : {"raise", "clip"}, default="raise"
        What becomes of points outside "unit" or a given box: the set is refused by name, or they count at the wall.

    Attributes
    ----------
    spec_ : DivergenceSpec
        What was chosen, in plain numbers: domain, bandwidth, nodes, frequencies and their weights.
    bandwidth_ : (d,) array, or (k, d) for several scales
        The bandwidth in use, on the scaled domain.
    n_basis_ : int
        The basis functions, or nodes, per dimension in use; of dimensions alone, where pairs stand beside them, and so
        is ``bandwidth_``: those of pairs are in ``spec_.parts``.
    structure_ : str
        "joint", "marginal", or "pairs" where pairs stand side by side with single dimensions.
    pairs_ : tuple of tuples of int
        The pairs in use, or the groups that were named; those that were found, most telling first.
    n_pairs_found_ : int
        How many pairs were found. More than there are in ``pairs_`` where all would have more than 8,192 nodes
        together: 81 pairs at 10 nodes a dimension, 327 at 5.
    resolved_ : bool
        Whether these nodes integrate d^2 at the finest bandwidth in use to about a percent: h >= 1 / (2 n_basis_).
    n_features_in_ : int
        The dimension d of the points.
    origin_ : (d,) float64 array
        What points are counted from, that of the sets of `fit` (see `SampleSets`): so are those of ``spec_``.
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` left out, sorted; empty with on_error="raise".
    outside_share_ : float
        The share of the points of `fit` that lie outside the domain, of 65,536 points drawn from more.

    Raises
    ------
    SampleSetError
        Naming the set: empty sets, NaN or infinite points, different numbers of dimensions, negative
        weights, points outside a given domain; or if no set is left.
    StoreFormatError
        Naming the set that cannot be read.
    ValueError
        For an unknown divergence, rule or structure (with the list of those there are), or a kappa whose
        spectral measure is negative.

    Notes
    -----
    A `SetStore` gives a lazy dask array with known chunks; anything else an ndarray. Rows are float32, and a set's
    row depends on that set alone, bit for bit on processors of one kind. `fit` reads the data once (the bounds, and
    every check), and up to 64 sets of about two million coordinates again for "auto". Cost of a set of n points in
    d = 2: about 3 us per 200 points on one core at 10 nodes a dimension, and half of that for the row; above 8,192
    points through a grid, at about 10 ns a point. Several bandwidths take 4 us once and 2 us each. A row has n_basis^d
    nodes times twice the number of frequencies (once for Hellinger).
    Pairs are looked for where each set is cut into two halves: of ranks within a half, which know no marginals, the
    means of nine products of cosines say how a pair of dimensions depends on each other, and where both halves of sets
    agree on what is theirs alone, by a t-test over sets, the pair is found; among all that are, one in a hundred is by
    chance (Benjamini-Hochberg). Dependence that all sets have alike is none: marginals tell all then. It takes four
    sets of 8 points at least, and looks at up to 1,024 sets and four million coordinates: .03 s for 200 sets of 60
    points in d = 6, some seconds for d = 128. Each pair costs what an embedding in the plane costs.

    on_error="skip" costs nothing until a set is bad; then its block is read again in eighths, and theirs, which
    takes about 5 ms for each set that is skipped, in every pass. To be spared that, go on with the others:
    ``sets[np.setdiff1d(np.arange(len(sets)), embedding.skipped_)]``.

    d^2 between two samples of one distribution is not 0: `noise` says what to expect. Hellinger at the defaults: some
    .03, .07, .15 for 20 points in d = 1, 2, 3, falling as 1 / n. So a row tells the size of its set: compare sets of
    like size, or thin them to one.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel
    embeddings (2016); the weights of its Table 1 are corrected here. Benjamini, Hochberg: Controlling the false
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

    Two classes of equal marginals: of the dimensions 1 and 3 the correlation differs.

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
        random_state: Any = None,
        on_error: str = "raise",
        index_set: str | tuple[str, float] = "nodes",
        nodes: str = "midpoint",
        n_nodes: int | str = "auto",
        outside: str = "raise",
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

    def fit(self, X: Any, y: Any = None) -> DivergenceEmbedding:
        """Choose domain, bandwidth and frequencies from the sets X; one pass over the data. ``y`` is not used."""
        kappa = divergence(self.divergence)
        lam, w = chosen_frequencies(kappa, self.frequencies, self.n_frequencies, self.random_state)
        sets = check_sets(X)
        d = sets.n_dims
        wanted = resolve_bandwidth(self.bandwidth, self.n_basis, d, zero=False)
        structure = asked_structure(self.structure, d)
        kind = density_kind(structure.kind, d)
        order = index_order(self.index_set, {"nodes": 0.0})
        n_uniform = self._n_uniform()
        if order and kind == "ball":
            raise ValueError(
                f"index_set={self.index_set!r} needs a tensor grid of nodes, which {d} joint dimensions do not have: "
                "use index_set='nodes', or structure='marginal'"
            )
        fold = partial(_fold, kappa.smooth or n_uniform > 0)
        seed = draw_seed(self.random_state) if n_uniform else 0

        def make(some: Columns) -> DivergenceSpec:
            h, n_basis = of_divergence(wanted, some)
            n_nodes = fold(some.kind, len(some.dims)) * n_basis
            common = (some.domain, flatten_bandwidths(h), some.kind, n_nodes, lam, w, order)
            return UniformNodesSpec(*common, n_uniform, seed) if n_uniform else DivergenceSpec(*common)

        nodes = n_uniform or nodes_of_pair(wanted, RESOLVED)
        specs: list[DivergenceSpec] = self._arrange(structure, sets, kind, make, nodes)
        each = [
            (min(s.bandwidth), s.structure, s.n_dims, s.n_basis // fold(s.structure, s.n_dims)) for s in specs
        ]
        self.bandwidth_, self.n_basis_ = public_bandwidth(np.array(specs[0].scales)), each[0][3]
        self.resolved_ = all(is_resolved(*one) for one in each)
        if not n_uniform and not isinstance(self.bandwidth, str):
            warn_if_fine(*min(each, key=lambda one: one[0] * one[3]))
        return self

    def noise(self, X: Any) -> F64:
        """(n_sets,) how much of each row's place is chance: the expected squared distance from its limit.

        The limit is the row of the same distribution with no end of points (at this bandwidth). Two independent samples
        have, on average, d^2 = that of their limits + the noise of one + that of the other: d^2 between small sets is
        mostly noise, and sets of different sizes differ by it. ``D2 - noise[:, None] - noise`` is a d^2 without it, off
        the diagonal; negative where two sets differ by less than expected of one distribution.

        By first-order (delta) variances from the set's own points: good to some percent where every bandwidth holds
        several points (of a uniform density the next term is 7/16 Var p / p^2), too small where sets are thinner. Of
        index sets it is the noise of the values at the nodes, which a projection can only make less. NaN for sets of a
        single point. Cost: that of n n_basis^d products for a set of n points.
        """
        check_is_fitted(self)
        spec = self.spec_
        if isinstance(parts_of(spec)[0].spec, UniformNodesSpec):
            raise ValueError(
                "noise is that of midpoint nodes, found nodes='uniform', which add noise of their own: fit with "
                "nodes='midpoint'"
            )
        sets = known_sets(self, X)
        return np.concatenate(map_set_blocks(partial(_noise_of, spec), sets, "noise"))

    def _n_uniform(self) -> int:
        """How many random nodes were asked for; none for midpoints."""
        uniform = one_of("nodes", self.nodes, ("midpoint", "uniform")) == "uniform"
        if isinstance(self.n_nodes, str):
            one_of("n_nodes", self.n_nodes, ("auto",))
            return UNIFORM_NODES if uniform else 0
        if not uniform:
            raise ValueError(
                f"n_nodes={self.n_nodes!r} is for nodes='uniform': midpoints are n_basis in each dimension"
            )
        return whole("n_nodes", self.n_nodes)


def _fold(smooth: bool, kind: str, d: int) -> int:
    """How many nodes for one: a kink of kappa is met in single ones, which few others average out in one dimension."""
    return 1 if smooth or (kind != "marginal" and d > 1) else 2


def _noise_of(spec: DivergenceSpec | FeatureUnionParams, sets: SampleSets, first: int) -> F64:
    parts = [part.weight * row_noise(part.spec, part.of_sets(sets)) for part in parts_of(spec)]
    return np.asarray(sum(parts))
