"""Parameters of L2 embeddings: sample sets -> series coefficients of their densities (Oliva et al. 2014).

    phi_0 = 1, phi_a(x) = sqrt(2) cos(pi a x);    row_a = int p phi_a = C_a prod_j sqrt(2)^[a_j > 0] g_a,   a in V
    V = {a: (sum_j a_j^r)^(1/r) <= n_basis - 1},   g_a = exp(-sum_j (pi a_j h_j)^2 / 2)

The phi_a are orthonormal, so that squared distances between rows are int (p - q)^2 of the densities' projections on
their span. With k bandwidths h, the rows of each stand side by side over sqrt(k).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma

import numpy as np

from dkdist.base.embedding_spec import Domain, Specification
from dkdist.base.influence import LinearInfluence
from dkdist.densities.cosine.coefficients_spec import CoefficientSpec, OfCoefficients
from dkdist.densities.cosine.index_set import EPSILON, index_set
from dkdist.loops.array_types import F32, I64
from dkdist.plain.kept import kept

MOST_TERMS = 4096  # of a joint basis in four or more dimensions


@kept
@dataclass(frozen=True)
class L2Spec(Specification["L2Parameters"]):
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
            _require_few(d, n, self.order)
            return CoefficientSpec(self.domain, "ball", (n - 1 + EPSILON,) * d, self.order)
        return CoefficientSpec(self.domain, self.structure, degrees)

    def _tables(self) -> L2Parameters:
        return L2Parameters(self)


def basis_size(d: int, structure: str, n_basis: int, order: float) -> int:
    """The number of functions in V; `ValueError` if they are too many."""
    cube = Domain((0.0,) * d, (1.0,) * d, fixed=True)
    return len(_basis(L2Spec(cube, (0.0,) * d, structure, n_basis, order))[0])


def most_functions(d: int, order: float) -> int:
    """The largest n_basis whose V has no more than 4,096 functions, of d >= 4 joint dimensions."""
    n = 2
    while n <= MOST_TERMS and not _too_large(d, n + 1, order):
        n += 1
    return n


def _too_large(d: int, n_basis: int, order: float) -> bool:
    try:
        return basis_size(d, "ball", n_basis, order) > MOST_TERMS
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
    if len(every) > MOST_TERMS:
        raise _too_many(spec.n_dims, spec.n_basis)
    index = np.lexsort(every.T[::-1])  # the last dimension runs fastest, as elsewhere
    return index, every[index]


def _require_few(d: int, n_basis: int, order: float) -> None:
    """Refuse more functions than 4,096 before they are listed: there are at least as many as the volume of V."""
    ball = np.exp(d * lgamma(1 + 1 / order) - lgamma(1 + d / order))  # its volume over that of a box
    if (n_basis - 1.0) ** d * ball > MOST_TERMS:
        raise _too_many(d, n_basis)


def _too_many(d: int, n_basis: int) -> ValueError:
    return ValueError(
        f"n_basis={n_basis} gives more than {MOST_TERMS} functions in {d} joint dimensions: lower n_basis, take a "
        "smaller index_set ('total-degree'), or use structure='marginal'"
    )


class L2Parameters(LinearInfluence, OfCoefficients[L2Spec]):
    """Drawn tables of an `L2Spec`; immutable, shared by all blocks."""

    def __init__(self, spec: L2Spec) -> None:
        self.spec = spec
        self._coefficients = spec.coefficients.draw()
        self._index, a = _basis(spec)
        h = np.array(spec.bandwidth).reshape(spec.n_scales, 1, spec.n_dims)
        damping = np.exp(-((np.pi * a * h) ** 2).sum(axis=2) / 2)
        norm = np.sqrt(2.0) ** (a > 0).sum(axis=1)
        self._factors = (damping * norm / np.sqrt(spec.n_scales)).astype(np.float32)

    def _fill(self, C: F32, of: CoefficientSpec, rows: F32) -> None:
        chosen = np.take(self._coefficients.spec.cut(C, of), self._index, axis=1)[:, None, :]
        np.multiply(chosen, self._factors, out=rows.reshape(len(rows), *self._factors.shape))
