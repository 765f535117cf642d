"""`L2Embedding`: series coefficients of the densities of sets (Oliva et al. 2014), with L2 distances.

    phi_0 = 1, phi_a(x) = sqrt(2) cos(pi a x);    row_a = int p phi_a = C_a prod_j sqrt(2)^[a_j > 0] g_a,   a in V
    V = {a: (sum_j a_j^r)^(1/r) <= n_basis - 1},   g_a = exp(-sum_j (pi a_j h_j)^2 / 2)

The phi_a are orthonormal, so squared distances between rows are int (p - q)^2 of the densities projected on their span.
With k bandwidths h, the rows of all scales are concatenated and divided by sqrt(k).
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
from dkdist._base.inputs import SetsLike, check_sets
from dkdist._base.params import Domain, Params
from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist.embeddings._tuning import MAX_BALL_TERMS
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


@serializable("L2Spec")
@dataclass(frozen=True)
class L2Spec(Params["L2Parameters"]):
    """Parameters of an L2 embedding.

    ``structure`` is "tensor" (d <= 3), "ball" (d >= 4) or "marginal" (one dimension at a time); ``order`` is the r of
    V, from 1 (total degree) to infinity (tensor); ``bandwidth`` holds d values for each scale, one scale after the
    other.
    """

    domain: Domain
    bandwidth: tuple[float, ...]
    structure: str
    n_basis: int
    order: float

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return self.domain.n_dims

    @property
    def n_scales(self) -> int:
        """Number k of bandwidths."""
        return len(self.bandwidth) // self.n_dims

    @property
    def exponents(self) -> I64:
        """Degrees a in V in the order of the columns: (n_functions, d)."""
        return _basis(self)[1]

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return self.n_scales * basis_size(self.n_dims, self.structure, self.n_basis, self.order)

    @property
    def coefficients(self) -> CoefficientSpec:
        """Parameters of the cosine coefficients of the rows."""
        d, n = self.n_dims, self.n_basis
        padded = 4 * -(-n // 4)  # full groups, so that larger degrees do not change the results
        degrees: tuple[float, ...] = (n,) * (d - 1) + (padded,)
        if self.structure == "marginal":
            degrees = (padded,) * d
        if self.structure == "ball":
            _require_bounded_volume(d, n, self.order)
            return CoefficientSpec(self.domain, "ball", (n - 1 + NORM_TOL,) * d, self.order)
        return CoefficientSpec(self.domain, self.structure, degrees)

    def _build(self) -> L2Parameters:
        return L2Parameters(self)


def basis_size(d: int, structure: str, n_basis: int, order: float) -> int:
    """Return the number of functions in V; raise ValueError if it is too large."""
    cube = Domain((0.0,) * d, (1.0,) * d, fixed=True)
    return len(_basis(L2Spec(cube, (0.0,) * d, structure, n_basis, order))[0])


def max_functions_per_dim(d: int, order: float) -> int:
    """Return the largest n_basis for d >= 4 joint dimensions whose V has at most 4,096 functions."""
    n = 2
    while n <= MAX_BALL_TERMS and not _exceeds_max_functions(d, n + 1, order):
        n += 1
    return n


def _exceeds_max_functions(d: int, n_basis: int, order: float) -> bool:
    try:
        return basis_size(d, "ball", n_basis, order) > MAX_BALL_TERMS
    except ValueError:
        return True


@lru_cache(maxsize=64)
def _basis(spec: L2Spec) -> tuple[I64, I64]:
    """Return the indices of a row's coefficients, and their degrees."""
    coefficients = spec.coefficients
    if spec.structure == "tensor":
        a = index_set(spec.n_dims, spec.n_basis, spec.order)
        return np.ravel_multi_index(tuple(a.T), tuple(map(int, coefficients.degrees))), a
    exponents = coefficients.exponents
    if spec.structure == "marginal":
        index = np.flatnonzero(exponents.max(axis=1) < spec.n_basis)
        return index, exponents[index]
    if len(exponents) > MAX_BALL_TERMS:
        raise _too_many_functions(spec.n_dims, spec.n_basis)
    index = np.lexsort(exponents.T[::-1])  # the last dimension varies fastest
    return index, exponents[index]


def _require_bounded_volume(d: int, n_basis: int, order: float) -> None:
    # The volume of V is a lower bound on the number of functions, known without listing them.
    volume_ratio = np.exp(d * lgamma(1 + 1 / order) - lgamma(1 + d / order))  # volume of ball over box
    if (n_basis - 1.0) ** d * volume_ratio > MAX_BALL_TERMS:
        raise _too_many_functions(d, n_basis)


def _too_many_functions(d: int, n_basis: int) -> ValueError:
    return ValueError(
        f"a joint basis must have at most {MAX_BALL_TERMS} functions; n_basis={n_basis} gives more in {d} dimensions. "
        "Reduce n_basis, use a smaller index_set ('total-degree'), or use structure='marginal'."
    )


class L2Parameters(LinearInfluence, CoefficientFeatures[L2Spec]):
    """Fitted parameters of an `L2Spec`."""

    def __init__(self, spec: L2Spec) -> None:
        self.spec = spec
        self._coefficients = spec.coefficients.materialize()
        self._index, a = _basis(spec)
        h = np.array(spec.bandwidth).reshape(spec.n_scales, 1, spec.n_dims)
        damping = np.exp(-((np.pi * a * h) ** 2).sum(axis=2) / 2)
        norm = np.sqrt(2.0) ** (a > 0).sum(axis=1)
        self._factors = (damping * norm / np.sqrt(spec.n_scales)).astype(np.float32)

    def _fill(self, C: F32, spec: CoefficientSpec, rows: F32) -> None:
        selected = np.take(self._coefficients.spec.select(C, spec), self._index, axis=1)[:, None, :]
        np.multiply(selected, self._factors, out=rows.reshape(len(rows), *self._factors.shape))


