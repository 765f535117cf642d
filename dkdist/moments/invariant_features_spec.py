"""Features averaged over symmetries of the domain: (1/|G|) sum over g of z(A(g P)) for each sample set P.

Their inner products are the kernel averaged over the group, k(P, Q) = mean over g, h of k(gP, hQ): sets that differ
by a symmetry are the same set. One set of features is alive beside the sum, whatever the order of the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Domain, Specification, Tables
from dkdist.base.influence import influences
from dkdist.loops.array_types import F32, F64, I64
from dkdist.moments.symmetry import Element, moved
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class InvariantSpec(Specification["InvariantParameters"]):
    """An embedding, features of its rows (None: the rows themselves), and the group that they are averaged over.

    ``box`` is what the group is of: the embedding's domain, if it has one.
    """

    embedding: Any
    features: Any
    elements: tuple[Element, ...]
    box: Domain

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.box.n_dims

    @property
    def n_features(self) -> int:
        """Length of a set's row."""
        return int((self.features or self.embedding).n_features)

    @property
    def domain(self) -> Domain:
        """The box that the points must lie in."""
        return self.box

    def _tables(self) -> InvariantParameters:
        return InvariantParameters(self)


class InvariantParameters(Tables[InvariantSpec]):
    """Drawn tables of an `InvariantSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: InvariantSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.draw()
        self._features = spec.features and spec.features.draw()
        self._columns = [_columns(spec, element) for element in spec.elements]

    def embed(self, sets: SampleSets) -> F32:
        """Averaged rows: (n_sets, m) float32; summed in the order of the group, each set for itself."""
        total = np.zeros((len(sets), self.spec.n_features), np.float32)
        for A in self._images(sets):
            total += A if self._features is None else self._features.transform(A)
        total *= np.float32(1 / len(self.spec.elements))
        return total

    def _images(self, sets: SampleSets) -> Iterator[F32]:
        """The embedding's rows of all images: its columns in another order, where that is all."""
        known = [columns for columns in self._columns if columns is not None]
        if len(known) == len(self._columns):
            A = self._embedding.embed(sets)
            yield from (np.take(A, columns, axis=1) for columns in known)
            return
        points = self._inside(sets.relative)
        for element in self.spec.elements:
            yield self._embedding.embed(self._moved(sets, points, element))

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: summed over the group."""
        points, there = self._inside(one.relative), None if at is one.relative else self._inside(at)
        low, high = self.spec.box.arrays
        found, gradient = np.zeros((len(at), gradient.shape[1])), gradient / len(self.spec.elements)
        for element in self.spec.elements:
            image = self._moved(one, points, element)
            by_row = self._by_row(image, gradient, None)
            elsewhere = None if there is None else moved(there, element, low, high)
            found += influences(self._embedding, image, by_row, elsewhere)
        return found

    def inner_rows(self, sets: SampleSets) -> F32:
        """Rows before features of the images of some sets: (n_elements, n_sets, m)."""
        points = self._inside(sets.relative)
        images = (self._moved(sets, points, element) for element in self.spec.elements)
        return np.stack([self._embedding.embed(image) for image in images])

    def path_influence(self, one: SampleSets, starts: F32, gradient: F64) -> F64:
        """(n, k) influence of the set's own points, features being averaged over the paths from starts to its images.

        ``starts`` (n_elements, k, m) are rows before features, one for each element and function.
        """
        points, n_elements = self._inside(one.relative), len(self.spec.elements)
        total = np.zeros((one.n_points, gradient.shape[1]))
        for element, own_starts in zip(self.spec.elements, starts, strict=True):
            image = self._moved(one, points, element)
            by_row = self._by_row(image, gradient / n_elements, own_starts)
            total += influences(self._embedding, image, by_row)
        return total

    def _by_row(self, image: SampleSets, gradient: F64, starts: F32 | None) -> F64:
        """Derivatives by the image's row before features."""
        if self._features is None:
            return gradient
        return np.asarray(self._features.pull_back(self._embedding.embed(image)[0], gradient, starts))

    def _inside(self, points: F32) -> F32:
        """Points outside the box at its wall."""
        low, high = self.spec.box.arrays
        return np.clip(points, low, high).astype(np.float32, copy=False)

    def _moved(self, sets: SampleSets, points: F32, element: Element) -> SampleSets:
        """The sets with these points under a symmetry."""
        image = moved(points, element, *self.spec.box.arrays)
        return SampleSets._trusted(image, sets.offsets, sets.weights, None, sets.origin)


def _columns(spec: InvariantSpec, element: Element) -> I64 | None:
    """Which columns the image's row has, of an embedding that knows, on its own box."""
    moved = getattr(spec.embedding, "moved_columns", None)
    return None if moved is None or spec.embedding.domain != spec.box else moved(element)
