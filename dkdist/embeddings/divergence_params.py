"""Divergence embeddings at random nodes: P1's coefficients, each a mean over uniform points of the cube (its Eq. 10).

    a~ = 1/M sum_k phi_a(u_k) f(u_k),   f = w^(1/2) p^(1/2 + i l),   u_k uniform on [0, 1]^d, the same for all sets

E a~ is the coefficient of f, and its variance falls as 1 / M, so that squared distances are too long by the sum of the
variances of differences (`dkdist.theory.hdd_terms.sampled_integrals` bounds it). Without a basis (order 0) rows are
the values at the nodes, whose squared distances are unbiased.

Parameters of divergence embeddings: sample sets -> rows whose squared distances are divergences (P1).

    points --cosine coefficients--> C --damping, nodes--> density p(x_k) --p^(1/2 + i l_j)--> row of features
    points --of one bandwidth, in two or three dimensions--> density p(x_k)

A `DivergenceSpec` is a record of plain numbers: it can be compared, hashed, stored as JSON and sent in a
graph. `draw` makes the tables it stands for; every process that needs them draws its own and gets the same.
With k bandwidths, the rows of each stand side by side over sqrt(k): squared distances are the mean over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from math import gamma, prod

import numpy as np

from dkdist._base.influence import each_alone
from dkdist._base.params import Domain, Params, numbered
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import read_only
from dkdist._numba.products import deterministic_factor
from dkdist._utils.serialization import serializable
from dkdist.embeddings._density_numba import (
    FLOOR,
    TAIL,
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
from dkdist.embeddings.coefficients import CoefficientSpec, OfCoefficients, tiles, widest
from dkdist.embeddings.nodes import folded_lattice, index_set, midpoints, projection, tensor_weights
from dkdist.sets import SampleSets

MOST_TERMS = 4096  # of a ball of degrees, d >= 4
STRAIGHT_AT_ONCE = (
    1024  # sets whose densities are made at once: few calls of loops, and no coefficients to keep
)
MOST_STRAIGHT = 8192  # points of a set whose densities come straight from them: for more a grid is cheaper


@serializable("DivergenceSpec")
@dataclass(frozen=True)
class DivergenceSpec(Params["DivergenceParameters"]):
    """What defines a divergence embedding, in plain numbers; ``draw()`` makes the tables.

    ``structure`` is "tensor" (d <= 3), "ball" (d >= 4) or "marginal" (each dimension alone). ``bandwidth`` holds
    one number for each dimension, or k times as many: of one scale after the other. A row holds values at the nodes,
    or with an ``order`` > 0 their projections on the cosines of that index set (see
    `dkdist.embeddings.nodes`).
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
        """The dimension d of the points."""
        return self.domain.n_dims

    @property
    def parts(self) -> int:
        """Real features per node: one for a zero frequency, two for any other."""
        return n_parts(self.frequencies)

    @property
    def n_densities(self) -> int:
        """Densities of a set: one, or those of its dimensions."""
        return self.n_dims if self.structure == "marginal" else 1

    @property
    def n_nodes(self) -> int:
        """Nodes at which densities are evaluated, over all dimensions if they are taken alone."""
        if self.structure == "marginal":
            return self.n_dims * self.n_basis
        return lattice_size(self.n_basis) if self.structure == "ball" else self.n_basis**self.n_dims

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return self.parts * len(self.scales) * (len(self.projection[1]) if self.projects else self.n_nodes)

    @property
    def projects(self) -> bool:
        """Whether rows are shorter than the values at the nodes: in one dimension V holds as many functions."""
        return self.order > 0 and self.structure == "tensor"

    @property
    def projection(self) -> tuple[F32, I64]:
        """What projects values at a tensor grid of nodes (of one dimension, if taken alone) on V."""
        d = 1 if self.structure == "marginal" else self.n_dims
        return projection(d, self.n_basis, self.order)

    @property
    def scales(self) -> tuple[tuple[float, ...], ...]:
        """The bandwidths of each scale: k times d numbers."""
        d = self.n_dims
        return tuple(self.bandwidth[i : i + d] for i in range(0, len(self.bandwidth), d))

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """NAME_0, NAME_1, ... of each dimension, if each is taken alone and there is one bandwidth."""
        alone = self.structure == "marginal" and len(self.scales) == 1
        return numbered(names, self.n_features) if alone else None

    def moved_columns(self, element: Sequence[int]) -> I64 | None:
        """Which columns of a set's row make that of its image under a symmetry of the box; None if that is no order.

        Midpoints lie in the box as their images do (`dkdist.embeddings.invariant_features` says what an element is).
        """
        sources = [abs(signed) - 1 for signed in element]
        alike = all(scale[j] == scale[p] for scale in self.scales for j, p in enumerate(sources))
        if self.structure != "tensor" or self.order or not alike:
            return None
        nodes = np.arange(self.n_nodes).reshape((self.n_basis,) * self.n_dims).transpose(sources)
        moved = np.flip(nodes, tuple(j for j, signed in enumerate(element) if signed < 0)).ravel()
        blocks = np.arange(self.parts * len(self.scales))[:, None] * self.n_nodes
        return (blocks + moved).ravel()

    @property
    def coefficients(self) -> CoefficientSpec:
        """The cosine coefficients that all scales need of the points."""
        return widest([coefficients_of(self, bandwidth) for bandwidth in self.scales])

    @property
    def straight(self) -> bool:
        """Whether densities come straight from the points: of one bandwidth, on a grid in a plane or in space."""
        return self.structure == "tensor" and self.n_dims > 1 and self.n_basis > 2 and len(self.scales) == 1

    def _build(self) -> DivergenceParameters:
        return DivergenceParameters(self)