BALL_ORDER = 2.0  # Euclidean norm of degrees: isotropic, the Sobolev ellipsoid of order 1 (Oliva et al. 2014)


class L2Embedding(StructuredEmbedding):
    """Embed sets so that squared distances between rows are int (p - q)^2 of their densities.

    A row holds the coefficients int p phi_a of a set's density p on the domain scaled to [0, 1]^d, in the orthonormal
    basis of products of 1 and sqrt(2) cos(pi a x): the distance is the L2 distance of the densities projected
    on the functions of the index set, up to float32 rounding (and the grid that large sets use).

    Parameters
    ----------
    n_basis : int or "auto", default="auto"
        Functions per dimension: degrees 0 to n_basis - 1. "auto" uses 0.683 / h for the smallest bandwidth h, so that
        the first omitted degree is damped to a tenth. It is at least 4. The total is limited to 1,331 functions, or 10
        per dimension if that is more (4,096 functions for d >= 4 joint dimensions). For index sets other than "tensor"
        of d >= 4 joint dimensions it uses 1.05 / h, "total-degree" 1.05 sqrt(d) / h, so that d^2 is within 1 % of the
        distance of the smoothed densities unless the limit is reached.
    bandwidth : float, (d,) sequence, (k, 1) or (k, d) nested sequence, "auto" or "scott", default="auto"
        Standard deviation of the Gaussian, reflected at the boundary, that smooths the set on the *scaled* domain; it
        damps coefficient a by exp(-(pi a h)^2 / 2). 0 means no smoothing: the orthogonal series estimate of the paper,
        which is regularised only by n_basis. "auto" is least-squares cross-validation on a sample of the sets, as in
        `DivergenceEmbedding`, "scott" Scott's rule for the median set. A nested sequence such as ``[[0.05], [0.1]]``
        concatenates k scales; squared distances are the mean over scales.
    domain : {"robust", "data", "unit"} or (low, high), default="robust"
        Box that is scaled to the unit cube, as in `DivergenceEmbedding`.
    structure : {"auto", "joint", "marginal", "pairs"} or list, default="auto"
        Joint density of all dimensions (d <= 6), one density per dimension, or densities of single dimensions and of
        pairs, which are listed or selected by their dependence, as in `DivergenceEmbedding`. "auto" is "joint" for d
        <= 3, otherwise "pairs".
    index_set : {"auto", "tensor", "total-degree"} or ("sobolev", s), default="auto"
        Products of functions of joint dimensions, with degrees a_1 .. a_d. "tensor": all a_j < n_basis. "total-degree":
        a_1 + .. + a_d < n_basis. ("sobolev", s): sum_j a_j^(2s) <= (n_basis - 1)^(2s), the paper's choice for densities
        in a Sobolev ellipsoid of order s (s >= 0.01; star-shaped for s < 1/2). "auto" is "tensor" up to
        d = 3, otherwise ("sobolev", 1), a ball. At most 4,096 functions for d >= 4.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of invalid sets, as in `DivergenceEmbedding`.
    outside : {"raise", "clip"}, default="raise"
        Treatment of points outside "unit" or a given box: an error that names the set, or clipping.

    Attributes
    ----------
    spec_ : L2Spec
        Fitted parameters; ``spec_.exponents`` are the degrees a of the columns (of each scale).
    bandwidth_ : (d,) array, or (k, d) for several scales
        Bandwidth on the scaled domain.
    n_basis_ : int
        Functions per dimension.
    structure_, pairs_, n_pairs_found_, n_features_in_, origin_, skipped_, outside_share_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError, StoreFormatError, ValueError
        As in `DivergenceEmbedding`; also ValueError for too many functions.

    Notes
    -----
    `LazySets` give a lazy dask array with known chunks; anything else an ndarray. Rows are float32, (n_sets, m),
    and a row depends only on its set, and is bitwise identical on processors of one type. `fit` reads the data once. A
    set of 200 points in d = 2 takes about 3 us on one core; large sets use a grid, at about 10 ns per point.

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

    def fit(self, X: SetsLike, y: Any = None) -> L2Embedding:
        """Choose domain and bandwidth from the sets X in one pass. ``y`` is ignored."""
        sets = check_sets(X)
        d = sets.n_dims
        bandwidth = resolve_bandwidth(self.bandwidth, self.n_basis, d, zero=True)
        structure = resolve_structure(self.structure, d)
        kind = density_kind(structure.kind, d)
        order = index_order(self.index_set, {"auto": BALL_ORDER if kind == "ball" else np.inf})
        max_functions = max_functions_per_dim(d, order) if kind == "ball" else max_nodes_per_dim(kind, d)
        # Raise an error for too many functions before the data are read.
        basis_size(d, kind, bandwidth.n_basis or max_functions, order)

        def make(columns: ColumnSubset) -> L2Spec:
            h, n_basis = series_bandwidths(bandwidth, columns, max_functions, order)
            return L2Spec(columns.domain, flatten_bandwidths(h), columns.kind, n_basis, order)

        first = self._fit_structure(
            structure, sets, kind, make, requested_pair_nodes(bandwidth, SERIES_BANDWIDTH_PER_SPACING)
        )[0]
        self.bandwidth_ = public_bandwidth(np.array(first.bandwidth).reshape(first.n_scales, -1))
        self.n_basis_ = first.n_basis
        return self
