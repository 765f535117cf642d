"""What the parameter ``structure`` of embeddings by densities asks for, and the columns that it is asked of.

Rows of several embeddings side by side, each of some dimensions: squared distances are weighted sums of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.influence import influences
from dkdist._base.inputs import Sets
from dkdist._base.params import Domain, FittedParams, Params, RowSum
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.serialization import serializable
from dkdist.sets import SampleSets

Dims = tuple[int, ...]


@serializable("Part")
@dataclass(frozen=True)
class FeatureBlock:
    """The embedding ``spec`` of the dimensions ``dims`` alone; its squared distances count ``weight`` times."""

    dims: Dims
    spec: Any
    weight: float = 1.0

    def __post_init__(self) -> None:
        if len(set(self.dims)) < len(self.dims) or len(self.dims) != self.spec.n_dims:
            raise ValueError(f"dims must be {self.spec.n_dims} different dimensions; found {self.dims!r:.80}")
        if not 0 < self.weight < np.inf:
            raise ValueError(f"weight must be a positive number; found {self.weight!r:.80}")

    @property
    def scale(self) -> np.float32:
        """What its rows are multiplied by."""
        return np.float32(np.sqrt(self.weight))

    def of_sets(self, sets: SampleSets) -> SampleSets:
        """The sets, with its dimensions alone."""
        return columns_of(sets, self.dims)


@serializable("SideBySideSpec")
@dataclass(frozen=True)
class FeatureUnionParams(Params["FeatureUnion"]):
    """What defines rows side by side on a box, in plain numbers; ``draw()`` makes the tables of each part."""

    domain: Domain
    parts: tuple[FeatureBlock, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            if not all(0 <= j < self.n_dims for j in part.dims) or part.spec.domain != self.domain.of(
                part.dims
            ):
                raise ValueError(
                    f"a part has the dimensions {part.dims!r:.80}, or a box, that are not of these points"
                )
        if not self.parts:
            raise ValueError("parts must be one or more")

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return sum(int(part.spec.n_features) for part in self.parts)

    def _build(self) -> FeatureUnion:
        return FeatureUnion(self)


class FeatureUnion(FittedParams[FeatureUnionParams]):
    """Drawn tables of a `FeatureUnionParams`; immutable, shared by all blocks."""

    def __init__(self, spec: FeatureUnionParams) -> None:
        self.spec = spec
        self._drawn = [part.spec.materialize() for part in spec.parts]

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the parts, one beside the other: (n_sets, m) float32."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        for part, drawn, columns in self._columns():
            np.multiply(drawn.embed(part.of_sets(sets)), part.scale, out=out[:, columns])
        return out

    def row_sum(self, n_points: int, weight: float) -> SummedSide:
        """The row (m,) of one set that comes in pieces: the same bits as of all at once."""
        return SummedSide([(part, drawn.row_sum(n_points, weight)) for part, drawn, _ in self._columns()])

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d): the sum of the parts', each by its own columns."""
        out = np.zeros((len(at), gradient.shape[1]))
        for part, drawn, columns in self._columns():
            there = None if at is one.relative else np.ascontiguousarray(at[:, list(part.dims)])
            out += influences(drawn, part.of_sets(one), float(part.scale) * gradient[columns], there)
        return out

    def _columns(self) -> Iterator[tuple[FeatureBlock, Any, slice]]:
        """Each part, its tables, and where its columns are."""
        start = 0
        for part, drawn in zip(self.spec.parts, self._drawn, strict=True):
            stop = start + int(part.spec.n_features)
            yield part, drawn, slice(start, stop)
            start = stop


class SummedSide:
    """Rows of the parts in the making, of one set that comes in pieces."""

    def __init__(self, sums: Sequence[tuple[FeatureBlock, RowSum]]) -> None:
        self._sums = sums

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        for part, own in self._sums:
            own.add(np.ascontiguousarray(points[:, list(part.dims)]), weights)

    def row(self) -> F32:
        """The row (m,), after the last."""
        return np.concatenate([own.row() * part.scale for part, own in self._sums])


def parts_of(spec: Any) -> tuple[FeatureBlock, ...]:
    """The parts of a specification: itself, of all dimensions, where nothing stands side by side."""
    return (
        spec.parts
        if isinstance(spec, FeatureUnionParams)
        else (FeatureBlock(tuple(range(spec.n_dims)), spec),)
    )


def columns_of(sets: SampleSets, dims: Dims) -> SampleSets:
    """The sets, with some of their dimensions."""
    if dims == tuple(range(sets.n_dims)):
        return sets
    points = np.empty((len(sets.relative), len(dims)), np.float32)
    for column, dim in enumerate(dims):  # ten times as fast as one index of all
        points[:, column] = sets.relative[:, dim]
    return SampleSets._trusted(points, sets.offsets, sets.weights, None, sets.origin[list(dims)])


STRUCTURES = ("auto", "joint", "marginal", "pairs")
MOST_TENSOR_DIMS = 3


@dataclass(frozen=True)
class StructureSpec:
    """One ``kind`` of density, "joint" or "marginal", or "pairs": dimensions ``alone``, and ``together`` some of them.

    ``together`` is None where the data are to say which.
    """

    kind: str
    alone: Dims
    together: tuple[Dims, ...] | None = ()


@dataclass(frozen=True)
class Columns:
    """Sets, of which the dimensions ``dims`` are left, that a density of this ``kind`` is chosen by.

    ``most`` is how many nodes a dimension may have; None for as many as an embedding takes by itself.
    """

    sets: Sets
    bad: I64
    domain: Domain
    dims: Dims
    kind: str
    most: int | None = None


def listed_structure(given: Any, d: int) -> StructureSpec:
    """A list of dimensions and of groups of them; without single dimensions, all stand alone beside the groups."""
    groups = [_group(one, d) for one in given] if isinstance(given, Sequence) else []
    if not groups or None in groups or len({frozenset(g) for g in groups if g}) < len(groups):
        raise ValueError(
            f"structure must be one of {', '.join(map(repr, STRUCTURES))}, or a list of different pairs such as "
            f"[(0, 1), (2, {max(d - 1, 3)})], single dimensions and groups of three, of dimensions 0 to {d - 1}; found "
            f"{given!r:.200}"
        )
    alone = tuple(g[0] for g in groups if g is not None and len(g) == 1)
    together = tuple(g for g in groups if g is not None and len(g) > 1)
    return StructureSpec("pairs", alone or tuple(range(d)), together)


def _group(given: Any, d: int) -> Dims | None:
    """Up to three different dimensions, or one; None for anything else."""
    try:
        numbers = np.atleast_1d(np.asarray(given))
    except ValueError:  # of unequal lengths
        return None
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not 1 <= len(numbers) <= MOST_TENSOR_DIMS:
        return None
    dims = tuple(int(j) for j in numbers)
    return dims if all(0 <= j < d for j in dims) and len(set(dims)) == len(dims) else None