def lattice_size(n_basis: int) -> int:
    """Nodes from four dimensions on: the power of two nearest to n_basis^3."""
    return int(2 ** round(3 * np.log2(n_basis)))


class DivergenceParameters(OfCoefficients[DivergenceSpec]):
    """Drawn tables of a `DivergenceSpec`. ``embed`` takes about 3 us a set for d = 2, n = 200 at the defaults."""

    def __init__(self, spec: DivergenceSpec) -> None:
        self._prepare(spec, _on_lattice if spec.structure == "ball" else _at_midpoints)
        self._projection = spec.projection if spec.order else None

    def _prepare(self, spec: DivergenceSpec, at_nodes: AtNodes) -> None:
        self.spec = spec
        self._frequencies, self._masses = np.array(spec.frequencies), np.array(spec.masses)
        self._coefficients = spec.coefficients.materialize()
        self._scales = [
            (coefficients_of(spec, bandwidth), at_nodes(spec, bandwidth)) for bandwidth in spec.scales
        ]
        self._straight = straight_densities(spec) if spec.straight else None
        self._node_weights = read_only(self.node_weights)

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32. Points outside the domain count at its wall."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        at_once = self._coefficients.spec.sets_at_once if self._straight is None else STRAIGHT_AT_ONCE
        for tile, spans in tiles(sets, at_once):
            self._write_all(self._densities(sets, spans), out[tile])
        return out

    def densities(self, sets: SampleSets) -> F32:
        """Densities at the nodes, floored at 1e-6: (n_sets, 1, n_nodes), or (n_sets, d, n_basis) marginal ones.

        They are those of the first bandwidth, on the unit cube; `node_weights` integrates one. A set's row depends
        on that set alone.
        """
        n = self.spec.n_densities
        out = np.empty((len(sets), n, self.spec.n_nodes // n), np.float32)
        for tile, spans in tiles(sets):
            for j, (density, _) in enumerate(islice(self._densities(sets, spans), n)):
                out[tile, j] = np.maximum(density, np.float32(FLOOR))
        return out

    @property
    def node_weights(self) -> F64:
        """The quadrature weights of the nodes of one density; they sum to one."""
        n = self.spec.n_basis if self.spec.structure == "marginal" else self.spec.n_nodes
        return np.full(n, 1 / n)  # every rule here has equal weights

    def _fill(self, C: F32, of: CoefficientSpec, rows: F32) -> None:
        self._write_all(self._of_coefficients(C, of), rows)

    def _write_all(self, densities: Iterator[tuple[F32, F64]], rows: F32) -> None:
        column = 0
        for density, weights in densities:
            column += self._write(density, weights, rows, column)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: by the densities that they add at the nodes."""
        singles, out = each_alone(one, at), np.zeros((len(at), gradient.shape[1]))
        slopes = self._slopes(one, gradient)
        for tile, spans in tiles(singles):
            for (density, _), slope in zip(self._densities(singles, spans), slopes, strict=True):
                out[tile] += density @ slope
        return out

    def _slopes(self, one: SampleSets, gradient: F64) -> list[F64]:
        """Derivatives by each density of the set at its nodes, (n_nodes, k)."""
        made = list(self._densities(one, one.offsets.reshape(1, 2)))
        by_density = gradient.reshape(len(made), -1, gradient.shape[1])
        return [
            amplitude_slopes(p[0], weights, self._frequencies, self._masses, self._by_values(own, i))
            for i, ((p, weights), own) in enumerate(zip(made, by_density, strict=True))
        ]

    def _densities(self, sets: SampleSets, spans: I64) -> Iterator[tuple[F32, F64]]:
        """Every density of the sets at ``spans`` with its nodes' weights, in the order of the columns."""
        if self._straight is None:
            yield from self._of_coefficients(self._coefficients.of(sets, spans), self._coefficients.spec)
            return
        small = spans[:, 1] - spans[:, 0] <= MOST_STRAIGHT
        if small.all():
            yield self._straight(sets, spans), self._node_weights
            return
        p = np.empty((len(spans), self.spec.n_nodes), np.float32)
        p[small] = self._straight(sets, spans[small])
        C = self._coefficients.of(sets, spans[~small])
        ((p[~small], weights),) = self._of_coefficients(C, self._coefficients.spec)
        yield p, weights

    def _of_coefficients(self, C: F32, of: CoefficientSpec) -> Iterator[tuple[F32, F64]]:
        """The same from coefficients that hold all that are needed."""
        for needed, densities in self._scales:
            yield from densities(needed.cut(C, of))

    def _by_values(self, gradient: F64, i: int) -> F64:
        """Derivatives by the values at the nodes of density i, from those by its columns: the transposed projection."""
        if self._projection is None:
            return gradient
        table, index = self._projection
        dims = 1 if self.spec.structure == "marginal" else self.spec.n_dims
        k, n = gradient.shape[1], len(table) ** dims
        values = np.zeros((self.spec.parts, k, n), np.float32)
        values[:, :, index] = gradient.reshape(self.spec.parts, len(index), k).transpose(0, 2, 1)
        transposed = [np.ascontiguousarray(table.T)] * dims
        made = tensor_density(values.reshape(-1, n), transposed).astype(np.float64)
        return made.reshape(self.spec.parts, k, n).transpose(0, 2, 1).reshape(-1, k)

    def _write(self, density: F32, weights: F64, rows: F32, column: int) -> int:
        """Fill columns of ``rows`` from ``column`` on; returns how many."""
        if not self.spec.order:
            homogeneous_features(density, weights, self._frequencies, self._masses, rows, column)
            return self.spec.parts * len(weights)
        values = np.empty((len(rows), self.spec.parts * len(weights)), np.float32)
        homogeneous_features(density, weights, self._frequencies, self._masses, values)
        made = self._projected(values.reshape(-1, len(weights)), column).reshape(len(rows), -1)
        rows[:, column : column + made.shape[1]] = made
        return int(made.shape[1])

    def _projected(self, values: F32, column: int) -> F32:
        """Projections of functions (n, n_nodes) whose first column in a row is ``column``."""
        assert self._projection is not None
        table, index = self._projection
        dims = 1 if self.spec.structure == "marginal" else self.spec.n_dims
        return np.take(tensor_density(values, [table] * dims), index, axis=1)


def coefficients_of(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> CoefficientSpec:
    """The coefficients of one scale: what its Gaussian damps least."""
    if spec.structure == "ball":
        axes = ball_of_degrees(bandwidth)[2] / (np.pi * np.array(bandwidth))
        return CoefficientSpec(spec.domain, "ball", tuple(axes.tolist()))
    return CoefficientSpec(spec.domain, spec.structure, tuple(map(degree_for, bandwidth)))


def straight_densities(spec: DivergenceSpec) -> Callable[[SampleSets, I64], F32]:
    """What makes densities (n_spans, n_nodes) straight from the points."""
    series = node_series(spec.n_basis, tuple(map(degree_for, spec.bandwidth)), spec.bandwidth)
    low, scale = spec.domain.low_and_scale

    def densities(sets: SampleSets, spans: I64) -> F32:
        return densities_at_nodes(sets.relative, spans, sets.weights, low, scale, series)

    return densities


# densities at the nodes, with the nodes' weights over the number of scales
Densities = Callable[[F32], Iterator[tuple[F32, F64]]]
AtNodes = Callable[[DivergenceSpec, tuple[float, ...]], Densities]


def _at_midpoints(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> Densities:
    """Joint densities on the tensor grid of midpoints, or the density of each dimension."""
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


def _on_lattice(spec: DivergenceSpec, bandwidth: tuple[float, ...]) -> Densities:
    """Joint densities in four and more dimensions: a ball of degrees, evaluated on a folded lattice."""
    exponents = ball_of_degrees(bandwidth)[0]
    nodes = folded_lattice(lattice_size(spec.n_basis), spec.n_dims)
    return products(spec, [term_table(nodes, exponents, np.array(bandwidth))])


def products(spec: DivergenceSpec, tables: list[F32]) -> Densities:
    """One density from each table (n_terms, n_nodes), whose terms are consecutive coefficients."""
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
    """The degrees a with |pi a h| <= r, as exponents, terms and r: what a Gaussian damps least.

    r is where its damping exp(-r^2 / 2) is 3e-4, or the largest one with at most 4,096 terms.
    """
    d, h = len(bandwidth), np.array(bandwidth)
    # fewer terms than volume / 2^d there are not
    volume = np.pi ** (d / 2) / gamma(d / 2 + 1) / 2**d / np.prod(np.pi * h)
    r = min(np.sqrt(2 * np.log(1 / TAIL)), (MOST_TERMS / volume) ** (1 / d))
    while len((found := ball_terms(tuple((r / (np.pi * h)).tolist())))[0]) > MOST_TERMS:
        r *= 0.99
    return *found, float(r)


def finest_bandwidth(d: int) -> float:
    """The least bandwidth in d >= 4 dimensions whose ball of degrees reaches a damping of 1 %."""
    r = ball_of_degrees((1e-2,) * d)[2]
    return 1e-2 * float(np.sqrt(2 * np.log(100))) / r


MOST_NUMBERS = 2**27  # of a table of terms at nodes: half a GiB


@serializable("UniformNodesSpec")
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
        return np.random.default_rng([self.seed, RngStream.NODES]).random((self.n_uniform, self.n_dims))

    def _build(self) -> UniformNodes:
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
        self._factors = [deterministic_factor(table) for table in self._projections]

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
