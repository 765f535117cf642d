"""The parameter ``structure`` of density embeddings, and rows that concatenate embeddings of subsets of dimensions.

Squared distances between concatenated rows are weighted sums of the squared distances between their blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.influence import point_influences
from dkdist._base.inputs import Sets
from dkdist._base.params import Domain, FittedParams, Params, RowSum
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.serialization import serializable
from dkdist.sets import SampleSets

Dims = tuple[int, ...]


@serializable("Part")
@dataclass(frozen=True)
class FeatureBlock:
    """Embedding ``spec`` of the dimensions ``dims``; ``weight`` multiplies its squared distances."""

    dims: Dims
    spec: Any
    weight: float = 1.0

    def __post_init__(self) -> None:
        if len(set(self.dims)) < len(self.dims) or len(self.dims) != self.spec.n_dims:
            raise ValueError(f"dims must be {self.spec.n_dims} distinct dimensions; got {self.dims!r:.80}")
        if not 0 < self.weight < np.inf:
            raise ValueError(f"weight must be a positive number; got {self.weight!r:.80}")

    @property
    def scale(self) -> np.float32:
        """Factor of the rows: the square root of the weight."""
        return np.float32(np.sqrt(self.weight))

    def select(self, sets: SampleSets) -> SampleSets:
        """Return the sets with the dimensions of this block."""
        return select_dims(sets, self.dims)


@serializable("SideBySideSpec")
@dataclass(frozen=True)
class FeatureUnionParams(Params["FeatureUnion"]):
    """Parameters of rows that concatenate ``parts``, each on a subset of the dimensions of ``domain``."""

    domain: Domain
    parts: tuple[FeatureBlock, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            if not all(0 <= j < self.n_dims for j in part.dims) or part.spec.domain != self.domain.select(
                part.dims
            ):
                raise ValueError(
                    f"parts must share the domain and use dimensions below {self.n_dims}; got {part.dims!r:.80}"
                )
        if not self.parts:
            raise ValueError("parts must contain at least 1 part; got none")

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return self.domain.n_dims

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return sum(int(part.spec.n_features) for part in self.parts)

    def _build(self) -> FeatureUnion:
        return FeatureUnion(self)


class FeatureUnion(FittedParams[FeatureUnionParams]):
    """Fitted parameters of a `FeatureUnionParams`."""

    def __init__(self, spec: FeatureUnionParams) -> None:
        self.spec = spec
        self._fitted = [part.spec.materialize() for part in spec.parts]

    def embed(self, sets: SampleSets) -> F32:
        """Return the concatenated rows of the parts: (n_sets, m) float32."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        for part, fitted, columns in self._columns():
            np.multiply(fitted.embed(part.select(sets)), part.scale, out=out[:, columns])
        return out

    def row_sum(self, n_points: int, weight: float) -> FeatureUnionSum:
        """Return an accumulator for the row (m,) of one set that is read in pieces."""
        return FeatureUnionSum(
            [(part, fitted.row_sum(n_points, weight)) for part, fitted, _ in self._columns()]
        )

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d): the sum over parts."""
        out = np.zeros((len(at), gradient.shape[1]))
        for part, fitted, columns in self._columns():
            part_points = None if at is one.relative else np.ascontiguousarray(at[:, list(part.dims)])
            out += point_influences(
                fitted, part.select(one), float(part.scale) * gradient[columns], part_points
            )
        return out

    def _columns(self) -> Iterator[tuple[FeatureBlock, Any, slice]]:
        start = 0
        for part, fitted in zip(self.spec.parts, self._fitted, strict=True):
            stop = start + int(part.spec.n_features)
            yield part, fitted, slice(start, stop)
            start = stop


class FeatureUnionSum:
    """Accumulator for the row of one set that is read in pieces."""

    def __init__(self, sums: Sequence[tuple[FeatureBlock, RowSum]]) -> None:
        self._sums = sums

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""
        for part, row_sum in self._sums:
            row_sum.add(np.ascontiguousarray(points[:, list(part.dims)]), weights)

    def row(self) -> F32:
        """Return the row (m,) of all points added."""
        return np.concatenate([row_sum.row() * part.scale for part, row_sum in self._sums])


def feature_blocks(spec: Any) -> tuple[FeatureBlock, ...]:
    """Return the parts of the parameters; parameters without parts form one block of all dimensions."""
    return (
        spec.parts
        if isinstance(spec, FeatureUnionParams)
        else (FeatureBlock(tuple(range(spec.n_dims)), spec),)
    )


def select_dims(sets: SampleSets, dims: Dims) -> SampleSets:
    """Return the sets with the dimensions ``dims``."""
    if dims == tuple(range(sets.n_dims)):
        return sets
    points = np.empty((len(sets.relative), len(dims)), np.float32)
    for column, dim in enumerate(dims):  # ten times faster than fancy indexing
        points[:, column] = sets.relative[:, dim]
    return SampleSets._trusted(points, sets.offsets, sets.weights, None, sets.origin[list(dims)])


STRUCTURES = ("auto", "joint", "marginal", "pairs")
MAX_TENSOR_DIMS = (
    3  # tensor grids of more dimensions are too large (tests/densities/test_divergence_embedding.py)
)


@dataclass(frozen=True)
class StructureSpec:
    """Validated parameter ``structure``: "joint", "marginal", or "pairs" with single dimensions and groups.

    ``groups`` is None if the pairs are selected from the data.
    """

    kind: str
    singles: Dims
    groups: tuple[Dims, ...] | None = ()


@dataclass(frozen=True)
class ColumnSubset:
    """Sets restricted to the dimensions ``dims``, from which the parameters of a density of this ``kind`` are chosen.

    ``bad`` holds the positions of invalid sets. ``max_nodes`` limits the nodes per dimension; None is the default
    limit.
    """

    sets: Sets
    bad: I64
    domain: Domain
    dims: Dims
    kind: str
    max_nodes: int | None = None


def parse_structure_list(structure: Any, d: int) -> StructureSpec:
    """Parse a list of dimensions and groups; without single dimensions, all dimensions are included as singles."""
    parsed = [_parse_group(entry, d) for entry in structure] if isinstance(structure, Sequence) else []
    if not parsed or None in parsed or len({frozenset(g) for g in parsed if g}) < len(parsed):
        raise ValueError(
            f"structure must be one of {', '.join(map(repr, STRUCTURES))}, or a list of distinct dimensions (0 to "
            f"{d - 1}), pairs and groups of three, such as [0, (0, 1), (2, {max(d - 1, 3)})]; got {structure!r:.200}"
        )
    singles = tuple(g[0] for g in parsed if g is not None and len(g) == 1)
    groups = tuple(g for g in parsed if g is not None and len(g) > 1)
    return StructureSpec("pairs", singles or tuple(range(d)), groups)


def _parse_group(entry: Any, d: int) -> Dims | None:
    """Return a tuple of one to three distinct dimensions, or None if ``entry`` is invalid."""
    try:
        numbers = np.atleast_1d(np.asarray(entry))
    except ValueError:  # ragged sequences
        return None
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not 1 <= len(numbers) <= MAX_TENSOR_DIMS:
        return None
    dims = tuple(int(j) for j in numbers)
    return dims if all(0 <= j < d for j in dims) and len(set(dims)) == len(dims) else None
