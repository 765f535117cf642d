"""Divergence embeddings at random nodes: P1's coefficients, each a mean over uniform points of the cube (its Eq. 10).

    a~ = 1/M sum_k phi_a(u_k) f(u_k),   f = w^(1/2) p^(1/2 + i l),   u_k uniform on [0, 1]^d, the same for all sets

E a~ is the coefficient of f, and its variance falls as 1 / M, so that squared distances are too long by the sum of the
variances of differences (`dkdist.theory.hdd_terms.sampled_integrals` bounds it). Without a basis (order 0) rows are
the values at the nodes, whose squared distances are unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkdist.base.roles import Role
from dkdist.densities.cosine.index_set import index_set
from dkdist.densities.density_loops import basis_table, term_table
from dkdist.densities.divergence_spec import (
    Densities,
    DivergenceParameters,
    DivergenceSpec,
    coefficients_of,
    products,
)
from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.products import steady_factor
from dkdist.plain.kept import kept

MOST_NUMBERS = 2**27  # of a table of terms at nodes: half a GiB


@kept
@dataclass(frozen=True)
class UniformNodesSpec(DivergenceSpec):
    """A `DivergenceSpec` whose densities are seen at ``n_uniform`` random nodes, drawn from ``seed``.

    ``n_basis`` and ``order`` say which cosines rows are coefficients of; with order 0, rows are values at the nodes.
    """

    n_uniform: int = 4000
    seed: int = 0

    def column_names(self, names: Sequence[str]) -> None:
        """None: columns are numbered."""

    def moved_columns(self, element: Sequence[int]) -> None:
        """None: random nodes are no images of each other."""

    def __post_init__(self) -> None:
        most = max(self._n_terms(bandwidth) for bandwidth in self.scales) * self.n_uniform
        if most > MOST_NUMBERS:
            raise ValueError(
                f"{self.n_uniform} uniform nodes need a table of {most:.3g} numbers for bandwidth "
                f"{min(self.bandwidth):.3g}, more than {MOST_NUMBERS:.3g}: take fewer nodes or a larger bandwidth, or "
                "nodes='midpoint'"
            )

    @property
    def n_nodes(self) -> int:
        """Nodes at which densities are evaluated, over all dimensions if they are taken alone."""
        return self.n_densities * self.n_uniform

    @property
    def projects(self) -> bool:
        """Whether rows are coefficients."""
        return self.order > 0

    @property
    def functions(self) -> I64:
        """The degrees of the cosines whose coefficients rows are, (n_functions, d), or d = 1 for dimensions alone."""
        return index_set(1 if self.structure == "marginal" else self.n_dims, self.n_basis, self.order)

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        columns = len(self.functions) if self.projects else self.n_uniform
        return self.parts * len(self.scales) * self.n_densities * columns

    @property
    def straight(self) -> bool:
        """False: these nodes are no grid."""
        return False

    def nodes(self) -> F64:
        """(n_uniform, d), column j for dimension j alone, too."""
        return np.random.default_rng([self.seed, Role.NODES]).random((self.n_uniform, self.n_dims))

    def _tables(self) -> UniformNodes:
        return UniformNodes(self)

    def _n_terms(self, bandwidth: tuple[float, ...]) -> float:
        spec = coefficients_of(self, bandwidth)
        if self.structure == "tensor":
            return float(np.prod(spec.degrees))
        return float(max(spec.degrees) if self.structure == "marginal" else len(spec.exponents))


class UniformNodes(DivergenceParameters):
    """Drawn tables of a `UniformNodesSpec`; immutable, shared by all blocks."""

    spec: UniformNodesSpec

    def __init__(self, spec: UniformNodesSpec) -> None:
        self._prepare(spec, _at_nodes)
        self._projections = _coefficients_from_values(spec) if spec.projects else []
        self._factors = [steady_factor(table) for table in self._projections]

    @property
    def node_weights(self) -> F64:
        """The weights of the nodes of one density; they sum to one."""
        return np.full(self.spec.n_uniform, 1 / self.spec.n_uniform)

    def _by_values(self, gradient: F64, i: int) -> F64:
        if not self._projections:
            return gradient
        table, k = self._projections[i % len(self._projections)], gradient.shape[1]
        return (table @ gradient.reshape(self.spec.parts, -1, k)).reshape(-1, k)

    def _projected(self, values: F32, column: int) -> F32:
        made = np.empty((len(values), len(self.spec.functions)), np.float32)
        place = column // (self.spec.parts * made.shape[1])
        self._factors[place % len(self._factors)].product(values, made)
        return made


def _coefficients_from_values(spec: UniformNodesSpec) -> list[F32]:
    """phi_a(u_k) / M^(1/2) for values over M^(1/2): (M, n_functions), one for all dimensions or for each."""
    nodes, a, tables = spec.nodes(), spec.functions, []
    axes = [nodes[:, [j]] for j in range(spec.n_dims)] if spec.structure == "marginal" else [nodes]
    for u in axes:
        phi = np.ones((len(u), len(a)))
        for j in range(u.shape[1]):
            phi *= np.cos(np.pi * np.outer(u[:, j], a[:, j])) * np.where(a[:, j] > 0, np.sqrt(2), 1)
        tables.append((phi / np.sqrt(len(u))).astype(np.float32))
    return tables


def _at_nodes(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> Densities:
    """Densities at the random nodes, joint or of each dimension alone."""
    assert isinstance(spec, UniformNodesSpec)
    nodes, needed, h = spec.nodes(), coefficients_of(spec, bandwidth), np.array(bandwidth)
    if spec.structure == "marginal":
        widths = [int(K) for K in needed.degrees]
        tables = [basis_table(nodes[:, j], K, bandwidth[j]).T for j, K in enumerate(widths)]
    else:
        tables = [term_table(nodes, needed.exponents, h)]
    return products(spec, [np.ascontiguousarray(table) for table in tables])
