"""`L2Embedding`: sample sets to series coefficients of their densities, whose distances are those of L2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist.base.inputs import check_sets
from dkdist.densities.density_choices import (
    RESOLVED_SERIES,
    StructuredEmbedding,
    asked,
    asked_structure,
    density_kind,
    flat,
    index_order,
    most_nodes,
    nodes_of_pair,
    of_series,
    shown,
)
from dkdist.densities.l2_spec import L2Spec, basis_size, most_functions
from dkdist.densities.structure.asked_structure import Columns

BALL = 2.0  # the order of a ball of degrees


class L2Embedding(StructuredEmbedding):
    """Embed sample sets so that squared Euclidean distances between rows are int (p - q)^2 of their densities.

    A row holds the coefficients int p phi_a of a set's density p on the domain scaled to [0, 1]^d, in the orthonormal
    basis of products of 1 and sqrt(2) cos(pi a x): the distance is the L2 distance of the densities' projections on
    the functions of the index set, exactly but for float32 (and the grid that large sets go through).

    Parameters
    ----------
    n_basis : int or "auto", default="auto"
        Functions of each dimension: degrees 0 to n_basis - 1. "auto" takes as many as the finest bandwidth needs, .683
        / h: the first degree left out is damped to a tenth. It takes at least 4 and stops at 1,331 functions in all,
        but never below 10 a dimension (at 4,096 for d >= 4 joint dimensions).
    bandwidth : float, (d,) sequence, (k, 1) or (k, d) nested sequence, "auto" or "scott", default="auto"
        Standard deviation of the Gaussian, reflected at the walls, that smooths the set on the *scaled* domain; it
        damps coefficient a by exp(-(pi a h)^2 / 2). 0 is no smoothing: the plain orthogonal series estimate of the
        paper, which n_basis alone keeps from the noise. "auto" is least-squares cross-validation on a
        sample of the sets, as for `DivergenceEmbedding`, "scott" Scott's rule for the typical set. Nested, as in
        ``[[0.05], [0.1]]``: k scales side by side, squared distances are the mean over them.
    domain : {"robust", "data", "unit"} or (low, high), default="robust"
        The box that is scaled to the unit cube, as for `DivergenceEmbedding`.
    structure : {"auto", "joint", "marginal", "pairs"} or list, default="auto"
        Densities of all dimensions together (d <= 6), of each dimension alone, or of each and of pairs whose dependence
        differs between sets or that a list names, as for `DivergenceEmbedding`. "auto" is joint for d <= 3, then pairs.
    index_set : {"auto", "tensor", "total-degree"} or ("sobolev", s), default="auto"
        Which products of functions are taken, of joint dimensions: those of degrees a_1 .. a_d with all
        a_j < n_basis; with a_1 + .. + a_d < n_basis; or with sum_j a_j^(2s) <= (n_basis - 1)^(2s), the paper's
        choice for densities in a Sobolev ellipsoid of order s (s >= .01; below 1/2 a star). "auto" is "tensor" up to
        d = 3 and ("sobolev", 1), a ball, from there on. At most 4,096 functions for d >= 4.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set, as for `DivergenceEmbedding`.
    outside : {"raise", "clip"}, default="raise"
        Whether a set with points outside "unit" or a given box is refused, or they count at its wall.

    Attributes
    ----------
    spec_ : L2Spec
        What was chosen, in plain numbers; ``spec_.exponents`` are the degrees a of the columns (of each scale).
    bandwidth_ : (d,) array, or (k, d) for several scales
        The bandwidth in use, on the scaled domain.
    n_basis_ : int
        The functions of each dimension in use.
    structure_, pairs_, n_pairs_found_, n_features_in_, origin_, skipped_, outside_share_
        As for `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError, StoreFormatError, ValueError
        As `DivergenceEmbedding`; ValueError for an index set of too many functions, too.

    Notes
    -----
    A `SetStore` gives a lazy dask array with known chunks; anything else an ndarray. Rows are float32, (n_sets, m),
    and a set's row depends on that set alone, bit for bit on processors of one kind. `fit` reads the data once. Cost
    of a set of 200 points in d = 2: some 3 us on one core; large sets go through a grid at about 10 ns a point.

    References
    ----------
    Oliva, Neiswanger, Poczos, Schneider, Xing: Fast distribution to real regression (2014).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.beta(1 + i % 3, 2, size=(500, 1)) for i in range(12)]
    >>> A = dk.L2Embedding(n_basis=8, bandwidth=0.05, domain="unit").fit_transform(sets)
    >>> A.shape, A.dtype
    ((12, 8), dtype('float32'))
    >>> d2 = ((A[0] - A[1:4]) ** 2).sum(axis=1)  # to Beta(2, 2), Beta(3, 2), and Beta(1, 2) again
    >>> [bool(x) for x in d2 > 0.1]
    [True, True, False]
    """

    _label = "l2_embedding"

    def __init__(
        self,
        n_basis: int | str = "auto",
        bandwidth: float | Sequence[float] | Sequence[Sequence[float]] | str = "auto",
        domain: str | tuple[ArrayLike, ArrayLike] = "robust",
        structure: str = "auto",
        index_set: str | tuple[str, float] = "auto",
        on_error: str = "raise",
        outside: str = "raise",
    ) -> None:
        self.n_basis = n_basis
        self.bandwidth = bandwidth
        self.domain = domain
        self.structure = structure
        self.index_set = index_set
        self.on_error = on_error
        self.outside = outside

    def fit(self, X: Any, y: Any = None) -> L2Embedding:
        """Choose domain and bandwidth from the sets X; one pass over the data. ``y`` is not used."""
        sets = check_sets(X)
        d = sets.n_dims
        wanted = asked(self.bandwidth, self.n_basis, d, zero=True)
        structure = asked_structure(self.structure, d)
        kind = density_kind(structure.kind, d)
        order = index_order(self.index_set, {"auto": BALL if kind == "ball" else np.inf})
        most = most_functions(d, order) if kind == "ball" else most_nodes(kind, d)
        basis_size(d, kind, wanted.n_basis or most, order)  # refused, if it is, before the data are read

        def make(some: Columns) -> L2Spec:
            h, n_basis = of_series(wanted, some, most)
            return L2Spec(some.domain, flat(h), some.kind, n_basis, order)

        first = self._arrange(structure, sets, kind, make, nodes_of_pair(wanted, RESOLVED_SERIES))[0]
        self.bandwidth_ = shown(np.array(first.bandwidth).reshape(first.n_scales, -1))
        self.n_basis_ = first.n_basis
        return self
