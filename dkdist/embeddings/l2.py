"""`L2Embedding`: sample sets to series coefficients of their densities, whose distances are those of L2.

Parameters of L2 embeddings: sample sets -> series coefficients of their densities (Oliva et al. 2014).

    phi_0 = 1, phi_a(x) = sqrt(2) cos(pi a x);    row_a = int p phi_a = C_a prod_j sqrt(2)^[a_j > 0] g_a,   a in V
    V = {a: (sum_j a_j^r)^(1/r) <= n_basis - 1},   g_a = exp(-sum_j (pi a_j h_j)^2 / 2)

The phi_a are orthonormal, so that squared distances between rows are int (p - q)^2 of the densities' projections on
their span. With k bandwidths h, the rows of each stand side by side over sqrt(k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.influence import LinearInfluence
from dkdist._base.inputs import check_sets
from dkdist._base.params import Domain, Params
from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist.embeddings.coefficients import CoefficientFeatures, CoefficientSpec
from dkdist.embeddings.density_choices import (
    SERIES_BANDWIDTH_PER_SPACING,
    StructuredEmbedding,
    density_kind,
    flatten_bandwidths,
    index_order,
    max_nodes_per_dim,
    public_bandwidth,
    requested_pair_nodes,
    resolve_bandwidth,
    resolve_structure,
    series_bandwidths,
)
from dkdist.embeddings.nodes import NORM_TOL, index_set
from dkdist.embeddings.structure import ColumnSubset

MAX_BALL_FUNCTIONS = 4096  # of a joint basis in four or more dimensions


@serializable("L2Spec")
@dataclass(frozen=True)
class L2Spec(Params["L2Parameters"]):
    """What defines an L2 embedding, in plain numbers; ``draw()`` makes the tables.

    ``structure`` is "tensor" (d <= 3), "ball" (d >= 4) or "marginal" (each dimension alone); ``order`` is the r of V,
    from 1 (total degree) to infinity (tensor); ``bandwidth`` holds d numbers for each scale, one after the other.
    """

    domain: Domain
    bandwidth: tuple[float, ...]
    structure: str
    n_basis: int
    order: float

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    @property
    def n_scales(self) -> int:
        """The number k of bandwidths."""
        return len(self.bandwidth) // self.n_dims

    @property
    def exponents(self) -> I64:
        """The degrees a in V, in the order of the columns: (n_basis functions, d)."""
        return _basis(self)[1]

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return self.n_scales * basis_size(self.n_dims, self.structure, self.n_basis, self.order)

    @property
    def coefficients(self) -> CoefficientSpec:
        """The cosine coefficients that the rows are made of."""
        d, n = self.n_dims, self.n_basis
        fours = 4 * -(-n // 4)  # whole groups of a compiled loop, whose bits larger degrees leave as they are
        degrees: tuple[float, ...] = (n,) * (d - 1) + (fours,)
        if self.structure == "marginal":
            degrees = (fours,) * d
        if self.structure == "ball":
            _require_bounded_volume(d, n, self.order)
            return CoefficientSpec(self.domain, "ball", (n - 1 + NORM_TOL,) * d, self.order)
        return CoefficientSpec(self.domain, self.structure, degrees)

    def _build(self) -> L2Parameters:
        return L2Parameters(self)


def basis_size(d: int, structure: str, n_basis: int, order: float) -> int:
    """The number of functions in V; `ValueError` if they are too many."""
    cube = Domain((0.0,) * d, (1.0,) * d, fixed=True)
    return len(_basis(L2Spec(cube, (0.0,) * d, structure, n_basis, order))[0])


def max_functions_per_dim(d: int, order: float) -> int:
    """The largest n_basis whose V has no more than 4,096 functions, of d >= 4 joint dimensions."""
    n = 2
    while n <= MAX_BALL_FUNCTIONS and not _exceeds_max_functions(d, n + 1, order):
        n += 1
    return n


def _exceeds_max_functions(d: int, n_basis: int, order: float) -> bool:
    try:
        return basis_size(d, "ball", n_basis, order) > MAX_BALL_FUNCTIONS
    except ValueError:
        return True


@lru_cache(maxsize=64)
def _basis(spec: L2Spec) -> tuple[I64, I64]:
    """Which coefficients a row holds, and their degrees."""
    coefficients = spec.coefficients
    if spec.structure == "tensor":
        a = index_set(spec.n_dims, spec.n_basis, spec.order)
        return np.ravel_multi_index(tuple(a.T), tuple(map(int, coefficients.degrees))), a
    every = coefficients.exponents
    if spec.structure == "marginal":
        index = np.flatnonzero(every.max(axis=1) < spec.n_basis)
        return index, every[index]
    if len(every) > MAX_BALL_FUNCTIONS:
        raise _too_many_functions(spec.n_dims, spec.n_basis)
    index = np.lexsort(every.T[::-1])  # the last dimension runs fastest, as elsewhere
    return index, every[index]


def _require_bounded_volume(d: int, n_basis: int, order: float) -> None:
    """Refuse more functions than 4,096 before they are listed: there are at least as many as the volume of V."""
    ball = np.exp(d * lgamma(1 + 1 / order) - lgamma(1 + d / order))  # its volume over that of a box
    if (n_basis - 1.0) ** d * ball > MAX_BALL_FUNCTIONS:
        raise _too_many_functions(d, n_basis)


def _too_many_functions(d: int, n_basis: int) -> ValueError:
    return ValueError(
        f"n_basis={n_basis} gives more than {MAX_BALL_FUNCTIONS} functions in {d} joint dimensions: lower n_basis, take a "
        "smaller index_set ('total-degree'), or use structure='marginal'"
    )


class L2Parameters(LinearInfluence, CoefficientFeatures[L2Spec]):
    """Drawn tables of an `L2Spec`; immutable, shared by all blocks."""

    def __init__(self, spec: L2Spec) -> None:
        self.spec = spec
        self._coefficients = spec.coefficients.materialize()
        self._index, a = _basis(spec)
        h = np.array(spec.bandwidth).reshape(spec.n_scales, 1, spec.n_dims)
        damping = np.exp(-((np.pi * a * h) ** 2).sum(axis=2) / 2)
        norm = np.sqrt(2.0) ** (a > 0).sum(axis=1)
        self._factors = (damping * norm / np.sqrt(spec.n_scales)).astype(np.float32)

    def _fill(self, C: F32, of: CoefficientSpec, rows: F32) -> None:
        chosen = np.take(self._coefficients.spec.select(C, of), self._index, axis=1)[:, None, :]
        np.multiply(chosen, self._factors, out=rows.reshape(len(rows), *self._factors.shape))


BALL_ORDER = 2.0  # the order of a ball of degrees


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
        wanted = resolve_bandwidth(self.bandwidth, self.n_basis, d, zero=True)
        structure = resolve_structure(self.structure, d)
        kind = density_kind(structure.kind, d)
        order = index_order(self.index_set, {"auto": BALL_ORDER if kind == "ball" else np.inf})
        most = max_functions_per_dim(d, order) if kind == "ball" else max_nodes_per_dim(kind, d)
        basis_size(d, kind, wanted.n_basis or most, order)  # refused, if it is, before the data are read

        def make(some: ColumnSubset) -> L2Spec:
            h, n_basis = series_bandwidths(wanted, some, most)
            return L2Spec(some.domain, flatten_bandwidths(h), some.kind, n_basis, order)

        first = self._fit_structure(
            structure, sets, kind, make, requested_pair_nodes(wanted, SERIES_BANDWIDTH_PER_SPACING)
        )[0]
        self.bandwidth_ = public_bandwidth(np.array(first.bandwidth).reshape(first.n_scales, -1))
        self.n_basis_ = first.n_basis
        return self
