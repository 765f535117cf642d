"""Parameters of divergence embeddings, whose rows have divergences as squared distances (P1).

    points --cosine coefficients--> C --damping, nodes--> density p(x_k) --p^(1/2 + i l_j)--> row of features
    points --one bandwidth, two or three dimensions--> density p(x_k)

With k bandwidths, the rows of all scales are concatenated and divided by sqrt(k): squared distances are their mean.

`UniformNodesSpec` has random nodes. With a basis, rows are coefficients, means over uniform points of the cube (P1, its
Eq. 10):

    a~ = 1/M sum_k phi_a(u_k) f(u_k),   f = w^(1/2) p^(1/2 + i l),   u_k uniform on [0, 1]^d, the same for all sets

E a~ is the coefficient of f, and its variance is proportional to 1 / M. Squared distances are too large by the sum of
the variances of the differences (bounded by `dkdist.theory.hdd_terms.sampled_integrals`). Without a basis (order 0)
rows are values at the nodes, with unbiased squared distances.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel embeddings
(2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from math import gamma, prod

import numpy as np

from dkdist._base.influence import as_singletons
from dkdist._base.params import Domain, Params, numbered_names
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import read_only
from dkdist._numba.products import deterministic_factor
from dkdist._utils.serialization import serializable
from dkdist.embeddings._density_numba import (
    MIN_DENSITY,
    TRUNCATION_DAMPING,
    amplitude_slopes,
    ball_terms,
    basis_table,
    degree_for,
    densities_at_nodes,
    homogeneous_features,
    n_parts,
    node_series,
    tensor_density,
    term_table,
)
from dkdist.embeddings._tuning import (
    DIRECT_SETS_PER_TILE,
    MAX_BALL_TERMS,
    MAX_DIRECT_POINTS,
    MAX_TABLE_NUMBERS,
)
from dkdist.embeddings.coefficients import CoefficientFeatures, CoefficientSpec, iter_tiles, merge_specs
from dkdist.embeddings.grid_densities import GridDensitySpec
from dkdist.embeddings.nodes import (
    axis_tables,
    folded_lattice,
    index_set,
    midpoints,
    projection,
    tensor_weights,
)
from dkdist.sets import SampleSets


@serializable("DivergenceSpec")
@dataclass(frozen=True)
class DivergenceSpec(Params["DivergenceParameters"]):
    """Parameters of a divergence embedding.

    ``structure`` is "tensor" (d <= 3), "grid" (d >= 4), "marginal" (one dimension at a time), or "ball": a ball of
    degrees, at lattice nodes in model files of earlier versions, or at random nodes. ``bandwidth`` has d values for
    each scale, one scale after the other. A row holds values at the nodes, or with ``order`` > 0 their projections on
    the cosines of that index set (see `dkdist.embeddings.nodes`).
    """

    domain: Domain
    bandwidth: tuple[float, ...]
    structure: str
    n_basis: int
    frequencies: tuple[float, ...]
    masses: tuple[float, ...]
    order: float = 0.0

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return self.domain.n_dims

    @property
    def features_per_node(self) -> int:
        """Real features per node: one for a zero frequency, two for any other frequency."""
        return n_parts(self.frequencies)

    @property
    def n_densities(self) -> int:
        """Number of densities per set: 1, or d if marginal."""
        return self.n_dims if self.structure == "marginal" else 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all densities of a set."""
        if self.structure == "marginal":
            return self.n_dims * self.n_basis
        return lattice_size(self.n_basis) if self.structure == "ball" else self.n_basis**self.n_dims

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return (
            self.features_per_node
            * len(self.scales)
            * (len(self.projection[1]) if self.projects else self.n_nodes)
        )

    @property
    def projects(self) -> bool:
        """Whether rows are projections, shorter than the values at the nodes; False in one dimension."""
        return self.order > 0 and self.structure in ("tensor", "grid")

    @property
    def projection(self) -> tuple[F32, I64]:
        """Table and index that project the node values of one density on V; see `nodes.projection`."""
        d = 1 if self.structure == "marginal" else self.n_dims
        return projection(d, self.n_basis, self.order)

    @property
    def scales(self) -> tuple[tuple[float, ...], ...]:
        """Bandwidths of each scale: k tuples of d numbers."""
        d = self.n_dims
        return tuple(self.bandwidth[i : i + d] for i in range(0, len(self.bandwidth), d))

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Return NAME_0, NAME_1, ... for each dimension of marginal densities with one bandwidth; otherwise None."""
        is_separable = self.structure == "marginal" and len(self.scales) == 1
        return numbered_names(names, self.n_features) if is_separable else None

    def permuted_columns(self, element: Sequence[int]) -> I64 | None:
        """Return the column order that gives the row of the set's image under a symmetry of the box, or None.

        Symmetries permute midpoints. For ``element`` see `dkdist.embeddings.invariant_features`.
        """
        sources = [abs(signed) - 1 for signed in element]
        has_symmetric_scales = all(
            scale[j] == scale[p] for scale in self.scales for j, p in enumerate(sources)
        )
        if self.structure != "tensor" or self.order or not has_symmetric_scales:
            return None
        nodes = np.arange(self.n_nodes).reshape((self.n_basis,) * self.n_dims).transpose(sources)
        permuted = np.flip(nodes, tuple(j for j, signed in enumerate(element) if signed < 0)).ravel()
        blocks = np.arange(self.features_per_node * len(self.scales))[:, None] * self.n_nodes
        return (blocks + permuted).ravel()

    @property
    def coefficients(self) -> CoefficientSpec:
        """Parameters of the cosine coefficients, or of the densities on a grid, for all scales."""
        if self.structure == "grid":
            return _grid_spec(self, self.scales)
        return merge_specs([scale_coefficients(self, bandwidth) for bandwidth in self.scales])

    @property
    def is_direct(self) -> bool:
        """Whether densities are computed without coefficients: one bandwidth, joint, d = 2 or 3; or d >= 4."""
        is_small_tensor = self.structure == "tensor" and self.n_dims > 1 and self.n_basis > 2
        return self.structure == "grid" or (is_small_tensor and len(self.scales) == 1)

    def _build(self) -> DivergenceParameters:
        return DivergenceParameters(self)


def lattice_size(n_basis: int) -> int:
    """Return the number of nodes of a lattice: the power of two nearest to n_basis^3."""
    return int(2 ** round(3 * np.log2(n_basis)))


class DivergenceParameters(CoefficientFeatures[DivergenceSpec]):
    """Fitted parameters of a `DivergenceSpec`."""

    def __init__(self, spec: DivergenceSpec) -> None:
        self._prepare(spec, _DENSITY_FACTORIES[spec.structure])
        self._projection = spec.projection if spec.order else None

    def _prepare(self, spec: DivergenceSpec, density_factory: DensityFactory) -> None:
        self.spec = spec
        self._frequencies, self._masses = np.array(spec.frequencies), np.array(spec.masses)
        self._coefficients = spec.coefficients.materialize()
        self._scales = [
            (scale_coefficients(spec, bandwidth), density_factory(spec, bandwidth))
            for bandwidth in spec.scales
        ]
        self._direct_densities = (
            direct_densities(spec) if spec.structure == "tensor" and spec.is_direct else None
        )
        self._node_weights = read_only(self.node_weights)

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32. Points outside the domain are clipped."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        n_sets = (
            self._coefficients.spec.sets_per_tile if self._direct_densities is None else DIRECT_SETS_PER_TILE
        )
        for tile, spans in iter_tiles(sets, n_sets):
            self._write_all(self._densities(sets, spans), out[tile])
        return out

    def densities(self, sets: SampleSets) -> F32:
        """Return densities at the nodes, at least 1e-6: (n_sets, 1, n_nodes), or (n_sets, d, n_basis) if marginal.

        They use the first bandwidth and are relative to the unit cube; `node_weights` integrate one density.
        """
        n = self.spec.n_densities
        out = np.empty((len(sets), n, self.spec.n_nodes // n), np.float32)
        for tile, spans in iter_tiles(sets):
            for j, (density, _) in enumerate(islice(self._densities(sets, spans), n)):
                out[tile, j] = np.maximum(density, np.float32(MIN_DENSITY))
        return out

    @property
    def node_weights(self) -> F64:
        """Quadrature weights of the nodes of one density; their sum is 1."""
        n = self.spec.n_basis if self.spec.structure == "marginal" else self.spec.n_nodes
        return np.full(n, 1 / n)  # all rules have equal weights

    def _fill(self, C: F32, spec: CoefficientSpec, rows: F32) -> None:
        self._write_all(self._densities_from_coefficients(C, spec), rows)

    def _write_all(self, densities: Iterator[tuple[F32, F64]], rows: F32) -> None:
        column = 0
        for density, weights in densities:
            column += self._write(density, weights, rows, column)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d), up to an additive constant per column."""
        singles, out = as_singletons(one, at), np.zeros((len(at), gradient.shape[1]))
        slopes = self._slopes(one, gradient)
        for tile, spans in iter_tiles(singles):
            for (density, _), slope in zip(self._densities(singles, spans), slopes, strict=True):
                out[tile] += density @ slope
        return out

    def _slopes(self, one: SampleSets, gradient: F64) -> list[F64]:
        """Return, for each density of the set, the derivatives (n_nodes, k) with respect to its node values."""
        densities = list(self._densities(one, one.offsets.reshape(1, 2)))
        by_density = gradient.reshape(len(densities), -1, gradient.shape[1])
        return [
            amplitude_slopes(p[0], weights, self._frequencies, self._masses, self._by_values(columns, i))
            for i, ((p, weights), columns) in enumerate(zip(densities, by_density, strict=True))
        ]

    def _densities(self, sets: SampleSets, spans: I64) -> Iterator[tuple[F32, F64]]:
        """Yield each density (n_spans, n_nodes) of the sets at ``spans``, with its node weights, in column order."""
        if self._direct_densities is None:
            C = self._coefficients.of(sets, spans)
            yield from self._densities_from_coefficients(C, self._coefficients.spec)
            return
        is_small = spans[:, 1] - spans[:, 0] <= MAX_DIRECT_POINTS
        if is_small.all():
            yield self._direct_densities(sets, spans), self._node_weights
            return
        p = np.empty((len(spans), self.spec.n_nodes), np.float32)
        p[is_small] = self._direct_densities(sets, spans[is_small])
        C = self._coefficients.of(sets, spans[~is_small])
        ((p[~is_small], weights),) = self._densities_from_coefficients(C, self._coefficients.spec)
        yield p, weights

    def _densities_from_coefficients(self, C: F32, spec: CoefficientSpec) -> Iterator[tuple[F32, F64]]:
        for scale_spec, densities in self._scales:
            yield from densities(scale_spec.select(C, spec))

    def _by_values(self, gradient: F64, i: int) -> F64:
        """Return derivatives with respect to the node values of density i, by the transposed projection."""
        if self._projection is None:
            return gradient
        table, index = self._projection
        dims = 1 if self.spec.structure == "marginal" else self.spec.n_dims
        k, n = gradient.shape[1], len(table) ** dims
        values = np.zeros((self.spec.features_per_node, k, n), np.float32)
        values[:, :, index] = gradient.reshape(self.spec.features_per_node, len(index), k).transpose(0, 2, 1)
        transposed = [np.ascontiguousarray(table.T)] * dims
        by_values = tensor_density(values.reshape(-1, n), axis_tables(transposed)).astype(np.float64)
        return by_values.reshape(self.spec.features_per_node, k, n).transpose(0, 2, 1).reshape(-1, k)

    def _write(self, density: F32, weights: F64, rows: F32, column: int) -> int:
        """Fill columns of ``rows`` from ``column`` on; return their number."""
        if not self.spec.order:
            homogeneous_features(density, weights, self._frequencies, self._masses, rows, column)
            return self.spec.features_per_node * len(weights)
        values = np.empty((len(rows), self.spec.features_per_node * len(weights)), np.float32)
        homogeneous_features(density, weights, self._frequencies, self._masses, values)
        projections = self._project(values.reshape(-1, len(weights)), column).reshape(len(rows), -1)
        rows[:, column : column + projections.shape[1]] = projections
        return int(projections.shape[1])

    def _project(self, values: F32, column: int) -> F32:
        """Project node values (n, n_nodes) that belong to the columns from ``column`` on."""
        assert self._projection is not None
        table, index = self._projection
        dims = 1 if self.spec.structure == "marginal" else self.spec.n_dims
        return np.take(tensor_density(values, axis_tables([table] * dims)), index, axis=1)


