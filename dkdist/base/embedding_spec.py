"""What every embedding of sample sets is made of: a record of plain numbers, the tables drawn from it, and its domain.

A specification can be compared, hashed, stored as JSON and sent in a graph; ``draw`` makes the tables it stands
for, the same in every process. A set's row depends on that set alone, bit for bit on processors of one kind. A domain
is the box that densities live on, scaled to the unit cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Generic, Protocol, Self, TypeGuard, TypeVar

import numpy as np

from dkdist.loops.array_types import F32, I64
from dkdist.loops.points import count_outside
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets

LEAST_WIDTH, MOST_WIDTH = 1e-37, 1e37  # of a dimension: 1 / width is a float32, unless it is flat


@kept
@dataclass(frozen=True)
class Domain:
    """A box; ``fixed`` ones refuse points outside, others (chosen from the data) clip them to the wall.

    ``ordinary`` is the share of points that may lie outside before anybody is told.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    fixed: bool
    ordinary: float = 0.0

    @property
    def n_dims(self) -> int:
        """The dimension d of the box."""
        return len(self.low)

    def of(self, dims: tuple[int, ...]) -> Domain:
        """The box of some of its dimensions."""
        low, high = (tuple(side[j] for j in dims) for side in (self.low, self.high))
        return Domain(low, high, self.fixed, self.ordinary)

    @property
    def arrays(self) -> tuple[F32, F32]:
        """(low, high), each (d,) float32."""
        return np.array(self.low, np.float32), np.array(self.high, np.float32)

    @property
    def low_and_scale(self) -> tuple[F32, F32]:
        """low and 1 / (high - low), each (d,) float32; a flat dimension has scale 0 and sits at the lower wall."""
        low, _ = self.arrays
        width = np.array(self.high) - np.array(self.low)
        wide = width > LEAST_WIDTH
        return low, np.divide(1, width, out=np.zeros_like(width), where=wide).astype(np.float32)

    def expected_outside(self, n_points: int) -> float:
        """How many of some points may lie outside by chance (three standard deviations) before anybody is told."""
        expected = self.ordinary * n_points
        return expected + 3 * float(np.sqrt(expected))

    def outside(self, sets: SampleSets) -> I64:
        """Number of points of each set that lie outside the box: (n_sets,)."""
        low, high = self.arrays
        return count_outside(sets.relative, sets.offsets, low, high)


T = TypeVar("T")
S = TypeVar("S", bound=Any)


class Specification(Generic[T]):
    """Base of parameters of embeddings: frozen dataclasses of plain numbers.

    A subclass has a method ``embed``, or ``_tables`` gives an object that has one and holds larger arrays.
    """

    _kept = 16  # tables of a class, those drawn last; 0 for what is costly to compare

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` for the first set that has no row; ``first`` is the position of set 0."""

    @property
    def spec(self) -> Self:
        """Themselves: parameters without tables are their own."""
        return self

    def draw(self) -> T:
        """The tables it stands for; drawn once in a process."""
        kind: Any = type(self)
        made: T = _cached(kind)(self)
        return made

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Names of the columns of a row, from those of the dimensions; None where a column is of several."""
        return None

    def _tables(self) -> T:
        return self  # type: ignore[return-value]


def numbered(names: Sequence[str], n_columns: int) -> list[str]:
    """NAME_0, NAME_1, ... of each dimension after the other, as many of each."""
    return [f"{name}_{k}" for name in names for k in range(n_columns // len(names))]


class AroundEmbedding(Specification[T]):
    """A specification around that of an embedding, whose dimensions and columns it has."""

    embedding: Any

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return int(self.embedding.n_dims)

    @property
    def n_features(self) -> int:
        """Length of a set's row."""
        return int(self.embedding.n_features)

    @property
    def ordered(self) -> bool:
        """Whether the order of a set's points may matter to the embedding."""
        return bool(getattr(self.embedding, "ordered", False))


@cache
def _cached(kind: Any) -> Any:
    return lru_cache(kind._kept)(kind._tables)


class Tables(Generic[S]):
    """Base of what is drawn from a specification; immutable, shared by all blocks."""

    spec: S

    def __reduce__(self) -> tuple[Any, ...]:
        # plain numbers travel; whoever needs the tables makes them again
        return Specification.draw, (self.spec,)


class EmbeddingParameters(Protocol):
    """Drawn tables of a specification; immutable, shared by all blocks."""

    @property
    def spec(self) -> EmbeddingSpec:
        """What these tables were drawn from."""

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""


class RowSum(Protocol):
    """A row in the making, of one set that comes in pieces."""

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""

    def row(self) -> F32:
        """The row (m,), after the last: the same bits as of all points at once."""


class Additive(EmbeddingParameters, Protocol):
    """Tables whose rows follow from sums over points, so that a set may come in pieces."""

    def row_sum(self, n_points: int, weight: float) -> RowSum:
        """The row of one set of known size and total weight, before its first piece."""


def is_additive(parameters: Any) -> TypeGuard[Additive]:
    """Whether tables are `Additive`: a comparison with the protocol takes as long as ten sets."""
    return hasattr(parameters, "row_sum")


class EmbeddingSpec(Protocol):
    """What defines an embedding, in plain numbers (a frozen dataclass)."""

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""

    @property
    def domain(self) -> Domain | None:
        """The box that the points must lie in; None if they may lie anywhere."""

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` for the first set that has no row; ``first`` is the position of set 0."""

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Names of the columns of a row, from those of the dimensions; None where a column is of several."""

    def draw(self) -> EmbeddingParameters:
        """The tables of this embedding; drawn once in a process."""
