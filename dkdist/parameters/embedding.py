"""What every embedding of sample sets is made of: a record of plain numbers, and the tables drawn from it.

A specification can be compared, hashed, stored as JSON and sent in a graph; ``draw`` makes the tables it stands
for, the same in every process. A set's row depends on that set alone, bit for
bit on processors of one kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dkdist.parameters.domain import Domain
from dkdist.sets import SampleSets

Piece = tuple[NDArray[np.float32], NDArray[np.float32] | None]
"""Points (m, d) and their weights (m,), if they have any."""


class EmbeddingParameters(Protocol):
    """Drawn tables of a specification; immutable, shared by all blocks."""

    @property
    def spec(self) -> EmbeddingSpec:
        """What these tables were drawn from."""

    def embed(self, sets: SampleSets) -> NDArray[np.float32]:
        """Rows of the embedding: (n_sets, m) float32."""


@runtime_checkable
class Selective(Protocol):
    """A specification that refuses some sets for reasons of its own, beside their weights and its domain."""

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` naming the first set that cannot be embedded; ``first`` is the position of set 0."""


@runtime_checkable
class Additive(Protocol):
    """Tables whose rows are sums over points, so that a set may come in pieces of points and their weights."""

    @property
    def spec(self) -> EmbeddingSpec:
        """What these tables were drawn from."""

    def embed_pieces(self, pieces: Iterable[Piece], n_points: int, weight: float) -> NDArray[np.float32]:
        """The row (m,) of one set of known size and total weight: the same bits as of all its points at once."""


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

    def draw(self) -> EmbeddingParameters:
        """The tables of this embedding; drawn once in a process."""