def scale_coefficients(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> CoefficientSpec:
    """Return the coefficients of one scale, up to the degrees that its Gaussian makes negligible."""
    if spec.structure == "ball":
        axes = ball_of_degrees(bandwidth)[2] / (np.pi * np.array(bandwidth))
        return CoefficientSpec(spec.domain, "ball", tuple(axes.tolist()))
    if spec.structure == "grid":
        return _grid_spec(spec, (bandwidth,))
    return CoefficientSpec(spec.domain, spec.structure, tuple(map(degree_for, bandwidth)))


def _grid_spec(spec: DivergenceSpec, scales: tuple[tuple[float, ...], ...]) -> GridDensitySpec:
    degrees = tuple(degree_for(min(h)) for h in zip(*scales, strict=True))
    return GridDensitySpec(spec.domain, "grid", degrees, scales=scales, n_basis=spec.n_basis)


def direct_densities(spec: DivergenceSpec) -> Callable[[SampleSets, I64], F32]:
    """Return a function that computes densities (n_spans, n_nodes) of sets directly from the points."""
    series = node_series(spec.n_basis, tuple(map(degree_for, spec.bandwidth)), spec.bandwidth)
    low, scale = spec.domain.low_and_scale

    def densities(sets: SampleSets, spans: I64) -> F32:
        return densities_at_nodes(sets.relative, spans, sets.weights, low, scale, series)

    return densities


# Yields densities at the nodes, with node weights divided by the number of scales.
DensityFunction = Callable[[F32], Iterator[tuple[F32, F64]]]
DensityFactory = Callable[[DivergenceSpec, tuple[float, ...]], DensityFunction]


def _at_midpoints(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> DensityFunction:
    """Return a function that computes joint densities on the tensor grid of midpoints, or marginal densities."""
    rule = midpoints(spec.n_basis)
    tables = [basis_table(rule[0], degree_for(h), h) for h in bandwidth]
    groups = [[table] for table in tables] if spec.structure == "marginal" else [tables]
    weights = tensor_weights([rule] * len(groups[0])) / len(spec.scales)

    def densities(C: F32) -> Iterator[tuple[F32, F64]]:
        first = 0
        for group in groups:
            stop = first + prod(table.shape[1] for table in group)
            yield tensor_density(np.ascontiguousarray(C[:, first:stop]), group), weights
            first = stop

    return densities


def _on_lattice(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> DensityFunction:
    """Return a function that computes joint densities in d >= 4: a ball of degrees on a folded lattice."""
    exponents = ball_of_degrees(bandwidth)[0]
    nodes = folded_lattice(lattice_size(spec.n_basis), spec.n_dims)
    return table_products(spec, [term_table(nodes, exponents, np.array(bandwidth))])


def _on_grid(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> DensityFunction:
    """Return a function that yields the densities of a `GridDensitySpec` unchanged."""
    weights = np.full(spec.n_nodes, 1 / spec.n_nodes) / len(spec.scales)
    return lambda densities: iter([(densities, weights)])


_DENSITY_FACTORIES: dict[str, DensityFactory] = {
    "tensor": _at_midpoints,
    "marginal": _at_midpoints,
    "grid": _on_grid,
    "ball": _on_lattice,
}


def table_products(spec: DivergenceSpec, tables: list[F32]) -> DensityFunction:
    """Return a function that computes one density per table (n_terms, n_nodes), from consecutive coefficients."""
    factors = [deterministic_factor(table) for table in tables]
    ends = np.cumsum([0, *map(len, tables)])
    n_nodes = tables[0].shape[1]
    weights = np.full(n_nodes, 1 / n_nodes) / len(spec.scales)

    def densities(C: F32) -> Iterator[tuple[F32, F64]]:
        for factor, (first, stop) in zip(factors, pairwise(ends), strict=True):
            p = np.empty((len(C), n_nodes), np.float32)
            factor.product(np.ascontiguousarray(C[:, first:stop]), p)
            yield p, weights

    return densities


@lru_cache(maxsize=16)
def ball_of_degrees(bandwidth: tuple[float, ...]) -> tuple[I64, I64, float]:
    """Return the degrees a with |pi a h| <= r, which are damped least: (exponents, terms, r).

    The damping exp(-r^2 / 2) is 3e-4, unless this needs more than 4,096 terms; then r is reduced to about 4,096 terms.
    """
    d, h = len(bandwidth), np.array(bandwidth)
    # The volume of the positive part of the ball is a lower bound on the number of terms.
    volume = np.pi ** (d / 2) / gamma(d / 2 + 1) / 2**d / np.prod(np.pi * h)
    r = min(np.sqrt(2 * np.log(1 / TRUNCATION_DAMPING)), (MAX_BALL_TERMS / volume) ** (1 / d))
    while len((exponents_and_terms := ball_terms(tuple((r / (np.pi * h)).tolist())))[0]) > MAX_BALL_TERMS:
        r *= 0.99
    return *exponents_and_terms, float(r)


def min_ball_bandwidth(d: int) -> float:
    """Return the smallest bandwidth in d >= 4 for which omitted degrees are damped to 1 % or less."""
    r = ball_of_degrees((1e-2,) * d)[2]
    return 1e-2 * float(np.sqrt(2 * np.log(100))) / r


@serializable("UniformNodesSpec")
@dataclass(frozen=True)
class UniformNodesSpec(DivergenceSpec):
    """A `DivergenceSpec` with ``n_uniform`` random nodes from ``seed``.

    Rows are coefficients of the cosines given by ``n_basis`` and ``order``; with order 0, values at the nodes.
    """

    n_uniform: int = 4000
    seed: int = 0

    def column_names(self, names: Sequence[str]) -> None:
        """Return None: columns have no names."""

    def permuted_columns(self, element: Sequence[int]) -> None:
        """Return None: symmetries do not permute random nodes."""

    def __post_init__(self) -> None:
        n_functions = len(self.functions) if self.projects else 0
        n_terms = max(n_functions, *(self._n_terms(bandwidth) for bandwidth in self.scales))
        n_numbers = n_terms * self.n_uniform
        if n_numbers > MAX_TABLE_NUMBERS:
            raise ValueError(
                f"the table of terms must have at most {MAX_TABLE_NUMBERS:.3g} entries; got {n_numbers:.3g} from "
                f"n_nodes={self.n_uniform} with n_basis={self.n_basis} and bandwidth={min(self.bandwidth):.3g}. "
                "Reduce n_nodes or n_basis, increase bandwidth, or use nodes='midpoint'."
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all densities of a set."""
        return self.n_densities * self.n_uniform

    @property
    def projects(self) -> bool:
        """Whether rows are coefficients."""
        return self.order > 0

    @property
    def functions(self) -> I64:
        """Degrees (n_functions, d) of the cosines of one density, with d = 1 for marginal densities."""
        return index_set(1 if self.structure == "marginal" else self.n_dims, self.n_basis, self.order)

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        columns = len(self.functions) if self.projects else self.n_uniform
        return self.features_per_node * len(self.scales) * self.n_densities * columns

    @property
    def is_direct(self) -> bool:
        """False: random nodes are not a grid."""
        return False

    def nodes(self) -> F64:
        """Return the nodes (n_uniform, d); column j holds the nodes of marginal density j."""
        return np.random.default_rng([self.seed, RngStream.NODES]).random((self.n_uniform, self.n_dims))

    def _build(self) -> UniformNodes:
        return UniformNodes(self)

    def _n_terms(self, bandwidth: tuple[float, ...]) -> float:
        spec = scale_coefficients(self, bandwidth)
        if self.structure == "tensor":
            return float(np.prod(spec.degrees))
        return float(max(spec.degrees) if self.structure == "marginal" else len(spec.exponents))


class UniformNodes(DivergenceParameters):
    """Fitted parameters of a `UniformNodesSpec`."""

    spec: UniformNodesSpec

    def __init__(self, spec: UniformNodesSpec) -> None:
        self._prepare(spec, _at_uniform_nodes)
        self._projections = _basis_tables(spec) if spec.projects else []
        self._factors = [deterministic_factor(table) for table in self._projections]

    @property
    def node_weights(self) -> F64:
        """Weights of the nodes of one density; their sum is 1."""
        return np.full(self.spec.n_uniform, 1 / self.spec.n_uniform)

    def _by_values(self, gradient: F64, i: int) -> F64:
        if not self._projections:
            return gradient
        table, k = self._projections[i % len(self._projections)], gradient.shape[1]
        return (table @ gradient.reshape(self.spec.features_per_node, -1, k)).reshape(-1, k)

    def _project(self, values: F32, column: int) -> F32:
        projections = np.empty((len(values), len(self.spec.functions)), np.float32)
        density_index = column // (self.spec.features_per_node * projections.shape[1])
        self._factors[density_index % len(self._factors)].product(values, projections)
        return projections


def _basis_tables(spec: UniformNodesSpec) -> list[F32]:
    """Return tables phi_a(u_k) / M^(1/2) of shape (M, n_functions): one joint table or d marginal tables."""
    nodes, a, tables = spec.nodes(), spec.functions, []
    axes = [nodes[:, [j]] for j in range(spec.n_dims)] if spec.structure == "marginal" else [nodes]
    for u in axes:
        phi = np.ones((len(u), len(a)))
        for j in range(u.shape[1]):
            phi *= np.cos(np.pi * np.outer(u[:, j], a[:, j])) * np.where(a[:, j] > 0, np.sqrt(2), 1)
        tables.append((phi / np.sqrt(len(u))).astype(np.float32))
    return tables


def _at_uniform_nodes(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> DensityFunction:
    """Return a function that computes joint or marginal densities at the random nodes."""
    assert isinstance(spec, UniformNodesSpec)
    nodes, scale_spec, h = spec.nodes(), scale_coefficients(spec, bandwidth), np.array(bandwidth)
    if spec.structure == "marginal":
        tables = [basis_table(nodes[:, j], int(K), bandwidth[j]).T for j, K in enumerate(scale_spec.degrees)]
    else:
        tables = [term_table(nodes, scale_spec.exponents, h)]
    return table_products(spec, [np.ascontiguousarray(table) for table in tables])
