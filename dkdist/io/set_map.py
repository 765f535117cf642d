"""What a view does to the sets that it reads: sets to sets of as many points, each set by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dkdist.sets import SampleSets
from dkdist.sets.labels import Names


class LazyTransform(Protocol):
    """A map that a view carries: small, immutable, pickled with it."""

    @property
    def label(self) -> str:
        """Its name, for the view's repr."""

    @property
    def token(self) -> str:
        """Names what it does: equal for equal maps."""

    @property
    def n_features(self) -> int:
        """Dimensions of the points that it makes."""

    def names_of(self, names: Names | None) -> Names | None:
        """The names of the dimensions that it makes, of those of the dimensions that it takes."""

    def of_sets(self, sets: SampleSets) -> SampleSets:
        """The sets that it makes of these, with their ids and targets: as many points and weights, float32."""

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> LazyTransform:
        """The map for one set of so many points, which comes in pieces, so that it can be used on each by itself."""
