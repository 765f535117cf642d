"""Protocol of transforms that a `SetStore` applies to the sets it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dkdist.sets import SampleSets
from dkdist.sets.labels import Names


class LazyTransform(Protocol):
    """Set-wise transform that keeps the number of points: small, immutable, pickled with its view."""

    @property
    def label(self) -> str:
        """Name in the repr of the view."""

    @property
    def token(self) -> str:
        """Token that is equal for equal transforms."""

    @property
    def n_features(self) -> int:
        """Dimension of the transformed points."""

    def names_of(self, names: Names | None) -> Names | None:
        """Return the output names of dimensions for input names."""

    def apply(self, sets: SampleSets) -> SampleSets:
        """Transform sets to float32 sets with the same ids, targets, numbers of points and weights."""

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> LazyTransform:
        """Return the transform for the pieces of one set of n_points points."""
